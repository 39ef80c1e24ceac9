"""The files of an index: arrays that grow on disk, and sentences that come back one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.index.index_files import OCCURRENCE, ArrayWriter, IndexFiles, IndexWriter, word_key

any_text = st.text(st.characters(codec=None), max_size=30)  # lone surrogates and line breaks too


def test_an_array_written_in_parts_is_an_ordinary_npy_file(tmp_path):
    array = np.arange(30, dtype=np.float16).reshape(10, 3)
    writer = ArrayWriter(tmp_path / "array.npy", np.dtype(np.float16), (3,))
    for rows in np.split(array, [1, 1, 7]):
        writer.append(rows)
    writer.close()
    np.testing.assert_array_equal(np.load(tmp_path / "array.npy"), array)


def test_the_header_has_room_for_any_number_of_rows(tmp_path):
    writer = ArrayWriter(tmp_path / "array.npy", OCCURRENCE)
    size = writer._file.tell()
    writer.rows = 10**18
    writer.close()
    assert (tmp_path / "array.npy").stat().st_size == size


@given(st.lists(st.tuples(any_text, st.integers(0, 2**40)), min_size=1, max_size=5), st.randoms())
def test_every_sentence_and_place_comes_back(sentences, random):
    with TemporaryDirectory() as name:
        writer = IndexWriter(Path(name), size=2, dtype=np.dtype(np.float32))
        written = []
        for row, (sentence, sentence_index) in enumerate(sentences):
            start, end = sorted(random.randint(0, len(sentence)) for _ in range(2))
            writer.add(sentence, sentence_index, [(row, start, end)], np.full((1, 2), row, np.float32))
            written.append((sentence, sentence_index, row, start, end))
        writer.close()
        files = IndexFiles(Path(name), len(sentences), len(sentences), 2, np.dtype(np.float32))
        assert [tuple(files.place(row)) for row in range(len(sentences))] == written
        assert files.keys.tolist() == [word_key(sentence[start:end]) for sentence, _, _, start, end in written]
        np.testing.assert_array_equal(files.vectors[:, 1], np.arange(len(sentences)))


def test_a_word_is_the_same_in_any_case_and_others_are_others():
    assert word_key("Bank") == word_key("BANK") == word_key("bank")
    words = ["bank", "banks", "ban", "", "宝玉", "\ud800"]
    assert len({word_key(word) for word in words}) == len(words)
