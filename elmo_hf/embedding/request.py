"""A checked request to an embedder: sentences are batched, run through the model and put back into order."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..data.batches import BATCH_TOKENS, WINDOW, WINDOW_IN_ANY_ORDER, batches, windows
from ..data.sentences import Sentence, TokenSource, encoded
from ..errors import ModelError
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.pooling_elmo import PoolingAccumulator, pool
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.memory import release_freed_memory
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
        check_pooling(pooling, layers, boundaries, model)
        if type(batch_tokens) is not int or batch_tokens < 1:
            raise ValueError(f"A batch has 1 token or more, asked for {batch_tokens!r:.60}.")
        if return_tensors not in ("np", "pt"):
            raise ValueError(f"`return_tensors` must be 'np' or 'pt', found {return_tensors!r:.60}.")
        self.model, self.tokenizer = model, tokenizer
        self.pooling, self.boundaries, self.batch_tokens = pooling, boundaries, batch_tokens
        self.as_numpy = return_tensors == "np"
        self._sentence_pooling = model.sentence_pooling if pooling == "sentence" else None
        self.choice = LayerChoice(layers if self._sentence_pooling is None else self._sentence_pooling.layers, model)
        # The shape of a result: the dimensions before that of the words, and the size of a vector.
        self.lead, self.vector_size = self.choice.lead, model.config.hidden_size
        if self._sentence_pooling is not None:
            self.lead, self.vector_size = (), self._sentence_pooling.projection.shape[1]

    def vectors(self, sentences: Iterable[Sentence], report: ProgressReport | None = None) -> Iterator[Any]:
        """Yields the result of each sentence, in order and lazily."""
        return self.vectors_of_encoded(encoded(sentences, self.tokenizer), report)

    def vectors_of_encoded(
        self, sentences: Iterable[TokenSource], report: ProgressReport | None = None
    ) -> Iterator[Any]:
        """As `vectors`, for sentences that this model's tokenizer has encoded."""
        buffer = self._new(0)
        with report or ProgressReport() as report:
            for window in self._windows(sentences):
                size = sum(self._result_size(sentence) for sentence in window if not self._is_document(sentence))
                if not size <= len(buffer) <= 2 * size:
                    del buffer  # before the next one is allocated
                    buffer = self._new(size)
                for layers in self._in_order(window, buffer, report):
                    yield self._returned(self._copied(layers))
                    del layers  # may be large: those of a long document

    def iter_unordered(
        self, sentences: Iterable[Sentence], report: ProgressReport | None = None
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """
        Yields the index of each sentence and its vectors, lazily, in the order in which the model computes them:
        sentences of similar length share a batch.

        Yields:
            The index of the sentence, and for each layer `(words, hidden_size)`, or pooled `(hidden_size,)`. The arrays
            are valid until the next ones are requested.
        """
        first = 0
        with report or ProgressReport() as report:
            for window in self._windows(encoded(sentences, self.tokenizer), WINDOW_IN_ANY_ORDER):
                for place, layers in self._results(window, report):
                    yield first + place, [layer.to("cpu", torch.float32).numpy() for layer in layers]
                    del layers
                first += len(window)

    def collect(self, vectors: Iterable[Any]) -> Any:
        """The results of all sentences: a list, or one array if they are pooled."""
        results = list(vectors)
        if self.pooling is None:
            return results
        if results:
            return np.stack(results) if self.as_numpy else torch.stack(results)
        return self._returned(self._new(0, *self.lead, self.vector_size))

    def pieces(self, document: Sentence) -> Iterator[Any]:
        """Yields the vectors of one sentence in order, one piece at a time."""
        if self.choice.mixes_whole_sentences:
            raise ModelError("This model's mix is normalised over a whole sentence: ask for layers='all' or 'average'.")
        (source,) = encoded([document], self.tokenizer)
        pieces = document_pieces(self.model, source, self.choice, self.boundaries, self.batch_tokens)
        return (self._returned(vectors.clone()) for vectors in pieces)

    def _windows(self, sentences: Iterable[TokenSource], num_batches: int = WINDOW) -> Iterator[list[TokenSource]]:
        """Yields the sentences of `num_batches` batches at a time."""
        for place, window in enumerate(windows(sentences, self.batch_tokens, num_batches)):
            if place:
                release_freed_memory()
            yield window

    def _results(
        self, window: Sequence[TokenSource], report: ProgressReport
    ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        """Yields the place of each sentence in the window, and its result for each layer: views of larger tensors."""
        for batch, places in enumerate(batches(window, self.batch_tokens)):
            if batch and batch % WINDOW == 0:
                release_freed_memory()
            if self._is_document(window[places[0]]):
                yield places[0], self._document_layers(window[places[0]], report)
            else:
                yield from self._batch([window[place] for place in places], places, report)

    def _batch(
        self, sentences: Sequence[TokenSource], places: Sequence[int], report: ProgressReport
    ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        vectors = run_sentences(self.model, sentences, self.choice, self.boundaries)
        for place, sentence, layers in zip(places, sentences, vectors, strict=True):
            yield place, self._pooled(sentence, layers)
        report.done(len(sentences), sum(map(len, sentences)))

    def _pooled(self, sentence: TokenSource, layers: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The layers of a sentence, pooled if the request asks for that."""
        if self.pooling is None:
            return layers
        if self._sentence_pooling is None:
            return [pool(layer, self.pooling) for layer in layers]
        if len(sentence) == 2:  # the boundaries
            return [layers[0].new_zeros(self.vector_size)]
        accumulator = PoolingAccumulator("mean")
        accumulator.add(torch.stack(list(layers)), weights=self._word_weights(sentence))
        return [self._sentence_pooling.project(accumulator.result())]

    def _word_weights(self, sentence: TokenSource) -> torch.Tensor:
        """The weights of the words of a sentence, `(words,)`."""
        assert self._sentence_pooling is not None
        starts = range(1, len(sentence) - 1, self.batch_tokens)
        pieces = (sentence.tokens(start, min(start + self.batch_tokens, len(sentence) - 1)) for start in starts)
        weights = [
            self._sentence_pooling.weights(torch.from_numpy(piece.input_ids).to(self.model.device)) for piece in pieces
        ]
        return torch.cat(weights)

    def _in_order(
        self, window: Sequence[TokenSource], buffer: torch.Tensor, report: ProgressReport
    ) -> list[Sequence[torch.Tensor]]:
        """
        The results of a window, in the order of its sentences.

        Args:
            buffer: Memory for the results, allocated before the batches run. Results allocated between batches would
                fragment the memory that the batches reuse.
        """
        results: list[Any] = [None] * len(window)
        for place, layers in self._results(window, report):
            if not self._is_document(window[place]):
                size = sum(layer.numel() for layer in layers)
                target, buffer = buffer[:size].view(len(layers), *layers[0].shape), buffer[size:]
                layers = [to.copy_(layer) for to, layer in zip(target, layers, strict=True)]
            results[place] = layers
        return results

    def _is_document(self, sentence: TokenSource) -> bool:
        """Whether a sentence is longer than a batch and goes through the model in pieces."""
        return len(sentence) > self.batch_tokens and not self.choice.mixes_whole_sentences

    def _words(self, sentence: TokenSource) -> int:
        """The number of tokens of a sentence whose vectors are returned."""
        return len(sentence) if self.boundaries else len(sentence) - 2

    def _result_size(self, sentence: TokenSource) -> int:
        """The number of values in the result of a sentence."""
        rows = self._words(sentence) if self.pooling is None else 1
        return math.prod(self.lead) * rows * self.vector_size

    def _document_layers(self, document: TokenSource, report: ProgressReport) -> Sequence[torch.Tensor]:
        """The result for a sentence that is longer than a batch, one tensor per layer."""
        vectors = self._document(document, report)
        report.done(1, 0)
        return vectors.unbind() if self.lead else [vectors]

    def _document(self, document: TokenSource, report: ProgressReport) -> torch.Tensor:
        """Embeds a sentence that is longer than a batch. Beside the result, only one piece is in memory at a time."""

        def done(tokens: int):
            report.done(0, tokens)

        if self._sentence_pooling is not None and len(document) == 2:  # the boundaries
            return self._new(self.vector_size).zero_()
        parts = document_parts(self.model, document, self.choice, self.boundaries, self.batch_tokens, done)
        if self._sentence_pooling is not None:
            averages = self._new(*self.choice.lead, self.model.config.hidden_size).to(self.model.device)
            averages = pool_parts(parts, averages, "mean", self._word_weights(document))
            return self._sentence_pooling.project(averages)
        if self.pooling is not None:
            return pool_parts(parts, self._new(*self.lead, self.vector_size), self.pooling)
        return join_parts(parts, self._new(*self.lead, self._words(document), self.vector_size))

    def _new(self, *shape: int) -> torch.Tensor:
        """Uninitialised memory for a result."""
        if self.as_numpy:
            return torch.empty(shape, dtype=torch.float32)
        return torch.empty(shape, dtype=self.model.dtype, device=self.model.device)

    def _copied(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """A sentence's result, copied out of the buffer of its window."""
        return torch.stack(list(layers)) if self.lead else layers[0].clone()

    def _returned(self, result: torch.Tensor) -> Any:
        """The result in the requested form: NumPy or PyTorch."""
        return result.to("cpu", torch.float32).numpy() if self.as_numpy else result


__all__ = ["EmbeddingRequest"]
