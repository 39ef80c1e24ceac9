"""The vectors of spaCy's tokens are those of the embedder."""

import pickle
import warnings

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from elmo_hf import ElmoEmbedder
from elmo_hf.embedding.request import EmbeddingRequest
from elmo_hf.errors import ModelError
from elmo_hf.integrations import add_vector_hooks, spacy_component
from tests.integrations.pipelines import TEXT, blank, rows_of, words_of

WORDS = ["the", "bank", "n't", "Zürich", "宝玉", " ", "\n\n", "<S>", "x" * 300, "👩‍👩‍👧", "."]


@pytest.fixture(scope="module")
def nlp(encoder):
    return blank("elmo", model=encoder)


@pytest.fixture(scope="module")
def embedder(encoder):
    return ElmoEmbedder.from_pretrained(encoder)


@pytest.mark.parametrize("layers", ["mix", "top", "average", 0, -1])
def test_tokens_have_the_vectors_of_the_embedder(encoder, embedder, layers):
    doc = blank("elmo", model=encoder, layers=layers)(TEXT)
    sentences = words_of(doc)
    assert [len(words) for words in sentences] == [5, 9, 4]
    for rows, vectors in zip(rows_of(doc), embedder.embed(sentences, layers), strict=True):
        np.testing.assert_allclose(doc.tensor[rows], vectors, atol=1e-6)
        for row, vector in zip(rows, vectors, strict=True):
            np.testing.assert_allclose(doc[row].vector, vector, atol=1e-6)


@pytest.mark.parametrize(("layers", "indices"), [("all", [0, 1, 2]), ([2, 0], [2, 0])])
def test_several_layers_are_concatenated(encoder, embedder, layers, indices):
    doc = blank("elmo", model=encoder, layers=layers)(TEXT)
    for rows, words in zip(rows_of(doc), words_of(doc), strict=True):
        expected = np.concatenate([embedder.embed([words], index)[0] for index in indices], axis=1)
        np.testing.assert_allclose(doc.tensor[rows], expected, atol=1e-6)


@pytest.mark.medium
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=4))
def test_any_tokens_are_aligned_and_whitespace_has_zeros(nlp, embedder, sentences):
    words = [word for sentence in sentences for word in sentence]
    starts = [place == 0 for sentence in sentences for place in range(len(sentence))]
    doc = nlp(Doc(nlp.vocab, words=words, sent_starts=starts))
    assert [token.text for token in doc] == words
    assert doc.tensor.shape == (len(words), embedder.hidden_size)
    for token in doc:
        assert token.has_vector != token.is_space
    for rows, words_of_sentence in zip(rows_of(doc), words_of(doc), strict=True):
        (expected,) = embedder.embed([words_of_sentence])
        np.testing.assert_allclose(doc.tensor[rows], expected, atol=1e-6)


def test_a_document_without_sentence_boundaries_is_one_sentence(encoder, embedder):
    doc = blank("elmo", sentences=False, model=encoder)(TEXT)
    words = [token for token in doc if not token.is_space]
    (expected,) = embedder.embed([[token.text for token in words]])
    np.testing.assert_allclose(doc.tensor[[token.i for token in words]], expected, atol=1e-6)


def test_documents_and_spans_are_means_over_their_words(nlp, embedder):
    doc = nlp(" The bank\n\nwas closed")
    mean = embedder.embed([["The", "bank", "was", "closed"]], pooling="mean")[0]
    np.testing.assert_allclose(doc.vector, mean, atol=1e-6)
    np.testing.assert_allclose(doc[:].vector, mean, atol=1e-6)
    np.testing.assert_allclose(doc[1:4].vector, doc.tensor[1:3].mean(axis=0), atol=1e-6)
    assert doc.vector.dtype == np.float32
    assert doc.vector_norm == pytest.approx(np.linalg.norm(mean), rel=1e-5)
    assert (doc[0].has_vector, doc[0:1].has_vector, doc[1].has_vector, doc.has_vector) == (False, False, True, True)


@pytest.mark.parametrize("text", ["", " ", "\n\n \t"])
def test_a_document_without_words_has_zeros(nlp, embedder, text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doc = nlp(text)
        assert doc.tensor.shape == (len(doc), embedder.hidden_size)
        assert not doc.vector.any()
        assert not doc.has_vector
        assert doc.similarity(nlp("bank")) == 0


def test_similarity_is_the_cosine_also_of_equal_words_in_different_sentences(nlp):
    doc = nlp("The bank was closed. He sat on the bank .")
    one, two = (token for token in doc if token.text == "bank")
    cosine = one.vector @ two.vector / np.linalg.norm(one.vector) / np.linalg.norm(two.vector)
    assert one.similarity(two) == pytest.approx(cosine, abs=1e-6)
    assert one.similarity(two) < 0.999  # spaCy's own similarity of equal words is 1
    span = doc[two.i : two.i + 1]
    assert doc[one.i : one.i + 1].similarity(span) == pytest.approx(cosine, abs=1e-6)
    assert one.similarity(one) == pytest.approx(1)
    assert doc.similarity(doc) == pytest.approx(1)
    assert type(doc.similarity(one)) is float


def test_vectors_take_the_place_of_a_vocabulary_s(encoder):
    nlp = blank("elmo", model=encoder)
    nlp.vocab.set_vector("bank", np.ones(3, dtype=np.float32))
    doc = nlp("The bank")
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])
    with pytest.raises(ValueError, match="the same component elmo"):
        doc[1].similarity(nlp.vocab["bank"])


