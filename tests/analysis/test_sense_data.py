"""Text with senses in its three formats, and every way in which it can be malformed."""

import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.analysis.sense_data import (
    SenseInstance,
    SenseSentence,
    read_first_senses,
    read_senses,
    split_by_document,
    split_multi_word,
)
from elmo_hf.errors import TextError
from tests.conftest import find_data

SEMCOR = """# document = br-a01.naf
The\tthe\tDT\t-\t-
Grand_Jury\tgroup\tNNP\tgroup%1:03:00::\teng30-00031264-n
looked\tlook\tVB\tlook_up%2:31:00::\teng30-1
up\tup\tRP\t^\t-
years\tyear\tNN\tyear%1:28:02::;1:28:01::\t-
#\t_\t_\t-\t-

recent\trecent\tJJ\trecent%5:00:00:past:00\teng30-2
# document = br-a02.naf
well\twell\tRB\twell%4:02:01::\teng30-3
"""
XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="senseval2">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>
<wf lemma="of" pos="ADP">of</wf>
<instance id="d000.s000.t001" lemma="change_ringing" pos="NOUN">change ringing</instance>
</sentence>
</text>
<text id="d001">
<sentence id="d001.s000">
<instance id="d001.s000.t000" lemma="be" pos="VERB">is</instance>
</sentence>
</text>
</corpus>
"""
KEYS = """d000.s000.t000 art%1:09:00:: art%1:06:00::
d000.s000.t001 change_ringing%1:04:00::

d001.s000.t000 be%2:42:03::
"""
PLAIN = """the bank of the river\t1\triver
the bank of the river\t4\twater

