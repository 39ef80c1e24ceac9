"""The settings of a pretraining run, and two recipes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import nn

from ..errors import did_you_mean
from .optimizers import MuonWithAdamW, decay_groups

ADAM_BETAS = (0.9, 0.99)


@strict
@dataclass
class PretrainingSettings:
    """
    The settings of a run. The defaults are the modern recipe.

    Args:
        batch_size: The number of parallel streams of text per process.
        window: The number of words that each stream reads per window. Gradients flow back through one window.
        accumulate: The number of windows per optimiser step.
        steps: The number of optimiser steps. `None`: as many as the epochs take.
        epochs: The number of passes through the text. `None`: until the steps are done.
        seed: The seed of the weights, the dropout, the order of the text and the resets.
        reset_probability: The probability that the state is reset to zeros at the start of a sentence. The original
            never resets it, but a model that is used sentence by sentence should be trained to start from zeros.
        optimizer: "muon" (Muon for the matrices of the LSTMs, AdamW for the rest), "adamw" or "adagrad".
        learning_rate: The learning rate of the optimiser.
        weight_decay: The weight decay; biases have none.
        warmup_steps: The number of steps over which the learning rate rises from zero.
        decay_share: The share of all steps, at the end, over which the learning rate falls to zero.
        clip_norm: The maximum norm of the gradient.
        loss_scale: A factor on the loss. It matters only if the gradient is clipped; the original uses 20.
        mixed_precision: "no", "bf16", or "auto": bf16 if it is faster on this machine.
        compile: Whether to compile the element-wise operations.
        log_every, evaluate_every, save_every: The number of steps between records, evaluations and checkpoints.
        evaluate_words: The maximum number of held-out words per evaluation during training. The last evaluation uses
            all of them.
        keep_checkpoints: The number of checkpoints to keep.
    """

    batch_size: int = 128
    window: int = 20
    accumulate: int = 1
    steps: int | None = None
    epochs: int | None = 1
    seed: int = 0
    reset_probability: float | int = 0.5
    optimizer: Literal["adamw", "adagrad", "muon"] = "muon"
    learning_rate: float | int = 4e-3
    weight_decay: float | int = 0.01
    warmup_steps: int = 500
    decay_share: float | int = 0.25
    clip_norm: float | int = 1.0
    loss_scale: float | int = 1.0
    mixed_precision: Literal["auto", "no", "bf16"] = "auto"
    compile: bool = False
    log_every: int = 20
    evaluate_every: int = 1000
    save_every: int = 500
    evaluate_words: int = 50_000
    keep_checkpoints: int = 2

    def __post_init__(self):
        counts = ["batch_size", "window", "accumulate", "steps", "epochs", "log_every", "evaluate_every", "save_every"]
        for name in [*counts, "evaluate_words"]:
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"`{name}` must be 1 or more, found {value}.")
        if self.keep_checkpoints < 1:
            raise ValueError("`keep_checkpoints` must be 1 or more: the last one is what a run resumes from.")
        if self.steps is None and self.epochs is None:
            raise ValueError("The run has no end: give `steps` or `epochs`.")
        for name in ("seed", "weight_decay", "warmup_steps"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be 0 or more, found {getattr(self, name)}.")
        for name in ("reset_probability", "decay_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` must be between 0 and 1, found {getattr(self, name)}.")
        for name in ("learning_rate", "clip_norm", "loss_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be greater than 0, found {getattr(self, name)}.")

    @classmethod
    def recipe(cls, name: str, **overrides: Any) -> "PretrainingSettings":
        """The settings of a recipe, "modern" or "original", with some of them overridden."""
        if name not in RECIPES:
            raise ValueError(f"There is no recipe {name!r}: choose one of {', '.join(RECIPES)}.")
        return cls(**(RECIPES[name] | overrides))

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return dataclasses.asdict(self)

    def learning_rate_at(self, step: int, total_steps: int) -> float:
        """
        The learning rate of a step, counted from 0: it rises, stays constant, and falls to zero. It depends only on the
        arguments, so that a run can be extended until the fall begins.
        """
        rise = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        falling = self.decay_share * total_steps
        fall = min(max(total_steps - step, 0) / falling, 1.0) if falling else 1.0
        return self.learning_rate * min(rise, fall)

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimiser over the model's parameters."""
        if self.optimizer == "muon":
            return MuonWithAdamW(model, lr=self.learning_rate, weight_decay=self.weight_decay, betas=ADAM_BETAS)
        groups = decay_groups(list(model.named_parameters()))
        if self.optimizer == "adagrad":
            return torch.optim.Adagrad(
                groups, lr=self.learning_rate, initial_accumulator_value=1.0, weight_decay=self.weight_decay
            )
        return torch.optim.AdamW(
            groups, lr=self.learning_rate, betas=ADAM_BETAS, weight_decay=self.weight_decay, fused=True
        )


def unknown_names(names: Sequence[str], known: Sequence[str]) -> str:
    """The error message for unknown settings, with suggestions."""
    listed = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in names)
    return f"There is no setting or field of the config {listed}."


RECIPES: dict[str, dict[str, Any]] = {
    "modern": {},
    "original": {
        "optimizer": "adagrad",
        "learning_rate": 0.2,
        "weight_decay": 0.0,
        "warmup_steps": 0,
        "decay_share": 0.0,
        "clip_norm": 10.0,
        "loss_scale": 20.0,
        "reset_probability": 0.0,
        "mixed_precision": "no",
        "epochs": 10,
    },
}
"""Settings by recipe. The original recipe is that of bilm-tf: Adagrad, no schedule, and the state is never reset."""

__all__ = ["RECIPES", "PretrainingSettings", "unknown_names"]
