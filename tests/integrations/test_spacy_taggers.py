"""Entities and tags are those that the tagger predicts, on spaCy's tokens."""

import pytest
from seqeval.metrics.sequence_labeling import get_entities
from spacy.tokens import Doc, Span
from spacy.training import Example

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoTokenizer
from elmo_hf.errors import ModelError
from elmo_hf.finetuning import load_head, predict_tags
from elmo_hf.integrations import spacy_taggers
from tests.finetuning.toy import FIELDS, sentences, tagging_run
from tests.integrations.folders import write_tagger
from tests.integrations.pipelines import TEXT, blank, rows_of, words_of
from tests.models import TINY

BIOES = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("PER", "LOC"))]


def expected_entities(folder: str, doc) -> list[tuple[int, int, str]]:
    """The spans of tokens that seqeval sees in the tagger's own predictions."""
    entities = []
    for rows, tagged in zip(rows_of(doc), predict_tags(*load_head(folder), words_of(doc)), strict=True):
        for label, start, end in get_entities([tag.replace("L-", "E-").replace("U-", "S-") for tag in tagged.tags]):
            entities.append((rows[start], rows[end] + 1, label))
    return entities


@pytest.mark.parametrize("labels", [None, BIOES, [tag.replace("E-", "L-").replace("S-", "U-") for tag in BIOES]])
def test_entities_are_the_spans_of_the_predicted_tags(ner, tmp_path, labels):
    folder = ner if labels is None else write_tagger(tmp_path / "model", labels)
    nlp = blank("elmo_ner", model=folder)
    texts = [TEXT, "", " ", TEXT * 4, "Anna  saw\n\nthe river . He swam ."]
    docs = list(nlp.pipe(texts, batch_size=2))
    assert sum(len(doc.ents) for doc in docs) > 10
    assert any(len(entity) > 1 for doc in docs for entity in doc.ents)
    for doc, text in zip(docs, texts, strict=True):
        expected = expected_entities(folder, doc)
        assert [(entity.start, entity.end, entity.label_) for entity in doc.ents] == expected
        assert [(entity.start, entity.end, entity.label_) for entity in nlp(text).ents] == expected
        assert all(token.ent_iob_ for token in doc)  # none is left without an answer
    assert nlp.get_pipe("elmo_ner").labels == ("LOC", "PER")


@pytest.mark.medium
def test_a_trained_tagger_finds_the_names(tmp_path):
    results = tagging_run(tmp_path, vectors_size=6, fields=FIELDS | {"tag_decoder": "crf"}).begin(tmp_path / "tagger")
    nlp = blank("elmo_ner", sentences=False, model=str(tmp_path / "tagger"))
    examples = []
    for words, tags in sentences(40, seed=2):  # those of the run's test part
        wanted = [(start, end + 1, label) for label, start, end in get_entities(tags)]
        reference = Doc(nlp.vocab, words=words)
        reference.ents = [Span(reference, *span) for span in wanted]
        examples.append(Example(Doc(nlp.vocab, words=words), reference))
    scores = nlp.evaluate(examples)
    assert scores["ents_f"] == pytest.approx(results["test"]["f1"])
    assert scores["ents_f"] > 0.95


def test_entities_that_the_document_has_stay(ner):
    nlp = blank("elmo_ner", model=ner)
    predicted = nlp(TEXT).ents
    doc = nlp.make_doc(TEXT)
    for _, component in nlp.pipeline[:-1]:
        doc = component(doc)
    mine = Span(doc, predicted[0].start, predicted[0].end + 1, label="MINE", kb_id="Q1")
    doc.ents = [mine]
    doc = nlp.get_pipe("elmo_ner")(doc)
    assert [(e.start, e.end, e.label_, e.kb_id_) for e in doc.ents if e.label_ == "MINE"] == [
        (mine.start, mine.end, "MINE", "Q1")
    ]
    others = [(e.start, e.end, e.label_) for e in doc.ents if e.label_ != "MINE"]
    assert others == [(e.start, e.end, e.label_) for e in predicted if e.start >= mine.end]


def test_a_long_sentence_is_tagged_in_pieces_and_batches_are_bounded(ner, monkeypatch):
    monkeypatch.setattr(spacy_taggers, "PIECE_WORDS", 7)
    monkeypatch.setattr(spacy_taggers, "BATCH_TOKENS", 16)
    sizes = []

    def recorded(model, tokenizer, batch, batch_size):
        sizes.append(max(map(len, batch)) * len(batch))
        return predict_tags(model, tokenizer, batch, batch_size)

    monkeypatch.setattr(spacy_taggers, "predict_tags", recorded)
    nlp = blank("elmo_ner", sentences=False, model=ner)
    words = ["Anna", "saw", "the", "river", "."] * 5
    doc = nlp(Doc(nlp.vocab, words=words))
    assert max(sizes) <= 16
    pieces = [words[start : start + 7] for start in range(0, 25, 7)]
    tags = [tag for tagged in predict_tags(*load_head(ner), pieces) for tag in tagged.tags]
    expected = [(start, end + 1, label) for label, start, end in get_entities(tags)]
    assert [(entity.start, entity.end, entity.label_) for entity in doc.ents] == expected != []


@pytest.mark.parametrize(
    ("labels", "attribute", "whitespace"),
    [(["NN", "VBD", "DT"], "tag_", "_SP"), (["NOUN", "VERB", "X"], "pos_", "SPACE")],
)
def test_tags_are_written_to_the_attribute_that_they_belong_to(tmp_path, labels, attribute, whitespace):
    folder = write_tagger(tmp_path / "model", labels)
    nlp = blank("elmo_tagger", model=folder)
    doc = nlp(TEXT)
    for rows, tagged in zip(rows_of(doc), predict_tags(*load_head(folder), words_of(doc)), strict=True):
        assert [getattr(doc[row], attribute) for row in rows] == tagged.tags
    assert {getattr(token, attribute) for token in doc if token.is_space} == {whitespace}
    assert len({getattr(token, attribute) for token in doc}) > 2
    assert nlp.get_pipe("elmo_tagger").labels == tuple(labels)
    sentence = "The bank was closed."  # spaCy's scorer counts whitespace as wrong
    assert nlp.evaluate([Example(nlp.make_doc(sentence), nlp(sentence))])[attribute.replace("_", "_acc")] == 1


def test_a_model_that_does_not_suit_is_refused_in_one_line(ner, encoder, tmp_path):
    tags = write_tagger(tmp_path / "tags", ["NN", "VB"])
    for component, model, message in [
        ("elmo_ner", None, "elmo_ner needs a tagger"),
        ("elmo_ner", encoder, "not a model with a head"),
        ("elmo_ner", tags, "no labels in BIO, BIOES or BILOU.*'NN'.*elmo_tagger"),
        ("elmo_tagger", ner, "labels of spans, such as 'I-LOC': elmo_ner"),
        ("elmo_tagger", str(tmp_path / "nowhere"), "There is no folder .*nowhere"),
    ]:
        with pytest.raises(ModelError, match=message) as caught:
            blank(component, model=model)
        assert "\n" not in str(caught.value)


def test_a_head_of_another_task_is_refused(tmp_path):
    ElmoForSequenceClassification(ElmoConfig(**TINY, num_labels=2)).save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="holds ElmoForSequenceClassification, and elmo_ner needs"):
        blank("elmo_ner", model=str(tmp_path))
