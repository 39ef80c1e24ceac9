"""Text is streamed as it was written, whatever holds it; what is no text is refused in one line."""

import bz2
import gzip
import importlib
import lzma
import os
import pickle
import sys
import tracemalloc
from itertools import chain
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import WhitespaceSplit

from elmo_hf.data import text_sources
from elmo_hf.errors import TextError
from elmo_hf.pretraining.text import Corpus, split_words

TEXT = b"one\ntwo\n\nthree\n"
DOCUMENTS = [["one", "two"], ["three"]]
ZSTANDARD = b"(\xb5/\xfd$\x0fy\x00\x00one\ntwo\n\nthree\n\x01\x98@\xbd"  # TEXT by the command line tool
COMPRESSED = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}
ZSTANDARD_LIBRARIES = ["compression.zstd", "backports.zstd", "zstandard"]


@pytest.fixture
def text_file(tmp_path):
    def write(content: bytes, name: str = "text.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


def read(sources, **options):
    corpus = Corpus(sources, **options)
    return [document for shard in range(len(corpus.shards)) for document in corpus.documents(shard)]


def refusal(sources, **options) -> str:
    """The message, of one line, with which sources are refused at once or when they are read."""
    with pytest.raises(TextError) as caught:
        list(Corpus(sources, **options).sentences())
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- lines and documents


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        (b"one\ntwo\n\nthree", DOCUMENTS),
        (b"\n\n \none \n\ttwo\n \t \n\n\nthree\n\n", DOCUMENTS),
        (b"one\r\ntwo\r\n\r\nthree\r\n", DOCUMENTS),
        (b"\xef\xbb\xbfone\ntwo\n\nthree\n", DOCUMENTS),
        (b"\xef\xbb\xbf\n\xef\xbb\xbfone", [["\ufeffone"]]),
        ("a\u2028b\x85c\x0bd\re\x0cf\x1cg\n".encode(), [["a\u2028b\x85c\x0bd\re\x0cf\x1cg"]]),
        ("one\ntwo\n\u3000\u2028\x0b\nthree".encode(), DOCUMENTS),
    ],
    ids=["plain", "blanks", "CRLF", "byte order mark", "a second mark is text", "other line ends", "other blanks"],
)
def test_a_line_is_a_sentence_and_blank_lines_part_documents(text_file, content, documents):
    assert read(text_file(content)) == documents


BLANKS = st.text(" \t\r\x0b\x0c\x1c\x85\xa0\u2028\u3000", max_size=3)
SENTENCES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0")).map(str.strip).filter(bool)
ANY_DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1))


@given(
    ANY_DOCUMENTS,
    st.lists(BLANKS, min_size=1),
    BLANKS,
    st.sampled_from(sorted(COMPRESSED)),
    st.integers(1, 50),
    st.data(),
)
def test_documents_come_back_as_they_were_written(
    tmp_path_factory, documents, parting, around, compression, block, data
):
    separator = "".join(f"{blanks}\n" for blanks in parting)
    content = separator.join("".join(f"{around}{line}{around}\n" for line in lines) for lines in documents)
    path = tmp_path_factory.getbasetemp() / "documents"
    path.write_bytes(COMPRESSED[compression](("\ufeff" + content).encode()))
    with mock.patch.object(text_sources, "BLOCK", block):
        assert read(path) == documents
        start = data.draw(st.integers(0, len(documents) + 1))
        assert list(Corpus(path).documents(0, start=start)) == documents[start:]
        if documents:
            assert list(Corpus(path).sentences()) == [*chain.from_iterable(documents)]


