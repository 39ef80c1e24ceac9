"""
A device that does not exist: its tensors are computed on the CPU, and refuse what accelerators refuse.

It shows, without an accelerator, that code allocates on the device of its inputs, never mixes devices, and needs
neither float64 nor operators that only CPUs have. Importing this module registers the device for the whole process, so
tests import it in a process of their own.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("fake")
DEVICE = torch.device("fake", 0)
CPU = torch.device("cpu")
TRANSFERS = ("aten._to_copy", "aten.copy_")  # operators that move tensors between devices


class FakeDeviceTensor(torch.Tensor):
    """A tensor of the fake device. Its values are in `values`, on the CPU."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor):
        if values.dtype == torch.float64:
            raise TypeError("float64 on a device that does not have it")
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
            requires_grad=values.requires_grad,
        )
        tensor.values = values.detach()
        return tensor

    def tolist(self) -> Any:
        return self.values.tolist()  # PyTorch does not let a subclass see this call otherwise

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"FakeDeviceTensor({self.values})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class _Operators(TorchDispatchMode):
    """Runs operators whose inputs are not on the fake device, such as `torch.zeros`."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """`torch.tensor`, which PyTorch does not let a dispatch mode see."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not torch.tensor or torch.device(kwargs.get("device") or CPU).type != DEVICE.type:
            return function(*args, **kwargs)
        return FakeDeviceTensor(torch.tensor(*args, **(kwargs | {"device": CPU})))


@contextmanager
def fake_device() -> Generator[torch.device]:
    """Inside, tensors can be created on the fake device and moved to and from it."""
    with _Operators(), _Literals():
        yield DEVICE


def run(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Runs an operator on the CPU; its results are on the device that it was asked for, or on that of its inputs."""
    name = str(function).rpartition(".")[0]
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    is_fake = [isinstance(tensor, FakeDeviceTensor) for tensor in given]
    if any(is_fake) and name not in TRANSFERS:
        # PyTorch takes numbers (0-d tensors of the CPU) anywhere.
        others = [tensor for tensor, fake in zip(given, is_fake, strict=True) if not fake and tensor.ndim]
        if others:
            raise RuntimeError(f"{name} mixes the device with the CPU: {[tuple(tensor.shape) for tensor in others]}")
        if name.startswith(("mkldnn", "onednn", "quantized")):
            raise RuntimeError(f"{name} is an operator of the CPU")
    wanted = kwargs.get("device")
    on_device = any(is_fake) if wanted is None else torch.device(wanted).type == DEVICE.type
    if name == "aten.copy_":
        on_device = is_fake[0]
    kwargs = kwargs | ({"device": CPU} if wanted is not None and on_device else {})
    if on_device and kwargs.get("dtype") == torch.float64:
        raise TypeError(f"{name}: float64 on a device that does not have it")
    plain_args, plain_kwargs = tree_map(unwrap, (args, kwargs))
    result = REPLACED.get(name, function)(*plain_args, **plain_kwargs)
    if not on_device:
        return result
    mutated = {id(unwrap(tensor)): tensor for tensor in given}
    return tree_map(
        lambda value: mutated.get(id(value), FakeDeviceTensor(value)) if isinstance(value, torch.Tensor) else value,
        result,
    )


def lstm_cell(inputs, recurrent, cell, input_bias=None, recurrent_bias=None) -> tuple[torch.Tensor, ...]:
    """What accelerators compute in one kernel for `nn.LSTM`, and CPUs do not have."""
    gates = inputs + recurrent
    if input_bias is not None:
        gates = gates + input_bias + recurrent_bias
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
    cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate.tanh()
    return output_gate.sigmoid() * cell.tanh(), cell, gates


REPLACED = {"aten._thnn_fused_lstm_cell": lstm_cell}


def unwrap(value: Any) -> Any:
    """The values of a tensor of the fake device; all else as it is."""
    return value.values if isinstance(value, FakeDeviceTensor) else value


def to_device(value: Any) -> Any:
    """Copies tensors, or the parameters and buffers of a module, to the fake device."""
    if not isinstance(value, torch.nn.Module):
        return tree_map(lambda leaf: FakeDeviceTensor(leaf.detach().clone()), value)
    for module in value.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                moved = FakeDeviceTensor(parameter.detach().clone())
                module._parameters[name] = torch.nn.Parameter(moved, requires_grad=parameter.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = FakeDeviceTensor(buffer.clone())
    return value
