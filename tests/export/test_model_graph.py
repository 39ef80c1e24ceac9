"""The graphs of encoders, taggers and classifiers give in onnxruntime what the models give in PyTorch."""

import numpy as np
import onnx
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmo_hf import (
    ElmoConfig,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    default_model,
)
from elmo_hf.export.graph import OPSET
from elmo_hf.export.model_graph import model_graph
from elmo_hf.modeling.task_layers_elmo import allowed_transitions
from tests.export.batches import difference, random_batch, random_lengths, runnable, tiny_head
from tests.models import TINY, configurations, tiny_model

TOLERANCE = 1e-5
TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
TAGGERS = [
    {},
    {"num_task_layers": 0},
    {"num_task_layers": 2, "elmo_places": "output", "word_vector_size": 3},
    {"elmo_places": "none", "word_vector_size": 3},
    {"elmo_places": "both", "mixer_weights": "top", "mixer_layer_norm": True},
    {"task_lstm_type": "alternating", "num_task_layers": 3, "elmo_layer_norm": True},
    {"id2label": TAGS, "tag_decoder": "crf"},
    {"token_inputs": "words", "directions": "forward", "id2label": TAGS, "tag_decoder": "crf"},
]
CLASSIFIERS = [
    {"pooling": "mean"},
    {"pooling": "max", "num_labels": 1, "problem_type": "regression"},
    {"pooling": "attention", "elmo_places": "both"},
    {"pooling": "biattentive", "classifier_type": "maxout"},
    {"pooling": "max", "num_task_layers": 0, "token_inputs": "both"},
    {"text_pairs": True, "pooling": "mean"},
    {"text_pairs": True, "pooling": "biattentive", "pair_attention": True, "elmo_layer_norm": True},
    {"text_pairs": True, "pair_attention": "esim", "elmo_places": "both", "word_vector_size": 3},
]


def name_of(fields) -> str:
    return ",".join(f"{name}={value}" for name, value in fields.items() if name != "id2label") or "default"


@pytest.mark.slow
def test_the_shipped_model_agrees_on_200_random_batches_of_1_to_100_words(tmp_path):
    model = ElmoModel.from_pretrained(default_model()).eval()
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(0)
    for _ in range(200):
        batch = random_batch(generator, model.config, random_lengths(generator, 6, 100))
        assert difference(run, model, batch) < TOLERANCE


@pytest.mark.medium
def test_a_small_model_agrees_on_random_batches_of_1_to_100_words(tmp_path):
    model = tiny_model(cell_size=64, projection_size=16, cell_clip=0.5, projection_clip=0.3)
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(1)
    for _ in range(40):
        batch = random_batch(generator, model.config, random_lengths(generator, 8, 100))
        assert difference(run, model, batch) < TOLERANCE


@pytest.mark.medium
@settings(max_examples=30, deadline=None)
@given(fields=configurations, layer_norm=st.booleans(), seed=st.integers(0, 1000))
def test_every_switch_of_the_encoder_agrees(tmp_path_factory, fields, layer_norm, seed):
    widest = max(width for width, _ in fields["char_filters"])
    fields = fields | {"max_characters_per_token": max(fields["max_characters_per_token"], widest)}
    model = tiny_model(seed, mixer_layer_norm=layer_norm, **fields)
    with torch.no_grad():
        model.mixer.weights.normal_()
        model.mixer.gamma.fill_(1.7)
    generator = np.random.default_rng(seed)
    batch = random_batch(generator, model.config, random_lengths(generator, 4, 12))
    if layer_norm:  # of values that are all clipped to the same, it would be a quotient of rounding errors
        with torch.no_grad():
            layers = model(**batch, output_hidden_states=True).hidden_states
        assume(min(layer[batch["attention_mask"] == 1].std() for layer in layers) > 0.05)
    assert difference(runnable(model, tmp_path_factory.mktemp("graph")), model, batch) < TOLERANCE


@pytest.mark.parametrize("fields", TAGGERS, ids=name_of)
def test_taggers_agree(tmp_path, fields):
    model = tiny_head(ElmoForTokenClassification, **fields)
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(2)
    for lengths in ([9, 3, 12, 1], [1], [5, 5, 5], [3]):
        assert difference(run, model, random_batch(generator, model.config, lengths)) < TOLERANCE


