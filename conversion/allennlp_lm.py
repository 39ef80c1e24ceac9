"""
AllenNLP's own language models (`language_model`, `bidirectional-language-model` of allennlp-models), as its trainer
archives them: `config.json`, `weights.th` and `vocabulary/tokens.txt`.

An LSTM of torch is the contextualizer here: gates i, f, j, o, two biases that are added, no projection, no clipping, no
residual. It is an ELMo in one direction, or in both with a single layer. AllenNLP's other contextualizers are not: a
bidirectional LSTM of several layers lets each direction see the other, and the rest are no LSTMs.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoForPreTraining, ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer

from .arrays import Views, check_arrays, fill_views
from .folder import word_ids
from .options import config_errors

CONTEXTUALIZER, SOFTMAX = "_contextualizer.", "_softmax_loss.softmax_"
UNUSED = "_last_average_loss"  # a buffer that the model registers and never reads
CHARACTER_TABLE = re.compile(r"_text_field_embedder\.token_embedder_(?P<name>.+)\._embedding\._module\.weight")
PADDING, NEWLINE = "@@PADDING@@", "@@NEWLINE@@"
BOUNDARIES = {"start_tokens": ["<S>"], "end_tokens": ["</S>"]}
CHARACTERS_PER_WORD, CHARACTER_ROWS = 50, 262  # of the indexer `elmo_characters`


class LanguageModelArchive(NamedTuple):
    """
    What an archive says about the model, without the weights.

    Attributes:
        config, tokenizer: Those of the model that it becomes.
        embedder: The prefix of the names of the character encoder's tensors.
    """

    config: ElmoConfig
    tokenizer: ElmoTokenizer
    embedder: str


def is_language_model(tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether a state dict holds a language model of AllenNLP's own training, alone or in a task's model."""
    return any(re.search(r"(^|\.)_contextualizer\.", name) for name in tensors)


def read_language_model(
    experiment: dict[str, Any], vocabulary: bytes | None, tensors: Mapping[str, torch.Tensor], source
) -> LanguageModelArchive:
    """
    Config and tokenizer of an archive. Refuses archives that hold no ELMo.

    Args:
        experiment: The content of `config.json`.
        vocabulary: The content of `vocabulary/tokens.txt`.
        tensors: The state dict.
        source: The archive, for messages.
    """
    if not any(name.startswith(CONTEXTUALIZER) for name in tensors):
        raise ConversionError(
            f"{source} is a model around a `language_model_token_embedder`, which is not read: such embedders take "
            "only transformers and gated convolutions, which are no ELMo."
        )
    model, reader = _part(experiment, "model"), _part(experiment, "dataset_reader")
    if not model or not reader or vocabulary is None:
        raise ConversionError(
            f"{source} holds a language model of AllenNLP's own training without its config.json or "
            "vocabulary/tokens.txt: give the model.tar.gz, which has all three."
        )
    contextualizer = _part(model, "contextualizer")
    layers, is_bidirectional = _check_contextualizer(contextualizer, source)
    name, embedder = _character_encoder(tensors, source)
    settings = _part(_part(model, "text_field_embedder"), "token_embedders", name, "encoder")
    indexer = _part(reader, "token_indexers", name)
    _check_encoder(settings, indexer, reader, tensors, embedder, source)
    tokenizer = _tokenizer(vocabulary, source)
    fields: dict[str, Any] = {
        **word_ids(tokenizer),
        "char_embedding_size": tensors[f"{embedder}_embedding._module.weight"].shape[-1],
        "char_filters": settings.get("filters"),
        "char_activation": settings.get("activation", "relu"),
        "num_highway_layers": settings.get("num_highway"),
        "token_projection": True,
        "num_hidden_layers": layers,
        "cell_size": contextualizer.get("hidden_size"),
        "projection_size": None,
        "cell_clip": None,
        "projection_clip": None,
        "forget_bias": 0.0,
        "skip_connections": False,
        "directions": "both" if is_bidirectional else "forward",
        "dropout": model.get("dropout") or 0.0,
    }
    samples = model.get("num_samples")
    if isinstance(samples, int) and 0 < samples < tokenizer.vocab_size:
        fields |= {"softmax_type": "sampled", "softmax_samples": samples}
    with config_errors(f"{source}: config.json"):
        return LanguageModelArchive(ElmoConfig(**fields), tokenizer, embedder)


