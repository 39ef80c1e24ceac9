"""Whatever tensors a model is given, it gives an output or a `ValueError` that names the argument."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from tests.models import TINY

HEAD = {"num_labels": 3, "task_layer_size": 3}
INPUTS = ("characters", "words", "both")
MODELS = {
    **{f"encoder {kind}": ElmoModel(ElmoConfig(**TINY, token_inputs=kind)) for kind in INPUTS},
    **{
        f"pretraining {kind} {softmax}": ElmoForPreTraining(
            ElmoConfig(**TINY, token_inputs=kind, softmax_type=softmax, softmax_samples=5)
        )
        for kind in INPUTS
        for softmax in ("full", "sampled", "adaptive")
    },
    **{
        f"tagger {kind} {decoder}": ElmoForTokenClassification(
            ElmoConfig(**TINY, **HEAD, token_inputs=kind, tag_decoder=decoder, word_vector_size=vectors)
        )
        for kind in INPUTS
        for decoder, vectors in (("softmax", None), ("crf", 4))
    },
    **{
        f"classifier {pooling} {pairs}": ElmoForSequenceClassification(
            ElmoConfig(**TINY, **HEAD, pooling=pooling, text_pairs=pairs, pair_attention=pairs)
        )
        for pooling in ("mean", "max", "attention", "biattentive")
        for pairs in (False, True)
    },
}
KINDS = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64, torch.complex64]
PROBLEMS = ["single_label_classification", "multi_label_classification", "regression", None]


def char_ids(rows: int, words: int) -> torch.Tensor:
    """`(rows, words, 50)`: words of one letter each."""
    row = torch.full((50,), 261)
    row[:3] = torch.tensor([259, 98, 260])
    return row.expand(rows, words, 50).contiguous()


@st.composite
def tensors(draw, shape: tuple[int, ...], most: int):
    """Integers of mostly the right kind and range in mostly the right shape."""
    if draw(st.integers(0, 9)) == 0:
        shape = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    lowest, highest = draw(st.sampled_from([(0, most)] * 4 + [(-3, most + 3)]))
    values = torch.randint(lowest, highest + 1, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 9))))
    if draw(st.integers(0, 3)) == 0:
        values[...] = -100
    return values.to(draw(st.sampled_from([torch.int64] * 8 + KINDS)))


@st.composite
def calls(draw):
    """The name of a model, and arguments for it."""
    name = draw(st.sampled_from(list(MODELS)))
    rows, words = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    arguments = {"char_ids": char_ids(rows, words).to(draw(st.sampled_from([torch.int64] * 8 + KINDS)))}
    of_words = {"input_ids": 19, "attention_mask": 1, "token_type_ids": 1}
    if name.startswith("pretraining"):
        of_words = {"input_ids": 19, "attention_mask": 1, "labels": 19, "backward_labels": 19}
    elif name.startswith("tagger"):
        of_words["labels"] = 2
    for argument, most in of_words.items():
        if argument == "input_ids" or draw(st.booleans()):
            arguments[argument] = draw(tensors((rows, words), most))
    if name.startswith("classifier") and draw(st.booleans()):
        arguments["labels"] = draw(tensors(draw(st.sampled_from([(rows,), (rows, 1), (rows, 3)])), 2))
    return name, arguments


@given(call=calls(), training=st.booleans(), problem=st.sampled_from(PROBLEMS))
@settings(max_examples=200)
def test_any_tensors_give_an_output_or_an_error_that_names_the_argument(call, training, problem):
    name, arguments = call
    model = MODELS[name].train(training)
    model.config.problem_type = problem
    output, refusal = None, ""
    try:
        output = model(**arguments)
    except ValueError as error:
        refusal = str(error)
    if output is None:
        assert set(re.findall(r"`(\w+)", refusal)) & set(arguments) or "text_pair" in refusal, refusal
        return
    read = arguments["char_ids" if model.config.uses_characters else "input_ids"]
    for key in {"last_hidden_state", "logits", "emissions"} & output.keys():
        assert len(output[key]) == len(read)
    if (loss := output.get("loss")) is not None and training:
        assert torch.isfinite(loss)
        if loss.requires_grad:
            loss.backward()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_no_rows_and_no_words_give_empty_outputs_and_no_loss(name, shape):
    model, words = MODELS[name].train(), torch.zeros(shape, dtype=torch.long)
    model.config.problem_type = None
    arguments = {"char_ids": char_ids(*shape), "input_ids": words, "attention_mask": words}
    if name.endswith("True"):
        arguments["token_type_ids"] = words
    if not name.startswith("encoder"):
        arguments["labels"] = words - 100 if not name.startswith("classifier") else torch.full(shape[:1], -100)
    output = model(**arguments)
    tensors = [output[key] for key in ("last_hidden_state", "logits") if key in output]
    assert all(
        tensor.shape[: 1 if name.startswith("classifier") else 2] == shape[: tensor.ndim - 1] for tensor in tensors
    )
    if "loss" in output:
        assert float(output.loss) == pytest.approx(0, abs=0.01)  # a head's pull on its mixing weights


@pytest.mark.parametrize(
    ("name", "argument", "value", "message"),
    [
        ("encoder characters", "char_ids", char_ids(2, 3).to(torch.complex64), "`char_ids` must be integers"),
        ("encoder words", "input_ids", torch.ones(2, 3).to(torch.complex64), "`input_ids` must be integers"),
        ("encoder words", "attention_mask", torch.ones(2, 3) * 1j, "`attention_mask` must hold 0 and 1"),
        ("encoder words", "token_type_ids", torch.ones(2, 3) * 1j, "`token_type_ids` must be integers"),
        ("pretraining both full", "labels", torch.full((2, 3), 20), "`labels` must be between 0 and 19"),
        ("pretraining both full", "labels", torch.ones(2, 3) * 1j, "`labels` must be integers"),
        ("tagger characters softmax", "labels", torch.full((2, 3), 3), "`labels` must be between 0 and 2, or -100"),
        ("tagger characters crf", "labels", torch.full((2, 3), -1), "`labels` must be between 0 and 2, or -100"),
        ("tagger characters crf", "labels", torch.full((2, 3), 0.5), "`labels` must be integers"),
        ("tagger characters crf", "input_ids", torch.full((2, 3), -1), "`input_ids` must be between 0 and 20"),
        ("classifier max False", "labels", torch.tensor([1, 3]), "`labels` must be between 0 and 2, or -100"),
        ("classifier max False", "labels", torch.tensor([1]), r"`labels` must have shape \(2,\).*found \(1,\)"),
        ("classifier max False", "labels", torch.ones(2, 2), r"`labels` must have shape \(2, 3\).*found \(2, 2\)"),
        ("classifier max False", "labels", torch.ones(2, 3) * 1j, "`labels` must be real numbers"),
        ("classifier max True", "token_type_ids", torch.tensor([[0, 1, 2]] * 2), "`token_type_ids` must be 0 and 1"),
    ],
)
def test_what_is_wrong_is_said_by_its_name(name, argument, value, message):
    model = MODELS[name].train()
    model.config.problem_type = None
    arguments = {"char_ids": char_ids(2, 3), "input_ids": torch.ones(2, 3, dtype=torch.long)}
    with pytest.raises(ValueError, match=message):
        model(**(arguments | {argument: value}))
    assert model.config.problem_type is None  # refused labels decide nothing


def test_the_numbers_of_a_rows_sentences_may_be_any():
    model, labels = MODELS["tagger characters softmax"].eval(), torch.tensor([[0, 1, 1, 2]])
    segments = torch.tensor([[0, 0, 1, 1]])
    expected = model(char_ids=char_ids(1, 4), token_type_ids=segments, labels=labels)
    for numbers in (segments - 1, 10**12 * segments, 3 - segments):
        output = model(char_ids=char_ids(1, 4), token_type_ids=numbers, labels=labels)
        torch.testing.assert_close(output.logits, expected.logits)
        torch.testing.assert_close(output.loss, expected.loss)


def test_labels_of_any_integers_give_the_same_loss():
    model = MODELS["tagger characters softmax"].eval()
    labels = torch.tensor([[0, 1, 1]])
    losses = [
        model(char_ids=char_ids(1, 3), labels=labels.to(kind)).loss for kind in (torch.int64, torch.int32, torch.bool)
    ]
    assert len({float(loss) for loss in losses}) == 1
