"""Export of branches, loops, calls, and variable assignments to ONNX.

Branches and loop bodies become subgraphs that can refer to names in the enclosing graph. ONNX's Loop evaluates its
condition after the body, so the condition block of a `while` is written twice: before the loop and at the end of the
loop body. ONNX models cannot contain callables, so a callable is inlined at each call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, helper

from ..._core import Block, Operation, Tensor
from ...interchange.export import NotExpressible, known_array, needed, values_of
from ._graphs import branch, inlined, value_info, write_operations
from ._writer import Writer, writes

_NO_AXES = np.zeros(0, np.int64)


@writes("if")
def branches(w: Writer, op: Operation) -> list[str]:
    """Export an `if` operation as If, with each branch as a subgraph."""
    condition = _single(w, op.inputs[0], w.name(op.inputs[0]))
    then, otherwise = (branch(w, block, name) for block, name in zip(op.blocks, ("then", "else"), strict=True))
    return w.add_several("If", [condition], len(op.outputs), then_branch=then, else_branch=otherwise)


def _single(w: Writer, tensor: Tensor, name: str) -> str:
    """Reshape a one-element tensor to a scalar of rank 0."""
    return name if tensor.shape == () else w.add("Reshape", name, w.constant(_NO_AXES))


@writes("for")
def counted(w: Writer, op: Operation) -> list[str]:
    """Export a `for` loop as Loop. Its number of iterations is determined before the loop starts."""
    (body,) = op.blocks
    lower, upper, step = (known_array(tensor) for tensor in op.inputs[:3])
    if lower is not None and upper is not None and step is not None:
        times = w.ints(len(range(int(lower), int(upper), int(step))))
    else:
        times = _iterations(w, op)

    def iteration(inner: Writer, number: str, values: Sequence[str]) -> list[str]:
        index = inner.add("Cast", number, to=TensorProto.INT32)
        if step is None or step != 1:
            index = inner.add("Mul", index, inner.name(op.inputs[2]))
        if lower is None or lower != 0:
            index = inner.add("Add", index, inner.name(op.inputs[0]))
        return inlined(inner, body, [index, *values])

    return _loop(w, times, "", op.inputs[3:], [w.name(t) for t in op.inputs[3:]], iteration)


def _iterations(w: Writer, op: Operation) -> str:
    """Add nodes that compute the number of iterations of a `for` loop.

    The number is max(0, (upper - lower + step - sign(step)) / step), rounded toward zero.
    """
    lower, upper, step = (w.add("Cast", w.name(tensor), to=TensorProto.INT64) for tensor in op.inputs[:3])
    rounded = w.add("Sub", w.add("Add", w.add("Sub", upper, lower), step), w.add("Sign", step))
    return w.add("Max", w.add("Div", rounded, step), w.ints(0))


@writes("while")
def conditional(w: Writer, op: Operation) -> list[str]:
    """Export a `while` loop as Loop. The condition is evaluated before the loop and at the end of each iteration."""
    before, after = op.blocks
    going, *values = inlined(w, before, w.all(op))

    def iteration(inner: Writer, number: str, values: Sequence[str]) -> list[str]:
        condition, *results = inlined(inner, before, inlined(inner, after, values))
        return [_single(inner, before.results[0], condition), *results]

    return _loop(w, "", _single(w, before.results[0], going), before.results[1:], values, iteration)


def _loop(
    w: Writer, times: str, going: str, carried: Sequence[Tensor], values: Sequence[str], iteration: object
) -> list[str]:
    """Add a Loop node with initial values for the `carried` tensors.

    `iteration` writes the loop body. If the loop has a condition, the first result of `iteration` is the condition.
    """
    inner = Writer(w.opset, w)
    number, condition = w.fresh("iteration"), w.fresh("condition")
    names = [w.fresh("carried") for _ in carried]
    results = iteration(inner, number, names)  # type: ignore[operator]
    goes_on = results.pop(0) if going else condition
    going = going or w.constant(np.asarray(True))
    infos = [
        helper.make_tensor_value_info(number, TensorProto.INT64, []),
        helper.make_tensor_value_info(condition, TensorProto.BOOL, []),
        *(value_info(name, tensor) for name, tensor in zip(names, carried, strict=True)),
    ]
    outputs = [helper.make_tensor_value_info(inner.identity(goes_on), TensorProto.BOOL, [])]
    outputs += [value_info(inner.identity(name), tensor) for name, tensor in zip(results, carried, strict=True)]
    body = helper.make_graph(inner.nodes, w.fresh("body"), infos, outputs)
    if not carried:
        return []
    return w.add_several("Loop", [times, going, *values], len(carried), body=body)


@writes("call")
def call(w: Writer, op: Operation) -> list[str]:
    """Export a call by inlining the callable. If it is called several times, its variables are stored in the file
    only once.
    """
    symbol = str(op.attributes["symbol"])
    if symbol not in w.callables:
        raise NotExpressible(f"the operation calls '{symbol}', which is missing: pass callables={{'{symbol}': model}}")
    model, names = w.callables[symbol]
    if len(model.inputs) != len(op.inputs) or len(model.outputs) < len(op.outputs):
        raise NotExpressible(
            f"the operation calls '{symbol}' with {len(op.inputs)} inputs and {len(op.outputs)} results, but the model "
            f"in callables has {len(model.inputs)} inputs and {len(model.outputs)} outputs"
        )
    inner = Writer(w.opset, w)
    inner.nodes = w.nodes
    for tensor, name in names.items():
        inner.give(tensor, name)
    for placeholder, name in zip(model.inputs.values(), w.all(op), strict=True):
        inner.give(placeholder, name)
    outputs = list(model.outputs.values())[: len(op.outputs)]
    operations = needed(outputs)
    write_operations(inner, operations, values_of(model.graph, operations), w.problems, f"{symbol}/")
    names.update({v: inner.name(v) for v in model.graph.variables if inner.has(v)})
    return [inner.name(tensor) for tensor in outputs]


@writes("assign")
def assign(w: Writer, op: Operation) -> list[str]:
    """Export an assignment: later reads of the variable get the assigned value, and the last assigned value becomes an
    output.
    """
    variable, value = op.inputs
    if value.operation.kind == "random":
        # ONNX runtimes manage the state of their random number generator themselves, so the state is not exported.
        return []
    if variable not in w.states:
        raise NotExpressible(
            "the operation assigns a variable in a branch, loop, or callable, but ONNX needs assignments that run "
            "every time: move the assignment to the main graph"
        )
    w.states[variable] = w.identity(w.name(value))
    w.give(variable, w.states[variable])
    return []


def blocks_within(operations: Sequence[Operation]) -> list[Block]:
    """Return all blocks of the operations, including nested ones."""
    found = [block for operation in operations for block in operation.blocks]
    return found + [inner for block in found for inner in blocks_within(block.operations)]
