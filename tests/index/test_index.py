"""An index of a corpus: what is in it, how it is made and opened, and what is refused."""

import json
import re

import numpy as np
import pytest
import torch

from elmo_hf import ElmoEmbedder, ElmoIndex, ElmoTokenizer, default_model
from elmo_hf.errors import FolderError, ModelError
from tests.embedding.toy import TOKENIZER, toy_embedder
from tests.full_disk import files_of_at_most
from tests.models import tiny_model

EMBEDDER = toy_embedder()
TEXTS = ["The bank of the river.", "", "I don't know Zürich.", ["a", "bank", "", "n't"], "A Bank! 😀 bank"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ElmoIndex.build(EMBEDDER, iter(TEXTS), tmp_path_factory.mktemp("indexes") / "index", dtype="float32")


# ---- what is in it


def test_every_word_is_there_in_order_with_its_place_and_its_vector(index):
    rows = iter(range(len(index)))
    for sentence_index, (tokens, vectors) in enumerate(
        zip(EMBEDDER.tokenize(TEXTS), EMBEDDER.embed(TEXTS), strict=True)
    ):
        for position, (word, (start, end)) in enumerate(zip(tokens.words, tokens.offsets, strict=True)):
            occurrence = index[next(rows)]
            assert (occurrence.word, occurrence.sentence, occurrence.start, occurrence.end) == (
                word,
                tokens.text,
                start,
                end,
            )
            assert (occurrence.number, occurrence.position) == (sentence_index, position)
            expected = vectors[position] / np.linalg.norm(vectors[position])
            np.testing.assert_allclose(occurrence.vector, expected, atol=1e-5)
    assert list(rows) == []
    assert index.sentences == 4


def test_half_precision_is_the_default_and_close(index, tmp_path):
    half = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "half")
    for row in range(len(index)):
        assert half[row].vector.dtype == np.float32
        np.testing.assert_allclose(half[row].vector, index[row].vector, atol=1e-3)
    sizes = [(folder / "vectors.npy").stat().st_size - 128 for folder in (half.folder, index.folder)]
    assert sizes[0] * 2 == sizes[1]


def test_only_the_wanted_words_are_there_and_only_their_sentences_are_embedded(index, tmp_path):
    counts = []
    some = ElmoIndex.build(
        EMBEDDER, TEXTS, tmp_path / "some", words=["BANK"], progress=lambda sentences, _: counts.append(sentences)
    )
    expected = [index[row] for row in range(len(index)) if index[row].word.lower() == "bank"]
    assert [some[row][2:] for row in range(len(some))] == [occurrence[2:] for occurrence in expected]
    assert len(some) == 4
    assert counts[-1] == 3


@pytest.mark.parametrize("layers", ["mix", "top", "average", 0, -1])
def test_the_layers_are_those_asked_for(tmp_path, layers):
    index = ElmoIndex.build(EMBEDDER, ["the river"], tmp_path / "index", layers=layers, dtype="float32")
    (vectors,) = EMBEDDER.embed(["the river"], layers)
    np.testing.assert_allclose(index[1].vector, vectors[1] / np.linalg.norm(vectors[1]), atol=1e-5)
    assert ElmoIndex.load(index.folder).layers == layers


@pytest.mark.medium
def test_the_vectors_are_written_while_the_text_is_read(tmp_path):
    """Of a corpus of any size only a window is in memory."""
    sizes = []

    def sentences():
        for line_number in range(4001):
            if line_number % 1000 == 0:
                sizes.append(sum(path.stat().st_size for path in tmp_path.glob(".index.*/vectors.npy")))
            yield "the bank of the river a bank of the river ."

    ElmoIndex.build(EMBEDDER, sentences(), tmp_path / "index")
    assert sizes[0] < 1000 < sizes[-1]


def test_the_model_is_remembered_by_a_name_that_finds_it_again(tmp_path, index):
    assert index.model == ""  # never saved
    EMBEDDER.model.save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    saved = ElmoEmbedder.from_pretrained(tmp_path / "model")
    assert ElmoIndex.build(saved, ["a"], tmp_path / "index").model == str(tmp_path / "model")
    saved.model.name_or_path = default_model()
    assert ElmoIndex.build(saved, ["a"], tmp_path / "shipped").model == "elmo-english-compact"


# ---- making it


