"""Summary: a table of a model's layers with shapes, parameter counts, and multiply-adds, as Module.summary returns it.

It is built from the module calls observed while the model was called once. Multiply-adds are counted from the types of
the operations that each call added to the graph, including kernel elements that only touch padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .._core import Operation, Tensor


@dataclass(frozen=True)
class Layer:
    """A row of the table: a module and what its calls did.

    Attributes:
        path: Dotted path of the module in the model; empty for the model itself.
        title: Class name and arguments.
        output: Shape of the output of the last call; empty if the module was not called.
        parameters: Number of parameter elements of the module itself, without its children.
        trainable: Number of those parameter elements that are not frozen.
        multiply_adds: Multiply-adds of all calls, including those of children.
        calls: Number of calls.
    """

    path: str
    title: str
    output: str
    parameters: int
    trainable: int
    """Number of trainable parameter elements of the module itself, without its children."""
    multiply_adds: int
    """Multiply-adds of all calls of the module, including those of its children."""
    calls: int


@dataclass(frozen=True)
class Summary:
    """Table of the layers of a model, as Module.summary returns it.

    Attributes:
        layers: Rows of the table, starting with the model itself.

    Example:
        >>> summary = mg.nn.Conv2d(4, 3).summary((-1, 8, 8, 3))
        >>> summary.parameters, summary.multiply_adds, summary.layers[0].output
        (112, 3888, '(-1, 6, 6, 4)')
    """

    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> int:
        """Return the number of parameter elements, trainable or frozen."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def trainable_parameters(self) -> int:
        """Return the number of parameter elements that are not frozen."""
        return sum(layer.trainable for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Return the multiply-adds of the whole model."""
        return self.layers[0].multiply_adds

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [("layer", "output", "parameters", "multiply-adds")]
        for layer in self.layers:
            depth = layer.path.count(".") + 1 if layer.path else 0
            name = f"{layer.path.rpartition('.')[2]}: {layer.title}" if layer.path else layer.title
            times = f" ×{layer.calls}" if layer.calls > 1 else ""
            output = layer.output or "not called"
            rows.append(("  " * depth + name + times, output, f"{layer.parameters:,}", f"{layer.multiply_adds:,}"))
        return rows

    def _total(self) -> str:
        frozen = self.parameters - self.trainable_parameters
        which = f"{frozen:,} of them frozen" if frozen else "all trainable"
        return f"{self.parameters:,} parameters, {which}; {self.multiply_adds:,} multiply-adds"

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            f"{name:{widths[0]}}  {output:{widths[1]}}  {parameters:>{widths[2]}}  {multiply_adds:>{widths[3]}}"
            for name, output, parameters, multiply_adds in rows
        ]
        return "\n".join([*lines, self._total()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        left, right = ' style="text-align: left; white-space: pre"', ' style="text-align: right"'
        body = "".join(
            "<tr>"
            + "".join(f"<td{left if i < 2 else right}>{escape(cell)}</td>" for i, cell in enumerate(row))
            + "</tr>"
            for row in rows
        )
        titles = "".join(f"<th{left if i < 2 else right}>{cell}</th>" for i, cell in enumerate(head))
        return (
            f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody>"
            f'<caption style="caption-side: bottom">{self._total()}</caption></table>'
        )


def summarize(model: Any, calls: Iterable[Any], operations: Mapping[int, Operation]) -> Summary:
    """Build the table of a model from its observed calls, inner ones first, and the graph's operations, keyed by id."""
    seen: dict[int, list[Any]] = {}
    for call in calls:
        seen.setdefault(id(call.module), []).append(call)
    frozen = {v for _, m in model.named_modules() if m.frozen for v in vars(m).get("_parameters", {}).values()}
    layers: list[Layer] = []
    counted: set[Tensor] = set()
    known: set[int] = set()
    for path, module in model.named_modules():
        if id(module) in known:
            continue  # Count a module used in several positions only once.
        known.add(id(module))
        own = [v for v in vars(module).get("_parameters", {}).values() if v not in counted]
        counted |= set(own)
        made = seen.get(id(module), [])
        sizes = [math.prod(v.shape or ()) for v in own]
        layers.append(
            Layer(
                path,
                f"{type(module).__name__}({module.describe()})",
                _shapes(made[-1].result) if made else "",
                sum(sizes),
                sum(size for size, v in zip(sizes, own, strict=True) if v not in frozen),
                sum(multiply_adds(operations[i]) for call in made for i in call.operations if i in operations),
                len(made),
            )
        )
    return Summary(tuple(layers))


def _shapes(result: Any) -> str:
    """Return the shape of a tensor as text, or the shapes of all tensors in a tuple, list, or dict."""
    if isinstance(result, Tensor):
        return str(result.shape) if result.shape is not None else "?"
    if isinstance(result, Mapping):
        return ", ".join(f"{name}: {_shapes(item)}" for name, item in result.items())
    if isinstance(result, (list, tuple)):
        return ", ".join(_shapes(item) for item in result)
    return ""


def _size(shape: Sequence[int] | None) -> int:
    """Return the number of elements, with unknown sizes taken as 1."""
    return math.prod(max(size, 1) if size != 0 else 0 for size in shape or ())


def multiply_adds(operation: Operation) -> int:
    """Compute the number of multiply-adds of an operation from the types of its operands and results."""
    kind, inputs = operation.kind, [t.shape for t in operation.inputs]
    results = [t.shape for t in operation.outputs]
    if kind == "matrix_multiplication":
        return _size(results[0]) * max((inputs[0] or (1,))[-1], 1)
    if kind.startswith("convolution_transpose"):
        return _size(inputs[0]) * _size(inputs[1]) // _channels(operation, 0)
    if kind in ("convolution2d", "convolution3d", "depthwise_convolution2d", "depthwise_convolution3d"):
        return _size(results[0]) * _size(inputs[1]) // _channels(operation, None)
    if kind == "scaled_dot_product_attention":
        keys = max((inputs[1] or (1, 1))[-2], 1)
        return (_size(inputs[0]) + _size(results[0])) * keys
    if kind in ("single_gate_rnn", "lstm", "gru"):
        weights = inputs[1 : 3 if operation.attributes.get("has_input_weight") else 2]
        return _size((inputs[0] or ())[:2]) * sum(_size(shape) for shape in weights)
    return 0


def _channels(operation: Operation, operand: int | None) -> int:
    """Return the number of channels of operand number `operand`, or of the result if it is None.

    The layout attribute of the operation determines the channel axis.
    """
    shape = (operation.inputs[operand] if operand is not None else operation.outputs[0]).shape or (1,)
    layout = str(operation.attributes.get("data_layout", "NHWC"))
    return max(shape[layout.index("C")] if len(layout) == len(shape) else shape[-1], 1)