@pytest.mark.parametrize("fields", CLASSIFIERS, ids=name_of)
def test_classifiers_agree(tmp_path, fields):
    model = tiny_head(ElmoForSequenceClassification, **fields)
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(3)
    for lengths in ([9, 3, 12], [4], [5, 5, 5], [6, 1]):
        batch = random_batch(generator, model.config, lengths, pairs=model.config.text_pairs)
        assert difference(run, model, batch) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (ElmoForTokenClassification, {}),
        (ElmoForSequenceClassification, {"pooling": "biattentive"}),
        (ElmoForSequenceClassification, {"text_pairs": True, "pair_attention": "esim"}),
    ],
    ids=["tagger", "classifier", "pairs"],
)
def test_heads_agree_on_200_random_batches_of_1_to_100_words(tmp_path, head, fields):
    model = tiny_head(head, **fields)
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(4)
    for _ in range(200):
        batch = random_batch(generator, model.config, random_lengths(generator, 6, 100), pairs=model.config.text_pairs)
        assert difference(run, model, batch) < TOLERANCE


@pytest.mark.medium
def test_a_crf_agrees_on_random_batches_of_1_to_100_words(tmp_path):
    model = tiny_head(ElmoForTokenClassification, id2label=TAGS, tag_decoder="crf")
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(4)
    for _ in range(40):
        batch = random_batch(generator, model.config, random_lengths(generator, 6, 100))
        with torch.no_grad():
            expected = model(**batch)
        outputs = run(batch)
        np.testing.assert_allclose(outputs["emissions"], expected.emissions, atol=TOLERANCE)
        assert (outputs["logits"].argmax(-1) == expected.logits.argmax(-1).numpy()).all()
        # One rounding of the log-sum over a long sentence; and a decoded label that is nearly the most probable one is
        # raised by 1e-3 on one side only.
        np.testing.assert_allclose(outputs["logits"], expected.logits, atol=1.1e-3)
        distances = np.abs(outputs["logits"] - expected.logits.numpy())
        assert np.quantile(distances, 0.99) < 5e-5


def test_the_decoded_tags_are_those_of_pytorch_and_valid(tmp_path):
    """The emissions alone would give invalid sequences."""
    model = tiny_head(ElmoForTokenClassification, id2label=TAGS, tag_decoder="crf")
    with torch.no_grad():
        model.classifier.weight.normal_(std=3)
    generator = np.random.default_rng(5)
    batch = random_batch(generator, model.config, [30, 17, 4, 25])
    with torch.no_grad():
        output = model(**batch)
    labels = runnable(model, tmp_path)(batch)["logits"].argmax(-1)
    assert (labels == output.logits.argmax(-1).numpy()).all()
    _, transitions, _ = allowed_transitions(list(TAGS.values()))
    words = [(row, place) for row, length in enumerate([30, 17, 4, 25]) for place in range(1, length - 2)]
    assert all(transitions[labels[row, place]][labels[row, place + 1]] for row, place in words)
    emitted = output.emissions.argmax(-1)
    assert not all(transitions[emitted[row, place]][emitted[row, place + 1]] for row, place in words)


# ---- Boundaries and padding


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    model = tiny_model(cell_clip=0.3, projection_clip=0.2)
    return model, runnable(model, tmp_path_factory.mktemp("encoder"))


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [2], [7], [6, 6, 6], [1, 9], [100, 1]], ids=str)
def test_one_row_one_word_and_equal_lengths_agree(encoder, lengths):
    model, run = encoder
    assert difference(run, model, random_batch(np.random.default_rng(6), model.config, lengths)) < TOLERANCE


def test_the_vectors_of_a_sentence_do_not_depend_on_its_batch(encoder):
    model, run = encoder
    batch = random_batch(np.random.default_rng(7), model.config, [4, 11, 8])
    single = run({name: values[2:, :8] for name, values in batch.items()})
    whole = run(batch)
    np.testing.assert_allclose(whole["hidden_states"][:, 2:, :8], single["hidden_states"], atol=TOLERANCE)
    assert not whole["hidden_states"][:, 2, 8:].any()
    assert not whole["last_hidden_state"][2, 8:].any()


