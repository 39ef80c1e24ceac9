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
LOG_LINES_EVERY = 10  # history records per line of the log
UNTIMED_STEPS, TIMED_STEPS = 5, 20  # at the start: the first steps compile and fill caches, the next ones are timed


@dataclass
class Progress:
    """The progress of a run."""

    step: int = 0
    words: int = 0  # predicted words per direction, over all processes
    seconds: float = 0.0  # in the loop, over all its starts
    cpu_seconds: float = 0.0  # of the main process in the loop, over all its starts and all its threads
    losses: list[float] = field(default_factory=list)  # of the steps since the last record


class StepResult(NamedTuple):
    """The result of one optimiser step."""

    loss: float  # per word, over all processes
    gradient_norm: float
    words: int  # over all processes


class Pretrainer:
    """
    Trains a model on a text, with checkpoints in a folder.

    Args:
        model: The model; it is trained in place.
        tokenizer: The model's tokenizer. Its words are the targets.
        corpus: The text to train on.
        settings: The settings of the training.
        folder: The folder for checkpoints and history.
        heldout: The text to evaluate on.
        pretokenized: Whether words in both texts are separated by blanks. Otherwise the tokenizer splits the texts.
        total_steps: The number of steps of the learning rate schedule. Default: `settings.steps`.
        show_progress: Whether the main process shows a progress bar, or prints a line every
            `LOG_LINES_EVERY` records if standard error is not a terminal.
        tracker: The name of a tracker that Accelerate knows, such as "tensorboard".
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
        is_one_cpu_process = self.accelerator.num_processes == 1 and self.accelerator.device.type == "cpu"
        self.sparse = is_one_cpu_process and settings.optimizer == "adagrad" and settings.weight_decay == 0
        use_sparse_gradients(model, self.sparse)
        self.model, self.optimizer = self.accelerator.prepare(model, settings.build_optimizer(model))
        self.state: ElmoStates | None = None
        self.progress = Progress()
        self.history = History(folder / HISTORY, self.accelerator)
        self._stop_signal = 0  # the signal that this process has received
        self.was_interrupted = False  # whether a signal to any process has ended the loop

    @property
    def unwrapped(self) -> ElmoForPreTraining:
        """The model without Accelerate's wrappers."""
        return self.accelerator.unwrap_model(self.model)

    # ---- the loop

    def train(self) -> Progress:
        """
        Trains until the steps or the text are done, or until a signal (SIGTERM, Ctrl-C) arrives. Then saves a
        checkpoint.

        Returns:
            The progress. After a signal, `step` is less than the number of steps.
        """
        settings = self.settings
        self.model.train()
        with self._signals(), compiled_kernels(settings.compile), self._bar() as bar:
            logged = timed = first = Progress(**vars(self.progress))
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
                if step - first.step == UNTIMED_STEPS:
                    timed = Progress(**vars(self.progress))
                elif step - first.step == UNTIMED_STEPS + TIMED_STEPS:
                    self._print_estimate(timed)
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
            self.history.add(self.progress.step, self._clocks())  # for the steps since the last record
        self.save()
        return self.progress

    def step(self) -> StepResult | None:
        """Makes one optimiser step. Returns `None` if the text of all processes has ended."""
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
        """Accumulates the gradients of the windows. Returns this process's part of the mean loss over `words`."""
        # Accelerate averages over processes, but the processes have different numbers of words.
        share = words / self.accelerator.num_processes
        total = 0.0
        for index, window in enumerate(windows):
            is_last = index == len(windows) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(self.model):
                inputs = window.model_inputs(self.accelerator.device)
                output = self.model(**inputs, initial_state=self.state, num_items_in_batch=share)
                self.accelerator.backward(output.loss * self.settings.loss_scale)
            self.state = ElmoStates(*(tensor.detach() for tensor in output.states))
            total += output.loss.item() / self.accelerator.num_processes
        return total

    def _clip(self) -> torch.Tensor:
        """Clips the norm of the gradient. Returns the norm before clipping."""
        if self.sparse:
            return clip_sparse_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        return self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)

    def _check(self, result: StepResult):
        """Raises an error if the training has diverged, before the gradient is applied."""
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
        """
        Computes and records the perplexity on the held-out text; every sentence starts from zeros. Only the main
        process computes; the others wait and return `None`.
        """
        if self.heldout is None:
            return None
        result = None
        if self.accelerator.is_main_process:
            result = perplexity(self.unwrapped, self.encode, self.heldout, max_targets=max_words)
            directions = {"forward_perplexity": result.forward, "backward_perplexity": result.backward}
            record = {name: value for name, value in directions.items() if not math.isnan(value)}  # missing directions
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
        """Records the mean loss since the last record."""
        seconds = max(self.progress.seconds - logged.seconds, 1e-9)
        losses, self.progress.losses = self.progress.losses, []
        loss, speed = sum(losses) / len(losses), (self.progress.words - logged.words) / seconds
        bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} words/s", refresh=False)
        if self.show_progress and bar.disable and self.progress.step % (LOG_LINES_EVERY * self.settings.log_every) == 0:
            steps_left = max(self.total_steps - self.progress.step, 0)  # streams may end later than planned
            left = steps_left * self.progress.seconds / self.progress.step / 3600
            done = f"step {self.progress.step:,} of {self.total_steps:,}: loss {loss:.3f}"
            print(f"{done}, {speed:,.0f} words/s, {left:.1f} hours left", file=sys.stderr, flush=True)
        if self.accelerator.is_main_process:
            record = {"loss": loss, "learning_rate": self.optimizer.param_groups[0]["lr"]}
            record |= {"gradient_norm": result.gradient_norm, "words_per_second": speed}
            self.history.add(self.progress.step, record | self._clocks())

    def _print_estimate(self, timed: Progress):
        """Prints the speed of the steps since `timed`, and how long the rest of the run takes at this speed."""
        if not self.show_progress:
            return
        words, seconds = self.progress.words - timed.words, max(self.progress.seconds - timed.seconds, 1e-9)
        left = self.total_steps - self.progress.step
        total = self.progress.words + left * words // TIMED_STEPS
        interval = tqdm.format_interval(left * seconds / TIMED_STEPS)
        tqdm.write(
            f"estimate: {words / seconds:,.0f} words/s, {3600 * words / seconds:,.0f} words per hour; "
            f"{self.total_steps:,} steps are {total:,} words and take {interval} from now, without evaluations"
        )

    def _clocks(self) -> dict[str, float]:
        """The number of words read and the time taken so far."""
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
        """Writes a checkpoint unless this step has one. After a failure, the earlier checkpoints are unchanged."""
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
        """
        Calls a function in all processes, or in the main process only, and waits for all of them. Returns the error if
        it failed in this process or in another one.
        """
        problem = None
        try:
            if self.accelerator.is_main_process or not main_only:
                work(*arguments)
        except (OSError, RuntimeError, SafetensorError) as error:  # a full disk, in Python, torch and safetensors
            problem = error
        failures = self._sum(float(problem is not None))
        return problem or (RuntimeError("in another process") if failures else None)

    def _write(self, folder: Path):
        """Writes this process's part of a checkpoint."""
        self.accelerator.save_state(str(folder))  # model, optimiser, random state
        process = self.accelerator.process_index
        (folder / f"streams-{process}.json").write_text(json.dumps(self.streams.state_dict()), encoding="utf-8")
        if self.state is not None:
            tensors = {name: tensor.cpu().contiguous() for name, tensor in self.state._asdict().items()}
            save_file(tensors, folder / f"states-{process}.safetensors")

    def resume(self) -> bool:
        """Continues from the newest intact checkpoint. Returns whether there is one."""
        checkpoint = checkpoints.newest_intact(self.folder / CHECKPOINTS)
        if checkpoint is None:
            return False
        manifest = checkpoints.read_manifest(checkpoint)
        if (stored := {name: manifest[name] for name in self._shape()}) != self._shape():
            raise CheckpointError(f"{checkpoint} was made by a run of {stored}, this one has {self._shape()}.")
        decays = [group["weight_decay"] for group in self.optimizer.param_groups]
        self.accelerator.load_state(str(checkpoint))
        for group, decay in zip(self.optimizer.param_groups, decays, strict=True):
            group["weight_decay"] = decay  # the setting may have changed, and the checkpoint has the former one
        process, device = self.accelerator.process_index, self.accelerator.device
        self.streams.load_state_dict(json.loads((checkpoint / f"streams-{process}.json").read_text("utf-8")))
        if (states := checkpoint / f"states-{process}.safetensors").exists():
            # Moved here, since safetensors does not accept "cpu:0", the device of one process among several.
            self.state = ElmoStates(**{name: tensor.to(device) for name, tensor in load_file(states).items()})
        self.progress = Progress(**manifest["progress"])
        self.history.forget_after(self.progress.step)
        self.accelerator.wait_for_everyone()  # all have read their part
        if self.accelerator.is_main_process:
            checkpoints.remove_newer(checkpoint)  # they are damaged, and their steps are made again
        self.accelerator.wait_for_everyone()
        return True

    def _shape(self) -> dict[str, Any]:
        """The settings that must be the same for the streams to continue."""
        return {"processes": self.accelerator.num_processes, "batch_size": self.settings.batch_size}

    # ---- signals

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Inside, SIGTERM and Ctrl-C end the loop after the current step. A second signal ends it immediately."""

        def remember(received, _):
            if self._stop_signal:
                raise KeyboardInterrupt
            self._stop_signal = received

        self._stop_signal = 0
        before = {caught: signal.signal(caught, remember) for caught in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for caught, handler in before.items():
                signal.signal(caught, handler)

    def _stop_everywhere(self) -> bool:
        self.was_interrupted = self._sum(float(self._stop_signal != 0)) > 0
        return self.was_interrupted


def _make_anew(folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The values that a tracker can store: numbers and text, not `None`."""
    return {name: value if isinstance(value, (int, float, str, bool)) else str(value) for name, value in values.items()}


__all__ = ["Pretrainer", "Progress", "StepResult"]
