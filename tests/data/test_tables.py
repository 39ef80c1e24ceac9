"""Lines and rows of files: a bad one is given as its error, in its place, and costs no other."""

import csv
import gzip
import io
import lzma
import tracemalloc
import zlib
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.conll import column_sentences
from elmo_hf.data.tables import (
    Row,
    json_rows,
    kind_of,
    numbered_lines,
    refuse_broken_columns,
    table_rows,
    without_errors,
)
from elmo_hf.data.text_sources import lines_or_errors
from elmo_hf.errors import TextError

ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@pytest.fixture
def file(tmp_path):
    def write(content: bytes | str, name: str = "file") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def messages(items) -> list[str]:
    return [str(item) for item in items if isinstance(item, TextError)]


# ---- lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""]), ("a\r\n\u2028\n", ["a", "\u2028"])],
)
def test_every_line_is_one_blank_ones_too_and_the_last_needs_no_end(file, content, lines):
    assert list(numbered_lines(file(content))) == list(enumerate(lines, start=1))


@given(st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line)))
def test_a_line_that_is_no_text_is_its_error_and_the_others_come_as_they_are(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"first\n" + b"".join(line + b"\n" for line in lines))
    numbered = list(lines_or_errors(str(path)))
    assert [line_number for line_number, _ in numbered] == list(range(1, len(lines) + 2))
    for (line_number, line), content in zip(numbered[1:], lines, strict=True):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            assert f"lines, line {line_number}, is not UTF-8" in str(line)
        else:
            assert line == text.rstrip("\r")


def compressed(file, *parts: tuple[bytes, int]) -> str:
    """A gzip of parts, each repeated, which is small on disk."""
    path = file(b"", "text.gz")
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for part, times in parts:
            for _ in range(times >> 10):
                stream.write(part * 1024)
    return path


