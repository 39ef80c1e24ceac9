"""The table of neighbours, against all cosines one by one."""

import numpy as np
import pytest

from elmo_hf.analysis.nearest_uses import neighbors_table
from elmo_hf.errors import TextError
from tests.analysis.toy import cosine, representations, toy_embedder

CORPUS = [
    "the river bank .",
    "a Bank in Zürich",
    "the bank",
    "the bank",
    "a river",
    "n't the bank of a river",
    "the bank of Zürich .",
]
QUESTION = "a **bank** in Zürich"


def test_uses_are_the_nearest_occurrences_of_the_word_in_other_sentences():
    embedder = toy_embedder(scale=3.0)
    (row,) = neighbors_table(embedder, [*CORPUS, "a bank in Zürich"], [QUESTION], k=3).rows
    query = representations(embedder, ["a", "bank", "in", "Zürich"])[2, 1]
    expected = []
    for text in dict.fromkeys(CORPUS):
        words = text.split()
        vectors = representations(embedder, words)[2]
        expected += [(cosine(query, vectors[n]), text) for n, word in enumerate(words) if word.lower() == "bank"]
    expected.sort(reverse=True)
    assert [use.sentence for use in row.uses] == [text for _, text in expected[:3]]
    assert [use.similarity for use in row.uses] == pytest.approx([c for c, _ in expected[:3]], abs=2e-3)
    assert all(use.sentence[use.start : use.end].lower() == "bank" for use in row.uses)
    assert row.word == "bank"


@pytest.mark.parametrize("same_word", [True, False])
def test_copies_of_a_sentence_do_not_hide_other_uses(same_word):
    corpus = ["the bank of a river"] * 200 + CORPUS
    (row,) = neighbors_table(
        toy_embedder(scale=3.0), corpus, ["by the **bank** of a river"], k=5, same_word=same_word
    ).rows
    assert len({use.sentence for use in row.uses}) == 5


def test_any_word_may_be_nearest():
    table = neighbors_table(toy_embedder(), CORPUS, [QUESTION], k=30, same_word=False)
    assert len(table.rows[0].uses) == len(set(CORPUS))


def test_static_neighbours_are_those_of_layer_0_among_the_words_of_the_corpus():
    embedder = toy_embedder()
    table = neighbors_table(embedder, CORPUS, [QUESTION], k=4)
    words = sorted({word for text in CORPUS for word in text.split()} - {"bank", "Bank"})
    own = representations(embedder, ["bank"])[0, 0]
    cosines = {word: cosine(own, representations(embedder, [word])[0, 0]) for word in words}
    expected = sorted(words, key=cosines.__getitem__, reverse=True)[:4]
    assert [near.word for near in table.rows[0].words] == expected
    assert [near.similarity for near in table.rows[0].words] == pytest.approx([cosines[w] for w in expected], abs=1e-5)
    assert table.static == "layer 0"


def test_static_neighbours_may_come_from_a_file(tmp_path):
    vectors = {"bank": [1, 0], "shore": [2, 1], "money": [1, 1], "Bank": [1, 0.1], "far": [-1, 0]}
    lines = [f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in vectors.items()]
    (tmp_path / "glove.txt").write_text("".join(lines))
    questions = [QUESTION, "the **Bank**", "a **river**"]
    table = neighbors_table(toy_embedder(), CORPUS, questions, k=2, vectors=str(tmp_path / "glove.txt"))
    assert [near.word for near in table.rows[0].words] == ["shore", "money"]
    assert table.rows[0].words[0].similarity == pytest.approx(2 / np.sqrt(5))
    assert table.rows[2].words == []
    assert table.static == "glove.txt"
    shown = table.table()
    assert "bank (glove.txt): shore 0.89, money 0.71" in shown
    assert "river (glove.txt): no vector" in shown
    assert "a [bank] in Zürich\n" in shown


def test_bad_questions_and_corpora_are_refused():
    with pytest.raises(TextError, match="No word is marked"):
        neighbors_table(toy_embedder(), CORPUS, ["no mark"])
    with pytest.raises(TextError, match="no sentences"):
        neighbors_table(toy_embedder(), [], [QUESTION])
    with pytest.raises(TextError, match="none of the words castle"):
        neighbors_table(toy_embedder(), CORPUS, ["a **castle**"])
    with pytest.raises(ValueError, match="at least one sentence with"):
        neighbors_table(toy_embedder(), CORPUS, [])
    with pytest.raises(ValueError, match="`k` must be 1 or more"):
        neighbors_table(toy_embedder(), CORPUS, [QUESTION], k=0)
