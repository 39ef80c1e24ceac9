"""
One side of a benchmark, run as a worker in that side's own environment: the timing code is the same for all.

Its imports are the standard library's and NumPy, so that what a side itself imports can be timed.
"""

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.peers import peak_memory, serve

LARGEST_BATCH = 64  # the TensorFlow graph has room for the state of so many sentences


class Batch(NamedTuple):
    """
    The same sentences in the forms that the sides read; zero where a sentence has ended.

    Attributes:
        char_ids: `(batch, words + 2, 50)`, with `<S>` and `</S>`.
        bare_char_ids: `(batch, words, 50)`, without.
        word_ids: `(batch, words)`, numbers from 1 in the file of words beside the model.
    """

    char_ids: np.ndarray
    bare_char_ids: np.ndarray
    word_ids: np.ndarray

    @classmethod
    def read(cls, file: str) -> "Batch":
        with np.load(file) as arrays:
            return cls(**arrays)


class Model(Protocol):
    """What a side does, in the order in which it is asked."""

    def imports(self) -> None: ...

    def load(self, folder: Path) -> dict[str, Any]:
        """Builds the model of the folder, and tells what it runs on."""
        ...

    def run(self, batch: Batch) -> Any: ...

    def layers(self, batch: Batch) -> Sequence[np.ndarray]:
        """Runs, and gives all layers, each `(batch, words, size)` without boundaries."""
        ...


class Ours:
    """
    This package's model, from `save_pretrained`.

    Args:
        dtype: Of the weights, by name.
        quantize: Whether to make the weights int8.
        cached_words: Size of the word cache; 0 is none.
        packs: Whether to run on packed copies of the weights.
    """

    def __init__(self, dtype: str = "float32", quantize: bool = False, cached_words: int = 0, packs: bool = True):
        self.dtype, self.quantize, self.cached_words, self.packs = dtype, quantize, cached_words, packs

    def imports(self):
        import elmo_hf  # noqa: F401, for what else it imports

    def load(self, folder: Path) -> dict[str, Any]:
        import torch
        from transformers.utils import logging

        from elmo_hf import ElmoModel

        logging.disable_progress_bar()
        self.model = ElmoModel.from_pretrained(folder, dtype=getattr(torch, self.dtype)).eval()
        if self.quantize:
            self.model.quantize()
        if not self.packs:
            self.model.pack_weights(False)
        if self.cached_words:
            self.model.cache_words(self.cached_words)
        return _torch_facts()

    def run(self, batch: Batch) -> Any:
        import torch

        with torch.inference_mode():
            return self.model(char_ids=torch.from_numpy(batch.char_ids), output_hidden_states=True).hidden_states

    def layers(self, batch: Batch) -> list[np.ndarray]:
        return [layer[:, 1:-1].float().numpy() for layer in self.run(batch)]


class AllenNLP:
    """
    AllenNLP's model, from the original HDF5 file.

    Args:
        caches_words: Whether to give it all words of the text beforehand, as it documents: it then looks up what its
            character encoder has made of them.
    """

    def __init__(self, caches_words: bool = False):
        self.caches_words = caches_words

    def imports(self):
        import simple_elmo_pytorch  # noqa: F401

    def load(self, folder: Path) -> dict[str, Any]:
        from simple_elmo_pytorch import Elmo
        from simple_elmo_pytorch.nn import util

        # The package has lost two functions of AllenNLP that its word cache calls; for `(batch, words)` they do
        # nothing.
        util.combine_initial_dims = lambda word_ids: word_ids
        util.uncombine_initial_dims = lambda vectors, size: vectors
        files = str(folder / "options.json"), str(folder / "weights.hdf5")
        words = json.loads((folder / "words.json").read_text()) if self.caches_words else None
        # It adds the boundaries by itself: kept, as on our side.
        options = {"num_output_representations": 1, "keep_sentence_boundaries": True, "vocab_to_cache": words}
        self.model = Elmo(*files, **options).eval()
        return _torch_facts()

    def run(self, batch: Batch) -> Any:
        import torch

        with torch.inference_mode():
            # It would start from where the previous call ended. Without that it has a little less to do.
            self.model._elmo_lstm._elmo_lstm.reset_states()
            word_ids = torch.from_numpy(batch.word_ids) if self.caches_words else None
            return self.model(torch.from_numpy(batch.bare_char_ids), word_ids)["activations"]

    def layers(self, batch: Batch) -> list[np.ndarray]:
        return [layer[:, 1:-1].numpy() for layer in self.run(batch)]


