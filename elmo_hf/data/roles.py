"""
Reads sentences with the semantic roles of their predicates, from columns as in CoNLL-2005 with BIO tags, JSON lines and
datasets.
"""

from collections.abc import Iterable, Iterator
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

NUMBER, WORD, TAG, ROLESET = range(4)  # the columns before those of the roles
NO_PREDICATE = "-"
PREDICATE_TAGS = ("B-V", "I-V", "B-C-V")  # the second and third mark a later word of a predicate of several words
FORM = "number, word, tag, roleset or -, and one column of BIO tags per predicate, separated by tabs"


class RoleSentence(NamedTuple):
    """
    A sentence and the roles of its predicates.

    Args:
        words: The words of the sentence.
        predicates: The indices of the predicates, from 0.
        tags: One list of BIO tags per predicate, one tag per word; `None` if they are to be predicted.
    """

    words: list[str]
    predicates: list[int]
    tags: list[list[str]] | None = None


class PredicateRoles(NamedTuple):
    """
    One predicate of a sentence.

    Args:
        words: The words of the sentence.
        predicate: The index of the predicate, from 0.
        tags: One BIO tag per word; `None` if they are to be predicted.
    """

    words: list[str]
    predicate: int
    tags: list[str] | None = None


def read_role_sentences(source: str, *, split: str = "train", with_tags: bool = True) -> list[RoleSentence]:
    """
    Reads the sentences of a file or a dataset, those without predicates too. `.jsonl` and datasets have `words`,
    `predicates` (indices from 0) and `tags` (a list of BIO tags per predicate). Any other file has columns separated by
    tabs (number, word, tag, roleset or `-`, one column of BIO tags per predicate), a blank line between sentences, and
    comments that begin with `#`.

    Args:
        source: A file, a folder or a name on the Hub.
        split: The split of a dataset.
        with_tags: Whether there must be roles. Otherwise columns of roles are skipped if there are any.
    """
    kind = kind_of(source)
    if kind in ("jsonl", "dataset"):
        rows: Iterable[Row | TextError] = json_rows(source) if kind == "jsonl" else dataset_rows(source, split)
        sentences = [_from_row(where, row, with_tags) for where, row in without_errors(rows) if row is not None]
    else:
        sentences = [_from_lines(lines, with_tags) for lines in _sentences(source)]
    if not sentences:
        raise TextError(f"There is not a single sentence in {source}.")
    return sentences


def read_roles(source: str, *, split: str = "train") -> list[PredicateRoles]:
    """
    Reads one example per predicate, see [`read_role_sentences`]. Sentences without predicates are skipped.

    Args:
        source: A file, a folder or a name on the Hub.
        split: The split of a dataset.
    """
    examples = [
        PredicateRoles(sentence.words, predicate, tags)
        for sentence in read_role_sentences(source, split=split)
        for predicate, tags in zip(sentence.predicates, sentence.tags or (), strict=True)
    ]
    if not examples:
        raise TextError(f"There is not a single predicate in {source}: column 4 names the roleset of each, or -.")
    return examples


def _sentences(source: str) -> Iterator[list[tuple[str, list[str]]]]:
    """Yields the lines of each sentence: the file and line, and the columns."""
    lines: list[tuple[str, list[str]]] = []
    for line_number, line in numbered_lines(source):
        if line.startswith("#"):
            continue
        if line.strip():
            lines.append((f"{source_name(source)}, line {line_number}", line.split("\t")))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _from_lines(lines: list[tuple[str, list[str]]], with_tags: bool) -> RoleSentence:
    for place, (where, columns) in enumerate(lines):
        if len(columns) <= ROLESET:
            raise TextError(f"{where}: {counted(len(columns), 'column')}, but there should be {FORM}.")
        if columns[NUMBER] != str(place + 1):
            raise TextError(
                f"{where}: the first column is {columns[NUMBER]!r:.20}, but this is word {place + 1} of its sentence: "
                "is there a blank line too few or too many?"
            )
        refuse_empty_words([columns[WORD]], where, "the second column")
    predicates = [place for place, (_, columns) in enumerate(lines) if columns[ROLESET] != NO_PREDICATE]
    words = [columns[WORD] for _, columns in lines]
    if not with_tags:
        return RoleSentence(words, predicates)
    for where, columns in lines:
        if (role_columns := len(columns) - ROLESET - 1) != len(predicates):
            raise TextError(
                f"{where}: {counted(role_columns, 'column')} of roles, but the sentence has "
                f"{counted(len(predicates), 'predicate')} (rolesets in column 4): there is one column per predicate."
            )
    tags = [[columns[ROLESET + 1 + index] for _, columns in lines] for index in range(len(predicates))]
    for predicate, column in zip(predicates, tags, strict=True):
        _check_tags(column, [where for where, _ in lines])
        _check_predicate(words, predicate, column, lines[predicate][0], "the columns of roles")
    return RoleSentence(words, predicates, tags)


