"""The settings of fine-tuning."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from huggingface_hub.dataclasses import strict

LARGEST_BATCH, SMALLEST_BATCH, EPOCHS, PATIENCE = 32, 4, 20, 5
LEARNING_RATE, SMALL_DATA_RATE = 1e-3, 2e-3
# With small data, the minimum number of steps per epoch, between evaluations, and of the whole training. Training does
# not stop before that either, since F1 may be zero for hundreds of steps.
EPOCH_STEPS, EVALUATION_STEPS, TRAINING_STEPS = 20, 50, 600


@strict
@dataclass
class FinetuningSettings:
    """
    The settings of a run. Settings that are `None` depend on the number of examples: see
    [`~FinetuningSettings.for_examples`].

    Args:
        learning_rate: The learning rate of AdamW. Default: 0.001, and 0.002 for small data.
        weight_decay: The weight decay of AdamW; biases and mixers have none.
        bilm_learning_rate: The learning rate of a biLM that is not frozen. Default: a tenth of the head's.
        mixer_learning_rate: The learning rate of the mixers (the weights of the layers, and gamma). Default: 50 times
            the head's.
        batch_size: The number of examples per process and step, of similar length. Default: 32, fewer for small data.
        epochs: The maximum number of epochs. Default: 20, more for small data.
        evaluation_epochs: The number of epochs between evaluations on the development data. Default: 1, more for small
            data if `epochs` is not given.
        patience: The number of evaluations without improvement after which training stops. Default: 5, more for small
            data.
        warmup_share: The share of all steps over which the learning rate rises. It then falls linearly to zero.
        clip_norm: The maximum norm of the gradient.
        seed: The seed of the weights, the dropout and the order of examples.
        cache: Where to cache the layers of a frozen biLM: "memory", "disk" or "no".
        precision: "fp32"; "bf16" trains under autocast, for GPUs; "int8" uses a frozen biLM with 8-bit weights. The
            trained weights are fp32 in all cases.
    """

    learning_rate: float | int | None = None
    bilm_learning_rate: float | int | None = None
    mixer_learning_rate: float | int | None = None
    weight_decay: float | int = 0.01
    batch_size: int | None = None
    epochs: int | None = None
    evaluation_epochs: int | None = None
    patience: int | None = None
    warmup_share: float | int = 0.05
    clip_norm: float | int = 1.0
    seed: int = 0
    cache: Literal["memory", "disk", "no"] = "memory"
    precision: Literal["fp32", "bf16", "int8"] = "fp32"

    def __post_init__(self):
        for name in ("batch_size", "epochs", "evaluation_epochs", "patience"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"`{name}` must be 1 or more, found {value}.")
        for name in ("learning_rate", "bilm_learning_rate", "mixer_learning_rate", "clip_norm"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"`{name}` must be greater than 0, found {value}.")
        for name in ("weight_decay", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be 0 or more, found {getattr(self, name)}.")
        if not 0 <= self.warmup_share <= 1:
            raise ValueError(f"`warmup_share` must be between 0 and 1, found {self.warmup_share}.")

    def for_examples(self, examples: int, num_processes: int = 1) -> "FinetuningSettings":
        """
        Returns the settings with a value for each setting that depends on the size of the data.

        Small data get smaller batches (the largest power of two from 4 to 32 with at least 20 steps per epoch), enough
        epochs for 600 steps, an evaluation every 50 steps rather than every epoch, and a patience of 600 steps; below
        640 examples also a higher learning rate. From 3,809 examples on the values are 32, 20, 1, 5 and 0.001.

        Args:
            examples: The number of training examples.
            num_processes: The number of processes that share a step.
        """
        batch_size = self.batch_size or _batch_size(examples / num_processes)
        steps = math.ceil(examples / (batch_size * num_processes))  # of an epoch
        epochs = self.epochs or max(EPOCHS, math.ceil(TRAINING_STEPS / steps))
        evaluation_epochs = self.evaluation_epochs or (1 if self.epochs else math.ceil(EVALUATION_STEPS / steps))
        patience = self.patience or (
            PATIENCE if self.epochs else max(PATIENCE, math.ceil(TRAINING_STEPS / (steps * evaluation_epochs)))
        )
        is_small = examples < EPOCH_STEPS * LARGEST_BATCH
        return dataclasses.replace(
            self,
            learning_rate=self.learning_rate or (SMALL_DATA_RATE if is_small else LEARNING_RATE),
            batch_size=batch_size,
            epochs=epochs,
            evaluation_epochs=evaluation_epochs,
            patience=patience,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return dataclasses.asdict(self)


def _batch_size(examples: float) -> int:
    batch_size = LARGEST_BATCH
    while batch_size > SMALLEST_BATCH and examples < EPOCH_STEPS * batch_size:
        batch_size //= 2
    return batch_size


__all__ = ["LARGEST_BATCH", "LEARNING_RATE", "FinetuningSettings"]
