"""Debugging of runs: printing tensors as they are computed, and checking conditions.

MPSGraph has neither operation (docs/decisions/0037). To find NaN and infinities, use the argument check_finite of
Graph.run, Graph.compile, and Trainer; docs/debugging.md shows all of these.
"""

from __future__ import annotations

from typing import overload

from .. import _core
from ..errors import GraphError
from ._family import Family, Operation, Tensor


class Debugging(Family):
    """Graph methods for printing tensors and checking conditions."""

    @overload
    def print(self, tensor: None = None, *, locations: bool = True, max_constant_elements: int = 8) -> None: ...

    @overload
    def print(
        self, tensor: Tensor, message: str | None = None, summarize: int = 3, name: str | None = None
    ) -> Tensor: ...

    def print(
        self,
        tensor: Tensor | None = None,
        message: str | None = None,
        summarize: int = 3,
        name: str | None = None,
        *,
        locations: bool = True,
        max_constant_elements: int = 8,
    ) -> Tensor | None:
        """Print the value of a tensor whenever a run computes it; without a tensor, print the graph immediately.

        result = tensor. The text goes to sys.stdout and consists of the message, the type, and the elements. On the CPU
        it appears while the run computes; on the Metal device it appears at the end of the run, in the order of
        creation. A print outside of control flow runs if its result is needed or its `.operation` is a target
        operation; a print in a block of control flow runs whenever the block does, and the Metal device keeps only the
        last 32 values of each such print.

        Args:
            tensor: Tensor of any dtype and shape; None, the default, prints the graph.
            message: Text that precedes the value. Defaults to the name of the operation.
            summarize: Number of elements shown at each end of an axis that has more than twice as many; -1 shows all.
                Defaults to 3.
            name: Name of the operation.
            locations: When printing the graph, whether to include source locations. Defaults to True.
            max_constant_elements: When printing the graph, the number of elements after which constants are truncated.
                Defaults to 8.

        Returns:
            The tensor, or None if the graph was printed.

        Raises:
            GraphError: If summarize is neither positive nor -1, or a message is given without a tensor.
            UnsupportedError: When an executable that prints is serialized for Metal.

        Gradient: the incoming gradient.

        Source: this package, after TensorFlow's tf.print; see decision 0037.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([1.0, 2.0, 3.0])
            >>> y = g.print(x * x, "squares") + 1
            >>> g.run({}, y).tolist()
            squares: float32[3] [1, 4, 9]
            [2.0, 5.0, 10.0]
        """
        if tensor is None:
            if message is not None:
                raise GraphError("[print] message requires a tensor to print: call g.print(tensor, message)")
            print(_core.print_graph(self, locations, max_constant_elements))
            return None
        return self._tensor("print", [tensor], name, message=message or "", summarize=summarize)

    @overload
    def check(self, condition: Tensor, message: str, on: None = None, name: str | None = None) -> Operation: ...

    @overload
    def check(self, condition: Tensor, message: str, on: Tensor, name: str | None = None) -> Tensor: ...

    def check(
        self, condition: Tensor, message: str, on: Tensor | None = None, name: str | None = None
    ) -> Operation | Tensor:
        """Abort the run with a CheckError if any element of a condition is false.

        Variables keep their values when a check fails, with three exceptions (docs/decisions/0025): the condition
        depends on a value that the run assigns, the check is in a loop that assigns variables, or an operation before
        the check has a shape that depends on values. A check in a block of control flow runs whenever the block does.

        Args:
            condition: Bool tensor of any shape.
            message: Text of the error.
            on: Tensor that carries the check: a run that needs the returned tensor performs the check. Defaults to
                None.
            name: Name of the operation.

        Returns:
            A tensor equal to `on`; if `on` is None, the check's operation, to use as a target operation or control
            dependency.

        Raises:
            DTypeError: If condition is not bool.
            UnsupportedError: When an executable that contains checks is serialized for Metal.

        Gradient: the incoming gradient to `on`; none to condition.

        Source: this package, after TensorFlow's tf.debugging.assert_greater and similar functions; see decision 0037.

        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1,), name="x")
            >>> y = g.logarithm(g.check(x > 0, "x must be positive", on=x))
            >>> g.run({x: np.float32([1])}, y).tolist()
            [0.0]
            >>> try:
            ...     y = g.run({x: np.float32([1, -1])}, y)
            ... except mg.CheckError as error:
            ...     print(str(error).partition("; built at")[0])
            [check] x must be positive; false at (1)
        """
        checked = self._operation("check", [condition], {"message": message}, name)
        if on is None:
            return checked
        self.begin_control_dependencies([checked])
        try:
            return self._tensor("identity", [on])
        finally:
            self.end_control_dependencies()