@given(st.lists(st.integers(1, 9)), st.integers(1, 4), st.integers(0, 9))
def test_cutting_long_documents_loses_nothing(tmp_path_factory, lengths, max_sentences, start):
    documents = [[f"{index}.{line}" for line in range(length)] for index, length in enumerate(lengths)]
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_text("\n\n".join(map("\n".join, documents)), "utf-8")
    corpus = Corpus(path, max_sentences=max_sentences)
    cut = list(corpus.documents(0))
    assert [*chain.from_iterable(cut)] == [*chain.from_iterable(documents)]
    assert all(1 <= len(document) <= max_sentences for document in cut)
    assert len(cut) == sum(-(-length // max_sentences) for length in lengths)
    assert list(corpus.documents(0, start=start)) == cut[start:]


@pytest.mark.medium
def test_a_file_without_blank_lines_is_never_in_memory(text_file):
    path = text_file(gzip.compress(b"a sentence of some words\n" * 500_000))  # 12.5 MB
    tracemalloc.start()
    try:
        assert sum(map(len, Corpus(path).documents(0))) == 500_000
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()


def test_documents_of_long_lines_are_cut_before_they_fill_memory(text_file):
    path = text_file(gzip.compress((b"a" * 2**20 + b"\n") * 12, compresslevel=1))  # lines of 1 MiB
    assert list(map(len, Corpus(path).documents(0))) == [4, 4, 4]


def test_a_line_without_end_is_refused(text_file):
    path = text_file(b"one\n" + b"a" * (2**22 + 2**16))
    assert f"{path}, line 2, has more than 4 MiB: begin a new line" in refusal(path)


def test_no_document_is_shorter_than_a_sentence():
    with pytest.raises(ValueError, match="`max_sentences` must be 1 or more, found 0"):
        Corpus("text.txt", max_sentences=0)


# ---- files


@pytest.mark.parametrize("name", ["text", "text.txt", "text.gz", "text.zst"])
@pytest.mark.parametrize("compression", COMPRESSED)
def test_the_first_bytes_tell_the_compression_and_not_the_name(text_file, compression, name):
    assert read(text_file(COMPRESSED[compression](TEXT), name)) == DOCUMENTS


@pytest.mark.parametrize("compression", COMPRESSED)
def test_files_that_were_put_together_are_read_to_the_end(text_file, compression):
    compress = COMPRESSED[compression]
    assert read(text_file(compress(b"one\ntw") + compress(b"o\n\nthree\n"))) == DOCUMENTS


def test_a_word_that_begins_as_a_compressed_file_is_a_word(text_file):
    assert read(text_file(b"BZh9 is how bzip2 begins\n")) == [["BZh9 is how bzip2 begins"]]


@pytest.mark.parametrize("compression", ["gzip", "xz", "bzip2"])
@pytest.mark.parametrize("damage", ["cut short", "changed"])
def test_a_damaged_file_is_refused(text_file, compression, damage):
    content = bytearray(COMPRESSED[compression](TEXT * 1000))
    if damage == "cut short":
        del content[-7:]
    else:
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path = text_file(bytes(content), "text.data")
    assert f"{path} is damaged or was cut short, fetch it again: " in refusal(path)


def only_library(monkeypatch, wanted: str | None):
    """Leaves one of the libraries for Zstandard, if it is there at all."""
    if wanted is not None:
        try:
            importlib.import_module(wanted)
        except ImportError:
            pytest.skip(f"{wanted} is not installed")
    for name in ZSTANDARD_LIBRARIES:
        if name != wanted:
            monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("library", ZSTANDARD_LIBRARIES)
def test_zstandard_is_read_with_any_library(text_file, monkeypatch, library):
    only_library(monkeypatch, library)
    assert read(text_file(ZSTANDARD)) == DOCUMENTS
    assert read(text_file(ZSTANDARD + ZSTANDARD)) == [["one", "two"], ["three", "one", "two"], ["three"]]
    for content in (ZSTANDARD[:-7], ZSTANDARD + ZSTANDARD[:7], ZSTANDARD[:-1] + b"?"):
        assert "is damaged or was cut short" in refusal(text_file(content))


def test_without_a_library_for_zstandard_the_remedy_is_named(text_file, monkeypatch):
    only_library(monkeypatch, None)
    path = text_file(ZSTANDARD, "text.zst")
    assert refusal(path).startswith(f"{path} is compressed with Zstandard")
    assert "pip install backports.zstd" in refusal(path)


@pytest.mark.parametrize(
    ("content", "line", "encoding"),
    [
        (b"caf\xe9\n", 1, "WINDOWS-1252"),
        (b"one\n\ntwo\ncaf\xe9", 4, "WINDOWS-1252"),
        ("Größe\n“why”\n".encode("cp1252"), 1, "WINDOWS-1252"),
        (b"one\ntwo\0\n", 2, None),
        ("one\n".encode("utf-16"), 1, "UTF-16"),
        ("one\n红楼梦，宝玉 two\n".encode("gb18030"), 2, "GB18030"),
        (("红楼梦" * 5000).encode("gb18030"), 1, "GB18030"),
        ("один\n".encode("cp1251"), 1, None),
        (b"one\n" * 300_000 + b"\xff\n", 300_001, "WINDOWS-1252"),
        (b"one\n" * 300_000 + b"\0\n", 300_001, None),
        (b"one\n" + b"x" * 2_000_000 + b"\xed\xa0\x80", 2, None),
        (b"one\ntwo \xe2\x82", 2, None),
    ],
    ids=[
        "latin-1", "last line", "western", "NUL", "UTF-16", "Chinese", "long Chinese", "Russian", "second block",
        "NUL there", "surrogate in a long line", "cut",
    ],
)  # fmt: skip
def test_what_is_not_utf8_is_refused_with_its_line_and_its_likely_encoding(text_file, content, line, encoding):
    path = text_file(content)
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}, is not UTF-8 text (")
    remedy = f"perhaps it is {encoding}; `iconv -f {encoding} -t UTF-8` converts it."
    assert message.endswith(remedy if encoding else "a binary file?")


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh91AY&SY"]))
def test_any_bytes_are_text_or_refused_in_one_line(tmp_path_factory, content, magic):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(magic + content)
    message = str(path)
    try:
        list(Corpus(path).sentences())
    except TextError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message


def test_a_file_that_vanishes_is_refused(text_file):
    path = text_file(TEXT)
    corpus = Corpus(path)
    path.unlink()
    with pytest.raises(TextError, match=f"{path} cannot be read: .*No such file"):
        next(corpus.documents(0))


# ---- tables


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"id": 1, "text": "one\\ntwo"}\n\n{"id": 2, "text": "three"}\n'),
        ("a.csv", 'id,text\n1,"one\ntwo"\n\n2,three\n'),
        ("a.tsv.gz", "id\ttext\n1\tone\n2\tthree\n"),
        ("a.csv", "id,sentence\n1,one\n2,three\n"),
    ],
    ids=str,
)
def test_a_row_of_a_table_is_a_document(text_file, name, content):
    path = text_file(COMPRESSED["gzip" if name.endswith(".gz") else "plain"](content.encode()), name)
    documents = DOCUMENTS if "two" in content else [["one"], ["three"]]
    assert read(path) == documents
    assert read(path.parent) == documents  # in a folder too
    corpus = Corpus(path)
    assert corpus.kinds == {path.name.split(".")[1]}
    assert list(corpus.documents(0, start=1)) == documents[1:]
    reports = []
    assert list(corpus.sentences(report=reports.append))
    assert sum(reports) == corpus.size == path.stat().st_size