def test_a_stream_gives_each_document_what_it_has_alone(nlp, monkeypatch):
    texts = [TEXT, "", "Zürich", TEXT * 8, " ", "the bank ."] * 3
    single = [nlp(text).tensor for text in texts]
    for most, size in ((spacy_component.GROUP_TOKENS, 1000), (30, 4), (1, 1)):
        monkeypatch.setattr(spacy_component, "GROUP_TOKENS", most)
        docs = list(nlp.pipe(iter(texts), batch_size=size))
        assert [doc.text for doc in docs] == texts
        for doc, expected in zip(docs, single, strict=True):
            np.testing.assert_allclose(doc.tensor, expected, atol=1e-5)


def test_a_stream_is_read_a_few_documents_ahead(nlp, monkeypatch):
    monkeypatch.setattr(spacy_component, "GROUP_TOKENS", 30)
    read = 0

    def texts():
        nonlocal read
        for _ in range(100):
            read += 1
            yield nlp.make_doc("one two three four five")

    stream = nlp.get_pipe("elmo").pipe(texts(), batch_size=1000)
    next(stream)
    assert read == 7  # 30 tokens, and the document that is too much


def test_short_documents_share_a_run_of_the_model(nlp, monkeypatch):
    runs = []
    vectors = EmbeddingRequest.vectors
    monkeypatch.setattr(EmbeddingRequest, "vectors", lambda *arguments: runs.append(1) or vectors(*arguments))
    list(nlp.pipe(["the bank"] * 50))
    assert len(runs) == 1


@pytest.mark.medium
def test_a_long_sentence_equals_the_embedder_s_pieces(nlp, embedder):
    words = ["the", "bank", "Zürich", "."] * 1500  # more than a batch of 4,096 tokens
    doc = nlp.get_pipe("elmo")(Doc(nlp.vocab, words=words))
    (expected,) = embedder.embed([words])
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)


def test_a_document_that_fails_goes_to_the_error_handler(nlp, monkeypatch):
    failed = []
    component = nlp.get_pipe("elmo")
    annotate = component._annotate

    def fail(docs):
        if any("closed" in doc.text for doc in docs):
            raise ValueError("no")
        annotate(docs)

    monkeypatch.setattr(component, "_annotate", fail)
    monkeypatch.setattr(
        component, "error_handler", lambda name, proc, docs, error: failed.append((name, docs[0].text)), raising=False
    )
    docs = [nlp.make_doc(text) for text in ("bank", "closed", "river")]
    assert [doc.text for doc in component.pipe(docs, batch_size=1)] == ["bank", "river"]
    assert failed == [("elmo", "closed")]


def test_hooks_go_with_a_pickled_document_and_can_be_added_to_a_stored_one(nlp):
    doc = nlp("The bank . The bank")
    back = pickle.loads(pickle.dumps(doc))
    assert back[1].similarity(back[4]) == doc[1].similarity(doc[4])
    with pytest.warns(UserWarning, match="user hooks"):
        stored = doc.to_bytes()
    back = Doc(nlp.vocab).from_bytes(stored)
    assert back[1].similarity(back[4]) == 1
    assert add_vector_hooks(back) is back
    assert back[1].similarity(back[4]) == doc[1].similarity(doc[4]) != 1
    assert doc[1:3].as_doc()[0].similarity(doc[1]) == pytest.approx(1)
    with pytest.raises(ValueError, match="run the component elmo on it first"):
        add_vector_hooks(nlp.make_doc("The bank"))


@pytest.mark.medium
def test_the_default_model_is_the_one_of_the_package():
    doc = blank("elmo")("The bank")
    expected = ElmoEmbedder.from_pretrained().embed([["The", "bank"]])[0]
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
    assert blank("elmo", model="elmo-english-compact")("The bank").tensor.shape == (2, 512)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": "no/folder/here"}, "There is no folder no/folder/here"),
        ({"model": 7}, "`model` of elmo must be a folder or a name on the Hub, found 7"),
        ({"layers": "mixx"}, r"did you mean 'mix'"),
        ({"layers": 9}, "numbered from 0 to 2, found 9"),
        ({"layers": None}, "found None"),
        ({"layers": []}, "empty list"),
        ({"device": "gpu"}, "The device 'gpu'"),
        ({"precision": "fp16"}, "`precision` of elmo must be one of fp32, bf16, int8, found 'fp16'"),
        ({"save_weights": "yes"}, "`save_weights` of elmo must be true or false"),
    ],
)
def test_a_mistake_is_one_line(encoder, config, message):
    with pytest.raises(ValueError, match=message) as caught:
        blank("elmo", **{"model": encoder} | config)
    assert "\n" not in str(caught.value)


def test_a_tagger_s_folder_gives_the_vectors_of_its_encoder(ner):
    doc = blank("elmo", model=ner)("The bank")
    np.testing.assert_allclose(doc.tensor, ElmoEmbedder.from_pretrained(ner).embed([["The", "bank"]])[0], atol=1e-6)


def test_a_folder_of_another_model_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=str(tmp_path)):
        blank("elmo", model=str(tmp_path))


def test_the_precision_is_that_of_the_config(encoder, embedder):
    nlp = blank("elmo", model=encoder, precision="bf16")
    assert str(nlp.get_pipe("elmo").embedder.model.dtype) == "torch.bfloat16"
    doc = nlp("the bank")
    assert doc.tensor.dtype == np.float32
    np.testing.assert_allclose(doc.tensor, embedder.embed([["the", "bank"]])[0], atol=0.05)


def test_spacy_finds_the_components_by_their_entry_points():
    assert {"elmo", "elmo_ner", "elmo_tagger"} <= set(spacy.blank("de").factory_names)
