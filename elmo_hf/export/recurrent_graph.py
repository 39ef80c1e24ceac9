"""
The graphs of the recurrent layers: those of the biLM, and of the task layers of heads.

A masked position does not change the state. The backward direction reads the batch from its last position to its
first, so that the padding of a sentence comes before its last word and leaves the state at zero: each sentence is
reversed by its own length.
"""

from collections.abc import Sequence
from typing import cast

import torch

from ..modeling.lstm_elmo import ElmoRecurrentLayer
from ..modeling.modeling_elmo import DIRECTIONS, ElmoModel
from ..modeling.task_layers_elmo import ElmoAlternatingLSTM, ElmoHighwayLSTMLayer, ElmoTaskLSTM, ElmoTaskLSTMLayer
from .graph import FLOAT, INT, INT32, Graph, Value

# Of the task LSTM's gates, from PyTorch's order (input, forget, candidate, output) to that of ONNX.
INPUT_OUTPUT_FORGET_CANDIDATE = [0, 3, 1, 2]


def bilm_layers(graph: Graph, model: ElmoModel, tokens: Value, mask: Value, segments: Value | None) -> list[Value]:
    """
    Args:
        tokens: The token vectors, `(batch, words, output_size)`.
        mask: `(batch, words)`, true for words.
        segments: `(batch, words)`; where the value changes along a row, the recurrence starts again from zeros.

    Returns:
        All layers, the token vectors first, `(batch, words, hidden_size)` each, zero where masked.
    """
    is_word = mask.transpose(1, 0).unsqueeze(-1)  # (words, batch, 1)
    segments = None if segments is None else segments.transpose(1, 0).unsqueeze(-1)
    tokens = tokens.transpose(1, 0, 2) * is_word.cast(FLOAT)  # (words, batch, output_size)
    directions = DIRECTIONS[model.config.directions]
    inputs = [tokens] * len(directions)
    layers, recurrent_layers = [inputs], cast(Sequence[ElmoRecurrentLayer], model.layers)
    for layer in recurrent_layers:
        inputs = [
            _direction(graph, layer, index, bool(direction), inputs[index], is_word, segments)
            for index, direction in enumerate(directions)
        ]
        layers.append(inputs)
    return [graph.concat(directions).transpose(1, 0, 2) for directions in layers]


