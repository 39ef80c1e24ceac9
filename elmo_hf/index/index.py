"""An index of a corpus: every occurrence of its words, to be found by their vectors."""

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
from ..runtime.default_model import NAME, default_model
from ..runtime.extras import require
from ..runtime.progress import Progress
from ..runtime.staging import refuse_used, staged_folder
from .approximate import GRAPH, Graph, build_graph, can_approximate
from .index_files import IndexFiles, IndexWriter, word_key
from .nearest import nearest

if TYPE_CHECKING:
    from ..embedding.embedder import ElmoEmbedder

FORMAT = 1
INFO, FINGERPRINT = "index.json", "fingerprint.npy"
DTYPES = ("float16", "float32")
MANY = 1_000_000  # vectors from which on the graph is built unless the user says otherwise

# The vectors of its words tell a model, its tokenizer and its layers from others, and are nearly the same in bf16 and
# int8, where the cosine of a word in a layer is above 0.999.
PROBE = "The bank's river-side garden (opened in 1987) wasn't quiet, naïve 春 said: go!"
ALIKE = 0.99


class Neighbour(NamedTuple):
    """
    A word of the corpus that is like another one.

    Attributes:
        similarity (`float`): The cosine of their vectors.
        occurrence (`Occurrence`): The word, its sentence and its place there; its vector has length one.
    """

    similarity: float
    occurrence: Occurrence


