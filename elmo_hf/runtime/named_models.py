"""Finds the model that a command line names, before anything is loaded."""

import os
import re

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HTTPError

from ..errors import ModelError
from .default_model import default_model, find_model

HUB_NAME = re.compile(r"(?:\w[\w.-]{0,95}/)?\w[\w.-]{0,95}", re.ASCII)
SECONDS = 10  # for the Hub to answer


def find_named_model(name: str | None) -> str:
    """
    The folder or name to load for a name on the command line. Raises an error if there is no such model. For a name on
    the Hub this takes one request; if the Hub does not answer, an earlier download is used.

    Args:
        name: A folder, a name on the Hub, or the name of the model that comes with this package. Default: that model.
    """
    if name is None:
        return default_model()
    model = find_model(name)
    if os.path.isdir(model):
        if not os.path.isfile(os.path.join(model, "config.json")):
            raise ModelError(f"{name} holds no model: config.json is missing.")
    elif os.path.exists(model):
        raise ModelError(f"{name} is a file: name the folder of a model.")
    elif not HUB_NAME.fullmatch(model):
        raise ModelError(f"There is no folder {name}.")
    else:
        _look_up(model)
    return model


def _look_up(name: str):
    """Asks the Hub for a model, once."""
    nothing = f"There is no folder {name} here"
    try:
        HfApi().model_info(name, timeout=SECONDS)
    except GatedRepoError as error:
        raise ModelError(f"{nothing}; on the Hub, {name} is gated: ask its owner for access.") from error
    except (HTTPError, OSError) as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 404):
            raise ModelError(f"{nothing}, and no model {name} on the Hub that your token may see.") from error
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(f"{nothing}, and the Hub cannot be reached ({reason}).") from error
        constants.HF_HUB_OFFLINE = True  # do not repeat the request for every file


__all__ = ["find_named_model"]
