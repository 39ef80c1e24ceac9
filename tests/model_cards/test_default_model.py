"""The English model that comes with the package: complete, small, offline, and as good as its card says."""

import json
import re
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

import elmo_hf
from elmo_hf.pretraining import Corpus, SentenceEncoder, perplexity
from elmo_hf.publishing.metadata import check_metadata
from elmo_hf.runtime.default_model import find_model

FOLDER = Path(elmo_hf.default_model())
CARD = (FOLDER / "README.md").read_text("utf-8")
SENTENCES = [
    "The museum was founded in the nineteenth century and moved to its present building after the war .",
    "She put the letter back into the drawer and said nothing about it to her brother .",
    "The company said on Monday that it would close two of its five factories by the end of the year .",
]


@pytest.fixture(scope="module")
def loaded():
    return AutoTokenizer.from_pretrained(FOLDER), AutoModelForPreTraining.from_pretrained(FOLDER).eval()


def test_it_is_complete_and_fits_into_the_package():
    names = {path.name for path in FOLDER.iterdir()}
    assert {"README.md", "config.json", "curve.svg", "model.safetensors", "tokenizer.json"} <= names
    assert not [name for name in names if name.endswith(".py")]
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 32_000_000


def test_a_plain_load_gives_fp32_although_half_precision_is_stored(loaded):
    model = AutoModel.from_pretrained(FOLDER)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {parameter.dtype for parameter in loaded[1].parameters()} == {torch.float32}
    assert json.loads((FOLDER / "config.json").read_text())["dtype"] == "float32"


def test_nothing_points_to_code_that_is_not_there():
    for name in ("config.json", "tokenizer_config.json"):
        assert "auto_map" not in json.loads((FOLDER / name).read_text())


def test_tokenizer_and_softmax_have_the_same_words(loaded):
    tokenizer, model = loaded
    assert tokenizer.vocab_size == model.config.vocab_size
    assert tokenizer.pad_token_id == model.config.pad_token_id
    assert tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["<S>", "</S>", "<UNK>"]


def test_it_predicts_ordinary_english_in_both_directions(loaded, tmp_path):
    """Far from the 80,000 of a model that knows nothing, and from word frequencies alone, about 1,000."""
    tokenizer, model = loaded
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    result = perplexity(model, SentenceEncoder(tokenizer, pretokenized=True), Corpus(tmp_path / "text.txt"))
    assert result.targets == sum(len(sentence.split()) + 1 for sentence in SENTENCES)
    assert result.forward < 250
    assert result.backward < 250


def test_a_sentence_has_one_set_of_vectors_whatever_the_batch(loaded):
    tokenizer, model = loaded[0], AutoModel.from_pretrained(FOLDER)
    with torch.no_grad():
        batched = model(**tokenizer(SENTENCES, padding=True, return_tensors="pt")).last_hidden_state
        for row, sentence in enumerate(SENTENCES):
            single = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0]
            torch.testing.assert_close(batched[row, : len(single)], single, atol=1e-5, rtol=0)


def test_it_answers_to_its_name_on_the_command_line_unless_a_folder_here_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("elmo-english-compact") == str(FOLDER)
    assert find_model("another/model") == "another/model"
    (tmp_path / "elmo-english-compact").mkdir()
    assert find_model("elmo-english-compact") == "elmo-english-compact"


def test_the_card_says_what_it_must():
    for heading in ("## Perplexity", "## Training", "## Data", "## Limits"):
        assert heading in CARD
    for source in ("Wikipedia", "Standard Ebooks", "Wikinews", "OpenStax", "CC BY-SA 3.0", "CC BY 4.0", "CC0"):
        assert source in CARD
    assert "elmo-hf perplexity" in CARD
    assert "curve.svg" in CARD
    assert re.search(r"^---\nlanguage: en\nlicense: ", CARD)


def test_the_metadata_of_the_card_is_valid_and_has_the_perplexities_of_its_table():
    data = ModelCard(CARD).data
    check_metadata(data.to_dict())
    assert data.pipeline_tag == "feature-extraction"
    for result in data.eval_results:
        assert f"| {result.metric_value:.2f} |" in CARD
