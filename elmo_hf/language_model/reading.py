"""Texts as the language model reads them: rows of words between boundaries, of any length, a piece at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from ..errors import TextError
from ..modeling_elmo import DIRECTIONS, ElmoModel, ElmoStates
from ..tokenization_elmo import ElmoTokenizer

NO_LABEL = -100
# Words that go through the model together, of one text or of several. They bound the memory that a call takes.
TOKENS_AT_ONCE = 2048
# Words of the texts that are sorted by length, so that those of a batch are of similar length.
WINDOW_TOKENS = 32 * TOKENS_AT_ONCE

Text = str | Sequence[str]


def words_of(text: Text, tokenizer: ElmoTokenizer) -> list[str]:
    """The words of a text, or those that were given."""
    if isinstance(text, str):
        return tokenizer.tokenize(text)
    if not isinstance(text, Sequence) or not all(isinstance(word, str) for word in text):
        raise TextError(f"A text is a string or a list of words, found {text!r:.60}.")
    return list(text)


def windows(texts: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Texts as they come, so many at a time that there are batches enough to sort them into."""
    window: list[list[str]] = []
    tokens = 0
    for text in texts:
        window.append(text)
        tokens += len(text) + 2
        if tokens >= WINDOW_TOKENS:
            yield window
            window, tokens = [], 0
    if window:
        yield window


def batches(window: Sequence[list[str]]) -> list[list[int]]:
    """
    Which texts of a window are read together, by number: those of similar length, [`TOKENS_AT_ONCE`] tokens at most. A
    longer text is alone.
    """
    found: list[list[int]] = []
    for number in sorted(range(len(window)), key=lambda number: len(window[number])):
        length = len(window[number]) + 2  # the longest of its batch so far
        if not found or (len(found[-1]) + 1) * length > TOKENS_AT_ONCE:
            found.append([])
        found[-1].append(number)
    return found


@dataclass
class Rows:
    """
    Texts between boundaries. Each distinct word is spelled once, so that a long text takes little memory.

    Args:
        places: `(texts, tokens)`, which of the distinct tokens stands where.
        mask: `(texts, tokens)`, true for tokens.
        ids: `(distinct,)`, word ids of the distinct tokens.
        char_ids: `(distinct, slots)`, their characters.
    """

    places: torch.Tensor
    mask: torch.Tensor
    ids: torch.Tensor
    char_ids: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[list[str]], tokenizer: ElmoTokenizer, vocab_size: int) -> "Rows":
        """Words that the model has no probability for are `<UNK>`."""
        numbers = {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(texts)), start=1)}
        spelled = tokenizer([list(numbers)], is_split_into_words=True, return_tensors="pt")  # <S> ... </S>
        ids = spelled["input_ids"][0]
        width = max(map(len, texts)) + 2
        places = np.zeros((len(texts), width), dtype=np.int64)
        mask = np.zeros((len(texts), width), dtype=bool)
        for row, words in enumerate(texts):
            places[row, 1 : len(words) + 1] = [numbers[word] for word in words]
            places[row, len(words) + 1] = len(ids) - 1
            mask[row, : len(words) + 2] = True
        ids = torch.where(ids < vocab_size, ids, tokenizer.unk_token_id)  # added to the tokenizer alone
        return cls(torch.from_numpy(places), torch.from_numpy(mask), ids, spelled["char_ids"][0])

    def labels(self) -> list[torch.Tensor]:
        """What each direction predicts at each position, `(texts, tokens)`: the token after it, and the one before."""
        words = torch.where(self.mask, self.ids[self.places], NO_LABEL)
        nothing = torch.full_like(words[:, :1], NO_LABEL)
        after, before = torch.cat([words[:, 1:], nothing], dim=1), torch.cat([nothing, words[:, :-1]], dim=1)
        return [after, torch.where(self.mask, before, NO_LABEL)]

    def read(self, model: ElmoModel, directions: str) -> Iterator[tuple[int, slice, torch.Tensor]]:
        """
        What the model makes of the texts, in pieces: both directions together if one piece is enough, else one after
        the other, the backward one from the last piece to the first.

        Returns:
            A direction (0 is forward), the positions of the piece, and the top layer there, `(texts, positions,
            output_size)`.
        """
        texts, width = self.places.shape
        step = max(TOKENS_AT_ONCE // texts, 1)
        pieces = [slice(start, start + step) for start in range(0, width, step)]
        runs = ["forward", "backward"] if directions == "both" and len(pieces) > 1 else [directions]
        for run in runs:
            state: ElmoStates | None = None
            for piece in reversed(pieces) if run == "backward" else pieces:
                places = self.places[:, piece]
                output = model(
                    input_ids=self.ids[places].to(model.device),
                    char_ids=self.char_ids[places].to(model.device),
                    attention_mask=self.mask[:, piece].to(model.device),
                    initial_state=state,
                    output_states=True,
                    directions=run,
                )
                state = output.states
                tops = output.last_hidden_state.chunk(len(DIRECTIONS[run]), dim=-1)
                yield from ((direction, piece, top) for direction, top in zip(DIRECTIONS[run], tops, strict=True))


__all__ = ["Rows", "Text", "batches", "windows", "words_of"]
