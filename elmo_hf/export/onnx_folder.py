"""
Exports a model to a folder that onnxruntime runs.

The modules that make graphs are imported inside functions: they import `onnx`, which may not be installed.
"""

import json
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from .._version import __version__
from ..errors import ModelError
from ..modeling.configuration_elmo import MODELS, ElmoConfig
from ..modeling.modeling_elmo import ElmoForPreTraining, ElmoModel
from ..modeling.modeling_heads_elmo import ElmoTaskModel
from ..modeling.pretrained_elmo import ElmoPreTrainedModel
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.extras import import_extra, require
from ..runtime.model_loading import load_model, loading_errors
from ..runtime.staging import refuse_used, staged_folder

# An fp32 graph that differs by more from PyTorch is wrong. (A CRF raises decoded labels by 1e-3.)
MOST_DIFFERENCE = 2e-3
TRIED_LENGTHS = (7, 1, 23, 12)


class OnnxExport(NamedTuple):
    """
    An exported model.

    Attributes:
        folder (`Path`): The folder.
        difference (`float`): The largest difference of any output from PyTorch's in fp32, on a batch of random words.
    """

    folder: Path
    difference: float


def to_onnx(model: str | os.PathLike, out: str | os.PathLike, *, int8: bool = False) -> OnnxExport:
    """
    Exports an encoder, a tagger or a classifier to ONNX, with dynamic batch size and length.

    The folder has the graph (`model.onnx`), the tokenizer, the config, and a program that runs them without torch
    (`example.py`). It is written completely or not at all. The graph was run with onnxruntime and compared with PyTorch
    before.

    Args:
        model: A folder, or a name on the Hub.
        out: The folder to write; must be new or empty.
        int8: Whether the weights of the matrix products are int8, by onnxruntime's dynamic quantisation.

    Example:

    ```python
    >>> import elmo_hf
    >>> from elmo_hf.export import to_onnx

    >>> to_onnx(elmo_hf.default_model(), "elmo-onnx").folder
    PosixPath('elmo-onnx')
    ```"""
    require("onnx")
    name, out = os.fspath(model), Path(out)
    refuse_used(out)
    model_class = _exported_class(name)
    tokenizer = _load_tokenizer(name)
    loaded = load_model(model_class, name, precision="fp32")
    _check_tokenizer(name, loaded, tokenizer)
    with staged_folder(out) as stage:
        difference = _write(stage, loaded, tokenizer, int8)
    return OnnxExport(out, difference)


def _exported_class(name: str) -> type[ElmoPreTrainedModel]:
    """The class of the model in a folder. Refuses what has no graph."""
    from .model_graph import EXPORTED

    with loading_errors(name):
        config = ElmoConfig.get_config_dict(name)[0]
    if (model_type := config.get("model_type")) != ElmoConfig.model_type:
        raise ModelError(f"{name} should hold a model of type elmo, found {model_type}.")
    if config.get("quantization_config") is not None:
        raise ModelError(f"{name} was saved as int8: export the model that it was made from, with --int8.")
    architectures = config.get("architectures") or [ElmoModel.__name__]
    if ElmoForPreTraining.__name__ in architectures:
        return ElmoModel
    for entry in MODELS:
        if entry.name in architectures:
            if entry.model_class in EXPORTED:
                return entry.model_class
            break
    raise ModelError(
        f"{name} is an {architectures[0]}, which has no export to ONNX: encoders, taggers "
        "(ElmoForTokenClassification) and classifiers (ElmoForSequenceClassification) have one."
    )


def _load_tokenizer(name: str) -> ElmoTokenizer:
    """The tokenizer of a folder; one that splits at white space if its segmenter is a Python function."""
    with loading_errors(name):
        if get_tokenizer_config(name).get("segmenter") in ("custom", "jieba"):
            return ElmoTokenizer.from_pretrained(name, splitting="whitespace", segmenter="character")
        return ElmoTokenizer.from_pretrained(name)


