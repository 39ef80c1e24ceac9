"""The mixing weights that fine-tuned models have learned, as in the paper's Figure 2."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from ..errors import ModelError
from ..modeling.configuration_elmo import ElmoConfig
from ..publishing.mixes import stored_mixes
from ..runtime.model_loading import loading_errors
from ..runtime.named_models import find_named_model
from ..runtime.run_records import RESULTS, Records, malformed_files, shown_name
from .report import text_table

FILES = ["config.json", "*.safetensors", RESULTS]  # the files of a repository that hold its mixes


@dataclass
class LearnedMix:
    """
    One mix of one model.

    Attributes:
        model: The name of the model's folder, or its name on the Hub.
        place: "input" or "output" of a head's task layers; "model" for the mixer of a model without a head.
        weights: The share of each layer, token layer first; they sum to one.
        gamma: The factor on the mix.
        ranges: The smallest and the largest share of each layer over the seeds of the run, if there are several.
    """

    model: str
    place: str
    weights: list[float]
    gamma: float
    ranges: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class MixingWeights:
    """
    The mixes of several models.

    Attributes:
        mixes: The mixes, in the order of the models.
    """

    mixes: list[LearnedMix]

    def table(self) -> str:
        """A table with the share of each layer, and gamma."""
        layers = max(len(mix.weights) for mix in self.mixes)
        rows = []
        for mix in self.mixes:
            cells = [f"{weight:.3f}" for weight in mix.weights]
            if mix.ranges:
                cells = [f"{cell} ({low:.3f}–{high:.3f})" for cell, (low, high) in zip(cells, mix.ranges, strict=True)]
            rows.append([f"{mix.model}, {mix.place}", *cells, *[""] * (layers - len(cells)), f"{mix.gamma:.3f}"])
        notes = ["Share of each layer in the mix"]
        notes[0] += "; in brackets the range over seeds." if any(mix.ranges for mix in self.mixes) else "."
        return text_table(["", *(f"layer {layer}" for layer in range(layers)), "gamma"], rows, notes)


def mixing_weights(models: Sequence[str | os.PathLike]) -> MixingWeights:
    """
    Reads the mixes of models. Their other weights are not loaded.

    Args:
        models: Folders, or names on the Hub.
    """
    if not models:
        raise ValueError("Name at least one model.")
    return MixingWeights([mix for model in models for mix in _mixes_of(os.fspath(model))])


def _mixes_of(model: str) -> list[LearnedMix]:
    folder = _folder(model)
    with malformed_files(folder):
        mixes = stored_mixes(folder, ElmoConfig.from_pretrained(folder))
        results = Records.of(folder).results or {}
    if not mixes:
        raise ModelError(f"{model} has no mix: its head uses no ELMo, or its weights are not in safetensors files.")
    return [
        LearnedMix(shown_name(model), place, mix.weights, mix.gamma, _ranges(results, place))
        for place, mix in mixes.items()
    ]


def _folder(model: str) -> Path:
    path = find_named_model(model)
    if os.path.isdir(path):
        return Path(path)
    with loading_errors(model):
        return Path(snapshot_download(path, allow_patterns=FILES))


def _ranges(results: dict[str, Any], place: str) -> list[tuple[float, float]]:
    """The ranges over the seeds of a run of `elmo-hf finetune`; none for a single seed."""
    mixes = [record.get("mix", {}).get(place) for record in results.get("seeds", [])]
    mixes = [weights for weights in mixes if weights]
    return [(min(layer), max(layer)) for layer in zip(*mixes, strict=True)] if len(mixes) > 1 else []


__all__ = ["LearnedMix", "MixingWeights", "mixing_weights"]