def test_a_column_that_a_table_does_not_have_is_refused(text_file):
    path = text_file(b"sent,id\none,1\n", "a.csv")
    assert refusal(path).endswith("only 'sent', 'id'. Choose one of them with --column.")
    assert "there is no 'body', only 'sent', 'id'." in refusal(path, column="body")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", b"one O\n", "holds words or sequences (conll), not text: write one sentence per line into a"),
        ("a.conllu", b"# text = one\n", "holds words or sequences (conllu), not text"),
        ("a.fasta", b">one\nMKV\n", "holds words or sequences (fasta), not text"),
        ("a.jsonl", b'{"words": ["one", "two"]}\n', "has lists of words where texts should be: choose another column"),
        ("a.jsonl", b'{"text": 5}\n', "line 1: a text or a list of words should be here, found 5."),
        ("a.json", b"one\n", "line 1: not JSON"),
    ],
    ids=str,
)
def test_a_file_without_texts_is_refused(text_file, name, content, message):
    path = text_file(content, name)
    assert refusal(path).startswith(str(path))
    assert message in refusal(path)


# ---- sources


def test_a_folder_is_all_its_visible_files_sorted(text_file, tmp_path):
    for name in ["b.txt", "a/z.gz", "a.txt", ".hidden", "_SUCCESS", ".git/config", "_cache/x.txt", "c/d/e.txt"]:
        text_file(name.encode(), name)
    corpus = Corpus(tmp_path)
    assert corpus.shards == [str(tmp_path / name) for name in ["a.txt", "a/z.gz", "b.txt", "c/d/e.txt"]]
    assert list(corpus.sentences()) == ["a.txt", "a/z.gz", "b.txt", "c/d/e.txt"]
    assert corpus.size == sum(map(len, corpus.sentences()))


