"""Builds a head and trains it with transformers' Trainer."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import transformers  # not `from transformers import Trainer`, which takes a second: it is imported when it is used
from safetensors.torch import load_model
from torch.utils.data import Dataset, SequentialSampler
from tqdm import tqdm
from transformers.trainer_callback import TrainerState

from ..modeling.modeling_heads_elmo import ElmoTaskModel
from ..modeling.quantization_elmo import ElmoInt8Config
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.processes import on_cpu, this_process
from .callbacks import EpochReport, EvaluateEvery, TrainingClock
from .checkpoints import TRAINER_STATE, CheckpointManifests, best_checkpoint, last_intact_checkpoint
from .settings import LARGEST_BATCH, LEARNING_RATE, FinetuningSettings
from .task import Task
from .word_vectors import WordVectors

CHECKPOINTS, LAYERS = "checkpoints", "layers"
CACHE_BATCH_SIZE = 32  # sentences per batch when the layer cache is filled


class Examples(Dataset):
    """
    The features of examples, as a dataset for the Trainer.

    Args:
        examples: Examples of the task.
        task: Computes their features.
        tokenizer: The head's tokenizer.
        evaluated: Whether the examples are those of an evaluation: all windows of long ones, sorted by length, so that
            batches of consecutive examples have little padding.
    """

    def __init__(self, examples: Sequence[Any], task: Task, tokenizer: ElmoTokenizer, evaluated: bool = False):
        if not evaluated:
            self.features = [task.features(example, tokenizer) for example in examples]
        else:
            self.features = [part for example in examples for part in task.evaluation_features(example, tokenizer)]
            self.features.sort(key=lambda feature: len(feature["input_ids"]), reverse=True)

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.features[index]


def build_head(
    task: Task,
    bilm: str,
    tokenizer: ElmoTokenizer,
    vectors: WordVectors | None,
    fields: dict[str, Any],
    int8: bool = False,
) -> tuple[ElmoTaskModel, ElmoTokenizer]:
    """
    Builds a new head on a pretrained biLM, and its tokenizer.

    Args:
        task: The task that the head learns.
        bilm: The biLM: a folder, or a name on the Hub.
        tokenizer: The biLM's tokenizer.
        vectors: Static word vectors to use beside ELMo.
        fields: Fields of the head's config.
        int8: Whether to convert the biLM's weights to 8 bits. They are not trained then.
    """
    fields = task.config_fields() | fields
    if int8 and not fields.get("freeze_bilm", True):
        raise ValueError("8-bit weights do not learn: leave `freeze_bilm` true, or train in another precision.")
    if vectors is not None:
        tokenizer = vectors.tokenizer
        fields |= {"word_vector_size": vectors.vectors.shape[1], "num_word_vectors": tokenizer.vocab_size}
    level = logging.getLogger("transformers").level
    logging.getLogger("transformers").setLevel(logging.ERROR)  # no warning that the head's weights are new
    try:
        quantization = {"quantization_config": ElmoInt8Config()} if int8 else {}
        model = task.model_class.from_pretrained(bilm, dtype=torch.float32, **quantization, **fields)
    finally:
        logging.getLogger("transformers").setLevel(level)
    if vectors is not None:
        values = torch.from_numpy(vectors.vectors)
        is_known = ~values.isnan().any(dim=1)
        with torch.no_grad():
            model.word_vectors.weight[: len(values)][is_known] = values[is_known]
    return model, tokenizer


class HeadTrainer:
    """
    Trains a head, and selects the weights that are best on the development data.

    Args:
        model, tokenizer: The head and its tokenizer.
        task: The task that it learns.
        train, dev: The training and the development examples.
        settings: The settings of the training.
        folder: The folder for checkpoints.

    Attributes:
        settings: The given settings, with values for those that depend on the number of examples.
    """

    def __init__(
        self,
        model: ElmoTaskModel,
        tokenizer: ElmoTokenizer,
        task: Task,
        train: Sequence[Any],
        dev: Sequence[Any],
        settings: FinetuningSettings,
        folder: str | os.PathLike,
    ):
        if task.largest_batch is not None and settings.batch_size is None:
            settings = replace(settings, batch_size=task.largest_batch)
        settings = settings.for_examples(len(train), this_process().num_processes)
        self.model, self.tokenizer, self.task, self.settings = model, tokenizer, task, settings
        self.folder, self._filling_seconds = Path(folder), 0.0
        config = model.config
        self._keeps_layers = config.freeze_bilm and config.elmo_places != "none" and settings.cache != "no"
        self._datasets = Examples(train, task, tokenizer), Examples(dev, task, tokenizer, evaluated=True)
        self._evaluated = self._datasets[1]  # in the order of the predictions
        groups = model.param_groups(
            settings.learning_rate or LEARNING_RATE,
            settings.bilm_learning_rate,
            settings.weight_decay,
            settings.mixer_learning_rate,
        )
        self.trainer = transformers.Trainer(
            model=model,
            args=self._arguments(settings, len(train)),
            train_dataset=self._datasets[0],
            eval_dataset=self._datasets[1],
            data_collator=cast(Any, partial(task.collate, tokenizer=tokenizer)),
            compute_metrics=self._metrics,
            optimizers=(torch.optim.AdamW(groups, fused=True), None),
            callbacks=[
                EvaluateEvery(settings.evaluation_epochs or 1),
                transformers.EarlyStoppingCallback(settings.patience or 1),
                EpochReport(task.best_metric),
                TrainingClock(),
                CheckpointManifests(),
            ],
        )
        self.trainer.remove_callback(transformers.PrinterCallback)
        # The Trainer's own sampler shuffles; the metrics of some tasks need to know which prediction belongs to what.
        cast(Any, self.trainer)._get_eval_sampler = SequentialSampler
        if self._keeps_layers and model.layer_cache is None:  # last: it creates a folder
            model.cache_layers(str(self.folder / LAYERS) if settings.cache == "disk" else None)

    def _arguments(self, settings: FinetuningSettings, examples: int) -> transformers.TrainingArguments:
        batch_size, epochs = cast(int, settings.batch_size), cast(int, settings.epochs)
        steps = -(-examples // (batch_size * this_process().num_processes)) * epochs
        return transformers.TrainingArguments(
            output_dir=str(self.folder / CHECKPOINTS),
            per_device_train_batch_size=batch_size,
            per_device_eval_batch_size=max(batch_size, self.task.largest_batch or LARGEST_BATCH),
            num_train_epochs=epochs,
            bf16=settings.precision == "bf16",
            max_grad_norm=settings.clip_norm,
            lr_scheduler_type="linear",
            warmup_steps=int(settings.warmup_share * steps),
            eval_strategy="epoch",  # and `EvaluateEvery`
            save_strategy="epoch",
            logging_strategy="epoch",
            save_total_limit=2,
            load_best_model_at_end=True,
            restore_callback_states_from_checkpoint=True,
            metric_for_best_model=self.task.best_metric,
            greater_is_better=True,
            train_sampling_strategy="group_by_length",
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            use_cpu=on_cpu(),
            seed=settings.seed,
            report_to="none",
            disable_tqdm=True,  # in favour of `EpochReport`
        )

    def train(self, resume: bool = False):
        """Trains the head. With `resume`, continues from the last intact checkpoint, if there is one."""
        last = last_intact_checkpoint(self.folder / CHECKPOINTS) if resume else None
        if last is not None and self._had_stopped(last):
            return
        start = time.perf_counter()
        self._fill_layer_cache()
        self._filling_seconds = time.perf_counter() - start
        self.trainer.train(resume_from_checkpoint=None if last is None else str(last))

    def _metrics(self, prediction: Any) -> dict[str, float]:
        return self.task.metrics(prediction, self._evaluated.features, self.model.config)

    def _fill_layer_cache(self):
        """
        Runs the frozen biLM over all examples, always in the same batches. The rounding depends on the batch, and a
        resumed training should see the same layers as one that was never stopped.
        """
        if not self._keeps_layers:
            return
        features = [dataset[index] for dataset in self._datasets for index in range(len(dataset))]
        features.sort(key=lambda feature: len(feature["input_ids"]))
        batch_size = self.task.largest_batch or CACHE_BATCH_SIZE
        starts = range(0, len(features), batch_size)
        # `disable=None`: no bar if standard error is not a terminal.
        for start in tqdm(starts, desc="layers of the biLM", unit="batch", disable=None):
            batch = self.task.collate(features[start : start + batch_size], self.tokenizer).to(self.model.device)
            ids, char_ids, segments = (batch.get(name) for name in ("input_ids", "char_ids", "token_type_ids"))
            with self.trainer.accelerator.autocast():  # as in the training and the evaluation
                self.model._bilm_layers(ids, char_ids, batch["attention_mask"] != 0, segments)

    @property
    def seconds(self) -> float:
        """The time of the training over all its starts, and of the biLM before it."""
        callbacks = self.trainer.callback_handler.callbacks  # a resumed training replaces the clock
        now = next(callback.seconds for callback in callbacks if isinstance(callback, TrainingClock))
        stored = self.trainer.state.stateful_callbacks.get("TrainingClock", {}).get("attributes", {})
        return max(now, stored.get("seconds", 0.0)) + self._filling_seconds

    @property
    def best_epoch(self) -> float | None:
        """The epoch after which the weights were the best; `None` before the first evaluation."""
        state = self.trainer.state
        if not state.best_global_step or not state.global_step or state.epoch is None:
            return None
        return round(state.best_global_step * state.epoch / state.global_step, 2)

    def _had_stopped(self, checkpoint: Path) -> bool:
        """Whether early stopping had ended the training. If so, loads the best weights."""
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE))
        stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
        if stopping.get("early_stopping_patience_counter", 0) < (self.settings.patience or 1):
            return False
        self.trainer.state = state
        best = best_checkpoint(checkpoint.parent, state) or checkpoint
        load_model(self.model, str(best / "model.safetensors"))
        return True

    def evaluate(self, examples: Sequence[Any]) -> dict[str, float]:
        """Computes the metrics of the best weights."""
        self._evaluated = Examples(examples, self.task, self.tokenizer, evaluated=True)
        try:
            output = self.trainer.predict(self._evaluated, metric_key_prefix="test")
        finally:
            self._evaluated = self._datasets[1]
        return {
            name.removeprefix("test_"): value
            for name, value in output.metrics.items()
            if name.startswith("test_") and not name.endswith(("runtime", "per_second", "preparation_time"))
        }


__all__ = ["CHECKPOINTS", "LAYERS", "Examples", "HeadTrainer", "build_head"]
