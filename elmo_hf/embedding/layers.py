"""The choice of layers, and of the pooling."""

from collections.abc import Sequence
from typing import cast

import torch

from ..errors import ModelError, did_you_mean
from ..modeling.modeling_elmo import ElmoModel, ElmoModelOutput
from ..modeling.pooling_elmo import NO_SENTENCE_POOLING, POOLINGS

Layers = str | int | Sequence[int]

NAMES = ("mix", "top", "average", "all")


class LayerChoice:
    """
    Selects the requested layers from the model's output.

    Args:
        layers: One vector per word: `"mix"` (the model's own), `"top"`, `"average"` (all layers with equal weight) or
            the index of a layer. One vector per word and layer: `"all"` or a list of indices. 0 is the token layer, -1
            the top layer.
        model: The model whose layers are selected.
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
        self._indices = _layer_indices(layers, model.config.num_hidden_layers + 1)
        several = layers == "all" or not isinstance(layers, (str, int))
        self.lead = (len(self._indices),) if several else ()  # the dimensions before that of the words

    def __call__(self, output: ElmoModelOutput, lengths: Sequence[int]) -> list[torch.Tensor]:
        """
        Args:
            output: The output for one row that holds the sentences one after the other.
            lengths: The number of tokens of each sentence.

        Returns:
            One tensor `(tokens, hidden_size)`, or one per selected layer.
        """
        if not self.needs_all:
            return [cast(torch.Tensor, output.last_hidden_state)[0]]
        layers = [layer[0] for layer in cast(tuple[torch.Tensor, ...], output.hidden_states)]
        if self.is_mix:  # sentence by sentence: the layer norm would take its statistics over all of them
            sentences = zip(*(layer.split(lengths) for layer in layers), strict=True)
            return [torch.cat([self._mixer(sentence) for sentence in sentences])]
        if self._is_average:
            return [torch.stack(layers).mean(dim=0)]
        return [layers[index] for index in self._indices]

    def stack(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stacks the result of a call into one tensor, `(tokens, hidden_size)` or `(layers, tokens, hidden_size)`."""
        return torch.stack(list(layers)) if self.lead else layers[0]


def _layer_indices(layers: Layers, num_layers: int) -> list[int]:
    """The indices of the layers to select, or to mix."""
    if isinstance(layers, str):
        if layers not in NAMES:
            suggestion = did_you_mean(layers, NAMES)
            raise ValueError(
                f"`layers` must be one of {', '.join(NAMES)}, or numbers, found {layers!r:.60}{suggestion}."
            )
        return [-1] if layers == "top" else list(range(num_layers))
    indices = list(layers) if isinstance(layers, (list, tuple, range)) else [layers]
    for index in indices:
        if type(index) is not int or not -num_layers <= index < num_layers:
            raise ValueError(f"`layers` of this model are numbered from 0 to {num_layers - 1}, found {index!r:.60}.")
    if not indices:
        raise ValueError("`layers` is an empty list: name at least one.")
    return cast(list[int], indices)


def check_pooling(pooling: str | None, layers: Layers, boundaries: bool, model: ElmoModel):
    """Raises an error for a pooling that the embedder or the model does not have, or that does not go with the rest."""
    if pooling is not None and pooling not in POOLINGS:
        known = ", ".join(map(repr, POOLINGS))
        raise ValueError(f"`pooling` must be None or one of {known}, found {pooling!r:.60}.")
    if pooling != "sentence":
        return
    if model.sentence_pooling is None:
        raise ModelError(NO_SENTENCE_POOLING)
    if layers != "mix":
        raise ValueError(
            "`pooling='sentence'` has layers of its own (`config.sentence_layers`): leave out `layers`, or ask for "
            "`pooling='mean'`."
        )
    if boundaries:
        raise ValueError("`pooling='sentence'` only pools words: leave out `boundaries`.")


__all__ = ["NAMES", "LayerChoice", "Layers", "check_pooling"]