def _direction(
    graph: Graph,
    layer: ElmoRecurrentLayer,
    index: int,
    backward: bool,
    inputs: Value,
    is_word: Value,
    segments: Value | None,
) -> Value:
    """One direction of one layer, `(words, batch, output_size)` → the same shape."""
    cells, size = layer.cell_size, layer.input_weight.shape[1]
    bias = layer.bias[index].clone()
    bias[2 * cells : 3 * cells] += layer.forget_bias
    gates = inputs @ graph.weight(layer.input_weight[index]) + graph.weight(bias)  # (words, batch, 4 * cells)
    recurrent = graph.weight(layer.recurrent_weight[index])
    projection = None if layer.projection_weight is None else graph.weight(layer.projection_weight[index])

    def step(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        hidden, cell, *segment = states
        gates, is_word, *segment_now = now
        new_hidden, new_cell = hidden, cell
        if segment:
            continues = segment[0].equals(segment_now[0])  # (batch, 1)
            new_hidden, new_cell = (body.where(continues, state, 0.0) for state in (hidden, cell))
            segment = [body.where(is_word, segment_now[0], segment[0])]
        entering, candidate, staying, leaving = (gates + new_hidden @ recurrent).split(*[cells] * 4)
        new_cell = body.op("Sigmoid", staying) * new_cell + body.op("Sigmoid", entering) * body.op("Tanh", candidate)
        new_cell = _clip(body, new_cell, layer.cell_clip)
        new_hidden = body.op("Sigmoid", leaving) * body.op("Tanh", new_cell)
        if projection is not None:
            new_hidden = _clip(body, new_hidden @ projection, layer.projection_clip)
        hidden, cell = body.where(is_word, new_hidden, hidden), body.where(is_word, new_cell, cell)
        return [hidden, cell, *segment], [hidden]

    batch = is_word.size(1)
    states = [graph.zeros(batch, size), graph.zeros(batch, cells)]
    items = [gates, is_word]
    if segments is not None:
        states.append(graph.zeros(batch, 1, kind=INT))
        items.append(segments)
    _, (outputs,) = graph.scan(step, states, items, reverse=backward)
    outputs = outputs * is_word.cast(FLOAT)
    return outputs + inputs if layer.residual else outputs


def _clip(graph: Graph, values: Value, bound: float | None) -> Value:
    return values if bound is None else graph.op("Clip", values, -float(bound), float(bound))


def task_lstm(graph: Graph, lstm: ElmoTaskLSTM | ElmoAlternatingLSTM, words: Value, mask: Value) -> Value:
    """
    Args:
        words: `(sentences, words, size)`
        mask: `(sentences, words)`, true for words, which are the first positions of each row.

    Returns:
        `(sentences, words, lstm.output_size)`, zero where masked.
    """
    words = words.transpose(1, 0, 2)  # (words, sentences, size)
    if isinstance(lstm, ElmoAlternatingLSTM):
        is_word = mask.transpose(1, 0).unsqueeze(-1)  # (words, sentences, 1)
        for index, layer in enumerate(cast(Sequence[ElmoHighwayLSTMLayer], lstm.layers)):
            words = _highway_lstm(graph, layer, words, is_word, backward=bool(index % 2))
    else:
        lengths = mask.cast(INT).reduce("ReduceSum", axis=1)
        for directions in zip(lstm.forward_layers, lstm.backward_layers, strict=True):
            words = _bidirectional_lstm(graph, cast(Sequence[ElmoTaskLSTMLayer], directions), words, lengths, lstm.size)
    return words.transpose(1, 0, 2) * mask.cast(FLOAT).unsqueeze(-1)


def _bidirectional_lstm(
    graph: Graph, directions: Sequence[ElmoTaskLSTMLayer], words: Value, lengths: Value, size: int
) -> Value:
    """`(words, sentences, input_size)` → `(words, sentences, 2 * size)`"""

    def gates(name: str) -> torch.Tensor:
        """A parameter of both directions, with the gates in the order of ONNX."""
        of_gates = torch.stack([getattr(layer, name) for layer in directions]).unflatten(1, (4, size))
        return of_gates[:, INPUT_OUTPUT_FORGET_CANDIDATE].flatten(1, 2)

    biases = torch.cat([gates("bias_ih_l0"), gates("bias_hh_l0")], dim=1)
    # The operator takes no sentence without words. The outputs of such a sentence are masked.
    at_least_one = graph.op("Max", lengths, graph.ints(1), kind=INT).cast(INT32)
    outputs, _, _ = graph.ops(
        "LSTM",
        words,
        graph.weight(gates("weight_ih_l0")),
        graph.weight(gates("weight_hh_l0")),
        graph.weight(biases),
        at_least_one,
        outputs=3,
        direction="bidirectional",
        hidden_size=size,
    )  # (words, directions, sentences, size)
    return outputs.transpose(0, 2, 1, 3).reshape(0, 0, 2 * size)


def _highway_lstm(graph: Graph, layer: ElmoHighwayLSTMLayer, words: Value, is_word: Value, backward: bool) -> Value:
    """`(words, sentences, input_size)` → `(words, sentences, size)`"""
    from_input, carried = graph.linear(words, layer.input_weight).split(5 * layer.size, layer.size)
    from_input = from_input + graph.weight(layer.bias)
    recurrent = graph.weight(layer.recurrent_weight.mT)

    def step(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        state, cell = states
        from_input, carried, is_word = now
        entering, staying, new, leaving, highway = (from_input + state @ recurrent).split(*[layer.size] * 5)
        new_cell = body.op("Sigmoid", entering) * body.op("Tanh", new) + body.op("Sigmoid", staying) * cell
        gate = body.op("Sigmoid", highway)
        new_state = gate * (body.op("Sigmoid", leaving) * body.op("Tanh", new_cell)) + (1.0 - gate) * carried
        state, cell = body.where(is_word, new_state, state), body.where(is_word, new_cell, cell)
        return [state, cell], [state]

    sentences = words.size(1)
    states = [graph.zeros(sentences, layer.size), graph.zeros(sentences, layer.size)]
    return graph.scan(step, states, [from_input, carried, is_word], reverse=backward)[1][0]


__all__ = ["bilm_layers", "task_lstm"]
