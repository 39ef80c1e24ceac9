"""A language model from a folder or the Hub."""

from typing import Any, cast

import torch

from ..errors import ModelError
from ..modeling_pretraining_elmo import ElmoForPreTraining
from ..tokenization_elmo import ElmoTokenizer


def load_language_model(
    name: str, dtype: torch.dtype | str = torch.float32
) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """A model with its softmax, and its tokenizer."""
    options: dict[str, Any] = {"dtype": dtype, "use_safetensors": True, "ignore_mismatched_sizes": True}
    try:
        found = ElmoForPreTraining.from_pretrained(name, output_loading_info=True, **options)
        model, loading = cast(tuple[ElmoForPreTraining, dict[str, Any]], found)
        tokenizer = ElmoTokenizer.from_pretrained(name)
    except Exception as error:  # by the file that is missing or damaged: OSError, SafetensorError, TypeError ...
        reason = " ".join(str(error).split())
        raise ModelError(f"{name} is no model folder or name on the Hub that can be loaded: {reason}") from error
    if any(key.startswith("softmax.") for key in loading["missing_keys"]):
        raise ModelError(f"{name} has no softmax, so it cannot predict words: it was saved without, or converted.")
    if loading["missing_keys"]:
        raise ModelError(f"{name} lacks the weights {', '.join(sorted(loading['missing_keys']))}.")
    for key, shape, expected in sorted(loading["mismatched_keys"]):
        raise ModelError(f"{name}: {key} should be {tuple(expected)} by config.json, found {tuple(shape)}.")
    return model, tokenizer


__all__ = ["load_language_model"]
