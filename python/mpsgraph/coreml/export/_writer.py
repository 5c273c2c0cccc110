"""The registry of operation writers, and the MIL program that the writers extend with the builder of coremltools.

`@writes("relu")` registers the function that writes MIL operations for a graph operation. `Writer` maps tensors to MIL
variables. MIL infers types and constant values during building, so type errors are detected immediately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._core import Block, DType, Operation, Tensor
from ...interchange.export import NotExpressible, array_of, known_array
from ...interchange.export import Writer as BaseWriter
from ...interchange.registry import Registry
from ...interchange.renames import names

Var: TypeAlias = Any  # A variable of a MIL program in coremltools.
WriteFunction: TypeAlias = "Callable[[Writer, Operation], Var | list[Var]]"
writes: Registry[WriteFunction] = Registry("writer of the kind")
# Exceptions that coremltools raises for invalid operands.
_REFUSALS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError,
    RuntimeError,
)  # fmt: skip
_TYPES = {
    **names("mil", "dtype", without=("float64",)), "int32": "int32", "int64": "int32", "bool": "bool",
}  # fmt: skip


def exported_operations() -> list[str]:
    """Return the operation kinds that can be exported to Core ML.

    Returns:
        A sorted list of names.

    Example:
        >>> "convolution2d" in mg.coreml.exported_operations()
        True
    """
    return sorted([*writes.known(), "constant", "placeholder", "read", "variable"])


def type_name(dtype: DType) -> str:
    """Return MIL's name of a dtype, or raise NotExpressible if ML Programs do not support it."""
    if str(dtype) not in _TYPES:
        raise NotExpressible(f"ML Programs do not support {dtype}")
    return _TYPES[str(dtype)]


class Writer(BaseWriter[Var]):
    """A MIL program under construction, with a map from graph tensors to MIL variables."""

    def __init__(self, builder: Any, target: int, value_of: Callable[[Tensor], np.ndarray]) -> None:
        super().__init__()
        # `target` is the minimum iOS version, such as 17.
        self.mb, self.target, self.value_of = builder, target, value_of
        self.states: dict[Tensor, Var] = {}  # Maps assigned variables to their Core ML states.

    def fresh(self, hint: str) -> str:
        """Return an unused name that is valid in MIL."""
        plain = re.sub(r"\W", "_", hint)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        return super().fresh(plain)

    def operation(self, op: Operation) -> list[Var]:
        """Add an operation to the MIL program and return its results.

        Raises NotExpressible if MIL cannot express the operation.
        """
        if op.kind == "placeholder":
            raise NotExpressible("the placeholder is not an input of the export: add it to inputs")
        if op.kind == "variable":
            tensor = op.outputs[0]
            if tensor in self.states:
                return [self.mb.read_state(input=self.states[tensor])]
            return [self.constant(self.value_of(tensor), tensor.dtype, tensor.name)]
        if op.kind == "constant":
            return [self.constant(array_of(op), op.outputs[0].dtype, op.name)]
        if op.kind == "read":
            return [self[op.inputs[0]]]
        writer = writes.get(op.kind)
        if writer is None:
            raise NotExpressible("MIL has no such operation")
        for tensor in op.outputs:
            type_name(tensor.dtype)
        try:
            made = writer(self, op)
        except _REFUSALS as error:
            raise NotExpressible(
                f"coremltools rejects the operation: {str(error).splitlines()[0] if str(error) else error!r}"
            ) from error
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def block(self, block: Block, given: Sequence[Var]) -> list[Var]:
        """Add the operations of a graph's block at the builder's current position and return the block's results."""
        for tensor, var in zip(block.arguments, given, strict=True):
            self.give(tensor, var)
        for op in block.operations:
            if op.kind == "argument":
                continue
            try:
                made = self.operation(op)
            except KeyError as missing:
                raise NotExpressible(
                    f"{op.kind} '{op.name}' in its block depends on an operation that cannot be exported"
                ) from missing
            except NotExpressible as why:
                raise NotExpressible(f"{op.kind} '{op.name}' in its block: {why}") from why
            for tensor, var in zip(op.outputs, made, strict=True):
                self.give(tensor, var)
        return [self.mb.identity(x=self[tensor]) for tensor in block.results]

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, value: np.ndarray, dtype: DType, hint: str = "constant") -> Var:
        """Add a constant. Integers are converted to int32."""
        kind = type_name(dtype)
        array = np.asarray(value)
        if kind == "int32":
            limits = np.iinfo(np.int32)
            if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
                raise NotExpressible(
                    "the constant holds integers outside the int32 range, but ML Programs have no wider type"
                )
            array = array.astype(np.int32)
        return self.mb.const(val=array, name=self.fresh(hint))

    def number(self, value: float, dtype: DType) -> Any:
        """Return a NumPy scalar of the given dtype, for use as a MIL constant."""
        return {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "bool": np.bool_}[type_name(dtype)](value)

    def shape_operand(self, tensor: Tensor) -> Any:
        """Return an integer tensor as a shape operand: an array if the tensor is constant, and a MIL variable
        otherwise.
        """
        known = known_array(tensor)
        return known.reshape(-1).astype(np.int32) if known is not None else self[tensor]

    def known(self, var: Var, what: str) -> np.ndarray:
        """Return the elements of a constant MIL variable, or raise NotExpressible if they are computed at run time."""
        if var.val is None:
            raise NotExpressible(f"{what} must be constant, but depends on values computed at run time")
        return np.asarray(var.val)

    # --- helpers for writers -----------------------------------------------------------------------------------------

    def turned(self, x: Var, permutation: Sequence[int]) -> Var:
        """Permute axes, or return x if the order is unchanged."""
        order = [int(axis) for axis in permutation]
        return x if order == list(range(len(order))) else self.mb.transpose(x=x, perm=order)

    def spread(self, x: Var, axes: Sequence[int]) -> Var:
        """Insert axes of size 1."""
        return self.mb.expand_dims(x=x, axes=list(axes))
