"""
The limit of fp32 inference: how long the matrix products of a batch take when nothing else is done.

[`products_of`] lists the products that the model needs for a batch, in their order. As a worker this module runs them
with random numbers, each with the fastest kernel for its shape that PyTorch has on a CPU.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.peers import serve
from benchmarks.worker import Batch
from elmo_hf import ElmoConfig
from elmo_hf.modeling.products_elmo import ROWS_PER_BLOCK
from elmo_hf.modeling.token_encoder_elmo import WINDOWS_PER_CHUNK, word_chunks

# Long products are also tried in pieces, whose output stays near the cache.
ROWS_PER_PIECE = 128
TRIALS = 5

Kernel = Callable[[torch.Tensor], Sequence[torch.Tensor]]


class Shape(NamedTuple):
    """
    `(rows, inputs) x (inputs, outputs)`, as many times as there are directions, each with a weight of its own.
    """

    rows: int
    inputs: int
    outputs: int
    directions: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inputs * self.outputs * self.directions


class Product(NamedTuple):
    """A product with the named weight."""

    weight: str
    shape: Shape


def products_of(config: ElmoConfig, char_ids: np.ndarray, packs: bool = True) -> list[Product]:
    """
    The products for a batch `(batch, words, 50)`, boundaries included, in the order of the model: each distinct word
    once through the character encoder, words of similar length together, their characters cut behind the longest word
    and the widest filter; then the layers, without padding.

    Args:
        packs: Whether weights are packed, as they are by default: words then go through in blocks.
    """
    words = char_ids[(char_ids > 0).any(axis=-1)]
    lengths = np.sort((np.unique(words, axis=0) != config.char_pad_id).sum(axis=1))
    distinct = len(lengths)
    widest = max(width for width, _ in config.char_filters)

    products = []
    chunks = []
    for first in range(0, distinct, ROWS_PER_BLOCK if packs else max(distinct, 1)):  # packed, so many words at a time
        block_lengths = lengths[first : first + ROWS_PER_BLOCK] if packs else lengths
        chunks += word_chunks(block_lengths.tolist(), WINDOWS_PER_CHUNK)
    for first, end, longest in chunks:
        slots = min(longest + widest, char_ids.shape[-1])
        for width, count in config.char_filters:
            shape = Shape((end - first) * (slots - width + 1), width * config.char_embedding_size, count, 1)
            products.append(Product(f"filters of {width}", shape))
    features, size, cells = config.char_feature_size, config.output_size, config.cell_size
    for layer, part in itertools.product(range(config.num_highway_layers), ("carry", "transform")):
        products.append(Product(f"highway {layer}, {part}", Shape(distinct, features, features, 1)))
    if config.token_projection:
        products.append(Product("token projection", Shape(distinct, features, size, 1)))

    lengths = (char_ids > 0).any(axis=-1).sum(axis=1)
    steps = [int((lengths > step).sum()) for step in range(lengths.max())]
    directions = config.num_directions
    for layer in range(config.num_hidden_layers):
        products.append(Product(f"layer {layer}, inputs", Shape(sum(steps), size, 4 * cells, directions)))
        for rows in steps:
            products.append(Product(f"layer {layer}, recurrence", Shape(rows, size, 4 * cells, directions)))
            if config.projection_size is not None:
                products.append(Product(f"layer {layer}, projection", Shape(rows, cells, size, directions)))
    return products


class Weight:
    """
    A weight in every layout that a kernel wants.

    Attributes:
        kernels: By name, functions from inputs `(directions, rows, inputs)` to one output a direction.
    """

    def __init__(self, shape: Shape):
        self.batched = torch.randn(shape.directions, shape.inputs, shape.outputs) / shape.inputs**0.5
        self.linear = [weight.T.contiguous() for weight in self.batched]
        self.kernels = {"bmm": self._bmm, "linear": self._linear}
        if torch.backends.mkldnn.is_available():
            self.packed = [torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_PER_PIECE) for weight in self.linear]
            self.kernels["packed"] = self._packed
        for name, kernel in list(self.kernels.items()):
            self.kernels[f"{name}, in pieces"] = _in_pieces(kernel)

    def _bmm(self, inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.bmm(inputs, self.batched).unbind()

    def _linear(self, inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        return [F.linear(rows, weight) for rows, weight in zip(inputs, self.linear, strict=True)]

    def _packed(self, inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        product = torch.ops.mkldnn._linear_pointwise
        return [product(rows, weight, None, "none", [], "") for rows, weight in zip(inputs, self.packed, strict=True)]


def _in_pieces(kernel: Kernel) -> Kernel:
    """The last piece is given: no output is kept."""

    def run(inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        output = []
        for piece in inputs.split(ROWS_PER_PIECE, dim=1):
            output = kernel(piece)
        return output

    return run


class Products:
    """The worker's commands. Batches are given as files that [`Batch`] reads."""

    def __init__(self):
        self.weights: dict[str, Weight] = {}
        self.inputs: dict[tuple[int, int, int], torch.Tensor] = {}
        self.best: dict[Shape, tuple[str, float]] = {}

    def load(self, folder: str) -> dict[str, Any]:
        """Reads the model's sizes; its weights are not needed."""
        self.config = ElmoConfig.from_pretrained(folder)
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    @torch.inference_mode()
    def choose(self, batches: list[str]) -> dict[str, Any]:
        """Finds the fastest kernel for every shape in the batches, and tells how often it is needed and how fast."""
        products = [product for batch in self._products(batches) for product in batch]
        for weight, shape in products:
            if weight not in self.weights:
                self.weights[weight] = Weight(shape)
            if shape not in self.best:
                self.best[shape] = self._fastest(self.weights[weight], shape)
        return {
            "shapes": [
                {**shape._asdict(), "count": count, "kernel": self.best[shape][0], "seconds": self.best[shape][1]}
                for shape, count in Counter(shape for _, shape in products).items()
            ]
        }

    @torch.inference_mode()
    def measure(self, batches: list[str]) -> dict[str, Any]:
        """Seconds for all products of the batches, in their order."""
        products = [product for batch in self._products(batches) for product in batch]
        calls = [
            (self.weights[weight].kernels[self.best[shape][0]], self._inputs_for(shape)) for weight, shape in products
        ]
        begin = time.perf_counter()
        for kernel, inputs in calls:
            kernel(inputs)
        return {"seconds": time.perf_counter() - begin}

    def _products(self, batches: list[str]) -> list[list[Product]]:
        return [products_of(self.config, Batch.read(file).char_ids) for file in batches]

    def _inputs_for(self, shape: Shape) -> torch.Tensor:
        key = shape.directions, shape.rows, shape.inputs
        if key not in self.inputs:
            self.inputs[key] = torch.randn(key)
        return self.inputs[key]

    def _fastest(self, weight: Weight, shape: Shape) -> tuple[str, float]:
        """Its name and its shortest time."""
        inputs = self._inputs_for(shape)
        times = {}
        for name, kernel in weight.kernels.items():
            if "pieces" in name and shape.rows <= ROWS_PER_PIECE:
                continue
            kernel(inputs)
            trials = []
            for _ in range(TRIALS):
                begin = time.perf_counter()
                kernel(inputs)
                trials.append(time.perf_counter() - begin)
            times[name] = min(trials)
        fastest = min(times, key=times.__getitem__)
        return fastest, times[fastest]


if __name__ == "__main__":
    commands = Products()
    serve({command.__name__: command for command in (commands.load, commands.choose, commands.measure)})
