"""Lowerings of control flow (if, while, and for), and of the histories from which gradients of loops are computed.

A history is a stack of values from loop iterations. Its capacity is the number of iterations of the loop that fills it,
or loop_limit if this number is known only at run time. Reading beyond the capacity returns NaN. Assigned variables and
the flag for out-of-range indices are carried through loops, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._core import Block, Tensor, history_depth
from ...errors import UnsupportedError
from ._table import Step, Value, lowers
from .arithmetic import is_complex, is_float


@jax.tree_util.register_dataclass
@dataclass
class History:
    """A stack of values from loop iterations: arrays whose first axis is the iteration, and the number of values."""

    buffers: Any
    count: Value


def _map(function: Callable[..., Value], *trees: Any) -> Any:
    return jax.tree.map(function, *trees)


def _zero_of(tensor: Tensor, depth: int, room: int) -> Any:
    """Return zeros with the shape of a tensor, or an empty history if `depth` is at least 1.

    With a larger depth, the elements of the history are themselves histories, nested to this depth.
    """
    if depth == 0:
        return jnp.zeros(tuple(tensor.shape or ()), np.dtype(tensor.dtype.numpy))
    inner = _zero_of(tensor, depth - 1, room)
    return History(_map(lambda x: jnp.zeros((room, *x.shape), x.dtype), inner), jnp.zeros((), np.int32))


@lowers("history_push")
def history_push(_: Step, history: History, value: Any) -> History:
    """Append a value to a history. If the history is full, only its count increases."""
    buffers = _map(
        lambda buffer, x: buffer.at[history.count].set(x, mode="drop"), history.buffers, _map(jnp.asarray, value)
    )
    return History(buffers, history.count + np.int32(1))


@lowers("history_pop")
def history_pop(_: Step, history: History) -> tuple[History, Any]:
    """Pop the last value of a history. Return the shorter history and the value, which is zero if the history was
    empty.
    """
    place = history.count - np.int32(1)

    def read(buffer: Value) -> Value:
        room = buffer.shape[0]
        value = buffer[jnp.clip(place, 0, max(room - 1, 0))] if room else jnp.zeros(buffer.shape[1:], buffer.dtype)
        value = jnp.where(place >= 0, value, jnp.zeros((), buffer.dtype))
        if is_float(buffer.dtype) or is_complex(buffer.dtype):
            value = jnp.where(place >= room, jnp.asarray(np.nan, buffer.dtype), value)
        return value

    return History(history.buffers, jnp.maximum(place, 0)), _map(read, history.buffers)


@lowers("history_empty")
def history_empty(_: Step, history: History) -> History:
    """Return an empty history with buffers of the same shapes and dtypes."""
    return History(_map(jnp.zeros_like, history.buffers), jnp.zeros((), np.int32))


@lowers("history_addition")
def history_addition(_: Step, a: History, b: History) -> History:
    """Add two histories element by element, aligned at their last values.

    Missing values at the start of the shorter history count as zero.
    """
    count = jnp.maximum(a.count, b.count)

    def lifted(history: History) -> Any:
        by = count - history.count

        def moved(buffer: Value) -> Value:
            place = jnp.arange(buffer.shape[0], dtype=np.int32) - by
            shape = (-1, *[1] * (buffer.ndim - 1))
            there = ((place >= 0) & (place < history.count)).reshape(shape)
            return jnp.where(
                there, buffer[jnp.clip(place, 0, max(buffer.shape[0] - 1, 0))], jnp.zeros((), buffer.dtype)
            )

        return _map(moved, history.buffers)

    return History(_map(jnp.add, lifted(a), lifted(b)), count)


# --- blocks -----------------------------------------------------------------------------------------------------------


class _Around:
    """The part of a trace's state that the blocks of an operation may change, carried along with the blocks' values."""

    def __init__(self, step: Step, blocks: Sequence[Block]) -> None:
        self.trace = step.trace
        self.places = self.trace.touched(blocks)
        self.state = [jnp.asarray(self.trace.state[place]) for place in self.places]

    def run(self, block: Block, state: Sequence[Value], arguments: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Run a block and return its final state and results, leaving the trace's own state unchanged."""
        before = list(self.trace.state)
        for place, value in zip(self.places, state, strict=True):
            self.trace.state[place] = value
        results = [_map(jnp.asarray, value) for value in self.trace.run_block(block, arguments)]
        after = [jnp.asarray(self.trace.state[place]) for place in self.places]
        self.trace.state = before
        return after, results

    def leave(self, state: Sequence[Value]) -> None:
        """Set the trace's state to the final state of the operation's blocks."""
        for place, value in zip(self.places, state, strict=True):
            self.trace.state[place] = value


