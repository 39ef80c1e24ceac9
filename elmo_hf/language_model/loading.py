"""Loads a language model from a folder or the Hub."""

from typing import Any, cast

import torch

from ..errors import ModelError
from ..modeling.modeling_elmo import ElmoForPreTraining
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.model_loading import loading_errors
from ..runtime.named_models import LOCATION_OPTIONS


def load_language_model(
    name: str, dtype: torch.dtype | str = torch.float32, **options: Any
) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """
    Loads a model with its softmax, and its tokenizer.

    Args:
        name: A folder, or a name on the Hub.
        dtype: The dtype of the weights; `"auto"`: the dtype that they were saved in.
        options: Further options of `from_pretrained`, such as `quantization_config`.
    """
    where = {option: value for option, value in options.items() if option in LOCATION_OPTIONS}
    options = {"dtype": dtype, "use_safetensors": True, "ignore_mismatched_sizes": True} | options
    with loading_errors(name):
        result = ElmoForPreTraining.from_pretrained(name, output_loading_info=True, **options)
        model, loading = cast(tuple[ElmoForPreTraining, dict[str, Any]], result)
        tokenizer = ElmoTokenizer.from_pretrained(name, **where)
    if any(key.startswith("softmax.") for key in loading["missing_keys"]):
        raise ModelError(f"{name} has no softmax, so it cannot predict words: it was saved without, or converted.")
    if loading["missing_keys"]:
        raise ModelError(f"{name} lacks the weights {', '.join(sorted(loading['missing_keys']))}.")
    for key, shape, expected in sorted(loading["mismatched_keys"]):
        raise ModelError(f"{name}: {key} should be {tuple(expected)} by config.json, found {tuple(shape)}.")
    return model, tokenizer


__all__ = ["load_language_model"]
