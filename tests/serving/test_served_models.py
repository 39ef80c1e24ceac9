"""What a folder is served as."""

import numpy as np
import pytest

from elmo_hf import ElmoConfig, ElmoForQuestionAnswering, ElmoForSequenceClassification, ElmoForTokenClassification
from elmo_hf.errors import ModelError
from elmo_hf.serving import ClassifyingModel, EmbeddingModel, ServingLimits, TaggingModel, load_models
from elmo_hf.serving.answer_bodies import tagged_words
from elmo_hf.serving.request_bodies import PredictParameters
from elmo_hf.serving.served_models import EmbeddingOptions, TaggedText, beyond_limits
from tests.embedding.toy import TOKENIZER, toy_embedder
from tests.models import TINY, tiny_model

LIMITS = ServingLimits()


@pytest.fixture
def saved(tmp_path):
    """Saves a model under a name."""

    def save(name, model):
        model.save_pretrained(tmp_path / name)
        TOKENIZER.save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save


def test_encoders_taggers_and_classifiers_are_served_under_the_names_of_their_folders(saved):
    config = ElmoConfig(**TINY, num_labels=3, task_layer_size=3)
    folders = [
        saved("encoder", tiny_model()) + "/",
        saved("tagger", ElmoForTokenClassification(config)),
        saved("classifier", ElmoForSequenceClassification(config)),
    ]
    models = load_models(folders, LIMITS)
    assert [model.name for model in models] == ["encoder", "tagger", "classifier"]
    assert [type(model) for model in models] == [EmbeddingModel, TaggingModel, ClassifyingModel]
    assert models[0].info() == {"hidden_size": 8, "num_layers": 3, "pooling": "mean", "sentence_size": 8}
    np.testing.assert_allclose(models[0].embedder.embed(["bank"])[0], toy_embedder().embed(["bank"])[0], atol=1e-6)


def test_the_model_of_the_package_is_the_default():
    (model,) = load_models([], LIMITS)
    assert (model.name, model.task) == ("elmo-english-compact", "embedding")


def test_a_head_that_has_no_route_is_refused(saved):
    folder = saved("answers", ElmoForQuestionAnswering(ElmoConfig(**TINY)))
    with pytest.raises(ModelError, match="is an ElmoForQuestionAnswering: only encoders, taggers and classifiers"):
        load_models([folder], LIMITS)


def test_a_damaged_folder_is_named(saved, tmp_path):
    folder = saved("damaged", tiny_model())
    (tmp_path / "damaged" / "config.json").write_text("{")
    with pytest.raises(ModelError, match="damaged cannot be loaded"):
        load_models([folder], LIMITS)


def test_the_pooling_is_that_of_sentences_if_the_model_has_it():
    embedder = toy_embedder()
    embedder.fit_sentence_pooling([["bank", f"w{index}"] for index in range(200)])
    assert EmbeddingModel("toy", embedder, LIMITS).pooling == "sentence"
    assert EmbeddingModel("toy", toy_embedder(), LIMITS).pooling == "mean"


def test_requests_of_the_same_choice_are_made_once():
    model = EmbeddingModel("toy", toy_embedder(), LIMITS)
    assert model.request(EmbeddingOptions((0, 1))) is model.request(EmbeddingOptions((0, 1)))
    with pytest.raises(ValueError, match="from 0 to 2"):
        model.request(EmbeddingOptions(9))


@pytest.mark.parametrize(
    ("words", "layers", "message"),
    [
        ([5, 5], 1, None),
        ([0, 6], 1, "Text 1 has 6 words, and a text may have 5"),
        ([5, 5, 1], 1, "11 words, and a request may have 10"),
        ([3, 3], 2, "12 words in 2 layers"),
        ([0] * 11, 1, "11 words"),
    ],
)
def test_words_are_limited_per_text_and_per_request(words, layers, message):
    refusal = beyond_limits(words, ServingLimits(words=5, request_words=10), layers)
    assert (refusal is None) == (message is None)
    if refusal is not None:
        assert refusal.status == 413
        assert message in refusal.message


def test_words_of_one_entity_are_joined():
    tags = ["B-PER", "I-PER", "B-PER", "O", "I-LOC", "NOUN", "NOUN"]
    (sentence,) = toy_embedder().tokenize(["Anna May Bob saw New York city"])
    tagged = TaggedText(sentence, tags, [0.5, 1.0, 0.5, 0.5, 0.5, 0.25, 0.75])
    entries = tagged_words(tagged, PredictParameters(aggregation_strategy="simple"))
    assert [(entry["entity_group"], entry["word"], entry["score"]) for entry in entries] == [
        ("PER", "Anna May", 0.75),
        ("PER", "Bob", 0.5),
        ("LOC", "New", 0.5),
        ("NOUN", "York city", 0.5),
    ]
    for entry in entries:
        assert sentence.text[entry["start"] : entry["end"]] == entry["word"]


@pytest.mark.parametrize("tags", [["B-PER", "I-PER", "E-PER", "S-PER"], ["B-PER", "I-PER", "L-PER", "U-PER"]])
def test_words_of_one_entity_are_joined_in_every_scheme(tags):
    (sentence,) = toy_embedder().tokenize(["Anna May Bob Bob"])
    entries = tagged_words(TaggedText(sentence, tags, [0.5] * 4), PredictParameters(aggregation_strategy="simple"))
    assert [(entry["entity_group"], entry["word"]) for entry in entries] == [("PER", "Anna May Bob"), ("PER", "Bob")]
