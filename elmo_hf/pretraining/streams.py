"""
Windows of many parallel streams of text, for a language model that carries its state along each of them.

A stream reads one document after the other. A sentence of n words gives n + 1 steps in each direction: forward reads
`<S> w1 … wn` and predicts `w1 … wn </S>`, backward reads `</S> wn … w1` and predicts `wn … w1 <S>`. The opening
boundary is never predicted. Both directions read the same sentences at the same time, each in its own order of words.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import TextError, counted
from ..modeling.tokenization_elmo import ElmoTokenizer
from .text import Corpus, split_words

NOT_A_TARGET = -100
# Sentences that a stream encodes at once: enough for the tokenizer to be fast, few enough for memory.
SENTENCES_AT_ONCE = 64


class Window(NamedTuple):
    """
    Some steps of every stream, as [`ElmoForPreTraining`] takes them.

    Attributes:
        char_ids, backward_char_ids (`(streams, window, slots)`, int16): What each direction reads; zeros past a
            stream's end.
        input_ids, backward_input_ids (`(streams, window)`): The same as word ids.
        labels, backward_labels (`(streams, window)`): What it predicts; -100 past a stream's end.
        state_resets (`(streams, window)`): True where the state is set back before the word.
        targets (`int`): Predictions per direction.
    """

    char_ids: torch.Tensor
    backward_char_ids: torch.Tensor
    input_ids: torch.Tensor
    backward_input_ids: torch.Tensor
    labels: torch.Tensor
    backward_labels: torch.Tensor
    state_resets: torch.Tensor
    targets: int

    def model_inputs(self, device: torch.device | None = None) -> dict[str, torch.Tensor]:
        """Everything but the count, by name."""
        tensors = self._asdict()
        del tensors["targets"]
        return {name: tensor.to(device) for name, tensor in tensors.items()}


@dataclass
class Position:
    """Where a reader stands: the epoch, the shard in that epoch's order, and documents read of the shard and epoch."""

    epoch: int = 0
    shard: int = 0
    document: int = 0
    documents_in_epoch: int = 0


class Reader:
    """
    The documents of one process, epoch after epoch, in an order of the shards that depends on the seed and the epoch.

    Of P processes the p-th gets every P-th document: together they read each once an epoch.
    """

    def __init__(self, corpus: Corpus, *, epochs: int | None, seed: int, process: int = 0, num_processes: int = 1):
        self.corpus, self.epochs, self.seed = corpus, epochs, seed
        self.process, self.num_processes = process, num_processes
        self.position = Position()
        self._documents: Iterator[list[str]] | None = None

    def next_document(self) -> list[str] | None:
        """The next document, or `None` after the last epoch."""
        while True:
            document = self._next_in_epoch()
            if document is None:
                if self.position.documents_in_epoch == 0:
                    raise TextError(f"There is not a single sentence in {', '.join(self.corpus.shards)[:200]}.")
                if self.position.documents_in_epoch <= self.process:  # nor will there be one in the next epoch
                    return None
                if self.epochs is not None and self.position.epoch + 1 >= self.epochs:
                    return None
                self.position = Position(epoch=self.position.epoch + 1)
                continue
            number = self.position.documents_in_epoch
            self.position.document += 1
            self.position.documents_in_epoch += 1
            if number % self.num_processes == self.process:
                return document

    def _next_in_epoch(self) -> list[str] | None:
        order = list(range(len(self.corpus.shards)))
        random.Random(f"{self.seed} {self.position.epoch}").shuffle(order)
        while self.position.shard < len(order):
            if self._documents is None:
                self._documents = self.corpus.documents(order[self.position.shard], start=self.position.document)
            document = next(self._documents, None)
            if document is not None:
                return document
            self._documents = None
            self.position.shard += 1
            self.position.document = 0
        return None

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""
        return {"position": vars(self.position).copy()}

    def load_state_dict(self, state: dict[str, Any]):
        """Goes on from there."""
        self.position = Position(**state["position"])
        self._documents = None


