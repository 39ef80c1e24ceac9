"""Models as a server runs them: vectors of an encoder, tags of a tagger, labels of a classifier."""

import functools
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..data.batches import BATCH_TOKENS
from ..data.occurrences import TokenizedSentence, tokenized
from ..data.sentences import TokenSource, checked, encoded
from ..embedding.embedder import ElmoEmbedder
from ..embedding.layers import Layers
from ..embedding.request import EmbeddingRequest
from ..errors import ModelError, counted, in_one_line
from ..finetuning.classification_data import LabelledText
from ..finetuning.prediction import LabelledResult, load_head, predict_labels, predict_scored_tags
from ..modeling.configuration_elmo import HEADS, ElmoConfig
from ..runtime.model_loading import Precision, find_device, loading_errors, precision_options
from ..runtime.named_models import find_named_model
from .api_errors import ApiError, invalid, too_large
from .request_queue import Job
from .serving_limits import ServingLimits

HEAD_BATCH = 32  # texts per batch of a head
REQUESTS = 64  # embedding requests, one per choice of layers and pooling, that are kept


class EmbeddingOptions(NamedTuple):
    """
    What vectors a request asks for.

    Attributes:
        layers: As in [`ElmoEmbedder.embed`], a tuple instead of a list.
        pooling: As in [`ElmoEmbedder.embed`]; `None` for the vectors of words.
        return_words: Whether the answer needs the words and their offsets.
    """

    layers: str | int | tuple[int, ...] = "mix"
    pooling: str | None = None
    return_words: bool = False


class Embeddings(NamedTuple):
    """
    The vectors of a request's texts.

    Attributes:
        vectors: For each text `(size,)`, or without pooling `(words, size)`; `(layers, …)` for several layers.
        num_words: The number of words of each text.
        sentences: The texts with their words and offsets, if they were asked for.
    """

    vectors: list[np.ndarray]
    num_words: list[int]
    sentences: list[TokenizedSentence] | None


class TaggedText(NamedTuple):
    """A text with its words and offsets, and the tag of each word with its probability."""

    sentence: TokenizedSentence
    tags: list[str]
    scores: list[float]


class EmbeddingModel:
    """
    An encoder.

    Args:
        name: Its name in requests.
        embedder: The embedder, whose vectors the answers have.
        limits: The limits of words per text and per request.
    """

    task: ClassVar[str] = "embedding"

    def __init__(self, name: str, embedder: ElmoEmbedder, limits: ServingLimits):
        self.name, self.embedder, self.limits = name, embedder, limits
        self.request = functools.lru_cache(REQUESTS)(self._request)
        self.pooling = "mean" if embedder.model.sentence_pooling is None else "sentence"

    def _request(self, options: EmbeddingOptions) -> EmbeddingRequest:
        """The embedder's request for these options. Raises a `ValueError` if the model does not have them."""
        layers: Layers = list(options.layers) if isinstance(options.layers, tuple) else options.layers
        return EmbeddingRequest(self.embedder.model, self.embedder.tokenizer, layers, options.pooling)

    def info(self) -> dict[str, Any]:
        """What clients may want to know."""
        sizes = {"hidden_size": self.embedder.hidden_size, "num_layers": self.embedder.num_layers}
        return sizes | {
            "pooling": self.pooling,
            "sentence_size": self.request(EmbeddingOptions("mix", self.pooling)).vector_size,
        }

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """[`Embeddings`] for each job, whose options are [`EmbeddingOptions`], or an [`ApiError`]."""
        with _text_errors():
            results: list[Any] = [self._refusal(job) for job in jobs]
            texts = [text for job, refusal in zip(jobs, results, strict=True) if refusal is None for text in job.texts]
            sources = iter(list(encoded(checked(texts), self.embedder.tokenizer)))
        sources_of = [
            [] if refusal else [next(sources) for _ in job.texts] for job, refusal in zip(jobs, results, strict=True)
        ]
        groups: dict[tuple, list[int]] = {}
        for place, job in enumerate(jobs):
            if results[place] is None:
                groups.setdefault((job.options.layers, job.options.pooling), []).append(place)
        for places in groups.values():
            request = self.request(jobs[places[0]].options)
            vectors = request.vectors_of_encoded(source for place in places for source in sources_of[place])
            for place in places:
                results[place] = self._embeddings(
                    jobs[place], sources_of[place], [next(vectors) for _ in jobs[place].texts]
                )
        return results

    def _refusal(self, job: Job) -> ApiError | None:
        """The words are counted before anything is encoded: the ids of a body of 1 MiB can take 200 MB."""
        layers = _num_layers(job.options.layers, self.embedder.num_layers)
        lengths = [len(text) for text in job.texts]  # a text has no more words than characters, which cost nothing
        if beyond_limits(lengths, self.limits, layers) is not None:
            tokenize = self.embedder.tokenizer.tokenize
            lengths = [len(tokenize(text) if isinstance(text, str) else text) for text in job.texts]
        return beyond_limits(lengths, self.limits, layers)

    def _embeddings(self, job: Job, sources: Sequence[TokenSource], vectors: list[np.ndarray]) -> Embeddings:
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise ApiError(500, "not_finite", "The vectors of some texts are not finite: check the model's weights.")
        sentences = list(tokenized(job.texts, self.embedder.tokenizer)) if job.options.return_words else None
        return Embeddings(vectors, [len(source) - 2 for source in sources], sentences)