class TensorFlow:
    """simple_elmo, the original's graph on TensorFlow 2, in one session for all calls, as it documents for speed."""

    def imports(self):
        os.environ["TF_USE_LEGACY_KERAS"] = "1"  # its recurrent cells are only in the older Keras
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        logging.disable(logging.INFO)
        warnings.simplefilter("ignore")
        import simple_elmo  # noqa: F401

    def load(self, folder: Path) -> dict[str, Any]:
        import tensorflow as tf
        from simple_elmo import ElmoModel
        from simple_elmo.elmo import weight_layers

        self.model = ElmoModel()
        self.model.load(str(folder), max_batch_size=LARGEST_BATCH)
        mix = weight_layers("input", self.model.sentence_embeddings_op)["weighted_op"]
        self.outputs = [mix, self.model.sentence_embeddings_op["lm_embeddings"]]
        # It carries the state from call to call, in variables without a name of their own.
        states = [variable for variable in tf.compat.v1.global_variables() if "/Variable" in variable.name]
        self.reset = tf.group(*(state.initializer for state in states))
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())
        return {"tensorflow": tf.__version__, "threads": len(os.sched_getaffinity(0))}

    def run(self, batch: Batch) -> Any:
        self.session.run(self.reset)
        return self.session.run(self.outputs, {self.model.sentence_character_ids: batch.char_ids})

    def layers(self, batch: Batch) -> list[np.ndarray]:
        _, layers = self.run(batch)  # (batch, layers, words, size)
        return list(layers.swapaxes(0, 1))


class Commands:
    """What the worker answers. Batches are given as files that [`Batch`] reads."""

    def __init__(self, model: Model):
        self.model = model

    def imports(self) -> dict[str, Any]:
        """Imports what the side needs, and how long that takes."""
        begin = time.perf_counter()
        self.model.imports()
        return {"seconds": time.perf_counter() - begin}

    def load(self, folder: str) -> dict[str, Any]:
        """Builds the model, how long that takes, and what it runs on."""
        begin = time.perf_counter()
        facts = self.model.load(Path(folder))
        return {**facts, "seconds": time.perf_counter() - begin}

    def layers(self, batches: list[str], outputs: list[str]) -> dict[str, Any]:
        """Runs every batch once and keeps the layers of its words, `(layers, all words, size)`, for comparison."""
        for file, output in zip(batches, outputs, strict=True):
            batch = Batch.read(file)
            np.save(output, np.stack([layer[batch.word_ids > 0] for layer in self.model.layers(batch)]))
        return {}

    def measure(self, batches: list[str]) -> dict[str, Any]:
        """Seconds for all batches, one after the other."""
        inputs = [Batch.read(file) for file in batches]
        begin = time.perf_counter()
        for batch in inputs:
            self.model.run(batch)
        return {"seconds": time.perf_counter() - begin}


def _torch_facts() -> dict[str, Any]:
    import torch

    return {"torch": torch.__version__, "threads": torch.get_num_threads()}


if __name__ == "__main__":
    model = {"ours": Ours, "allennlp": AllenNLP, "tensorflow": TensorFlow}[sys.argv[1]](**json.loads(sys.argv[2]))
    commands = Commands(model)
    answers = (commands.imports, commands.load, commands.layers, commands.measure, peak_memory)
    serve({answer.__name__: answer for answer in answers})