class _Steps(NamedTuple):
    """Consecutive steps of a stream: what each direction reads and predicts, and where sentences begin."""

    rows: np.ndarray  # (steps, slots), int16
    backward_rows: np.ndarray
    inputs: np.ndarray  # (steps,)
    backward_inputs: np.ndarray
    labels: np.ndarray
    backward_labels: np.ndarray
    starts: np.ndarray  # (steps,), 1 at the first word of a sentence, 2 at that of a document

    def part(self, start: int, stop: int | None = None) -> "_Steps":
        """Some of the steps."""
        return _Steps(*(array[start:stop] for array in self))


class SentenceEncoder:
    """Sentences → steps."""

    def __init__(self, tokenizer: ElmoTokenizer, pretokenized: bool):
        self.tokenizer, self.pretokenized = tokenizer, pretokenized

    def __call__(self, sentences: Sequence[str]) -> tuple[_Steps, list[int]]:
        """The steps of all sentences, and how many each has."""
        texts = [split_words(sentence) for sentence in sentences] if self.pretokenized else list(sentences)
        batch = self.tokenizer(
            texts,
            is_split_into_words=self.pretokenized,
            split_special_tokens=True,  # a mark in the text is a word like any other
            padding=True,
            padding_side="right",
            return_tensors="np",
        )
        lengths = batch["attention_mask"].sum(axis=1).tolist()
        ids = [row[:length] for row, length in zip(batch["input_ids"], lengths, strict=True)]
        rows = [row[:length] for row, length in zip(batch["char_ids"], lengths, strict=True)]
        steps = _Steps(
            rows=np.concatenate([row[:-1] for row in rows], dtype=np.int16),
            backward_rows=np.concatenate([row[:0:-1] for row in rows], dtype=np.int16),
            inputs=np.concatenate([row[:-1] for row in ids]),
            backward_inputs=np.concatenate([row[:0:-1] for row in ids]),
            labels=np.concatenate([row[1:] for row in ids]),
            backward_labels=np.concatenate([row[-2::-1] for row in ids]),
            starts=np.concatenate([np.arange(length - 1) == 0 for length in lengths]).astype(np.int8),
        )
        return steps, [length - 1 for length in lengths]


class _Stream:
    """One stream: the sentences that it has not read yet, the first of them perhaps in part."""

    def __init__(self, encode: SentenceEncoder):
        self.encode = encode
        self.sentences: list[str] = []
        self.offset = 0  # steps of the first sentence that are read
        self.is_new = False  # whether nothing of the document is read
        self._steps: _Steps | None = None  # of the first sentences, from `offset` on
        self._lengths: list[int] = []

    def begin(self, document: list[str]):
        """Goes on with another document."""
        self.sentences, self.is_new = document, True

    def take(self, count: int) -> _Steps | None:
        """The next steps, `count` at most; `None` at the end of the document."""
        if self._steps is None or len(self._steps.starts) == 0:
            if not self.sentences:
                return None
            steps, self._lengths = self.encode(self.sentences[:SENTENCES_AT_ONCE])
            self._steps = steps.part(self.offset)
        taken, self._steps = self._steps.part(0, count), self._steps.part(count)
        if self.is_new:
            taken.starts[0], self.is_new = 2, False
        self.offset += len(taken.starts)
        while self._lengths and self.offset >= self._lengths[0]:
            self.offset -= self._lengths.pop(0)
            self.sentences.pop(0)
        return taken

    def state_dict(self) -> dict[str, Any]:
        return {"sentences": list(self.sentences), "offset": self.offset, "is_new": self.is_new}

    def load_state_dict(self, state: dict[str, Any]):
        self.sentences, self.offset, self.is_new = list(state["sentences"]), state["offset"], state["is_new"]
        self._steps, self._lengths = None, []


