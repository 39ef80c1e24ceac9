"""Text in, contextual vectors out."""

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

import numpy as np
import torch

from ..data.batches import BATCH_TOKENS
from ..data.occurrences import Occurrence, TokenizedSentence, occurrences, tokenized, wanted_words
from ..data.sentences import Sentence, checked
from ..errors import ModelError, counted
from ..index.index import ElmoIndex, Neighbour
from ..index.neighbors import neighbors
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.default_model import default_model, find_model
from ..runtime.model_loading import loading_errors
from ..runtime.progress import Progress, ProgressReport
from ..runtime.staging import staged_folder
from .layers import Layers
from .request import EmbeddingRequest
from .sentence_files import write_sentence_files

# Options of `from_pretrained` that say where files are: for the model and for the tokenizer.
WHERE = {"cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token"}


class ElmoEmbedder:
    """
    Gives the vectors of words and sentences, in any number. Texts are batched by length and budget, and each distinct
    word goes through the character encoder once; what comes out is the same as one sentence at a time, to 1e-5.

    Args:
        model ([`ElmoModel`]): It is set to evaluation mode, and keeps the vectors of words over calls
            ([`~ElmoModel.cache_words`]) from here on.
        tokenizer ([`ElmoTokenizer`]): The model's.

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
            model: A folder or a name on the Hub, of an encoder or of what has one: a language model, a tagger, a
                classifier. Default: the model that comes with this package.
            device: Default: the CPU.
            dtype: Default: as it was saved.
            kwargs: Further options of [`ElmoModel.from_pretrained`], as `quantization_config` or `revision`.
        """
        name = default_model() if model is None else find_model(os.fspath(model))
        where = {option: value for option, value in kwargs.items() if option in WHERE}
        if dtype is not None:
            kwargs["dtype"] = dtype
        with loading_errors(name):
            found = ElmoModel.from_pretrained(name, output_loading_info=True, **kwargs)
            tokenizer = ElmoTokenizer.from_pretrained(name, **where)
        loaded, loading = cast(tuple[ElmoModel, dict[str, Any]], found)
        if missing := sorted(loading["missing_keys"]):
            raise ModelError(
                f"{name} holds no ELMo, or a part of one: it lacks {counted(len(missing), 'weight')}, such as "
                f"{missing[0]}."
            )
        return cls(loaded if device is None else loaded.to(device), tokenizer)

    def save_pretrained(self, folder: str | os.PathLike, pooling: str = "mean"):
        """
        Saves the model and its tokenizer, for `from_pretrained` of this class and of the Auto classes, and for
        `sentence_transformers.SentenceTransformer(folder)`, whose vectors are then those of `embed(pooling=...)`.

        Args:
            folder: It must not exist yet, or be empty.
            pooling: `"mean"` or `"max"`.
        """
        with staged_folder(folder) as stage:
            self.model.save_pretrained(stage)
            self.tokenizer.save_pretrained(stage)
            write_sentence_files(stage, pooling)

    @property
    def hidden_size(self) -> int:
        """Numbers in a vector."""
        return self.model.config.hidden_size

    @property
    def num_layers(self) -> int:
        """Layers of the model, the token layer included."""
        return self.model.config.num_hidden_layers + 1

    # ---- vectors

    def embed(
        self,
        sentences: Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        boundaries: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = None,
        return_tensors: str = "np",
    ) -> Any:
        """
        The vectors of all words, or of all sentences.

        Args:
            sentences: Texts, or lists of words, or both. In a list of strings each one is a text.
            layers: `"mix"` (of all layers, as the model weighs them), `"top"`, `"average"` or a number, 0 being the
                token layer, for one vector a word; `"all"` or a list of numbers for one of each layer.
            pooling: `"mean"` or `"max"` over the words of a sentence. Default: none.
            boundaries: Whether the vectors of `<S>` and `</S>` are among them.
            batch_tokens: The most that go through the model together. It bounds memory, and changes no vector.
            progress: `True` for a bar, or what is called with the numbers of sentences and tokens done so far.
            return_tensors: `"np"` for float32 arrays, `"pt"` for tensors as the model gives them.

        Returns:
            Without pooling a list of `(words, hidden_size)` or `(layers, words, hidden_size)`, one a sentence, with no
            words for an empty one. With pooling `(sentences, hidden_size)` or `(sentences, layers, hidden_size)`, zeros
            for an empty one.
        """
        request = self._request(layers, pooling, boundaries, batch_tokens, return_tensors)
        return request.together(request.vectors(checked(sentences), ProgressReport(progress, sentences)))

    def embed_iter(
        self,
        sentences: Iterable[Sentence],
        layers: Layers = "mix",
        pooling: str | None = None,
        boundaries: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress = None,
        return_tensors: str = "np",
    ) -> Iterator[Any]:
        """
        As [`~ElmoEmbedder.embed`], one sentence after the other, for input of any size: it is read as the results are
        asked for, 4 batches and 64 sentences ahead at most, and memory does not grow.
        """
        request = self._request(layers, pooling, boundaries, batch_tokens, return_tensors)
        return request.vectors(checked(sentences), ProgressReport(progress, sentences))

    def embed_document_iter(
        self,
        document: Sentence,
        layers: Layers = "mix",
        boundaries: bool = False,
        piece_tokens: int = BATCH_TOKENS,
        return_tensors: str = "np",
    ) -> Iterator[Any]:
        """
        The vectors of one text or list of words whose vectors do not fit into memory, in order, a piece at a time; the
        same as those of the whole. (What fits, `embed` takes as any sentence.)

        The text is read twice, first backward and then in both directions. A list of words is tokenised piece by piece,
        a text as a whole.

        ```python
        >>> vectors = np.lib.format.open_memmap("book.npy", "w+", np.float32, (len(words), embedder.hidden_size))
        >>> start = 0
        >>> for piece in embedder.embed_document_iter(words):
        ...     vectors[start : start + len(piece)] = piece
        ...     start += len(piece)
        ```

        Args:
            document: A text, or a list of words.
            layers, boundaries, return_tensors: As in [`~ElmoEmbedder.embed`].
            piece_tokens: The most that go through the model together.

        Yields:
            `(words, hidden_size)` or `(layers, words, hidden_size)`
        """
        request = self._request(layers, None, boundaries, piece_tokens, return_tensors)
        return request.pieces(next(checked([document])))

    # ---- words

    def tokenize(self, sentences: Iterable[Sentence]) -> Iterator[TokenizedSentence]:
        """The words of each sentence and where they stand in it, one for each of its vectors; in order, lazily."""
        return tokenized(checked(sentences), self.tokenizer)

    def words(self, texts: Iterable[Sentence], word: str | Collection[str], layers: Layers = "mix") -> list[Occurrence]:
        """
        Every occurrence of a word with its vector, its sentence and its place in it.

        Args:
            texts: Sentences, as in [`~ElmoEmbedder.embed`]. Only those that have the word go through the model.
            word: One, or several, as `["bank", "Bank", "banks"]`: exactly as they are written.
            layers: As in [`~ElmoEmbedder.embed`].
        """
        return list(self.words_iter(texts, word, layers))

    def words_iter(
        self, texts: Iterable[Sentence], word: str | Collection[str], layers: Layers = "mix"
    ) -> Iterator[Occurrence]:
        """As [`~ElmoEmbedder.words`], one after the other, for texts of any size."""
        return occurrences(checked(texts), wanted_words(word), self.tokenizer, self._request(layers).vectors)

    def neighbors(
        self,
        query: str | Occurrence | np.ndarray,
        index: ElmoIndex,
        k: int = 10,
        *,
        same_word: bool = False,
        distinct: bool = False,
        exact: bool | None = None,
    ) -> list[Neighbour]:
        """
        The words of a corpus that are most like a word in its sentence, by the cosines of their vectors.

        ```python
        >>> index = ElmoIndex.build(embedder, sentences, "my-index")
        >>> for similarity, occurrence in embedder.neighbors("They sat on the **bank** of the river.", index, k=3):
        ...     print(f"{similarity:.2f}", occurrence.word, occurrence.sentence)
        ```

        Args:
            query: A sentence with one word between `**` and `**`; an occurrence, as [`~ElmoEmbedder.words`] gives them;
                or a vector `(hidden_size,)`. The last two must be of the index's layers.
            index: One of this model's vectors; that of another one is refused.
            k: How many; fewer where there are not so many.
            same_word: Whether only occurrences of the same word are wanted, whatever its case.
            distinct: Whether of each word only the nearest occurrence is wanted.
            exact: Whether to compare with all vectors, even where the index has a graph for approximate search.

        Returns:
            The nearest first.
        """
        return neighbors(self, query, index, k, same_word=same_word, distinct=distinct, exact=exact)

    def _request(self, *options: Any) -> EmbeddingRequest:
        return EmbeddingRequest(self.model, self.tokenizer, *options)


__all__ = ["ElmoEmbedder"]
