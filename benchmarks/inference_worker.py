"""One side of `benchmarks.inference`, run as a worker in that side's own environment: the timing code is the same."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers import serve

Run = Callable[[torch.Tensor], list[torch.Tensor]]  # character ids → all layers, (batch, words, size) each


def load_ours(folder: Path) -> Run:
    """This package's model, from `save_pretrained`."""
    from transformers.utils import logging

    from elmo_hf import ElmoModel

    logging.disable_progress_bar()
    model = ElmoModel.from_pretrained(folder).eval()
    return lambda char_ids: model(char_ids=char_ids, output_hidden_states=True).hidden_states


def load_allennlp(folder: Path) -> Run:
    """AllenNLP's model, from the original HDF5 file. It adds the boundaries by itself: here they are kept."""
    from simple_elmo_pytorch import Elmo

    files = str(folder / "options.json"), str(folder / "weights.hdf5")
    model = Elmo(*files, num_output_representations=1, keep_sentence_boundaries=True).eval()

    def run(char_ids: torch.Tensor) -> list[torch.Tensor]:
        # It would start from where the previous call ended. Without that it has a little less to do.
        model._elmo_lstm._elmo_lstm.reset_states()
        return model(char_ids)["activations"]

    return run


class Side:
    """The commands. Batches are given as `.npy` files of character ids, `(batch, words, 50)`."""

    run: Run

    def load(self, loader: str, folder: str) -> dict[str, Any]:
        """Builds the model and tells what it runs on."""
        load = {"ours": load_ours, "allennlp": load_allennlp}[loader]
        self.run = torch.inference_mode()(load(Path(folder)))
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def warm_up(self, batches: list[str], outputs: list[str]) -> dict[str, Any]:
        """Runs every batch once and keeps the layers, `(layers, batch, words, size)`, for the comparison."""
        for char_ids, output in zip(_read(batches), outputs, strict=True):
            np.save(output, np.stack([layer.numpy() for layer in self.run(char_ids)]))
        return {}

    def measure(self, batches: list[str]) -> dict[str, Any]:
        """Seconds for all batches, one after the other."""
        inputs = _read(batches)
        start = time.perf_counter()
        for char_ids in inputs:
            self.run(char_ids)
        return {"seconds": time.perf_counter() - start}

    def peak_memory(self) -> dict[str, Any]:
        """Largest resident size of this process since the last such question, where the system tells (Linux)."""
        try:
            status = Path("/proc/self/status").read_text()
            Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
        except OSError:
            status = ""
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        return {"megabytes": int(peak[1]) // 1024 if peak else None}


def _read(batches: list[str]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.load(batch)) for batch in batches]


if __name__ == "__main__":
    side = Side()
    serve({command.__name__: command for command in (side.load, side.warm_up, side.measure, side.peak_memory)})