class Streams:
    """
    Parallel streams over the documents of a reader. A stream that comes to the end of its document takes the next one.

    Args:
        reader: Gives the documents.
        encode: Makes steps of sentences.
        streams: How many. There must be a document for each, unless `allow_fewer`.
        window: Steps per window.
        reset_probability: How often the state is set back at the start of a sentence.
        reset_documents: Whether it is set back at the start of every document.
        seed: For the resets.
        allow_fewer: Whether streams may stay empty.
    """

    def __init__(
        self,
        reader: Reader,
        encode: SentenceEncoder,
        *,
        streams: int,
        window: int,
        reset_probability: float = 0.0,
        reset_documents: bool = False,
        seed: int = 0,
        allow_fewer: bool = False,
    ):
        self.reader, self.encode = reader, encode
        self.window = window
        self.reset_probability, self.reset_documents = reset_probability, reset_documents
        self._streams = [_Stream(encode) for _ in range(streams)]
        self._random = np.random.default_rng([seed, reader.process])
        self._must_fill = not allow_fewer

    def take(self) -> Window | None:
        """The next window, or `None` at the end of the last document."""
        if self._must_fill:
            self._fill()
        window, targets = self._empty(), 0
        for number, stream in enumerate(self._streams):
            place = 0
            while place < self.window and (steps := self._next_steps(stream, self.window - place)) is not None:
                for array, part in zip(window, steps, strict=True):
                    array[number, place : place + len(part)] = part
                place += len(steps.starts)
            targets += place
        return self._as_tensors(window, targets) if targets else None

    def blank(self) -> Window:
        """A window without targets: a boundary to read, so that every weight takes part, and nothing to predict."""
        window = self._empty()
        boundary, _ = self.encode([""])
        for array, first in list(zip(window, boundary, strict=True))[:4]:
            array[0, 0] = first[0]
        return self._as_tensors(window, 0)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on with the next window; plain values."""
        return {
            "reader": self.reader.state_dict(),
            "streams": [stream.state_dict() for stream in self._streams],
            "random": self._random.bit_generator.state,
            "must_fill": self._must_fill,
        }

    def load_state_dict(self, state: dict[str, Any]):
        """Goes on from there."""
        if len(state["streams"]) != len(self._streams):
            raise TextError(f"The run has {len(state['streams'])} streams per process, not {len(self._streams)}.")
        self.reader.load_state_dict(state["reader"])
        for stream, stream_state in zip(self._streams, state["streams"], strict=True):
            stream.load_state_dict(stream_state)
        self._random.bit_generator.state = state["random"]
        self._must_fill = state["must_fill"]

    def _empty(self) -> _Steps:
        """Arrays for a window, with the streams in front."""
        tokenizer, shape = self.encode.tokenizer, (len(self._streams), self.window)
        rows = [np.zeros((*shape, tokenizer.max_characters_per_token), dtype=np.int16) for _ in range(2)]
        inputs = [np.full(shape, tokenizer.pad_token_id) for _ in range(2)]
        labels = [np.full(shape, NOT_A_TARGET) for _ in range(2)]
        return _Steps(*rows, *inputs, *labels, starts=np.zeros(shape, dtype=np.int8))

    def _as_tensors(self, window: _Steps, targets: int) -> Window:
        resets = (window.starts > 0) & (self._random.random(window.starts.shape) < self.reset_probability)
        if self.reset_documents:
            resets |= window.starts == 2
        return Window(*(torch.from_numpy(array) for array in (*window[:-1], resets)), targets)

    def _fill(self):
        """Gives every stream its first document, or says that there are too few."""
        for number, stream in enumerate(self._streams):
            epoch = self.reader.position.epoch
            document = self.reader.next_document()
            if document is None or self.reader.position.epoch != epoch:
                share = f" for each of {self.reader.num_processes} processes" if self.reader.num_processes > 1 else ""
                raise TextError(
                    f"The text has {counted(number, 'document')}{share}, fewer than the {len(self._streams)} streams: "
                    "lower the batch size, or put blank lines between documents."
                )
            stream.begin(document)
        self._must_fill = False

    def _next_steps(self, stream: _Stream, count: int) -> _Steps | None:
        while (steps := stream.take(count)) is None:
            document = self.reader.next_document()
            if document is None:
                return None
            stream.begin(document)
        return steps
