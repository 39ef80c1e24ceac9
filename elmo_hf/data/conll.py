"""Reads CoNLL and CoNLL-U: one word per line in columns, and a blank line between sentences."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from ..errors import TextError, counted
from .text_sources import LONGEST_LINE, Report, lines_or_errors, source_name

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LONGEST_SENTENCE = 1_000_000  # lines; a sentence is in memory as a whole
FORM = CONLLU_FIELDS.index("form")


class ColumnLine(NamedTuple):
    """
    One line of a sentence.

    Args:
        where: The file and line, for messages.
        columns: The values of the columns.
    """

    where: str
    columns: list[str]


def column_sentences(
    source: str, *, conllu: bool = False, report: Report = lambda _: None
) -> Iterator[list[ColumnLine] | TextError]:
    """
    Yields the lines of each sentence. A sentence with an unreadable line, or with too many lines, is replaced by its
    error.

    Args:
        conllu: Whether the file is CoNLL-U, with ten fields per line; comments, multi-word tokens and empty nodes are
            skipped. Otherwise columns are separated by tabs or blanks, and every line has the same number of them.
    """
    sentence: list[ColumnLine] = []
    problem: TextError | None = None
    size = 0  # characters of its lines
    width = len(CONLLU_FIELDS) if conllu else None
    for line_number, line in chain(lines_or_errors(source, report), [(0, "")]):
        where = f"{source_name(source)}, line {line_number}"
        try:
            if isinstance(line, TextError):
                raise line
            if line.strip():
                columns = _fields(line, where) if conllu else _columns(line)
                width = width or len(columns)
                if len(columns) not in (width, 0):
                    num_columns = counted(len(columns), "column")
                    raise TextError(f"{where}: {num_columns}, but {width} in the lines before{_hint(line)}.")
                if columns and problem is None:
                    sentence.append(ColumnLine(where, columns))
                    size += len(line)
                if len(sentence) > LONGEST_SENTENCE or size > LONGEST_LINE:
                    raise _too_long(sentence[0].where)
                continue
        except TextError as error:
            problem, sentence, size = problem or error, [], 0
            continue
        if problem or sentence:
            yield problem or sentence
        sentence, problem, size = [], None, 0


def _too_long(where: str) -> TextError:
    return TextError(
        f"{where}: a sentence of more than {LONGEST_SENTENCE:,} lines, or {LONGEST_LINE >> 20} MiB, begins here: "
        "separate sentences with blank lines."
    )


def _hint(line: str) -> str:
    """A hint that the file may be plain text, whose words are separated by blanks just as columns are."""
    return "" if "\t" in line else ": is it plain text? Columns have a word and what belongs to it on each line"


def _columns(line: str) -> list[str]:
    """Columns separated by tabs if there are any, else by blanks; other spaces ("10\N{NO-BREAK SPACE}000") are kept."""
    columns = [column for column in line.split("\t" if "\t" in line else " ") if column.strip()]
    return columns if columns[0] != "-DOCSTART-" else []


def _fields(line: str, where: str) -> list[str]:
    """The ten fields of a syntactic word; an empty list for comments, multi-word tokens and empty nodes."""
    if line.startswith("#"):
        return []
    fields = line.split("\t")
    if len(fields) != len(CONLLU_FIELDS):
        raise TextError(f"{where}: CoNLL-U has 10 fields separated by tabs, found {len(fields)}.")
    if fields[0].isdigit():
        return fields
    if not all(part.isdigit() for part in fields[0].replace(".", "-").split("-")):
        raise TextError(f"{where}: the first field of CoNLL-U is a number, found {fields[0]!r}.")
    return []


__all__ = ["CONLLU_FIELDS", "FORM", "ColumnLine", "column_sentences"]
