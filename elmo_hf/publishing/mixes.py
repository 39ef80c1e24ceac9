"""The mixes that a stored model has learned."""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open

from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoMixer

# By place: the model's own mixer, and a head's.
MIXERS = {"model": "mixer.", "input": "input_mixer.", "output": "output_mixer."}


class Mix(NamedTuple):
    """
    Attributes:
        weights: The share of each layer, token layer first.
        gamma: What the mix is multiplied by.
    """

    weights: list[float]
    gamma: float


def stored_mixes(folder: Path, config: ElmoConfig) -> dict[str, Mix]:
    """The mixes of a model's folder by their places; only the mixers are read."""
    stored: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(tuple(MIXERS.values()))]  # noqa: SIM118
            stored |= {name: file.get_tensor(name).float() for name in names}
    mixes = {}
    for place, prefix in MIXERS.items():
        found = {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}
        if found:
            mixer = ElmoMixer(config.num_hidden_layers + 1, config.mixer_weights)
            mixer.load_state_dict(found)
            mixes[place] = Mix(mixer.layer_weights().tolist(), mixer.gamma.item())
    return mixes


__all__ = ["Mix", "stored_mixes"]
