"""How a head is trained."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from huggingface_hub.dataclasses import strict


@strict
@dataclass
class FinetuningSettings:
    """
    Settings of a run.

    Args:
        learning_rate, weight_decay: Of AdamW. Weight decay leaves biases and mixing weights alone.
        bilm_learning_rate: Of a biLM that is not frozen. Default: a tenth of the head's.
        batch_size: Examples per process and step, of similar length.
        epochs: At most.
        patience: Epochs without a better result on the development data before it stops.
        warmup_share: Share of all steps over which the learning rate rises; then it falls to zero, linearly.
        clip_norm: Bound of the gradient's norm.
        seed: Of weights, dropout and order.
        cache: Where to keep the layers of a frozen biLM: "memory", "disk" or "no".
    """

    learning_rate: float | int = 1e-3
    bilm_learning_rate: float | int | None = None
    weight_decay: float | int = 0.01
    batch_size: int = 32
    epochs: int = 20
    patience: int = 5
    warmup_share: float | int = 0.05
    clip_norm: float | int = 1.0
    seed: int = 0
    cache: Literal["memory", "disk", "no"] = "memory"

    def __post_init__(self):
        for name in ("batch_size", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be 1 or more, found {getattr(self, name)}.")
        for name in ("learning_rate", "bilm_learning_rate", "clip_norm"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"`{name}` must be greater than 0, found {value}.")
        for name in ("weight_decay", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be 0 or more, found {getattr(self, name)}.")
        if not 0 <= self.warmup_share <= 1:
            raise ValueError(f"`warmup_share` must be between 0 and 1, found {self.warmup_share}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return dataclasses.asdict(self)


__all__ = ["FinetuningSettings"]
