"""Calling an executable of another graph by a symbol.

The compilation says what stands behind the symbol: CompilationDescriptor(callables={symbol: executable}). So a part
that is the same in many graphs is compiled once, keeps variables of its own, and can be exchanged without another
graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import DTypeLike, Family, Operation, Tensor, as_dtype, ints


class Call(Family):
    """call."""

    def call(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        output_types: Sequence[tuple[Sequence[int], DTypeLike]],
        name: str | None = None,
        *,
        transpose: str | None = None,
    ) -> list[Tensor]:
        """The results of an executable that is found by its symbol when this graph is compiled.

        Args: symbol, a key of the `callables` in the CompilationDescriptor; inputs, in the order of the executable's
        feeds and of their types; output_types, (shape, dtype) of each of its targets, in their order, all sizes known;
        transpose, for an executable that is linear in its inputs: the symbol of another one that takes gradients of
        the results and gives those of the inputs. Result: a list of tensors. Errors: ShapeError for an unknown size and
        where types differ, GraphError, when compiling, for a symbol that has no callable, or whose executable belongs
        to the caller's own graph. Gradient: a call of the transpose, whose own transpose this is; none without.
        Assigns of the executable happen, in its own graph; on device metal UnsupportedError for an executable with
        variables. Source: MPSGraph callSymbolName:inputTensors:outputTypes:name: and
        MPSGraphCompilationDescriptor.callables.

        >>> inner, outer = mg.Graph(), mg.Graph()
        >>> a, x = inner.placeholder((2,)), outer.placeholder((2,))
        >>> double = inner.compile({a: (2,)}, [a * 2])
        >>> (y,) = outer.call("double", [x], [((2,), mg.float32)])
        >>> options = mg.CompilationDescriptor(callables={"double": double})
        >>> executable = outer.compile({x: (2,)}, [y + 1], options=options)
        >>> executable.run([np.float32([1, 2])])[0].tolist()
        [3.0, 5.0]
        """
        return list(self._call(symbol, inputs, output_types, name, transpose or "").outputs)

    def call_operation(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        output_types: Sequence[tuple[Sequence[int], DTypeLike]] = (),
        name: str | None = None,
    ) -> Operation:
        """As `call`, for executables that are called for their assigns: the operation, to be a target operation.

        Args: as call; an executable without targets has no output_types. Result: an operation. Errors: as call.
        Gradient: none. Source: MPSGraph callSymbolName:inputTensors:outputTypes:name:.

        >>> inner, outer = mg.Graph(), mg.Graph()
        >>> v = inner.variable([1.0])
        >>> step = inner.compile({}, [], [inner.assign(v, v + 1)])
        >>> options = mg.CompilationDescriptor(callables={"step": step})
        >>> _ = outer.compile({}, [], [outer.call_operation("step", [])], options=options).run([])
        >>> inner.variable_value(v).tolist()
        [2.0]
        """
        return self._call(symbol, inputs, output_types, name, "")

    def _call(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        output_types: Sequence[tuple[Sequence[int], DTypeLike]],
        name: str | None,
        transpose: str,
    ) -> Operation:
        types = [(as_dtype(dtype), tuple(ints(shape, "[call] output_types"))) for shape, dtype in output_types]
        attributes: dict[str, Any] = {"symbol": symbol, "types": types, "transpose": transpose}
        return self._operation("call", self._operands("call", inputs), attributes, name)
