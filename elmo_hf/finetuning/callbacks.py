"""Trainer callbacks: a progress bar with a line per evaluation, the schedule of evaluations, and a clock."""

import sys
import time
from typing import Any

from tqdm import tqdm
from transformers.trainer_callback import ExportableState, TrainerCallback, TrainerControl, TrainerState


class EpochReport(TrainerCallback):
    """
    Shows a progress bar over the steps if standard error is a terminal, and prints the loss and the metric of every
    evaluation.

    Args:
        metric: The metric on the development data that decides which epoch is the best.
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


class EvaluateEvery(TrainerCallback):
    """
    Evaluates and saves every few epochs, and after the last one. The Trainer must be set to do so after every epoch.

    Args:
        epochs: The number of epochs between evaluations.
    """

    def __init__(self, epochs: int):
        self.epochs = epochs

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        epoch = round(state.epoch or 0)
        is_due = epoch % self.epochs == 0 or epoch >= state.num_train_epochs
        control.should_evaluate = control.should_save = is_due


class TrainingClock(TrainerCallback, ExportableState):
    """
    Measures how long a training takes, over all its starts. The time is stored in every checkpoint.

    Attributes:
        seconds: The time up to the last checkpoint, or to the end.
    """

    def __init__(self):
        self.seconds = 0.0
        self._start = time.perf_counter()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self._start = time.perf_counter()

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self._add()  # before a checkpoint is written

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self._add()

    def _add(self):
        now = time.perf_counter()
        self.seconds, self._start = self.seconds + now - self._start, now

    def state(self) -> dict[str, Any]:
        """The state to store in a checkpoint."""
        return {"args": {}, "attributes": {"seconds": self.seconds}}


__all__ = ["EpochReport", "EvaluateEvery", "TrainingClock"]