@contextmanager
def memory_of_at_most(size: int):
    """Within, more memory of Python objects makes the test fail."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


MIB = 2**20
BOMB = [(b"a cat\n", 1024), (b"aaaaaaaa", 8 * MIB), (b"\n", 1024)]  # a line of 64 MiB among others


def test_a_line_that_is_too_long_is_its_error_and_does_not_fill_memory(file):
    path, lines = compressed(file, *BOMB), []
    with memory_of_at_most(24 * MIB):
        for line_number, line in lines_or_errors(path):
            assert len(str(line)) < 200
            lines.append((line_number, line))
    assert len(lines) == 1024 + 1024
    problems = [(line_number, str(line)) for line_number, line in lines if isinstance(line, TextError)]
    assert problems == [
        (1025, f"{path}, line 1025, has more than 4 MiB: begin a new line with each sentence, or with each document.")
    ]


def test_a_long_line_is_read(file):
    (line,) = lines_or_errors(file(b"a " * 2 * MIB))
    assert len(line[1]) == 4 * MIB


@pytest.mark.medium
def test_a_row_of_many_lines_that_is_too_long_is_its_error_and_does_not_fill_memory(file):
    """A quote closes and another one opens on every line, so that the row has no end."""
    row = b'"' + b"a" * 500 + b'\n",'
    path = compressed(file, (b"a,b\n1,2\n", 1024), (row, 1024 * 40), (b"\n3,4\n", 1024))
    with memory_of_at_most(40 * MIB):
        rows = list(table_rows(path, ","))
    assert f"{path}, line 2049: a row of more than 4 MiB begins here: is a quote missing?" in messages(rows)
    assert sum(isinstance(row, Row) and row.values == {"a": "3", "b": "4"} for row in rows) == 1024


def test_a_sentence_of_columns_that_is_too_long_is_its_error_and_does_not_fill_memory(file, monkeypatch):
    monkeypatch.setattr("elmo_hf.data.conll.LONGEST_SENTENCE", 10_000)
    path = compressed(file, (b"cat\tN\n\n", 1024), (b"dog\tN\n", 64 * 1024), (b"\nbird\tN\n", 1024))
    with memory_of_at_most(20 * MIB):
        sentences = list(column_sentences(path))
    assert [len(sentence) for sentence in sentences if not isinstance(sentence, TextError)] == [1] * 2048
    (message,) = messages(sentences)
    assert message.startswith(f"{path}, line 2049: a sentence of more than 10,000 lines, or 4 MiB, begins here: ")


def with_window(content: bytes, size: int) -> bytes:
    """An xz file with another window in the header of its block: 40 is 4 GiB."""
    changed, first = bytearray(content), 12
    end = first + 4 * (changed[first] + 1)
    assert changed[first + 2 : first + 4] == b"\x21\x01"  # LZMA2, and one byte about it
    changed[first + 4] = size
    changed[end - 4 : end] = zlib.crc32(changed[first : end - 4]).to_bytes(4, "little")
    return bytes(changed)


def test_an_xz_file_that_asks_for_gigabytes_is_refused(file):
    content = lzma.compress(b"a cat\n")
    assert list(lines_or_errors(file(with_window(content, content[16])))) == [(1, "a cat")]
    with pytest.raises(TextError, match=r"file needs more than 256 MiB to be decompressed: .* `xz -9` or less\."):
        list(lines_or_errors(file(with_window(content, 40))))


def test_xz_streams_one_after_the_other_are_one_text(file):
    content = lzma.compress(b"a cat\n" * 50_000, preset=9) + lzma.compress(b"a dog\n")
    for rest in (b"", bytes(8)):
        lines = [line for _, line in lines_or_errors(file(content + rest))]
        assert lines == ["a cat"] * 50_000 + ["a dog"]


def test_a_binary_file_without_line_ends_does_not_fill_memory(file, monkeypatch):
    monkeypatch.setattr("elmo_hf.data.text_sources.BLOCK", 4)
    (numbered_error,) = lines_or_errors(file(b"\0" * 4000))
    assert "line 1, is not UTF-8" in str(numbered_error[1])


# ---- rows


def test_json_rows(file):
    path = file('{"a": 1}\n\nno\n[1]\n' + "[" * 100_000 + '\n{"a": 2}\n')
    rows = list(json_rows(path))
    assert [row.values for row in rows if isinstance(row, Row)] == [{"a": 1}, None, {"a": 2}]
    assert [message.partition(": ")[0] for message in messages(rows)] == [f"{path}, line {n}" for n in (3, 4, 5)]
    with pytest.raises(TextError, match=r"line 3: not JSON \(Expecting value at column 1\)\."):
        list(without_errors(rows))


@given(
    st.lists(st.tuples(ANY_TEXT, ANY_TEXT).map(lambda row: tuple(text.replace("\r", "") for text in row)), max_size=6)
)
def test_tables_come_back_as_they_were_written(tmp_path_factory, rows):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([("a", "b"), *rows])
    path = tmp_path_factory.getbasetemp() / "table"
    path.write_bytes(buffer.getvalue().encode())
    read = [row.values for row in without_errors(table_rows(str(path), ",")) if row.values is not None]
    assert [tuple(values.values()) for values in read] == rows


def test_a_bad_row_of_a_table_costs_no_other(file):
    rows = ["a,b", "1,2", '"x" y,2', "3", "", '"not closed,4', "5,6", '"7', '8",9']
    path = file("\n".join(rows).encode() + b"\n\xff,0\n10,11\n")
    read = list(table_rows(path, ","))
    assert [tuple(row.values.values()) for row in read if isinstance(row, Row) and row.values] == [
        ("1", "2"),
        ("5", "6"),
        ("7\n8", "9"),
        ("10", "11"),
    ]
    assert [message.partition(": ")[0] for message in messages(read)] == [
        f"{path}, line {line_number}" + (", is not UTF-8 text (invalid start byte, 0xff)" if line_number == 10 else "")
        for line_number in (3, 4, 6, 10)
    ]
    assert [row.where for row in read if isinstance(row, Row) and row.values is None] == [f"{path}, line 5"]


def test_a_table_without_names_is_refused_whatever_may_be_skipped(file):
    with pytest.raises(TextError, match="line 1"):
        list(table_rows(file(b"\xff,b\n1,2\n"), ","))


def test_a_sentence_with_a_bad_line_is_its_error_and_costs_no_other(file):
    path = file(b"a X\nb Y\n\n\xff X\nc Y\n\nd\n\n-DOCSTART-\n\ne X\n")
    sentences = list(column_sentences(path))
    assert [[line.columns[0] for line in lines] for lines in sentences if isinstance(lines, list)] == [
        ["a", "b"],
        ["e"],
    ]
    assert ["line 4" in messages(sentences)[0], "line 7: 1 column" in messages(sentences)[1]] == [True, True]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.conllu.gz", "conllu"),
        ("a.JSONL", "jsonl"),
        ("a.tsv.zst", "tsv"),
        ("a.parquet", "parquet"),
        ("a.conll", "conll"),
    ],
)
def test_the_name_tells_what_is_inside(file, name, kind):
    assert kind_of(file("", name)) == kind


def test_standard_input_is_text():
    assert kind_of("-") == "text"


def test_lines_between_an_open_quote_and_a_line_that_is_no_text_are_read(file):
    read = list(table_rows(file(b'a,b\n"x,1\n2,3\n\xff,0\n4,5\n'), ","))
    assert [tuple(row.values.values()) for row in read if isinstance(row, Row)] == [("2", "3"), ("4", "5")]
    assert len(messages(read)) == 2


@pytest.mark.parametrize("word", ["a\tb", "a\nb", "\r", " ", ""])
def test_words_that_columns_cannot_hold_are_refused(word):
    refuse_broken_columns(["a", "10\N{NO-BREAK SPACE}000"])
    with pytest.raises(TextError, match="cannot stand in a column"):
        refuse_broken_columns(["a", word])
