"""The registry of neural-network layers, and the view of a layer that translation functions receive.

`@layer("innerProduct")` registers a function that computes a layer's results. `Layer.mil` applies a MIL operation to
tensors, constants, and numbers, so that an operation that both formats have needs only one translation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._core import Tensor, float32, int32
from ...errors import GraphError
from ...interchange.data_dependent import DataDependent
from ...interchange.node_view import SizedNode
from ...interchange.registry import Registry
from .._importer import CoreMLImporter, Value
from .._operation import Call, mil
from .._values import Fixed
from .._wire import Message

Function: TypeAlias = "Callable[[Layer], Tensor | Sequence[Tensor]]"
layer: Registry[Function] = Registry("kind of layer")


def known_layers() -> list[str]:
    """Return the kinds of neural-network layers that can be imported.

    Returns:
        A sorted list of names.

    Example:
        >>> "innerProduct" in mg.coreml.known_layers()
        True
    """
    return layer.known()


def applies(op: str, operands: str = "x", **parameters: tuple[Callable[[Any], Any], str]) -> Function:
    """Return a translation that applies one MIL operation to a layer's inputs and fields.

    Args:
        op: The MIL operation.
        operands: The MIL parameters that the layer's inputs are passed as, in order. Inputs for names that end with "#"
            are converted to integers, and "name*" takes all inputs.
        parameters: For each further MIL parameter, the field of the layer that holds it and how to convert the field.
    """

    def translate(n: Layer) -> Tensor:
        given: dict[str, Any] = {key: convert(getattr(n.p, field)) for key, (convert, field) in parameters.items()}
        for i, name in enumerate(operands.split()):
            x = n.xs[i] if i else n.x
            given[name.rstrip("#*")] = n.xs if name[-1] == "*" else n.ints(x) if name[-1] == "#" else x
        return n.mil(op, **given)

    return translate


class Layer(SizedNode):
    """A neural-network layer, as passed to its translation function: parameters, operands, and the target graph."""

    prefix = "layer "

    def __init__(
        self, importer: CoreMLImporter, name: str, label: str, p: Message, xs: Sequence[Tensor], results: int
    ) -> None:
        # `name` is the kind of layer, and `label` the layer's own name.
        super().__init__(importer.graph, name)
        self.importer, self.label, self.p, self.xs, self.results = importer, label, p, list(xs), results

    @property
    def x(self) -> Tensor:
        """The first operand. Raises GraphError if the layer has no inputs."""
        if not self.xs:
            raise GraphError(f"layer {self.name} must have at least one input, got none")
        return self.xs[0]

    def data_dependent_shape(self, x: Tensor) -> DataDependent:
        """Return a DataDependent exception with the names of the inputs that determine the shape of a tensor."""
        return self.importer.data_dependent_shape(x)

    # --- MIL -------------------------------------------------------------------------------------------------------

    def several(self, op: str, count: int, **operands: Any) -> list[Tensor]:
        """Apply a MIL operation with several results. Operands are tensors, constants, numbers, strings, or lists of
        integers.
        """
        function = mil.get(op)
        assert function is not None, op
        given = {name: self._values(value) for name, value in operands.items() if value is not None}
        call = Call(self.importer, op, given, [(None, None)] * count)
        made = function(call)
        call.require_all_asked()
        found = [made] if isinstance(made, Tensor) else list(made)  # type: ignore[arg-type]
        return [self.importer.tensor(value) for value in found]

    def mil(self, op: str, **operands: Any) -> Tensor:
        """Apply a MIL operation with one result."""
        return self.several(op, 1, **operands)[0]

    def _values(self, value: Any) -> list[Value]:
        if isinstance(value, (Tensor, Fixed)):
            return [value]
        if isinstance(value, str):
            return [Fixed(value, "STRING")]
        if isinstance(value, list) and value and isinstance(value[0], Tensor):
            return list(value)
        array = np.asarray(value)
        kinds = {"b": "BOOL", "i": "INT32", "u": "INT32", "f": "FLOAT32"}
        kind = kinds[array.dtype.kind] if array.size else "INT32"
        return [Fixed(array.astype({"BOOL": bool, "INT32": np.int32, "FLOAT32": np.float32}[kind]), kind)]

    # --- weights ---------------------------------------------------------------------------------------------------

    def weight(self, proto: Message, shape: Sequence[int], part: str, axis: int = 0) -> Fixed:
        """Return weights of the given shape as floats, dequantized if necessary.

        The file stores weights as float32, as float16, or as integers. Integers are dequantized with a lookup table,
        with one scale for all weights, or with one scale per index of `axis`.
        """
        name = f"{self.label}.{part}"
        count = math.prod(shape)
        if proto.has("float16Value"):
            numbers = np.frombuffer(proto.float16Value, "<f2").astype(np.float32)
        elif proto.has("rawValue") or proto.has("int8RawValue"):
            return Fixed(self._of_integers(proto, list(shape), name, axis), "FLOAT32", name)
        else:
            numbers = proto.floatValue
        if numbers.size != count:
            raise GraphError(f"'{name}' of shape {tuple(shape)} must have {count} elements, got {numbers.size}")
        return Fixed(np.asarray(numbers).reshape(list(shape)), "FLOAT32", name)

    def _of_integers(self, proto: Message, shape: list[int], name: str, axis: int) -> np.ndarray:
        held, count = proto.quantization, math.prod(shape)
        if proto.has("int8RawValue"):
            integers = np.frombuffer(proto.int8RawValue, np.int8)
        else:
            bits, data = int(held.numberOfBits), np.frombuffer(proto.rawValue, np.uint8)
            if not 1 <= bits <= 8 or data.size != -(-count * bits // 8):
                raise GraphError(
                    f"'{name}' must have {count} integers of 1 to 8 bits, packed without gaps, got {data.size} bytes "
                    f"and a width of {bits} bits"
                )
            # The integers are packed from the highest bit down.
            each = np.unpackbits(data)[: count * bits].reshape(count, bits)
            integers = each @ (1 << np.arange(bits)[::-1])
        if integers.size != count:
            raise GraphError(f"'{name}' of shape {tuple(shape)} must have {count} elements, got {integers.size}")
        if held.which("QuantizationType") == "lookupTableQuantization":
            table = held.lookupTableQuantization.floatValue
            return np.asarray(table)[integers].reshape(shape)
        if held.which("QuantizationType") != "linearQuantization":
            raise GraphError(f"'{name}' is stored as integers and needs quantization parameters, but they are missing")
        scale, bias = (np.asarray(v, np.float32) for v in (held.linearQuantization.scale, held.linearQuantization.bias))
        along = [-1 if i == axis else 1 for i in range(len(shape))]
        spread = [v.reshape(along) if v.size > 1 else v for v in (scale, bias)]
        whole = integers.reshape(shape).astype(np.float32) * spread[0]
        return whole + spread[1] if bias.size else whole

    def optional_weight(self, name: str, shape: Sequence[int], part: str) -> Fixed | None:
        """Return weights as `weight` does, or None if the field is missing."""
        return self.weight(getattr(self.p, name), shape, part) if self.p.has(name) else None

    # --- shapes ----------------------------------------------------------------------------------------------------

    def ints(self, x: Tensor) -> Tensor:
        """Convert indices or sizes to int32, because neural networks represent them as floats."""
        return self.cast(x, int32)

    def floats(self, x: Tensor) -> Tensor:
        """Convert x to float32, the type that neural networks compute in."""
        return self.cast(x, float32)

    def of_planes(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Reshape x to (batch, channels, height, width), apply a function, and restore the leading axes.

        All axes in front of the channels are merged into the batch.
        """
        rank = self.rank(x)
        if rank == 4:
            return function(x)
        if rank < 3:
            self.refuse(f"the input must have axes for channels, height, and width, got shape {x.shape}")
        lead: list[int | Tensor] = [self.dim(x, i) for i in range(rank - 3)]
        y = function(self.reshape(x, [self.product(lead), *(self.dim(x, i) for i in (-3, -2, -1))]))
        return self.reshape(y, [*lead, *(self.dim(y, i) for i in (1, 2, 3))])