class TaggingModel:
    """A tagger; the arguments are those of [`EmbeddingModel`], with the head and its tokenizer."""

    task: ClassVar[str] = "tagging"

    def __init__(self, name: str, head: Any, tokenizer: Any, limits: ServingLimits):
        self.name, self.head, self.tokenizer, self.limits = name, head, tokenizer, limits

    def info(self) -> dict[str, Any]:
        """What clients may want to know."""
        return {"labels": self.head.config.label_names}

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """A list of [`TaggedText`] for each job, or an [`ApiError`]."""
        with _text_errors():
            sentences = [list(tokenized(job.texts, self.tokenizer)) for job in jobs]
        results: list[Any] = [
            beyond_limits([len(sentence.words) for sentence in own], self.limits) for own in sentences
        ]
        accepted = [place for place, refusal in enumerate(results) if refusal is None]
        words = [sentence.words for place in accepted for sentence in sentences[place]]
        tagged_texts = predict_scored_tags(self.head, self.tokenizer, words, _batch_size(map(len, words)))
        for place in accepted:
            pairs = zip(sentences[place], tagged_texts, strict=False)  # no more of them than there are sentences
            results[place] = [TaggedText(sentence, tagged.tags or [], scores) for sentence, (tagged, scores) in pairs]
        return results


class ClassifyingModel:
    """A classifier; the arguments are those of [`TaggingModel`]."""

    task: ClassVar[str] = "classification"

    def __init__(self, name: str, head: Any, tokenizer: Any, limits: ServingLimits):
        self.name, self.head, self.tokenizer, self.limits = name, head, tokenizer, limits

    def info(self) -> dict[str, Any]:
        """What clients may want to know."""
        config = self.head.config
        return {"labels": config.label_names, "text_pairs": bool(config.text_pairs)}

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """A list of [`LabelledResult`] for each job, whose texts are [`LabelledText`], or an [`ApiError`]."""
        with _text_errors():
            lengths = [[self._length(text) for text in job.texts] for job in jobs]
        results: list[Any] = [beyond_limits(own, self.limits) for own in lengths]
        accepted = [place for place, refusal in enumerate(results) if refusal is None]
        batch_size = _batch_size(length for place in accepted for length in lengths[place])
        texts = (text for place in accepted for text in jobs[place].texts)
        labels = predict_labels(self.head, self.tokenizer, texts, batch_size)
        for place in accepted:
            results[place] = [next(labels) for _ in jobs[place].texts]
        return results

    def _length(self, text: LabelledText) -> int:
        return len(self.tokenizer.tokenize(text.text, text.pair))


ServedModel = EmbeddingModel | TaggingModel | ClassifyingModel


def beyond_limits(num_words: Sequence[int], limits: ServingLimits, layers: int = 1) -> ApiError | None:
    """
    Why a request with these numbers of words is refused, if it is.

    Args:
        layers: The number of layers that the answer has; words count once per layer, and a text is a word at least.
    """
    for place, words in enumerate(num_words):
        if words > limits.words:
            return too_large(f"Text {place} has {counted(words, 'word')}, and a text may have {limits.words:,}.")
    if (words := layers * sum(max(count, 1) for count in num_words)) > limits.request_words:
        where = f" in {layers} layers" if layers > 1 else ""
        return too_large(
            f"The texts have {counted(words, 'word')}{where}, and a request may have {limits.request_words:,}: send "
            "fewer texts at once."
        )
    return None


@contextmanager
def _text_errors() -> Generator[None]:
    """Turns what the tokenizer refuses into an answer."""
    try:
        yield
    except ValueError as error:
        raise invalid(in_one_line(error)) from error


def _num_layers(layers: str | int | tuple[int, ...], num_layers: int) -> int:
    if layers == "all":
        return num_layers
    return len(layers) if isinstance(layers, tuple) else 1


def _batch_size(lengths: Any) -> int:
    """So many texts that a batch, padded to the longest, has no more tokens than a batch of the embedder."""
    return min(max(BATCH_TOKENS // (max(lengths, default=0) + 2), 1), HEAD_BATCH)


def load_models(
    names: Sequence[str],
    limits: ServingLimits,
    *,
    device: str | None = None,
    precision: Precision | None = None,
) -> list[ServedModel]:
    """
    Loads the models of a server. A tagger or a classifier predicts; of every other model the vectors are served.

    Args:
        names: Folders, or names on the Hub. A folder is served under its last name. Default: the model that comes with
            this package.
        device, precision: As in [`load_model`].
    """
    places = [find_named_model(name) for name in names] or [find_named_model(None)]
    served = [os.path.basename(os.path.abspath(place)) if os.path.isdir(place) else place for place in places]
    if repeated := sorted({name for name in served if served.count(name) > 1}):
        raise ModelError(f"Two models would be served as {repeated[0]}: give their folders different names.")
    return [_load(place, name, limits, device, precision) for place, name in zip(places, served, strict=True)]


def _load(place: str, name: str, limits: ServingLimits, device: str | None, precision: Precision | None) -> ServedModel:
    with loading_errors(place):
        architectures = ElmoConfig.get_config_dict(place)[0].get("architectures") or []
    task = next((head.task for head in HEADS if head.name in architectures), None)
    if task in ("tagging", "classification"):
        head, tokenizer = load_head(place, device=device, precision=precision)
        if head.config.elmo_places != "none":
            head.cache_words()
        return (TaggingModel if task == "tagging" else ClassifyingModel)(name, head, tokenizer, limits)
    if task is not None:
        raise ModelError(f"{place} is an {architectures[0]}: only encoders, taggers and classifiers can be served.")
    options = precision_options(place, precision)
    return EmbeddingModel(name, ElmoEmbedder.from_pretrained(place, device=find_device(device), **options), limits)


__all__ = [
    "ClassifyingModel",
    "EmbeddingModel",
    "EmbeddingOptions",
    "Embeddings",
    "LabelledResult",
    "ServedModel",
    "TaggedText",
    "TaggingModel",
    "beyond_limits",
    "load_models",
]
