"""Translations of If, Loop, and Scan.

If a condition is known while the graph is being built, only the selected branch is imported, and a loop with a known
number of iterations is unrolled. All other branches and loops become `if` and `while` operations in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import GraphProto, numpy_helper

from ..._core import Tensor, bool_, int32, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ...interchange.data_dependent import DataDependent, ValueOfLoop
from ...interchange.importer import InNode
from ..building.node import Node, Results, operator
from ..reading.files import input_type
from .reductions import reversed_along

MOST_REPEATED = 100_000  # Maximum number of nodes after unrolling a loop.
MOST_ASKED = 300  # Maximum number of iterations to unroll if the condition must be evaluated after each.


@operator("If", upto=25)
def if_(node: Node) -> Results:
    branches = node.attribute("then_branch"), node.attribute("else_branch")
    condition = node.tensor(0)
    try:
        taken = branches[0] if bool(node.value(0).reshape(())) else branches[1]
        return node.importer.subgraph(taken, [])
    except (DataDependent, ValueOfLoop):
        if not _is_of_condition(node):
            raise

    def branch(graph: Any) -> list[Tensor]:
        with node.importer.block():
            return node.importer.subgraph(graph, [])

    g = node.g
    try:
        results = g.if_(g.reshape(condition, ()), lambda: branch(branches[0]), lambda: branch(branches[1]))
        if node.importer.branches_differ(results):
            # The branches have the same shapes only for some input sizes, so each run needs the branch that its
            # condition selects.
            with suppress(ValueOfLoop):
                return node.importer.subgraph(branches[0] if bool(node.value(0).reshape(())) else branches[1], [])
        return results
    except (ShapeError, InNode) as error:
        # The branches have different shapes, or one of them is invalid for the operands. The condition is therefore
        # needed while the graph is being built.
        if isinstance(error, InNode) and not isinstance(error.error, ShapeError):
            raise
        if _is_squeeze(node, branches[0], branches[1]):
            assumed = node.importer.assume_one()
            if assumed is not None:
                return node.importer.subgraph(branches[0] if assumed else branches[1], [])
        return node.importer.subgraph(branches[0] if bool(node.value(0).reshape(())) else branches[1], [])


def _is_squeeze(node: Node, then: Any, otherwise: Any) -> bool:
    """Return whether an If node was exported from torch's squeeze, which removes an axis only if its size is 1."""
    *constants, first = then.node or [None]
    (last,) = otherwise.node if len(otherwise.node) == 1 else [None]
    if first is None or last is None or (first.op_type, last.op_type) != ("Squeeze", "Identity"):
        return False
    if any(n.op_type != "Constant" for n in constants) or first.input[0] != last.input[0] or len(then.output) != 1:
        return False
    if len(first.input) == 2:
        stated = [a.t for n in constants for a in n.attribute if n.output[0] == first.input[1] and a.name == "value"]
        if not stated and node.importer.shape_of(first.input[1]) != (1,):
            return False
        axes = numpy_helper.to_array(stated[0]) if stated else node.importer.value(first.input[1])
    else:
        axes = np.array([axis for a in first.attribute if a.name == "axes" for axis in a.ints])
    source = node.importer.tensor(first.input[0])
    if axes.size != 1 or source.shape is None:
        return False
    axis = node.axis(source, int(axes.reshape(-1)[0]))
    answers = [node.importer.value_for_size(node.tensor(0), source, axis, size) for size in (1, 2)]
    return [a is not None and a.reshape(-1).tolist() for a in answers] == [[True], [False]]


def _is_of_condition(node: Node) -> bool:
    """Return whether the import failed because the condition of an If is unknown, and not because of a node inside a
    branch.
    """
    try:
        node.value(0)
    except (DataDependent, ValueOfLoop):
        return True
    return False


