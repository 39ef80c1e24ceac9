"""Records of a corpus: one line in, one record out, whatever holds it; a bad line is its error, in its place."""

import bz2
import datetime
import gzip
import json
import lzma
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.corpus.readers import ReadingOptions, Record, open_corpus
from elmo_hf.errors import TextError

TEXTS = ["He sat on the bank.", "", "“Schön”, she said\u2028twice", ' a,"b" ']
WORDS = [["He", "did", "n't"], [], ["new york", "宝玉"]]
REST = "\t_" * 8  # of a line of CoNLL-U
CONLLU = f"# text = don't\n1-2\tdon't{REST}\n1\tdo{REST}\n2\tn't{REST}\n\n1\tYes{REST}\n"


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def read(*names, **options) -> list[Record | TextError]:
    return [record for source in open_corpus(names, ReadingOptions(**options)) for record in source.read(ignore)]


def ignore(_):
    pass


def texts_of(records) -> list[str]:
    return [record.text for record in records]


def words_of(records) -> list[list[str]]:
    return [record.words for record in records]


# ---- what holds the texts


def lines(values) -> str:
    return "".join(f"{value}\n" for value in values)


def as_json(values, column="text") -> str:
    return lines(json.dumps({"id": 1, column: value}) for value in values)


def test_each_line_of_text_is_a_record_blank_ones_too(write):
    assert read(write("a.txt", lines(TEXTS))) == [Record(text) for text in TEXTS]
    assert read(write("none.txt", "")) == []


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compressed_or_not(write, compress):
    assert texts_of(read(write("a.txt", compress(lines(TEXTS).encode())))) == TEXTS


def test_sources_follow_each_other_as_they_are_named(write):
    names = [write("b.txt", "b\n"), write("a.jsonl", as_json(["a"])), write("c.txt", "c")]
    assert texts_of(read(*names)) == ["b", "a", "c"]


def test_tables_json_lines_parquet_and_datasets_give_the_texts_of_a_column(write, tmp_path):
    table = pa.table({"id": range(len(TEXTS)), "text": TEXTS})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    DatasetDict({"test": Dataset.from_dict({"sentence": TEXTS, "id": [0] * len(TEXTS)})}).save_to_disk(
        tmp_path / "saved"
    )
    quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
    for name in (
        write("a.jsonl", as_json(TEXTS)),
        write("a.csv", "id,text\n" + lines(f"1,{text}" for text in quoted)),
        write("a.tsv", "id\ttext\n" + lines(f"1\t{text}" for text in TEXTS)),
        str(tmp_path / "a.parquet"),
        str(tmp_path / "saved"),
    ):
        assert texts_of(read(name, split="test")) == TEXTS, name
        assert words_of(read(name, split="test")) == [None] * len(TEXTS)


def test_a_dataset_on_the_hub_is_streamed(monkeypatch):
    asked = []

    def load(name, split, *, streaming):
        asked.append((name, split, streaming))
        return Dataset.from_dict({"sentence": TEXTS, "id": [0] * len(TEXTS)}).to_iterable_dataset()

    monkeypatch.setattr("elmo_hf.corpus.readers.load_named_dataset", load)
    assert texts_of(read("me/texts:en", split="test")) == TEXTS
    assert asked == [("me/texts:en", "test", True)]
    with pytest.raises(TextError, match="there is no 'mine', only 'sentence', 'id'"):
        read("me/texts:en", column="mine")


def test_a_blank_line_of_json_lines_or_of_a_table_is_a_record_too(write):
    assert texts_of(read(write("a.jsonl", '{"text": "a"}\n\n{"text": null}\n{"text": "b"}\n'))) == ["a", "", "", "b"]
    assert texts_of(read(write("a.tsv", "text\na\n\nb\n"))) == ["a", "", "b"]