class ElmoIndex:
    """
    Occurrences of words by their vectors, in a folder. It is mapped into memory: what is not asked for is not read.

    Made by [`~ElmoIndex.build`] and opened by [`~ElmoIndex.load`].

    Attributes:
        folder (`Path`)
        model (`str`): The model that gave the vectors: a folder, a name, or nothing for one that was never saved.
        layers (`str` or `int`): Those of the vectors.
        sentences (`int`): How many have words in the index; `len()` is the number of occurrences.
    """

    def __init__(self, folder: Path, info: dict[str, Any]):
        self.folder = folder
        self.model: str = info["model"]
        self.layers: str | int = info["layers"]
        self.sentences: int = info["sentences"]
        self._files = IndexFiles(folder, info["occurrences"], self.sentences, info["size"], np.dtype(info["dtype"]))
        self._fingerprint = np.load(folder / FINGERPRINT, allow_pickle=False)
        has_graph = (folder / GRAPH).exists()
        # Without the library the search is exact, which is slower and never worse.
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
        Embeds a corpus of any size, writing as it goes; the folder is there when all of it is done.

        Args:
            embedder ([`ElmoEmbedder`])
            texts: Sentences, as strings or as lists of words; read once, as they are needed.
            out: The folder to make, new or empty.
            layers: `"mix"`, `"top"`, `"average"` or a layer's number.
            words: Index only these, whatever their case; sentences that have none of them are not embedded. Default:
                all words.
            dtype: Of the vectors in the folder, `"float16"` or `"float32"`.
            approximate: Whether to build a graph for approximate search (`pip install "elmo-hf[index]"`), which pays
                when there are millions of vectors. Default: from a million on, where usearch is installed.
            progress: As in [`~ElmoEmbedder.embed`].
        """
        if dtype not in DTYPES:
            raise ValueError(f"`dtype` must be {' or '.join(DTYPES)}, found {dtype!r:.60}.")
        if isinstance(words, str) or (words is not None and not words):
            raise ValueError(f"`words` must be a list of words, found {words!r:.60}.")
        if approximate:
            require("approximate index")
        fingerprint = _probe(embedder, layers)
        refuse_used(Path(out))  # before the work
        with staged_folder(out) as stage:
            writer = IndexWriter(stage, embedder.hidden_size, np.dtype(dtype))
            try:
                for number, found, positions, vectors in _embedded(embedder, texts, layers, words, progress):
                    places = [(position, *found.offsets[position]) for position in positions]
                    writer.add(found.text, number, places, _unit(vectors[positions]))
            finally:
                writer.close()
            if not writer.occurrences:
                wanted = "no word at all" if words is None else f"none of the words {', '.join(words)}"
                raise TextError(f"The text has {wanted}: there is nothing to index.")
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
            if approximate or (approximate is None and writer.occurrences > MANY and can_approximate()):
                build_graph(cls(stage, info)._files.vectors, stage / GRAPH, bool(progress))
        return cls.load(out)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> "ElmoIndex":
        """Opens an index; files that are damaged are refused."""
        folder = Path(folder)
        try:
            info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        except OSError as error:
            raise FolderError(f"{folder} is no index: `elmo-hf index TEXT --out DIR` makes one.") from error
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
        """The occurrence in a row, the first being the first of the corpus."""
        place = self._files.place(row)
        vector = self._files.vectors[row].astype(np.float32)
        word = place.sentence[place.start : place.end]
        return Occurrence(word, vector, place.sentence, place.start, place.end, place.number, place.position)

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
        The occurrences whose vectors have the largest cosines to another one, the nearest first.

        Args:
            vector: `(hidden_size,)`, of the model and the layers of this index.
            k: How many; fewer where there are not so many.
            word: Only occurrences of this word, whatever its case.
            distinct: Whether of each word only the nearest occurrence is wanted.
            exact: Whether to compare with all vectors, even where there is a graph. Default: where there is none.
        """
        if type(k) is not int or k < 1:
            raise ValueError(f"`k` must be a number of neighbours, 1 or more, found {k!r:.60}.")
        query, keys = self._checked(vector), self._files.keys
        if exact or self._graph is None or word is not None:
            key = None if word is None else word_key(word)
            found = nearest(self._files.vectors, query, k, keys, key, distinct)
        else:
            found = self._graph.nearest(query, k, keys if distinct else None)
        return [Neighbour(float(cosine), self[int(row)]) for row, cosine in zip(found.rows, found.cosines, strict=True)]

    def check_model(self, embedder: "ElmoEmbedder"):
        """Refuses a model whose vectors cannot be compared with those of the index."""
        if embedder.hidden_size == self._files.vectors.shape[1]:
            try:
                probe = _probe(embedder, self.layers)
            except ValueError:  # it has not as many layers
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
    """The sentences with words to index: their numbers, what they are, the positions of those words, all vectors."""
    keys = None if words is None else {word_key(word) for word in words}
    numbers: deque[int] = deque()  # of sentences that may have one
    waiting: deque[tuple[int, TokenizedSentence, list[int]]] = deque()  # for their vectors

    def possible() -> Iterator[Sentence]:
        for number, sentence in enumerate(checked(texts)):
            if words is None or _may_have(sentence, words):
                numbers.append(number)
                yield sentence

    def wanted() -> Iterator[list[str]]:
        for found in embedder.tokenize(possible()):
            number = numbers.popleft()
            positions = [place for place, word in enumerate(found.words) if keys is None or word_key(word) in keys]
            if positions:
                waiting.append((number, found, positions))
                yield found.words

    for vectors in embedder.embed_iter(wanted(), layers, progress=progress):
        yield *waiting.popleft(), vectors


def _may_have(sentence: Sentence, words: Collection[str]) -> bool:
    """Whether it is worth while to look for the words: a sentence is not cut into words for nothing."""
    text = sentence if isinstance(sentence, str) else " ".join(sentence)
    return any(word.casefold() in text.casefold() for word in words)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """`(…, size)`, of length one."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise ModelError("The model gives vectors that are not finite: nothing can be found by them.")
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def _probe(embedder: "ElmoEmbedder", layers: str | int) -> np.ndarray:
    """What tells a model and its layers from others: the vectors of a sentence, `(words, hidden_size)`."""
    (vectors,) = embedder.embed([PROBE], layers)
    if vectors.ndim != 2:
        raise ValueError(f"An index is of one vector a word: choose mix, top, average or one layer, found {layers!r}.")
    return _unit(vectors)


def _name(embedder: "ElmoEmbedder") -> str:
    """What the model is found by again."""
    name = embedder.model.name_or_path
    if name and os.path.exists(name):
        return NAME if os.path.samefile(name, default_model()) else os.path.abspath(name)
    return name


__all__ = ["ElmoIndex", "Neighbour"]
