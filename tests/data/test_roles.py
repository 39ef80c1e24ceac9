"""Semantic roles are read from columns and JSON lines; what is wrong is named with file and line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.roles import PredicateRoles, RoleSentence, as_role_columns, read_role_sentences, read_roles
from elmo_hf.errors import TextError

WORDS = ["Anna", "saw", "him", "leave"]
SAW, LEAVE = ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"], ["O", "O", "B-ARG0", "B-V"]
COLUMNS = """# sent_id = 1
1\tAnna\tNNP\t-\tB-ARG0\tO
2\tsaw\tVBD\tsee.01\tB-V\tO
3\thim\tPRP\t-\tB-ARG1\tB-ARG0
4\tleave\tVB\tleave.01\tI-ARG1\tB-V

1\tYes\tUH\t-
"""


def write(tmp_path, text: str, name: str = "roles.conll") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_each_predicate_is_one_example(tmp_path):
    source = write(tmp_path, COLUMNS)
    assert read_roles(source) == [PredicateRoles(WORDS, 1, SAW), PredicateRoles(WORDS, 3, LEAVE)]
    assert read_role_sentences(source) == [RoleSentence(WORDS, [1, 3], [SAW, LEAVE]), RoleSentence(["Yes"], [], [])]


def test_json_lines_hold_the_same(tmp_path):
    row = {"words": WORDS, "predicates": [1, 3], "tags": [SAW, LEAVE]}
    source = write(tmp_path, json.dumps(row) + "\n", "roles.jsonl")
    assert read_role_sentences(source) == [RoleSentence(WORDS, [1, 3], [SAW, LEAVE])]


def test_columns_without_roles_name_the_predicates_to_predict(tmp_path):
    source = write(tmp_path, "1\tAnna\t-\t-\n2\tleft\t-\tV\n")
    assert read_role_sentences(source, with_tags=False) == [RoleSentence(["Anna", "left"], [1])]
    with pytest.raises(TextError, match=r"line 1: 0 columns of roles, but the sentence has 1 predicate "):
        read_roles(source)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("B-ARG1\tB-ARG0\n", "B-ARG1\n", r"line 4: 1 column of roles, but the sentence has 2 predicates"),
        ("\tleave.01\t", "\t-\t", r"line 2: 2 columns of roles, but the sentence has 1 predicate "),
        ("B-ARG1\tB-ARG0", "O\tB-ARG0", r"line 5: I-ARG1 continues a role, but the tag before it is O"),
        ("I-ARG1", "I-ARG2", r"line 5: I-ARG2 continues a role, but the tag before it is B-ARG1"),
        ("B-ARG1\tB", "ARG1\tB", r"line 4: a tag of a role is O, B-ROLE or I-ROLE, found 'ARG1'"),
        ("3\thim", "4\thim", r"line 4: the first column is '4', but this is word 3"),
        ("\n1\tYes", "1\tYes", r"line 6: the first column is '1', but this is word 5"),
        ("1\tYes\tUH\t-", "1 Yes UH -", r"line 7: 1 column, but there should be number, word"),
        ("\thim\t", "\t\t", r"line 4: an empty word in the second column"),
        ("B-V\tO", "O\tB-V", r"line 3: the tag of the predicate 'saw' is O, .*: are the columns of roles in the order"),
        (
            "\tB-V\n",
            "\tB-ARG1\n",
            r"line 5: the tag of the predicate 'leave' is B-ARG1, but should be B-V, I-V or B-C-V",
        ),
    ],
)
def test_a_malformed_line_is_named(tmp_path, old, new, message):
    assert old in COLUMNS
    with pytest.raises(TextError, match=message):
        read_roles(write(tmp_path, COLUMNS.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicates": [4]}, "indices of words, from 0 to 3"),
        ({"predicates": 1}, "indices of words"),
        ({"tags": [SAW]}, "`tags` should be a list of strings for each"),
        ({"tags": [SAW, LEAVE[:3]]}, "4 words, but 3 tags"),
        ({"tags": [SAW, ["I-V", "O", "O", "O"]]}, "I-V continues a role"),
        ({"words": "Anna"}, "`words` should be a list of strings"),
        ({"words": ["Anna", "", "him", "leave"]}, "an empty word in `words`"),
        ({"predicates": [3, 1]}, "the tag of the predicate 'leave' is I-ARG1, but should be"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, changes, message):
    row = {"words": WORDS, "predicates": [1, 3], "tags": [SAW, LEAVE]} | changes
    with pytest.raises(TextError, match=f"line 1: .*{message}"):
        read_roles(write(tmp_path, json.dumps(row) + "\n", "roles.jsonl"))


def test_a_predicate_of_several_words_may_be_marked_at_any_of_them(tmp_path):
    lines = ["1\tgive\tVB\t-\tB-V", "2\tup\tRP\tgive_up.01\tI-V", "", "1\tup\tRP\tgive_up.01\tB-C-V"]
    first, second = read_roles(write(tmp_path, "\n".join(lines)))
    assert (first.tags, second.tags) == (["B-V", "I-V"], ["B-C-V"])


def test_a_file_without_predicates_is_refused(tmp_path):
    with pytest.raises(TextError, match="not a single predicate"):
        read_roles(write(tmp_path, "1\tYes\tUH\t-\n"))
    with pytest.raises(TextError, match="not a single sentence"):
        read_roles(write(tmp_path, "\n"))


@st.composite
def role_sentences(draw):
    words = draw(st.lists(st.sampled_from(["a", "Ü", "10 000", "#"]), min_size=1, max_size=5))
    predicates = draw(st.lists(st.integers(0, len(words) - 1), unique=True).map(sorted))
    tags = [draw(st.lists(st.sampled_from(["O", "B-X", "B-V"]), min_size=len(words), max_size=len(words)))
            for _ in predicates]  # fmt: skip
    for predicate, column in zip(predicates, tags, strict=True):
        column[predicate] = draw(st.sampled_from(["B-V", "B-C-V"]))
    return RoleSentence(words, predicates, tags)


@given(st.lists(role_sentences(), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("written")
    assert read_role_sentences(write(folder, "".join(map(as_role_columns, sentences)))) == sentences
