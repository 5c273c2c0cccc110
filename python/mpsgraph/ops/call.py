"""Calls from one graph to an executable compiled from another graph, which is referred to by a symbol.

CompilationDescriptor(callables={symbol: executable}) defines which executable a symbol refers to. A subgraph that many
graphs share is thus compiled once, keeps its own variables, and can be replaced without rebuilding the graphs that call
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._family import DTypeLike, Family, Operation, Tensor, as_dtype, ints


class Call(Family):
    """Graph methods for calls to executables of other graphs."""

    def call(
        self,
        symbol: str,
        inputs: Sequence[Tensor],
        output_types: Sequence[tuple[Sequence[int], DTypeLike]],
        name: str | None = None,
        *,
        transpose: str | None = None,
    ) -> list[Tensor]:
        """Call an executable of another graph, found by its symbol when this graph is compiled.

        Assignments in the executable take effect in its own graph. On the Metal device, executables with variables are
        not supported.

        Args:
            symbol: A key of the `callables` of the CompilationDescriptor.
            inputs: Tensors in the order of the executable's feeds, with their types.
            output_types: (shape, dtype) of each target of the executable, in order; every size must be static.
            name: Name of the operation.
            transpose: Symbol of an executable that maps gradients of the results to gradients of the inputs, for an
                executable that is linear in its inputs. None, the default, if the call is not differentiable.

        Returns:
            A list with one tensor for each target of the executable.

        Raises:
            ShapeError: If a size in output_types is not static or, at compile time, a shape does not match the
                executable's.
            DTypeError: At compile time, if a dtype does not match the executable's.
            GraphError: If symbol is empty or, at compile time, has no callable or its executable belongs to this graph.
            UnsupportedError: On the Metal device, at compile time, if the executable has variables.

        Gradient: a call to the transpose, whose own transpose is this call; none if transpose is None.

        Source: MPSGraph callSymbolName:inputTensors:outputTypes:name: and MPSGraphCompilationDescriptor.callables.

        Example:
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
        """Create an operation that calls an executable of another graph for its assignments.

        Args:
            symbol: A key of the `callables` of the CompilationDescriptor.
            inputs: Tensors in the order of the executable's feeds, with their types.
            output_types: (shape, dtype) of each target of the executable, in order. Defaults to none.
            name: Name of the operation.

        Returns:
            An operation, to pass to a run or a compilation as a target operation.

        Raises:
            ShapeError: If a size in output_types is not known or, at compile time, a shape does not match the
                executable's.
            DTypeError: At compile time, if a dtype does not match the executable's.
            GraphError: If symbol is empty or, at compile time, has no callable or its executable belongs to this graph.
            UnsupportedError: On the Metal device, at compile time, if the executable has variables.

        Gradient: none.

        Source: MPSGraph callSymbolName:inputTensors:outputTypes:name:.

        Example:
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
