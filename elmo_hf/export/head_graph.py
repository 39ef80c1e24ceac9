"""The graphs of mixers and heads: from the layers of the biLM to vectors, scores of tags and scores of classes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from ..modeling.esim_elmo import ElmoEsim
from ..modeling.modeling_elmo import ElmoMixer
from ..modeling.modeling_heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTaskModel
from ..modeling.pooling_elmo import ElmoPooling
from ..modeling.task_layers_elmo import ElmoCrossAttention, ElmoMaxoutClassifier
from .crf_graph import decoded_scores
from .graph import FLOAT, INT, Graph, Value
from .recurrent_graph import task_lstm

WORD_NORM_EPSILON = 1e-5  # of torch.nn.functional.layer_norm


def mix(graph: Graph, mixer: ElmoMixer, layers: Sequence[Value], mask: Value) -> Value:
    """
    Args:
        layers: `(batch, words, hidden_size)` each.
        mask: `(batch, words)`

    Returns:
        `(batch, words, hidden_size)`, zero where masked.
    """
    is_word = mask.cast(FLOAT).unsqueeze(-1)
    if mixer.layer_norm == "word":
        size = graph.op("Shape", layers[0], start=2, kind=INT)
        ones, zeros = (graph.op("Expand", graph.weight(np.array([value])), size) for value in (1.0, 0.0))
        layers = [graph.op("LayerNormalization", layer, ones, zeros, epsilon=WORD_NORM_EPSILON) for layer in layers]
    elif mixer.layer_norm:
        layers = [_normalized(graph, layer, is_word, mixer.epsilon) for layer in layers]
    shares = (mixer.gamma * mixer.layer_weights()).tolist()
    mixed = layers[0] * shares[0]
    for share, layer in zip(shares[1:], layers[1:], strict=True):
        mixed = mixed + layer * share
    return mixed * is_word


def _normalized(graph: Graph, layer: Value, is_word: Value, epsilon: float) -> Value:
    """With one mean and one variance over all unmasked values of the batch."""
    size = layer.size(2).cast(FLOAT)
    count = graph.op("ReduceSum", is_word, keepdims=0) * size
    mean = graph.op("ReduceSum", layer * is_word, keepdims=0) / count
    centred = (layer - mean) * is_word
    variance = graph.op("ReduceSum", centred * centred, keepdims=0) / count
    return centred / graph.op("Sqrt", variance + epsilon)


class Sentences:
    """
    The sentences of a batch, one per row and left-aligned, as [`ElmoSentences`] has them.

    Args:
        is_word: `(batch, words)`, false for boundaries and padding.
        segments: `(batch, words)`, 0 and 1 for the texts of pairs, which become two adjacent sentences.

    Attributes:
        mask (`Value`): `(sentences, longest)`, true for words.
    """

    def __init__(self, graph: Graph, is_word: Value, segments: Value | None):
        self.graph, self.is_word = graph, is_word
        per_row = 1 if segments is None else 2
        in_sentence = is_word
        if segments is not None:
            is_of_segment = segments.unsqueeze(1).equals(graph.weight(np.array([[0], [1]]), INT))
            in_sentence = is_word.unsqueeze(1) & is_of_segment  # (batch, 2, words)
            shape = graph.concat([graph.ints(-1), is_word.size(1)], axis=0)
            in_sentence = graph.op("Reshape", in_sentence, shape, kind=in_sentence.kind)  # (2 * batch, words)
        self.width = is_word.size(1)
        lengths = in_sentence.cast(INT).reduce("ReduceSum", axis=1)  # (sentences,)
        longest = graph.op("Max", lengths.reduce("ReduceMax", axis=0, keepdims=True), 1, kind=INT)
        self.mask = graph.op("Less", graph.range(longest), lengths.unsqueeze(1), kind=in_sentence.kind)
        positions = graph.range(self.width)
        # Words first, in their order.
        order = graph.where(in_sentence, positions, positions + self.width)
        _, places = graph.ops("TopK", order, longest, outputs=2, axis=1, largest=0, sorted=1, kind=INT)
        rows = graph.op("Div", graph.range(lengths.size(0)), per_row, kind=INT)
        self.places = places + rows.unsqueeze(1) * self.width  # (sentences, longest), in the flattened batch

    def gather(self, vectors: Value) -> Value:
        """`(batch, words, size)` → `(sentences, longest, size)`, zero where there is no word."""
        size = vectors.size(-1)
        flat = self.graph.op("Reshape", vectors, self.graph.concat([self.graph.ints(-1), size], axis=0))
        return flat.gather(self.places) * self.mask.cast(FLOAT).unsqueeze(-1)

    def gather_ids(self, ids: Value, padding: int) -> Value:
        """`(batch, words)` → `(sentences, longest)`, padding where there is no word."""
        return self.graph.where(self.mask, ids.reshape(-1).gather(self.places), padding)

    def scatter(self, vectors: Value) -> Value:
        """`(batch, longest, size)` → `(batch, words, size)`, zero where there is no word; not for pairs."""
        graph = self.graph
        is_word = self.is_word.cast(INT)
        place = graph.op("CumSum", is_word, graph.weight(1, INT), kind=INT) - is_word  # words before each position
        place = graph.op("Min", place, graph.op("Sub", vectors.size(1), 1, kind=INT), kind=INT)
        row = graph.range(vectors.size(0)).unsqueeze(1) * vectors.size(1)
        shape = graph.concat([graph.ints(-1), vectors.size(2)], axis=0)
        return graph.op("Reshape", vectors, shape).gather(row + place) * self.is_word.cast(FLOAT).unsqueeze(-1)


def tagger(
    graph: Graph, model: ElmoForTokenClassification, layers: Sequence[Value], sentences: Sentences, ids: Value | None
) -> dict[str, Value]:
    """
    The outputs of the model, `(batch, words, num_labels)` each: `logits`, and with a CRF `emissions`, the scores before
    it.
    """
    gathered = [sentences.gather(layer) for layer in layers]
    words = _task_vectors(graph, model, gathered, sentences, ids)
    words = _with_output_mix(graph, model, words, gathered, sentences)
    scores = graph.linear(words, model.classifier.weight, model.classifier.bias)
    if model.crf is None:
        return {"logits": sentences.scatter(scores)}
    decoded = decoded_scores(graph, model.crf, scores, sentences.mask)
    return {"logits": sentences.scatter(decoded), "emissions": sentences.scatter(scores)}


def classifier(
    graph: Graph, model: ElmoForSequenceClassification, layers: Sequence[Value], sentences: Sentences, ids: Value | None
) -> Value:
    """The scores of the labels, `(batch, num_labels)`."""
    gathered = [sentences.gather(layer) for layer in layers]
    words = _task_vectors(graph, model, gathered, sentences, ids)
    if model.esim is not None:
        words = _with_output_mix(graph, model, words, gathered, sentences)
        pooled = _esim(graph, model.esim, words, sentences.mask)
    else:
        if model.cross_attention is not None:
            words = _cross_attention(graph, model.cross_attention, words, sentences.mask)
        if model.biattention is not None:
            attended = _attend(graph, words, words, sentences.mask)
            integrated = graph.concat([words, words - attended, words * attended])
            words = task_lstm(graph, model.biattention.integrate, integrated, sentences.mask)
        words = _with_output_mix(graph, model, words, gathered, sentences)
        assert model.pooling is not None
        pooled = _pooled(graph, model.pooling, words, sentences.mask)
        if model.config.text_pairs:
            pooled = _compared(graph, pooled, model.pooling.output_size)  # (batch, 4 * pooling.output_size)
    return _classified(graph, model.classifier, pooled)


def _task_vectors(
    graph: Graph, model: ElmoTaskModel, layers: Sequence[Value], sentences: Sentences, ids: Value | None
) -> Value:
    """[x; ELMo] and the task layers over it, `(sentences, longest, size)`."""
    parts = []
    if model.word_vectors is not None and ids is not None:
        table = graph.weight(model.word_vectors.weight)
        parts.append(table.gather(sentences.gather_ids(ids, model.word_vectors.num_embeddings - 1)))
    if model.input_mixer is not None:
        parts.append(mix(graph, model.input_mixer, layers, sentences.mask))
    words = graph.concat(parts)
    return words if model.task_lstm is None else task_lstm(graph, model.task_lstm, words, sentences.mask)


def _with_output_mix(
    graph: Graph, model: ElmoTaskModel, words: Value, layers: Sequence[Value], sentences: Sentences
) -> Value:
    if model.output_mixer is None:
        return words
    return graph.concat([words, mix(graph, model.output_mixer, layers, sentences.mask)])


# ---- Attention


def _masked_softmax(graph: Graph, scores: Value, mask: Value) -> Value:
    least = float(torch.finfo(torch.float32).min)
    return graph.op("Softmax", graph.where(mask, scores, least), axis=-1) * mask.cast(FLOAT)


def _attend(graph: Graph, words: Value, others: Value, mask: Value) -> Value:
    """As [`attend`]: `words` are the queries, `others` with their `mask` the keys and values."""
    return _masked_softmax(graph, words @ others.transpose(0, 2, 1), mask.unsqueeze(1)) @ others


def _cross_attention(graph: Graph, attention: ElmoCrossAttention, words: Value, mask: Value) -> Value:
    """`(2 * pairs, longest, size)` → `(2 * pairs, longest, 2 * task_layer_size)`"""
    swapped_mask = _swapped(graph, mask.cast(INT).unsqueeze(-1)).squeeze(-1).cast(mask.kind)
    attended = _attend(graph, words, _swapped(graph, words), swapped_mask)
    enhanced = graph.concat([words, attended, words - attended, words * attended])
    projected = graph.op("Relu", graph.linear(enhanced, attention.project.weight, attention.project.bias))
    return task_lstm(graph, attention.compose, projected, mask)


def _swapped(graph: Graph, sentences: Value) -> Value:
    """`(2 * pairs, longest, size)` with the two sentences of each pair swapped."""
    places = graph.range(sentences.size(0))
    is_second = graph.op("Mod", places, 2, kind=INT)
    return sentences.gather(places + 1 - is_second * 2)


def _esim(graph: Graph, esim: ElmoEsim, words: Value, mask: Value) -> Value:
    composed = _cross_attention(graph, esim.attention, words, mask)
    texts = graph.concat([_reduced(graph, composed, kind, mask) for kind in ("mean", "max")])
    size = esim.hidden.in_features
    return graph.op("Relu", graph.linear(texts.reshape(-1, size), esim.hidden.weight, esim.hidden.bias))


# ---- Pooling and classification


def _pooled(graph: Graph, pooling: ElmoPooling, words: Value, mask: Value) -> Value:
    """`(sentences, longest, size)` → `(sentences, pooling.output_size)`"""
    parts = []
    for part in pooling.parts:
        if part != "attention":
            parts.append(_reduced(graph, words, part, mask))
            continue
        assert pooling.score is not None
        scores = graph.linear(words, pooling.score.weight, pooling.score.bias).squeeze(-1)
        weights = _masked_softmax(graph, scores, mask)
        parts.append((weights.unsqueeze(1) @ words).squeeze(1))
    return graph.concat(parts)


def _reduced(graph: Graph, words: Value, kind: str, mask: Value) -> Value:
    """The mean, maximum or minimum of the words of each sentence; zeros for a sentence without words."""
    is_word = mask.unsqueeze(-1)
    count = is_word.cast(FLOAT).reduce("ReduceSum", axis=1)  # (sentences, 1)
    if kind == "mean":
        return graph.where(is_word, words, 0.0).reduce("ReduceSum", axis=1) / graph.op("Max", count, 1.0)
    neutral = -np.inf if kind == "max" else np.inf
    operator = "ReduceMax" if kind == "max" else "ReduceMin"
    reduced = graph.where(is_word, words, neutral).reduce(operator, axis=1)
    return graph.where(graph.op("Greater", count, 0.0, kind=mask.kind), reduced, 0.0)


def _compared(graph: Graph, pooled: Value, size: int) -> Value:
    """Both texts of each pair, their distance and their product: `(2 * pairs, size)` → `(pairs, 4 * size)`."""
    first, second = pooled.reshape(-1, 2 * size).split(size, size)
    return graph.concat([first, second, graph.op("Abs", first - second), first * second])


def _classified(graph: Graph, layers: nn.Module, texts: Value) -> Value:
    if not isinstance(layers, ElmoMaxoutClassifier):
        return graph.linear(texts, layers.weight, layers.bias)
    for layer in layers.layers:
        pieces = graph.linear(texts, layer.weight, layer.bias).reshape(0, -1, layers.num_pieces)
        texts = pieces.reduce("ReduceMax", axis=2)
    return texts


__all__ = ["Sentences", "classifier", "mix", "tagger"]
