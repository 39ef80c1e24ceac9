# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Question answering: the span of a context that answers a question.

The network is that of the paper, a simplified Clark & Gardner (2018, https://arxiv.org/abs/1710.10723): a BiLSTM reads
question and context, attention in both directions joins them (BiDAF, Seo et al. 2017), and self-attention over the
context is added as a residual. Dropout drops the same dimensions in all words of a text, as there. The recurrent layers
are LSTMs here, and GRUs there.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.utils import can_return_tuple

from .checks_elmo import check_integers, check_segments
from .configuration_elmo import ElmoConfig
from .modeling_elmo import ElmoMixer
from .modeling_heads_elmo import ElmoTaskModel
from .pooling_elmo import ElmoSentences, word_mask
from .products_elmo import matmul
from .task_layers_elmo import ElmoTaskLinear, ElmoTaskLSTM, ElmoTextDropout, masked_softmax

# The logit of a position that cannot be an answer: the sum of two is still finite.
IMPOSSIBLE = -1e30


class ElmoFactors(nn.Linear):
    """Multiplies each component of a vector with a weight. A module, so that hooks which load offloaded weights run."""

    def __init__(self, size: int):
        super().__init__(size, 1, bias=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(…, size)` → `(…, size)`"""
        return input * self.weight


class ElmoTrilinearScores(nn.Module):
    """
    The scores `w · [a; b; a * b]` of all pairs of words of two texts.

    Args:
        size (`int`): The size of a word's vector.
    """

    def __init__(self, size: int):
        super().__init__()
        self.first = ElmoTaskLinear(size, 1, bias=False)
        self.second = ElmoTaskLinear(size, 1, bias=False)
        self.product = ElmoFactors(size)

    def forward(self, words: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """`(rows, words, size)`, `(rows, others, size)` → `(rows, words, others)`"""
        return matmul(self.product(words), others.mT) + self.first(words) + self.second(others).mT


class ElmoBidaf(nn.Module):
    """
    Attention between a context and a question, in both directions.

    Args:
        input_size (`int`): The size of a word's vector.
        size (`int`): The size of the output.
        dropout (`float`): Dropout before the output layer, in training only.
    """

    def __init__(self, input_size: int, size: int, dropout: float = 0.0):
        super().__init__()
        self.scores = ElmoTrilinearScores(input_size)
        self.project = ElmoTaskLinear(4 * input_size, size)
        self.dropout = ElmoTextDropout(dropout)

    def forward(self, context, question, context_mask, question_mask) -> torch.Tensor:
        """
        Args:
            context: `(rows, words, input_size)`
            question: `(rows, question words, input_size)`
            context_mask, question_mask: `(rows, words)` and `(rows, question words)`, true for words.

        Returns:
            `(rows, words, size)`
        """
        is_question = question_mask.unsqueeze(1)
        scores = self.scores(context, question)  # (rows, words, question words)
        of_question = matmul(masked_softmax(scores, is_question), question)  # (rows, words, input_size)
        highest = scores.masked_fill(~is_question, torch.finfo(scores.dtype).min).amax(dim=-1)  # (rows, words)
        of_context = matmul(masked_softmax(highest, context_mask).unsqueeze(1), context)  # (rows, 1, input_size)
        joined = torch.cat([context, of_question, context * of_question, of_context * of_question], dim=-1)
        return torch.relu(self.project(self.dropout(joined)))


class ElmoContextAttention(nn.Module):
    """
    Self-attention over the context, from each word to all others, added to its input.

    Args:
        size (`int`): The size of a word's vector, even.
        dropout (`float`): Dropout before its layers, in training only.
    """

    def __init__(self, size: int, dropout: float = 0.0):
        super().__init__()
        self.recurrent = ElmoTaskLSTM(size, size // 2)
        self.scores = ElmoTrilinearScores(size)
        self.project = ElmoTaskLinear(3 * size, size)
        self.dropout = ElmoTextDropout(dropout)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(rows, words, size)` and its mask `(rows, words)` → `(rows, words, size)`"""
        read = self.dropout(self.recurrent(self.dropout(words), mask))
        is_self = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
        attended = matmul(masked_softmax(self.scores(read, read), mask.unsqueeze(1) & ~is_self), read)
        joined = torch.cat([read, attended, read * attended], dim=-1)
        return words + torch.relu(self.project(joined))


class ElmoNoAnswer(nn.Module):
    """
    The scores of "there is no answer", from the words that the spans would most likely begin and end with.

    Args:
        size (`int`): The size of a word's vector.
    """

    def __init__(self, size: int):
        super().__init__()
        self.hidden = ElmoTaskLinear(2 * size, size)
        self.score = ElmoTaskLinear(size, 2)

    def forward(self, words: torch.Tensor, logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(rows, words, size)`, start and end logits `(rows, words, 2)`, `(rows, words)` → `(rows, 2)`"""
        weights = masked_softmax(logits.mT, mask.unsqueeze(1))  # (rows, 2, words)
        ends = matmul(weights.to(words.dtype), words).flatten(1)  # (rows, 2 * size)
        return self.score(torch.relu(self.hidden(ends)))


class ElmoForQuestionAnswering(ElmoTaskModel):
    """
    Finds the answer to a question in a context. The inputs are pairs, question first, as for any such model:
    `tokenizer(question, context)`.

    With `config.allow_no_answer` the `<S>` in front of the question stands for "there is no answer".

    Args:
        config ([`ElmoConfig`]): The sizes of the biLM and the head (`elmo_places`, `num_task_layers`,
            `max_answer_words`, `allow_no_answer` ...).

    Example:

    ```python
    >>> from transformers import AutoModelForQuestionAnswering
    >>> import elmo_hf

    >>> model = AutoModelForQuestionAnswering.from_pretrained(elmo_hf.default_model(), elmo_places="both")
    ```"""

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        size, dropout = 2 * config.task_layer_size, config.classifier_dropout
        self.dropout = ElmoTextDropout(dropout)
        if isinstance(self.task_lstm, ElmoTaskLSTM):
            self.task_lstm.dropout = ElmoTextDropout(dropout)
        self.bidaf = ElmoBidaf(self._output_size, size, dropout)
        self.self_attention = ElmoContextAttention(size, dropout)
        self.span_scores = ElmoTaskLinear(size, 2)
        self.no_answer = ElmoNoAnswer(size) if config.allow_no_answer else None
        self.post_init()

    def _mixer(self) -> ElmoMixer:
        mixer = super()._mixer()
        mixer.dropout = ElmoTextDropout(self.config.elmo_dropout)
        return mixer

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        start_positions: torch.LongTensor | None = None,
        end_positions: torch.LongTensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
    ) -> QuestionAnsweringModelOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Rows of the table of word vectors, if there is one.
            char_ids (`(batch, words, max_characters_per_token)`): Character ids.
            attention_mask (`(batch, words)`, *optional*): 1 for words and boundaries.
            token_type_ids (`(batch, words)`): 0 for the question, 1 for the context.
            start_positions, end_positions (`(batch,)`, *optional*): The first and the last word of the answer in the
                row, a word of the context; the position of the first `<S>` if there is no answer; -100 to leave an
                example out of the loss.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss. Default: the number of answers.
            inputs_embeds, output_attentions: Must be `None` or `False`; callers of stock heads pass them.

        Returns:
            `start_logits` and `end_logits` `(batch, words)`, -1e30 at positions that cannot be an answer.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        check_segments(token_type_ids, mask)
        segments = self._check_pairs(token_type_ids, mask)
        layers = self._bilm_layers(input_ids, char_ids, mask, segments)  # (batch, words, hidden_size) each
        is_word = word_mask(self.config, input_ids, char_ids, mask)  # (batch, words), without boundaries
        question, context = (ElmoSentences.of(is_word & (segments == segment)) for segment in (0, 1))

        read = [self._read(part, layers, input_ids) for part in (context, question)]
        words = self.bidaf(*read, context.mask, question.mask)  # (batch, context words, 2 * task_layer_size)
        words = self.self_attention(words, context.mask)  # (batch, context words, 2 * task_layer_size)
        scores = self.span_scores(self.dropout(words))  # (batch, context words, 2)
        logits = self._logits(words, scores, context, is_word & (segments == 1), mask)  # (batch, words, 2)
        start_logits, end_logits = logits.movedim(-1, 0).contiguous()  # (batch, words) each

        loss: torch.Tensor | None = None
        if start_positions is not None and end_positions is not None:
            loss = self._loss(logits, start_positions, end_positions, num_items_in_batch)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        output: dict[str, Any] = {"loss": loss, "start_logits": start_logits, "end_logits": end_logits}
        output["hidden_states"] = layers if output_hidden_states else None
        return QuestionAnsweringModelOutput(**output)

    @staticmethod
    def _check_pairs(segments: torch.Tensor | None, mask: torch.Tensor) -> torch.Tensor:
        remedy = "give pairs, as tokenizer(question, context), and `token_type_ids`."
        if segments is None:
            if bool(mask.any()):
                raise ValueError(f"This model reads a question and a context: {remedy}")
            return torch.zeros_like(mask, dtype=torch.long)  # a batch without words
        if bool(((segments[mask] < 0) | (segments[mask] > 1)).any()):
            raise ValueError("`token_type_ids` must be 0 for the question and 1 for the context.")
        if bool((mask.any(dim=1) & ~((segments == 1) & mask).any(dim=1)).any()):
            raise ValueError(f"There is a row without a context (`token_type_ids` is never 1): {remedy}")
        return segments

    def _read(self, part: ElmoSentences, layers: Sequence[torch.Tensor], input_ids) -> torch.Tensor:
        """The words of questions or contexts `(batch, longest, _output_size)`: [h; ELMo]."""
        gathered = [part.gather(layer) for layer in layers]  # (batch, longest, hidden_size) each
        words = self._task_inputs(gathered, input_ids, part)  # (batch, longest, input size)
        if self.task_lstm is not None:
            words = self.task_lstm(self.dropout(words), part.mask)  # (batch, longest, 2 * task_layer_size)
        return self._add_output_mix(self.dropout(words), gathered, part)

    def _logits(self, words, scores, context: ElmoSentences, is_context, mask) -> torch.Tensor:
        """The scores of context words `(batch, longest, 2)` at their places in the row, `(batch, words, 2)`."""
        scores = scores.float()
        logits = context.scatter(scores).masked_fill(~is_context.unsqueeze(-1), IMPOSSIBLE)
        if self.no_answer is not None and mask.shape[1]:
            first = self._first_places(mask)[:, None, None].expand(-1, 1, 2)
            logits = logits.scatter(1, first, self.no_answer(words, scores, context.mask).float().unsqueeze(1))
        return logits

    @staticmethod
    def _first_places(mask: torch.Tensor) -> torch.Tensor:
        """The position of the first `<S>` in each row, `(batch,)`."""
        return mask.int().argmax(dim=1)

    def _loss(self, logits: torch.Tensor, start: torch.Tensor, end: torch.Tensor, num_items) -> torch.Tensor:
        rows, words, _ = logits.shape
        positions = []
        for name, given in (("start_positions", start), ("end_positions", end)):
            if given.shape not in ((rows,), (rows, 1)):
                raise ValueError(f"`{name}` must have shape {(rows,)}, found {tuple(given.shape)}.")
            check_integers(name, given)
            positions.append(given.long().flatten())
        wanted = torch.stack(positions, dim=1).to(logits.device)  # (rows, 2)
        is_given = (wanted != -100).all(dim=1)
        place = wanted.clamp(0, max(words - 1, 0)).unsqueeze(1)  # (rows, 1, 2)
        is_outside = (wanted < 0) | (wanted >= words)
        if words:
            is_outside |= logits.detach().gather(1, place).squeeze(1) <= IMPOSSIBLE
        if bool((is_outside & is_given.unsqueeze(1)).any()):
            row = int((is_outside & is_given.unsqueeze(1)).any(dim=1).nonzero()[0])
            raise ValueError(
                f"Row {row}: `start_positions` and `end_positions` {wanted[row].tolist()} are not words of the "
                "context. Give -100 to leave the example out; for questions without an answer, load the model with "
                "allow_no_answer=True and give the position of the first <S>."
            )
        wanted = wanted.masked_fill(~is_given.unsqueeze(1), -100)
        items = is_given.sum()
        summed = functional.cross_entropy(logits.transpose(1, 2).flatten(0, 1), wanted.flatten(), reduction="sum") / 2
        divisor = items.clamp(min=1) if num_items is None else max(num_items, 1)
        return summed / divisor + self._mixer_loss(items, num_items)

    def answer(
        self,
        tokenizer: Any,
        question: str | Sequence[str],
        context: str | Sequence[str],
        n_best: int = 1,
        batch_size: int = 16,
        max_words: int = 400,
        stride: int = 100,
    ) -> list[dict[str, Any]] | list[list[dict[str, Any]]]:
        """
        Answers questions. A long context is read in overlapping windows, so that memory and time stay bounded.

        Args:
            tokenizer ([`ElmoTokenizer`]): The tokenizer of the model.
            question, context: One of each, or lists of the same length.
            n_best: The number of answers per question.
            batch_size: Windows per batch.
            max_words: The number of context words per window.
            stride: The number of words that neighbouring windows share.

        Returns:
            The best answers to the question, or to each question of a list: `answer`, its `start` and `end` in the
            characters of the context, and its `score`, a probability. "There is no answer" has the answer `""` from 0
            to 0. There are none for a context without words.
        """
        is_single = isinstance(question, str) and isinstance(context, str)
        questions, contexts = ([question], [context]) if is_single else (question, context)
        answers = answer_batch(self, tokenizer, questions, contexts, n_best, batch_size, max_words, stride)
        return answers[0] if is_single else answers


# ---- From logits to spans of the context, with character offsets


class ContextWords(NamedTuple):
    """
    The words of a text.

    Args:
        words: The words, as the tokenizer splits them.
        spans: The first character of each word, and the one after its last.
    """

    words: list[str]
    spans: list[tuple[int, int]]


def context_words(tokenizer: Any, text: str) -> ContextWords:
    """The words of a text, and their spans in its characters."""
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
    """A part of a context: the index of its question, the place of its first word in the context, and its words."""

    question: int
    first: int
    words: list[str]


def windows(question: int, words: list[str], max_words: int, stride: int) -> Iterator[Window]:
    """Yields overlapping parts of a context, which cover all its words."""
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
    split = {text: context_words(tokenizer, text) for text in {*questions, *contexts}}
    parts = [
        window
        for question, context in enumerate(contexts)
        for window in windows(question, split[context].words, max_words, stride)
        if window.words
    ]
    logits_of: list[list[tuple[Window, _Logits]]] = [[] for _ in questions]
    order = sorted(range(len(parts)), key=lambda place: len(parts[place].words))
    with _evaluation_mode(model):
        for start in range(0, len(order), batch_size):
            batch = [parts[place] for place in order[start : start + batch_size]]
            asked = [split[questions[window.question]].words for window in batch]
            for window, logits in zip(batch, _run(model, tokenizer, asked, batch), strict=True):
                logits_of[window.question].append((window, logits))
    return [
        _answers(windows_of, context, split[context], model.config.max_answer_words, n_best)
        for windows_of, context in zip(logits_of, contexts, strict=True)
    ]


class _Logits(NamedTuple):
    """Start and end logits of a window's words, `(2, words)`, and those of "there is no answer", `(2,)`."""

    words: torch.Tensor
    nothing: torch.Tensor | None


@contextmanager
def _evaluation_mode(model: Any) -> Generator[None]:
    """Puts a model into evaluation mode inside the `with` block. A model that is in it keeps its packed weights."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


def _run(model: Any, tokenizer: Any, asked: list[list[str]], batch: list[Window]) -> list[_Logits]:
    inputs = tokenizer(
        asked,
        [window.words for window in batch],
        is_split_into_words=True,
        padding=True,
        padding_side="right",
        return_tensors="pt",
    )
    output = model(**inputs.to(model.device))
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


__all__ = [
    "IMPOSSIBLE",
    "ContextWords",
    "ElmoForQuestionAnswering",
    "Span",
    "answer_batch",
    "best_spans",
    "context_words",
    "windows",
]
