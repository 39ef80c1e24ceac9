"""
TensorFlow checkpoints of bilm-tf and simple_elmo_training: `options.json`, `vocab.txt` and `model.ckpt-N.*`.

They hold the softmax, which HDF5 files made from them lack. The result is therefore a language model, which can score
texts and be trained further; its encoder loads as any other.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoForPreTraining, ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.runtime.staging import staged_folder

from .arrays import Views, check_arrays, fill_views
from .bilm_hdf5 import OPTIONS_FILE, bilm_views, count_parameters
from .folder import full_disk_errors, load_tokenizer, save_folder, word_ids
from .options import config_errors, read_object
from .provenance import provenance
from .tf_checkpoint import TensorFlowCheckpoint, Variable

SCOPE = "lm/"
EMBEDDING, SOFTMAX_WEIGHT, SOFTMAX_BIAS = "lm/embedding", "lm/softmax/W", "lm/softmax/b"
STATE_FILE, VOCAB_FILE = "checkpoint", "vocab.txt"
# The endings of a checkpoint's file names after their common prefix.
ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
CELL = re.compile(r"RNN_(?P<direction>\d)/RNN/MultiRNNCell/Cell(?P<layer>\d+)/LSTMCell/(?P<part>\w+)")
PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


class CheckpointFiles(NamedTuple):
    """A checkpoint and its files: the prefix of its files, the options and the vocabulary."""

    prefix: Path
    options: Path
    vocab: Path


def convert_bilm_checkpoint(
    checkpoint: str | os.PathLike,
    out: str | os.PathLike,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
) -> Path:
    """
    A TensorFlow checkpoint → a folder with config, safetensors and tokenizer: an [`ElmoForPreTraining`].

    The state of the optimiser is not converted. A softmax that shared its weights with the word table has a copy of
    them: further training changes both independently.

    Args:
        checkpoint: The common part of the names of its files, such as `model.ckpt-400`; one of the files; or their
            folder, of which the last checkpoint is taken.
        out: The folder to write; new or empty.
        options: `options.json`, of training or of inference. Default: the one beside the checkpoint.
        vocab: The `vocab.txt` that it was trained with. Default: the one beside the checkpoint.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.

    Returns:
        `out`
    """
    with full_disk_errors(out), staged_folder(out) as stage:
        files = find_checkpoint(checkpoint, options, vocab)
        source = TensorFlowCheckpoint(files.prefix)
        config, tokenizer = read_settings(files, source)
        model = read_bilm_checkpoint(config, source)
        data = {f"weights {shard}" if shard else "weights": path for shard, path in enumerate(source.files)}
        origin = provenance(
            "bilm-checkpoint",
            count_parameters(model.elmo),
            index=source.index,
            options=files.options,
            vocab=files.vocab,
            **data,
        )
        save_folder(model, tokenizer, stage, dtype, origin, Path(out).resolve().name)
    return Path(out)


def describe_bilm_checkpoint(
    checkpoint: str | os.PathLike, options: str | os.PathLike | None = None, vocab: str | os.PathLike | None = None
) -> ElmoConfig:
    """The config of what [`convert_bilm_checkpoint`] converts. Names and shapes of variables are checked."""
    files = find_checkpoint(checkpoint, options, vocab)
    source = TensorFlowCheckpoint(files.prefix)
    config, _ = read_settings(files, source)
    check_variables(config, source)
    return config


def find_checkpoint(
    checkpoint: str | os.PathLike, options: str | os.PathLike | None = None, vocab: str | os.PathLike | None = None
) -> CheckpointFiles:
    """The files of a checkpoint; the arguments are those of [`convert_bilm_checkpoint`]."""
    prefix = Path(checkpoint)
    if prefix.is_dir():
        prefix = _last_checkpoint(prefix)
    prefix = prefix.with_name(ENDING.sub("", prefix.name))
    index = prefix.with_name(prefix.name + ".index")
    if not index.is_file():
        if prefix.is_file():
            raise ConversionError(
                f"{prefix} has no {index.name} beside it. A checkpoint of version 1, all in one file, is not read: "
                "save it again with tf.train.Saver(write_version=2)."
            )
        raise ConversionError(
            f"{index} is missing: give the part that the checkpoint's files share, such as model.ckpt-400."
        )
    companions = [
        ("options", options, prefix.with_name(OPTIONS_FILE)),
        ("vocabulary", vocab, prefix.with_name(VOCAB_FILE)),
    ]
    for what, path, beside in companions:
        if path is None and not beside.is_file():
            raise ConversionError(f"{beside} is missing: give the {what} of the model's training.")
    return CheckpointFiles(prefix, *(Path(beside if path is None else path) for _, path, beside in companions))


def _last_checkpoint(folder: Path) -> Path:
    """The checkpoint that a folder's `checkpoint` file names, or the only one in the folder."""
    prefixes = {ENDING.sub("", path.name) for path in folder.glob("*.index")}
    state = folder / STATE_FILE
    if state.is_file():
        # The path may be one on the machine that trained the model: only its name is used.
        named = re.search(r'^model_checkpoint_path: "([^"\n]*)"', state.read_text("utf-8", "replace"), re.MULTILINE)
        name = re.split(r"[/\\]", named[1])[-1] if named else ""
        if name in prefixes:
            return folder / name
    if len(prefixes) != 1:
        choice = f"choose one of {', '.join(sorted(prefixes))}" if prefixes else "no file in it ends in .index"
        raise ConversionError(f"{folder} should hold one TensorFlow checkpoint, found {len(prefixes)}: {choice}.")
    return folder / prefixes.pop()