def test_links_to_folders_are_followed_but_not_in_circles(text_file, tmp_path):
    text_file(TEXT, "elsewhere/text.txt")
    text_file(TEXT, "here/text.txt")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "here")
    names = [os.path.relpath(name, tmp_path) for name in Corpus(tmp_path / "here").shards]
    assert names == ["here/link/text.txt", "here/text.txt"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.txt", ["a.txt", "b[1].txt"]),
        ("**/*.txt", ["a.txt", "b[1].txt", "c/d.txt", "c/e/f.txt"]),
        ("c*", ["c/d.txt", "c/e/f.txt"]),
        ("[a]*", ["a.txt"]),
        ("b[1].txt", ["b[1].txt"]),
    ],
)
def test_a_pattern_is_all_that_matches(text_file, tmp_path, pattern, names):
    for name in ["a.txt", "b[1].txt", "c/d.txt", "c/e/f.txt", "g.md"]:
        text_file(TEXT, name)
    (tmp_path / "copy").mkdir()  # a match without files
    assert Corpus(f"{tmp_path}/{pattern}").shards == [str(tmp_path / name) for name in names]


def test_shards_do_not_depend_on_the_order_of_the_sources_and_come_once(text_file, tmp_path, monkeypatch):
    first, second = text_file(TEXT, "1.txt"), text_file(TEXT, "2.txt")
    (tmp_path / "link.txt").symlink_to(first)
    shards = [str(first), str(second)]
    for sources in (
        [first, second],
        [second, str(first)],
        [f"{tmp_path}/*", second],
        (tmp_path, first),
        iter([tmp_path]),
    ):
        assert Corpus(sources).shards == shards
    monkeypatch.chdir(tmp_path)
    assert Corpus(["./1.txt", "1.txt", first]).shards == ["./1.txt"]


@pytest.mark.parametrize("sources", [[], ()])
def test_no_sources_are_refused(sources):
    assert "No text was given: name files" in refusal(sources)


def test_a_folder_without_files_is_refused(text_file, tmp_path):
    text_file(TEXT, ".hidden")
    text_file(TEXT, "_more/text.txt")
    assert refusal(tmp_path).startswith(f"The folder {tmp_path} holds no files")
    assert refusal(f"{tmp_path}/*.txt") == f"No file matches {tmp_path}/*.txt."


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n\n", b"\xef\xbb\xbf", gzip.compress(b"")],
    ids=["empty", "blank lines", "byte order mark", "compressed"],  # gzip writes the time
)
def test_a_corpus_without_a_sentence_is_refused(text_file, content):
    one, two = text_file(content, "1"), text_file(content, "2")
    assert read([one, two]) == []
    assert refusal([two, one]).startswith(f"There is not a single sentence in {two}, {one}: ")


