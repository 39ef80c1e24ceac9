"""Runs the language model over texts of any length, one piece at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from ..data.sentences import Sentence, checked
from ..modeling.modeling_elmo import DIRECTIONS, ElmoModel, ElmoStates
from ..modeling.tokenization_elmo import ElmoTokenizer

NO_LABEL = -100
TOKENS_AT_ONCE = 2048  # tokens of one or several texts, padding included; memory grows with it


def tokenized(texts: Iterable[Sentence], tokenizer: ElmoTokenizer) -> Iterator[list[str]]:
    """Yields the tokens of each text, lazily: `<S>`, words, `</S>`."""
    for text in checked(texts):
        words = tokenizer.tokenize(text) if isinstance(text, str) else text
        yield [tokenizer.bos_token, *words, tokenizer.eos_token]


def batches(texts: Sequence[list[str]]) -> list[list[int]]:
    """
    Batches of texts of similar length, as lists of their indices. A batch has at most [`TOKENS_AT_ONCE`] tokens,
    padding included; a longer text has a batch of its own.
    """
    indices: list[list[int]] = []
    for index in sorted(range(len(texts)), key=lambda index: len(texts[index])):
        if not indices or (len(indices[-1]) + 1) * len(texts[index]) > TOKENS_AT_ONCE:
            indices.append([])
        indices[-1].append(index)
    return indices


@dataclass
class Rows:
    """
    A batch of texts. The characters of each distinct word are stored once, so that a long text takes little memory.

    Args:
        places: `(texts, tokens)`, the index of each token among the distinct tokens.
        mask: `(texts, tokens)`, true for tokens.
        ids: `(distinct,)`, the word ids of the distinct tokens.
        char_ids: `(distinct, slots)`, their characters.
    """

    places: torch.Tensor
    mask: torch.Tensor
    ids: torch.Tensor
    char_ids: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[list[str]], tokenizer: ElmoTokenizer, vocab_size: int) -> "Rows":
        """The rows of tokenised texts. A word that the softmax does not have becomes `<UNK>`."""
        words = dict.fromkeys(chain.from_iterable(text[1:-1] for text in texts))
        spelled = tokenizer([list(words)], is_split_into_words=True, return_tensors="pt")  # between <S> and </S>
        ids = spelled["input_ids"][0]
        place_of = {word: place for place, word in enumerate(words, start=1)}
        places = np.zeros((len(texts), max(map(len, texts))), dtype=np.int64)
        mask = np.zeros(places.shape, dtype=bool)
        for row, text in enumerate(texts):
            places[row, 1 : len(text) - 1] = [place_of[word] for word in text[1:-1]]
            places[row, len(text) - 1] = len(ids) - 1
            mask[row, : len(text)] = True
        ids = torch.where(ids < vocab_size, ids, tokenizer.unk_token_id)  # words that only the tokenizer has
        return cls(torch.from_numpy(places), torch.from_numpy(mask), ids, spelled["char_ids"][0])

    def labels(self) -> list[torch.Tensor]:
        """The labels of each direction, `(texts, tokens)`: at each position the next token, and the previous one."""
        tokens = torch.where(self.mask, self.ids[self.places], NO_LABEL)
        nothing = torch.full_like(tokens[:, :1], NO_LABEL)
        before = torch.cat([nothing, tokens[:, :-1]], dim=1)
        return [torch.cat([tokens[:, 1:], nothing], dim=1), torch.where(self.mask, before, NO_LABEL)]

    def read(self, model: ElmoModel, directions: str) -> Iterator[tuple[int, slice, torch.Tensor]]:
        """
        Runs the model over the texts in pieces. Both directions run in one call if one piece is enough. Otherwise each
        direction runs over all pieces, backward from the last piece to the first.

        Yields:
            The direction (0 is forward), the positions of the piece, and the top layer there, `(texts, positions,
            output_size)`.
        """
        texts, tokens = self.places.shape
        size = max(TOKENS_AT_ONCE // texts, 1)
        pieces = [slice(start, start + size) for start in range(0, tokens, size)]
        for run in ["forward", "backward"] if directions == "both" and len(pieces) > 1 else [directions]:
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


__all__ = ["NO_LABEL", "TOKENS_AT_ONCE", "Rows", "batches", "tokenized"]
