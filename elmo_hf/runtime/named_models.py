"""Finds the model or the dataset that a user names, before anything is loaded."""

import os
import re
from typing import Any

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, HTTPError

from ..errors import ModelError, TextError
from .default_model import default_model, find_model

HUB_NAME = re.compile(r"(?:\w[\w.-]{0,95}/)?\w[\w.-]{0,95}", re.ASCII)
SECONDS = 10  # for the Hub to answer
# Options of `from_pretrained` that locate files; the model and the tokenizer both get them.
LOCATION_OPTIONS = {"cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token"}


def find_named_model(name: str | None) -> str:
    """
    The folder or name to load for a name on the command line, as [`locate_model`] finds it. If the Hub does not answer,
    the process makes no further requests.
    """
    model, options = locate_model(name)
    if options:
        constants.HF_HUB_OFFLINE = True  # do not repeat the request for every file
    return model


def locate_model(
    name: str | os.PathLike | None,
    *,
    subfolder: str = "",
    revision: str | None = None,
    cache_dir: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **_: Any,
) -> tuple[str, dict[str, Any]]:
    """
    The folder or name to load, and options for `from_pretrained`. Raises an error if there is no such model. For a name
    on the Hub this takes one request; if the Hub does not answer, the options restrict the loading to an earlier
    download. Otherwise there are none.

    Args:
        name: A folder, a name on the Hub, or the name of the model that comes with this package. Default: that model.
        subfolder, revision, cache_dir, token, local_files_only: As in `from_pretrained`, whose other options are
            ignored here.
    """
    if name is None:
        return default_model(), {}
    model = find_model(os.fspath(name))
    if os.path.isdir(model):
        _check_folder(os.path.join(model, subfolder) if subfolder else model)
    elif os.path.exists(model):
        raise ModelError(f"{name} is a file: name the folder of a model.")
    elif not HUB_NAME.fullmatch(model):
        raise ModelError(f"There is no folder {name}.")
    elif not local_files_only and (failure := _look_up(model, token)) is not None:
        config = os.path.join(subfolder, "config.json")
        if not isinstance(try_to_load_from_cache(model, config, cache_dir, revision), str):
            reason = " ".join(str(failure).split())[:200] or type(failure).__name__
            raise ModelError(f"There is no folder {name} here, and the Hub cannot be reached ({reason}).") from failure
        return model, {"local_files_only": True}
    return model, {}


def _check_folder(folder: str):
    """Refuses a folder that holds no model."""
    files = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if "config.json" not in files:
        raise ModelError(f"{folder} holds no model: config.json is missing.")
    if "model.onnx" in files and not any(name.endswith(".safetensors") for name in files):
        raise ModelError(f"{folder} is an export to ONNX, which cannot be loaded: run it with its example.py.")


def _look_up(name: str, token: str | bool | None) -> Exception | None:
    """Asks the Hub for a model, once. Returns the error if the Hub does not answer."""
    try:
        HfApi().model_info(name, timeout=SECONDS, token=token)
    except HFValidationError as error:
        raise ModelError(f"There is no folder {name}.") from error
    except GatedRepoError as error:
        raise ModelError(
            f"There is no folder {name} here; on the Hub, {name} is gated: ask its owner for access."
        ) from error
    except (HTTPError, OSError) as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 404):
            raise ModelError(
                f"There is no folder {name} here, and no model {name} on the Hub that your token may see."
            ) from error
        return error
    return None


def look_up_dataset(source: str) -> Exception | None:
    """
    Asks the Hub for a dataset, once. Raises an error if the Hub has none of this name, and returns the error if it does
    not answer.

    Args:
        source: `name` or `name:config`.
    """
    name = source.partition(":")[0]
    try:
        HfApi().dataset_info(name, timeout=SECONDS)
    except HFValidationError as error:
        raise TextError(f"No such file or folder: {source}.") from error
    except GatedRepoError as error:
        raise TextError(
            f"No such file or folder: {source}; on the Hub, the dataset {name} is gated: ask its owner for access."
        ) from error
    except (HTTPError, OSError) as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 404):
            raise TextError(
                f"No such file or folder: {source}, and no dataset {name} on the Hub that your token may see."
            ) from error
        return error
    return None


__all__ = ["LOCATION_OPTIONS", "find_named_model", "locate_model", "look_up_dataset"]
