"""
Windows over many parallel streams of text. The language model carries its state along each stream.

A stream reads one document after the other. A sentence of n words has n + 1 steps in each direction: forward reads
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
# Sentences that a stream encodes in one call: enough for the tokenizer to be fast, and few enough for memory.
SENTENCES_AT_ONCE = 64
CHARACTERS_AT_ONCE = 2**22  # with the padding to the longest sentence


class Window(NamedTuple):
    """
    Consecutive steps of every stream, as inputs of [`ElmoForPreTraining`].

    Attributes:
        char_ids, backward_char_ids (`(streams, window, slots)`, in the dtype of the tokenizer's spelling): The
            characters that each direction reads; zeros past the end of a stream.
        input_ids, backward_input_ids (`(streams, window)`): The word ids that each direction reads.
        labels, backward_labels (`(streams, window)`): The word ids that each direction predicts; -100 past the end of a
            stream.
        state_resets (`(streams, window)`): True where the state is reset before the word.
        targets (`int`): The number of predictions per direction.
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
        """The tensors by name, on a device."""
        tensors = self._asdict()
        del tensors["targets"]
        return {name: tensor.to(device) for name, tensor in tensors.items()}


@dataclass
class Position:
    """
    The position of a reader: the epoch, the shard in the order of the epoch, and the numbers of documents read from the
    shard and in the epoch.
    """

    epoch: int = 0
    shard: int = 0
    document: int = 0
    documents_in_epoch: int = 0


class Reader:
    """
    Reads the documents of one process, epoch after epoch. The order of the shards depends on the seed and the epoch.

    With P processes, process p reads every P-th document, so that each document is read once per epoch.
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
                if self.position.documents_in_epoch <= self.process:  # too few documents for this process, ever
                    return None
                if self.epochs is not None and self.position.epoch + 1 >= self.epochs:
                    return None
                self.position = Position(epoch=self.position.epoch + 1)
                continue
            index = self.position.documents_in_epoch
            self.position.document += 1
            self.position.documents_in_epoch += 1
            if index % self.num_processes == self.process:
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
        """The position, as plain values."""
        return {"position": vars(self.position).copy()}

    def load_state_dict(self, state: dict[str, Any]):
        """Continues at a stored position."""
        self.position = Position(**state["position"])
        self._documents = None


class _Steps(NamedTuple):
    """Consecutive steps of a stream: what each direction reads and predicts, and where sentences start."""

    rows: np.ndarray  # (steps, slots)
    backward_rows: np.ndarray
    inputs: np.ndarray  # (steps,)
    backward_inputs: np.ndarray
    labels: np.ndarray
    backward_labels: np.ndarray
    starts: np.ndarray  # (steps,), 1 at the first word of a sentence, 2 at that of a document

    def part(self, start: int, stop: int | None = None) -> "_Steps":
        """The steps from `start` to `stop`."""
        return _Steps(*(array[start:stop] for array in self))


class SentenceEncoder:
    """
    Encodes sentences as steps.

    Args:
        tokenizer: The model's tokenizer.
        pretokenized: Whether words are separated by blanks. Otherwise the tokenizer splits the sentences.
    """

    def __init__(self, tokenizer: ElmoTokenizer, pretokenized: bool):
        self.tokenizer, self.pretokenized = tokenizer, pretokenized

    def __call__(self, sentences: Sequence[str]) -> tuple[_Steps, list[int]]:
        """The steps of all sentences, and the number of steps of each."""
        texts = [split_words(sentence) for sentence in sentences] if self.pretokenized else list(sentences)
        batch = self.tokenizer(
            texts,
            is_split_into_words=self.pretokenized,
            split_special_tokens=True,  # a special token in the text is an ordinary word
            padding=True,
            padding_side="right",
            return_tensors="np",
        )
        lengths = batch["attention_mask"].sum(axis=1).tolist()
        ids = [row[:length] for row, length in zip(batch["input_ids"], lengths, strict=True)]
        rows = [row[:length] for row, length in zip(batch["char_ids"], lengths, strict=True)]
        steps = _Steps(
            rows=np.concatenate([row[:-1] for row in rows], dtype=self.tokenizer.spelling.dtype),
            backward_rows=np.concatenate([row[:0:-1] for row in rows], dtype=self.tokenizer.spelling.dtype),
            inputs=np.concatenate([row[:-1] for row in ids]),
            backward_inputs=np.concatenate([row[:0:-1] for row in ids]),
            labels=np.concatenate([row[1:] for row in ids]),
            backward_labels=np.concatenate([row[-2::-1] for row in ids]),
            starts=np.concatenate([np.arange(length - 1) == 0 for length in lengths]).astype(np.int8),
        )
        return steps, [length - 1 for length in lengths]


class _Stream:
    """One stream: the sentences that are still to be read. Part of the first one may have been read."""

    def __init__(self, encode: SentenceEncoder):
        self.encode = encode
        self.sentences: list[str] = []
        self.offset = 0  # the number of steps of the first sentence that have been read
        self.is_new = False  # whether no step of the document has been read
        self._steps: _Steps | None = None  # the encoded steps of the first sentences, from `offset` on
        self._lengths: list[int] = []

    def begin(self, document: list[str]):
        """Starts a document."""
        self.sentences, self.is_new = document, True

    def take(self, count: int) -> _Steps | None:
        """The next steps, `count` at most; `None` at the end of the document."""
        if self._steps is None or len(self._steps.starts) == 0:
            if not self.sentences:
                return None
            some = self.sentences[:SENTENCES_AT_ONCE]
            while len(some) > 1 and len(some) * max(map(len, some)) > CHARACTERS_AT_ONCE:
                some = some[: len(some) // 2]
            steps, self._lengths = self.encode(some)
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
    Parallel streams over the documents of a reader. At the end of its document, a stream takes the next one.

    Args:
        reader: Reads the documents.
        encode: Encodes sentences as steps.
        streams: The number of streams. There must be a document for each, unless `allow_fewer` is true.
        window: The number of steps per window.
        reset_probability: The probability that the state is reset at the start of a sentence.
        reset_documents: Whether the state is reset at the start of every document.
        seed: The seed of the resets.
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
        for row, stream in enumerate(self._streams):
            place = 0
            while place < self.window and (steps := self._next_steps(stream, self.window - place)) is not None:
                for array, part in zip(window, steps, strict=True):
                    array[row, place : place + len(part)] = part
                place += len(steps.starts)
            targets += place
        return self._as_tensors(window, targets) if targets else None

    def blank(self) -> Window:
        """A window without targets. It has one boundary to read, so that every weight gets a gradient."""
        window = self._empty()
        boundary, _ = self.encode([""])
        for array, first in list(zip(window, boundary, strict=True))[:4]:
            array[0, 0] = first[0]
        return self._as_tensors(window, 0)

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to continue with the next window, as plain values."""
        return {
            "reader": self.reader.state_dict(),
            "streams": [stream.state_dict() for stream in self._streams],
            "random": self._random.bit_generator.state,
            "must_fill": self._must_fill,
        }

    def load_state_dict(self, state: dict[str, Any]):
        """Continues from a stored state."""
        if len(state["streams"]) != len(self._streams):
            raise TextError(f"The run has {len(state['streams'])} streams per process, not {len(self._streams)}.")
        self.reader.load_state_dict(state["reader"])
        for stream, stream_state in zip(self._streams, state["streams"], strict=True):
            stream.load_state_dict(stream_state)
        self._random.bit_generator.state = state["random"]
        self._must_fill = state["must_fill"]

    def _empty(self) -> _Steps:
        """Empty arrays for a window; the first dimension is the streams."""
        tokenizer, shape = self.encode.tokenizer, (len(self._streams), self.window)
        slots, kind = tokenizer.max_characters_per_token, tokenizer.spelling.dtype
        rows = [np.zeros((*shape, slots), dtype=kind) for _ in range(2)]
        inputs = [np.full(shape, tokenizer.pad_token_id) for _ in range(2)]
        labels = [np.full(shape, NOT_A_TARGET) for _ in range(2)]
        return _Steps(*rows, *inputs, *labels, starts=np.zeros(shape, dtype=np.int8))

    def _as_tensors(self, window: _Steps, targets: int) -> Window:
        resets = (window.starts > 0) & (self._random.random(window.starts.shape) < self.reset_probability)
        if self.reset_documents:
            resets |= window.starts == 2
        return Window(*(torch.from_numpy(array) for array in (*window[:-1], resets)), targets)

    def _fill(self):
        """Gives every stream its first document. Raises an error if there are too few documents."""
        for num_filled, stream in enumerate(self._streams):
            epoch = self.reader.position.epoch
            document = self.reader.next_document()
            if document is None or self.reader.position.epoch != epoch:
                share = f" for each of {self.reader.num_processes} processes" if self.reader.num_processes > 1 else ""
                raise TextError(
                    f"The text has {counted(num_filled, 'document')}{share}, fewer than the {len(self._streams)} "
                    "streams: lower the batch size (--batch-size), or put blank lines between documents."
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
