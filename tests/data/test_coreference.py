"""The columns of CoNLL-2012 are read and written; what is wrong is named with file and line."""

import json
from itertools import accumulate, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.coreference import CoreferenceDocument, as_coreference_columns, read_coreference
from elmo_hf.errors import TextError

SENTENCES = [["Anna", "'s", "cat", "slept"], ["She", "fed", "it"]]
CLUSTERS = [[(0, 0), (4, 4)], [(0, 2), (6, 6)]]
COLUMNS = """#begin document (nw/x); part 001
nw/x 1 0 Anna - - - (1|(0)
nw/x 1 1 's - - - -
nw/x 1 2 cat - - - 1)
nw/x 1 3 slept - - - -

nw/x 1 0 She - - - (0)
nw/x 1 1 fed - - - -
nw/x 1 2 it - - - (1)
#end document
"""


def write(tmp_path, text: str, name: str = "documents.conll") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_mentions_are_counted_through_the_document(tmp_path):
    (document,) = read_coreference(write(tmp_path, COLUMNS))
    assert document == CoreferenceDocument("nw/x", SENTENCES, CLUSTERS, 1)
    (bare,) = read_coreference(write(tmp_path, COLUMNS), with_clusters=False)
    assert bare.clusters is None


def test_columns_with_tabs_may_be_empty(tmp_path):
    lines = ["#begin document (a); part 0", "a\t0\t0\tHe\t_\t(7)", "a\t0\t1\tran\t_\t", "#end document"]
    (document,) = read_coreference(write(tmp_path, "\n".join(lines)))
    assert document == CoreferenceDocument("a", [["He", "ran"]], [[(0, 0)]])


def test_nested_mentions_of_one_cluster_are_told_apart(tmp_path):
    lines = ["#begin document (a)", "a 0 0 x - (1|(1", "a 0 1 y - 1)", "a 0 2 z - 1)", "#end document"]
    (document,) = read_coreference(write(tmp_path, "\n".join(lines)))
    assert document.clusters == [[(0, 1), (0, 2)]]


def test_json_lines_hold_the_same(tmp_path):
    row = {"sentences": SENTENCES, "clusters": CLUSTERS}
    assert read_coreference(write(tmp_path, json.dumps(row), "documents.jsonl")) == [
        CoreferenceDocument("0", SENTENCES, CLUSTERS)
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- 1)", "- -", r"line 2: the bracket \(1 never closes: 1\) is missing"),
        ("(1|(0)", "(0)", r"line 4: 1\) closes a bracket that was never opened"),
        ("- 1)", "- 1", r"line 4: brackets look like"),
        ("- 1)", "- (x)", r"line 4: brackets look like"),
        ("nw/x 1 1 fed - - - -", "nw/x 1 1 fed", r"line 8: 4 columns, but CoNLL-2012 has 5 or more"),
        ("#end document\n", "", r"line 1: the document that begins here has no #end document"),
        ("#end document\n", "#begin document (y)\n", r"line 10: a document begins here, but the one of .*line 1"),
        ("#begin document (nw/x); part 001\n", "", r"line 1: a line outside of a document"),
        ("She - - - (0)", "She - - - (0)|(1)", r"line 7: the mention 'She' \(words 4 to 4\) is in two clusters"),
    ],
)
def test_a_malformed_document_is_named(tmp_path, old, new, message):
    assert old in COLUMNS
    with pytest.raises(TextError, match=message):
        read_coreference(write(tmp_path, COLUMNS.replace(old, new, 1)))


def test_a_mention_across_sentences_is_named_where_it_ends(tmp_path):
    text = COLUMNS.replace("slept - - - -", "slept - - - (2").replace("fed - - - -", "fed - - - 2)")
    with pytest.raises(TextError, match=r"line 8: the mention 'slept She fed' \(words 3 to 5\) is in two sentences"):
        read_coreference(write(tmp_path, text))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": ["Anna"]}, "`sentences` should be"),
        ({"clusters": [[[0, 7]]]}, r"\[first, last\], words from 0 to 6"),
        ({"clusters": [[[2, 1]]]}, r"\[first, last\]"),
        ({"clusters": [[[0, 0], [4, 4]], [[4, 4]]]}, r"the mention 'She' \(words 4 to 4\) is in two clusters"),
        ({"clusters": [[[3, 4]]]}, r"the mention 'slept She' \(words 3 to 4\) is in two sentences"),
        ({"sentences": [["Anna", ""]], "clusters": []}, "an empty word in `sentences`"),
        ({"sentences": [[" "]], "clusters": []}, "an empty word in `sentences`"),
        ({"sentences": [[]], "clusters": []}, "the document 0 has no words"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, changes, message):
    row = {"sentences": SENTENCES, "clusters": CLUSTERS} | changes
    with pytest.raises(TextError, match=f"line 1: .*{message}"):
        read_coreference(write(tmp_path, json.dumps(row), "documents.jsonl"))


def test_a_mention_that_its_cluster_names_twice_counts_once(tmp_path):
    row = {"sentences": SENTENCES, "clusters": [[[4, 4], [0, 0], [4, 4]]]}
    (document,) = read_coreference(write(tmp_path, json.dumps(row), "documents.jsonl"))
    assert document.clusters == [[(0, 0), (4, 4)]]


def test_a_file_without_documents_is_refused(tmp_path):
    with pytest.raises(TextError, match="not a single document"):
        read_coreference(write(tmp_path, "\n"))
    with pytest.raises(TextError, match="has no words"):
        read_coreference(write(tmp_path, "#begin document (a)\n\n#end document\n"))


@st.composite
def documents(draw):
    sentences = draw(
        st.lists(st.lists(st.sampled_from(["a", "Ü", "#", "-"]), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    # Brackets cannot tell crossing mentions of one cluster apart: each cluster here has words, or one longer span.
    ends = list(accumulate(map(len, sentences)))
    words = draw(st.permutations(range(ends[-1])))
    cut = draw(st.integers(0, len(words)))
    clusters = [sorted((word, word) for word in part) for part in (words[:cut], words[cut:]) if part]
    longer = [
        pair for start, stop in zip([0, *ends], ends, strict=False) for pair in combinations(range(start, stop), 2)
    ]
    if longer:
        clusters += [[span] for span in draw(st.lists(st.sampled_from(longer), max_size=4, unique=True))]
    return CoreferenceDocument(draw(st.sampled_from(["a", "b/c_0"])), sentences, clusters, draw(st.integers(0, 9)))


@given(st.lists(documents(), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, written):
    source = write(tmp_path_factory.mktemp("written"), "".join(map(as_coreference_columns, written)))
    assert read_coreference(source) == written


def test_a_word_may_have_a_no_break_space(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("#begin document (a)\na 0 0 10\N{NO-BREAK SPACE}000 - (0)\n#end document\n", encoding="utf-8")
    assert read_coreference(str(path))[0].sentences == [["10\N{NO-BREAK SPACE}000"]]
