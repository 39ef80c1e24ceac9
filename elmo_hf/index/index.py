"""[`ElmoIndex`]: an index of the words of a corpus, searched by vector."""

import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.occurrences import Occurrence, TokenizedSentence
from ..data.sentences import Sentence, checked
from ..errors import FolderError, ModelError, TextError
from ..runtime.default_model import MODELS, default_model
from ..runtime.extras import require
from ..runtime.progress import Progress
from ..runtime.staging import staged_folder
from .approximate import GRAPH, Graph, build_graph, can_approximate
from .index_files import IndexFiles, IndexWriter, word_key
from .nearest import nearest

if TYPE_CHECKING:
    from ..embedding.embedder import ElmoEmbedder

FORMAT = 1
INFO, FINGERPRINT = "index.json", "fingerprint.npy"
DTYPES = ("float16", "float32")
GRAPH_THRESHOLD = 1_000_000  # with more vectors, a graph is built by default

# The vectors of this sentence identify a model, its tokenizer and its layers. They are nearly the same in bf16 and
# int8, where the cosine of a word in a layer is above 0.999.
PROBE = "The bank's river-side garden (opened in 1987) wasn't quiet, naïve 春 said: go!"
ALIKE = 0.99


class Neighbour(NamedTuple):
    """
    A word of the corpus that is similar to the query.

    Attributes:
        similarity (`float`): The cosine of their vectors.
        occurrence (`Occurrence`): The word, its sentence and its position. The vector has length one.
    """

    similarity: float
    occurrence: Occurrence


class ElmoIndex:
    """
    An index of word occurrences by their vectors. Its files are mapped into memory and read on demand.

    [`~ElmoIndex.build`] creates an index, and [`~ElmoIndex.load`] opens one. `len()` is the number of occurrences.

    Attributes:
        folder (`Path`): The folder of the index.
        model (`str`): The model that computed the vectors: a folder or a name; empty for a model that was never saved.
        layers (`str` or `int`): The layers of the vectors.
        sentences (`int`): The number of sentences with words in the index.
    """

    def __init__(self, folder: Path, info: dict[str, Any]):
        self.folder = folder
        self.model: str = info["model"]
        self.layers: str | int = info["layers"]
        self.sentences: int = info["sentences"]
        self._files = IndexFiles(folder, info["occurrences"], self.sentences, info["size"], np.dtype(info["dtype"]))
        self._fingerprint = np.load(folder / FINGERPRINT, allow_pickle=False)
        has_graph = (folder / GRAPH).exists()
        # Without usearch the search is exact, which is slower and never worse.
        self._graph = Graph(folder / GRAPH, self._files.vectors) if has_graph and can_approximate() else None

    # ---- making and opening

    @classmethod
    def build(
        cls,
        embedder: "ElmoEmbedder",
        texts: Iterable[Sentence],
        out: str | os.PathLike,
        *,
        layers: str | int = "mix",
        words: Collection[str] | None = None,
        dtype: str = "float16",
        approximate: bool | None = None,
        progress: Progress = None,
    ) -> "ElmoIndex":
        """
        Builds the index of a corpus of any size. Vectors are written as they are computed; the folder appears when it
        is complete.

        Args:
            embedder ([`ElmoEmbedder`]): Computes the vectors.
            texts: Sentences, as strings or as lists of words. They are read once, lazily.
            out: The folder to create. It must not exist yet, or be empty.
            layers: `"mix"`, `"top"`, `"average"` or the index of a layer.
            words: Index only these words; case is ignored. Sentences without any of them are not embedded. Default: all
                words.
            dtype: The dtype of the stored vectors, `"float16"` or `"float32"`.
            approximate: Whether to build a graph for approximate search (`pip install "elmo-hf[index]"`), which pays
                off with millions of vectors. Default: with more than a million vectors, if usearch is installed.
            progress: As in [`~ElmoEmbedder.embed`].
        """
        if dtype not in DTYPES:
            raise ValueError(f"`dtype` must be {' or '.join(DTYPES)}, found {dtype!r:.60}.")
        if isinstance(words, str) or (words is not None and not words):
            raise ValueError(f"`words` must be a list of words, found {words!r:.60}.")
        if approximate:
            require("approximate index")
        fingerprint = _probe(embedder, layers)
        with staged_folder(out) as stage:
            writer = IndexWriter(stage, embedder.hidden_size, np.dtype(dtype))
            try:
                for index, sentence, positions, vectors in _embedded(embedder, texts, layers, words, progress):
                    places = [(position, *sentence.offsets[position]) for position in positions]
                    writer.add(sentence.text, index, places, _unit(vectors[positions]))
            finally:
                writer.close()
            if not writer.occurrences:
                what = "no word at all" if words is None else f"none of the words {', '.join(words)}"
                raise TextError(f"The text has {what}: there is nothing to index.")
            info = {
                "format": FORMAT,
                "model": _name(embedder),
                "layers": layers,
                "words": None if words is None else sorted(words),
                "occurrences": writer.occurrences,
                "sentences": writer.sentences,
                "size": embedder.hidden_size,
                "dtype": dtype,
            }
            np.save(stage / FINGERPRINT, fingerprint)
            (stage / INFO).write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
            if approximate or (approximate is None and writer.occurrences > GRAPH_THRESHOLD and can_approximate()):
                build_graph(cls(stage, info)._files.vectors, stage / GRAPH, bool(progress))
        return cls.load(out)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> "ElmoIndex":
        """Opens an index. Damaged files raise an error."""
        folder = Path(folder)
        try:
            info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        except OSError as error:
            raise FolderError(f"{folder} is not an index: `elmo-hf index TEXT --out DIR` makes one.") from error
        except ValueError as error:
            raise FolderError(f"{folder / INFO} is damaged: build the index again ({error}).") from error
        if not isinstance(info, dict) or info.get("format") != FORMAT:
            raise FolderError(f"{folder / INFO} is not of an index that this version can read: build it again.")
        try:
            return cls(folder, info)
        except FolderError:
            raise
        except Exception as error:  # NumPy parses headers as Python: SyntaxError, TokenError, MemoryError ...
            raise FolderError(f"{folder} is damaged: build the index again ({error!r:.200}).") from error

    def __len__(self) -> int:
        return len(self._files.vectors)

    def __getitem__(self, row: int) -> Occurrence:
        """The occurrence in a row. Rows are in the order of the corpus."""
        place = self._files.place(row)
        vector = self._files.vectors[row].astype(np.float32)
        word = place.sentence[place.start : place.end]
        return Occurrence(word, vector, place.sentence, place.start, place.end, place.sentence_index, place.position)

    # ---- searching

    def search(
        self,
        vector: np.ndarray,
        k: int = 10,
        *,
        word: str | None = None,
        distinct: bool = False,
        exact: bool | None = None,
    ) -> list[Neighbour]:
        """
        Finds the occurrences whose vectors have the largest cosines to a vector, the nearest first.

        Args:
            vector: `(hidden_size,)`, from the model and the layers of this index.
            k: The maximum number of neighbours.
            word: If given, only occurrences of this word are searched. Case is ignored.
            distinct: Whether to return only the nearest occurrence of each word.
            exact: Whether to compare with all vectors. Default: only if the index has no graph.
        """
        if type(k) is not int or k < 1:
            raise ValueError(f"`k` must be a number of neighbours, 1 or more, found {k!r:.60}.")
        query, keys = self._checked(vector), self._files.keys
        if exact or self._graph is None or word is not None:
            key = None if word is None else word_key(word)
            matches = nearest(self._files.vectors, query, k, keys, key, distinct)
        else:
            matches = self._graph.nearest(query, k, keys if distinct else None)
        return [Neighbour(float(cosine), self[int(row)]) for row, cosine in zip(*matches, strict=True)]

    def check_model(self, embedder: "ElmoEmbedder"):
        """Raises an error if the model's vectors cannot be compared with those of the index."""
        if embedder.hidden_size == self._files.vectors.shape[1]:
            try:
                probe = _probe(embedder, self.layers)
            except ValueError:  # the model has fewer layers
                probe = np.empty(0)
            if probe.shape == self._fingerprint.shape and (probe * self._fingerprint).sum(axis=-1).min() > ALIKE:
                return
        raise ModelError(
            f"{self.folder} was built with another model ({self.model or 'without a name'}, layers "
            f"{self.layers!r}): use that one, or build the index again with this one."
        )

    def _checked(self, vector: np.ndarray) -> np.ndarray:
        size = self._files.vectors.shape[1]
        vector = np.asarray(vector, dtype=np.float32)
        if vector.shape != (size,):
            raise ValueError(f"The index has vectors of shape ({size},), one layer of its model; found {vector.shape}.")
        if not np.isfinite(vector).all() or not vector.any():
            raise ValueError("A vector to search for must be finite, and not zero.")
        return _unit(vector)