@pytest.mark.parametrize(
    "source",
    [
        "text.txt",
        "news.en.gz",
        "./text",
        "../text",
        "/nowhere/text",
        "a/b/c",
        "a/b.txt",
        "~/text",
        "a b",
        "",
        "tests/txt",
    ],
)
def test_a_misspelt_file_is_not_looked_for_on_the_hub(source, monkeypatch, tmp_path):
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert refusal(source) == f"No such file or folder: {source or repr(source)}."


def test_a_path_is_never_the_name_of_a_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(Path("wikitext")) == "No such file or folder: wikitext."


# ---- datasets

ROWS = ["one\ntwo", " \n", None, "\nthree\r\n\n four", ""]


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets")


@pytest.fixture
def saved(datasets, tmp_path):
    """Saves rows as a dataset, or several as the splits of one."""

    def save(**splits):
        kinds = {name: datasets.Dataset.from_dict(columns) for name, columns in splits.items()}
        whole = datasets.DatasetDict(kinds) if len(kinds) > 1 else next(iter(kinds.values()))
        whole.save_to_disk(tmp_path / "saved")
        return tmp_path / "saved"

    return save


def test_a_row_of_a_dataset_is_a_document_and_its_lines_are_the_sentences(saved):
    folder = saved(train={"id": range(5), "text": ROWS})
    corpus = Corpus(folder)
    assert corpus.shards == [str(folder)]
    assert list(corpus.documents(0)) == [["one", "two"], ["three", "four"]]
    assert list(corpus.documents(0, start=1)) == [["three", "four"]]
    assert read(folder, max_sentences=1) == [["one"], ["two"], ["three"], ["four"]]
    assert list(Corpus(folder, max_sentences=1).documents(0, start=3)) == [["four"]]


def test_another_column_may_hold_the_text(saved):
    folder = saved(train={"text": ["no"], "body": ["yes"]})
    assert read(folder, column="body") == [["yes"]]
    assert refusal(folder, column="Body") == f"{folder} has no column 'Body': choose one of text, body."


def test_the_split_of_a_saved_dictionary_is_chosen(saved):
    folder = saved(train={"text": ["a"]}, test={"text": ["b"]})
    assert read(folder) == [["a"]]
    assert read(folder, split="test") == [["b"]]
    assert refusal(folder, split="dev") == f"The dataset {folder} has no split 'dev': choose one of train, test."


def test_many_rows_are_read_in_order_and_reported(saved):
    rows = [f"row {index}" for index in range(1234)]
    corpus, reports = Corpus(saved(train={"text": rows})), []
    assert list(corpus.documents(0, report=reports.append)) == [[row] for row in rows]
    assert sum(reports) == corpus.size
    assert len(reports) > 10


def test_a_dataset_with_rows_chosen_and_a_format_is_read_as_it_is(datasets, tmp_path):
    dataset = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "number": [1, 2, 3]})
    dataset.select([2, 0]).with_format("arrow").save_to_disk(tmp_path)
    assert read(tmp_path) == [["c"], ["a"]]


def test_a_column_that_holds_no_text_is_refused(saved):
    folder = saved(train={"text": [["a", "b"]], "number": [5]})
    assert refusal(folder) == f"{folder}, row 0: the column 'text' holds no text but ['a', 'b']."
    assert refusal(folder, column="number") == f"{folder}, row 0: the column 'number' holds no text but 5."


def test_a_damaged_dataset_is_refused(saved):
    folder = saved(train={"text": ROWS})
    (data,) = folder.glob("*.arrow")
    data.write_bytes(b"not Arrow")
    assert f"The dataset {folder} cannot be loaded: " in refusal(folder)


def test_a_dataset_without_a_sentence_is_refused(saved):
    folder = saved(train={"text": ["", None, "\n"]})
    assert refusal(folder).startswith(f"There is not a single sentence in {folder}")


