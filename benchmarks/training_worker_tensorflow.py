"""
A side of `benchmarks.pretraining`, run as a worker in the environment of `simple-elmo`: the original's trainer.

Its `train` runs in a thread of its own and takes its batches from here. A step lasts from giving it a batch to its
asking for the next one.
"""

import contextlib
import io
import os
import queue
import tempfile
import threading
import time
from collections.abc import Generator
from typing import Any

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}

import numpy as np
import tensorflow as tf
from simple_elmo.training import train

from benchmarks.peers import peak_memory, serve


def trainer_options(config: dict[str, Any], streams: int, window: int) -> dict[str, Any]:
    """An `ElmoConfig`'s fields in the trainer's words, and the settings that its authors trained with."""
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": config["char_activation"],
            "embedding": {"dim": config["char_embedding_size"]},
            "filters": config["char_filters"],
            "max_characters_per_token": config["max_characters_per_token"],
            "n_characters": 261,
            "n_highway": config["num_highway_layers"],
        },
        "dropout": config["dropout"],
        "lstm": {
            "cell_clip": config["cell_clip"],
            "dim": config["cell_size"],
            "n_layers": config["num_hidden_layers"],
            "proj_clip": config["projection_clip"],
            "projection_dim": config["projection_size"],
            "use_skip_connections": config["skip_connections"],
        },
        "all_clip_norm_val": 10.0,
        "n_epochs": 1,
        "n_train_tokens": 10**12,  # it goes on for as long as it gets batches
        "batch_size": streams,
        "n_tokens_vocab": config["vocab_size"],
        "unroll_steps": window,
        "n_negative_samples_batch": config["softmax_samples"],
    }


class Batches:
    """The trainer's data: what is put into `windows`, and into `seconds` how long each took."""

    def __init__(self):
        self.windows: queue.Queue[str] = queue.Queue()
        self.seconds: queue.Queue[float | Exception] = queue.Queue()

    def iter_batches(self, batch_size: int, unroll_steps: int) -> Generator[dict[str, np.ndarray]]:
        """What the trainer calls."""
        while True:
            with np.load(self.windows.get()) as window:
                # Its characters start at 0, which here is no character.
                batch = {
                    "tokens_characters": window["char_ids"].astype(np.int32) - 1,
                    "tokens_characters_reverse": window["backward_char_ids"].astype(np.int32) - 1,
                    "next_token_id": window["labels"],
                    "next_token_id_reverse": window["backward_labels"],
                }
            start = time.perf_counter()
            yield batch
            self.seconds.put(time.perf_counter() - start)


class Side:
    """The commands."""

    def __init__(self):
        self.batches = Batches()
        self.trainer: threading.Thread | None = None

    def load(self, side: str, config: dict[str, Any], recipe: str) -> dict[str, Any]:
        """Keeps the sizes, and tells what the trainer will run on: it needs to see a window before it can be built."""
        self.config = config
        return {"runs on": f"TensorFlow {tf.__version__}", "threads": "its default"}

    def step(self, window: str) -> dict[str, Any]:
        """One step of the trainer."""
        if self.trainer is None:
            with np.load(window) as arrays:
                options = trainer_options(self.config, *arrays["labels"].shape)
            self.trainer = threading.Thread(target=self._train, args=[options], daemon=True)
            self.trainer.start()
        self.batches.windows.put(window)
        seconds = self.batches.seconds.get()
        if isinstance(seconds, Exception):
            raise seconds
        return {"seconds": seconds}

    def _train(self, options: dict[str, Any]):
        try:
            tf.compat.v1.disable_v2_behavior()  # it was written for TensorFlow 1
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                train(options, self.batches, 1, folder, folder)
        except Exception as error:
            self.batches.seconds.put(error)


if __name__ == "__main__":
    side = Side()
    serve({command.__name__: command for command in (side.load, side.step, peak_memory)})
