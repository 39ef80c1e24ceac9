"""
The bodies of answers, as pieces of JSON. Most of the work is writing numbers: orjson writes each float32 with the
fewest digits that give it back exactly.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from ..data.occurrences import TokenizedSentence
from ..data.tag_spans import BEGIN, END, SINGLE, split_tag
from .request_bodies import PredictParameters
from .served_models import Embeddings, LabelledResult, TaggedText

ROWS = 64  # rows of an array per piece: writing a piece takes a few milliseconds, during which nothing else runs


def json_of(value: Any) -> bytes:
    """JSON of dictionaries, lists, strings, numbers and arrays."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def array_pieces(array: np.ndarray) -> Iterator[bytes]:
    """A nested list of numbers, of an array of one dimension or more."""
    if array.ndim == 1:
        yield json_of(np.ascontiguousarray(array))
        return
    if array.ndim == 2:
        rows = (array[start : start + ROWS] for start in range(0, len(array), ROWS))
        yield from _list_pieces([json_of(np.ascontiguousarray(block))[1:-1]] for block in rows)
        return
    yield from _list_pieces(array_pieces(part) for part in array)


def vectors_pieces(vectors: Sequence[np.ndarray]) -> Iterator[bytes]:
    """A list of the vectors of each text."""
    return _list_pieces(map(array_pieces, vectors))


def words_and_vectors_pieces(answer: Embeddings) -> Iterator[bytes]:
    """A list of objects with the text, its words, their offsets and their vectors."""
    assert answer.sentences is not None
    return _list_pieces(map(_words_and_vectors, answer.sentences, answer.vectors))


def _words_and_vectors(sentence: TokenizedSentence, vectors: np.ndarray) -> Iterator[bytes]:
    words = {"text": sentence.text, "words": sentence.words, "offsets": sentence.offsets}
    yield json_of(words)[:-1] + b',"embeddings":'
    yield from array_pieces(vectors)
    yield b"}"


def openai_pieces(model: str, answer: Embeddings, as_base64: bool) -> Iterator[bytes]:
    """The answer of OpenAI's `/v1/embeddings`."""
    yield b'{"object":"list","data":'
    yield from _list_pieces(_openai_vector(place, vector, as_base64) for place, vector in enumerate(answer.vectors))
    num_words = sum(answer.num_words)
    usage = {"prompt_tokens": num_words, "total_tokens": num_words}
    yield b',"model":' + json_of(model) + b',"usage":' + json_of(usage) + b"}"


def _openai_vector(index: int, vector: np.ndarray, as_base64: bool) -> Iterator[bytes]:
    head = b'{"object":"embedding","index":%d,"embedding":' % index
    if as_base64:
        yield head + b'"' + base64.b64encode(vector.astype("<f4").tobytes()) + b'"}'
    else:
        yield head + json_of(vector) + b"}"


def _list_pieces(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The items between brackets, separated by commas."""
    yield b"["
    for place, pieces in enumerate(items):
        if place:
            yield b","
        yield from pieces
    yield b"]"


# ---- predictions


def label_scores(result: LabelledResult, top_k: int | None = None) -> list[dict[str, Any]]:
    """
    The labels of a text with their probabilities, the largest first; of a regression one entry with its score. Empty
    for a text without words.
    """
    if result.label is None:
        return []
    if isinstance(result.label, float):
        return [{"label": "score", "score": result.label}]
    ranked = sorted(result.scores.items(), key=lambda pair: -pair[1])
    return [{"label": label, "score": score} for label, score in ranked[:top_k]]


def tagged_words(tagged: TaggedText, parameters: PredictParameters) -> list[dict[str, Any]]:
    """The tags of a text in the form of transformers' token-classification pipeline, with offsets into the text."""
    if parameters.aggregation_strategy == "simple":
        return _spans(tagged, parameters.ignore_labels)
    rows = zip(tagged.tags, tagged.scores, tagged.sentence.words, tagged.sentence.offsets, strict=True)
    return [
        {"entity": tag, "score": score, "index": index + 1, "word": word, "start": start, "end": end}
        for index, (tag, score, word, (start, end)) in enumerate(rows)
        if tag not in parameters.ignore_labels
    ]


def _spans(tagged: TaggedText, ignored: Sequence[str]) -> list[dict[str, Any]]:
    """
    Consecutive words of one kind as one entry, unless their tags (BIO or BIOES) separate them. The score is the mean of
    the words' scores.
    """
    groups: list[tuple[str, list[int]]] = []
    has_ended = False  # whether the tag of the word before ends an entity
    for place, tag in enumerate(tagged.tags):
        prefix, label = split_tag(tag)
        kind = label or tag
        if groups and groups[-1][0] == kind and prefix not in BEGIN + SINGLE and not has_ended:
            groups[-1][1].append(place)
        else:
            groups.append((kind, [place]))
        has_ended = prefix in END + SINGLE
    spans = []
    for kind, places in groups:
        if kind not in ignored:
            start, end = tagged.sentence.offsets[places[0]][0], tagged.sentence.offsets[places[-1]][1]
            score = sum(tagged.scores[place] for place in places) / len(places)
            word = tagged.sentence.text[start:end]
            spans.append({"entity_group": kind, "score": score, "word": word, "start": start, "end": end})
    return spans


__all__ = [
    "array_pieces",
    "json_of",
    "label_scores",
    "openai_pieces",
    "tagged_words",
    "vectors_pieces",
    "words_and_vectors_pieces",
]