def _check_tags(tags: list[str], places: list[str]):
    """Raises an error if tags are not valid BIO. `places` are the files and lines of the tags, for the message."""
    before = "O"
    for where, tag in zip(places, tags, strict=True):
        if tag != "O" and (tag[:2] not in ("B-", "I-") or len(tag) < 3):
            raise TextError(f"{where}: a tag of a role is O, B-ROLE or I-ROLE, found {tag!r:.40}.")
        if tag.startswith("I-") and before[2:] != tag[2:]:
            raise TextError(
                f"{where}: {tag} continues a role, but the tag before it is {before}: a role begins with B-{tag[2:]}."
            )
        before = tag


def _check_predicate(words: list[str], predicate: int, tags: list[str], where: str, lists: str):
    """Raises an error if the predicate has the tag of another word. `lists`: all lists of tags, for the message."""
    if tags[predicate] not in PREDICATE_TAGS:
        raise TextError(
            f"{where}: the tag of the predicate {words[predicate]!r:.40} is {tags[predicate]}, but should be B-V, I-V "
            f"or B-C-V: are {lists} in the order of the predicates?"
        )


def _from_row(where: str, row: dict[str, Any], with_tags: bool) -> RoleSentence:
    words = row[find_column(row, None, ("words", "tokens"), where)]
    if not _are_strings(words):
        raise TextError(f"{where}: `words` should be a list of strings, found {words!r:.60}.")
    refuse_empty_words(words, where, "`words`")
    predicates = row[find_column(row, None, ("predicates",), where)]
    are_indices = isinstance(predicates, list) and all(type(index) is int for index in predicates)
    if not are_indices or not all(0 <= index < len(words) for index in predicates):
        raise TextError(
            f"{where}: `predicates` should be a list of indices of words, from 0 to {len(words) - 1}, "
            f"found {predicates!r:.60}."
        )
    if not with_tags:
        return RoleSentence(words, predicates)
    tags = row[find_column(row, None, ("tags",), where)]
    if not isinstance(tags, list) or not all(map(_are_strings, tags)) or len(tags) != len(predicates):
        raise TextError(f"{where}: `tags` should be a list of strings for each of `predicates`, found {tags!r:.60}.")
    for predicate, column in zip(predicates, tags, strict=True):
        if len(column) != len(words):
            raise TextError(
                f"{where}: {counted(len(words), 'word')}, but {counted(len(column), 'tag')} of a predicate."
            )
        _check_tags(column, [where] * len(column))
        _check_predicate(words, predicate, column, where, "the lists of `tags`")
    return RoleSentence(words, predicates, tags)


def _are_strings(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def as_role_columns(sentence: RoleSentence) -> str:
    """
    One line per word (number, word, `-` for the tag, `V` or `-` for the roleset, one column per predicate), then a
    blank line. [`read_role_sentences`] reads it.
    """
    refuse_broken_columns(sentence.words)
    lines = []
    for place, word in enumerate(sentence.words):
        roleset = "V" if place in sentence.predicates else NO_PREDICATE
        columns = [str(place + 1), word, "-", roleset, *(tags[place] for tags in sentence.tags or ())]
        lines.append("\t".join(columns) + "\n")
    return "".join(lines) + "\n"


__all__ = ["PredicateRoles", "RoleSentence", "as_role_columns", "read_role_sentences", "read_roles"]