def test_what_fails_leaves_nothing_behind(tmp_path):
    def sentences():
        yield "the bank"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ElmoIndex.build(EMBEDDER, sentences(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path):
    with files_of_at_most(20_000), pytest.raises(OSError, match="too large"):
        ElmoIndex.build(EMBEDDER, ["the bank of the river"] * 1000, tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_used_folder_is_refused_before_the_text_is_read(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="not an empty folder"):
        ElmoIndex.build(EMBEDDER, iter([None]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "no word at all"),
        (["", "  "], {}, "no word at all"),
        (["the bank"], {"words": ["river", "Zürich"]}, "none of the words river, Zürich"),
        (["the bank"], {"words": "bank"}, "list of words"),
        (["the bank"], {"words": []}, "list of words"),
        (["the bank"], {"dtype": "int8"}, "float16 or float32"),
        (["the bank"], {"layers": "all"}, "one vector per word"),
        (["the bank"], {"layers": [1]}, "one vector per word"),
        (["the bank"], {"layers": 3}, "0 to 2"),
        ("the bank", {}, "put it into a list"),
        (["the bank", b"bank"], {}, r"sentences\[1\]"),
    ],
    ids=str,
)
def test_what_cannot_be_indexed_is_refused(tmp_path, texts, options, message):
    with pytest.raises(ValueError, match=message):
        ElmoIndex.build(EMBEDDER, texts, tmp_path / "index", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_model_whose_vectors_are_not_finite_is_refused(tmp_path):
    broken = toy_embedder()
    with torch.no_grad():
        broken.model.layers[0].bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite"):
        ElmoIndex.build(broken, ["the bank"], tmp_path / "index")


# ---- opening it


def test_a_folder_that_is_no_index_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FolderError, match=f"{re.escape(str(folder))} is not an index"):
            ElmoIndex.load(folder)


def all_of(folder):
    index = ElmoIndex.load(folder)
    return [index[row] for row in range(len(index))]


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def empty(path):
    path.write_bytes(b"")


def scramble(path):
    path.write_bytes(b"\xff" * path.stat().st_size)


def pickle(path):
    with open(path, "wb") as file:
        np.save(file, np.array([{}]), allow_pickle=True)


FILES = ["fingerprint.npy", "index.json", "occurrences.npy", "sentences.npy", "sentences.txt", "vectors.npy"]


@pytest.mark.parametrize("damage", [cut, empty, scramble, pickle, lambda path: path.unlink()])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_by_its_name(tmp_path, name, damage):
    folder = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index").folder
    assert {path.name for path in folder.iterdir()} == set(FILES)
    damage(folder / name)
    with pytest.raises(FolderError, match=f"{name}|is not an index|is damaged"):
        all_of(folder)


@pytest.mark.parametrize(
    "fields", [{"format": 2}, {"size": 7}, {"occurrences": 0}, {"occurrences": "many"}, {"dtype": "float64"}], ids=str
)
def test_an_index_that_is_not_what_it_says_is_refused(tmp_path, fields):
    folder = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index").folder
    info = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(info | fields))
    with pytest.raises(FolderError, match="build"):
        ElmoIndex.load(folder)


def test_places_outside_of_the_text_are_refused(tmp_path):
    folder = ElmoIndex.build(EMBEDDER, TEXTS, tmp_path / "index").folder
    places = np.load(folder / "occurrences.npy")
    places["sentence"][1], places["end"][2] = 10**12, 4000
    np.save(folder / "occurrences.npy", places)
    opened = ElmoIndex.load(folder)
    assert opened[0].word == "The"
    for row in (1, 2):
        with pytest.raises(FolderError, match="damaged"):
            opened[row]


# ---- whose vectors they are


def test_the_same_model_is_known_again_in_half_precision_too(index):
    index.check_model(EMBEDDER)
    index.check_model(ElmoEmbedder(tiny_model().to(torch.bfloat16), TOKENIZER))


@pytest.mark.parametrize(
    "other",
    [
        toy_embedder(seed=1),
        toy_embedder(num_hidden_layers=3),
        toy_embedder(projection_size=5),
        toy_embedder(mixer_weights="top"),
        ElmoEmbedder(tiny_model(), ElmoTokenizer(splitting="whitespace")),
    ],
    ids=["weights", "layers", "size", "mixer", "tokenizer"],
)
def test_another_model_is_refused(index, other):
    with pytest.raises(ModelError, match="another model"):
        index.check_model(other)


def test_a_model_without_the_layer_is_refused(tmp_path):
    deep = ElmoIndex.build(toy_embedder(num_hidden_layers=3), ["a"], tmp_path / "index", layers=3)
    with pytest.raises(ModelError, match="layers 3"):
        deep.check_model(EMBEDDER)


# ---- searching


def test_each_word_is_found_by_its_own_vector(index):
    for row in range(len(index)):
        (neighbour,) = index.search(3 * index[row].vector, k=1)
        assert neighbour.similarity == pytest.approx(1, abs=1e-5)
        assert neighbour.occurrence[2:] == index[row][2:]


def test_fewer_are_found_where_there_are_not_so_many(index):
    vector = index[0].vector
    assert len(index.search(vector, k=1000)) == len(index)
    assert [neighbour.occurrence.word for neighbour in index.search(vector, word="bank", k=1000)].count("Bank") == 1
    assert len(index.search(vector, word="bank", k=1000)) == 4
    assert index.search(vector, word="absent") == []
    words = [neighbour.occurrence.word.lower() for neighbour in index.search(vector, distinct=True, k=1000)]
    assert sorted(words) == sorted({index[row].word.lower() for row in range(len(index))})


@pytest.mark.parametrize(
    ("vector", "k", "message"),
    [
        (np.ones(8), 0, "1 or more"),
        (np.ones(8), 2.0, "1 or more"),
        (np.ones(7), 1, r"shape \(8,\)"),
        (np.ones((3, 8)), 1, r"shape \(8,\)"),
        (np.zeros(8), 1, "not zero"),
        (np.full(8, np.inf), 1, "finite"),
    ],
    ids=str,
)
def test_what_cannot_be_searched_for_is_refused(index, vector, k, message):
    with pytest.raises(ValueError, match=message):
        index.search(vector, k)
