"""Reads and writes documents with their coreference, in the columns of CoNLL-2012."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..errors import TextError, counted
from .tables import (
    Row,
    dataset_rows,
    find_column,
    json_rows,
    kind_of,
    numbered_lines,
    refuse_broken_columns,
    refuse_empty_words,
    without_errors,
)
from .text_sources import source_name

BEGIN = re.compile(r"#begin document \(?(.*?)\)?(?:; part (\d+))?\s*")
END = "#end document"
WORD, LEAST_COLUMNS = 3, 5  # document, part, number, word, ..., coreference
BRACKET = re.compile(r"(\(?)(\d+)(\)?)")
NOTHING = ("-", "_", "*", "")  # no bracket

Span = tuple[int, int]  # the first and the last word, counted through the document from 0


class CoreferenceDocument(NamedTuple):
    """
    A document and its clusters of mentions.

    Args:
        name: The name of the document.
        sentences: The words of each sentence.
        clusters: The mentions of each cluster: first and last word, counted through the document from 0; `None` if
            they are to be predicted.
        part: The part of the document.
    """

    name: str
    sentences: list[list[str]]
    clusters: list[list[Span]] | None = None
    part: int = 0


def read_coreference(source: str, *, split: str = "train", with_clusters: bool = True) -> list[CoreferenceDocument]:
    """
    Reads the documents of a file or a dataset. `.jsonl` and datasets have `sentences` (lists of words) and `clusters`
    (lists of [first, last], words counted through the document from 0). Any other file has the columns of CoNLL-2012,
    separated by tabs or blanks: the fourth is the word, the last has the brackets of the mentions.

    Args:
        source: A file, a folder or a name on the Hub.
        split: The split of a dataset.
        with_clusters: Whether there must be clusters. Otherwise brackets are skipped.
    """
    kind = kind_of(source)
    if kind in ("jsonl", "dataset"):
        rows: Iterable[Row | TextError] = json_rows(source) if kind == "jsonl" else dataset_rows(source, split)
        placed_rows = ((where, row) for where, row in without_errors(rows) if row is not None)
        documents = [_from_row(where, row, index, with_clusters) for index, (where, row) in enumerate(placed_rows)]
    else:
        name = source_name(source)
        lines = ((f"{name}, line {line_number}", line) for line_number, line in numbered_lines(source))
        documents = list(parse_documents(lines, with_clusters))
    if not documents:
        raise TextError(f"There is not a single document in {source}: each begins with #begin document (name); part 0.")
    return documents


def parse_documents(lines: Iterable[tuple[str, str]], with_clusters: bool = True) -> Iterator[CoreferenceDocument]:
    """
    Yields the documents of CoNLL-2012.

    Args:
        lines: The place of each line (file and number, for messages), and the line.
        with_clusters: Whether to read the brackets.
    """
    document: _Document | None = None
    for where, line in lines:
        if match := BEGIN.fullmatch(line):
            if document is not None:
                raise TextError(f"{where}: a document begins here, but the one of {document.where} has no {END}.")
            document = _Document(where, match[1], int(match[2] or 0), with_clusters)
        elif line.startswith(END):
            if document is None:
                raise TextError(
                    f"{where}: a document ends here, but none has begun: #begin document (name) is missing."
                )
            yield document.result()
            document = None
        elif document is not None:
            document.add(where, line)
        elif line.strip() and not line.startswith("#"):
            raise TextError(f"{where}: a line outside of a document: #begin document (name); part 0 should come first.")
    if document is not None:
        raise TextError(f"{document.where}: the document that begins here has no {END}.")


class _Document:
    """A document that is being read."""

    def __init__(self, where: str, name: str, part: int, with_clusters: bool):
        self.where, self._name, self._part, self._with_clusters = where, name, part, with_clusters
        self._sentences: list[list[str]] = [[]]
        self._num_words = 0
        self._open: dict[int, list[tuple[int, str]]] = {}  # by cluster: the first words and the places of open brackets
        self._clusters: dict[int, list[Span]] = {}
        self._places: dict[Span, str] = {}  # where each mention ends

    def add(self, where: str, line: str):
        """Adds a line: a word, or a blank line between sentences."""
        if not line.strip():
            if self._sentences[-1]:
                self._sentences.append([])
            return
        if line.startswith("#"):
            return
        columns = line.split("\t") if "\t" in line else [column for column in line.split(" ") if column]
        if len(columns) < LEAST_COLUMNS:
            raise TextError(
                f"{where}: {counted(len(columns), 'column')}, but CoNLL-2012 has {LEAST_COLUMNS} or more: document, "
                "part, number, word, and at the end coreference."
            )
        refuse_empty_words([columns[WORD]], where, "the fourth column")
        if self._with_clusters and (brackets := columns[-1].strip()) not in NOTHING:
            self._add_brackets(where, brackets)
        self._sentences[-1].append(columns[WORD])
        self._num_words += 1

    def _add_brackets(self, where: str, brackets: str):
        for bracket in brackets.split("|"):
            match = BRACKET.fullmatch(bracket)
            if match is None or not (match[1] or match[3]):
                raise TextError(
                    f"{where}: brackets look like (3, 3) or (3), with | between them, found {brackets!r:.60}."
                )
            cluster = int(match[2])
            if match[1]:
                self._open.setdefault(cluster, []).append((self._num_words, where))
            if match[3]:
                if not self._open.get(cluster):
                    raise TextError(
                        f"{where}: {bracket} closes a bracket that was never opened: ({cluster} is missing."
                    )
                first, _ = self._open[cluster].pop()
                span = first, self._num_words
                self._clusters.setdefault(cluster, []).append(span)
                self._places[span] = where

    def result(self) -> CoreferenceDocument:
        """The document. Raises an error if a bracket is open."""
        for cluster, places in self._open.items():
            for _, where in places:
                raise TextError(f"{where}: the bracket ({cluster} never closes: {cluster}) is missing.")
        sentences = [sentence for sentence in self._sentences if sentence]
        if not sentences:
            raise TextError(f"{self.where}: the document {self._name} has no words.")
        clusters = [sorted(set(self._clusters[cluster])) for cluster in sorted(self._clusters)]
        _check_mentions(sentences, clusters, self._places.__getitem__)
        return CoreferenceDocument(self._name, sentences, clusters if self._with_clusters else None, self._part)


def _from_row(where: str, row: dict[str, Any], index: int, with_clusters: bool) -> CoreferenceDocument:
    sentences = row[find_column(row, None, ("sentences",), where)]
    is_list = isinstance(sentences, list) and all(isinstance(sentence, list) for sentence in sentences)
    if not is_list or not all(isinstance(word, str) for sentence in sentences for word in sentence):
        raise TextError(f"{where}: `sentences` should be a list of lists of words, found {sentences!r:.60}.")
    refuse_empty_words(chain.from_iterable(sentences), where, "`sentences`")
    name, sentences = str(row.get("name", index)), [sentence for sentence in sentences if sentence]
    if not sentences:
        raise TextError(f"{where}: the document {name} has no words.")
    if not with_clusters:
        return CoreferenceDocument(name, sentences)
    clusters = row[find_column(row, None, ("clusters",), where)]
    num_words = sum(map(len, sentences))
    is_list = isinstance(clusters, list) and all(isinstance(cluster, list) for cluster in clusters)
    if not is_list or not all(_is_span(span, num_words) for cluster in clusters for span in cluster):
        raise TextError(
            f"{where}: `clusters` should be a list of lists of [first, last], words from 0 to {num_words - 1}, "
            f"found {clusters!r:.60}."
        )
    clusters = [sorted({(first, last) for first, last in cluster}) for cluster in clusters]
    _check_mentions(sentences, clusters, lambda _: where)
    return CoreferenceDocument(name, sentences, clusters)


def _is_span(span: Any, num_words: int) -> bool:
    is_pair = isinstance(span, list) and len(span) == 2 and all(type(word) is int for word in span)
    return is_pair and 0 <= span[0] <= span[1] < num_words


def _check_mentions(sentences: list[list[str]], clusters: list[list[Span]], where: Callable[[Span], str]):
    """
    Raises an error if a mention is in two sentences or in two clusters. `where` gives the place of a mention, for the
    message.
    """
    words = list(chain.from_iterable(sentences))
    sentence_of = [index for index, sentence in enumerate(sentences) for _ in sentence]
    seen: set[Span] = set()
    for span in chain.from_iterable(clusters):
        first, last = span
        mention = f"the mention {' '.join(words[first : last + 1])!r:.60} (words {first} to {last})"
        if sentence_of[first] != sentence_of[last]:
            raise TextError(
                f"{where(span)}: {mention} is in two sentences: a mention ends in the sentence it begins in."
            )
        if span in seen:
            raise TextError(f"{where(span)}: {mention} is in two clusters: leave it in one.")
        seen.add(span)


def as_coreference_columns(document: CoreferenceDocument) -> str:
    """
    The columns of CoNLL-2012: document, part, number, word, seven columns that are not known (`-`), coreference.
    [`read_coreference`] reads it.
    """
    refuse_broken_columns(chain.from_iterable(document.sentences))
    opening: dict[int, list[tuple[int, int]]] = {}
    closing: dict[int, list[tuple[int, int]]] = {}
    single: dict[int, list[int]] = {}
    for cluster, spans in enumerate(document.clusters or []):
        for first, last in spans:
            if first == last:
                single.setdefault(first, []).append(cluster)
            else:
                opening.setdefault(first, []).append((-last, cluster))
                closing.setdefault(last, []).append((-first, cluster))
    lines, place = [f"#begin document ({document.name}); part {document.part:03d}\n"], 0
    for sentence in document.sentences:
        for index, word in enumerate(sentence):
            brackets = [f"({cluster}" for _, cluster in sorted(opening.get(place, []))]  # the longest first
            brackets += [f"({cluster})" for cluster in single.get(place, [])]
            brackets += [f"{cluster})" for _, cluster in sorted(closing.get(place, []))]  # the shortest first
            columns = [document.name, str(document.part), str(index), word, *["-"] * 7, "|".join(brackets) or "-"]
            lines.append("\t".join(columns) + "\n")
            place += 1
        lines.append("\n")
    return "".join([*lines, f"{END}\n"])


__all__ = ["CoreferenceDocument", "Span", "as_coreference_columns", "parse_documents", "read_coreference"]
