"""Stock pipelines by task name and model folder alone: the right words, places and labels, batched or not."""

import pytest
import torch
from transformers import pipeline

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from tests.models import TINY

TEXTS = ["Paris, don't go!", "I saw the Eiffel tower in Paris.", "Nothing here", "(Anna)"]
LABELS = ["O", "B-LOC", "I-LOC"]
STRATEGIES = ["none", "simple", "first", "average", "max"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tagger, a classifier, one of pairs, and a language model; all with random weights."""
    folder = tmp_path_factory.mktemp("heads")
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    torch.manual_seed(1)
    heads = {
        "tagger": ElmoForTokenClassification(ElmoConfig(**TINY, **labels, task_layer_size=3)),
        "crf": ElmoForTokenClassification(ElmoConfig(**TINY, **labels, task_layer_size=3, tag_decoder="crf")),
        "classifier": ElmoForSequenceClassification(ElmoConfig(**TINY, **labels, task_layer_size=3)),
        "pairs": ElmoForSequenceClassification(ElmoConfig(**TINY, **labels, task_layer_size=3, text_pairs=True)),
        "bilm": ElmoForPreTraining(ElmoConfig(**TINY)),
    }
    for name, model in heads.items():
        with torch.no_grad():
            if hasattr(model, "classifier"):
                model.classifier.weight.mul_(20)  # clear decisions
        model.save_pretrained(folder / name)
        ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", "Paris", "the", ","]).save_pretrained(folder / name)
    return folder


@pytest.mark.parametrize("head", ["tagger", "crf"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tagged_words_stand_where_they_say_and_are_those_of_the_text(folders, head, strategy):
    tag = pipeline("token-classification", str(folders / head), aggregation_strategy=strategy, ignore_labels=[])
    for text in TEXTS:
        entities = tag(text)
        words = ElmoTokenizer().tokenize(text)
        if strategy == "none":
            assert [entity["word"] for entity in entities] == words
        for entity in entities:
            assert text[entity["start"] : entity["end"]].split() == entity["word"].replace(" ", "").split() or (
                "".join(text[entity["start"] : entity["end"]].split()) == "".join(entity["word"].split())
            )
        covered = "".join(text[entity["start"] : entity["end"]] for entity in entities)
        assert "".join(covered.split()) == "".join(text.split())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_words_keep_their_own_tags_under_every_strategy(folders, strategy):
    """The stock code would glue a word to the one before where there is no blank between."""
    model = ElmoForTokenClassification.from_pretrained(folders / "crf").eval()
    tokenizer = ElmoTokenizer.from_pretrained(folders / "crf")
    options = {"aggregation_strategy": strategy, "ignore_labels": []}
    tag = pipeline("token-classification", model=model, tokenizer=tokenizer, **options)
    for text in TEXTS:
        batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            wanted = model(**batch).logits[0].argmax(-1).tolist()[1:-1]
        names = [LABELS[label_id] for label_id in wanted]
        for (start, end), name in zip(offsets[1:-1], names, strict=True):
            (entity,) = (entity for entity in tag(text) if entity["start"] <= start and end <= entity["end"])
            label = entity.get("entity") or entity["entity_group"]
            assert label in (name, name[2:] if name != "O" else name)


@pytest.mark.parametrize("head", ["tagger", "crf"])
def test_a_batch_gives_what_single_texts_give(folders, head):
    tag = pipeline("token-classification", str(folders / head), ignore_labels=[])
    for single, batched in zip([tag(text) for text in TEXTS], tag(TEXTS, batch_size=3), strict=True):
        assert [entity["word"] for entity in single] == [entity["word"] for entity in batched]
        assert [entity["entity"] for entity in single] == [entity["entity"] for entity in batched]
        assert [entity["score"] for entity in single] == pytest.approx(
            [entity["score"] for entity in batched], abs=1e-5
        )


def test_text_that_is_split_already_is_tagged_word_by_word(folders):
    tag = pipeline("token-classification", str(folders / "tagger"), ignore_labels=[])
    words = ["Paris,", "don't", "go"]
    (entities,) = tag(words, is_split_into_words=True)
    assert [entity["word"] for entity in entities] == words


def test_texts_and_pairs_are_classified(folders):
    classify = pipeline("text-classification", str(folders / "classifier"))
    for single, batched in zip([classify(text)[0] for text in TEXTS], classify(TEXTS, batch_size=3), strict=True):
        assert single["label"] == batched["label"]
        assert single["score"] == pytest.approx(batched["score"], abs=1e-5)
    every = classify(TEXTS[0], top_k=None)
    assert {entry["label"] for entry in every} == set(LABELS)
    assert sum(entry["score"] for entry in every) == pytest.approx(1.0)
    pairs = pipeline("text-classification", str(folders / "pairs"))
    assert pairs({"text": "a cat", "text_pair": "a dog"})["label"] in LABELS
    assert len(pairs([{"text": "a cat", "text_pair": "a dog"}, {"text": "b", "text_pair": "c d"}], batch_size=2)) == 2


@pytest.mark.parametrize("name", ["bilm", "tagger"])
def test_features_are_the_mix_of_the_layers(folders, name):
    extract = pipeline("feature-extraction", str(folders / name))
    (rows,) = extract("the cat sat")
    assert len(rows) == 5
    assert {len(row) for row in rows} == {2 * TINY["projection_size"]}