@operator("Loop", upto=25)
def loop(node: Node) -> Results:
    body = node.attribute("body")
    carried = [node.tensor(i) for i in range(2, len(node.inputs))]
    scans = len(body.output) - 1 - len(carried)
    if len(body.input) != 2 + len(carried) or scans < 0:
        raise GraphError(
            f"the body of a loop with {len(carried)} carried values must have {2 + len(carried)} inputs and at least "
            f"{1 + len(carried)} outputs, got {len(body.input)} and {len(body.output)}"
        )
    to_the_end = node.has(0) and _goes_on(node)
    known = to_the_end and node.known_ints(0) is not None
    if not known and (scans == 0 or to_the_end):
        try:
            return _counted_loop(node, carried) if to_the_end else _while(node, carried)
        # If carried values change shape, the loop must be unrolled, which needs the number of iterations.
        except (ShapeError, InNode) as error:
            if isinstance(error, InNode) and not isinstance(error.error, ShapeError):
                raise
    return _unrolled(node, carried, scans, known)


def _goes_on(node: Node) -> bool:
    """Return whether only the iteration count ends a loop: its condition is absent, or is true initially and never
    changes.
    """
    body = node.attribute("body")
    begins = node.known_ints(1) if node.has(1) else [1]
    if begins is None:
        return False
    source = body.output[0].name
    # Follow Identity nodes back from the body's output condition to its input condition.
    for inner in reversed(body.node):
        if source in inner.output and inner.op_type == "Identity":
            source = inner.input[0]
    constants = {n.output[0]: a.t for n in body.node if n.op_type == "Constant" for a in n.attribute}
    constants |= {t.name: t for t in body.initializer}
    if source in constants:
        return all(begins) and bool(numpy_helper.to_array(constants[source]).all())
    return bool(source == body.input[1].name)


