"""
ONNX graphs written like array code: `graph.op("Tanh", x)`, `x + y`, `x @ weight`, and a loop over time.

The graphs are written by hand because the recurrence must have a dynamic length. A Python loop over time is exported
with the length of the example, while the operator `Scan` of ONNX is a loop of the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
IR_VERSION = 10  # of onnxruntime 1.18 and later
MOST_BYTES = 2**31 - 2**20  # of a protobuf; weights beyond it go into a file of their own
FLOAT, INT, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL

# From the states before a step and the inputs of the step to the states after it and the outputs of the step.
Step = Callable[["Graph", list["Value"], list["Value"]], tuple[list["Value"], list["Value"]]]


class Value:
    """
    A tensor of a graph.

    Attributes:
        graph (`Graph`): The graph that computes it.
        name (`str`): Its name in the graph.
        kind (`int`): Its element type: `FLOAT`, `INT` or `BOOL`.
    """

    def __init__(self, graph: Graph, name: str, kind: int = FLOAT):
        self.graph, self.name, self.kind = graph, name, kind

    def __add__(self, other: Value | float) -> Value:
        return self.graph.op("Add", self, other, kind=self.kind)

    def __sub__(self, other: Value | float) -> Value:
        return self.graph.op("Sub", self, other, kind=self.kind)

    def __rsub__(self, other: float) -> Value:
        return self.graph.op("Sub", other, self, kind=self.kind)

    def __mul__(self, other: Value | float) -> Value:
        return self.graph.op("Mul", self, other, kind=self.kind)

    def __truediv__(self, other: Value | float) -> Value:
        return self.graph.op("Div", self, other, kind=self.kind)

    def __matmul__(self, other: Value) -> Value:
        return self.graph.op("MatMul", self, other)

    def __and__(self, other: Value) -> Value:
        return self.graph.op("And", self, other, kind=BOOL)

    def __invert__(self) -> Value:
        return self.graph.op("Not", self, kind=BOOL)

    def equals(self, other: Value | int) -> Value:
        """Where two integer tensors are equal."""
        return self.graph.op("Equal", self, other, kind=BOOL)

    def cast(self, kind: int) -> Value:
        """The same values with another element type."""
        return self.graph.op("Cast", self, to=kind, kind=kind)

    def reshape(self, *shape: int) -> Value:
        """The same values in another shape. A 0 is a size that stays, one -1 is the size that remains."""
        return self.graph.op("Reshape", self, self.graph.ints(*shape), kind=self.kind)

    def transpose(self, *axes: int) -> Value:
        """The axes in another order."""
        return self.graph.op("Transpose", self, perm=axes, kind=self.kind)

    def unsqueeze(self, axis: int) -> Value:
        """With a new axis of size 1."""
        return self.graph.op("Unsqueeze", self, self.graph.ints(axis), kind=self.kind)

    def squeeze(self, axis: int) -> Value:
        """Without an axis of size 1."""
        return self.graph.op("Squeeze", self, self.graph.ints(axis), kind=self.kind)

    def slice(self, axis: int, start: Value | int, end: Value | int) -> Value:
        """The places from `start` to `end` (exclusive) of an axis; vectors of one integer, or integers."""
        bounds = [self.graph.ints(bound) if isinstance(bound, int) else bound for bound in (start, end)]
        return self.graph.op("Slice", self, *bounds, self.graph.ints(axis), kind=self.kind)

    def gather(self, places: Value, axis: int = 0) -> Value:
        """The rows, or other slices of an axis, at some places."""
        return self.graph.op("Gather", self, places, axis=axis, kind=self.kind)

    def reduce(self, operator: str, axis: int, keepdims: bool = False) -> Value:
        """The result of `ReduceSum`, `ReduceMax` and others over an axis."""
        return self.graph.op(operator, self, self.graph.ints(axis), keepdims=int(keepdims), kind=self.kind)

    def split(self, *sizes: int) -> list[Value]:
        """Parts of the last axis."""
        return self.graph.ops("Split", self, self.graph.ints(*sizes), outputs=len(sizes), axis=-1, kind=self.kind)

    def size(self, axis: int) -> Value:
        """The size of an axis, as a vector of one integer."""
        end = {} if axis == -1 else {"end": axis + 1}
        return self.graph.op("Shape", self, start=axis, kind=INT, **end)


class Graph:
    """
    A graph that grows node by node.

    Args:
        parent: The graph around the body of a loop. Its values are visible in the body, and it stores the constants.
    """

    def __init__(self, parent: Graph | None = None):
        self.parent = parent
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._numbers: itertools.count[int] = itertools.count() if parent is None else parent._numbers

    # ---- values

    def input(self, name: str, kind: int, shape: Sequence[int | str]) -> Value:
        """An input; named sizes are dynamic."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return Value(self, name, kind)

    def output(self, name: str, value: Value, shape: Sequence[int | str] | None = None):
        """Makes a value an output. Without a shape it may have any."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, value.kind, shape))

    def weight(self, values: Any, kind: int = FLOAT) -> Value:
        """A constant tensor, from a `torch.Tensor` or an array. Equal small constants are stored once."""
        if self.parent is not None:
            stored = self.parent.weight(values, kind)
            return Value(self, stored.name, kind)
        array = np.asarray(values.detach() if hasattr(values, "detach") else values, order="C")
        array = array.astype(helper.tensor_dtype_to_np_dtype(kind), copy=False)
        key = (array.dtype.str, array.shape, array.tobytes() if array.size <= 16 else b"")
        if key[2] and key in self._constants:
            return self._constants[key]
        value = Value(self, f"constant_{next(self._numbers)}", kind)
        self.initializers.append(numpy_helper.from_array(array, value.name))
        if key[2]:
            self._constants[key] = value
        return value

    def ints(self, *values: int) -> Value:
        """A constant vector of integers."""
        return self.weight(np.array(values), INT)

    def zeros(self, *sizes: Value | int, kind: int = FLOAT) -> Value:
        """Zeros, or false. Sizes are integers, or vectors of one integer."""
        shape = self.concat([self.ints(size) if isinstance(size, int) else size for size in sizes], axis=0)
        return self.op("Expand", self.weight(np.zeros(1), kind), shape, kind=kind)

    def range(self, size: Value) -> Value:
        """The integers from 0 to `size` (exclusive), a vector of one integer."""
        return self.op("Range", self.weight(0, INT), size.squeeze(0), self.weight(1, INT), kind=INT)

    # ---- nodes

    def op(self, operator: str, *inputs: Value | float | None, kind: int = FLOAT, **attributes: Any) -> Value:
        """
        One node with one output.

        Args:
            operator: As in the specification of ONNX.
            inputs: Values, or numbers of the type of the other inputs; `None` for an optional input.
            kind: The element type of the output.
            attributes: Of the operator.
        """
        return self.ops(operator, *inputs, outputs=1, kind=kind, **attributes)[0]

    def ops(
        self, operator: str, *inputs: Value | float | None, outputs: int, kind: int = FLOAT, **attributes: Any
    ) -> list[Value]:
        """As [`Graph.op`], for a node with several outputs of one type."""
        kinds = [value.kind for value in inputs if isinstance(value, Value) and value.kind != BOOL]
        names = []
        for value in inputs:
            if value is not None and not isinstance(value, Value):
                value = self.weight(value, kinds[0])
            names.append("" if value is None else value.name)
        results = [Value(self, f"{operator.lower()}_{next(self._numbers)}", kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(operator, names, [value.name for value in results], **attributes))
        return results

    def concat(self, values: Sequence[Value], axis: int = -1) -> Value:
        """The values one after the other."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis, kind=values[0].kind)

    def where(self, condition: Value, value: Value | float, other: Value | float) -> Value:
        """`value` where the condition is true, `other` elsewhere."""
        kind = value.kind if isinstance(value, Value) else other.kind if isinstance(other, Value) else FLOAT
        return self.op("Where", condition, value, other, kind=kind)

    def linear(self, inputs: Value, weight: Any, bias: Any = None) -> Value:
        """
        Args:
            inputs: `(…, inputs)`
            weight: `(outputs, inputs)`, as in `nn.Linear`.
            bias: `(outputs,)`

        Returns:
            `(…, outputs)`
        """
        product = inputs @ self.weight(weight.mT)
        return product if bias is None else product + self.weight(bias)

    def scan(
        self, step: Step, states: Sequence[Value], inputs: Sequence[Value], reverse: bool = False
    ) -> tuple[list[Value], list[Value]]:
        """
        A loop over the first axis of `inputs`.

        Args:
            step: One step, called once, with the graph of the body.
            states: Before the first step.
            inputs: Time-major, `(steps, …)` each.
            reverse: Whether the loop reads the inputs from the last to the first. The outputs are in the order of the
                inputs in both cases.

        Returns:
            The states after the last step, and the outputs `(steps, …)`.
        """
        body = Graph(self)
        names = [f"step_{next(self._numbers)}" for _ in (*states, *inputs)]
        inner = [Value(body, name, value.kind) for name, value in zip(names, (*states, *inputs), strict=True)]
        after, outputs = step(body, inner[: len(states)], inner[len(states) :])
        body.inputs = [helper.make_tensor_value_info(value.name, value.kind, None) for value in inner]
        for value in (*after, *outputs):
            body.output(f"result_{next(self._numbers)}", value)
        results = [Value(self, f"scan_{next(self._numbers)}", value.kind) for value in (*after, *outputs)]
        self.nodes.append(
            helper.make_node(
                "Scan",
                [value.name for value in (*states, *inputs)],
                [value.name for value in results],
                body=body.proto("step"),
                num_scan_inputs=len(inputs),
                scan_input_directions=[int(reverse)] * len(inputs),
                scan_output_directions=[int(reverse)] * len(outputs),
            )
        )
        return results[: len(states)], results[len(states) :]

    # ---- files

    def proto(self, name: str) -> onnx.GraphProto:
        """The graph as a protobuf."""
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)

    def save(self, path: Any, name: str, metadata: dict[str, str]):
        """Writes a model, with its weights in a file beside it if it is too large for one file."""
        model = helper.make_model(
            self.proto(name),
            producer_name="elmo-hf",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, metadata)
        is_large = sum(len(tensor.raw_data) for tensor in self.initializers) > MOST_BYTES
        onnx.save_model(model, str(path), save_as_external_data=is_large, location=f"{path.name}.data")
        onnx.checker.check_model(str(path), full_check=not is_large)


__all__ = ["BOOL", "FLOAT", "INT", "INT32", "OPSET", "Graph", "Value"]
