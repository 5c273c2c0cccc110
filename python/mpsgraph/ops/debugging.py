"""Looking into runs: printing tensors as they are computed, and conditions that must hold.

MPSGraph has neither (docs/decisions/0037). For NaN and infinities there is check_finite of Graph.run, compile and
Trainer; docs/debugging.md shows all of them.
"""

from __future__ import annotations

from typing import overload

from .. import _core
from ..errors import GraphError
from ._family import Family, Operation, Tensor


class Debugging(Family):
    """print and check."""

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
        """Prints a tensor's value whenever a run computes it; without a tensor, prints the graph, at once.

        result = tensor. The text goes to sys.stdout: message (by default the operation's name), type, elements. It
        comes while the run computes, on device metal when it is done, in the order of creation. A print at the top runs
        where its result is needed, or where `.operation` is a target operation; in a block of control flow it runs with
        the block, needed or not. Of a block of control flow device metal keeps the last 32 values of each print.
        Args: tensor, of any dtype and shape; message; summarize, of axes with more than twice so many elements only
        that many are shown at each end, -1: all. locations, with the places in the source, and max_constant_elements,
        where long constants are cut, are for the graph. Result: the tensor. Errors: GraphError for another summarize;
        UnsupportedError where an executable that prints is serialized for Metal. Gradient: passes through.
        Source: ours, as TensorFlow's tf.print; see decision 0037.

        >>> g = mg.Graph()
        >>> x = g.constant([1.0, 2.0, 3.0])
        >>> y = g.print(x * x, "squares") + 1
        >>> g.run({}, y).tolist()
        squares: float32[3] [1, 4, 9]
        [2.0, 5.0, 10.0]
        """
        if tensor is None:
            if message is not None:
                raise GraphError("[print] which tensor? A message goes with one: g.print(tensor, message)")
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
        """Ends the run with a CheckError where an element of a condition is false.

        Args: condition, bool of any shape; message, what the error says; on, a tensor that carries the check: whoever
        needs the result runs it. Result: `on`, or without it the operation, to be a target operation or a control
        dependency; in a block of control flow it runs with the block. Variables stay as they were, unless the condition
        depends on what the run assigns, the check stands in a loop that assigns, or shapes depended on values before
        (docs/decisions/0025). Errors: DTypeError for a condition that is not bool; UnsupportedError where an executable
        that checks is serialized for Metal. Gradient: none; that of `on` passes through.
        Source: ours, as TensorFlow's tf.debugging.assert_greater and its kin; see decision 0037.

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
