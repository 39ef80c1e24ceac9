"""The task of question answering: features, batches and metrics of questions with contexts."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import BatchEncoding, EvalPrediction

from ..data.squad import Question, read_squad
from ..errors import TextError
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_question_answering_elmo import ContextWords, best_spans, context_words, windows
from ..modeling.tokenization_elmo import ElmoTokenizer
from .answer_metrics import answer_metrics
from .task import IGNORED, Task

# Words of a context that are read at once, since memory grows with the square: training reads the first ones, and
# evaluations read the whole context in windows that overlap.
MAX_CONTEXT, OVERLAP = 800, 100


class QuestionAnsweringTask(Task):
    """
    The span of a context that answers a question.

    Args:
        allow_no_answer: Whether some questions have no answer, as in SQuAD 2.0.
    """

    name = "question-answering"
    best_metric = "f1"

    def __init__(self, allow_no_answer: bool = False):
        self.labels, self.allow_no_answer = [], allow_no_answer
        self._split: dict[str, ContextWords] = {}

    @staticmethod
    def read(source: str, **options: Any) -> list[Question]:
        return read_squad(source, **options)

    @classmethod
    def of(cls, examples: Sequence[Question]) -> "QuestionAnsweringTask":
        return cls(any(not example.answers for example in examples))

    def config_fields(self) -> dict[str, Any]:
        return {"allow_no_answer": self.allow_no_answer}

    def words(self, examples: Sequence[Question], tokenizer: ElmoTokenizer) -> Iterator[str]:
        for context in dict.fromkeys(example.context for example in examples):
            yield from self._context(context, tokenizer).words
        for example in examples:
            yield from context_words(tokenizer, example.question).words

    def _context(self, text: str, tokenizer: ElmoTokenizer) -> ContextWords:
        """The words of a context. Many questions share it, so that it is split once."""
        if text not in self._split:
            self._split[text] = context_words(tokenizer, text)
        return self._split[text]

    def features(self, example: Question, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        return self._window(example, 0, tokenizer)

    def evaluation_features(self, example: Question, tokenizer: ElmoTokenizer) -> list[dict[str, Any]]:
        words = self._context(example.context, tokenizer).words
        parts = [self._window(example, part.first, tokenizer) for part in windows(0, words, MAX_CONTEXT, OVERLAP)]
        return [part | {"asked": parts[0]["asked"]} for part in parts]

    def _window(self, example: Question, start: int, tokenizer: ElmoTokenizer) -> dict[str, Any]:
        """The features of a question and the words of its context from `start`, as many as are read at once."""
        question, whole = context_words(tokenizer, example.question).words, self._context(example.context, tokenizer)
        place = slice(start, start + MAX_CONTEXT)
        context = ContextWords(whole.words[place], whole.spans[place])
        length = len(question) + len(context.words) + 4
        return {
            "question": question,
            "context": context.words,
            "spans": context.spans,
            "example": example,
            "asked": object(),  # the same in all windows of an example, and no other
            "input_ids": range(length),
            "positions": None if example.answers is None else self._positions(example, context, len(question) + 3),
        }

    def _positions(self, example: Question, context: ContextWords, first: int) -> tuple[int, int]:
        """The first and the last word of the answer in a row whose context begins at `first`."""
        if not example.answers:
            return (0, 0) if self.allow_no_answer else (IGNORED, IGNORED)
        answer = example.answers[0]
        start, end = answer.start, answer.start + len(answer.text)
        inside = [place for place, (begin, stop) in enumerate(context.spans) if begin < end and stop > start]
        return (first + inside[0], first + inside[-1]) if inside else (IGNORED, IGNORED)

    def collate(self, features: list[dict[str, Any]], tokenizer: ElmoTokenizer) -> BatchEncoding:
        questions, contexts = ([feature[name] for feature in features] for name in ("question", "context"))
        batch = tokenizer(
            questions, contexts, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt"
        )
        if features[0]["positions"] is not None:
            positions = torch.tensor([feature["positions"] for feature in features])
            batch["start_positions"], batch["end_positions"] = positions.unbind(dim=1)
        return batch

    def check_variety(self, examples: Sequence[Question], source: str):
        if not any(example.answers for example in examples):
            raise TextError(f"{source}: not a single question has an answer, so there is nothing to learn.")

    def metrics(
        self, prediction: EvalPrediction, features: Sequence[dict[str, Any]] = (), config: ElmoConfig | None = None
    ) -> dict[str, float]:
        logits = np.stack([np.asarray(part) for part in prediction.predictions[:2]], axis=1)  # (examples, 2, words)
        max_words = (config or ElmoConfig()).max_answer_words
        parts: dict[object, list[tuple[dict[str, Any], torch.Tensor]]] = {}  # the windows of each question
        for feature, row in zip(features, logits, strict=True):
            parts.setdefault(feature["asked"], []).append((feature, torch.from_numpy(row).float()))
        predicted = [self._answer(of_question, max_words) for of_question in parts.values()]
        return answer_metrics(predicted, [answer_texts(part[0][0]["example"]) for part in parts.values()])

    def _answer(self, parts: Sequence[tuple[dict[str, Any], torch.Tensor]], max_words: int) -> str:
        """The best answer from the features and logits `(2, words)` of all windows of a context."""
        answer, score = "", -math.inf
        if self.allow_no_answer:  # there is none in the context only if there is none in each window
            score = min(float(row[:, 0].sum()) for _, row in parts)
        for feature, row in parts:
            spans, first = feature["spans"], len(feature["question"]) + 3  # <S> question </S> <S> context </S>
            for best in best_spans(*row[:, first : first + len(spans)], max_words, 1):
                if best.score > score:
                    answer, score = feature["example"].context[spans[best.start][0] : spans[best.end][1]], best.score
        return answer


def answer_texts(question: Question) -> list[str]:
    """The accepted answers to a question; none if it has no answer."""
    return [answer.text for answer in question.answers or ()]


__all__ = ["MAX_CONTEXT", "QuestionAnsweringTask", "answer_texts"]