A Bank\t1\tbank%1:14:00::
als ob\t0\tx\tALS\tKON
in New_York now\t1\tcity
in New_York now\t2\ttime
"""


def write(tmp_path, text, name="data.tsv") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


def test_semcor_has_documents_multi_words_and_several_senses(tmp_path):
    sentences = read_senses(write(tmp_path, SEMCOR))
    assert sentences == [
        SenseSentence(
            ["The", "Grand", "Jury", "looked", "up", "years", "#"],
            [
                SenseInstance(1, 3, "group", "noun", ("group%1:03:00::",)),
                SenseInstance(3, 5, "look", "verb", ("look_up%2:31:00::",)),
                SenseInstance(5, 6, "year", "noun", ("year%1:28:02::", "year%1:28:01::")),
            ],
            "br-a01.naf",
        ),
        SenseSentence(
            ["recent"], [SenseInstance(0, 1, "recent", "adjective", ("recent%5:00:00:past:00",))], "br-a01.naf"
        ),
        SenseSentence(["well"], [SenseInstance(0, 1, "well", "adverb", ("well%4:02:01::",))], "br-a02.naf"),
    ]


def test_xml_has_its_senses_in_a_file_beside_it(tmp_path):
    path = write(tmp_path, XML, "all.data.xml")
    write(tmp_path, KEYS, "all.gold.key.txt")
    art = SenseInstance(1, 2, "art", "noun", ("art%1:09:00::", "art%1:06:00::"))
    ringing = SenseInstance(3, 5, "change_ringing", "noun", ("change_ringing%1:04:00::",))
    assert read_senses(path) == [
        SenseSentence(["The", "art", "of", "change", "ringing"], [art, ringing], "d000"),
        SenseSentence(["is"], [SenseInstance(0, 1, "be", "verb", ("be%2:42:03::",))], "d001"),
    ]


def test_the_senses_of_xml_may_be_anywhere_and_both_may_be_compressed(tmp_path):
    (tmp_path / "all.xml.xz").write_bytes(lzma.compress(XML.encode()))
    keys = write(tmp_path, KEYS, "elsewhere.txt")
    assert len(read_senses(str(tmp_path / "all.xml.xz"), keys=keys)) == 2


def test_plain_lines_have_a_sentence_a_position_and_a_sense(tmp_path):
    expected = [
        SenseSentence(
            ["the", "bank", "of", "the", "river"],
            [SenseInstance(1, 2, "bank", "", ("river",)), SenseInstance(4, 5, "river", "", ("water",))],
        ),
        SenseSentence(["A", "Bank"], [SenseInstance(1, 2, "bank", "noun", ("bank%1:14:00::",))]),
        SenseSentence(["als", "ob"], [SenseInstance(0, 1, "als", "kon", ("x",))]),
        SenseSentence(
            ["in", "New", "York", "now"],
            [SenseInstance(1, 3, "new_york", "", ("city",)), SenseInstance(3, 4, "now", "", ("time",))],
        ),
    ]
    assert read_senses(write(tmp_path, PLAIN)) == expected
    assert read_senses(write(tmp_path, "sentence\tposition\tsense\n" + PLAIN)) == expected


def test_the_first_word_of_a_semcor_file_may_be_a_number(tmp_path):
    path = write(tmp_path, "1801\t1801\tCD\t-\t-\nwell\twell\tRB\twell%4:02:01::\t-\n")
    assert read_senses(path)[0].words == ["1801", "well"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\njust a sentence\n", r"data\.tsv, line 2: none of the three formats"),
        (
            "a\tb\tDT\t-\t-\nThe\tthe\tDT\n",
            "line 2: word, lemma, tag, sense keys and synset, separated by tabs, should",
        ),
        ("The\tthe\tDT\tnonsense\t-\n", r"line 1: a sense key such as bank%1:17:01:: or - should .* found 'nonsense'"),
        ("up\tup\tRP\t^\t-\n", r"line 1: \^ continues a word with a sense, and there is none before it"),
        ("\tthe\tDT\t-\t-\n", "line 1: a word should be in the first column"),
        ("The\tthe\tDT\t-\t-\n", "no word has a sense"),
        ("a b\t0\tx\na b\tone\tx\n", "line 2: the position of a word, a number counted from 0, .* found 'one'"),
        ("a b\t0\tx\na b\t2\tx\n", "line 2: position 2 in a sentence of 2 words, counted from 0"),
        ("a b\t0\tx\na b\t1\t\n", "line 2: a sentence, a position and a sense, separated by tabs, should be here"),
        ("a b\t0\tx\na b\t-1\tx\n", "line 2: the position of a word"),
        ("a b\t0\tx\na b 0 x\n", "line 2: a sentence, a position and a sense, separated by tabs, should be here"),
    ],
)
def test_malformed_columns_are_named_with_their_line(tmp_path, text, message):
    with pytest.raises(TextError, match=message):
        read_senses(write(tmp_path, text))


@pytest.mark.parametrize(
    ("xml", "keys", "message"),
    [
        (XML.replace("</corpus>", ""), KEYS, r"line 16: not valid XML \(no element found\)\.$"),
        (XML.replace("</wf>", "", 1), KEYS, "not valid XML"),
        (XML, KEYS.replace("d001.s000.t000", "d009.s000.t000"), "line 13: the instance d001.s000.t000 has no sense in"),
        (XML, KEYS + "lonely\n", "line 5: an instance and its senses should be here, found 'lonely'"),
        (XML, KEYS + KEYS, "line 5: the instance 'd000.s000.t000' has its senses twice"),
        (XML.replace(' id="d001.s000.t000"', ""), KEYS, "line 13: the instance 'is' has no id"),
        (XML.replace(">is<", "><"), KEYS, "line 13: an element instance without a word"),
        (XML.replace("wf", "word"), KEYS, "line 5: a sentence has elements wf and instance, found 'word'"),
    ],
)
def test_malformed_xml_and_keys_are_named(tmp_path, xml, keys, message):
    path = write(tmp_path, xml, "all.data.xml")
    write(tmp_path, keys, "all.gold.key.txt")
    with pytest.raises(TextError, match=message):
        read_senses(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(TextError, match="No such file"):
        read_senses(str(tmp_path / "no.tsv"))
    path = write(tmp_path, XML, "all.data.xml")
    with pytest.raises(TextError, match=r"there is no .*all\.gold\.key\.txt: name it"):
        read_senses(path)
    with pytest.raises(TextError, match=r"No such file: no\.txt"):
        read_senses(path, keys="no.txt")
    with pytest.raises(TextError, match="not an XML file"):
        read_senses(write(tmp_path, PLAIN), keys="no.txt")


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_a_word_is_never_split_into_nothing_or_blanks(word):
    parts = split_multi_word(word)
    assert parts == [word] or all(part and not part.isspace() and "_" not in part for part in parts)


def documents(count) -> list[SenseSentence]:
    return [SenseSentence([str(n)], [], f"d{n // 3}") for n in range(3 * count)]


@given(st.integers(2, 30), st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_split_divides_documents_and_nothing_is_lost(count, share, seed):
    sentences = documents(count)
    train, test = split_by_document(sentences, share, seed)
    train_documents, test_documents = ({some.document for some in part} for part in (train, test))
    assert train_documents.isdisjoint(test_documents)
    assert sorted(train + test) == sorted(sentences)
    assert len(test_documents) == min(max(round(share * count), 1), count - 1)


def test_the_seed_chooses_the_documents():
    test_documents = [
        {some.document for some in split_by_document(documents(20), 0.5, seed).test} for seed in (0, 0, 1)
    ]
    assert test_documents[0] == test_documents[1] != test_documents[2]


def test_what_cannot_be_split_is_refused():
    with pytest.raises(TextError, match="no documents to split by"):
        split_by_document([SenseSentence(["a"], [])], 0.5)
    with pytest.raises(TextError, match="one document, 'd0'"):
        split_by_document(documents(1), 0.5)
    with pytest.raises(ValueError, match="above 0 and below 1, found 1"):
        split_by_document(documents(3), 1)


def test_first_senses_are_those_of_number_one(tmp_path):
    path = write(tmp_path, "bank%1:14:00:: 1 2 20\nbank%1:17:01:: 2 1 25\nable%5:00:00:x:00 3 1 0\n", "index.sense")
    assert read_first_senses(path) == {
        ("bank", "noun"): "bank%1:17:01::",
        ("able", "adjective"): "able%5:00:00:x:00",
    }
    with pytest.raises(TextError, match="line 1: a sense key, its synset and its number should be here"):
        read_first_senses(write(tmp_path, "bank 1 2\n", "wrong"))
    with pytest.raises(TextError, match="holds no first sense"):
        read_first_senses(write(tmp_path, "bank%1:14:00:: 1 2 20\n", "wrong"))
    with pytest.raises(TextError, match="No such file"):
        read_first_senses(str(tmp_path / "none"))


@pytest.mark.medium
def test_semcor_itself_is_read():
    path = find_data("corpora", "wsd-semcor", "semcor3.0-brown1-brown2.tsv.xz")
    sentences = read_senses(str(path))
    assert len(sentences) == 20_138
    assert sum(len(sentence.instances) for sentence in sentences) == 192_639
    assert len({sentence.document for sentence in sentences}) == 186


VALID = {
    "semcor": "# document = d\na\ta\tDT\t-\t-\nriver_bank\tbank\tNN\tbank%1:17:01::;1:14:00::\tx\nup\tup\tRP\t^\t-\n",
    "plain": "sentence\tposition\tsense\nThe bank .\t1\tbank%1:17:01::\nEin Haus_boot\t1\tx\thaus\tNOUN\n",
}
PIECES = [
    "\t",
    "\n",
    "\r\n",
    "\0",
    "\ufeff",
    "^",
    "-",
    "%",
    "_",
    " ",
    ";",
    "#",
    "-1",
    "9" * 30,
    "²",
    "\u2028",
    "\x1c",
    "",
]


@given(
    st.sampled_from(sorted(VALID)),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 20), st.sampled_from(PIECES)), max_size=4),
)
def test_damaged_columns_are_refused_in_one_line_or_give_valid_senses(tmp_path_factory, kind, damages):
    text = VALID[kind]
    for start, length, piece in damages:
        text = text[:start] + piece + text[start + length :]
    path = tmp_path_factory.getbasetemp() / "damaged.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    sentences, message = [], ""
    try:
        sentences = read_senses(str(path))
    except TextError as error:
        message = str(error)
    assert "\n" not in message
    assert bool(sentences) != bool(message)
    assert all(word for sentence in sentences for word in sentence.words)
    for sentence in sentences:
        for one in sentence.instances:
            assert 0 <= one.start < one.end <= len(sentence.words)
            assert one.lemma
            assert all(one.senses)