def _check_tokenizer(name: str, model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer):
    """Refuses a tokenizer that does not make what the model reads."""
    config, slots = model.config, tokenizer.max_characters_per_token
    if config.uses_characters and slots != config.max_characters_per_token:
        raise ModelError(
            f"{name}: the model reads {config.max_characters_per_token} characters per word, and its tokenizer makes "
            f"{slots}: save the tokenizer again with max_characters_per_token={config.max_characters_per_token}."
        )


def _write(folder: Path, model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer, int8: bool) -> float:
    """Writes all files, and returns the largest difference from PyTorch."""
    from .example_program import example_program
    from .model_graph import model_graph

    facts = {"elmo_hf": __version__, "model_class": type(model).__name__, "precision": "int8" if int8 else "fp32"}
    path = folder / ("fp32.onnx" if int8 else "model.onnx")
    with torch.no_grad():
        model_graph(model).save(path, type(model).__name__, facts)
    difference = difference_from_pytorch(path, model, tokenizer)
    if not difference <= MOST_DIFFERENCE:  # also if it is not a number
        raise ModelError(f"The exported graph differs by {difference:.1e} from PyTorch: please report this model.")
    if int8:
        quantize(path, folder / "model.onnx")
        for fp32 in folder.glob("fp32.onnx*"):
            fp32.unlink()
        difference = difference_from_pytorch(folder / "model.onnx", model, tokenizer)
    tokenizer.save_pretrained(folder)
    for code in folder.glob("*.py"):
        code.unlink()
    (folder / "example.py").write_text(example_program(model, tokenizer), encoding="utf-8")
    (folder / "config.json").write_text(_config_text(model), encoding="utf-8")
    return difference


def _config_text(model: ElmoPreTrainedModel) -> str:
    config = model.config
    fields = config.to_diff_dict() | {"architectures": [type(model).__name__]}
    fields.pop("auto_map", None)
    if isinstance(model, ElmoTaskModel):
        fields["id2label"] = dict(enumerate(config.label_names))
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def difference_from_pytorch(path: Path, model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer) -> float:
    """The largest difference of any output of a graph from that of its model, on a batch of random words."""
    from .model_graph import input_names

    generator = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzéß中ю,.'-"))
    rows = [
        ["".join(generator.choice(letters, generator.integers(1, 12))) for _ in range(length)]
        for length in TRIED_LENGTHS
    ]
    names = input_names(model)
    pairs = rows[::-1] if "token_type_ids" in names else None
    batch = tokenizer(rows, pairs, is_split_into_words=True, padding=True, return_tensors="pt")
    outputs = run_onnx(path, {name: batch[name].numpy() for name in names})
    expected = pytorch_outputs(model, {name: batch[name] for name in names})
    return max(float(np.abs(outputs[name] - expected[name]).max()) for name in expected)


def run_onnx(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph by name."""
    runtime = import_extra("onnxruntime", "onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@torch.no_grad()
def pytorch_outputs(model: ElmoPreTrainedModel, inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """What the graph of a model should return, by name."""
    if isinstance(model, ElmoTaskModel):
        heads_output = model(**inputs)
        names = [name for name in ("logits", "emissions") if heads_output.get(name) is not None]
        return {name: heads_output[name].numpy() for name in names}
    output: Any = model(**inputs, output_hidden_states=True)
    layers = torch.stack(output.hidden_states)
    return {"last_hidden_state": output.last_hidden_state.numpy(), "hidden_states": layers.numpy()}


def quantize(path: Path, out: Path):
    """Turns the weights of the matrix products into int8 with one scale per column, in the bodies of loops too."""
    quantization = import_extra("onnxruntime.quantization", "onnx")
    with _no_warnings():
        quantization.quantize_dynamic(
            str(path),
            str(out),
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=quantization.QuantType.QInt8,
            use_external_data_format=path.with_name(f"{path.name}.data").exists(),
            extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
        )


@contextmanager
def _no_warnings() -> Generator[None]:
    """Without the advice of onnxruntime to preprocess a model, which is for graphs that are not optimised yet."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


__all__ = ["OnnxExport", "to_onnx"]
