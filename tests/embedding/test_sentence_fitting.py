"""The pooling "sentence": estimated from text, the same on every path, saved with the model."""

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from elmo_hf.embedding import ElmoEmbedder
from elmo_hf.embedding.sentence_fitting import SMOOTHING, whitening, word_weights
from elmo_hf.errors import ModelError, TextError
from tests.embedding.toy import TOKENIZER, WORDS, toy_embedder
from tests.models import TINY

TEXT = ["the bank of the river", "", "a bank", "Zürich , a river", "n't"]


def sentences(count: int = 200) -> list[list[str]]:
    generator = np.random.default_rng(0)
    return [list(generator.choice(WORDS[:7], generator.integers(1, 9))) for _ in range(count)]


@pytest.fixture
def embedder() -> ElmoEmbedder:
    embedder = toy_embedder()
    embedder.fit_sentence_pooling(sentences(), layers=[0, 2])
    return embedder


def assert_same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_sentence_vectors_of_the_fitted_text_are_centred_and_white(embedder):
    vectors = embedder.embed(sentences(), pooling="sentence")
    assert vectors.shape == (200, embedder.model.config.sentence_size)
    assert_same(vectors.mean(axis=0), 0)
    assert_same(vectors.T @ vectors / len(vectors), np.eye(vectors.shape[1]))


@pytest.mark.parametrize(("text", "found"), [([""] * 200, 0), ([*sentences(39), *[""] * 100], 39)])
def test_only_sentences_with_words_count(text, found):
    with pytest.raises(TextError, match=f"sentences or more with words to be estimated from, found {found}"):
        toy_embedder().fit_sentence_pooling(text)


def test_directions_without_variance_are_left_out():
    embedder = toy_embedder()
    embedder.fit_sentence_pooling(sentences(), layers=[0])  # the token layer: each vector twice
    assert embedder.model.config.sentence_size == embedder.hidden_size // 2
    embedder.fit_sentence_pooling(sentences(), layers=[0], size=2)
    assert embedder.embed(TEXT, pooling="sentence").shape == (len(TEXT), 2)


def test_batches_documents_and_the_model_itself_give_the_same_sentence_vectors(embedder):
    text = [*TEXT, " ".join(["the bank a river"] * 30)]
    expected = embedder.embed(text, pooling="sentence")
    for batch_tokens in (1, 7, 50):  # below the length of a sentence: in pieces, as a document
        assert_same(embedder.embed(text, pooling="sentence", batch_tokens=batch_tokens), expected)
    assert_same([embedder.embed([line], pooling="sentence")[0] for line in text], expected)
    for side in ("left", "right"):
        batch = TOKENIZER(text, padding=True, padding_side=side, return_tensors="pt")
        with torch.no_grad():
            assert_same(embedder.model.sentence_vectors(**batch), expected)
    assert not expected[1].any()
    assert np.abs(expected[0]).max() > 0.1


def test_sentence_pooling_is_saved_and_loads_by_itself_and_in_a_language_model(embedder, tmp_path):
    embedder.save_pretrained(tmp_path / "saved")
    expected = embedder.embed(TEXT, pooling="sentence")
    assert_same(ElmoEmbedder.from_pretrained(tmp_path / "saved").embed(TEXT, pooling="sentence"), expected)
    model = ElmoForPreTraining.from_pretrained(tmp_path / "saved")
    model.save_pretrained(tmp_path / "pretraining")
    TOKENIZER.save_pretrained(tmp_path / "pretraining")
    assert_same(ElmoEmbedder.from_pretrained(tmp_path / "pretraining").embed(TEXT, pooling="sentence"), expected)


def test_a_head_is_built_without_sentence_pooling(embedder, tmp_path):
    embedder.save_pretrained(tmp_path / "saved")
    head, loading = ElmoForTokenClassification.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert head.elmo.sentence_pooling is None
    assert not loading["unexpected_keys"]


def test_sentence_transformers_gives_the_same_vectors(embedder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    embedder.save_pretrained(tmp_path / "saved")
    loaded = library.SentenceTransformer(str(tmp_path / "saved"))
    assert_same(loaded.encode(TEXT), embedder.embed(TEXT, pooling="sentence"))


def test_half_precision_gives_nearly_the_same_vectors(embedder):
    expected = embedder.embed(TEXT, pooling="sentence")
    embedder.model.bfloat16()
    vectors = embedder.embed(TEXT, pooling="sentence")
    for vector, exact in zip(vectors, expected, strict=True):
        assert vector @ exact >= 0.99 * np.linalg.norm(vector) * np.linalg.norm(exact)


@given(st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=1, max_size=8))
def test_frequent_words_weigh_less_and_unknown_words_as_much_as_rare_ones(ids):
    weights = word_weights([np.array(line, dtype=np.int64) for line in ids], 8, unknown_id=2)
    counts = [sum(line.count(word) for line in ids) for word in range(8)]
    assert weights[2] == 1
    for word in set(range(8)) - {2}:
        assert weights[word] == pytest.approx(SMOOTHING / (SMOOTHING + counts[word] / max(sum(map(len, ids)), 1)))


def test_whitening_does_not_depend_on_the_solver_s_signs():
    averages = np.random.default_rng(0).normal(size=(50, 4)) * [1, 2, 3, 4]
    mean, projection = whitening(averages)
    _, mirrored = whitening(averages * [1, 1, 1, 1] + 5)
    torch.testing.assert_close(mirrored, projection)
    np.testing.assert_allclose(mean, averages.mean(axis=0), rtol=1e-5)


def test_a_model_without_the_pooling_says_how_to_get_it():
    with pytest.raises(ModelError, match="fit_sentence_pooling"):
        toy_embedder().embed(TEXT, pooling="sentence")
    with pytest.raises(ValueError, match="fit_sentence_pooling"):
        toy_embedder().model.sentence_vectors(**TOKENIZER("a bank", return_tensors="pt"))


def test_layers_and_boundaries_do_not_go_with_the_pooling(embedder):
    with pytest.raises(ValueError, match="leave out `layers`"):
        embedder.embed(TEXT, layers="all", pooling="sentence")
    with pytest.raises(ValueError, match="leave out `boundaries`"):
        embedder.embed(TEXT, pooling="sentence", boundaries=True)


@pytest.mark.parametrize("options", [{"layers": [3]}, {"layers": []}, {"size": 0}])
def test_wrong_options_are_refused_and_the_model_stays_as_it_was(embedder, options):
    before = embedder.embed(TEXT, pooling="sentence")
    with pytest.raises((ValueError, TextError)):
        embedder.fit_sentence_pooling(sentences(), **options)
    assert_same(embedder.embed(TEXT, pooling="sentence"), before)


def test_too_few_sentences_are_refused(embedder):
    with pytest.raises(TextError, match="40 sentences or more"):
        embedder.fit_sentence_pooling(sentences(39))


@pytest.mark.parametrize("fields", [{"sentence_layers": [3]}, {"sentence_layers": []}, {"sentence_size": 0}])
def test_a_config_that_no_pooling_can_be_built_from_is_refused(fields):
    with pytest.raises(StrictDataclassClassValidationError, match="`sentence_"):
        ElmoModel(ElmoConfig(**(TINY | {"sentence_layers": [0]} | fields)))


def test_a_config_of_vectors_larger_than_their_layers_is_refused():
    with pytest.raises(StrictDataclassClassValidationError, match="`sentence_size` must be 8 or less"):
        ElmoConfig(**(TINY | {"sentence_layers": [1], "sentence_size": 9}))
