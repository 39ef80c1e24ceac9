"""Text in, contextual vectors out."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..default_model import default_model, find_model
from ..errors import ModelError
from ..modeling_elmo import ElmoModel
from ..text_sources import in_one_line
from ..tokenization_elmo import ElmoTokenizer
from .batches import BATCH_TOKENS, WINDOW, batches, windows
from .layers import LayerChoice, Layers, check_pooling, pool
from .sentences import Sentence, TokenSource, checked, encoded

Array = np.ndarray | torch.Tensor
Progress = bool | Callable[[int, int], object] | None

# Options of `from_pretrained` that say where files are: for the model and for the tokenizer.
WHERE = {"cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token"}


class ElmoEmbedder:
    """
    Gives the vectors of words and sentences, in any number: texts are batched by length and budget, each distinct word
    goes through the character encoder once, and what comes out is the same as one sentence at a time, to 1e-5.

    Args:
        model ([`ElmoModel`]): It is set to evaluation mode, and keeps the vectors of words from here on
            ([`~ElmoModel.cache_words`]).
        tokenizer ([`ElmoTokenizer`])

    Example:

    ```python
    >>> from elmo_hf import ElmoEmbedder

    >>> embedder = ElmoEmbedder.from_pretrained()
    >>> [vectors.shape for vectors in embedder.embed(["The bank was closed.", ["He", "rowed", "on"], ""])]
    [(5, 512), (3, 512), (0, 512)]
    >>> embedder.embed(["The bank was closed.", "He rowed on."], pooling="mean").shape
    (2, 512)
    ```"""

    def __init__(self, model: ElmoModel, tokenizer: ElmoTokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        if model.token_encoder.word_cache is None:
            model.cache_words()

    @classmethod
    def from_pretrained(
        cls,
        model: str | os.PathLike | None = None,
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        **kwargs: Any,
    ) -> "ElmoEmbedder":
        """
        Args:
            model: A folder or a name on the Hub, of an encoder or of any head. Default: the model that comes with this
                package.
            device: Default: the CPU.
            dtype: Default: as it was saved.
            kwargs: Further options of [`ElmoModel.from_pretrained`], as `quantization_config` or `revision`.
        """
        name = default_model() if model is None else find_model(os.fspath(model))
        where = {option: value for option, value in kwargs.items() if option in WHERE}
        if dtype is not None:
            kwargs["dtype"] = dtype
        try:
            loaded = ElmoModel.from_pretrained(name, **kwargs)
            tokenizer = ElmoTokenizer.from_pretrained(name, **where)
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{name} cannot be loaded: {in_one_line(error)}") from error
        return cls(loaded if device is None else loaded.to(device), tokenizer)

    @property
    def hidden_size(self) -> int:
        """Numbers in a vector."""
        return self.model.config.hidden_size

    @property
    def num_layers(self) -> int:
        """Layers of the model, the token layer included."""
        return self.model.config.num_hidden_layers + 1

    def embed(
        self,
        sentences: Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        boundaries: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = None,
        return_tensors: str = "np",
    ) -> list[Array] | Array:
        """
        The vectors of all words, or of all sentences.

        Args:
            sentences: Texts, or lists of words, or both.
            layers: `"mix"` (of all layers, as the model weighs them), `"top"`, `"average"` or a number, 0 being the
                token layer, for one vector a word; `"all"` or a list of numbers for one of each layer.
            pooling: `"mean"` or `"max"` over the words of a sentence. Default: none.
            boundaries: Whether the vectors of `<S>` and `</S>` are there too.
            batch_tokens: The most that go through the model together. It bounds memory, and changes no vector.
            progress: `True` for a bar, or what is called with the numbers of sentences and tokens done so far.
            return_tensors: `"np"` for float32 arrays, `"pt"` for tensors as the model gives them.

        Returns:
            Without pooling a list of `(words, hidden_size)` or `(layers, words, hidden_size)`, one a sentence, with no
            words for an empty one. With pooling `(sentences, hidden_size)` or `(sentences, layers, hidden_size)`, zeros
            for an empty one.
        """
        vectors = self.embed_iter(sentences, layers, pooling, boundaries, batch_tokens, progress, return_tensors)
        if pooling is None:
            return list(vectors)
        shape = *LayerChoice(layers, self.model).lead, self.hidden_size
        if return_tensors == "np":
            return np.stack([np.zeros((0, *shape), np.float32)[:0].sum(axis=0), *vectors])[1:]
        return torch.stack([torch.zeros(shape, dtype=self.model.dtype, device=self.model.device), *vectors])[1:]

    def embed_iter(
        self,
        sentences: Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        boundaries: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = None,
        return_tensors: str = "np",
    ) -> Iterator[Array]:
        """
        As [`~ElmoEmbedder.embed`], one sentence after the other, for input of any size: it is read a window at a time
        (8 batches), and memory does not grow.
        """
        choice = LayerChoice(layers, self.model)
        check_pooling(pooling)
        sources = encoded(checked(sentences), self.tokenizer)
        for window in windows(sources, WINDOW * batch_tokens):
            found: list[Any] = [None] * len(window)
            for places in batches(window, batch_tokens):
                for place, vectors in zip(places, self._run([window[p] for p in places], choice), strict=True):
                    inner = vectors if boundaries else vectors[..., 1:-1, :]
                    pooled = pool(inner, pooling)
                    found[place] = pooled.float().cpu().numpy().copy() if return_tensors == "np" else pooled.clone()
            for place in range(len(found)):
                yield found[place]
                found[place] = None

    @torch.no_grad()
    def _run(self, sentences: Sequence[TokenSource], choice: LayerChoice) -> Sequence[torch.Tensor]:
        lengths = [len(sentence) for sentence in sentences]
        parts = [sentence.tokens(0, len(sentence)) for sentence in sentences]
        ids, rows = (torch.from_numpy(np.concatenate(column)).unsqueeze(0) for column in zip(*parts, strict=True))
        # One row without padding: the recurrence starts anew where the number changes.
        numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)).unsqueeze(0)
        device = self.model.device
        output = self.model(
            ids.to(device), rows.to(device), token_type_ids=numbers.to(device), output_hidden_states=choice.needs_all
        )
        return choice(output, lengths).split(lengths, dim=-2)


__all__ = ["ElmoEmbedder"]
