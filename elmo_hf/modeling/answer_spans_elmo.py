# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""From the logits of a question answering model to spans of the context, with character offsets."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional


class ContextWords(NamedTuple):
    """
    The words of a text.

    Args:
        words: The words, as the tokenizer splits them.
        spans: The first character of each word, and the one after its last.
    """

    words: list[str]
    spans: list[tuple[int, int]]


def split_text(tokenizer: Any, text: str) -> ContextWords:
    """Splits a text into words."""
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    spans = [(int(start), int(end)) for start, end in spans if end > start]
    return ContextWords([text[start:end] for start, end in spans], spans)


class Span(NamedTuple):
    """
    A span of words.

    Args:
        start, end: The first and the last word.
        score: The sum of the logits.
    """

    start: int
    end: int
    score: float


def best_spans(start_logits: torch.Tensor, end_logits: torch.Tensor, max_words: int, n_best: int) -> list[Span]:
    """
    The spans with the highest sums of logits, best first.

    Args:
        start_logits, end_logits: `(words,)`, of the words of a context.
        max_words: The maximum length of a span.
        n_best: The number of spans.
    """
    if not len(start_logits):
        return []
    width = min(max_words, len(start_logits))
    ends = functional.pad(end_logits, (0, width - 1), value=-math.inf).unfold(0, width, 1)  # (words, width)
    scores = start_logits.unsqueeze(1) + ends  # the span from a word to the one `column` words after it
    best = scores.flatten().topk(min(n_best, scores.numel()))
    return [
        Span(place // width, place // width + place % width, score)
        for place, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        if score > -math.inf
    ]


class Window(NamedTuple):
    """A part of a context, to be read with its question: the number of the question, and the words."""

    question: int
    first: int
    words: list[str]


def windows(question: int, words: list[str], max_words: int, stride: int) -> Iterator[Window]:
    """Yields overlapping parts of a context that have all its words."""
    for first in range(0, max(len(words) - stride, 1), max_words - stride):
        yield Window(question, first, words[first : first + max_words])


@torch.no_grad()
def answer_batch(
    model: Any,
    tokenizer: Any,
    questions: Sequence[str],
    contexts: Sequence[str],
    n_best: int = 1,
    batch_size: int = 16,
    max_words: int = 400,
    stride: int = 100,
) -> list[list[dict[str, Any]]]:
    """As [`ElmoForQuestionAnswering.answer`], for lists."""
    if isinstance(questions, str) or isinstance(contexts, str) or len(questions) != len(contexts):
        raise ValueError("`question` and `context` must be two strings, or two lists of the same length.")
    if min(n_best, batch_size) < 1 or not 0 <= stride < max_words:
        raise ValueError(
            "`n_best` and `batch_size` must be 1 or more, and `stride` less than `max_words`, found "
            f"n_best={n_best}, batch_size={batch_size}, max_words={max_words}, stride={stride}."
        )
    split = {text: split_text(tokenizer, text) for text in {*questions, *contexts}}
    parts = [
        window
        for number, context in enumerate(contexts)
        for window in windows(number, split[context].words, max_words, stride)
        if window.words
    ]
    found: list[list[tuple[Window, _Logits]]] = [[] for _ in questions]
    order = sorted(range(len(parts)), key=lambda place: len(parts[place].words))
    for start in range(0, len(order), batch_size):
        batch = [parts[place] for place in order[start : start + batch_size]]
        asked = [split[questions[window.question]].words for window in batch]
        for window, logits in zip(batch, _run(model, tokenizer, asked, batch), strict=True):
            found[window.question].append((window, logits))
    return [
        _answers(windows_of, context, split[context], model.config.max_answer_words, n_best)
        for windows_of, context in zip(found, contexts, strict=True)
    ]


class _Logits(NamedTuple):
    """Start and end logits of a window's words, `(2, words)`, and those of "there is no answer", `(2,)`."""

    words: torch.Tensor
    nothing: torch.Tensor | None


def _run(model: Any, tokenizer: Any, asked: list[list[str]], batch: list[Window]) -> list[_Logits]:
    training = model.training
    inputs = tokenizer(
        asked,
        [window.words for window in batch],
        is_split_into_words=True,
        padding=True,
        padding_side="right",
        return_tensors="pt",
    )
    try:
        output = model.eval()(**inputs.to(model.device))
    finally:
        model.train(training)
    logits = torch.stack([output.start_logits, output.end_logits], dim=1).float().cpu()  # (batch, 2, words)
    results = []
    for row, question, window in zip(logits, asked, batch, strict=True):
        first = len(question) + 3  # <S> question </S> <S> context </S>
        nothing = row[:, 0] if model.config.allow_no_answer else None
        results.append(_Logits(row[:, first : first + len(window.words)], nothing))
    return results


def _answers(
    parts: list[tuple[Window, _Logits]], text: str, context: ContextWords, max_words: int, n_best: int
) -> list[dict[str, Any]]:
    """The best answers of all windows of a context. Their probabilities are over all windows."""
    if not parts:
        return []
    scores: dict[tuple[int, int], float] = {}
    for window, logits in parts:
        for start, end, score in best_spans(*logits.words, max_words, n_best):
            place = window.first + start, window.first + end
            scores[place] = max(score, scores.get(place, -math.inf))
    every = [torch.cat([logits.words[side] for _, logits in parts]) for side in (0, 1)]
    candidates = [(score, context.spans[first][0], context.spans[last][1]) for (first, last), score in scores.items()]
    nothing = [logits.nothing for _, logits in parts if logits.nothing is not None]
    if nothing:  # there is no answer in the context only if there is none in each window
        least = min(nothing, key=lambda logits: float(logits.sum()))
        every = [torch.cat([side, least[index : index + 1]]) for index, side in enumerate(every)]
        candidates.append((float(least.sum()), 0, 0))
    total = sum(float(side.logsumexp(dim=0)) for side in every)
    candidates.sort(key=lambda candidate: (-candidate[0], candidate[1:]))
    return [
        {"score": math.exp(min(score - total, 0.0)), "start": start, "end": end, "answer": text[start:end]}
        for score, start, end in candidates[:n_best]
    ]


__all__ = ["ContextWords", "Span", "answer_batch", "best_spans", "split_text", "windows"]
