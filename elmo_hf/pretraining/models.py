"""The model that a run starts from: a new one, or an existing one whose vocabulary may be extended."""

import os
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import ModelError
from ..language_model import load_language_model
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoForPreTraining
from ..modeling.softmax_elmo import ElmoAdaptiveSoftmax, ElmoSoftmax
from ..modeling.spelling_elmo import ByteSpelling, character_table
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..modeling.tokenizer_files_elmo import read_vocabulary
from .settings import RECIPES, PretrainingSettings, unknown_names

SIZES: dict[str, dict[str, Any]] = {
    "compact": {
        "char_filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 128], [6, 128]],
        "num_highway_layers": 1,
        "cell_size": 768,
        "projection_size": 256,
    },
    "small": {"num_highway_layers": 1, "cell_size": 1024, "projection_size": 128},
    "medium": {"num_highway_layers": 1, "cell_size": 2048, "projection_size": 256},
    "original": {},
}
"""Config fields by size: the released English models, and the model that comes with this package (`compact`)."""

# A table of code points has many more rows than one of bytes, and a row says more.
CODE_POINT_EMBEDDING_SIZE = 64
# With a smaller vocabulary, a full softmax is as fast as any other.
FEW_WORDS = 10_000


def build_config(size: str, vocab_size: int, recipe: str = "modern", **fields: Any) -> ElmoConfig:
    """
    Builds a configuration for pretraining.

    Args:
        size: A key of `SIZES`.
        vocab_size: The size of the vocabulary, including boundaries and `<UNK>`.
        recipe: "original" uses a sampled softmax with 8192 samples, "modern" an adaptive softmax. Both use a full
            softmax for small vocabularies.
        fields: Fields of the config, which override those of size and recipe.
    """
    if size not in SIZES:
        raise ValueError(f"There is no size {size!r}: choose one of {', '.join(SIZES)}.")
    if recipe not in RECIPES:
        raise ValueError(f"There is no recipe {recipe!r}: choose one of {', '.join(RECIPES)}.")
    if unknown := sorted(fields.keys() - ElmoConfig.__dataclass_fields__.keys()):
        raise ValueError(
            unknown_names(unknown, [*ElmoConfig.__dataclass_fields__, *PretrainingSettings.__dataclass_fields__])
        )
    softmax: dict[str, Any] = {"softmax_type": "full"}
    if recipe == "original" and vocab_size > 2 * 8192:
        softmax = {"softmax_type": "sampled"}
    elif recipe == "modern" and vocab_size > FEW_WORDS:
        softmax = {"softmax_type": "adaptive", "softmax_tail_ratio": 2}
        softmax["softmax_cutoffs"] = [cutoff for cutoff in (3000, 12_000, 30_000) if 2 * cutoff <= vocab_size]
    chosen: dict[str, Any] = SIZES[size] | {"vocab_size": vocab_size} | softmax | fields
    return ElmoConfig(**chosen)


def starting_point(
    from_model: str | None,
    vocab: str | os.PathLike | None,
    *,
    extend_vocabulary: bool = False,
    spelling: str = "bytes",
    size: str = "compact",
    recipe: str = "modern",
    fields: dict[str, Any] | None = None,
    tokenizer_options: dict[str, Any] | None = None,
) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """
    The model and the tokenizer to train.

    Args:
        from_model: A pretrained model to continue from. Default: a new model with random weights.
        vocab: A vocabulary file, for a new model or to extend the vocabulary of an existing one.
        extend_vocabulary: Whether to add the words of `vocab` that the existing model lacks.
        spelling: What a new model reads of a word: "bytes" (UTF-8), as the original, or "code-points", with a table of
            the characters of `vocab`. For scripts with thousands of characters.
        size, recipe, fields: The configuration of a new model, as in [`build_config`].
        tokenizer_options: The options of a new tokenizer.
    """
    if from_model is not None:
        if fields:
            raise ValueError(f"{', '.join(fields)} cannot be set with a model to continue from: its config has them.")
        if (vocab is not None) != extend_vocabulary:
            raise ValueError("A vocabulary for an existing model extends it: give both --vocab and --extend-vocab.")
        model, tokenizer = load_language_model(from_model)
        return (model, tokenizer) if vocab is None else extended(model, tokenizer, read_vocabulary(vocab))
    if extend_vocabulary:
        raise ValueError("Only the vocabulary of an existing model can be extended: give --from too.")
    if vocab is None:
        raise ValueError("A new model needs a vocabulary: give --vocab (`elmo-hf vocab` makes one).")
    words = read_vocabulary(vocab)
    characters = None
    if spelling == "code-points":
        special = ElmoTokenizer().all_special_tokens
        characters = character_table(word for word in words if word not in special)
    tokenizer = ElmoTokenizer(vocab=words, characters=characters, **(tokenizer_options or {}))
    fields = character_fields(tokenizer) | (fields or {})
    return ElmoForPreTraining(build_config(size, tokenizer.vocab_size, recipe, **fields)), tokenizer


def character_fields(tokenizer: ElmoTokenizer) -> dict[str, int]:
    """The fields of a config that depend on how a tokenizer spells words; none for bytes, which are the default."""
    spelling = tokenizer.spelling
    if isinstance(spelling, ByteSpelling):
        return {}
    return {
        "char_vocab_size": spelling.size,
        "char_pad_id": spelling.pad,
        "char_bos_id": spelling.begin_sentence,
        "char_eos_id": spelling.end_sentence,
        "char_embedding_size": CODE_POINT_EMBEDDING_SIZE,
    }


def extended(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, words: Sequence[str]
) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """
    Extends the vocabulary of a model and its tokenizer. Known words keep their ids and weights. New words get random
    weights as in a new model, and the bias of a rare word.

    Args:
        words: The words to add. Known words are ignored.
    """
    known = tokenizer.get_vocab()
    new = list(dict.fromkeys(word for word in words if word not in known))
    if not new:
        return model, tokenizer
    old_words = sorted(
        (word for word, word_id in known.items() if word_id < model.config.vocab_size), key=known.__getitem__
    )
    if tokenizer.vocab_size != model.config.vocab_size:
        raise ModelError(f"The tokenizer has {tokenizer.vocab_size} words and the model {model.config.vocab_size}.")
    wider = tokenizer.with_vocabulary([*old_words, *new])
    fields = model.config.to_dict() | {"vocab_size": len(old_words) + len(new), "pad_token_id": wider.pad_token_id}
    larger = ElmoForPreTraining(type(model.config).from_dict(fields))
    state = larger.state_dict()
    for name, old in model.state_dict().items():
        if state[name].shape == old.shape:
            state[name].copy_(old)
        else:  # grows at the end, where a table of words may have a row for padding
            rows = min(len(old), len(old_words))
            state[name][:rows].copy_(old[:rows])
    _lower_bias(larger.softmax, len(new))
    return larger.train(model.training), wider


@torch.no_grad()
def _lower_bias(softmax: ElmoSoftmax | ElmoAdaptiveSoftmax, num_new_words: int):
    """Sets the bias of the new words, which are the last ones, to the lowest bias of the words before them."""
    layer: Any = softmax.tails[-1][1] if isinstance(softmax, ElmoAdaptiveSoftmax) else softmax
    if num_new_words < len(layer.bias):
        layer.bias[-num_new_words:] = layer.bias[:-num_new_words].min()


__all__ = ["SIZES", "build_config", "extended", "load_language_model", "starting_point"]
