"""Which of the model's layers are wanted, and which pooling."""

from collections.abc import Sequence
from typing import cast

import torch

from ..errors import ModelError, did_you_mean
from ..modeling.modeling_elmo import ElmoModel, ElmoModelOutput
from ..modeling.pooling_elmo import POOLINGS

Layers = str | int | Sequence[int]

NAMES = ("mix", "top", "average", "all")


class LayerChoice:
    """
    Takes the wanted layers from the model's output.

    Args:
        layers: `"mix"` (the model's own), `"top"`, `"average"` (all layers alike), a layer's number: one vector a word;
            `"all"` or a list of numbers: one for each layer. 0 is the token layer, and -1 the top.
        model: Whose layers they are.
    """

    def __init__(self, layers: Layers, model: ElmoModel):
        self.is_mix = layers == "mix"
        self._mixer = model.mixer
        if self.is_mix and self._mixer is None:
            raise ModelError(
                "This encoder has no mixer, as those inside of heads: ask for layers='average', or load the head's "
                "folder with ElmoEmbedder.from_pretrained."
            )
        self.mixes_whole_sentences = self.is_mix and self._mixer.layer_norm
        self.needs_all = not self.is_mix or self.mixes_whole_sentences
        self._is_average = layers == "average"
        self._numbers = _layer_numbers(layers, model.config.num_hidden_layers + 1)
        several = layers == "all" or not isinstance(layers, (str, int))
        self.lead = (len(self._numbers),) if several else ()  # the dimensions before that of the words

    def __call__(self, output: ElmoModelOutput, lengths: Sequence[int]) -> list[torch.Tensor]:
        """
        Args:
            output: Of one row, its sentences one after the other.
            lengths: Tokens of each of them.

        Returns:
            `(tokens, hidden_size)`, once, or for each layer of `lead`.
        """
        if not self.needs_all:
            return [cast(torch.Tensor, output.last_hidden_state)[0]]
        layers = [layer[0] for layer in cast(tuple[torch.Tensor, ...], output.hidden_states)]
        if self.is_mix:  # its layer norm would look at other sentences too
            sentences = zip(*(layer.split(lengths) for layer in layers), strict=True)
            return [torch.cat([self._mixer(sentence) for sentence in sentences])]
        if self._is_average:
            return [torch.stack(layers).mean(dim=0)]
        return [layers[number] for number in self._numbers]

    def together(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """What a call gives as one tensor, `(tokens, hidden_size)` or `(layers, tokens, hidden_size)`."""
        return torch.stack(list(layers)) if self.lead else layers[0]


def _layer_numbers(layers: Layers, count: int) -> list[int]:
    """The numbers of the layers to take, or to mix."""
    if isinstance(layers, str):
        if layers not in NAMES:
            suggestion = did_you_mean(layers, NAMES)
            raise ValueError(
                f"`layers` must be one of {', '.join(NAMES)}, or numbers, found {layers!r:.60}{suggestion}."
            )
        return [-1] if layers == "top" else list(range(count))
    numbers = list(layers) if isinstance(layers, (list, tuple, range)) else [layers]
    for number in numbers:
        if type(number) is not int or not -count <= number < count:
            raise ValueError(f"`layers` of this model are numbered from 0 to {count - 1}, found {number!r:.60}.")
    if not numbers:
        raise ValueError("`layers` is an empty list: name at least one.")
    return cast(list[int], numbers)


def check_pooling(pooling: str | None):
    """Refuses a pooling that the embedder does not offer."""
    if pooling is not None and pooling not in POOLINGS:
        raise ValueError(f"`pooling` must be None, {' or '.join(map(repr, POOLINGS))}, found {pooling!r:.60}.")


__all__ = ["NAMES", "LayerChoice", "Layers", "check_pooling"]
