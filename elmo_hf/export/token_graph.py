"""The graph from the ids of words and characters to token vectors: layer 0 of ELMo."""

from collections.abc import Sequence
from typing import cast

from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.token_encoder_elmo import ElmoCharacterEncoder, ElmoConvolution, ElmoHighway, ElmoTokenEncoder
from .graph import INT, Graph, Value


def token_vectors(
    graph: Graph, encoder: ElmoTokenEncoder, config: ElmoConfig, inputs: dict[str, Value], mask: Value
) -> Value:
    """
    Args:
        encoder: With its weights.
        inputs: `char_ids` `(batch, words, slots)` and `input_ids` `(batch, words)`, as far as the model reads them.
        mask: `(batch, words)`, true for words.

    Returns:
        `(batch, words, output_size)`; any values where masked.
    """
    features = []
    if encoder.word_embeddings is not None:
        ids = graph.where(mask, inputs["input_ids"], cast(int, encoder.word_embeddings.padding_idx))
        features.append(graph.weight(encoder.word_embeddings.weight).gather(ids))  # (batch, words, size)
    places = None
    if encoder.characters is not None:
        # Each distinct word is encoded once, and all padding as one word.
        char_ids = inputs["char_ids"] * mask.cast(INT).unsqueeze(-1)
        rows = char_ids.reshape(-1, config.max_characters_per_token)
        rows, _, places, _ = graph.ops("Unique", rows, outputs=4, axis=0, kind=INT)
        shape = graph.concat([mask.size(0), mask.size(1)], axis=0)
        places = graph.op("Reshape", places, shape, kind=INT)  # (batch, words)
        of_rows = _character_features(graph, encoder.characters, config, rows)  # (distinct words, char_feature_size)
        if not features:
            return _projected(graph, encoder, of_rows).gather(places)
        features.append(of_rows.gather(places))
    return _projected(graph, encoder, graph.concat(features))


def _projected(graph: Graph, encoder: ElmoTokenEncoder, features: Value) -> Value:
    if encoder.projection is None:
        return features
    return graph.linear(features, encoder.projection.weight, encoder.projection.bias)


def _character_features(graph: Graph, characters: ElmoCharacterEncoder, config: ElmoConfig, rows: Value) -> Value:
    """`(words, slots)` → `(words, char_feature_size)`"""
    rows = _without_unused_slots(graph, characters, config, rows)
    chars = graph.weight(characters.char_embeddings.weight).gather(rows)  # (words, slots, char_embedding_size)
    responses = []
    for convolution in cast(Sequence[ElmoConvolution], characters.convolutions):
        filters, size, width = convolution.weight.shape
        last = graph.op("Sub", rows.size(1), width - 1, kind=INT)  # the number of positions
        windows = [
            chars.slice(1, offset, graph.op("Add", last, offset, kind=INT)) for offset in range(width)
        ]  # (words, positions, char_embedding_size) each
        weight = convolution.weight.permute(0, 2, 1).reshape(filters, width * size)
        largest = graph.linear(graph.concat(windows), weight).reduce("ReduceMax", axis=1)  # (words, filters)
        responses.append(largest + graph.weight(convolution.bias))
    features = graph.op("Relu" if config.char_activation == "relu" else "Tanh", graph.concat(responses))
    for highway in cast(Sequence[ElmoHighway], characters.highways):
        features = _highway(graph, highway, features)
    return features


def _without_unused_slots(graph: Graph, characters: ElmoCharacterEncoder, config: ElmoConfig, rows: Value) -> Value:
    """
    Cuts the slots off that come after the longest word and the widest filter. That is exact, since one of the windows
    that hold only padding remains; see [`ElmoCharacterEncoder`].
    """
    is_used = ~(rows.equals(config.char_pad_id)) & ~(rows.equals(0))
    numbers = graph.ints(*range(1, config.max_characters_per_token + 1))
    lengths = (is_used.cast(INT) * numbers).reshape(-1).reduce("ReduceMax", axis=0, keepdims=True)
    return rows.slice(1, 0, lengths + characters.widest_filter)


def _highway(graph: Graph, highway: ElmoHighway, inputs: Value) -> Value:
    gate = graph.op("Sigmoid", graph.linear(inputs, highway.carry.weight, highway.carry.bias))
    transformed = graph.op("Relu", graph.linear(inputs, highway.transform.weight, highway.transform.bias))
    return inputs + gate * (transformed - inputs)


__all__ = ["token_vectors"]
