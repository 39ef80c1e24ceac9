"""Which of the model's layers are wanted, and how the words of a sentence become one vector."""

from collections.abc import Sequence

import torch

from ..errors import ModelError
from ..modeling_elmo import ElmoModel, ElmoModelOutput

Layers = str | int | Sequence[int]

NAMES = ("mix", "top", "average", "all")
POOLINGS = ("mean", "max")


class LayerChoice:
    """
    Takes the wanted layers from the model's output.

    Args:
        layers: `"mix"` (the model's own), `"top"`, `"average"` (all layers alike), a layer's number: one vector a word;
            `"all"` or a list of numbers: one for each layer. 0 is the token layer, and -1 the top.
        model: Whose layers they are.
    """

    def __init__(self, layers: Layers, model: ElmoModel):
        number = model.config.num_hidden_layers + 1
        self.layers = layers if isinstance(layers, str) else _checked_numbers(layers, number)
        if isinstance(layers, str) and layers not in NAMES:
            raise ValueError(
                f"`layers` must be one of {', '.join(NAMES)}, a number or a list of numbers, found {layers!r}."
            )
        self._mixer = model.mixer
        if layers == "mix" and self._mixer is None:
            raise ModelError(
                "This encoder was built without a mixer, as heads have it: ask for layers='average', or load its folder "
                "with ElmoEmbedder.from_pretrained."
            )
        self.mixes_whole_sentences = layers == "mix" and self._mixer.layer_norm
        self.needs_all = layers != "mix" or self.mixes_whole_sentences
        numbers = range(number) if layers == "all" else self.layers
        self.lead = () if isinstance(numbers, (str, int)) else (len(numbers),)  # dimensions before the words

    def __call__(self, output: ElmoModelOutput, lengths: Sequence[int]) -> torch.Tensor:
        """
        Args:
            output: Of one row, its sentences one after the other.
            lengths: Tokens of each of them.

        Returns:
            `(tokens, hidden_size)`, or `(layers, tokens, hidden_size)`
        """
        if not self.needs_all:
            return output.last_hidden_state[0]
        layers = [layer[0] for layer in output.hidden_states]
        if self.layers == "mix":  # its layer norm would look at other sentences too
            parts = [self._mixer(parts) for parts in zip(*(layer.split(lengths) for layer in layers), strict=True)]
            return torch.cat(parts)
        if self.layers == "average":
            return torch.stack(layers).mean(dim=0)
        if self.layers == "all":
            return torch.stack(layers)
        if isinstance(self.layers, list):
            return torch.stack([layers[layer] for layer in self.layers])
        return layers[-1 if self.layers == "top" else self.layers]


def _checked_numbers(layers: int | Sequence[int], number: int) -> int | list[int]:
    numbers = list(layers) if isinstance(layers, (list, tuple, range)) else [layers]
    for layer in numbers:
        if type(layer) is not int or not -number <= layer < number:
            raise ValueError(f"`layers` must be numbers from 0 to {number - 1} for this model, found {layer!r:.60}.")
    if not numbers:
        raise ValueError("`layers` is an empty list: name at least one layer.")
    return numbers[0] if isinstance(layers, int) else numbers


def check_pooling(pooling: str | None):
    """Refuses what is no way to pool."""
    if pooling is not None and pooling not in POOLINGS:
        raise ValueError(f"`pooling` must be None, {' or '.join(map(repr, POOLINGS))}, found {pooling!r:.60}.")


def pool(vectors: torch.Tensor, pooling: str | None) -> torch.Tensor:
    """`(…, words, size)` → `(…, size)`: their mean or maximum, zeros where there are no words; `None` leaves them."""
    if pooling is None:
        return vectors
    if vectors.shape[-2] == 0:
        return vectors.new_zeros(*vectors.shape[:-2], vectors.shape[-1])
    return vectors.mean(dim=-2) if pooling == "mean" else vectors.amax(dim=-2)


__all__ = ["NAMES", "POOLINGS", "LayerChoice", "Layers", "check_pooling", "pool"]
