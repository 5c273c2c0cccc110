"""PyTorch's side of bench/operations.py: `python -m peers.torch_operations`, then `setup NAME` on its input.

Forward operations run in inference mode, gradients with plain autograd. Images that are NHWC in mpsgraph have the same
memory layout here: they are channels-last tensors, PyTorch's fastest format. Preparation that is needed only once, such
as that of weights, is not measured.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from measuring import THREADS
from measuring.protocol import Step, serve
from operation_sizes import FAMILY_OF, OPERATIONS, Input
from torch import Tensor

Compute = Callable[..., object]

CHANNELS_FIRST = ("nchw", "ncdhw", "planes", "indices", "recomputed", "_by_two", "everything", "overlapping")
IMAGE_FAMILIES = ("Convolution", "Float64", "Pooling", "Resize and sample grid", "Normalization")


def prepared(name: str, values: list[Tensor]) -> list[Tensor]:
    """Return NHWC images as channels-last NCHW tensors, and HWIO weights as OIHW."""
    to_last = {4: torch.channels_last, 5: torch.channels_last_3d}
    if name in ("pad_reflecting", "depth_to_space"):
        return [values[0].permute(0, 3, 1, 2)]
    if FAMILY_OF[name] not in IMAGE_FAMILIES or values[0].dim() not in to_last:
        return values
    if name == "col_to_im" or name == "im_to_col" or name == "norm_pooling" or name == "max_pooling_of_volumes":
        return values
    if any(part in name for part in CHANNELS_FIRST):
        if name.startswith("convolution_depthwise_nchw"):
            return [values[0], values[1].transpose(0, 1).contiguous()]
        return values
    if name.startswith("sample_grid"):
        return [values[0].permute(0, 3, 1, 2), values[1]]
    rank = values[0].dim()
    result = [values[0].movedim(-1, 1)]
    for x in values[1:]:
        # HWC1 weights are OIHW with one input channel.
        if x.dim() == rank and name.startswith("convolution_depthwise"):
            x = x.permute(2, 3, 0, 1).contiguous(memory_format=to_last[rank])
        elif x.dim() == rank:
            x = x.movedim((-1, -2), (0, 1)).contiguous(memory_format=to_last[rank])
        result.append(x)
    return result


def recurrent(module: torch.nn.Module, name: str) -> Compute:
    """Run a torch.nn layer with weights that are inputs: x, recurrent weights, input weights, bias."""
    module.flatten_parameters()

    def compute(*inputs: Tensor) -> Tensor:
        x, r, w, b, *more = inputs
        zeros = torch.zeros_like(b)
        weights = {"weight_ih_l0": w, "weight_hh_l0": r, "bias_ih_l0": b, "bias_hh_l0": zeros}
        if more:
            weights["bias_hh_l0"] = torch.cat([zeros[: -more[0].shape[0]], more[0]])
        out = torch.func.functional_call(module, weights, (x,))[0]
        return out[-1] if "small" in name else out

    return compute


def batch_normalization(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, gamma, beta, training=True)


def suppressed(corners: Tensor, scores: Tensor) -> Tensor:
    """Suppress overlapping boxes, which PyTorch cannot: compute all overlaps, then visit boxes by falling score."""
    low = corners[0][scores[0, :, 0].argsort(descending=True)]
    high = low + 20.0
    sides = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
    inside = sides.prod(-1)
    overlaps = inside > 0.5 * (800 - inside)
    alive = np.ones(len(low), bool)
    table = overlaps.numpy()
    for i in range(len(low)):
        if alive[i]:
            alive[i + 1 :] &= ~table[i, i + 1 :]
    return torch.from_numpy(alive).nonzero()


def loop(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(100):
        x = torch.tanh(x @ w)
    return x


def sparse(values: Tensor, columns: Tensor, rows: Tensor, x: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (4096, 4096)) @ x


def depth_to_space(x: Tensor) -> Tensor:
    """Rearrange depth to space in TensorFlow's channel order, with NHWC memory layout."""
    n, c, h, w = x.shape
    blocks = x.permute(0, 2, 3, 1).reshape(n, h, w, 2, 2, c // 4)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, c // 4)


def space_to_depth(x: Tensor) -> Tensor:
    return F.pixel_unshuffle(x, 2)


def update(x: Tensor, part: Tensor) -> Tensor:
    result = x.clone()
    result[256:768, 256:768] = part
    return result


def both(g: Tensor, i: Tensor) -> Tensor:
    return g[i[:, 0], i[:, 1]]


def padded(mode: str) -> Compute:
    return lambda x: F.pad(x, (2, 2, 2, 2), mode=mode)


def optimizer(kind: type[torch.optim.Optimizer], **arguments: object) -> Compute:
    values = torch.zeros(1 << 20, requires_grad=True)
    made = kind([values], **arguments)

    def compute(gradient: Tensor) -> None:
        values.grad = gradient
        with torch.inference_mode(False):
            made.step()

    return compute


def from_indices(incoming: Tensor, x: Tensor) -> Compute:
    _, indices = F.max_pool2d(x, 2, return_indices=True)
    return lambda incoming, x: torch.ops.aten.max_pool2d_with_indices_backward(
        incoming, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
    )


def recomputed(incoming: Tensor, x: Tensor) -> Tensor:
    _, indices = F.max_pool2d(x, 2, return_indices=True)
    return torch.ops.aten.max_pool2d_with_indices_backward(incoming, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)


def resized(mode: str) -> Compute:
    return lambda x: F.interpolate(x, scale_factor=2, mode=mode)


def sampled(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid, align_corners=False)


def average(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 1, 1)


def same_convolution(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1)


def depthwise(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1, groups=64)


def volumes(x: Tensor, w: Tensor) -> Tensor:
    return F.conv3d(x, w, padding=1)


TORCH: dict[str, Compute] = {
    "addition": torch.add,
    "addition_of_integers": torch.add,
    "addition_of_halves": torch.add,
    "addition_of_bias": torch.add,
    "division": torch.div,
    "sine": torch.sin,
    "tangent": torch.tan,
    "arc_tangent": torch.atan,
    "hyperbolic_sine": torch.sinh,
    "hyperbolic_tangent": torch.tanh,
    "exponent": torch.exp,
    "logarithm_base2": torch.log2,
    "square_root": torch.sqrt,
    "error_function": torch.erf,
    "power": torch.pow,
    "floor_modulo": torch.remainder,
    "maximum": torch.maximum,
    "less_than": torch.lt,
    "select": torch.where,
    "clamp": lambda x: x.clamp(0.75, 1.25),
    "bitwise_and": torch.bitwise_and,
    "multiplication_of_complex": torch.mul,
    "exponent_of_complex": torch.exp,
    "absolute_of_complex": torch.abs,
    "real_part": lambda x: x.real.clone(),
    "conjugate": torch.conj_physical,
    "complex_tensor": torch.complex,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_of_channels": lambda x: torch.softmax(x, 1),
    "softmax_of_few_columns": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "softmax_cross_entropy": lambda x, i: F.cross_entropy(x, i.long()),
    "sum_of_all": torch.sum,
    "sum_of_rows": lambda x: x.sum(1),
    "sum_of_columns": lambda x: x.sum(0),
    "sum_of_pixels": lambda x: x.sum((0, 1, 2)),
    "sum_of_planes": lambda x: x.sum((0, 2, 3)),
    "sum_of_halves": lambda x: x.sum(1),
    "maximum_of_rows": lambda x: x.amax(1),
    "product_of_rows": lambda x: x.prod(1),
    "argument_of_maximum": lambda x: x.argmax(1),
    "maximum_of_pairs": lambda x: x.amax(1),
    "sum_of_short_rows": lambda x: x.sum(1),
    "argument_of_maximum_of_short_rows": lambda x: x.argmax(1),
    "argument_of_maximum_of_integers": lambda x: x.argmax(1),
    "all_of_rows": lambda x: x.all(1),
    "variance": lambda x: x.var(1, correction=0),
    "layer_normalization": lambda x, gamma, beta: F.layer_norm(x, (768,), gamma, beta),
    "batch_normalization": batch_normalization,
    "batch_normalization_nchw": batch_normalization,
    "matrix_multiplication": torch.matmul,
    "matrix_multiplication_transposed": lambda a, b: a @ b.T,
    "matrix_multiplication_small": torch.matmul,
    "matrix_multiplication_of_bytes": torch._int_mm,
    "matrix_multiplication_of_integers": torch.matmul,
    "matrix_multiplication_of_halves": torch.matmul,
    "matrix_times_vector": torch.matmul,
    "batched_matrix_multiplication": torch.matmul,
    "matrix_multiplication_of_complex": torch.matmul,
    "matrix_inverse": lambda x: torch.linalg.inv(x + torch.eye(512) * 600),
    "matrix_inverse_of_many": lambda x: torch.linalg.inv(x + torch.eye(16) * 20),
    "band_part": torch.triu,
    "exponent_of_doubles": torch.exp,
    "sine_of_doubles": torch.sin,
    "hyperbolic_tangent_of_doubles": torch.tanh,
    "error_function_of_doubles": torch.erf,
    "logarithm_of_doubles": torch.log,
    "power_of_doubles": torch.pow,
    "hyperbolic_sine_of_doubles": torch.sinh,
    "gelu_of_doubles": F.gelu,
    "maximum_of_rows_of_doubles": lambda x: x.amax(1),
    "cumulative_sum_of_doubles": lambda x: x.cumsum(1),
    "absolute_of_long_integers": torch.abs,
    "clamp_of_long_integers": lambda x: x.clamp(100, 900),
    "maximum_of_rows_of_long_integers": lambda x: x.amax(1),
    "argument_of_maximum_of_long_integers": lambda x: x.argmax(1),
    "cumulative_sum_of_long_integers": lambda x: x.cumsum(1),
    "sum_of_columns_of_integers": lambda x: x.sum(0, dtype=torch.int32),
    "cast_to_integers": lambda x: x.int(),
    "cast_to_long_integers": lambda x: x.long(),
    "softmax_of_doubles": lambda x: torch.softmax(x, -1),
    "layer_normalization_of_doubles": lambda x, gamma, beta: F.layer_norm(x, (768,), gamma, beta),
    "matrix_multiplication_of_doubles": torch.matmul,
    "matrix_times_vector_of_doubles": torch.matmul,
    "matrix_inverse_of_doubles": lambda x: torch.linalg.inv(x + torch.eye(512, dtype=torch.float64) * 600),
    "convolution_of_doubles": same_convolution,
    "convolution": same_convolution,
    "convolution_nchw": same_convolution,
    "convolution_1x1": F.conv2d,
    "convolution_of_three_channels": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
    "convolution_in_groups": lambda x, w: F.conv2d(x, w, padding=1, groups=8),
    "convolution_depthwise": depthwise,
    "convolution_depthwise_nchw": depthwise,
    "convolution_depthwise_dilated": lambda x, w: F.conv2d(x, w, padding=8, dilation=8, groups=64),
    "convolution_of_halves_nchw": same_convolution,
    "convolution_of_volumes": volumes,
    "convolution_of_volumes_ncdhw": volumes,
    "convolution_transposed": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
    "im_to_col": lambda x: F.unfold(x, 3, padding=1),
    "col_to_im": lambda x: F.fold(x, (56, 56), 3, padding=1),
    "max_pooling": lambda x: F.max_pool2d(x, 2),
    "max_pooling_nchw": lambda x: F.max_pool2d(x, 2),
    "max_pooling_overlapping": lambda x: F.max_pool2d(x, 3, 2),
    "average_pooling": average,
    "average_pooling_nchw": average,
    "average_pooling_by_two_nchw": lambda x: F.avg_pool2d(x, 2),
    "average_pooling_of_everything": lambda x: F.avg_pool2d(x, 56),
    "max_pooling_with_indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "max_pooling_derivative_recomputed": recomputed,
    "max_pooling_of_volumes": lambda x: F.max_pool3d(x, 2),
    "norm_pooling": lambda x: F.lp_pool2d(x, 2.0, 2),
    "stencil": same_convolution,
    "transpose": lambda x: x.t().contiguous(),
    "transpose_halves": lambda x: x.t().contiguous(),
    "transpose_images": lambda x: x.permute(0, 3, 1, 2).contiguous(),
    "transpose_planes": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "transpose_heads": lambda x: x.permute(0, 2, 1, 3).contiguous(),
    "concatenate": lambda a, b: torch.cat([a, b], 1),
    "concatenate_channels": lambda a, b: torch.cat([a, b], 3),
    "stack_last": lambda a, b: torch.stack([a, b], -1),
    "split": lambda x: [part.contiguous() for part in x.chunk(3, 1)],
    "slice": lambda x: x[:, 4:-4, 4:-4].contiguous(),
    "slice_strided": lambda x: x[::2, ::2].contiguous(),
    "slice_update": update,
    "reverse_rows": lambda x: x.flip(0),
    "reverse_columns": lambda x: x.flip(1),
    "reverse_bytes": lambda x: x.flip(3),
    "transpose_bytes": lambda x: x.t().contiguous(),
    "transpose_doubles": lambda x: x.t().contiguous(),
    "tile": lambda x: x.repeat(4, 4),
    "broadcast": lambda x: x.expand(1024, 1024).contiguous(),
    "pad": lambda x: F.pad(x, (0, 0, 2, 2, 2, 2)),
    "pad_planes": lambda x: F.pad(x, (2, 2, 2, 2)),
    "pad_short_rows": lambda x: F.pad(x, (1, 2, 1, 2)),
    "pad_reflecting": padded("reflect"),
    "pad_reflecting_planes": padded("reflect"),
    "pad_clamped_planes": padded("replicate"),
    "pad_periodic_planes": padded("circular"),
    "depth_to_space": depth_to_space,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "space_to_depth": space_to_depth,
    "coordinate_along_axis": lambda: torch.arange(1024, dtype=torch.int32)[:, None].expand(1024, 1024).contiguous(),
    "cast_to_half": lambda x: x.half(),
    "cast_from_half": lambda x: x.float(),
    "cast_from_integers": lambda x: x.float(),
    "gather_rows": lambda x, i: x[i],
    "gather_elements": both,
    "gather_along_axis": lambda x, i: x.gather(1, i),
    "scatter_rows": lambda x, u, i: x.index_add(0, i, u),
    "scatter_elements": lambda x, u, i: x.index_put((i[:, 0], i[:, 1]), u, accumulate=True),
    "scatter_along_axis": lambda x, u, i: x.scatter_add(1, i, u),
    "scatter_maximum": lambda x, u, i: x.scatter_reduce(1, i, u, "amax"),
    "one_hot": lambda i: F.one_hot(i.long(), 100).float(),
    "non_zero": torch.nonzero,
    "sort": torch.sort,
    "sort_of_integers": torch.sort,
    "sort_of_rows": torch.sort,
    "sort_of_short_rows": torch.sort,
    "sort_of_few_elements": torch.sort,
    "arg_sort": torch.argsort,
    "arg_sort_of_integers": torch.argsort,
    "arg_sort_of_rows": torch.argsort,
    "top_k": lambda x: torch.topk(x, 5),
    "top_k_long": lambda x: torch.topk(x, 100),
    "cumulative_sum": lambda x: x.cumsum(1),
    "cumulative_sum_long": lambda x: x.cumsum(0),
    "cumulative_sum_of_columns": lambda x: x.cumsum(0),
    "cumulative_product": lambda x: x.cumprod(1),
    "cumulative_product_of_aligned_rows": lambda x: x.cumprod(1),
    "cumulative_maximum": lambda x: x.cummax(1)[0],
    "fourier": lambda x: torch.fft.fft(x, dim=1),
    "fourier_of_images": torch.fft.fft2,
    "fourier_of_odd_length": lambda x: torch.fft.fft(x, dim=1),
    "fourier_real": lambda x: torch.fft.rfft(x, dim=1),
    "fourier_to_real": lambda x: torch.fft.irfft(x, dim=1),
    "resize_bilinear": resized("bilinear"),
    "resize_bilinear_planes": resized("bilinear"),
    "resize_nearest": resized("nearest"),
    "resize_nearest_planes": resized("nearest"),
    "sample_grid": sampled,
    "sample_grid_planes": sampled,
    "for_loop": loop,
    "dequantize_lookup_table": lambda x, table: table[x.int()],
    "fake_quantize": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.01, 0, -128, 127),
    "quantize": lambda x: torch.quantize_per_tensor(x, 0.01, 0, torch.qint8),
    "sparse_multiplication": sparse,
    "uniform": lambda: torch.rand(1 << 20),
    "normal": lambda: torch.randn(1 << 20),
    "truncated_normal": lambda: torch.nn.init.trunc_normal_(torch.empty(1 << 20), 0, 1, -2, 2),
    "random_integers": lambda: torch.randint(0, 1000, (1 << 20,), dtype=torch.int32),
    "dropout": lambda x: F.dropout(x, 0.5, training=True),
    "non_maximum_suppression": suppressed,
}

