"""A model for inference: of any class, on any device, in the precision that is asked for."""

from typing import Any, Literal, TypeVar

import torch

from .errors import ModelError
from .modeling_elmo import ElmoPreTrainedModel
from .quantization_elmo import ElmoInt8Config

Precision = Literal["fp32", "bf16", "int8"]
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
    A model in evaluation mode.

    Args:
        model_class: As [`ElmoModel`], or a head.
        name: A folder, or a name on the Hub.
        device: Default: the CPU.
        precision: Of the weights. Default: as they were saved. What was saved as int8 stays int8: other precisions of
            it are refused.
        options: Of `from_pretrained`.
    """
    place = find_device(device)
    try:
        config = model_class.config_class.from_pretrained(name)
        is_int8 = getattr(config, "quantization_config", None) is not None
        if is_int8 and precision in DTYPES:
            raise ModelError(f"{name} was saved as int8 and cannot be had in {precision}: take --precision int8.")
        if precision in DTYPES:
            options["dtype"] = DTYPES[precision]
        elif precision == "int8" and not is_int8:
            options["quantization_config"] = ElmoInt8Config()
        return model_class.from_pretrained(name, **options).to(place).eval()
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        raise ModelError(f"{name} cannot be loaded: {' '.join(str(error).split())}") from error


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of a name, tried out; the CPU where there is no name."""
    try:
        device = torch.device("cpu" if name is None else name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # by the library of each kind of device
        raise ModelError(
            f"The device {str(name)!r} is not here: take cpu, or one of this machine's, as cuda."
        ) from error
    return device


__all__ = ["Precision", "find_device", "load_model"]
