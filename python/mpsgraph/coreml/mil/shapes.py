"""Translations of shape operations, padding, space-depth rearrangement, fills, ranges, and lists."""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, int32
from ...errors import ShapeError
from ...interchange.data_dependent import DataDependent
from ...interchange.renames import options
from .._importer import TensorList
from .._operation import Call, Results, mil


@mil("shape")
def shape(call: Call) -> Results:
    x = call.tensor("x")
    known = x.shape is not None and min(x.shape, default=0) >= 0
    return call.g.constant(np.array(x.shape, np.int32)) if known else call.cast(call.g.shape_of(x), int32)


@mil("reshape")
def reshape(call: Call) -> Results:
    """Translate reshape. In the shape, 0 keeps the operand's size and -1 is inferred."""
    g, x = call.g, call.tensor("x")
    parts = call.partly_known("shape")
    if all(part is not None for part in parts):
        wanted = [int(part or 0) for part in parts]
        if 0 in wanted and 0 not in (x.shape or ()):
            return call.reshape(x, [call.dim(x, i) if n == 0 else n for i, n in enumerate(wanted)])
        return g.reshape(x, wanted)
    if sum(part is None or part < 0 for part in parts) == 1:
        return g.reshape(x, [-1 if part is None else part for part in parts])
    return g.reshape(x, call.tensor("shape"))


@mil("reshape_like")
def reshape_like(call: Call) -> Results:
    sizes: list[int | Tensor] = []
    begins, ends, open_ends = (np.asarray(call.value(name)).reshape(-1) for name in ("begins", "ends", "end_masks"))
    for reference, begin, end, to_the_end in zip(call.tensors("ref_tensors"), begins, ends, open_ends, strict=True):
        axes = range(call.rank(reference))[int(begin) : None if to_the_end else int(end)]
        sizes += [call.dim(reference, axis) for axis in axes]
    return call.reshape(call.tensor("x"), sizes)


@mil("transpose")
def transpose(call: Call) -> Results:
    x = call.tensor("x")
    return call.g.transpose(x, call.axes(x, call.ints("perm")))


@mil("expand_dims")
def expand_dims(call: Call) -> Results:
    return call.g.expand_dims(call.tensor("x"), call.ints("axes"))


@mil("squeeze")
def squeeze(call: Call) -> Results:
    x, axes = call.tensor("x"), call.ints("axes", None)
    if axes is None:
        axes = [axis for axis, size in enumerate(call.shape(x)) if size == 1]
    return call.g.squeeze(x, axes) if axes else x


@mil("flatten2d")
def flatten2d(call: Call) -> Results:
    return call.g.flatten2d(call.tensor("x"), call.integer("axis", 1))


@mil("concat")
def concat(call: Call) -> Results:
    """Translate concat, treating scalars as vectors."""
    parts = [x if call.rank(x) else call.g.reshape(x, [1]) for x in call.tensors("values")]
    return call.g.concat(parts, call.integer("axis"), call.flag("interleave", False))


@mil("stack")
def stack(call: Call) -> Results:
    return call.g.stack(call.tensors("values"), call.integer("axis"))


@mil("split")
def split(call: Call) -> Results:
    x, axis = call.tensor("x"), call.integer("axis")
    sizes, count = call.ints("split_sizes", None), call.integer("num_splits", None)
    return call.g.split(x, sizes if sizes is not None else count, axis)


@mil("tile")
def tile(call: Call) -> Results:
    """Translate tile.

    Repetition counts that depend on inputs are supported only for axes of size 1, along which x is broadcast.
    """
    g, x = call.g, call.tensor("x")
    reps = call.partly_known("reps")
    if all(n is not None for n in reps):
        return g.tile(x, [int(n or 0) for n in reps])
    if any(n != 1 and size != 1 for n, size in zip(reps, call.dims(x), strict=True)):
        raise call.data_dependent_shape(call.tensor("reps"))
    sizes = [call.dim(x, axis) for axis in range(call.rank(x))]
    wide = [g.slice_axis(call.tensor("reps"), 0, i, 1) if n is None else n if sizes[i] == 1 else sizes[i]
            for i, n in enumerate(reps)]  # fmt: skip
    return g.broadcast_to(x, _joined(call, wide))


def _joined(call: Call, parts: list[int | Tensor]) -> list[int] | Tensor:
    known = [part for part in parts if isinstance(part, int)]
    if len(known) == len(parts):
        return known
    g = call.g
    made = [call.cast(p, int32) if isinstance(p, Tensor) else g.constant([p], dtype=int32) for p in parts]
    return g.concat(made, 0)


@mil("fill")
def fill(call: Call) -> Results:
    value = call.tensor("value") if call.has("value") else call.g.constant(0.0, dtype=call.dtype)
    return call.g.broadcast_to(value, call.shape_operand("shape"))


@mil("fill_like")
def fill_like(call: Call) -> Results:
    like = call.tensor("ref_tensor")
    value = call.tensor("value") if call.has("value") else call.g.constant(0.0, dtype=call.dtype)
    return call.g.broadcast_to(value, call.joined(call.dim(like, axis) for axis in range(call.rank(like))))


