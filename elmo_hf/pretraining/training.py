"""The pretraining loop, on Accelerate: from one CPU to a cluster."""

import json
import math
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from ..errors import CheckpointError, DivergenceError, counted
from ..modeling.modeling_elmo import ElmoForPreTraining, ElmoStates
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.allocator import keep_freed_memory
from ..runtime.processes import on_cpu, sum_over_processes, this_process
from ..runtime.run_records import HISTORY
from . import checkpoints
from .compilation import compiled_kernels
from .evaluation import Perplexity, perplexity, protocol
from .history import History
from .settings import PretrainingSettings
from .sparse_gradients import clip_sparse_grad_norm_, use_sparse_gradients
from .streams import Reader, SentenceEncoder, Streams, Window
from .text import Corpus

CHECKPOINTS = "checkpoints"
LOG_LINES_EVERY = 10  # records of the history for each line of a log


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    words: int = 0  # predicted per direction, over all processes
    seconds: float = 0.0  # in the loop, over all its starts
    cpu_seconds: float = 0.0  # of the main process in the loop, over all its starts and all its threads
    losses: list[float] = field(default_factory=list)  # of the steps since the last record


class StepResult(NamedTuple):
    """Of one optimiser step."""

    loss: float  # per word, over all processes
    gradient_norm: float
    words: int  # over all processes


