"""Reads questions with contexts and answers: SQuAD 1.1 and 2.0, in its JSON, or as rows of JSON lines and datasets."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import TextError
from .tables import Row, dataset_rows, json_rows, kind_of, without_errors
from .text_sources import read_text

REMEDY = "correct it, or remove the question."


class Answer(NamedTuple):
    """
    An answer.

    Args:
        text: Its text.
        start: Its first character in the context.
    """

    text: str
    start: int


class Question(NamedTuple):
    """
    A question about a context.

    Args:
        id: The id of the question.
        question, context: The texts.
        answers: All accepted answers; none if the context does not answer it; `None` if they are to be predicted.
        article: The title of the article.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    article: str = ""


def read_squad(source: str, *, split: str = "train", with_answers: bool = True) -> list[Question]:
    """
    Reads the questions of a file or a dataset. `.json` is SQuAD's format; `.jsonl` and datasets have rows with
    `context`, `question` and `answers` (`{"text": […], "answer_start": […]}`).

    Args:
        source: A file, plain or compressed; a folder, or a name on the Hub.
        split: The split of a dataset.
        with_answers: Whether there must be answers.
    """
    kind = kind_of(source)
    if kind == "dataset":
        questions = _from_rows(dataset_rows(source, split), with_answers)
    elif kind == "jsonl" and ".jsonl" in source.lower().rpartition("/")[2]:
        questions = _from_rows(json_rows(source), with_answers)
    elif kind == "jsonl":
        questions = _from_articles(source, with_answers)
    else:
        raise TextError(f"{source}: the name should end in .json (SQuAD) or .jsonl.")
    if not (result := list(questions)):
        raise TextError(f"There is not a single question in {source}.")
    return result


# ---- SQuAD's JSON


def _from_articles(source: str, with_answers: bool) -> Iterator[Question]:
    text = read_text(source)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(f"{source}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}).") from error
    except RecursionError as error:
        raise TextError(f"{source}: not SQuAD's JSON (it is nested too deeply).") from error
    path: list[Any] = []  # the article, the paragraph and the question that are read
    try:
        yield from _questions(source, content, with_answers, path)
    except TextError as error:
        line = _line_of(text, path)
        raise TextError(str(error).replace(source, f"{source}, line {line}", 1) if line else str(error)) from error


def _questions(source: str, content: Any, with_answers: bool, path: list[Any]) -> Iterator[Question]:
    for article_number, article in enumerate(_list(content, "data", source), 1):
        path[:] = [article]
        title = article.get("title", "") if isinstance(article, dict) else ""
        place = f"{source}, article {article_number}" + (f" ({title!s:.60})" if title else "")
        for paragraph_number, paragraph in enumerate(_list(article, "paragraphs", place), 1):
            path[1:] = [paragraph]
            where = f"{place}, paragraph {paragraph_number}"
            for question in _list(paragraph, "qas", where):
                path[2:] = [question]
                yield _question(where, question, _text(where, paragraph, "context"), str(title), with_answers)


def _line_of(text: str, path: list[Any]) -> int | None:
    """The line of the innermost object that is read, by its id, context or title."""
    for name, values in reversed(list(zip(("title", "context", "id"), path, strict=False))):
        value = values.get(name) if isinstance(values, dict) else None
        for spelling in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
            if isinstance(value, str) and (match := re.search(rf'"{name}"\s*:\s*{re.escape(spelling)}', text)):
                return text.count("\n", 0, match.start()) + 1
    return None


def _question(where: str, question: Any, context: str, title: str, with_answers: bool) -> Question:
    if not isinstance(question, dict):
        raise TextError(f"{where}: a question should be an object, found {question!r:.60}.")
    where = f"{where}, question {question.get('id')!r:.60}"
    text = _text(where, question, "question")
    answers = None
    if with_answers:
        is_impossible = question.get("is_impossible", False)
        if not isinstance(is_impossible, bool):
            raise TextError(f'{where}: "is_impossible" should be true or false, found {is_impossible!r:.60}.')
        gold_answers = [] if is_impossible else _list(question, "answers", where)
        answers = tuple(_answer(where, answer, context) for answer in gold_answers)
        if not answers and not is_impossible:
            raise _unanswered(where)
    return Question(str(question.get("id", "")), text, context, answers, title)


def _unanswered(where: str) -> TextError:
    return TextError(f'{where}: it has no answer, but is not marked with "is_impossible": true: {REMEDY}')


def _answer(where: str, answer: Any, context: str) -> Answer:
    text = _text(where, answer, "text")
    return _checked(where, text, answer.get("answer_start"), context)


def _checked(where: str, text: str, start: Any, context: str) -> Answer:
    if not isinstance(start, int) or isinstance(start, bool):
        raise TextError(f'{where}: "answer_start" should be a number, found {start!r:.60}.')
    if not text.strip():
        raise TextError(f"{where}: the answer is empty: {REMEDY}")
    if start < 0 or context[start : start + len(text)] != text:
        if (place := context.find(text)) >= 0:
            raise TextError(f"{where}: the answer {text!r:.60} is not at character {start}, but at {place}: {REMEDY}")
        raise TextError(f"{where}: the answer {text!r:.60} is not in its context: {REMEDY}")
    return Answer(text, start)


def _list(values: Any, name: str, where: str) -> list[Any]:
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, list):
        raise TextError(f"{where}: a list {name!r} should be here, found {values if value is None else value!r:.60}.")
    return value


def _text(where: str, values: Any, name: str) -> str:
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, str):
        raise TextError(f"{where}: a text {name!r} should be here, found {value!r:.60}.")
    return value


# ---- rows


def _from_rows(rows: Iterable[Row | TextError], with_answers: bool) -> Iterator[Question]:
    for where, row in without_errors(rows):
        if row is None:
            continue
        question, context = (_text(where, row, name) for name in ("question", "context"))
        answers = _row_answers(where, row.get("answers"), context) if with_answers else None
        if answers == () and row.get("is_impossible") is False:  # most datasets do not have this column
            raise _unanswered(where)
        yield Question(str(row.get("id", "")), question, context, answers, str(row.get("title", "")))


def _row_answers(where: str, answers: Any, context: str) -> tuple[Answer, ...]:
    texts, starts = (_list(answers, name, f"{where}, answers") for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise TextError(f'{where}: "text" has {len(texts)} entries, but "answer_start" has {len(starts)}.')
    return tuple(
        _checked(where, _text(where, {"text": text}, "text"), start, context)
        for text, start in zip(texts, starts, strict=True)
    )


__all__ = ["Answer", "Question", "read_squad"]
