"""Sentiment trees: all phrases of a tree with their classes; a line that is no tree is named with the column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.sentiment_trees import CLASSES, ESCAPED, Phrase, sentiment_trees
from elmo_hf.errors import TextError


def read(tmp_path, text: str):
    (tmp_path / "train.txt").write_text(text, encoding="utf-8")
    return list(sentiment_trees(str(tmp_path / "train.txt")))


def test_the_sentence_comes_first_then_its_phrases(tmp_path):
    (phrases,) = read(tmp_path, "\n(3 (2 It) (4 (2 's) (4 -LRB-)))\n")
    assert phrases == [
        Phrase(["It", "'s", "("], "3"),
        Phrase(["It"], "2"),
        Phrase(["'s", "("], "4"),
        Phrase(["'s"], "2"),
        Phrase(["("], "4"),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("(3 (2 It) (4 lovely)", "the bracket of column 1 never closes"),
        ("(3 (2 It) (4 lovely))) (2 x)", "a tree ends before column 22"),
        ("(3 (2 It) (5 lovely))", "column 11, found '5'"),
        ("(3 (2 ) (4 lovely))", "closes in column 7 has no word"),
        ("(", "found 'nothing'"),
        ("It is lovely", "a tree such as"),
    ],
)
def test_a_line_that_is_no_tree_is_named_with_its_file_and_the_next_one_is_read(tmp_path, line, problem):
    error, phrases = read(tmp_path, f"{line}\n(2 fine)\n")
    assert isinstance(error, TextError)
    assert "train.txt, line 1: " in str(error)
    assert problem in str(error)
    assert phrases == [Phrase(["fine"], "2")]


words = st.text("abc'\\/-é", min_size=1, max_size=4).filter(lambda word: "\\" not in word and word not in ESCAPED)
trees = st.recursive(
    st.tuples(st.sampled_from(CLASSES), words), lambda part: st.tuples(st.sampled_from(CLASSES), part, part)
)


def written(tree) -> str:
    return f"({tree[0]} {' '.join(part if isinstance(part, str) else written(part) for part in tree[1:])})"


def leaves(tree) -> list[str]:
    return [word for part in tree[1:] for word in ([part] if isinstance(part, str) else leaves(part))]


def count(tree) -> int:
    return 1 + sum(count(part) for part in tree[1:] if not isinstance(part, str))


@given(tree=trees)
def test_any_tree_comes_back(tree, tmp_path_factory):
    (phrases,) = read(tmp_path_factory.mktemp("trees"), written(tree))
    assert phrases[0] == Phrase(leaves(tree), tree[0])
    assert len(phrases) == count(tree)
