"""[`ElmoLanguageModel`]: probabilities of texts, and words that fit a context."""

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
from ..runtime.named_models import locate_model
from .answers import Candidate, StaticNeighbour, Substitute, TextScore
from .contexts import find_context
from .loading import load_language_model
from .reading import NO_LABEL, TOKENS_AT_ONCE, Rows, batches, tokenized
from .static_vectors import encode_words, encoder_vectors, softmax_vectors

FORWARD, BACKWARD = 0, 1
NAMES = ("forward", "backward")


class ElmoLanguageModel:
    """
    The two language models of ELMo, forward and backward, used to score texts and to predict words.

    Args:
        model: The model with its softmax. It is set to evaluation mode.
        tokenizer: The model's tokenizer.

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
        Loads a language model.

        Args:
            model: A folder, or a name on the Hub. Default: the model that comes with the package.
            device: The device of the model. Default: the CPU.
            dtype: The dtype of the weights. Default: the dtype that they were saved in.
            kwargs: Further options of [`ElmoForPreTraining.from_pretrained`], such as `quantization_config`.
        """
        name, offline = locate_model(model, **kwargs)
        loaded, tokenizer = load_language_model(name, "auto" if dtype is None else dtype, **(kwargs | offline))
        loaded.cache_words()
        return cls(loaded if device is None else loaded.to(torch.device(device)), tokenizer)

    # ---- scores of texts

    @overload
    def score(self, texts: str) -> TextScore: ...

    @overload
    def score(self, texts: Iterable[Sentence]) -> list[TextScore]: ...

    def score(self, texts):
        """
        Computes the log-probability of every token in each direction.

        Args:
            texts: One string, or several texts, each a string or a list of words.

        Returns:
            A [`TextScore`], or a list of them in the order of the texts.
        """
        return next(self.score_iter([texts])) if isinstance(texts, str) else list(self.score_iter(texts))

    def score_iter(self, texts: Iterable[Sentence]) -> Iterator[TextScore]:
        """As [`~ElmoLanguageModel.score`], but yields one score at a time and reads only a few texts ahead."""
        for window in windows(tokenized(texts, self.tokenizer), TOKENS_AT_ONCE):
            scores: dict[int, TextScore] = {}
            for indices in batches(window):
                scores.update(zip(indices, self._score([window[index] for index in indices]), strict=True))
            yield from (scores[index] for index in range(len(window)))

    @torch.inference_mode()
    def _score(self, texts: Sequence[list[str]]) -> list[TextScore]:
        rows = self._rows(texts)
        labels = rows.labels()
        scores = [np.zeros(direction.shape) for direction in labels]  # at the position of the prediction
        for direction, piece, top in rows.read(self.model.elmo, self.model.config.directions):
            targets = labels[direction][:, piece]
            chosen = targets != NO_LABEL
            log_probs = self.model.softmax.label_log_probs(top[chosen.to(top.device)], targets[chosen].to(top.device))
            scores[direction][:, piece][chosen.numpy()] = log_probs.cpu().double().numpy()  # some devices lack float64
        unknown = (rows.ids == self.tokenizer.unk_token_id)[rows.places].numpy()
        return [
            TextScore(
                tokens=tokens,
                unknown=unknown[row, : len(tokens)].copy(),
                forward=np.append(0.0, scores[FORWARD][row, : len(tokens) - 1]) if self._reads(FORWARD) else None,
                backward=np.append(scores[BACKWARD][row, 1 : len(tokens)], 0.0) if self._reads(BACKWARD) else None,
            )
            for row, tokens in enumerate(texts)
        ]

    # ---- words that fit a context

    def next_words(self, text: Sentence, k: int = 10, *, boundary: bool = False) -> list[Candidate]:
        """
        Predicts the most likely words after a text, with the forward model.

        Args:
            text: The beginning of a sentence, a string or a list of words. It may be empty.
            k: The number of words to return.
            boundary: Whether the end of the sentence, `</S>`, is a possible answer. `<S>` and `<UNK>` never are.
        """
        (tokens,) = tokenized([text], self.tokenizer)
        log_probs = self._log_probs(tokens, FORWARD, len(tokens) - 2)
        return self._candidates(log_probs, k, self.tokenizer.eos_token_id if boundary else None)

    def previous_words(self, text: Sentence, k: int = 10, *, boundary: bool = False) -> list[Candidate]:
        """
        Predicts the most likely words before a text, with the backward model.

        Args:
            text: The end of a sentence, a string or a list of words. It may be empty.
            k: The number of words to return.
            boundary: Whether the beginning of the sentence, `<S>`, is a possible answer. `</S>` and `<UNK>` never are.
        """
        (tokens,) = tokenized([text], self.tokenizer)
        log_probs = self._log_probs(tokens, BACKWARD, 1)
        return self._candidates(log_probs, k, self.tokenizer.bos_token_id if boundary else None)

    def substitutes(
        self, text: Sentence, position: int | tuple[int, int] | None = None, k: int = 10, *, rarity: float = 0.0
    ) -> list[Substitute]:
        """
        Finds the words of the vocabulary that best replace a word in its context. Words are ranked by the sum of two
        log-probabilities: forward, given the words before the position, and backward, given the words after it. The
        word itself, `<S>`, `</S>` and `<UNK>` are excluded.

        Args:
            text: A text with the word marked, `"He sat on the **bank** of the river."` (`****` marks a gap); or a text
                or a list of words together with a position.
            position: The index of the word in the list, from 0; or its offsets in the text, `(start, end)`.
            k: The number of words to return.
            rarity: How strongly to prefer rare words. Both directions favour frequent words, so their sum counts the
                frequency of a word twice. A value of 1 removes it once, as Bayes' rule does for independent contexts;
                the frequency is estimated from the word's rank in the vocabulary.
        """
        before, inside, after = find_context(text, position, self.tokenizer)
        (tokens,) = tokenized([[*before, *inside, *after]], self.tokenizer)
        places = {FORWARD: len(before), BACKWARD: len(before) + len(inside) + 1}  # from which the word is predicted
        log_probs = {
            direction: self._log_probs(tokens, direction, place)
            for direction, place in places.items()
            if self._reads(direction)
        }
        total = torch.stack(list(log_probs.values())).sum(dim=0)  # (vocab_size,)
        ranks = torch.arange(1, len(total) + 1, device=total.device)
        best = self._best(total + rarity * ranks.log(), k, {*self._special_ids, *map(self._word_id, inside)})

        def log_prob(direction: int, word: int) -> float:
            return log_probs[direction][word].item() if direction in log_probs else math.nan

        return [
            Substitute(self._word(word), total[word].item(), log_prob(FORWARD, word), log_prob(BACKWARD, word))
            for word, _ in best
        ]

    # ---- context-independent vectors

    def static_neighbors(
        self, word: str, k: int = 10, vectors: Literal["softmax", "encoder"] | None = None
    ) -> list[StaticNeighbour]:
        """
        Finds the words of the vocabulary whose context-independent vectors have the largest cosine to that of a word.

        Args:
            word: Any word: layer 0 also has vectors for unknown words.
            k: The number of words to return.
            vectors: "softmax" for the weights of the softmax, where words that occur in the same contexts are near each
                other; or "encoder" for layer 0, where words with a similar spelling are. Default: "softmax" for a word
                of the vocabulary, "encoder" for any other.
        """
        if not isinstance(word, str):
            raise TextError(f"A word is a string, found {word!r:.60}.")
        if len(word.split()) != 1:
            raise TextError(f"Give one word, without blanks: found {word!r:.60}.")
        word_id = self._word_id(word)
        known = word_id not in self._special_ids and word_id < self.model.config.vocab_size
        if vectors is None:
            vectors = "softmax" if known else "encoder"
        if vectors not in ("softmax", "encoder"):
            raise ValueError(f"`vectors` must be 'softmax' or 'encoder', found {vectors!r}.")
        if vectors == "softmax" and not known:
            raise TextError(f"{word!r:.60} is not in the vocabulary, and so not in the softmax: ask for 'encoder'.")
        if not known and not self.model.config.uses_characters:
            raise TextError(f"{word!r:.60} is not in the vocabulary, and this model reads no characters.")
        table = self._softmax_vectors if vectors == "softmax" else self._encoder_vectors
        vector = table[word_id] if known else encode_words(self.model, self.tokenizer, [word])[0]
        best = self._best(table @ vector, k, {*self._special_ids, word_id})
        return [StaticNeighbour(self._word(neighbour), similarity) for neighbour, similarity in best]

    @functools.cached_property
    def _softmax_vectors(self) -> torch.Tensor:
        return softmax_vectors(self.model)

    @functools.cached_property
    def _encoder_vectors(self) -> torch.Tensor:
        return encoder_vectors(self.model, self.tokenizer)

    # ---- steps

    def _reads(self, direction: int) -> bool:
        """Whether the model has the direction."""
        return self.model.config.directions in ("both", NAMES[direction])

    @property
    def _special_ids(self) -> set[int]:
        """The ids of `<S>`, `</S>` and `<UNK>`."""
        return {self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.unk_token_id}

    def _word(self, word_id: int) -> str:
        return cast(str, self.tokenizer.convert_ids_to_tokens(word_id))

    def _word_id(self, word: str) -> int:
        """The id of a word; that of `<UNK>` for an unknown word."""
        return cast(int, self.tokenizer.convert_tokens_to_ids(word))

    def _rows(self, texts: Sequence[list[str]]) -> Rows:
        return Rows.of(texts, self.tokenizer, self.model.config.vocab_size)

    @torch.inference_mode()
    def _log_probs(self, tokens: list[str], direction: int, place: int) -> torch.Tensor:
        """The log-probabilities of all words as the one that a direction reads after a place, `(vocab_size,)`."""
        if not self._reads(direction):
            raise ModelError(
                f"This model reads {self.model.config.directions} only: {NAMES[direction]} it knows no words."
            )
        pieces = self._rows([tokens]).read(self.model.elmo, NAMES[direction])
        piece, top = next((piece, top) for _, piece, top in pieces if piece.start <= place < piece.stop)
        return self.model.softmax.log_probs(top[:, place - piece.start])[0]

    def _candidates(self, log_probs: torch.Tensor, k: int, allowed: int | None) -> list[Candidate]:
        best = self._best(log_probs, k, self._special_ids - {allowed})
        return [Candidate(self._word(word), log_prob) for word, log_prob in best]

    @staticmethod
    def _best(values: torch.Tensor, k: int, excluded: set[int]) -> list[tuple[int, float]]:
        """The ids of the words with the `k` largest values, and these values."""
        if k < 1:
            raise ValueError(f"`k` must be 1 or more, found {k}.")
        order = values.topk(min(k + len(excluded), len(values))).indices.tolist()
        return [(word, values[word].item()) for word in order if word not in excluded][:k]


@overload
def score(texts: str, model: str | os.PathLike | None = None) -> TextScore: ...


@overload
def score(texts: Iterable[Sentence], model: str | os.PathLike | None = None) -> list[TextScore]: ...


def score(texts, model=None):
    """
    Computes the log-probability of every token of a text, forward and backward.

    Args:
        texts: One string, or several texts, each a string or a list of words.
        model: A folder, or a name on the Hub. The model is cached until another one is requested. Default: the model
            that comes with the package.

    Returns:
        A [`TextScore`], or a list of them in the order of the texts.
    """
    return _cached_model(None if model is None else os.fspath(model)).score(texts)


@functools.lru_cache(maxsize=1)
def _cached_model(model: str | None) -> ElmoLanguageModel:
    return ElmoLanguageModel.from_pretrained(model)


__all__ = ["ElmoLanguageModel", "score"]
