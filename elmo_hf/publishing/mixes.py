"""Reads the mixing weights of a saved model."""

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
    The weights of a mixer.

    Attributes:
        weights: The share of each layer, the token layer first.
        gamma: The factor on the mix.
    """

    weights: list[float]
    gamma: float


def stored_mixes(folder: Path, config: ElmoConfig) -> dict[str, Mix]:
    """The mixes of a model's folder by place. Only the weights of the mixers are read."""
    stored: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(tuple(MIXERS.values()))]  # noqa: SIM118
            stored |= {name: file.get_tensor(name).float() for name in names}
    mixes = {}
    for place, prefix in MIXERS.items():
        state = {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}
        if state:
            mixer = ElmoMixer(config.num_hidden_layers + 1, config.mixer_weights)
            mixer.load_state_dict(state)
            mixes[place] = Mix(mixer.layer_weights().tolist(), mixer.gamma.item())
    return mixes


__all__ = ["Mix", "stored_mixes"]