def _embedded(
    embedder: "ElmoEmbedder",
    texts: Iterable[Sentence],
    layers: str | int,
    words: Collection[str] | None,
    progress: Progress,
) -> Iterator[tuple[int, TokenizedSentence, list[int], np.ndarray]]:
    """
    Embeds the sentences that contain words to index.

    Yields:
        The index of the sentence, the sentence, the positions of the words to index, and the vectors of all words.
    """
    keys = None if words is None else {word_key(word) for word in words}
    folded = [word.casefold() for word in words or ()]
    indices: deque[int] = deque()  # of sentences that may contain one
    waiting: deque[tuple[int, TokenizedSentence, list[int]]] = deque()  # sentences that do, until they are embedded

    def possible() -> Iterator[Sentence]:
        for index, sentence in enumerate(checked(texts)):
            if words is None or _may_have(sentence, folded):
                indices.append(index)
                yield sentence

    def matching() -> Iterator[list[str]]:
        for sentence in embedder.tokenize(possible()):
            index = indices.popleft()
            positions = [place for place, word in enumerate(sentence.words) if keys is None or word_key(word) in keys]
            if positions:
                waiting.append((index, sentence, positions))
                yield sentence.words

    for vectors in embedder.embed_iter(matching(), layers, progress=progress):
        yield *waiting.popleft(), vectors


def _may_have(sentence: Sentence, words: Collection[str]) -> bool:
    """Whether a sentence may contain one of the words, casefolded: a cheap test before the sentence is tokenised."""
    text = (sentence if isinstance(sentence, str) else " ".join(sentence)).casefold()
    return any(word in text for word in words)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scales vectors `(…, size)` to length one."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ModelError("The model gives vectors that are not finite: nothing can be found by them.")
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def _probe(embedder: "ElmoEmbedder", layers: str | int) -> np.ndarray:
    """The vectors of `PROBE`, `(words, hidden_size)`, which identify a model and its layers."""
    (vectors,) = embedder.embed([PROBE], layers)
    if vectors.ndim != 2:
        raise ValueError(f"An index has one vector per word: choose mix, top, average or one layer, found {layers!r}.")
    return _unit(vectors)


def _name(embedder: "ElmoEmbedder") -> str:
    """The name or folder from which the model can be loaded again."""
    name = embedder.model.name_or_path
    if name and os.path.exists(name):
        of_package = (model for language, model in MODELS.items() if os.path.samefile(name, default_model(language)))
        return next(of_package, os.path.abspath(name))
    return name


__all__ = ["ElmoIndex", "Neighbour"]
