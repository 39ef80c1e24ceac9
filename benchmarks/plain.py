"""
The biLM in ordinary PyTorch, to compare training with: a loop over time that autograd follows step by step, the cell as
separate operations, `conv1d` over all 50 characters of every word, all logits at once.

The parameters are those of a model of this package, whose gradients must come out the same.
"""

from typing import Any

import torch
from torch.nn import functional as F

from elmo_hf import ElmoForPreTraining, ElmoModel, ElmoStates
from elmo_hf.modeling.lstm_elmo import ElmoRecurrentLayer
from elmo_hf.modeling.modeling_elmo import ElmoModelOutput
from elmo_hf.modeling.softmax_elmo import ElmoAdaptiveSoftmax, ElmoSoftmax, log_expected_count, log_uniform_sample
from elmo_hf.modeling.token_encoder_elmo import ElmoTokenEncoder


def token_vectors(encoder: ElmoTokenEncoder, char_ids: torch.Tensor) -> torch.Tensor:
    """`(words, 50)` → `(words, output_size)`"""
    characters = encoder.characters
    chars = F.embedding(char_ids.long(), characters.char_embeddings.weight).transpose(1, 2)  # (words, 16, 50)
    convolved = [F.conv1d(chars, filters.weight, filters.bias) for filters in characters.convolutions]
    features = characters.activation(torch.cat([responses.amax(dim=2) for responses in convolved], dim=1))
    for highway in characters.highways:
        gate = torch.sigmoid(F.linear(features, highway.carry.weight, highway.carry.bias))
        transformed = torch.relu(F.linear(features, highway.transform.weight, highway.transform.bias))
        features = gate * transformed + (1 - gate) * features
    return features if encoder.projection is None else encoder.projection(features)


