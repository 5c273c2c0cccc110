"""vmap: a function of one example is traced once, and its operations are created again for a batch.

The batch axis is axis 0 of every tensor that depends on a mapped argument. `RULES` states how an operation applies to
such tensors. An operation without a rule is created for each example, and its results are stacked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._checks import checked as checks_arguments
from .._core import Block, Operation, Tensor
from .._custom_gradients import Record, checked
from .._display import shown
from ..errors import GraphError, ShapeError, UnsupportedError
from ..graph import Graph, gradient_records
from ..numpy._creation import zeros
from ..numpy._manipulation import moveaxis
from ..ops.control_flow import is_in_block
from ._structures import flattened, rebuilt
from .tracing import as_tensor, graph_for, jit

Rule = Callable[["Batch", Operation], "list[Tensor] | None"]
RULES: dict[str, Rule] = {}
Axes = int | None | Sequence[int | None]


def _rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers the rule for kinds of operations. A rule may return None to have no rule."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return enter


class Batch:
    """Tensors of one example and the tensors of the batch that replace them."""

    def __init__(self, g: Graph, size: int) -> None:
        self.g, self.size = g, size
        self.of: dict[Tensor, Tensor] = {}

    def is_batched(self, x: Tensor) -> bool:
        return x in self.of

    def get(self, x: Tensor) -> Tensor:
        return self.of.get(x, x)

    def whole(self, x: Tensor) -> Tensor:
        """Return the batch of a tensor. A tensor that does not depend on a mapped argument is repeated."""
        if x in self.of:
            return self.of[x]
        return self.g.broadcast_to(self.g.expand_dims(x, [0]), [self.size, *shape(x)])

    def widened(self, x: Tensor, rank: int) -> Tensor:
        """Return x for broadcasting with other examples of a rank: the batch axis comes before the new axes."""
        if x not in self.of:
            return x
        missing = rank - len(shape(x))
        return self.g.expand_dims(self.of[x], list(range(1, 1 + missing))) if missing else self.of[x]

    def create(self, kind: str, inputs: Sequence[Tensor], attributes: dict[str, Any]) -> list[Tensor]:
        return list(self.g.create(kind, list(inputs), attributes, None, [], None).outputs)

    def apply(self, operation: Operation) -> None:
        """Create an operation of one example again for the batch."""
        rule = RULES.get(operation.kind)
        found = None if rule is None or operation.blocks else rule(self, operation)
        if found is None:
            found = self.one_by_one(operation)
        self.of.update(zip(operation.outputs, found, strict=True))

    def one_by_one(self, operation: Operation) -> list[Tensor]:
        if any(inner.kind.startswith("history_") for block in operation.blocks for inner in block.operations):
            raise UnsupportedError(
                "vmap of the gradient of a loop is not supported: differentiate the sum of the mapped function instead "
                "(grad(lambda x: vmap(f)(x).sum()))"
            )
        parts = []
        for i in range(self.size):
            sliced = {x: self.of[x][i] for x in _sources(operation) if x in self.of}
            parts.append(copied(self.g, operation, sliced))
        return [self.g.stack([part[n] for part in parts], 0) for n in range(len(operation.outputs))]


def shape(x: Tensor) -> list[int]:
    if x.shape is None or -1 in x.shape:
        raise ShapeError(f"vmap: the shape of '{x.name}' must be known, got {x.shape}")
    return list(x.shape)


def _sources(operation: Operation) -> list[Tensor]:
    """Return the tensors that an operation and the operations of its blocks read."""
    found = list(operation.inputs)
    for block in operation.blocks:
        for inner in block.operations:
            found += _sources(inner)
        found += block.results
    return found


def copied(g: Graph, operation: Operation, instead: dict[Tensor, Tensor]) -> list[Tensor]:
    """Create an operation again, with other tensors in place of some, also in its blocks. Return its results."""
    blocks: list[Block] = []
    for block in operation.blocks:
        new = g.begin_block([x.type for x in block.arguments])
        inside = {**instead, **dict(zip(block.arguments, new.arguments, strict=True))}
        for inner in block.operations:
            if inner.kind != "argument":
                inside.update(zip(inner.outputs, copied(g, inner, inside), strict=True))
        blocks.append(g.finish_block(new, [inside.get(x, x) for x in block.results]))
    inputs = [instead.get(x, x) for x in operation.inputs]
    return list(g.create(operation.kind, inputs, operation.attributes, None, blocks, None).outputs)


# --- rules ---------------------------------------------------------------------------------------------------------
def _elementwise(batch: Batch, operation: Operation) -> list[Tensor]:
    rank = max(len(shape(x)) for x in operation.inputs)
    return batch.create(operation.kind, [batch.widened(x, rank) for x in operation.inputs], operation.attributes)


RULES.update({d["name"]: _elementwise for d in _core.definitions() if d["elementwise"]})
RULES["straight_through"] = lambda batch, operation: batch.create(
    operation.kind, [batch.whole(x) for x in operation.inputs], operation.attributes
)
RULES["optimization_barrier"] = lambda batch, operation: batch.create(
    operation.kind, [batch.whole(operation.inputs[0]), *[batch.get(x) for x in operation.inputs[1:]]], {}
)


@_rule("matrix_multiplication")
def _matmul(batch: Batch, operation: Operation) -> list[Tensor]:
    return _elementwise(batch, operation)


@_rule("matrix_inverse", "band_part")
def _leading(batch: Batch, operation: Operation) -> list[Tensor] | None:
    if len(operation.inputs) > 1:
        return None
    return batch.create(operation.kind, [batch.of[operation.inputs[0]]], operation.attributes)


def _moved(axes: Any, rank: int) -> list[int]:
    listed = [axes] if isinstance(axes, int) else list(axes)
    return [a % rank + 1 for a in listed] if listed else list(range(1, rank + 1))


@_rule("reduction_sum", "reduction_product", "reduction_maximum", "reduction_minimum", "reduction_and", "reduction_or",
       "reduction_maximum_propagate_nan", "reduction_minimum_propagate_nan", "mean", "variance", "reverse", "squeeze",
       "fast_fourier_transform", "real_to_hermitean_fft", "hermitean_to_real_fft")  # fmt: skip
def _along_axes(batch: Batch, operation: Operation) -> list[Tensor] | None:
    attributes, rank = operation.attributes, len(shape(operation.inputs[0]))
    if "axes" not in attributes or len(operation.inputs) > 1 and operation.kind != "variance":
        return None
    if not rank:
        return batch.create("identity", [batch.of[operation.inputs[0]]], {})
    moved = {**attributes, "axes": _moved(attributes["axes"], rank)}
    return batch.create(operation.kind, [batch.whole(x) for x in operation.inputs], moved)


@_rule("softmax", "log_softmax", "softmax_gradient", "log_softmax_gradient", "reduction_arg_maximum",
       "reduction_arg_minimum", "cumulative_sum", "cumulative_product", "cumulative_minimum", "cumulative_maximum",
       "sort", "arg_sort", "concat", "gather_along_axis")  # fmt: skip
def _along_axis(batch: Batch, operation: Operation) -> list[Tensor] | None:
    attributes = operation.attributes
    if "axis" not in attributes:
        return None
    rank = len(shape(operation.outputs[0]))
    moved = {**attributes, "axis": attributes["axis"] % rank + 1}
    return batch.create(operation.kind, [batch.whole(x) for x in operation.inputs], moved)


@_rule("stack")
def _stack(batch: Batch, operation: Operation) -> list[Tensor]:
    moved = {"axis": operation.attributes["axis"] % len(shape(operation.outputs[0])) + 1}
    return batch.create("stack", [batch.whole(x) for x in operation.inputs], moved)


@_rule("expand_dims")
def _expand_dims(batch: Batch, operation: Operation) -> list[Tensor] | None:
    return _reshaped(batch, operation)


@_rule("reshape", "flatten2d")
def _reshaped(batch: Batch, operation: Operation) -> list[Tensor] | None:
    x = operation.inputs[0]
    if x not in batch.of:
        return None
    return [batch.g.reshape(batch.of[x], [batch.size, *shape(operation.outputs[0])])]


@_rule("broadcast_to")
def _broadcast(batch: Batch, operation: Operation) -> list[Tensor] | None:
    x, to = operation.inputs[0], shape(operation.outputs[0])
    if x not in batch.of:
        return None
    return [batch.g.broadcast_to(batch.widened(x, len(to)), [batch.size, *to])]


@_rule("broadcast_gradient")
def _broadcast_gradient(batch: Batch, operation: Operation) -> list[Tensor]:
    """Sum the incoming gradient over the axes along which each example was broadcast."""
    incoming, to = operation.inputs[0], shape(operation.outputs[0])
    size, lead = shape(incoming), len(shape(incoming)) - len(to)
    axes = [a + 1 for a in range(len(size)) if a < lead or to[a - lead] == 1 and size[a] != 1]
    found = batch.whole(incoming)
    found = batch.g.reduction_sum(found, axes) if axes else found
    return [batch.g.reshape(found, [batch.size, *to])]


@_rule("transpose")
def _transpose(batch: Batch, operation: Operation) -> list[Tensor]:
    order = [0, *(a + 1 for a in operation.attributes["permutation"])]
    return batch.create("transpose", [batch.of[operation.inputs[0]]], {"permutation": order})


@_rule("pad", "pad_gradient")
def _pad(batch: Batch, operation: Operation) -> list[Tensor] | None:
    a = operation.attributes
    if operation.inputs[0] not in batch.of or "left" not in a:
        return None
    moved = {**a, "left": [0, *a["left"]], "right": [0, *a["right"]]}
    return batch.create(operation.kind, [batch.whole(x) for x in operation.inputs], moved)


@_rule("slice", "slice_gradient", "slice_update_data")
def _slice(batch: Batch, operation: Operation) -> list[Tensor] | None:
    a = operation.attributes
    if "starts" not in a or "ends" not in a or any(x.dtype.is_integer for x in operation.inputs):
        return None
    moved = {
        **a,
        "starts": [0, *a["starts"]],
        "ends": [0, *a["ends"]],
        "strides": [1, *a["strides"]],
        "start_mask": a["start_mask"] << 1 | 1,
        "end_mask": a["end_mask"] << 1 | 1,
        "squeeze_mask": a["squeeze_mask"] << 1,
    }
    return batch.create(operation.kind, [batch.whole(x) for x in operation.inputs], moved)


@_rule("gather")
def _gather(batch: Batch, operation: Operation) -> list[Tensor] | None:
    (x, indices), a = operation.inputs, operation.attributes
    if x in batch.of:
        both = indices in batch.of
        moved = {**a, "axis": a["axis"] + 1, "batch_dimensions": a["batch_dimensions"] + 1}
        if not both and not a["batch_dimensions"]:
            moved["batch_dimensions"] = 0
        inputs = [batch.of[x], batch.get(indices) if both or not a["batch_dimensions"] else batch.whole(indices)]
        return batch.create("gather", inputs, moved)
    if a["axis"] or a["batch_dimensions"]:
        return None
    return batch.create("gather", [x, batch.of[indices]], a)


# --- vmap ----------------------------------------------------------------------------------------------------------
def _axes_of(axes: Axes, count: int) -> list[int | None]:
    listed: list[Any] = list(axes) if isinstance(axes, (tuple, list)) else [axes] * count
    if len(listed) != count:
        raise GraphError(f"vmap: in_axes must have one entry for each of the {count} arguments, got {shown(axes)}")
    return listed


@checks_arguments
def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: int = 0) -> Callable[..., Any]:
    """Return a function that applies a function of single examples to batches.

    The function is traced once, with tensors of one example. Its operations are then created for the whole batch: most
    of them as one operation with an additional axis, and the others for each example.

    Args:
        function: Function of tensors, in nested structures.
        in_axes: Batch axis of the positional arguments: one int for all, or an int or None for each. None marks an
            argument that is the same for all examples. Keyword arguments are mapped along axis 0. Defaults to 0.
        out_axes: Axis of the batch in the results. Defaults to 0.

    Returns:
        A function of batches. Called with arrays alone, it is compiled as by `jit`.

    Raises:
        ShapeError: From a call, if the sizes of the batch axes differ, or a shape is not known.
        GraphError: If in_axes does not match the arguments, or no argument is mapped.
        UnsupportedError: From a call, if the function assigns to variables, or differentiates a loop.

    Example:
        >>> square = lambda x: x * x
        >>> mg.vmap(mg.grad(square))(np.float32([1, 2, 3])).tolist()
        [2.0, 4.0, 6.0]
    """

    def symbolic(*arguments: Any, **named: Any) -> Any:
        every: list[Any] = []
        flattened((arguments, named), every)
        g = graph_for(every)
        assert g is not None
        if is_in_block(g):
            raise GraphError("vmap is not supported inside the block of a loop or a conditional")
        structure = (*arguments, named)
        forms, mapped = [], []
        for argument, axis in zip(structure, [*_axes_of(in_axes, len(arguments)), 0], strict=True):
            own: list[Any] = []
            forms.append(flattened(argument, own))
            mapped.append([(as_tensor(g, x), axis) for x in own])
        sizes = {_size(x, axis) for leaves in mapped for x, axis in leaves if axis is not None}
        if not sizes:
            raise GraphError("vmap: at least one argument must have a batch axis")
        if len(sizes) > 1:
            raise ShapeError(f"vmap: batch axes must have one size, got {sorted(sizes)}")
        batch = Batch(g, sizes.pop())
        examples = []
        for argument, form, leaves in zip(structure, forms, mapped, strict=True):
            examples.append(rebuilt(form, iter([_example(batch, x, axis) for x, axis in leaves]), argument))
        before, records = len(g.operations), len(gradient_records(g))
        result = function(*examples[:-1], **examples[-1])
        outputs: list[Any] = []
        form = flattened(result, outputs)
        tensors = [as_tensor(g, x) for x in outputs]
        _created(batch, g.operations[before:], tensors)
        for record in gradient_records(g)[records:]:
            _register(batch, record)
        found = [moveaxis(batch.whole(x), 0, out_axes) if out_axes else batch.whole(x) for x in tensors]
        return rebuilt(form, iter(found), result)

    compiled = jit(symbolic)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        return compiled(*arguments, **named)

    return called


def _size(x: Tensor, axis: int) -> int:
    sizes = shape(x)
    if not -len(sizes) <= axis < len(sizes):
        raise ShapeError(f"vmap: batch axis {axis} is out of range for shape {tuple(sizes)}")
    return sizes[axis]


def _example(batch: Batch, x: Tensor, axis: int | None) -> Tensor:
    """Return a tensor of one example. It is a placeholder that only replaced operations depend on."""
    if axis is None:
        return x
    sizes = shape(x)
    moved = moveaxis(x, axis, 0)
    example = batch.g.placeholder([n for i, n in enumerate(sizes) if i != axis % len(sizes)], x.dtype)
    batch.of[example] = moved
    return example


def _created(batch: Batch, operations: Sequence[Operation], outputs: Sequence[Tensor]) -> None:
    """Create the operations again on which outputs depend and that depend on a mapped argument."""
    needed = {x.operation for x in outputs}
    for record in gradient_records(batch.g):
        needed |= {x.operation for x in (*record.operands, *record.results)}
    for operation in reversed(operations):
        if operation in needed:
            needed |= {x.operation for x in _sources(operation)}
    for operation in operations:
        if operation.kind in ("recomputation_begin", "recomputation_end"):
            batch.create(operation.kind, (), {})
        if operation not in needed or not any(x in batch.of for x in _sources(operation)):
            continue
        if operation.kind == "assign":
            raise UnsupportedError("vmap: the function must not assign to variables")
        batch.apply(operation)


def _register(batch: Batch, record: Record) -> None:
    """Give the batch of a result with a custom gradient the mapped backward function."""
    if not any(r in batch.of for r in record.results):
        return
    operands = [batch.get(x) for x in record.operands]
    axes = [0 if x in batch.of else None for x in record.operands]
    single = len(record.results) == 1

    def backward(incoming: Any, *given: Tensor) -> list[Tensor | None]:
        absent: set[int] = set()

        def example(*parts: Tensor) -> Any:
            count = len(record.results)
            found = checked(record, record.backward(parts[0] if single else parts[:count], *parts[count:]))
            absent.update(i for i, x in enumerate(found) if x is None)
            return [zeros(()) if x is None else x for x in found]  # Only tensors can be mapped.

        arriving = [incoming] if single else list(incoming)
        found = vmap(example, (*[0] * len(arriving), *axes))(*arriving, *given)
        shared = [
            batch.g.squeeze(batch.g.reduction_sum(x, [0]), [0]) if a is None else x
            for x, a in zip(found, axes, strict=True)
        ]
        return [None if i in absent else x for i, x in enumerate(shared)]

    gradient_records(batch.g).append(Record(operands, [batch.of[r] for r in record.results], backward))


__all__ = ["vmap"]