def read_settings(files: CheckpointFiles, source: TensorFlowCheckpoint) -> tuple[ElmoConfig, ElmoTokenizer]:
    """The config and the tokenizer of a checkpoint."""
    stated = read_object(files.options)
    fields: dict[str, Any] = {}
    if "bidirectional" not in stated:  # training without it has one direction, and inference has two
        fields["directions"] = "both" if any(name.startswith("lm/RNN_1/") for name in source.variables) else "forward"
    with config_errors(files.options):
        config = ElmoConfig.from_bilm_options(stated, **fields)
    tokenizer = load_tokenizer(files.vocab, config.max_characters_per_token, stated.get("n_tokens_vocab"))
    fields |= word_ids(tokenizer)
    samples = stated.get("n_negative_samples_batch")
    if stated.get("sample_softmax", True) and isinstance(samples, int) and 0 < samples < tokenizer.vocab_size:
        fields |= {"softmax_type": "sampled", "softmax_samples": samples}
    with config_errors(files.options):
        return ElmoConfig.from_bilm_options(stated, **fields), tokenizer


def read_bilm_checkpoint(config: ElmoConfig, source: TensorFlowCheckpoint) -> ElmoForPreTraining:
    """The language model of `config` with the weights of a checkpoint."""
    variables = check_variables(config, source)
    model = ElmoForPreTraining(config)
    views = checkpoint_views(model, tied=SOFTMAX_WEIGHT not in variables)
    with torch.no_grad():
        for name in variables:  # one at a time: the softmax alone may be most of a machine's memory
            fill_views({name: views[name]}, {name: source.read(name)}, source.prefix)
        if SOFTMAX_WEIGHT not in variables:
            model.softmax.weight.copy_(views[EMBEDDING][0])
    return model.eval()


def check_variables(config: ElmoConfig, source: TensorFlowCheckpoint) -> Mapping[str, Variable]:
    """The variables of the model, without those of the optimiser. Names and shapes are checked."""
    with torch.device("meta"):
        model = ElmoForPreTraining(config)
    tied = config.uses_words and SOFTMAX_WEIGHT not in source.variables
    expected = checkpoint_views(model, tied)
    variables = {
        name: variable
        for name, variable in source.variables.items()
        if name in expected or (name.startswith(SCOPE) and not _belongs_to_optimizer(name, variable, expected))
    }
    check_arrays(expected, variables, source.index)
    return variables


def _belongs_to_optimizer(name: str, variable: Variable, expected: Views) -> bool:
    """Whether a variable is part of an optimiser's state (`…/Adagrad`, `…/Adam_1`, its step count)."""
    return name.rpartition("/")[0] in expected or not variable.shape


def checkpoint_views(model: ElmoForPreTraining, tied: bool = False) -> Views:
    """The parameters in each variable of a checkpoint; see [`bilm_views`]."""
    elmo: ElmoModel = model.elmo
    views = {_variable_name(name, model.config): parts for name, parts in bilm_views(elmo).items()}
    views[SOFTMAX_BIAS] = [model.softmax.bias.detach()]
    if not tied:
        views[SOFTMAX_WEIGHT] = [model.softmax.weight.detach()]
    return views


def _variable_name(name: str, config: ElmoConfig) -> str:
    """The variable that an array of the HDF5 format was dumped from."""
    if (cell := CELL.fullmatch(name)) is None:
        return SCOPE + name
    direction = f"RNN_{cell['direction']}/" if config.directions == "both" else ""
    layer = f"multi_rnn_cell/cell_{cell['layer']}/" if config.num_hidden_layers > 1 else ""
    return f"{SCOPE}{direction}rnn/{layer}lstm_cell/{PARTS[cell['part']]}"


__all__ = [
    "convert_bilm_checkpoint",
    "describe_bilm_checkpoint",
    "find_checkpoint",
    "read_bilm_checkpoint",
    "read_settings",
]
