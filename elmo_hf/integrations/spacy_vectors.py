"""The component `elmo`: contextual vectors for spaCy's own tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from ..embedding import ElmoEmbedder
from ..embedding.request import EmbeddingRequest
from ..runtime.model_loading import find_device, loading_errors, precision_options
from ..runtime.named_models import locate_model
from .spacy_component import ElmoComponent, sentences


class LoadedEmbedder(NamedTuple):
    """
    A model with a checked choice of layers.

    Attributes:
        embedder ([`ElmoEmbedder`])
        request ([`EmbeddingRequest`])
        width (`int`): The size of a token's vector.
    """

    embedder: ElmoEmbedder
    request: EmbeddingRequest
    width: int


class ElmoVectors(ElmoComponent):
    """
    Fills `doc.tensor`, `(tokens, size)`, and lets `vector` and `similarity` of documents, spans and tokens use it. The
    words of the model are the tokens of spaCy. A whitespace token has a vector of zeros.

    A sentence of spaCy is a sentence of the model; a document without sentence boundaries is one sentence.

    Args:
        name, model, device, precision, save_weights: As in [`ElmoComponent`]. The default model is the one that comes
            with this package.
        layers: As in [`ElmoEmbedder.embed`]. The vectors of several layers are concatenated.
    """

    def __init__(self, name: str = "elmo", *, layers: Any = "mix", **options: Any):
        self._layers = layers
        super().__init__(name, **{"model": None, "device": None, "precision": None, "save_weights": False} | options)

    def _load(self, model: str | None) -> LoadedEmbedder:
        device = find_device(self._device)
        folder, options = locate_model(model)
        with loading_errors(folder):
            options |= precision_options(folder, self._precision, **options)
        embedder = ElmoEmbedder.from_pretrained(folder, device=device, **options)
        request = EmbeddingRequest(embedder.model, embedder.tokenizer, self._layers)
        return LoadedEmbedder(embedder, request, int(np.prod(request.lead, dtype=int)) * request.vector_size)

    def _save(self, folder: Path):
        self.loaded.embedder.model.save_pretrained(folder)
        self.loaded.embedder.tokenizer.save_pretrained(folder)

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"layers": self._layers}

    @property
    def embedder(self) -> ElmoEmbedder:
        """The embedder that computes the vectors."""
        return self.loaded.embedder

    def _annotate(self, docs: Sequence[Doc]):
        _, request, width = self.loaded
        tensors: list[Any] = [np.zeros((len(doc), width), dtype=np.float32) for doc in docs]
        # The sentences are gone through twice: the request reads ahead of what it gives.
        words = ([token.text for token in tokens] for doc in docs for tokens in sentences(doc))
        places = (
            (tensor, [token.i for token in tokens])
            for doc, tensor in zip(docs, tensors, strict=True)
            for tokens in sentences(doc)
        )
        for (tensor, rows), vectors in zip(places, request.vectors(words), strict=True):
            if request.lead:  # (layers, words, size) -> (words, layers, size)
                vectors = vectors.swapaxes(0, 1)
            tensor[rows] = vectors.reshape(len(rows), width)
        for doc, tensor in zip(docs, tensors, strict=True):
            doc.tensor = tensor
            add_vector_hooks(doc)


# ---- hooks: functions of a module, so that documents can be pickled


def add_vector_hooks(doc: Doc) -> Doc:
    """
    Lets `vector`, `has_vector` and `similarity` of a document, its spans and its tokens use `doc.tensor`. The component
    does this itself. spaCy does not store hooks: a document from `from_bytes`, or from `nlp.pipe` with several
    processes, has the tensor without them.

    ```python
    >>> for doc in map(add_vector_hooks, nlp.pipe(texts, n_process=2)):
    ...     print(doc[0].similarity(doc[1]))
    ```

    Args:
        doc: A document whose `tensor` was filled by the component `elmo`.

    Returns:
        The document.
    """
    if len(doc.tensor) != len(doc):
        raise ValueError(
            f"The document has {len(doc)} tokens, and its tensor has {len(doc.tensor)} rows: run the component elmo "
            "on it first."
        )
    hooks = {"vector": _vector, "has_vector": _has_vector, "similarity": _similarity}
    for kind in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        kind.update(hooks)
    return doc


def _vector(part: Doc | Span | Token) -> np.ndarray:
    """The vector of a token, or the mean over the words of a span or a document, `(size,)`."""
    if isinstance(part, Token):
        return part.doc.tensor[part.i]
    rows: Any = part.tensor
    num_words = rows.any(axis=1).sum()  # whitespace has zeros
    return (rows.sum(axis=0, dtype=np.float64) / max(num_words, 1)).astype(np.float32)


def _has_vector(part: Doc | Span | Token) -> bool:
    return bool(part.tensor.any())


def _similarity(part: Doc | Span | Token, other: Any) -> float:
    """The cosine of two vectors; 0 if one of them is zero."""
    one, two = (np.asarray(side.vector, dtype=np.float64) for side in (part, other))
    if one.shape != two.shape:
        raise ValueError(
            f"The vectors have {one.size} and {two.size} values and cannot be compared: both sides must come from the "
            "same component elmo."
        )
    norms = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / norms if norms else 0.0


@Language.factory(
    "elmo",
    assigns=["doc.tensor"],
    default_config={"model": None, "layers": "mix", "device": None, "precision": None, "save_weights": False},
)
def make_elmo(
    nlp: Language, name: str, model: Any, layers: Any, device: Any, precision: Any, save_weights: Any
) -> ElmoVectors:
    """Makes the component `elmo`. The arguments are checked by the component, whose errors are one line."""
    return ElmoVectors(name, model=model, layers=layers, device=device, precision=precision, save_weights=save_weights)


__all__ = ["ElmoVectors", "LoadedEmbedder", "add_vector_hooks", "make_elmo"]
