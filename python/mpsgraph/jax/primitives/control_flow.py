"""Translations of cond, while, and scan to if, while, and for operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor, known_values
from ._table import Equation, dtype_of, primitive, shape, shape_of


@primitive("cond")
def cond(equation: Equation, index: Tensor, *operands: Tensor, branches: Any, **_: Any) -> Any:
    """Translate cond to a chain of `if` operations that select branches[index], with the index clamped to the valid
    range.
    """
    g = equation.g
    if not equation.results:
        return []
    if index.dtype.is_integer and (known := known_values(g.reshape(index, (1,)))) and known[0] is not None:
        return equation.build(branches[min(max(known[0], 0), len(branches) - 1)], operands)

    def choose(first: int) -> list[Tensor]:
        if first == len(branches) - 1:
            return [g.identity(x) for x in equation.build(branches[first], operands)]
        if index.dtype.name == "bool":
            predicate = g.not_(index)
        else:
            predicate = g.less_than_or_equal_to(index, equation.constant(first, index.dtype))
        return g.if_(
            predicate,
            lambda: [g.identity(x) for x in equation.build(branches[first], operands)],
            lambda: choose(first + 1),
        )

    return choose(0)


@primitive("platform_index")
def platform_index(equation: Equation, *, platforms: Any) -> Tensor:
    """Return the index of the platform-specific definition for CPU, or of the default definition if there is none."""
    for place, names in enumerate(platforms):
        if names is not None and "cpu" in names:
            return equation.constant(place, "int32")
    return equation.constant(platforms.index(None), "int32")


@primitive("while")
def while_(
    equation: Equation,
    *operands: Tensor,
    cond_jaxpr: Any,
    body_jaxpr: Any,
    cond_nconsts: int,
    body_nconsts: int,
    **_: Any,
) -> Any:
    g = equation.g
    of_cond, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    of_body, initial = rest[:body_nconsts], rest[body_nconsts:]

    def condition_of(carried: Sequence[Tensor]) -> Tensor:
        (condition,) = equation.build(cond_jaxpr, [*of_cond, *carried])
        return condition

    def before(*carried: Tensor) -> tuple[Tensor, list[Tensor]]:
        condition = condition_of(carried)
        # If there is one condition per batch entry, the loop continues while any of the conditions is true.
        if shape(condition):
            condition = g.reshape(g.reduction_or(condition, list(range(len(shape(condition))))), ())
        return condition, list(carried)

    def after(*carried: Tensor) -> list[Tensor]:
        found = equation.build(body_jaxpr, [*of_body, *carried])
        batch = shape_of(cond_jaxpr.out_avals[0])
        if not batch:
            return found
        goes_on = condition_of(carried)  # Entries whose condition is false keep their values.
        return [
            g.select(g.reshape(goes_on, [*batch, *[1] * (len(shape(old)) - len(batch))]), new, old)
            for new, old in zip(found, carried, strict=True)
        ]

    return g.while_(list(initial), before, after) if initial else []


@primitive("scan")
def scan(
    equation: Equation,
    *operands: Tensor,
    jaxpr: Any,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **_: Any,
) -> Any:
    """Translate scan to a for loop that slices the scanned inputs and writes results into preallocated buffers."""
    g = equation.g
    constants = operands[:num_consts]
    initial = operands[num_consts : num_consts + num_carry]
    scanned = operands[num_consts + num_carry :]
    stacked = equation.results[num_carry:]
    if not equation.results:
        return []

    def element(x: Tensor, place: Tensor) -> Tensor:
        sizes = [1, *shape(x)[1:]]
        return g.reshape(g.slice(x, _starts(equation, place, len(sizes)), sizes=sizes), sizes[1:])

    def put(room: Tensor, place: Tensor, x: Tensor) -> Tensor:
        sizes = [1, *shape(x)]
        starts = _starts(equation, place, len(sizes))
        return g.slice_update_data(room, g.reshape(x, sizes), starts, sizes=sizes)

    def body(index: Tensor, *values: Tensor) -> list[Tensor]:
        carried, rooms = values[:num_carry], values[num_carry:]
        place = g.subtraction(length - 1, index) if reverse else index
        found = equation.build(jaxpr, [*constants, *carried, *(element(x, place) for x in scanned)])
        return [*found[:num_carry], *(put(r, place, x) for r, x in zip(rooms, found[num_carry:], strict=True))]

    rooms = [equation.constant(0, dtype_of(aval.dtype), shape_of(aval)) for aval in stacked]
    if length == 0:
        return [*initial, *rooms]
    if length == 1:
        carried, found = (
            list(initial),
            equation.build(jaxpr, [*constants, *initial, *(g.reshape(x, shape(x)[1:]) for x in scanned)]),
        )
        return [*found[: len(carried)], *(g.reshape(x, (1, *shape(x))) for x in found[num_carry:])]
    return g.for_(length, initial=[*initial, *rooms], body=body)


def _starts(equation: Equation, place: Tensor, rank: int) -> Tensor:
    g = equation.g
    first = g.reshape(place, (1,))
    return first if rank == 1 else g.concat([first, g.constant([0] * (rank - 1), dtype="int32")], 0)