def _part(settings: Any, *names: str) -> dict[str, Any]:
    """The object under these names; an empty one where there is none."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, dict) else None
    return settings if isinstance(settings, dict) else {}


def _check_contextualizer(contextualizer: dict[str, Any], source) -> tuple[int, bool]:
    """The number of layers, and whether they have two directions."""
    kind, layers = contextualizer.get("type"), contextualizer.get("num_layers", 1)
    if kind == "stacked_bidirectional_lstm" or (kind == "lstm" and contextualizer.get("bidirectional") and layers != 1):
        raise ConversionError(
            f"{source}: the contextualizer, `{kind}` in both directions with {layers} layers, is no ELMo, and is not "
            "converted. Every layer reads both directions, so that a word's vector has seen the words that it should "
            "predict."
        )
    if kind != "lstm":
        raise ConversionError(
            f"{source}: the contextualizer must be `lstm`, found {kind!r:.60}, which is another architecture than "
            "ELMo's, and is not converted."
        )
    sizes = [contextualizer.get(name) for name in ("input_size", "hidden_size")]
    if sizes[0] != sizes[1]:
        raise ConversionError(
            f"{source}: the contextualizer has input_size {sizes[0]!r:.20} and hidden_size {sizes[1]!r:.20}: in an "
            "ELMo the vectors of the words and those of each layer have the same size."
        )
    return layers, bool(contextualizer.get("bidirectional"))


def _character_encoder(tensors: Mapping[str, torch.Tensor], source) -> tuple[str, str]:
    """The name of the only token embedder, which is of characters, and the prefix of its tensors."""
    embedders = [
        match["name"]
        for name, tensor in tensors.items()
        if (match := CHARACTER_TABLE.fullmatch(name)) and tensor.ndim == 2
    ]
    prefixes = tuple(f"_text_field_embedder.token_embedder_{name}." for name in embedders)
    others = [name for name in tensors if name.startswith("_text_field_embedder.") and not name.startswith(prefixes)]
    if len(embedders) != 1 or others:
        raise ConversionError(
            f"{source}: the words should have one embedder, `character_encoding`, found "
            f"{', '.join(sorted(embedders + others)) or 'none'}."
        )
    return embedders[0], prefixes[0]


def _check_encoder(
    settings: dict[str, Any],
    indexer: dict[str, Any],
    reader: dict[str, Any],
    tensors: Mapping[str, torch.Tensor],
    prefix: str,
    source,
):
    """Refuses character encoders, and sentences, that differ from those of an ELMo."""
    rows = len(tensors[f"{prefix}_embedding._module.weight"])
    for what, value, expected in (
        ("character encoder", settings.get("type"), "cnn-highway"),
        ("projection_location", settings.get("projection_location", "after_highway"), "after_highway"),
        ("do_layer_norm of the character encoder", settings.get("do_layer_norm", False), False),
        ("indexer of the characters", indexer.get("type"), "elmo_characters"),
        ("tokens_to_add of the indexer", indexer.get("tokens_to_add"), None),
        ("number of characters", rows, CHARACTER_ROWS),
        *((f"{name} of the dataset reader", reader.get(name), expected) for name, expected in BOUNDARIES.items()),
    ):
        if value != expected:
            raise ConversionError(f"{source}: the {what} must be {expected!r} for an ELMo, found {value!r:.60}.")


def _tokenizer(vocabulary: bytes, source) -> ElmoTokenizer:
    """The words in the order of the softmax, whose last row belongs to the padding and not to a word."""
    try:
        lines = vocabulary.decode("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")
        words = [line.replace(NEWLINE, "\n") for line in lines] + [PADDING]
        return ElmoTokenizer(
            vocab=words, unk_token=words[0], max_characters_per_token=CHARACTERS_PER_WORD, splitting="treebank"
        )
    except ValueError as error:
        raise ConversionError(f"{source}: vocabulary/tokens.txt: {error}") from error


# ---- The weights


def check_language_model(archive: LanguageModelArchive, tensors: Mapping[str, torch.Tensor], source):
    """Refuses tensors that do not fit the config."""
    with torch.device("meta"):
        model = ElmoForPreTraining(archive.config)
        parts = _arrays(tensors)
        check_arrays(_views(model, archive, parts), parts, source)


def language_model_of(archive: LanguageModelArchive, tensors: Mapping[str, torch.Tensor], source) -> ElmoForPreTraining:
    """The language model with AllenNLP's tensors in our arrangement."""
    check_language_model(archive, tensors, source)
    model, arrays = ElmoForPreTraining(archive.config), _arrays(tensors)
    fill_views(_views(model, archive, arrays), arrays, source)
    with torch.no_grad():
        for highway in model.elmo.token_encoder.characters.highways:
            highway.carry.weight.neg_()
            highway.carry.bias.neg_()
    return model.eval()


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors without the unused one, and with the sum of both biases of a layer as one."""
    arrays = {name: tensor for name, tensor in tensors.items() if name != UNUSED}
    for name in [name for name in arrays if name.startswith(f"{CONTEXTUALIZER}_module.bias_hh_")]:
        first = name.replace("bias_hh_", "bias_ih_")
        if first in arrays and arrays[first].shape == arrays[name].shape:
            arrays[first] = arrays[first] + arrays.pop(name)
    return arrays


def _views(model: ElmoForPreTraining, archive: LanguageModelArchive, arrays: Mapping[str, torch.Tensor]) -> Views:
    """The parameters in each tensor; the signs of the highways differ."""
    elmo: ElmoModel = model.elmo
    characters, encoder = elmo.token_encoder.characters, f"{archive.embedder}_encoder._module."
    views = {
        f"{archive.embedder}_embedding._module.weight": [characters.char_embeddings.weight],
        f"{encoder}_projection.weight": [elmo.token_encoder.projection.weight],
        f"{encoder}_projection.bias": [elmo.token_encoder.projection.bias],
    }
    for index, convolution in enumerate(characters.convolutions):
        views[f"{encoder}char_conv_{index}.weight"] = [convolution.weight]
        views[f"{encoder}char_conv_{index}.bias"] = [convolution.bias]
    for index, highway in enumerate(characters.highways):
        views[f"{encoder}_highways._layers.{index}.weight"] = [highway.transform.weight, highway.carry.weight]
        views[f"{encoder}_highways._layers.{index}.bias"] = [highway.transform.bias, highway.carry.bias]
    for index, layer in enumerate(elmo.layers):
        for place, direction in enumerate(("", "_reverse") if archive.config.directions == "both" else ("",)):
            name = f"l{index}{direction}"
            views[f"{CONTEXTUALIZER}_module.weight_ih_{name}"] = gates(layer.input_weight[place].t())
            views[f"{CONTEXTUALIZER}_module.weight_hh_{name}"] = gates(layer.recurrent_weight[place].t())
            views[f"{CONTEXTUALIZER}_module.bias_ih_{name}"] = gates(layer.bias[place])
    weight, bias = model.softmax.weight, model.softmax.bias
    if f"{SOFTMAX}w.weight" in arrays:  # `sparse_embeddings`
        views |= {f"{SOFTMAX}w.weight": [weight], f"{SOFTMAX}b.weight": [bias.unsqueeze(1)]}
    else:
        is_sampled = archive.config.softmax_type == "sampled"
        views |= {f"{SOFTMAX}w": [weight if is_sampled else weight.t()], f"{SOFTMAX}b": [bias]}
    return {name: [view.detach() for view in parts] for name, parts in views.items()}


def gates(rows: torch.Tensor) -> list[torch.Tensor]:
    """Our gates i, j, f, o in the order of AllenNLP and torch."""
    i, j, f, o = rows.chunk(4)
    return [i, f, j, o]


__all__ = [
    "LanguageModelArchive",
    "check_language_model",
    "gates",
    "is_language_model",
    "language_model_of",
    "read_language_model",
]
