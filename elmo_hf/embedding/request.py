"""What is asked of an embedder, and how it is done."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..data.batches import BATCH_TOKENS, WINDOW, WINDOW_IN_ANY_ORDER, batches, windows
from ..data.sentences import Sentence, TokenSource, encoded
from ..errors import ModelError
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.pooling_elmo import pool
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.memory import give_back_freed_memory
from ..runtime.progress import ProgressReport
from .documents import document_parts, document_pieces, join_parts, pool_parts
from .layers import LayerChoice, Layers, check_pooling
from .running import run_sentences


class EmbeddingRequest:
    """The arguments of [`ElmoEmbedder.embed`], checked."""

    def __init__(
        self,
        model: ElmoModel,
        tokenizer: ElmoTokenizer,
        layers: Layers,
        pooling: str | None = None,
        boundaries: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        return_tensors: str = "np",
    ):
        if model.training:
            raise ModelError("The model is in training mode, where dropout changes vectors: call model.eval() first.")
        check_pooling(pooling)
        if type(batch_tokens) is not int or batch_tokens < 1:
            raise ValueError(f"A batch has 1 token or more, asked for {batch_tokens!r:.60}.")
        if return_tensors not in ("np", "pt"):
            raise ValueError(f"`return_tensors` must be 'np' or 'pt', found {return_tensors!r:.60}.")
        self.model, self.tokenizer, self.choice = model, tokenizer, LayerChoice(layers, model)
        self.pooling, self.boundaries, self.batch_tokens = pooling, boundaries, batch_tokens
        self.as_numpy = return_tensors == "np"
        self._size: int = model.config.hidden_size  # asked of the config, for every sentence, it takes its time

    def vectors(self, sentences: Iterable[Sentence], report: ProgressReport | None = None) -> Iterator[Any]:
        """The result for each sentence, in order, lazily."""
        room = self._new(0)
        with report or ProgressReport() as report:
            for window in self._windows(sentences):
                size = sum(self._result_size(sentence) for sentence in window if not self._is_document(sentence))
                if not size <= len(room) <= 2 * size:
                    del room  # before there is another one
                    room = self._new(size)
                for layers in self._in_order(window, room, report):
                    yield self._given(self._own(layers))
                    del layers  # they may be a long document's

    def as_they_come(
        self, sentences: Iterable[Sentence], report: ProgressReport | None = None
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """
        The number of each sentence and its vectors, those of similar length together, lazily, as the model gives them.

        Yields:
            Of each layer `(words, hidden_size)`, or pooled `(hidden_size,)`, which stay as they are until the next ones
            are asked for.
        """
        first = 0
        with report or ProgressReport() as report:
            for window in self._windows(sentences, WINDOW_IN_ANY_ORDER):
                for place, layers in self._results(window, report):
                    yield first + place, [layer.to("cpu", torch.float32).numpy() for layer in layers]
                    del layers
                first += len(window)

    def together(self, vectors: Iterable[Any]) -> Any:
        """The results of all sentences: a list, or if they are pooled one array."""
        found = list(vectors)
        if self.pooling is None:
            return found
        if found:
            return np.stack(found) if self.as_numpy else torch.stack(found)
        return self._given(self._new(0, *self.choice.lead, self._size))

    def pieces(self, document: Sentence) -> Iterator[Any]:
        """The vectors of one sentence, in order, some words at a time."""
        if self.choice.mixes_whole_sentences:
            raise ModelError("This model's mix is normalised over a whole sentence: ask for layers='all' or 'average'.")
        (source,) = encoded([document], self.tokenizer)
        pieces = document_pieces(self.model, source, self.choice, self.boundaries, self.batch_tokens)
        return (self._given(vectors.clone()) for vectors in pieces)

    def _windows(self, sentences: Iterable[Sentence], number: int = WINDOW) -> Iterator[list[TokenSource]]:
        """Sentences for so many batches at a time."""
        for place, window in enumerate(windows(encoded(sentences, self.tokenizer), self.batch_tokens, number)):
            if place:
                give_back_freed_memory()
            yield window

    def _results(
        self, window: Sequence[TokenSource], report: ProgressReport
    ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        """The place of each sentence in the window, and its result of each layer, parts of larger tensors."""
        for number, places in enumerate(batches(window, self.batch_tokens)):
            if number and number % WINDOW == 0:
                give_back_freed_memory()
            if self._is_document(window[places[0]]):
                yield places[0], self._document_layers(window[places[0]], report)
            else:
                yield from self._batch([window[place] for place in places], places, report)

    def _batch(
        self, sentences: Sequence[TokenSource], places: Sequence[int], report: ProgressReport
    ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        vectors = run_sentences(self.model, sentences, self.choice, self.boundaries)
        for place, layers in zip(places, vectors, strict=True):
            yield place, layers if self.pooling is None else [pool(layer, self.pooling) for layer in layers]
        report.done(len(sentences), sum(map(len, sentences)))

    def _in_order(
        self, window: Sequence[TokenSource], room: torch.Tensor, report: ProgressReport
    ) -> list[Sequence[torch.Tensor]]:
        """
        Args:
            room: Where the results go. It was there before: lying between what a batch has used, they would keep the
                next one from using the same memory again.
        """
        found: list[Any] = [None] * len(window)
        for place, layers in self._results(window, report):
            if not self._is_document(window[place]):
                size = sum(layer.numel() for layer in layers)
                taken, room = room[:size].view(len(layers), *layers[0].shape), room[size:]
                layers = [to.copy_(layer) for to, layer in zip(taken, layers, strict=True)]
            found[place] = layers
        return found

    def _is_document(self, sentence: TokenSource) -> bool:
        """Whether it goes through the model in pieces."""
        return len(sentence) > self.batch_tokens and not self.choice.mixes_whole_sentences

    def _words(self, sentence: TokenSource) -> int:
        """How many of its tokens have vectors."""
        return len(sentence) if self.boundaries else len(sentence) - 2

    def _result_size(self, sentence: TokenSource) -> int:
        """Numbers in its result."""
        rows = self._words(sentence) if self.pooling is None else 1
        return math.prod(self.choice.lead) * rows * self._size

    def _document_layers(self, document: TokenSource, report: ProgressReport) -> Sequence[torch.Tensor]:
        """The result for a sentence that is longer than a batch, of each layer."""
        vectors = self._document(document, report)
        report.done(1, 0)
        return vectors.unbind() if self.choice.lead else [vectors]

    def _document(self, document: TokenSource, report: ProgressReport) -> torch.Tensor:
        """A sentence that is longer than a batch, a piece at a time, with no more than that beside the result."""

        def done(tokens: int):
            report.done(0, tokens)

        parts = document_parts(self.model, document, self.choice, self.boundaries, self.batch_tokens, done)
        if self.pooling is not None:
            return pool_parts(parts, self._new(*self.choice.lead, self._size), self.pooling)
        return join_parts(parts, self._new(*self.choice.lead, self._words(document), self._size))

    def _new(self, *shape: int) -> torch.Tensor:
        """Memory for a result."""
        if self.as_numpy:
            return torch.empty(shape, dtype=torch.float32)
        return torch.empty(shape, dtype=self.model.dtype, device=self.model.device)

    def _own(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """A sentence's result in memory of its own, no longer parts of a window."""
        return torch.stack(list(layers)) if self.choice.lead else layers[0].clone()

    def _given(self, result: torch.Tensor) -> Any:
        """The result as it was asked for."""
        return result.to("cpu", torch.float32).numpy() if self.as_numpy else result


__all__ = ["EmbeddingRequest"]