def test_lists_are_the_words_themselves(write, tmp_path):
    pq.write_table(pa.table({"tokens": WORDS}), tmp_path / "a.parquet")
    for name in (write("a.jsonl", as_json(WORDS, "words")), str(tmp_path / "a.parquet")):
        records = read(name)
        assert words_of(records) == WORDS
        assert texts_of(records) == ["He did n't", "", "new york 宝玉"]


def test_any_column_may_be_chosen(write):
    name = write("a.jsonl", lines(json.dumps({"text": "a", "mine": "b"}) for _ in range(2)))
    assert texts_of(read(name)) == ["a", "a"]
    assert texts_of(read(name, column="mine")) == ["b", "b"]


def test_words_of_text_may_be_what_blanks_separate(write):
    assert words_of(read(write("a.txt", "don't  stop .\n\n"), pretokenized=True)) == [["don't", "stop", "."], []]


def test_a_sentence_of_conll_is_a_record(write):
    name = write("a.conll", "-DOCSTART- O\n\nParis B-LOC\nis O\n\n\nYes O")
    assert words_of(read(name)) == [["Paris", "is"], ["Yes"]]
    assert words_of(read(name, column="1")) == [["B-LOC", "O"], ["O"]]
    assert words_of(read(write("a.conllu", CONLLU))) == [["do", "n't"], ["Yes"]]


def test_what_a_name_does_not_tell_is_said(write):
    assert texts_of(read(write("a.txt", as_json(TEXTS)), kind="jsonl")) == TEXTS
    assert words_of(read(write("b.txt", "a X\nb Y\n"), kind="conll")) == [["a", "b"]]


def test_a_lone_surrogate_of_json_does_not_come_through(write):
    (record,) = read(write("a.jsonl", '{"text": "a\\ud800b"}\n'))
    assert len(record.text.encode()) == 5


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_standard_input_is_read_as_a_file(write, compress, monkeypatch):
    for kind, content in (("text", lines(TEXTS)), (None, lines(TEXTS)), ("jsonl", as_json(TEXTS))):
        with open(write("input", compress(content.encode()))) as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert texts_of(read("-", kind=kind)) == TEXTS
    assert open_corpus(["-"], ReadingOptions())[0].size is None


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"))))
def test_any_lines_come_back(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes("".join(f"{text}\n" for text in ["-", *texts]).encode())
    assert texts_of(read(str(path))) == ["-", *texts]
    path.write_text(as_json(texts), "utf-8")
    assert texts_of(read(str(path), kind="jsonl")) == texts


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet", "saved"])
def test_the_bytes_that_are_reported_are_those_of_the_source(write, tmp_path, name):
    texts = ["some text " * 20] * 1000
    if name == "saved":
        Dataset.from_dict({"text": texts}).save_to_disk(tmp_path / name)
    elif name == "a.parquet":
        pq.write_table(pa.table({"text": texts}), tmp_path / name)
    else:
        content = (as_json(texts) if name == "a.jsonl" else lines(texts)).encode()
        write(name, gzip.compress(content) if name.endswith(".gz") else content)
    (source,) = open_corpus([str(tmp_path / name)], ReadingOptions())
    reported = []
    assert len(list(source.read(reported.append))) == 1000
    assert sum(reported) == source.size
    if name != "saved":
        assert source.size == os.path.getsize(tmp_path / name)


# ---- what is wrong


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.txt", b"a\ncaf\xe9\nb\n", {}, "a.txt, line 2, is not UTF-8"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n{"text": "b"}\n', {}, "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"text": "a"}\n{"id": 1}\n{"text": "b"}\n', {}, "line 2: there is no 'text' or 'sentence' or"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}\n{"text": "b"}\n', {}, "line 2: a text or a list of words should be"),
        ("a.jsonl", '{"text": "a"}\n{"text": ["a", 3]}\n{"text": "b"}\n', {}, "line 2: a text or a list of words"),
        ("a.csv", 'text,id\na,1\n"x" y,2\nb,3\n', {}, "a.csv, line 3: ',' expected after '\"'"),
        ("a.csv", "text,id\na,1\nx\nb,3\n", {}, "a.csv, line 3: 1 column, but 2 names at the top"),
        ("a.conll", "a O\n\nx\ny O\n\nb O\n", {}, "a.conll, line 3: 1 column, but 2 in the lines before"),
        ("a.conllu", f"1\ta{REST}\n\nx\n\n1\tb{REST}\n", {}, "line 3: CoNLL-U has 10 fields"),
        ("a.tsv", b"text\na\n\xff\nb\n", {}, "a.tsv, line 3, is not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_costs_no_other(write, name, content, options, message):
    first, error, last = read(write(name, content), **options)
    assert [first.text, last.text] == ["a", "b"]
    assert isinstance(error, TextError)
    assert message in str(error)
    assert "\n" not in str(error)


def test_a_bad_row_of_parquet_is_named(tmp_path):
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "a.parquet")
    assert "a.parquet, row 1: a text or a list of words" in str(read(str(tmp_path / "a.parquet"))[1])


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ([], {}, "No text was given"),
        (["none.txt"], {}, "No such file or folder: none.txt"),
        (["-", "-"], {}, "can be read only once"),
        (["-"], {"kind": "parquet"}, "cannot be read from standard input"),
        (["a.parquet"], {"column": "mine"}, "there is no 'mine', only 'id'"),
        (["a.parquet"], {}, "there is no 'text' or"),
        (["broken.parquet"], {}, "broken.parquet cannot be read"),
        (["a.conll"], {"column": "word"}, "columns by number"),
    ],
    ids=str,
)
def test_what_is_plainly_wrong_is_found_before_anything_is_read(write, tmp_path, monkeypatch, names, options, message):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1]}), "a.parquet")
    write("broken.parquet", "PAR1")
    write("a.conll", "a O\n")
    with pytest.raises(TextError, match=message):
        open_corpus(names, ReadingOptions(**options))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'needs pyarrow: pip install "elmo-hf\[embed\]"'):
        open_corpus([str(tmp_path / "a.parquet")], ReadingOptions())