@pytest.mark.parametrize("side", ["left", "between words", "a whole row"])
def test_masked_positions_are_skipped_wherever_they_are(encoder, side):
    model, run = encoder
    batch = random_batch(np.random.default_rng(8), model.config, [9, 9, 9])
    masked = {"left": np.s_[1, :4], "between words": np.s_[1, 3:6], "a whole row": np.s_[1, :]}[side]
    batch["attention_mask"][masked] = 0
    assert difference(run, model, batch) < TOLERANCE


@pytest.mark.parametrize("inputs", ["characters", "words", "both"])
def test_what_stands_at_masked_positions_changes_nothing(tmp_path, inputs):
    model = tiny_model(token_inputs=inputs)
    run = runnable(model, tmp_path)
    batch = random_batch(np.random.default_rng(9), model.config, [5, 9])
    before = run(batch)
    batch["char_ids"][0, 5:] = -7
    batch["input_ids"][0, 5:] = 10**6
    after = run(batch)
    assert all((before[name] == after[name]).all() for name in before)


def test_unusual_words_agree(tmp_path):
    words = [
        "naïve",
        "中文",
        "🙂",
        "",
        "x" * 200,
        "é" * 40,
        "<S>",
        "</S>",
        "<PAD>",
        "\ud800",
        "a\u200db",
        "\x00",
        "\n",
        "'",
    ]
    tokenizer = ElmoTokenizer()
    model = tiny_model(vocab_size=3)
    rows = [words, words[::-1][:6], ["one"]]
    batch = tokenizer(rows, is_split_into_words=True, padding=True, return_tensors="pt")
    assert difference(runnable(model, tmp_path), model, dict(batch)) < TOLERANCE


def test_the_recurrence_starts_again_at_the_second_text_of_a_pair(tmp_path):
    model = tiny_head(ElmoForSequenceClassification, text_pairs=True, num_task_layers=0, pooling="mean")
    run = runnable(model, tmp_path)
    generator = np.random.default_rng(10)
    batch = random_batch(generator, model.config, [10], pairs=True)
    batch["token_type_ids"][:] = torch.tensor([0] * 4 + [1] * 6)
    other = {name: values.clone() for name, values in batch.items()}
    other["token_type_ids"][:] = torch.tensor([0] * 5 + [1] * 5)
    assert difference(run, model, batch) < TOLERANCE
    assert difference(run, model, other) < TOLERANCE
    assert np.abs(run(batch)["logits"] - run(other)["logits"]).max() > 1e-4


def test_empty_texts_of_a_classifier_agree(tmp_path):
    """Two boundaries, and no word between them."""
    model = tiny_head(ElmoForSequenceClassification, pooling="biattentive")
    batch = ElmoTokenizer()(["", "a word"], padding=True, return_tensors="pt")
    assert difference(runnable(model, tmp_path), model, dict(batch)) < TOLERANCE


# ---- The graph itself


def test_batch_and_length_are_dynamic_and_the_opset_is_the_stated_one(tmp_path):
    path = tmp_path / "model.onnx"
    with torch.no_grad():
        model_graph(tiny_model()).save(path, "test", {})
    model = onnx.load(path)
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [OPSET]
    sizes = {
        entry.name: [size.dim_param or size.dim_value for size in entry.type.tensor_type.shape.dim]
        for entry in (*model.graph.input, *model.graph.output)
    }
    assert sizes == {
        "char_ids": ["batch", "words", 50],
        "attention_mask": ["batch", "words"],
        "last_hidden_state": ["batch", "words", 8],
        "hidden_states": [3, "batch", "words", 8],
    }


def test_a_graph_beyond_the_limit_of_one_file_has_its_weights_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo_hf.export.graph.MOST_BYTES", 0)
    model = tiny_model()
    run = runnable(model, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert difference(run, model, random_batch(np.random.default_rng(0), model.config, [4, 2])) < TOLERANCE


def test_the_graph_of_a_model_does_not_change_it():
    model = ElmoModel(ElmoConfig(**TINY)).eval()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    with torch.no_grad():
        model_graph(model)
    assert all(torch.equal(before[name], values) for name, values in model.state_dict().items())
