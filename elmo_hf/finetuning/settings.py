"""How a head is trained."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from huggingface_hub.dataclasses import strict

LARGEST_BATCH, SMALLEST_BATCH, EPOCHS, PATIENCE = 32, 4, 20, 5
LEARNING_RATE, SMALL_DATA_RATE = 1e-3, 2e-3
# Small data should have at least as many steps in an epoch, from one evaluation to the next, and in the whole training
# (before which it does not stop either: F1 may be zero for hundreds of steps).
EPOCH_STEPS, EVALUATION_STEPS, TRAINING_STEPS = 20, 50, 600


@strict
@dataclass
class FinetuningSettings:
    """
    Settings of a run. Those that are `None` depend on the number of examples: see
    [`~FinetuningSettings.for_examples`].

    Args:
        learning_rate: Of AdamW. Default: 0.001, and 0.002 for small data.
        weight_decay: Of AdamW. It leaves biases and mixing weights alone.
        bilm_learning_rate: Of a biLM that is not frozen. Default: a tenth of the head's.
        batch_size: Examples per process and step, of similar length. Default: 32, fewer for small data.
        epochs: At most. Default: 20, more for small data.
        evaluation_epochs: Epochs from one evaluation on the development data to the next. Default: 1, more for small
            data if `epochs` is not given.
        patience: Evaluations without a better result before the training stops. Default: 5, more for small data.
        warmup_share: Share of all steps over which the learning rate rises; then it falls to zero, linearly.
        clip_norm: Bound of the gradient's norm.
        seed: Of weights, dropout and order.
        cache: Where to keep the layers of a frozen biLM: "memory", "disk" or "no".
        precision: "fp32"; "bf16" trains under autocast, for GPUs; "int8" has a frozen biLM with 8-bit weights. What
            learns is fp32 in all cases.
    """

    learning_rate: float | int | None = None
    bilm_learning_rate: float | int | None = None
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
        for name in ("learning_rate", "bilm_learning_rate", "clip_norm"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"`{name}` must be greater than 0, found {value}.")
        for name in ("weight_decay", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be 0 or more, found {getattr(self, name)}.")
        if not 0 <= self.warmup_share <= 1:
            raise ValueError(f"`warmup_share` must be between 0 and 1, found {self.warmup_share}.")

    def for_examples(self, examples: int, num_processes: int = 1) -> "FinetuningSettings":
        """
        The same with a value for each setting that depends on the size of the data.

        Small data get smaller batches (the largest power of two from 4 to 32 that gives an epoch 20 steps), as many
        epochs as make 600 steps, an evaluation every 50 steps rather than every epoch, and the patience to wait 600
        steps for a better one; below 640 examples also a higher learning rate. From 3,809 examples on these are 32, 20,
        1, 5 and 0.001.

        Args:
            examples: To learn from.
            num_processes: That share a step.
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
