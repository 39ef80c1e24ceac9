"""Random batches for graphs, graphs to run, and how far they are from PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

from elmo_hf import ElmoConfig
from elmo_hf.export.model_graph import input_names, model_graph
from elmo_hf.export.onnx_folder import pytorch_outputs
from tests.models import TINY, random_words

Inputs = dict[str, torch.Tensor]
Run = Callable[[Inputs], dict[str, np.ndarray]]
BEGIN, END, PAD = 259, 260, 261
FIRST, LAST = 257, 258  # the characters of sentence boundaries


def runnable(model, folder) -> Run:
    """Runs the graph of a model on tensors, by name; those that it does not read are left out."""
    path = folder / "model.onnx"
    with torch.no_grad():
        model_graph(model).save(path, "test", {})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = [entry.name for entry in session.get_inputs()]
    return lambda inputs: dict(
        zip(names, session.run(None, {name: inputs[name].numpy() for name in wanted}), strict=True)
    )


def difference(run: Run, model, inputs: Inputs) -> float:
    """The largest difference of any output from PyTorch's; infinite where a shape differs or a number is not one."""
    outputs = run(inputs)
    expected = pytorch_outputs(model, {name: inputs[name] for name in input_names(model)})
    assert outputs.keys() == expected.keys()
    assert {name: array.shape for name, array in outputs.items()} == {
        name: array.shape for name, array in expected.items()
    }
    largest = max(float(np.abs(outputs[name] - expected[name]).max()) for name in expected)
    return largest if np.isfinite(largest) else float("inf")


def random_batch(generator: np.random.Generator, config: ElmoConfig, lengths: list[int], pairs: bool = False) -> Inputs:
    """
    Sentences of random words between boundaries, padded on the right. A sentence of one or two positions has no
    boundaries. With `pairs`, each sentence is cut somewhere into two texts.
    """
    rows, words = len(lengths), max(lengths)
    char_ids = random_words(generator, rows, words, config.max_characters_per_token)
    ids = torch.from_numpy(generator.integers(3, config.vocab_size, (rows, words)))
    mask = torch.from_numpy((np.arange(words) < np.array(lengths)[:, None]).astype(np.int64))
    segments = torch.zeros_like(mask)
    for row, length in enumerate(lengths):
        if length > 2:
            for place, boundary in ((0, FIRST), (length - 1, LAST)):
                char_ids[row, place] = PAD
                char_ids[row, place, :3] = torch.tensor([BEGIN, boundary, END])
                ids[row, place] = boundary - FIRST
        cut = int(generator.integers(1, length)) if length > 1 else 0
        segments[row, cut:length] = 1
    batch = {
        "input_ids": ids.masked_fill(mask == 0, config.pad_token_id),
        "char_ids": char_ids.masked_fill(mask.unsqueeze(-1) == 0, 0),
        "attention_mask": mask,
    }
    return batch | ({"token_type_ids": segments} if pairs else {})


def random_lengths(generator: np.random.Generator, most_rows: int, longest: int) -> list[int]:
    return generator.integers(1, longest, generator.integers(1, most_rows, endpoint=True), endpoint=True).tolist()


def tiny_head(head, seed: int = 0, **fields) -> Any:
    """
    A head in evaluation mode with weights that are large enough for its scores to differ. (A layer of tiny values that
    is normalised has large rounding errors in PyTorch, too.)
    """
    torch.manual_seed(seed)
    labels = {} if "id2label" in fields else {"num_labels": 3}
    model = head(ElmoConfig(**(TINY | {"task_layer_size": 6} | labels | fields))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3 if name.startswith("elmo.") else 0.5)
        for module in model.modules():
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return model
