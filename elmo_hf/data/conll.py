"""Columns, a word a line and a blank line between sentences: CoNLL and CoNLL-U."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from ..errors import TextError, counted
from .text_sources import LONGEST_LINE, Report, lines_or_errors, source_name

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LONGEST_SENTENCE = 1_000_000  # lines: they are in memory as a whole
FORM = CONLLU_FIELDS.index("form")


class ColumnLine(NamedTuple):
    """
    Args:
        where: File and line.
        columns: What is in them.
    """

    where: str
    columns: list[str]


def column_sentences(
    source: str, *, conllu: bool = False, report: Report = lambda _: None
) -> Iterator[list[ColumnLine] | TextError]:
    """
    The lines of each sentence; in the place of one with a line that cannot be read, or with far too many, its error.

    Args:
        conllu: Whether there are ten fields a line, and comments, multi-word tokens and empty nodes, which are left
            out. Else columns are separated by tabs or blanks, and are as many in every line.
    """
    sentence: list[ColumnLine] = []
    problem: TextError | None = None
    size = 0  # of its lines
    width = len(CONLLU_FIELDS) if conllu else None
    for number, line in chain(lines_or_errors(source, report), [(0, "")]):
        where = f"{source_name(source)}, line {number}"
        try:
            if isinstance(line, TextError):
                raise line
            if line.strip():
                columns = _fields(line, where) if conllu else _columns(line)
                width = width or len(columns)
                if len(columns) not in (width, 0):
                    found = counted(len(columns), "column")
                    raise TextError(f"{where}: {found}, and {width} in the lines before{_hint(line)}.")
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
    """Blanks separate columns, but also the words of a text."""
    return "" if "\t" in line else ": is it plain text? Columns have a word and what belongs to it on each line"


def _columns(line: str) -> list[str]:
    """Separated by tabs if there are any, else by blanks; other spaces, as in "10\N{NO-BREAK SPACE}000", are no end."""
    columns = [column for column in line.split("\t" if "\t" in line else " ") if column.strip()]
    return columns if columns[0] != "-DOCSTART-" else []


def _fields(line: str, where: str) -> list[str]:
    """The ten fields of a syntactic word; of all else nothing."""
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
