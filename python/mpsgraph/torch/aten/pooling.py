"""Translations of pooling in one to three dimensions, with the indices of maxima and with gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..._core import Tensor
from ...interchange import windows
from ._table import Call, aten, composed, pair, shape_of

Window = int | Sequence[int]


def _batched(call: Call, x: Tensor, count: int) -> Tensor:
    """Prepend axes of size 1 until x has a batch axis and a channel axis in front of its `count` spatial axes."""
    sizes = shape_of(x)
    return x if len(sizes) == count + 2 else call.g.reshape(x, [1] * (count + 2 - len(sizes)) + sizes)


def _window(kernel: Window, stride: Window, padding: Window, dilation: Window, count: int) -> windows.Window:
    steps = kernel if isinstance(stride, (list, tuple)) and not stride else stride
    pads = pair(padding, count)
    return windows.Window(pair(kernel, count), pair(steps, count), pair(dilation, count), pads, pads)


def _largest(
    call: Call, x: Tensor, count: int, ceil_mode: bool, kernel: Window, stride: Window, padding: Window,
    dilation: Window,
) -> Tensor:  # fmt: skip
    g, x = call.g, _batched(call, x, count)
    window = _window(kernel, stride, padding, dilation, count)
    return windows.pooled(call, x, window, g.max_pooling2d, g.max_pooling4d, ceil_mode=ceil_mode)  # type: ignore[no-any-return]


@aten("max_pool2d", "max_pool3d")
def max_pool(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, dilation: Window = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    count = 3 if "3d" in call.name else 2
    return _largest(call, x, count, ceil_mode, kernel, stride, padding, dilation)


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, dilation: Window = 1,
    ceil_mode: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    count = 3 if "3d" in call.name else 2
    if not call.gives(1):
        return [_largest(call, x, count, ceil_mode, kernel, stride, padding, dilation), None]
    methods = (call.g.max_pooling2d_return_indices, call.g.max_pooling4d_return_indices)
    window = _window(kernel, stride, padding, dilation, count)
    return windows.pooled(  # type: ignore[no-any-return]
        call, _batched(call, x, count), window, *methods, ceil_mode=ceil_mode,
        return_indices_mode=f"global_flatten_{count}d",
    )  # fmt: skip


@aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_with_indices_backward(
    call: Call, incoming: Tensor, x: Tensor, kernel: Window, stride: Window, padding: Window, dilation: Window,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """Translate the gradient of max pooling.

    The first maximum of each window is located again, so the indices from the forward pass are not used.
    """
    g, count = call.g, 3 if "3d" in call.name else 2
    incoming, window = _batched(call, incoming, count), _window(kernel, stride, padding, dilation, count)
    methods = (partial(method, incoming) for method in (g.max_pooling2d_gradient, g.max_pooling4d_gradient))
    return windows.pooled(call, _batched(call, x, count), window, *methods, ceil_mode=ceil_mode)  # type: ignore[no-any-return]


def averaged(
    call: Call, x: Tensor, kernel: Window, stride: Window, padding: Window, ceil_mode: bool, count_padding: bool,
    divisor: Any, sizes: Sequence[int], count: int,
) -> Tensor:  # fmt: skip
    """Compute average pooling, with sums of windows that are divided by a number if there is a divisor."""
    g, x = call.g, _batched(call, x, count)
    window, methods = _window(kernel, stride, padding, 1, count), (call.g.avg_pooling2d, call.g.avg_pooling4d)
    if divisor is None:
        with_zeros = bool(count_padding and any(window.before))
        found = windows.pooled(call, x, window, *methods, include_zero_pad_to_average=with_zeros, ceil_mode=ceil_mode)
    else:
        # Padding extends to the end of the last window, so that every average is one of a whole window.
        inner, out = shape_of(x)[-count:], list(sizes)[-count:]
        axes = zip(window.before, window.kernel, window.strides, inner, out, strict=True)
        window.after = [max((o - 1) * s + k - n - low, low) for low, k, s, n, o in axes]
        found = windows.pooled(call, x, window, *methods, include_zero_pad_to_average=True)
        found = found * (math.prod(window.kernel) / divisor)
    return g.reshape(found, list(sizes))


@aten("avg_pool2d", "avg_pool3d")
def avg_pool(
    call: Call, x: Tensor, kernel: Window, stride: Window = (), padding: Window = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Tensor:  # fmt: skip
    count = 3 if "3d" in call.name else 2
    return averaged(call, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, call.sizes, count)


@aten("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    call: Call, incoming: Tensor, x: Tensor, kernel: Window, stride: Window, padding: Window, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Any,
) -> Tensor:  # fmt: skip
    count, sizes = 3 if "3d" in call.name else 2, shape_of(incoming)

    def forward(x: Tensor) -> Tensor:
        return averaged(call, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, sizes, count)

    return call.derived(forward, incoming, x)[0]


# --- adaptive pooling -------------------------------------------------------------------------------------------------
def _shares(inner: int, out: int) -> np.ndarray:
    """Return the weights of adaptive average pooling along one axis, a matrix of shape (out, inner).

    Each row holds the weights that average a range of the `inner` elements to one of the `out` results.
    """
    found = np.zeros((out, inner))
    for i in range(out):
        begin, end = i * inner // out, -(-(i + 1) * inner // out)
        found[i, begin:end] = 1 / (end - begin)
    return found


def along(call: Call, x: Tensor, axis: int, matrix: np.ndarray) -> Tensor:
    """Multiply x along an axis by a matrix of shape (results, elements)."""
    g, rank = call.g, len(shape_of(x))
    last = x if axis == rank - 1 else g.swap_axes(x, axis, rank - 1)
    sizes = shape_of(last)
    rows = g.reshape(last, [-1, sizes[-1]]) if rank != 2 else last
    found = g.matrix_multiplication(rows, g.constant(np.ascontiguousarray(matrix.T).astype(x.dtype.numpy)))
    found = g.reshape(found, [*sizes[:-1], matrix.shape[0]])
    return found if axis == rank - 1 else g.swap_axes(found, axis, rank - 1)


def _adaptive(call: Call, x: Tensor, out: Sequence[int]) -> Tensor:
    sizes, count = shape_of(x), len(out)
    if all(size == 1 for size in out):
        return call.g.mean(x, list(range(-count, 0)))
    inner = sizes[-count:]
    if count == 2 and not any(n % o for n, o in zip(inner, out, strict=True)):
        steps = [n // o for n, o in zip(inner, out, strict=True)]
        return call.g.avg_pooling2d(_batched(call, x, 2), steps, data_layout="NCHW")
    for axis in range(-count, 0):
        if out[axis] != inner[axis]:
            x = along(call, x, len(sizes) + axis, _shares(inner[axis], out[axis]))
    return x


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool3d",
      "_adaptive_avg_pool3d")  # fmt: skip
def adaptive_avg_pool(call: Call, x: Tensor, size: Window) -> Tensor:
    count = int(call.name[-2])
    return call.g.reshape(_adaptive(call, x, call.sizes[-count:]), call.sizes)


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(call: Call, incoming: Tensor, x: Tensor) -> Tensor:
    count, sizes = 3 if "3d" in call.name else 2, shape_of(incoming)
    return call.derived(lambda x: call.g.reshape(_adaptive(call, x, sizes[-count:]), sizes), incoming, x)[0]


@composed("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(x: Any, size: Sequence[int]) -> Any:
    """Translate adaptive max pooling, whose windows have different lengths, by extending all windows to the longest
    length.

    A shorter window repeats its first element.
    """
    count = len(size)
    places: Any = 0
    front, inner = x.dim() - count, list(x.shape[-count:])
    for axis, (n, out) in enumerate(zip(inner, size, strict=True)):
        longest = max(-(-(i + 1) * n // out) - i * n // out for i in range(out))
        number = torch.arange(out)
        begins, ends = (number * n // out).unsqueeze(1), ((number * n + n + out - 1) // out).unsqueeze(1)
        index = begins + torch.arange(longest)
        index = torch.where(index < ends, index, begins)
        # Unfold the windows of this axis, and move their elements to the last axis.
        at = front + axis
        x = x.index_select(at, index.reshape(-1)).unflatten(at, (out, longest)).movedim(at + 1, -1)
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = out, longest
        places = places * n + index.reshape(shape)
    flat = x.flatten(-count)
    place = torch.argmax(flat, -1, keepdim=True)
    of = places.expand([*size, *x.shape[-count:]]).flatten(-count).expand(flat.shape)
    return torch.gather(flat, -1, place).squeeze(-1), torch.gather(of, -1, place).squeeze(-1)


def _put_back(count: int) -> Any:
    def function(incoming: Any, x: Any, places: Any) -> Any:
        flat = torch.zeros_like(x).flatten(-count)
        return flat.scatter_add(-1, places.flatten(-count), incoming.flatten(-count)).reshape(x.shape)

    return function


composed("adaptive_max_pool2d_backward")(_put_back(2))
composed("adaptive_max_pool3d_backward")(_put_back(3))