def test_files_and_datasets_make_one_corpus(saved, text_file):
    folder, file = saved(train={"text": ["from a row"]}), text_file(b"from a file")
    corpus = Corpus([file, folder, folder])
    assert corpus.shards == [str(folder), str(file)]
    assert list(corpus.sentences()) == ["from a row", "from a file"]


def test_without_the_library_the_remedy_is_named(saved, monkeypatch):
    folder = saved(train={"text": ROWS})
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert 'datasets: pip install "elmo-hf[embed]"' in refusal(folder)
    assert 'datasets: pip install "elmo-hf[embed]"' in refusal("wikitext")


@pytest.mark.parametrize(
    ("source", "name", "config"),
    [("wikitext", "wikitext", None), ("an-org/text_2.v1:20231101.en", "an-org/text_2.v1", "20231101.en")],
)
@pytest.mark.parametrize("columns_are_known", [True, False])
def test_the_name_of_a_dataset_is_streamed(datasets, monkeypatch, source, name, config, columns_are_known):
    def stream():
        yield from ({"id": index, "text": row} for index, row in enumerate(ROWS))

    features = datasets.Features({"id": datasets.Value("int64"), "text": datasets.Value("string")})
    stored = datasets.IterableDataset.from_generator(stream, features=features if columns_are_known else None)
    load = mock.Mock(return_value=stored)
    monkeypatch.setattr(datasets, "load_dataset", load)
    corpus = Corpus(source, split="dev")
    load.assert_called_once_with(name, config, split="dev", streaming=True)
    assert corpus.shards == [source]
    assert corpus.size is None
    assert list(corpus.sentences()) == ["one", "two", "three", "four"]
    assert list(corpus.documents(0, start=1)) == [["three", "four"]]
    assert refusal(source, column="body") == f"{source} has no column 'body': choose one of id, text."


def test_a_stream_that_breaks_off_is_refused(datasets, monkeypatch):
    def stream():
        yield {"text": "one"}
        raise ConnectionError("the line\nwent dead")

    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.IterableDataset.from_generator(stream))
    assert refusal("wikitext").startswith("wikitext cannot be read: ")


@pytest.mark.parametrize("name", ["no-such-dataset-anywhere", "no-such-organisation/no-such-dataset:config"])
def test_a_dataset_that_cannot_be_loaded_is_refused(datasets, name):
    assert refusal(name).startswith(f"No such file or folder: {name}, and ")


def test_a_corpus_can_be_sent_to_another_process(saved, text_file):
    corpus = Corpus([saved(train={"text": ROWS}), text_file(TEXT)])
    copy = pickle.loads(pickle.dumps(corpus))
    assert copy.shards == corpus.shards
    assert list(copy.sentences()) == list(corpus.sentences())


def test_all_of_a_compressed_file_is_reported(text_file):
    reports = []
    path = text_file(gzip.compress(os.urandom(1_500_000).hex().encode(), compresslevel=1))
    corpus = Corpus(path)
    assert len(list(corpus.sentences(report=reports.append))) == 1
    assert sum(reports) == corpus.size == path.stat().st_size


# ---- words of pretokenised text

ANY_SENTENCE = st.text(st.characters(exclude_categories=["Cs"]))


def tokenizers_words(sentence: str) -> list[str]:
    return [word for word, _ in WhitespaceSplit().pre_tokenize_str(sentence)]


@given(ANY_SENTENCE | st.text("a\x1c\x1d\x1e\x1f\x85\xa0 \t\u200b\u3000"))
def test_blanks_part_words_as_in_the_tokenizer(sentence):
    assert split_words(sentence) == tokenizers_words(sentence)


def test_every_character_is_a_blank_or_not_as_in_the_tokenizer():
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]  # beyond, there are no blanks
    sentence = " ".join(f"a{character}b" for character in characters)
    assert split_words(sentence) == tokenizers_words(sentence)
