"""FASTA files: every sequence with its id, and a clear message for what is none."""

import bz2
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.fasta import FastaRecord, fasta_records
from elmo_hf.data.tables import kind_of
from elmo_hf.errors import TextError

TWO = ">sp|P1|A first  protein\nMKT ay\nIAK*\n\n;comment\n>two\nSEQ\n"
EXPECTED = [FastaRecord("sp|P1|A", "first  protein", "MKTAYIAK"), FastaRecord("two", "", "SEQ")]


def read(tmp_path, content: str | bytes, name: str = "a.fasta"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(fasta_records(str(path)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
def test_sequences_of_several_lines_are_joined(tmp_path, pack):
    assert read(tmp_path, pack(TWO.encode())) == EXPECTED


def test_lines_may_end_as_on_windows(tmp_path):
    assert read(tmp_path, TWO.replace("\n", "\r\n")) == EXPECTED


def test_an_empty_sequence_is_a_record(tmp_path):
    assert read(tmp_path, ">a\n>b\nM") == [FastaRecord("a", "", ""), FastaRecord("b", "", "M")]
    assert read(tmp_path, "") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (">a\nMK-T\n", r"line 2: a sequence should be letters, found '-'\. Remove the gaps"),
        (">a\nMK\nM1\n", r"line 3: a sequence should be letters, found '1'"),
        (">a\nM*\nK\n", r"line 1: a sequence has a stop"),
        (">\nMK\n", r"line 1: a sequence should have a name"),
        (b">a\n\xff\n", r"line 2, is not UTF-8"),
    ],
)
def test_a_bad_sequence_is_an_error_in_its_place(tmp_path, content, message):
    content = content.encode() if isinstance(content, str) else content
    first, second = read(tmp_path, content + b">b\nSEQ\n")
    assert isinstance(first, TextError)
    with pytest.raises(TextError, match=message):
        raise first
    assert second == FastaRecord("b", "", "SEQ")


def test_text_that_is_no_fasta_is_refused(tmp_path):
    with pytest.raises(TextError, match=r"line 1: a sequence should begin with >"):
        read(tmp_path, "The cat sat on the mat .\n")


@pytest.mark.medium
@given(
    st.lists(
        st.tuples(
            st.text("ABC|_19", min_size=1, max_size=9), st.text("ACDEFGHIKLMNPQRSTVWY", max_size=90), st.integers(1, 99)
        )
    )
)
def test_what_is_written_is_read(tmp_path_factory, records):
    lines = []
    for name, sequence, width in records:
        lines += [f">{name} of something", *(sequence[i : i + width] for i in range(0, len(sequence), width))]
    path = tmp_path_factory.mktemp("fasta") / "a.faa"
    path.write_text("\n".join(lines))
    assert [(actual.id, actual.sequence) for actual in fasta_records(str(path))] == [record[:2] for record in records]


@pytest.mark.parametrize(
    ("content", "kind"), [(">one\nMK\n", "fasta"), ("\n>one\nMK\n", "fasta"), ("سلام دنیا\n", "text"), ("", "text")]
)
@pytest.mark.parametrize("name", ["file.fa", "file.fa.gz"])
def test_a_file_named_fa_is_fasta_if_it_begins_like_one_and_text_otherwise(content, kind, name, tmp_path):
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert kind_of(str(tmp_path / name)) == kind


def test_a_tab_ends_the_name_too(tmp_path):
    assert read(tmp_path, ">x\tdesc more\nMK") == [FastaRecord("x", "desc more", "MK")]