def _scalar(predicate: Value) -> Value:
    return jnp.asarray(predicate).reshape(())


@lowers("if")
def if_(step: Step, predicate: Value) -> tuple[Value, ...]:
    """Run the branch of an `if` operation that the predicate selects, and return its results."""
    then, otherwise = step.operation.blocks
    around = _Around(step, (then, otherwise))

    def branch(block: Block) -> Callable[[list[Value]], Any]:
        def run(state: list[Value]) -> Any:
            after, results = around.run(block, state, ())
            return after, _as_declared(results, block, step)

        return run

    after, results = lax.cond(_scalar(predicate), branch(then), branch(otherwise), around.state)
    around.leave(after)
    return tuple(results)


def _as_declared(results: list[Value], block: Block, step: Step) -> list[Value]:
    """Return the results of a branch of an `if`, with empty histories for undefined results that must be histories.

    Both branches then return the same structure.
    """
    made = []
    for value, result, output in zip(results, block.results, step.outputs, strict=True):
        depth = history_depth(output)
        if depth and result.operation.kind == "undefined":
            value = _zero_of(output, depth, _room(step, None))
        made.append(value)
    return made


def _room(step: Step, iterations: int | None) -> int:
    if iterations is not None:
        return iterations
    if step.trace.loop_limit <= 0:
        raise UnsupportedError(
            f"[{step.kind}] '{step.operation.name}' is a differentiated loop whose number of iterations is known only "
            "at run time: pass loop_limit, the maximum number of iterations"
        )
    return step.trace.loop_limit


def _initial(step: Step, given: Sequence[Value], arguments: Sequence[Tensor], iterations: int | None) -> list[Value]:
    """Return the initial values of a loop's arguments: the given values, followed by zeros or empty histories for
    the rest.
    """
    values = [_map(jnp.asarray, value) for value in given]
    for tensor in arguments[len(arguments) - int(step["from_zero"]) :] if step["from_zero"] else ():
        depth = history_depth(tensor)
        values.append(_zero_of(tensor, depth, _room(step, iterations) if depth else 0))
    return values


@lowers("while")
def while_(step: Step, *initial: Value) -> tuple[Value, ...]:
    """Run a while loop with two blocks.

    `before` computes the condition and some results, and `after` maps these results to the values of the next
    iteration.
    """
    before, after = step.operation.blocks
    around = _Around(step, (before, after))

    def ask(state: Sequence[Value], values: Sequence[Value]) -> tuple[list[Value], Value, list[Value]]:
        state, results = around.run(before, state, values)
        return state, _scalar(results[0]), results[1:]

    def go_on(carried: Any) -> Any:
        state, _, results = carried
        state, values = around.run(after, state, results)
        return ask(state, values)

    first = ask(around.state, _initial(step, initial, before.arguments, None))
    state, _, results = lax.while_loop(lambda carried: carried[1], go_on, first)
    around.leave(state)
    return tuple(results)


@lowers("for")
def for_(step: Step, lower: Value, upper: Value, stride: Value, *initial: Value) -> tuple[Value, ...]:
    """Run a for loop: compute body(index, values) for each index from lower to upper, exclusive."""
    (body,) = step.operation.blocks
    around = _Around(step, (body,))
    bounds = [_known(bound) for bound in (lower, upper, stride)]
    known = None not in bounds
    iterations = len(range(*bounds)) if known else None  # type: ignore[arg-type]
    values = _initial(step, initial, body.arguments[1:], iterations)
    lower, stride = jnp.asarray(lower).reshape(()), jnp.asarray(stride).reshape(())
    if iterations is None:
        upper = jnp.asarray(upper).reshape(())
        span = jnp.where(stride > 0, upper - lower, lower - upper)
        size = jnp.maximum(jnp.abs(stride), 1)
        turns: Value = jnp.maximum(-(-span // size), 0)
    else:
        turns = iterations

    def turn(number: Value, carried: Any) -> Any:
        state, values = carried
        return around.run(body, state, [lower + number.astype(np.int32) * stride, *values])

    if iterations == 0:
        return tuple(values)
    state, values = lax.fori_loop(0, turns, turn, (around.state, values))
    around.leave(state)
    return tuple(values)


def _known(value: Value) -> int | None:
    return int(value.reshape(())) if isinstance(value, np.ndarray) else None
