"""A side of `benchmarks.pretraining` on PyTorch, run as a worker: this package's model, or the plain version of it."""

import contextlib
import time
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from benchmarks.peers import peak_memory, serve
from benchmarks.plain import pretraining_loss
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoStates
from elmo_hf.pretraining import PretrainingSettings
from elmo_hf.pretraining.compilation import compiled_kernels
from elmo_hf.pretraining.sparse_gradients import clip_sparse_grad_norm_, use_sparse_gradients
from elmo_hf.runtime.allocator import keep_freed_memory


def read_window(file: str) -> dict[str, torch.Tensor]:
    """What `benchmarks.pretraining` has written of a window."""
    with np.load(file) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


class Side:
    """The commands. A side's name is "ours" or "plain", with " bf16" or " compiled" behind it or not."""

    model: ElmoForPreTraining

    def load(self, side: str, config: dict[str, Any], recipe: str) -> dict[str, Any]:
        """Builds model and optimiser, and tells what they run on. All sides get the same random weights."""
        logging.disable_progress_bar()
        keep_freed_memory()  # on all sides, as the trainer does
        torch.manual_seed(0)
        self.plain, self.bf16 = side.startswith("plain"), side.endswith(" bf16")
        self.settings = PretrainingSettings.recipe(recipe)
        self.model = ElmoForPreTraining(ElmoConfig(**config)).train()
        self.sparse = not self.plain and self.settings.optimizer == "adagrad"
        if self.sparse:
            use_sparse_gradients(self.model)
        self.optimizer = self.settings.build_optimizer(self.model)
        self.states: ElmoStates | None = None
        compiled_kernels(side.endswith(" compiled")).__enter__()  # for as long as the process lives
        return {"runs on": f"PyTorch {torch.__version__}", "threads": torch.get_num_threads()}

    def step(self, window: str) -> dict[str, Any]:
        """One step, from ids to updated weights, as the trainer does it."""
        inputs = read_window(window)
        start = time.perf_counter()
        loss, states = self._loss(inputs)
        (loss * self.settings.loss_scale).backward()
        clip = clip_sparse_grad_norm_ if self.sparse else torch.nn.utils.clip_grad_norm_
        clip(self.model.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.states = ElmoStates(*(state.detach() for state in states))
        return {"seconds": time.perf_counter() - start, "loss": loss.item()}

    def _loss(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ElmoStates]:
        cast: Any = torch.autocast("cpu", torch.bfloat16) if self.bf16 else contextlib.nullcontext()
        with cast:
            if self.plain:
                return pretraining_loss(self.model, inputs, self.states)
            output = self.model(**inputs, initial_state=self.states)
            return output.loss, output.states

    def gradients(self, window: str, file: str) -> dict[str, Any]:
        """Writes the gradients of one window, without dropout, and goes back to where it was."""
        dropouts = [module for module in self.model.modules() if isinstance(module, torch.nn.Dropout)]
        rates = [module.p for module in dropouts]
        for module in dropouts:
            module.p = 0.0
        torch.manual_seed(0)  # the same samples on every side
        self._loss(read_window(window))[0].backward()
        np.savez(file, **{name: weight.grad.to_dense().numpy() for name, weight in self.model.named_parameters()})
        self.optimizer.zero_grad()
        for module, rate in zip(dropouts, rates, strict=True):
            module.p = rate
        return {}


if __name__ == "__main__":
    side = Side()
    serve({command.__name__: command for command in (side.load, side.step, side.gradients, peak_memory)})
