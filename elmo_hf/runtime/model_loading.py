"""Loads a model for inference: of any class, on any device, in a requested precision."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError

from ..errors import ModelError, did_you_mean, in_one_line
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.pretrained_elmo import ElmoPreTrainedModel
from ..modeling.quantization_elmo import ElmoInt8Config
from .precisions import Precision

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}

Model = TypeVar("Model", bound=ElmoPreTrainedModel)


def load_model(
    model_class: type[Model],
    name: str,
    *,
    device: str | torch.device | None = None,
    precision: Precision | None = None,
    **options: Any,
) -> Model:
    """
    Loads a model in evaluation mode.

    Args:
        model_class: The class of the model: [`ElmoModel`] or a head.
        name: A folder, or a name on the Hub.
        device: The device of the model. Default: the CPU.
        precision: The precision of the weights. Default: that of the saved weights. A model saved as int8 can only be
            loaded as int8.
        options: Further options of `from_pretrained`.
    """
    place = find_device(device)
    with loading_errors(name):
        options |= precision_options(name, precision)
        return model_class.from_pretrained(name, **options).to(place).eval()


def precision_options(name: str, precision: Precision | None, **options: Any) -> dict[str, Any]:
    """
    The options of `from_pretrained` that load a model in a precision; none for its own precision.

    Args:
        options: Options of `from_pretrained` that locate the config.
    """
    if precision is None:
        return {}
    is_int8 = ElmoConfig.get_config_dict(name, **options)[0].get("quantization_config") is not None
    if precision == "int8":
        return {} if is_int8 else {"quantization_config": ElmoInt8Config()}
    if is_int8:
        raise ModelError(f"{name} was saved as int8 and cannot be loaded in {precision}: use --precision int8.")
    return {"dtype": DTYPES[precision]}


@contextmanager
def loading_errors(name: str) -> Generator[None]:
    """Turns the errors that a damaged folder raises into one error that names it."""
    try:
        yield
    except ModelError:
        raise
    except StrictDataclassError as error:
        reason = str(error.__cause__ or error)
        raise ModelError(f"{name} cannot be loaded, its config.json is wrong: {in_one_line(reason)}") from error
    except Exception as error:  # OSError, SafetensorError, TypeError ..., depending on the damaged file
        raise ModelError(f"{name} cannot be loaded: {in_one_line(error)}") from error


def find_device(name: str | torch.device | None) -> torch.device:
    """The device with a name, after a test that it works; the CPU if there is no name."""
    try:
        device = torch.device("cpu" if name is None else name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # each kind of device raises its own
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        available = ["cpu", *([] if accelerator is None else [accelerator.type])]
        raise ModelError(
            f"The device {str(name)!r}{did_you_mean(str(name), available)} is not available: this machine has "
            f"{' and '.join(available)}."
        ) from error
    return device


__all__ = ["Precision", "find_device", "load_model", "loading_errors", "precision_options"]
