"""What a user sees of a head's training: a bar, and a line after each epoch."""

import sys
from typing import Any

from tqdm import tqdm
from transformers.trainer_callback import TrainerCallback, TrainerControl, TrainerState


class EpochReport(TrainerCallback):
    """
    A progress bar over the steps where standard error is a terminal, and for every epoch its loss and what the
    development data say.

    Args:
        metric: Of the development data: the one that tells which epoch is the best.
    """

    def __init__(self, metric: str):
        self.metric = metric
        self._bar: tqdm | None = None
        self._loss = self._best = float("nan")

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if state.is_world_process_zero:
            options: dict[str, Any] = {"desc": "finetuning", "unit": "step", "disable": None}
            self._bar = tqdm(total=state.max_steps, initial=state.global_step, **options)
            self._best = state.best_metric if state.best_metric is not None else float("-inf")

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self._loss = float(kwargs["logs"].get("loss", self._loss))

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self._bar is not None:
            value = kwargs["metrics"][f"eval_{self.metric}"]
            best = ", the best so far" if value > self._best else ""
            self._best = max(value, self._best)
            epoch = f"epoch {state.epoch:g} of {state.num_train_epochs}"
            self._bar.write(f"{epoch}: loss {self._loss:.4f}, dev {self.metric} {value:.4f}{best}", file=sys.stderr)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self._bar is not None:
            self._bar.close()
            self._bar = None


__all__ = ["EpochReport"]
