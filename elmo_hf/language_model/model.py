"""The language model's own answers: how likely a text is, and which words fit where."""

import functools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast, overload

import numpy as np
import torch

from ..data.batches import windows
from ..data.sentences import Sentence
from ..errors import ModelError, TextError
from ..modeling.modeling_elmo import ElmoForPreTraining
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.default_model import default_model, find_model
from .answers import Candidate, StaticNeighbour, Substitute, TextScore
from .contexts import find_context
from .loading import load_language_model
from .reading import NO_LABEL, TOKENS_AT_ONCE, Rows, batches, tokenized
from .static_vectors import encode_words, encoder_vectors, softmax_vectors

FORWARD, BACKWARD = 0, 1
NAMES = ("forward", "backward")


class ElmoLanguageModel:
    """
    The two language models that ELMo is made of, asked for their words.

    Args:
        model: With its softmax; it is put into evaluation mode.
        tokenizer: The model's own.

    Example:

    ```python
    >>> from elmo_hf import ElmoLanguageModel

    >>> lm = ElmoLanguageModel.from_pretrained()  # the English model that comes with the package
    >>> [word for word, _ in lm.next_words("He sat on the", k=3)]
    ['table', 'sofa', 'back']
    ```"""

    def __init__(self, model: ElmoForPreTraining, tokenizer: ElmoTokenizer):
        if tokenizer.vocab_size != model.config.vocab_size:
            raise ModelError(
                f"The tokenizer has {tokenizer.vocab_size} words and the model {model.config.vocab_size}: they do not "
                "belong together."
            )
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: Any,
    ) -> "ElmoLanguageModel":
        """
        Args:
            model: A folder, or a name on the Hub. Default: the model that comes with the package.
            device: Where it runs. Default: the CPU.
            dtype: Of its weights. Default: as they were saved.
            kwargs: Further options of [`ElmoForPreTraining.from_pretrained`], as `quantization_config`.
        """
        name = default_model() if model is None else find_model(os.fspath(model))
        loaded, tokenizer = load_language_model(name, "auto" if dtype is None else dtype, **kwargs)
        loaded.cache_words()
        return cls(loaded if device is None else loaded.to(torch.device(device)), tokenizer)

    # ---- how likely a text is

    @overload
    def score(self, texts: str) -> TextScore: ...

    @overload
    def score(self, texts: Iterable[Sentence]) -> list[TextScore]: ...

    def score(self, texts):
        """
        The log-probability of every token, in each direction.

        Args:
            texts: One string; or many texts, each a string or a list of words.

        Returns:
            A [`TextScore`]; of many texts a list, in their order.
        """
        return next(self.score_iter([texts])) if isinstance(texts, str) else list(self.score_iter(texts))

    def score_iter(self, texts: Iterable[Sentence]) -> Iterator[TextScore]:
        """As [`~ElmoLanguageModel.score`] of many texts, of which a few are in memory at a time."""
        for window in windows(tokenized(texts, self.tokenizer), TOKENS_AT_ONCE):
            scores: dict[int, TextScore] = {}
            for numbers in batches(window):
                scores.update(zip(numbers, self._score([window[number] for number in numbers]), strict=True))
            yield from (scores[number] for number in range(len(window)))

    @torch.inference_mode()
    def _score(self, texts: Sequence[list[str]]) -> list[TextScore]:
        rows = self._rows(texts)
        labels = rows.labels()
        found = [np.zeros(labels[way].shape) for way in (FORWARD, BACKWARD)]  # where it was predicted from
        for way, piece, top in rows.read(self.model.elmo, self.model.config.directions):
            wanted = labels[way][:, piece]
            chosen = wanted != NO_LABEL
            log_probs = self.model.softmax.label_log_probs(top[chosen.to(top.device)], wanted[chosen].to(top.device))
            found[way][:, piece][chosen.numpy()] = log_probs.double().cpu().numpy()
        unknown = (rows.ids == self.tokenizer.unk_token_id)[rows.places].numpy()
        return [
            TextScore(
                tokens=tokens,
                unknown=unknown[row, : len(tokens)].copy(),
                forward=np.append(0.0, found[FORWARD][row, : len(tokens) - 1]) if self._reads(FORWARD) else None,
                backward=np.append(found[BACKWARD][row, 1 : len(tokens)], 0.0) if self._reads(BACKWARD) else None,
            )
            for row, tokens in enumerate(texts)
        ]

    # ---- which words fit where

    def next_words(self, text: Sentence, k: int = 10, *, boundary: bool = False) -> list[Candidate]:
        """
        The most likely words after a text, read forward.

        Args:
            text: The beginning of a sentence, a string or a list of words; may be empty.
            k: How many.
            boundary: Whether the end of the sentence, `</S>`, may be an answer. `<S>` and `<UNK>` never are.
        """
        (tokens,) = tokenized([text], self.tokenizer)
        log_probs = self._log_probs(tokens, FORWARD, len(tokens) - 2)
        return self._candidates(log_probs, k, self.tokenizer.eos_token_id if boundary else None)

    def previous_words(self, text: Sentence, k: int = 10, *, boundary: bool = False) -> list[Candidate]:
        """
        The most likely words before a text, read backward.

        Args:
            text: The end of a sentence, a string or a list of words; may be empty.
            k: How many.
            boundary: Whether the beginning of the sentence, `<S>`, may be an answer. `</S>` and `<UNK>` never are.
        """
        (tokens,) = tokenized([text], self.tokenizer)
        log_probs = self._log_probs(tokens, BACKWARD, 1)
        return self._candidates(log_probs, k, self.tokenizer.bos_token_id if boundary else None)

    def substitutes(
        self, text: Sentence, position: int | tuple[int, int] | None = None, k: int = 10, *, rarity: float = 0.0
    ) -> list[Substitute]:
        """
        The words of the vocabulary that fit best in a word's place: by the sum of their log-probability after what
        stands before it and of that before what stands after it. The word itself is left out, and so are `<S>`, `</S>`
        and `<UNK>`.

        Args:
            text: With the word marked, `"He sat on the **bank** of the river."` (`****` is a gap); or as it is, or as a
                list of words, with a position.
            position: Of the word in the list, from 0; or where it begins and ends in the text, `(start, end)`.
            k: How many.
            rarity: How much rare words are preferred. Each direction has its share of frequent words, so that their sum
                counts frequency twice; 1 takes it out once, as Bayes' formula does for what stands before and what
                stands after, by the word's place in the vocabulary (which is in the order of frequency).
        """
        before, inside, after = find_context(text, position, self.tokenizer)
        (tokens,) = tokenized([[*before, *inside, *after]], self.tokenizer)
        places = {FORWARD: len(before), BACKWARD: len(before) + len(inside) + 1}  # from which the word is predicted
        read = {way: self._log_probs(tokens, way, place) for way, place in places.items() if self._reads(way)}
        total = torch.stack(list(read.values())).sum(dim=0)  # (vocab_size,)
        ranks = torch.arange(1, len(total) + 1, device=total.device)
        best = self._best(total + rarity * ranks.log(), k, {*self._marks, *map(self._number, inside)})

        def log_prob(way: int, number: int) -> float:
            return read[way][number].item() if way in read else math.nan

        return [
            Substitute(self._word(number), total[number].item(), log_prob(FORWARD, number), log_prob(BACKWARD, number))
            for number, _ in best
        ]

    # ---- words without context

    def static_neighbors(
        self, word: str, k: int = 10, vectors: Literal["softmax", "encoder"] | None = None
    ) -> list[StaticNeighbour]:
        """
        The words of the vocabulary whose vectors are nearest to a word's, by their cosine.

        Args:
            word: Any word: layer 0 has a vector of an unknown one too.
            k: How many.
            vectors: "softmax", near for words that occur in the same contexts; or "encoder", layer 0, near for words
                that are spelled alike. Default: "softmax" for a word of the vocabulary, "encoder" for any other.
        """
        if not isinstance(word, str):
            raise TextError(f"A word is a string, found {word!r:.60}.")
        if len(word.split()) != 1:
            raise TextError(f"Give one word, without blanks: found {word!r:.60}.")
        number = self._number(word)
        known = number not in self._marks and number < self.model.config.vocab_size
        if vectors is None:
            vectors = "softmax" if known else "encoder"
        if vectors not in ("softmax", "encoder"):
            raise ValueError(f"`vectors` must be 'softmax' or 'encoder', found {vectors!r}.")
        if vectors == "softmax" and not known:
            raise TextError(f"{word!r:.60} is not in the vocabulary, and so not in the softmax: ask for 'encoder'.")
        if not known and not self.model.config.uses_characters:
            raise TextError(f"{word!r:.60} is not in the vocabulary, and this model reads no characters.")
        table = self._softmax_vectors if vectors == "softmax" else self._encoder_vectors
        vector = table[number] if known else encode_words(self.model, self.tokenizer, [word])[0]
        best = self._best(table @ vector, k, {*self._marks, number})
        return [StaticNeighbour(self._word(number), similarity) for number, similarity in best]

    @functools.cached_property
    def _softmax_vectors(self) -> torch.Tensor:
        return softmax_vectors(self.model)

    @functools.cached_property
    def _encoder_vectors(self) -> torch.Tensor:
        return encoder_vectors(self.model, self.tokenizer)

    # ---- steps

    def _reads(self, way: int) -> bool:
        """Whether the model has the direction."""
        return self.model.config.directions in ("both", NAMES[way])

    @property
    def _marks(self) -> set[int]:
        """What is no word."""
        return {self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.unk_token_id}

    def _word(self, number: int) -> str:
        return cast(str, self.tokenizer.convert_ids_to_tokens(number))

    def _number(self, word: str) -> int:
        """A word's id; that of `<UNK>` for an unknown one."""
        return cast(int, self.tokenizer.convert_tokens_to_ids(word))

    def _rows(self, texts: Sequence[list[str]]) -> Rows:
        return Rows.of(texts, self.tokenizer, self.model.config.vocab_size)

    @torch.inference_mode()
    def _log_probs(self, tokens: list[str], way: int, place: int) -> torch.Tensor:
        """The log-probability of each word to be the one that a direction reads after a place, `(vocab_size,)`."""
        if not self._reads(way):
            raise ModelError(f"This model reads {self.model.config.directions} only: {NAMES[way]} it knows no words.")
        pieces = self._rows([tokens]).read(self.model.elmo, NAMES[way])
        piece, top = next((piece, top) for _, piece, top in pieces if piece.start <= place < piece.stop)
        return self.model.softmax.log_probs(top[:, place - piece.start])[0]

    def _candidates(self, log_probs: torch.Tensor, k: int, allowed: int | None) -> list[Candidate]:
        best = self._best(log_probs, k, self._marks - {allowed})
        return [Candidate(self._word(number), log_prob) for number, log_prob in best]

    @staticmethod
    def _best(values: torch.Tensor, k: int, left_out: set[int]) -> list[tuple[int, float]]:
        """The ids of the words with the `k` largest values, and these."""
        if k < 1:
            raise ValueError(f"`k` must be 1 or more, found {k}.")
        order = values.topk(min(k + len(left_out), len(values))).indices.tolist()
        return [(number, values[number].item()) for number in order if number not in left_out][:k]


@overload
def score(texts: str, model: str | os.PathLike | None = None) -> TextScore: ...


@overload
def score(texts: Iterable[Sentence], model: str | os.PathLike | None = None) -> list[TextScore]: ...


def score(texts, model=None):
    """
    The log-probability of every token of a text, forward and backward.

    Args:
        texts: One string; or many texts, each a string or a list of words.
        model: A folder, or a name on the Hub; loaded once and kept until another one is asked for. Default: the model
            that comes with the package.

    Returns:
        A [`TextScore`]; of many texts a list, in their order.
    """
    return _kept(None if model is None else os.fspath(model)).score(texts)


@functools.lru_cache(maxsize=1)
def _kept(model: str | None) -> ElmoLanguageModel:
    return ElmoLanguageModel.from_pretrained(model)


__all__ = ["ElmoLanguageModel", "score"]