# Operations that prepare something once from their inputs.
PREPARED: dict[str, Callable[..., Compute]] = {
    "max_pooling_derivative_from_indices": from_indices,
    "quantize_channels": lambda x, scale: (
        lambda x, scale: torch.quantize_per_channel(x, scale, torch.zeros(1024), 0, torch.qint8)
    ),
    "dequantize": lambda x: (lambda q: lambda x: q.dequantize())(
        torch.quantize_per_tensor(x.float() * 0.01, 0.01, 0, torch.qint8)
    ),
    "lstm": lambda *_: recurrent(torch.nn.LSTM(256, 256), "lstm"),
    "lstm_small": lambda *_: recurrent(torch.nn.LSTM(32, 32), "lstm_small"),
    "lstm_small_loop": lambda *_: recurrent(torch.nn.LSTM(32, 32), "lstm_small"),
    "gru": lambda *_: recurrent(torch.nn.GRU(256, 256), "gru"),
    "single_gate": lambda *_: recurrent(torch.nn.RNN(256, 256), "single_gate"),
    "gradient_descent": lambda _: optimizer(torch.optim.SGD, lr=0.01),
    "adam": lambda _: optimizer(torch.optim.Adam, lr=1e-3, fused=True),
}


def tensor(given: Input) -> Tensor:
    dtype = getattr(torch, given.dtype)
    if dtype.is_complex:
        return torch.complex(torch.rand(given.shape), torch.rand(given.shape))
    if not dtype.is_floating_point:
        return torch.randint(int(given.low), int(given.high), given.shape).to(dtype)
    return (given.low + (given.high - given.low) * torch.rand(given.shape)).to(dtype)


def build(name: str) -> Step:
    inputs = prepared(name, [tensor(given) for given in OPERATIONS[name]])
    plain = name if name in TORCH or name in PREPARED else name.removesuffix("_gradient")
    compute = PREPARED[plain](*inputs) if plain in PREPARED else TORCH[plain]

    @torch.inference_mode()
    def forward() -> None:
        compute(*inputs)

    if plain == name:
        return forward
    leaves = [x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) for x in inputs]
    wanted = [x for x in leaves if x.requires_grad]
    made = compute(*leaves)
    incoming = torch.rand_like((made if isinstance(made, Tensor) else made[0]).detach())

    def with_gradient() -> None:
        made = compute(*leaves)
        torch.autograd.grad(made if isinstance(made, Tensor) else made[0], wanted, incoming)

    return with_gradient


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    serve(build, "torch")
