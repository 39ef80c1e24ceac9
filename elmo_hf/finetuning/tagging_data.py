"""Reads sentences with a tag per word from CoNLL columns, CoNLL-U, JSON lines and datasets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..data.conll import CONLLU_FIELDS, FORM, ColumnLine, column_sentences
from ..data.tables import Row, dataset_rows, find_column, json_rows, kind_of, numbered_lines, without_errors
from ..errors import TextError, counted, did_you_mean

WORDS, TAGS = ("words", "tokens"), ("tags", "ner_tags", "pos_tags", "labels")  # usual names of columns


class TaggedSentence(NamedTuple):
    """
    A sentence and its tags.

    Args:
        words: The words of the sentence.
        tags: One tag per word; `None` if they are to be predicted.
    """

    words: list[str]
    tags: list[str] | None = None


def read_tagged(
    source: str,
    *,
    split: str = "train",
    field: str = "upos",
    word_column: int = 0,
    tag_column: int = -1,
    words_name: str | None = None,
    tags_name: str | None = None,
    with_tags: bool = True,
) -> list[TaggedSentence]:
    """
    Reads the sentences of a file or a dataset. The name decides the format: `.conllu` is CoNLL-U; `.jsonl` is JSON
    lines with a list of words and a list of tags; any other file has columns separated by tabs or blanks, and blank
    lines between sentences; a folder, or a name that is not a file, is a dataset. IOB1 tags are converted to BIO.

    Args:
        source: A file, a folder or a name on the Hub.
        split: The split of a dataset.
        field: The field of CoNLL-U that holds the tags.
        word_column, tag_column: The indices of columns, from 0, or from -1 backward.
        words_name, tags_name: The names of the columns in JSON lines and datasets. Default: usual names.
        with_tags: Whether there must be tags. Otherwise a blank line of JSON lines is a sentence without words.
    """
    kind = kind_of(source)
    if kind == "dataset":
        sentences = _from_rows(dataset_rows(source, split), words_name, tags_name, with_tags)
    elif kind == "jsonl":
        sentences = _from_rows(json_rows(source), words_name, tags_name, with_tags)
    elif kind == "conllu":
        if field not in CONLLU_FIELDS:
            suggestion = did_you_mean(field, CONLLU_FIELDS)
            raise TextError(f"CoNLL-U has no field {field!r}{suggestion}: choose one of {', '.join(CONLLU_FIELDS)}.")
        tag_index = CONLLU_FIELDS.index(field) if with_tags else None
        lines = without_errors(column_sentences(source, conllu=True))
        sentences = (_from_columns(sentence, FORM, tag_index) for sentence in lines)
    else:
        tag_index = tag_column if with_tags else None
        lines = _refuse_text(source, without_errors(column_sentences(source)))
        sentences = (_from_columns(sentence, word_column, tag_index) for sentence in lines)
    converted = [_from_iob1(sentence) for sentence in sentences]
    if not converted:
        raise TextError(f"There is not a single sentence in {source}.")
    return converted


def _refuse_text(source: str, sentences: Iterable[list[ColumnLine]]) -> Iterator[list[ColumnLine]]:
    """
    Yields the sentences. Raises an error at the end if they look like plain text: there are several, and each is one
    line of several columns that are separated by blanks.
    """
    count, is_text = 0, True
    for sentence in sentences:
        count += 1
        is_text = is_text and len(sentence) == 1 and len(sentence[0].columns) > 1
        yield sentence
    if count > 1 and is_text and not any("\t" in line for _, line in numbered_lines(source)):
        raise TextError(
            f"{source}: each of its {count} sentences is one line of several columns: is it plain text? Write one word "
            "and its tag per line, and a blank line between sentences."
        )


def _from_iob1(sentence: TaggedSentence) -> TaggedSentence:
    """Converts IOB1, where a span starts with I- unless it follows a span of its kind, to BIO."""
    tags = sentence.tags
    if tags is None or not all(tag == "O" or tag.startswith(("B-", "I-")) for tag in tags):
        return sentence
    before = ["O", *tags]
    return TaggedSentence(
        sentence.words,
        [
            f"B-{tag[2:]}" if tag.startswith("I-") and tag[2:] != last[2:] else tag
            for last, tag in zip(before, tags, strict=False)
        ],
    )


def _from_columns(lines: Iterable[ColumnLine], word_column: int, tag_column: int | None) -> TaggedSentence:
    words: list[str] = []
    tags: list[str] = []
    for where, columns in lines:
        try:
            words.append(columns[word_column])
            if tag_column is not None:
                if len(columns) < 2:
                    raise IndexError
                tags.append(columns[tag_column])
        except IndexError:
            line = " ".join(columns)
            raise TextError(f"{where}: a word and its tag should be here, found {line!r:.60}.") from None
    return TaggedSentence(words, tags if tag_column is not None else None)


def _from_rows(
    rows: Iterable[Row | TextError], words_name: str | None, tags_name: str | None, with_tags: bool
) -> Iterator[TaggedSentence]:
    for where, row in without_errors(rows):
        if row is None:
            if not with_tags:
                yield TaggedSentence([])
            continue
        words = row[find_column(row, words_name, WORDS, where)]
        _check_strings(where, words)
        if not with_tags:
            yield TaggedSentence(words)
            continue
        tags = row[find_column(row, tags_name, TAGS, where)]
        _check_strings(where, tags)
        if len(words) != len(tags):
            raise TextError(f"{where}: {counted(len(words), 'word')}, and {counted(len(tags), 'tag')}.")
        if words:
            yield TaggedSentence(words, tags)


def _check_strings(where: str, values: Any):
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(v, str) for v in values):
        raise TextError(f"{where}: a list of strings should be here, found {values!r:.60}.")


__all__ = ["TaggedSentence", "read_tagged"]
