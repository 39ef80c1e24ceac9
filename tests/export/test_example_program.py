"""`example.py` beside an exported model makes the model's inputs with `tokenizers` alone, and runs without torch."""

import json
import runpy
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.export import to_onnx
from elmo_hf.export.model_graph import input_names
from elmo_hf.export.onnx_folder import pytorch_outputs
from elmo_hf.modeling.spelling_elmo import SPECIAL_CHARACTERS
from tests.bare_python import BARE, PRELUDE
from tests.export.batches import tiny_head
from tests.models import tiny_model

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "river", "was", "closed", ".", "<b>"]
CHARACTERS = [*SPECIAL_CHARACTERS, *"abcdefghijklmnopqrstuvwxyz.中é"]
TEXTS = ["He sat on the bank of the river.", "The bank was closed.", "Don't! <S> 中文 naïve 🙂", "bank", ""]

# A fresh interpreter in which the large packages, and those that only make the graph, cannot be imported.
BLOCKED = ("torch", "transformers", "elmo_hf", "onnx", "safetensors", "accelerate")
PROGRAM = f"""
import runpy, sys, json

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
example = runpy.run_path(sys.argv[1])
texts = json.loads(sys.argv[2])
inputs = example["encode"](texts)
inputs = inputs[0] if isinstance(inputs, tuple) else inputs
outputs = example["session"].run(None, inputs)
assert not set({BLOCKED!r}) & set(sys.modules), sys.modules.keys()
print(json.dumps([output.tolist() for output in outputs]))
"""


def bytes_tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer(VOCABULARY)


def many_langs_tokenizer() -> ElmoTokenizer:
    """As those of ELMoForManyLangs: code points, words that are cut, and texts with boundaries in them."""
    words = ["<bos>", "<eos>", "<oov>", "the", "bank", "ban", "<pad>"]
    options = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<oov>", "pad_token": "<pad2>"}
    return ElmoTokenizer(words, characters=CHARACTERS, max_word_length=3, boundary_words=True, **options)


CODES = {"char_vocab_size": len(CHARACTERS) + 1, "char_pad_id": CHARACTERS.index("<pad>") + 1}
CODES |= {"char_bos_id": CHARACTERS.index("<bos>") + 1, "char_eos_id": CHARACTERS.index("<eos>") + 1}
KINDS = {
    "encoder": (lambda: tiny_model(vocab_size=10), bytes_tokenizer),
    "words": (lambda: tiny_model(vocab_size=10, token_inputs="words"), bytes_tokenizer),
    "both": (lambda: tiny_model(vocab_size=10, token_inputs="both"), bytes_tokenizer),
    "many languages": (lambda: tiny_model(vocab_size=7, token_inputs="both", **CODES), many_langs_tokenizer),
    "tagger": (lambda: tiny_head(ElmoForTokenClassification, vocab_size=10), bytes_tokenizer),
    "word vectors": (
        lambda: tiny_head(ElmoForTokenClassification, vocab_size=10, word_vector_size=3, tag_decoder="crf"),
        bytes_tokenizer,
    ),
    "classifier": (lambda: tiny_head(ElmoForSequenceClassification, vocab_size=10), bytes_tokenizer),
    "pairs": (lambda: tiny_head(ElmoForSequenceClassification, vocab_size=10, text_pairs=True), bytes_tokenizer),
}


@pytest.fixture(scope="module", params=list(KINDS))
def exported(request, tmp_path_factory):
    """A model, its tokenizer and the folder of its export."""
    make_model, make_tokenizer = KINDS[request.param]
    model, tokenizer = make_model(), make_tokenizer()
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer, to_onnx(folder, folder / "onnx").folder


@pytest.fixture(scope="module")
def encode(exported):
    """The function of the example, and whether it takes pairs."""
    return runpy.run_path(str(exported[2] / "example.py"))["encode"]


def texts_for(model, texts):
    return list(zip(texts, texts[::-1], strict=True)) if "token_type_ids" in input_names(model) else texts


def assert_same_inputs(model, tokenizer, encode, texts):
    texts = texts_for(model, texts)
    inputs = encode(texts)
    inputs = inputs[0] if isinstance(inputs, tuple) else inputs
    expected = tokenizer(texts, padding=True, return_tensors="np")
    assert inputs.keys() == set(input_names(model))
    for name, values in inputs.items():
        assert values.dtype == np.int64
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_the_inputs_are_those_of_the_tokenizer(exported, encode):
    assert_same_inputs(*exported[:2], encode, TEXTS)


@pytest.mark.medium
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=3))
def test_the_inputs_of_any_texts_are_those_of_the_tokenizer(exported, encode, texts):
    assert_same_inputs(*exported[:2], encode, texts)


def test_words_that_look_like_boundaries_are_words(exported, encode):
    assert_same_inputs(*exported[:2], encode, ["a <S> b </S> <UNK>", "<bos> the bank <eos> <pad> <oov>"])


def test_the_program_is_short(exported):
    model, tokenizer, _ = exported
    reads_bytes = input_names(model) == ["char_ids", "attention_mask"] and tokenizer.characters is None
    limit = 40 if isinstance(model, ElmoModel) and reads_bytes else 50
    program = (exported[2] / "example.py").read_text("utf-8")
    assert "#?" not in program
    assert "$" not in program
    assert len(program.splitlines()) <= limit
    assert max(map(len, program.splitlines())) <= 120


@pytest.mark.medium
def test_it_runs_without_torch_and_gives_the_outputs_of_pytorch(exported):
    model, tokenizer, folder = exported
    texts = texts_for(model, TEXTS)
    program = [*BARE, PRELUDE + PROGRAM, str(folder / "example.py"), json.dumps(texts)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = pytorch_outputs(model, {name: batch[name] for name in input_names(model)})
    for actual, values in zip(json.loads(done.stdout), expected.values(), strict=True):
        np.testing.assert_allclose(actual, values, atol=1e-5)


@pytest.mark.medium
def test_the_command_line_of_the_program_prints_vectors_or_labels(exported):
    model, _, folder = exported
    arguments = ["The bank was closed.", "the river"]
    done = subprocess.run([sys.executable, folder / "example.py", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    if isinstance(model, ElmoForTokenClassification):
        assert [line.count("/LABEL_") for line in done.stdout.splitlines()] == [5, 2]
    elif isinstance(model, ElmoForSequenceClassification):
        lines = 1 if model.config.text_pairs else 2
        assert done.stdout.count("'LABEL_0': ") == len(done.stdout.splitlines()) == lines
    else:
        assert "['', 'The', 'bank', 'was', 'closed', '.', '']\n[[" in done.stdout