@mil("range_1d")
def range_1d(call: Call) -> Results:
    """Translate range_1d, which returns start, start + step, and so on, up to but excluding end.

    Operands that are not constant must be integers.
    """
    g, dtype = call.g, call.dtype
    try:
        start, end, step = (call.value(name) for name in ("start", "end", "step"))
        numbers = np.arange(np.asarray(start).item(), np.asarray(end).item(), np.asarray(step).item())
        return g.constant(numbers.astype(np.float32 if dtype.is_float else np.int64), dtype=dtype)
    except DataDependent:
        ends = [call.tensor(name) for name in ("start", "end", "step")]
    if any(x.dtype.is_float for x in ends):
        raise call.data_dependent_shape(ends[1])
    start, end, step = (g.reshape(call.cast(x, int32), [1]) for x in ends)
    span = g.addition(g.subtraction(end, start), g.subtraction(step, g.sign(step)))
    count = g.maximum(g.division(g.subtraction(span, g.modulo(span, step)), step), 0)
    places = call.cast(g.coordinate_along_axis(0, count), int32)
    return g.addition(start, g.multiplication(places, step))


_MODES = options("mil", "padding mode")


@mil("pad")
def pad(call: Call) -> Results:
    """Translate pad, whose amounts are (before, after) pairs for the last axes."""
    x, mode = call.tensor("x"), call.text("mode", "constant")
    pairs, rank = call.ints("pad"), call.rank(x)
    if mode not in _MODES:
        call.refuse(f"mode {mode!r} is not supported")
    if len(pairs) % 2 or len(pairs) > 2 * rank:
        raise ShapeError(
            f"pad must have an even number of elements, at most {2 * rank} for x of shape {x.shape}, got {len(pairs)}"
        )
    whole = [0] * (2 * rank - len(pairs)) + pairs
    if not any(whole):
        call.has("constant_val")
        return call.g.identity(x)
    return call.g.pad(x, whole[0::2], whole[1::2], _MODES[mode], call.number("constant_val", 0.0))


@mil("band_part")
def band_part(call: Call) -> Results:
    return call.g.band_part(call.tensor("x"), call.integer("lower", -1), call.integer("upper", -1))


# --- rearrangement of blocks ------------------------------------------------------------------------------------------
@mil("depth_to_space")
def depth_to_space(call: Call) -> Results:
    return call.g.depth_to_space2d(call.tensor("x"), 3, 2, 1, call.integer("block_size"))


@mil("space_to_depth")
def space_to_depth(call: Call) -> Results:
    return call.g.space_to_depth2d(call.tensor("x"), 3, 2, 1, call.integer("block_size"))


@mil("pixel_shuffle")
def pixel_shuffle(call: Call) -> Results:
    return call.g.depth_to_space2d(call.tensor("x"), 3, 2, 1, call.integer("upscale_factor"), True)


@mil("pixel_unshuffle")
def pixel_unshuffle(call: Call) -> Results:
    return call.g.space_to_depth2d(call.tensor("x"), 3, 2, 1, call.integer("downscale_factor"), True)


@mil("space_to_batch")
def space_to_batch(call: Call) -> Results:
    g, x, pads = call.g, call.tensor("x"), call.ints("paddings")
    padded = g.pad(x, [0, 0, *pads[0::2]], [0, 0, *pads[1::2]]) if any(pads) else x
    return g.space_to_batch(padded, [2, 3], 0, call.ints("block_shape"))


@mil("batch_to_space")
def batch_to_space(call: Call) -> Results:
    g = call.g
    y = g.batch_to_space(call.tensor("x"), [2, 3], 0, call.ints("block_shape"))
    crops = call.ints("crops")
    for axis, (before, after) in ((2, crops[:2]), (3, crops[2:])):
        if before or after:
            y = g.slice_axis(y, axis, before, call.size(y, axis) - before - after)
    return y


@mil("sliding_windows")
def sliding_windows(call: Call) -> Results:
    """Translate sliding_windows, which puts the elements of each window along a new axis that follows the axis along
    which the windows slide.
    """
    g, x, axis = call.g, call.tensor("x"), call.axis(call.tensor("x"), call.integer("axis"))
    size, stride = call.integer("size"), call.integer("stride", 1)
    count = (call.size(x, axis) - size) // stride + 1
    places = np.arange(count)[:, None] * stride + np.arange(size)
    return g.gather(x, g.constant(places.astype(np.int32)), axis)


# --- lists ------------------------------------------------------------------------------------------------------------
@mil("make_list")
def make_list(call: Call) -> Results:
    """Translate make_list. The list becomes a tensor of zeros with one row per list element.

    The length of the list and the shape of its elements must be known.
    """
    g = call.g
    call.has("dynamic_length")
    dtype = options("mil", "dtype").get(name := call.text("dtype", "fp32"), name)
    shape = call.ints("elem_shape")
    zeros = g.constant(0, (), dtype)
    return TensorList(g.broadcast_to(zeros, [call.integer("init_length", 1), *shape]))


def _list(call: Call) -> Tensor:
    held = call.operand("ls")
    if not isinstance(held, TensorList):
        call.refuse("parameter 'ls' must be a list")
    return held.tensor


@mil("list_length")
def list_length(call: Call) -> Results:
    return call.g.constant(call.size(_list(call), 0), dtype=int32)


@mil("list_read")
def list_read(call: Call) -> Results:
    return call.g.gather(_list(call), call.g.reshape(call.tensor("index"), []), 0, out_of_range="error")


@mil("list_gather")
def list_gather(call: Call) -> Results:
    return call.g.gather(_list(call), call.tensor("indices"), 0, out_of_range="error")


@mil("list_write", "list_scatter")
def list_write(call: Call) -> Results:
    """Translate list_write and list_scatter, which replace elements of a list."""
    g, value = call.g, call.tensor("value")
    if call.name == "list_scatter":
        places = call.tensor("indices")
    else:
        places, value = g.reshape(call.tensor("index"), [1]), g.expand_dims(value, [0])
    return TensorList(g.scatter(value, places, 0, "set", data=_list(call), out_of_range="error"))
