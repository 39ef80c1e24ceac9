"""[`ElmoEmbedder`]: contextual vectors of words, sentences and documents."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
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
from ..runtime.model_loading import loading_errors
from ..runtime.named_models import LOCATION_OPTIONS, locate_model
from ..runtime.progress import Progress, ProgressReport
from ..runtime.staging import staged_folder
from .layers import Layers, check_pooling
from .request import EmbeddingRequest
from .sentence_files import write_sentence_files
from .sentence_fitting import fit_sentence_pooling


class ElmoEmbedder:
    """
    Computes the vectors of words and sentences. Texts are batched by length within a budget of tokens, and each
    distinct word goes through the character encoder once. The vectors equal those of one sentence at a time to 1e-5.

    Args:
        model ([`ElmoModel`]): The model. It is set to evaluation mode, and caches the vectors of words across calls
            ([`~ElmoModel.cache_words`]).
        tokenizer ([`ElmoTokenizer`]): The model's tokenizer.

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
        Loads an embedder.

        Args:
            model: A folder or a name on the Hub. It holds an encoder, or a model that contains one: a language model, a
                tagger or a classifier. Default: the model that comes with this package.
            device: The device of the model. Default: the CPU.
            dtype: The dtype of the weights. Default: the dtype that they were saved in.
            kwargs: Further options of [`ElmoModel.from_pretrained`], such as `quantization_config` or `revision`.
        """
        name, offline = locate_model(model, **kwargs)
        kwargs |= offline
        where = {option: value for option, value in kwargs.items() if option in LOCATION_OPTIONS}
        if dtype is not None:
            kwargs["dtype"] = dtype
        with loading_errors(name):
            result = ElmoModel.from_pretrained(name, output_loading_info=True, **kwargs)
            tokenizer = ElmoTokenizer.from_pretrained(name, **where)
        loaded, loading = cast(tuple[ElmoModel, dict[str, Any]], result)
        if missing := sorted(loading["missing_keys"]):
            raise ModelError(
                f"{name} holds no ELMo, or a part of one: it lacks {counted(len(missing), 'weight')}, such as "
                f"{missing[0]}."
            )
        return cls(loaded if device is None else loaded.to(device), tokenizer)

    def save_pretrained(self, folder: str | os.PathLike, pooling: str | None = None):
        """
        Saves the model and its tokenizer for `from_pretrained` of this class and of the Auto classes. The folder also
        loads in `sentence_transformers.SentenceTransformer(folder)`, which gives the vectors of `embed(pooling=...)`.

        Args:
            folder: The folder to write. It must not exist yet, or be empty.
            pooling: The pooling in sentence-transformers, `"mean"`, `"max"` or `"sentence"`. Default: `"sentence"` if
                the model has it, otherwise `"mean"`.
        """
        if pooling is None:
            pooling = "mean" if self.model.sentence_pooling is None else "sentence"
        check_pooling(pooling, "mix", False, self.model)
        with staged_folder(folder) as stage:
            self.model.save_pretrained(stage)
            self.tokenizer.save_pretrained(stage)
            write_sentence_files(stage, pooling)

    @property
    def hidden_size(self) -> int:
        """The size of a vector."""
        return self.model.config.hidden_size

    @property
    def num_layers(self) -> int:
        """The number of layers of the model, including the token layer."""
        return self.model.config.num_hidden_layers + 1

    def fit_sentence_pooling(
        self,
        sentences: Sequence[Sentence],
        layers: Sequence[int] = (0,),
        size: int | None = None,
        progress: Progress = None,
    ):
        """
        Estimates the pooling `"sentence"` from text, which needs no labels: word frequencies, the mean of the sentence
        vectors and a whitening ([`ElmoSentencePooling`]). It is a part of the model from then on, and is saved with it.

        ```python
        >>> embedder.fit_sentence_pooling(sentences)  # some 10,000 of the text that the model is for
        >>> embedder.embed(["The bank was closed.", "He rowed on."], pooling="sentence").shape
        (2, 256)
        >>> embedder.save_pretrained("my-elmo", pooling="sentence")
        ```

        Args:
            sentences: Texts or lists of words: at least 5 per dimension.
            layers: The layers whose vectors are concatenated. Default: the token layer, which was the best one in
                measurements of sentence similarity (docs/embedding.md).
            size: The maximum size of a sentence vector. Default: all directions in which the vectors differ. (The
                token layer has each vector twice, once per direction of reading, so these are half of `hidden_size`.)
            progress: As in [`~ElmoEmbedder.embed`].
        """
        fit_sentence_pooling(self.model, self.tokenizer, sentences, layers, size, progress)

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
        Computes the vectors of all words, or of all sentences.

        Args:
            sentences: Texts, lists of words, or both. In a list of strings, each string is a text.
            layers: `"mix"` (the model's weighted sum of all layers), `"top"`, `"average"` or the index of a layer (0 is
                the token layer) for one vector per word; `"all"` or a list of indices for one vector per word and
                layer.
            pooling: `"mean"` or `"max"` over the words of a sentence, or `"sentence"` for vectors whose cosine is a
                measure of similarity, of models that have it ([`~ElmoEmbedder.fit_sentence_pooling`]). Default: no
                pooling.
            boundaries: Whether to include the vectors of `<S>` and `</S>`.
            batch_tokens: The maximum number of tokens per batch. It bounds memory and does not change the vectors.
            progress: `True` for a progress bar, or a function that is called with the numbers of sentences and tokens
                done so far.
            return_tensors: `"np"` for float32 arrays, `"pt"` for tensors on the model's device and in its dtype.

        Returns:
            Without pooling, a list with one array per sentence, `(words, hidden_size)` or `(layers, words,
            hidden_size)`; an empty sentence has 0 words. With pooling, one array `(sentences, hidden_size)` or
            `(sentences, layers, hidden_size)`, with the pooling `"sentence"` `(sentences, sentence_size)`; an empty
            sentence has zeros.
        """
        request = self._request(layers, pooling, boundaries, batch_tokens, return_tensors)
        return request.collect(request.vectors(checked(sentences), ProgressReport(progress, sentences)))

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
        As [`~ElmoEmbedder.embed`], but yields the result of one sentence at a time, for input of any size. The input is
        read lazily, at most 4 batches and 64 sentences ahead, so memory does not grow.
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
        Yields the vectors of one document in order, one piece at a time. Use it for a document whose vectors do not fit
        into memory; `embed` handles any other as a sentence. The vectors are the same as those of the whole document.

        The document is read twice, first backward and then in both directions. A list of words is tokenised piece by
        piece, a text as a whole.

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
            piece_tokens: The maximum number of tokens per piece.

        Yields:
            `(words, hidden_size)` or `(layers, words, hidden_size)`
        """
        request = self._request(layers, None, boundaries, piece_tokens, return_tensors)
        return request.pieces(next(checked([document])))

    # ---- words

    def tokenize(self, sentences: Iterable[Sentence]) -> Iterator[TokenizedSentence]:
        """Yields each sentence with its words and their offsets, in order and lazily: one word per vector."""
        return tokenized(checked(sentences), self.tokenizer)

    def words(self, texts: Iterable[Sentence], word: str | Collection[str], layers: Layers = "mix") -> list[Occurrence]:
        """
        Finds every occurrence of a word, with its vector, its sentence and its position.

        Args:
            texts: Sentences, as in [`~ElmoEmbedder.embed`]. Only sentences that contain the word go through the model.
            word: One word or several, such as `["bank", "Bank", "banks"]`. The match is exact and case-sensitive.
            layers: As in [`~ElmoEmbedder.embed`].
        """
        return list(self.words_iter(texts, word, layers))

    def words_iter(
        self, texts: Iterable[Sentence], word: str | Collection[str], layers: Layers = "mix"
    ) -> Iterator[Occurrence]:
        """As [`~ElmoEmbedder.words`], but yields one occurrence at a time, for texts of any size."""
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
        Finds the words of a corpus that are most similar to a word in its sentence, by the cosine of their vectors.

        ```python
        >>> index = ElmoIndex.build(embedder, sentences, "my-index")
        >>> for similarity, occurrence in embedder.neighbors("They sat on the **bank** of the river.", index, k=3):
        ...     print(f"{similarity:.2f}", occurrence.word, occurrence.sentence)
        ```

        Args:
            query: A sentence with one word between `**` and `**`; an occurrence, as [`~ElmoEmbedder.words`] returns it;
                or a vector `(hidden_size,)`. The last two must come from the layers of the index.
            index: An index built with this model. An index of another model is refused.
            k: The maximum number of neighbours.
            same_word: Whether to return only occurrences of the same word. Case is ignored.
            distinct: Whether to return only the nearest occurrence of each word.
            exact: Whether to compare with all vectors, even if the index has a graph for approximate search.

        Returns:
            The neighbours, the nearest first.
        """
        return neighbors(self, query, index, k, same_word=same_word, distinct=distinct, exact=exact)

    def _request(self, *options: Any) -> EmbeddingRequest:
        return EmbeddingRequest(self.model, self.tokenizer, *options)


__all__ = ["ElmoEmbedder"]