# ---- other columns


TAGGED = "1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("name", "content", "keep", "expected"),
    [
        ("a.csv", "text,label\nthe bank,1\n", ("label",), {"label": "1"}),
        ("a.tsv", "id\ttext\tlabel\n7\tthe bank\tx\n", ("all",), {"id": "7", "label": "x"}),
        ("a.conll", "He PRP O\nsat VBD B\n", ("2", "1"), {"2": ["O", "B"], "1": ["PRP", "VBD"]}),
        ("b.conll", "He PRP\nsat VBD\n", ("all",), {"1": ["PRP", "VBD"]}),
        ("a.conllu", TAGGED, ("upos",), {"upos": ["PRON", "VERB"]}),
    ],
)
def test_other_columns_are_kept_by_name_or_number(tmp_path, name, content, keep, expected):
    (tmp_path / name).write_text(content, "utf-8")
    (record,) = read(str(tmp_path / name), keep_columns=keep)
    assert record.columns == expected


def test_columns_of_datasets_and_parquet_are_kept(tmp_path):
    rows = {"text": ["the bank", None], "label": [1, 2], "when": [datetime.date(2020, 1, 2), None]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    Dataset.from_dict(rows).save_to_disk(tmp_path / "saved")
    for name in ("a.parquet", "saved"):
        records = read(str(tmp_path / name), keep_columns=("when", "label"))
        assert [record.text for record in records] == ["the bank", ""]
        assert records[0].columns == {"when": "2020-01-02", "label": 1}
        assert records[1].columns == {"when": None, "label": 2}


def test_a_column_of_an_output_name_is_not_kept_a_second_time(tmp_path):
    (tmp_path / "a.csv").write_text("sentence,vectors\nthe bank,1\n", "utf-8")
    (error,) = read(str(tmp_path / "a.csv"), keep_columns=("all",))
    assert "the column 'vectors' cannot be kept" in str(error)