def _counted_loop(node: Node, carried: list[Tensor]) -> Results:
    """Build a loop whose number of iterations is known only at run time."""
    g, importer = node.g, node.importer
    count = g.maximum(g.reshape(node.cast(node.tensor(0), int64), (1,)), 0)
    if node.has(1):  # An initially false condition means no iterations.
        count = g.multiplication(count, g.cast(g.reshape(node.tensor(1), (1,)), int64))

    def iteration(number: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        given = [g.cast(number, int64), g.constant(True), *values]
        return importer.subgraph(node.attribute("body"), given)[1:]

    return _kept(node, count, carried, iteration)


def _kept(
    node: Node, count: Tensor, carried: list[Tensor], iteration: Callable[[Tensor, Sequence[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """Build a loop and return the final carried values and the stacked per-iteration results.

    `count` is the number of iterations, an int64 tensor with one element. `iteration` maps the iteration number and the
    carried values to the new carried values, followed by the results to stack along a new first axis.

    Raises ShapeError if a carried value changes its shape, and DataDependent if the shape of a stacked result is
    unknown.
    """
    g = node.g
    # This iteration is built only to determine the types of the results, and is never run.
    for_types = iteration(g.constant(0, dtype=int32), carried)[len(carried) :]
    shapes = [[node.dim(one, axis) for axis in range(node.rank(one))] for one in for_types]
    rooms = []
    for one, shape in zip(for_types, shapes, strict=True):
        zero = g.constant(False) if one.dtype == bool_ else g.cast(g.constant(0), one.dtype)
        # The loop needs non-empty buffers even if its body never runs.
        rooms.append(g.broadcast_to(zero, node.joined([g.maximum(count, 1), *shape])))

    def body(number: Tensor, *values: Tensor) -> list[Tensor]:
        with node.importer.block():
            results = iteration(number, values[: len(carried)])
        place = g.cast(g.reshape(number, (1,)), int64)
        filled = []
        for room, one in zip(values[len(carried) :], results[len(carried) :], strict=True):
            start = g.concat([place, g.constant([0] * node.rank(one), dtype=int64)], 0) if node.rank(one) else place
            sizes = node.joined([1, *(node.dim(one, axis) for axis in range(node.rank(one)))])
            filled.append(g.slice_update_data(room, g.expand_dims(one, 0), start, sizes=sizes))
        return [*results[: len(carried)], *filled]

    times = g.cast(g.reshape(count, ()), int32)
    results = g.for_(times, initial=[*carried, *rooms], body=body)
    for i, shape in enumerate(shapes, len(carried)):
        sizes = node.joined([count, *shape])
        results[i] = g.reshape(g.slice(results[i], [0] * (1 + len(shape)), sizes=sizes), sizes)
    return results


def _unrolled(node: Node, carried: list[Tensor], scans: int, known: bool) -> Results:
    g, body, importer = node.g, node.attribute("body"), node.importer
    limit = int(node.value(0).reshape(())) if node.has(0) else None
    going = not node.has(1) or bool(node.value(1).reshape(()))
    condition = node.tensor(1) if node.has(1) else g.constant(True)
    stacked: list[list[Tensor]] = [[] for _ in range(scans)]
    iteration = 0
    most = MOST_REPEATED // max(1, len(body.node)) + 1
    if known and going and limit is not None and limit > most:
        raise _too_long(most, body)
    while going and (limit is None or iteration < limit):
        if iteration * max(1, len(body.node)) > MOST_REPEATED or (not known and iteration >= MOST_ASKED):
            raise _too_long(iteration, body)
        number = g.constant(np.array(iteration, np.int64))
        condition, *results = importer.subgraph(body, [number, condition, *carried])
        carried = results[: len(carried)]
        for kept, result in zip(stacked, results[len(carried) :], strict=True):
            kept.append(result)
        going = known or bool(importer.value_of(condition).reshape(()))
        iteration += 1
    return [
        *carried,
        *(_stacked(node, kept, info) for kept, info in zip(stacked, body.output[1 + len(carried) :], strict=True)),
    ]


def _too_long(iterations: int, body: GraphProto) -> UnsupportedError:
    return UnsupportedError(
        f"the loop must be unrolled, but has more than {iterations} iterations, the limit for its body of "
        f"{len(body.node)} nodes"
    )


def _stacked(node: Node, kept: Sequence[Tensor], info: Any) -> Tensor:
    if kept:
        return node.g.stack(list(kept), 0)
    dtype, shape = input_type(info)  # Without iterations, the result is an empty tensor of the declared type.
    if shape is None or min(shape, default=0) < 0:
        raise UnsupportedError("a Loop without iterations needs a declared shape for each per-iteration output")
    return node.g.broadcast_to(node.g.cast(node.g.constant(0), dtype), (0, *shape))


def _while(node: Node, carried: list[Tensor]) -> Results:
    g, body, importer = node.g, node.attribute("body"), node.importer
    start = g.constant(np.array(0, np.int64))
    limit = g.reshape(node.cast(node.tensor(0), int64), ()) if node.has(0) else None
    going = g.reshape(node.tensor(1), ()) if node.has(1) else g.constant(True)

    def before(number: Tensor, going: Tensor, *values: Tensor) -> tuple[Tensor, list[Tensor]]:
        more = going if limit is None else g.logical_and(going, g.less_than(number, limit))
        return more, [number, going, *values]

    def after(number: Tensor, going: Tensor, *values: Tensor) -> list[Tensor]:
        with importer.block():
            condition, *results = importer.subgraph(body, [number, going, *values])
        return [g.addition(number, 1), g.reshape(condition, ()), *results]

    return g.while_([start, going, *carried], before, after)[2:]


@operator("Scan", upto=25)
def scan(node: Node) -> Results:
    g, body = node.g, node.attribute("body")
    if node.version < 9:
        return _batched_scan(node)
    count = node.attribute("num_scan_inputs")
    states = [node.tensor(i) for i in range(len(node.inputs) - count)]
    sources = [node.tensor(i) for i in range(len(states), len(node.inputs))]
    outputs = len(body.output) - len(states)
    axes = [node.axis(x, a) for x, a in zip(sources, node.attribute("scan_input_axes", [0] * count), strict=True)]
    backwards = node.attribute("scan_input_directions", [0] * count)
    states, kept = _scanned(node, states, sources, axes, backwards)
    results = []
    result_axes = node.attribute("scan_output_axes", [0] * outputs)
    for steps, axis, turned in zip(
        kept, result_axes, node.attribute("scan_output_directions", [0] * outputs), strict=True
    ):
        if isinstance(steps, Tensor):
            rank = node.rank(steps)
            steps = reversed_along(node, steps, [0]) if turned else steps
            order = list(range(1, rank))
            order.insert(axis % rank, 0)
            results.append(g.transpose(steps, order))
        else:
            results.append(g.stack(steps[::-1] if turned else steps, axis % (node.rank(steps[0]) + 1)))
    return [*states, *results]


def _scanned(
    node: Node, states: list[Tensor], sources: list[Tensor], axes: Sequence[int], backwards: Sequence[int]
) -> tuple[list[Tensor], Sequence[list[Tensor] | Tensor]]:
    """Translate a Scan by applying its body to each slice of the scanned tensors.

    Returns the final states, and for each output the results of all steps: a list, or one stacked tensor if the number
    of steps is known only at run time.
    """
    g, body = node.g, node.attribute("body")
    lengths = {node.dims(x)[a] for x, a in zip(sources, axes, strict=True)} - {-1}
    if not lengths:
        return _scanned_to_the_end(node, states, sources, axes, backwards)
    if len(lengths) != 1 or 0 in lengths:
        raise ShapeError(f"the scanned axes must have the same positive size, got sizes {sorted(lengths)}")
    (length,) = lengths
    if length * max(1, len(body.node)) > MOST_REPEATED:
        raise UnsupportedError(
            f"Scan can be unrolled to at most {MOST_REPEATED} nodes, got {length} steps of {len(body.node)} nodes"
        )
    kept: list[list[Tensor]] = [[] for _ in range(len(body.output) - len(states))]
    for step in range(length):
        parts = [
            g.squeeze(g.slice_axis(x, axis, length - 1 - step if back else step, 1), [axis])
            for x, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        results = node.importer.subgraph(body, [*states, *parts])
        for steps, result in zip(kept, results[len(states) :], strict=True):
            steps.append(result)
        states = results[: len(states)]
    return states, kept


def _scanned_to_the_end(
    node: Node, states: list[Tensor], sources: list[Tensor], axes: Sequence[int], backwards: Sequence[int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Build a scan whose number of steps is known only at run time."""
    g = node.g
    count = node.dim(sources[0], axes[0])
    assert isinstance(count, Tensor)

    def iteration(number: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        place = g.reshape(g.cast(number, int64), (1,))
        parts = []
        for x, axis, back in zip(sources, axes, backwards, strict=True):
            at = g.subtraction(g.subtraction(count, 1), place) if back else place
            parts.append(g.squeeze(g.gather(x, at, axis), [axis]))
        return node.importer.subgraph(node.attribute("body"), [*values, *parts])

    results = _kept(node, count, states, iteration)
    return results[: len(states)], results[len(states) :]


def _batched_scan(node: Node) -> Results:
    """Translate Scan-8, which scans each batch entry separately.

    Operand 0 holds the sequence lengths, and all other operands have a leading batch axis.
    """
    g, count = node.g, node.attribute("num_scan_inputs")
    if node.has(0):
        raise UnsupportedError("Scan-8 with sequence_lens is not supported: omit it and use sequences of equal length")
    tensors = [node.tensor(i) for i in range(1, len(node.inputs))]
    batch = node.size(tensors[0], 0)
    backwards = node.attribute("directions", [0] * count)
    entries = []
    for b in range(batch):
        parts = [g.squeeze(g.slice_axis(x, 0, b, 1), [0]) for x in tensors]
        states, kept = _scanned(node, parts[:-count], parts[-count:], [0] * count, backwards)
        together = (steps if isinstance(steps, Tensor) else g.stack(steps, 0) for steps in kept)
        entries.append([*states, *together])
    return [g.stack(list(results), 0) for results in zip(*entries, strict=True)]