class Pretrainer:
    """
    Trains a model on a text, with checkpoints in a folder.

    Args:
        model: Trained in place.
        tokenizer: Its words are the targets.
        corpus: The text.
        settings: How.
        folder: Gets checkpoints and history.
        heldout: Text for evaluation.
        pretokenized: Whether words are what blanks separate, in both texts.
        total_steps: Steps of the learning rate's schedule. Default: `settings.steps`.
        show_progress: Whether the main process shows a progress bar; where standard error is no terminal, a line now
            and then.
        tracker: Name of a tracker that Accelerate knows ("tensorboard").
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        tokenizer: ElmoTokenizer,
        corpus: Corpus,
        settings: PretrainingSettings,
        folder: Path,
        *,
        heldout: Corpus | None = None,
        pretokenized: bool = False,
        total_steps: int | None = None,
        show_progress: bool = True,
        tracker: str | None = None,
    ):
        self.settings, self.folder, self.heldout = settings, folder, heldout
        if (steps := settings.steps or total_steps) is None:
            raise ValueError("`total_steps` must be given where the settings do not state `steps`.")
        self.total_steps = steps
        this_process()
        self.accelerator = Accelerator(
            cpu=on_cpu(),
            mixed_precision=settings.mixed_precision,
            log_with=tracker,
            project_dir=folder,
        )
        if self.accelerator.device.type == "cpu":
            keep_freed_memory()
        if tracker is not None:
            self.accelerator.init_trackers("tracker", config=_plain(settings.as_dict()))
        self.show_progress = show_progress and self.accelerator.is_main_process
        set_seed(settings.seed, device_specific=True)
        self.encode = SentenceEncoder(tokenizer, pretokenized)
        self.streams = Streams(
            Reader(
                corpus,
                epochs=settings.epochs,
                seed=settings.seed,
                process=self.accelerator.process_index,
                num_processes=self.accelerator.num_processes,
            ),
            self.encode,
            streams=settings.batch_size,
            window=settings.window,
            reset_probability=settings.reset_probability,
            seed=settings.seed,
        )
        alone = self.accelerator.num_processes == 1 and self.accelerator.device.type == "cpu"
        self.sparse = alone and settings.optimizer == "adagrad" and settings.weight_decay == 0
        use_sparse_gradients(model, self.sparse)
        self.model, self.optimizer = self.accelerator.prepare(model, settings.build_optimizer(model))
        self.state: ElmoStates | None = None
        self.progress = Progress()
        self.history = History(folder / HISTORY, self.accelerator)
        self._stop_signal = 0  # that this process was sent
        self.was_interrupted = False  # whether a signal, to any process, ended the loop

    @property
    def unwrapped(self) -> ElmoForPreTraining:
        """The model without what Accelerate put around it."""
        return self.accelerator.unwrap_model(self.model)

    # ---- the loop

    def train(self) -> Progress:
        """
        Runs until the steps or the text are done, or a signal (SIGTERM, Ctrl-C) comes; then saves.

        Returns:
            How far it came; `step` is less than asked for after a signal.
        """
        settings = self.settings
        self.model.train()
        with self._signals(), compiled_kernels(settings.compile), self._bar() as bar:
            logged = Progress(**vars(self.progress))
            started = self.progress.seconds - time.monotonic()
            cpu_started = self.progress.cpu_seconds - time.process_time()
            while settings.steps is None or self.progress.step < settings.steps:
                result = self.step()
                if result is None:
                    break
                self.progress.step += 1
                self.progress.words += result.words
                self.progress.seconds = started + time.monotonic()
                self.progress.cpu_seconds = cpu_started + time.process_time()
                self.progress.losses.append(result.loss)
                bar.update()
                step = self.progress.step
                if step % settings.log_every == 0:
                    self._log(result, logged, bar)
                    logged = Progress(**vars(self.progress))
                if step % settings.evaluate_every == 0:
                    self.evaluate(settings.evaluate_words)
                if step % settings.save_every == 0:
                    self.save()
                if self._stop_everywhere():
                    break
        if self.accelerator.is_main_process and self.progress.losses:
            self.history.add(self.progress.step, self._clocks())  # of the steps since the last record of a loss
        self.save()
        return self.progress

    def step(self) -> StepResult | None:
        """One optimiser step; `None` when the text of all processes has come to its end."""
        windows = [self.streams.take() for _ in range(self.settings.accumulate)]
        words = self._sum(sum(window.targets for window in windows if window is not None))
        if words == 0:
            return None
        rate = self.settings.learning_rate_at(self.progress.step, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self._accumulate([self.streams.blank() if window is None else window for window in windows], words)
        norm = self._clip()
        result = StepResult(self._sum(loss), float(norm), int(words))
        self._check(result)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return result

    def _accumulate(self, windows: list[Window], words: float) -> float:
        """Adds up the gradients of the windows; the loss is this process's part of the mean over `words`."""
        # Accelerate takes the mean over processes; their words are not equally many.
        share = words / self.accelerator.num_processes
        total = 0.0
        for number, window in enumerate(windows):
            is_last = number == len(windows) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(self.model):
                inputs = window.model_inputs(self.accelerator.device)
                output = self.model(**inputs, initial_state=self.state, num_items_in_batch=share)
                self.accelerator.backward(output.loss * self.settings.loss_scale)
            self.state = ElmoStates(*(tensor.detach() for tensor in output.states))
            total += output.loss.item() / self.accelerator.num_processes
        return total

    def _clip(self) -> torch.Tensor:
        """Bounds the gradient's norm; gives what it was."""
        if self.sparse:
            return clip_sparse_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        return self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)

    def _check(self, result: StepResult):
        """Stops before a useless gradient reaches the weights."""
        limit = 3 * math.log(self.unwrapped.config.vocab_size)
        if math.isfinite(result.gradient_norm) and result.loss < limit:
            return
        last = checkpoints.newest_complete(self.folder / CHECKPOINTS)
        raise DivergenceError(
            f"Step {self.progress.step + 1}: the loss is {result.loss:.3g} and the gradient's norm "
            f"{result.gradient_norm:.3g}. The last good checkpoint is {last or 'the start'}: resume from it with a "
            "lower learning rate."
        )

    def _sum(self, value: float) -> float:
        return sum_over_processes(value, self.accelerator)

    # ---- evaluation and records

    def evaluate(self, max_words: int | None = None) -> Perplexity | None:
        """Perplexity on the held-out text, each sentence from zeros; recorded. By the main process alone."""
        if self.heldout is None:
            return None
        result = None
        if self.accelerator.is_main_process:
            result = perplexity(self.unwrapped, self.encode, self.heldout, max_targets=max_words)
            directions = {"forward_perplexity": result.forward, "backward_perplexity": result.backward}
            record = {name: value for name, value in directions.items() if not math.isnan(value)}  # a direction less
            self.history.add(self.progress.step, record | {"heldout_words": result.targets})
            if self.show_progress:
                tqdm.write(
                    f"step {self.progress.step:,}: held-out perplexity forward {result.forward:.2f}, "
                    f"backward {result.backward:.2f} ({protocol(carry_state=False)}; "
                    f"{counted(result.targets, 'word')})"
                )
        self.accelerator.wait_for_everyone()
        return result

    def _log(self, result: StepResult, logged: Progress, bar: tqdm):
        """Records the mean loss since the last time."""
        seconds = max(self.progress.seconds - logged.seconds, 1e-9)
        losses, self.progress.losses = self.progress.losses, []
        loss, speed = sum(losses) / len(losses), (self.progress.words - logged.words) / seconds
        bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} words/s", refresh=False)
        if self.show_progress and bar.disable and self.progress.step % (LOG_LINES_EVERY * self.settings.log_every) == 0:
            left = (self.total_steps - self.progress.step) * self.progress.seconds / self.progress.step / 3600
            done = f"step {self.progress.step:,} of {self.total_steps:,}: loss {loss:.3f}"
            print(f"{done}, {speed:,.0f} words/s, {left:.1f} hours left", file=sys.stderr, flush=True)
        if self.accelerator.is_main_process:
            record = {"loss": loss, "learning_rate": self.optimizer.param_groups[0]["lr"]}
            record |= {"gradient_norm": result.gradient_norm, "words_per_second": speed}
            self.history.add(self.progress.step, record | self._clocks())

    def _clocks(self) -> dict[str, float]:
        """What the run has read and taken so far."""
        hours, cpu_hours = self.progress.seconds / 3600, self.progress.cpu_seconds / 3600
        return {"words": self.progress.words, "hours": hours, "cpu_hours": cpu_hours}

    def _bar(self) -> tqdm:
        return tqdm(
            total=self.total_steps,
            initial=self.progress.step,
            desc="pretraining",
            unit="step",
            disable=None if self.show_progress else True,
            smoothing=0.05,
        )

    # ---- checkpoints

    def save(self):
        """Writes a checkpoint, if there is none of this step. A failure leaves the ones before as they were."""
        folder, step = self.folder / CHECKPOINTS, self.progress.step
        if checkpoints.is_complete(folder / checkpoints.checkpoint_name(step)):
            return
        partial = checkpoints.partial_folder(folder, step)
        information = {"step": step, "progress": vars(self.progress)} | self._shape()
        problem = (
            self._problem_in(_make_anew, partial, main_only=True)
            or self._problem_in(self._write, partial)
            or self._problem_in(checkpoints.complete, partial, information, main_only=True)
        )
        if problem is not None:
            shutil.rmtree(partial, ignore_errors=True)
            last = checkpoints.newest_complete(folder)
            raise CheckpointError(
                f"The checkpoint of step {step} could not be written ({' '.join(str(problem).split())}). "
                + (f"The last good one is {last}: make room and resume." if last else "There is none before it.")
            )
        if self.accelerator.is_main_process:
            checkpoints.rotate(folder, self.settings.keep_checkpoints)

    def _problem_in(self, work: Callable[..., Any], *arguments: Any, main_only: bool = False) -> Exception | None:
        """Does some work, and says what went wrong with it, here or in another process. They wait for each other."""
        problem = None
        try:
            if self.accelerator.is_main_process or not main_only:
                work(*arguments)
        except (OSError, RuntimeError, SafetensorError) as error:  # a full disk, to Python, torch and safetensors
            problem = error
        failures = self._sum(float(problem is not None))
        return problem or (RuntimeError("in another process") if failures else None)

    def _write(self, folder: Path):
        """This process's part of a checkpoint."""
        self.accelerator.save_state(str(folder))  # model, optimiser, random state
        process = self.accelerator.process_index
        (folder / f"streams-{process}.json").write_text(json.dumps(self.streams.state_dict()), encoding="utf-8")
        if self.state is not None:
            tensors = {name: tensor.cpu().contiguous() for name, tensor in self.state._asdict().items()}
            save_file(tensors, folder / f"states-{process}.safetensors")

    def resume(self) -> bool:
        """Goes on from the newest complete checkpoint, if there is one."""
        checkpoint = checkpoints.newest_intact(self.folder / CHECKPOINTS)
        if checkpoint is None:
            return False
        manifest = checkpoints.read_manifest(checkpoint)
        if (found := {name: manifest[name] for name in self._shape()}) != self._shape():
            raise CheckpointError(f"{checkpoint} was made by a run of {found}, this one has {self._shape()}.")
        self.accelerator.load_state(str(checkpoint))
        process, device = self.accelerator.process_index, self.accelerator.device
        self.streams.load_state_dict(json.loads((checkpoint / f"streams-{process}.json").read_text("utf-8")))
        if (states := checkpoint / f"states-{process}.safetensors").exists():
            # Not by safetensors itself, which does not know "cpu:0", the device of one process among several.
            self.state = ElmoStates(**{name: tensor.to(device) for name, tensor in load_file(states).items()})
        self.progress = Progress(**manifest["progress"])
        self.history.forget_after(self.progress.step)
        return True

    def _shape(self) -> dict[str, Any]:
        """What must be the same for the streams to go on."""
        return {"processes": self.accelerator.num_processes, "batch_size": self.settings.batch_size}

    # ---- signals

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Within, SIGTERM and Ctrl-C let the step end, and then the loop. A second one is not waited for."""

        def remember(number, _):
            if self._stop_signal:
                raise KeyboardInterrupt
            self._stop_signal = number

        self._stop_signal, numbers = 0, (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, remember) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop_everywhere(self) -> bool:
        self.was_interrupted = self._sum(float(self._stop_signal != 0)) > 0
        return self.was_interrupted


def _make_anew(folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """What a tracker can store: no `None`."""
    return {name: value if isinstance(value, (int, float, str, bool)) else str(value) for name, value in values.items()}


__all__ = ["Pretrainer", "Progress", "StepResult"]
