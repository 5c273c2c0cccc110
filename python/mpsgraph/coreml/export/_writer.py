"""The table of writers, and what they write with: coremltools' builder of MIL.

`@writes("relu")` enters the function that makes MIL's operations of one of the graph's; `Writer` has the variables that
stand for tensors. MIL infers types and known values while it is built, so that what does not fit is found there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._core import Block, DType, Operation, Tensor
from ...interchange.export import Unsaid, array_of, known_array

Var: TypeAlias = Any  # coremltools' variable of a MIL program
WriteFunction: TypeAlias = "Callable[[Writer, Operation], Var | list[Var]]"
_WRITERS: dict[str, WriteFunction] = {}
# What coremltools raises for what does not fit.
_REFUSALS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError,
    RuntimeError,
)  # fmt: skip
_TYPES = {"float32": "fp32", "float16": "fp16", "int32": "int32", "int64": "int32", "bool": "bool"}


def writes(*kinds: str) -> Callable[[WriteFunction], WriteFunction]:
    """Enters the function that writes one kind of operation or several."""

    def enter(function: WriteFunction) -> WriteFunction:
        for kind in kinds:
            _WRITERS[kind] = function
        return function

    return enter


def exported_operations() -> list[str]:
    """The kinds of operations that can be exported.

    >>> "convolution2d" in mg.coreml.exported_operations()
    True
    """
    return sorted([*_WRITERS, "constant", "placeholder", "read", "variable"])


def type_name(dtype: DType) -> str:
    """MIL's name of an element type. Unsaid for those that programs do not compute in."""
    if str(dtype) not in _TYPES:
        raise Unsaid(f"ML Programs do not compute in {dtype}")
    return _TYPES[str(dtype)]


class Writer:
    """A program that is being built: the builder, and what stands for each tensor."""

    def __init__(self, builder: Any, target: int, value_of: Callable[[Tensor], np.ndarray]) -> None:
        self.mb, self.target, self.value_of = builder, target, value_of  # target: the iOS version that runs it
        self._vars: dict[Tensor, Var] = {}
        self.states: dict[Tensor, Var] = {}  # variables that are assigned, and what Core ML keeps of them
        self._names: set[str] = set()

    def give(self, tensor: Tensor, var: Var) -> None:
        """The tensor is what the variable stands for."""
        self._vars[tensor] = var

    def has(self, tensor: Tensor) -> bool:
        """Has the tensor been written?"""
        return tensor in self._vars

    def __getitem__(self, tensor: Tensor) -> Var:
        return self._vars[tensor]

    def all(self, op: Operation) -> list[Var]:
        """The variables of all operands."""
        return [self._vars[tensor] for tensor in op.inputs]

    def fresh(self, hint: str) -> str:
        """A name that MIL takes and that nothing has yet."""
        plain = re.sub(r"\W", "_", hint)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        name, number = plain, 0
        while name in self._names:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name)
        return name

    def operation(self, op: Operation) -> list[Var]:
        """What an operation becomes. Unsaid when MIL has no word for it, or its types do not fit."""
        if op.kind == "placeholder":
            raise Unsaid("is no input of the export: name it among the inputs")
        if op.kind == "variable":
            tensor = op.outputs[0]
            if tensor in self.states:
                return [self.mb.read_state(input=self.states[tensor])]
            return [self.constant(self.value_of(tensor), tensor.dtype, tensor.name)]
        if op.kind == "constant":
            return [self.constant(array_of(op), op.outputs[0].dtype, op.name)]
        if op.kind == "read":
            return [self._vars[op.inputs[0]]]
        writer = _WRITERS.get(op.kind)
        if writer is None:
            raise Unsaid("MIL has no operation for it")
        for tensor in op.outputs:
            type_name(tensor.dtype)
        try:
            made = writer(self, op)
        except _REFUSALS as error:
            raise Unsaid(f"coremltools refuses it: {str(error).splitlines()[0] if str(error) else error!r}") from error
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def block(self, block: Block, given: Sequence[Var]) -> list[Var]:
        """The results of a block, its operations written where the builder stands now."""
        for tensor, var in zip(block.arguments, given, strict=True):
            self.give(tensor, var)
        for op in block.operations:
            if op.kind == "argument":
                continue
            try:
                made = self.operation(op)
            except KeyError as missing:
                raise Unsaid(f"{op.kind} '{op.name}' in its block takes what cannot be said") from missing
            except Unsaid as why:
                raise Unsaid(f"{op.kind} '{op.name}' in its block {why}") from why
            for tensor, var in zip(op.outputs, made, strict=True):
                self.give(tensor, var)
        return [self.mb.identity(x=self._vars[tensor]) for tensor in block.results]

    # --- constants ---------------------------------------------------------------------------------------------------

    def constant(self, value: np.ndarray, dtype: DType, hint: str = "constant") -> Var:
        """A constant; integers are int32."""
        kind = type_name(dtype)
        array = np.asarray(value)
        if kind == "int32":
            limits = np.iinfo(np.int32)
            if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
                raise Unsaid("holds integers of more than 32 bits, which ML Programs do not have")
            array = array.astype(np.int32)
        return self.mb.const(val=array, name=self.fresh(hint))

    def number(self, value: float, dtype: DType) -> Any:
        """A number of an element type."""
        return {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "bool": np.bool_}[type_name(dtype)](value)

    def shape_operand(self, tensor: Tensor) -> Any:
        """An int tensor as MIL takes shapes."""
        known = known_array(tensor)
        return known.reshape(-1).astype(np.int32) if known is not None else self[tensor]

    def known(self, var: Var, what: str) -> np.ndarray:
        """A variable's contents. Unsaid when they are computed in the run."""
        if var.val is None:
            raise Unsaid(f"{what} must be known in the file")
        return np.asarray(var.val)

    # --- what many writers need --------------------------------------------------------------------------------------

    def turned(self, x: Var, permutation: Sequence[int]) -> Var:
        """Axes in another order."""
        order = [int(axis) for axis in permutation]
        return x if order == list(range(len(order))) else self.mb.transpose(x=x, perm=order)

    def spread(self, x: Var, axes: Sequence[int]) -> Var:
        """New axes of one element."""
        return self.mb.expand_dims(x=x, axes=list(axes))
