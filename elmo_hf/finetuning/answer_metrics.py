"""Exact match and F1 of answers, as SQuAD's official scripts count them."""

import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """The answer in lower case, without punctuation, articles and superfluous blanks."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(predicted: str, wanted: str) -> float:
    """1 if both are the same after normalisation, else 0."""
    return float(normalized(predicted) == normalized(wanted))


def word_f1(predicted: str, wanted: str) -> float:
    """F1 of the common words, after normalisation. If one has no words: 1 if the other has none, else 0."""
    words, expected = normalized(predicted).split(), normalized(wanted).split()
    if not words or not expected:
        return float(words == expected)
    shared = (Counter(words) & Counter(expected)).total()
    return 2 * shared / (len(words) + len(expected))


def answer_metrics(predicted: Sequence[str], wanted: Sequence[Sequence[str]]) -> dict[str, float]:
    """
    Means over the questions, from 0 to 1, of the best match among the accepted answers.

    Args:
        predicted: The answer to each question; `""` for no answer.
        wanted: The accepted answers to each question; none if the context has no answer.

    Returns:
        `exact_match` and `f1`; if some questions have no answer also `f1` of those that have one
        (`has_answer_f1`), and the share of the others that were found to have none (`no_answer_accuracy`).
    """
    accepted = [[answer for answer in answers if normalized(answer)] for answers in wanted]
    exact = [
        max(exact_match(answer, other) for other in answers or [""])
        for answer, answers in zip(predicted, accepted, strict=True)
    ]
    overlap = [
        max(word_f1(answer, other) for other in answers or [""])
        for answer, answers in zip(predicted, accepted, strict=True)
    ]
    metrics = {"exact_match": _mean(exact), "f1": _mean(overlap)}
    if not all(accepted):
        metrics["has_answer_f1"] = _mean([value for value, answers in zip(overlap, accepted, strict=True) if answers])
        metrics["no_answer_accuracy"] = _mean(
            [value for value, answers in zip(exact, accepted, strict=True) if not answers]
        )
    return metrics


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


__all__ = ["answer_metrics", "exact_match", "normalized", "word_f1"]