def lstm(
    layer: ElmoRecurrentLayer,
    direction: int,
    inputs: torch.Tensor,
    keep: torch.Tensor,
    mask: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    One direction of one layer, in reading order.

    Args:
        inputs: `(batch, words, size)`
        keep: `(batch, words)`, 0 where the state is set back to zeros before the word.
        mask: `(batch, words)`, true for words. The others leave the state as it is.
        hidden: `(batch, size)`
        cell: `(batch, cells)`
    """
    inputs = layer.dropout(inputs)
    weight, bias = torch.cat([layer.input_weight[direction], layer.recurrent_weight[direction]]), layer.bias[direction]
    outputs = []
    for word in range(inputs.shape[1]):
        there, keep_word = mask[:, word, None], keep[:, word, None]
        hidden, cell = hidden * keep_word, cell * keep_word
        gates = torch.cat([inputs[:, word], hidden], dim=1) @ weight + bias
        i, j, f, o = gates.chunk(4, dim=1)
        new_cell = torch.sigmoid(f + layer.forget_bias) * cell + torch.sigmoid(i) * torch.tanh(j)
        if layer.cell_clip is not None:
            new_cell = new_cell.clamp(-layer.cell_clip, layer.cell_clip)
        output = torch.sigmoid(o) * torch.tanh(new_cell)
        if layer.projection_weight is not None:
            output = output @ layer.projection_weight[direction]
            if layer.projection_clip is not None:
                output = output.clamp(-layer.projection_clip, layer.projection_clip)
        hidden, cell = torch.where(there, output, hidden), torch.where(there, new_cell, cell)
        outputs.append(hidden)
    result = torch.stack(outputs, dim=1)
    return result + inputs if layer.residual else result, hidden, cell


def direction_layers(
    elmo: ElmoModel, direction: int, tokens: torch.Tensor, keep: torch.Tensor, mask: torch.Tensor, states: ElmoStates
) -> tuple[list[torch.Tensor], ElmoStates]:
    """All layers of one direction in reading order, `(batch, words, size)` each, and their states after that."""
    layers, hiddens, cells = [tokens], [], []
    for index, layer in enumerate(elmo.layers):
        hidden, cell = states.hidden[:, index, direction], states.cell[:, index, direction]
        output, hidden, cell = lstm(layer, direction, layers[-1], keep, mask, hidden, cell)
        layers.append(output)
        hiddens.append(hidden)
        cells.append(cell)
    return layers, ElmoStates(torch.stack(hiddens, dim=1), torch.stack(cells, dim=1))


def run_model(elmo: ElmoModel, input_ids, char_ids, attention_mask, **_: Any) -> ElmoModelOutput:
    """What a head asks of its [`ElmoModel`]: every layer of both directions, for whole sentences."""
    mask = attention_mask != 0
    tokens = token_vectors(elmo.token_encoder, char_ids.flatten(0, 1)).unflatten(0, mask.shape)
    keep, states = torch.ones_like(mask, dtype=tokens.dtype), elmo._initial_states(None, mask, 2)
    forward, _ = direction_layers(elmo, 0, tokens, keep, mask, states)
    backward, _ = direction_layers(elmo, 1, tokens.flip(1), keep, mask.flip(1), states)
    both = [torch.cat([there, back.flip(1)], dim=-1) for there, back in zip(forward, backward, strict=True)]
    layers = tuple(layer * mask.unsqueeze(-1) for layer in both)
    return ElmoModelOutput(last_hidden_state=layers[-1], hidden_states=layers)


def pretraining_loss(
    model: ElmoForPreTraining, inputs: dict[str, torch.Tensor], states: ElmoStates | None
) -> tuple[torch.Tensor, ElmoStates]:
    """
    The loss of [`ElmoForPreTraining`] and the states after the window.

    Args:
        inputs: Of `Window.model_inputs`, every stream full.
    """
    elmo = model.elmo
    mask = torch.ones_like(inputs["labels"], dtype=torch.bool)
    keep = 1 - inputs["state_resets"].float()
    states = elmo._initial_states(states, mask, 2)
    losses, after = [], []
    for direction, prefix in enumerate(["", "backward_"]):
        char_ids, labels = inputs[f"{prefix}char_ids"], inputs[f"{prefix}labels"].flatten()
        tokens = token_vectors(elmo.token_encoder, char_ids.flatten(0, 1)).unflatten(0, mask.shape)
        layers, state = direction_layers(elmo, direction, tokens, keep, mask, states)
        after.append(state)
        losses.append(softmax_loss(model.softmax, model.dropout(layers[-1]).flatten(0, 1), labels) / len(labels))
    return (losses[0] + losses[1]) / 2, ElmoStates(*(torch.stack(kind, dim=2) for kind in zip(*after, strict=True)))


def softmax_loss(softmax: ElmoSoftmax | ElmoAdaptiveSoftmax, hidden: torch.Tensor, labels: torch.Tensor):
    """The summed loss, all logits at once."""
    if isinstance(softmax, ElmoAdaptiveSoftmax):
        return _adaptive_loss(softmax, hidden, labels)
    if softmax.num_samples is None:
        return F.cross_entropy(F.linear(hidden, softmax.weight, softmax.bias), labels, reduction="sum")
    vocab_size = len(softmax.bias)
    samples, tries = log_uniform_sample(softmax.num_samples, vocab_size)
    bias = softmax.bias[samples] - log_expected_count(samples, tries, vocab_size)
    logits = F.linear(hidden, softmax.weight[samples], bias)
    logits = logits.masked_fill(labels.unsqueeze(1) == samples, -torch.inf)
    true_bias = softmax.bias[labels] - log_expected_count(labels, tries, vocab_size)
    true_logits = (hidden * softmax.weight[labels]).sum(dim=1) + true_bias
    everything = torch.cat([true_logits.unsqueeze(1), logits], dim=1)
    return F.cross_entropy(everything, torch.zeros_like(labels), reduction="sum")


def _adaptive_loss(softmax: ElmoAdaptiveSoftmax, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As `torch.nn.AdaptiveLogSoftmaxWithLoss` does it."""
    first, head_labels, loss = softmax.bounds[0], labels.clone(), hidden.new_zeros(())
    for group, (down, up) in enumerate(softmax.tails):
        start, stop = softmax.bounds[group], softmax.bounds[group + 1]
        members = (labels >= start) & (labels < stop)
        head_labels[members] = first + group
        logits = F.linear(F.linear(hidden[members], down.weight), up.weight, up.bias)
        loss = loss + F.cross_entropy(logits, labels[members] - start, reduction="sum")
    logits = F.linear(hidden, softmax.head.weight, softmax.head.bias)
    return loss + F.cross_entropy(logits, head_labels, reduction="sum")


__all__ = ["pretraining_loss", "run_model", "softmax_loss", "token_vectors"]
