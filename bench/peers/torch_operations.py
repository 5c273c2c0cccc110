"""PyTorch's side of bench/operations.py: `python -m peers.torch_operations`, then `setup NAME`.

Images keep the NHWC order in memory: PyTorch sees them as channels-last tensors, its fastest format.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import THREADS
from harness.protocol import Step, serve
from torch import Tensor
from workloads import OPERATIONS

Compute = Callable[..., Tensor]


def image(x: Tensor) -> Tensor:
    """NHWC memory as PyTorch's channels-last NCHW."""
    return x.permute(0, 3, 1, 2)


def kernel(w: Tensor) -> Tensor:
    """HWIO as PyTorch's OIHW, in channels-last memory; made once, outside the time that is measured."""
    return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def prepared(name: str, x: Tensor) -> Tensor:
    if x.dim() != 4 or name in ("transpose_images", "pad", "pad_reflecting"):
        return x
    return kernel(x) if x.shape[0] < 8 else image(x)


def gradients_of(function: Compute) -> Compute:
    def compute(*inputs: Tensor) -> object:
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*leaves).sum(), leaves)

    return compute


def gather_gradient(x: Tensor, i: Tensor) -> object:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(leaf[i].square().sum(), leaf)


def reflected(x: Tensor) -> Tensor:
    return F.pad(image(x), (2, 2, 2, 2), mode="reflect")


TORCH: dict[str, Compute] = {
    "sine": torch.sin,
    "tangent": torch.tan,
    "arc_tangent": torch.atan,
    "hyperbolic_sine": torch.sinh,
    "power": torch.pow,
    "logarithm_base2": torch.log2,
    "floor_modulo": torch.remainder,
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_gradient": gradients_of(lambda x: torch.softmax(x, -1).square()),
    "sum_of_rows": lambda x: x.sum(1),
    "sum_of_columns": lambda x: x.sum(0),
    "maximum_of_rows": lambda x: x.amax(1),
    "product_of_rows": lambda x: x.prod(1),
    "argument_of_maximum": lambda x: x.argmax(1),
    "variance": lambda x: x.var(1, correction=0),
    "transpose": lambda x: x.t().contiguous(),
    "transpose_images": lambda x: x.permute(0, 3, 1, 2).contiguous(),
    "concatenate": lambda a, b: torch.cat([a, b], 1),
    "gather_rows": lambda x, i: x[i],
    "gather_rows_gradient": gather_gradient,
    "one_hot": lambda i: F.one_hot(i.long(), 100).float(),
    "pad": lambda x: F.pad(x, (0, 0, 2, 2, 2, 2)),
    "pad_reflecting": reflected,
    "matrix_multiplication": torch.matmul,
    "batched_matrix_multiplication": torch.matmul,
    "convolution": lambda x, w: F.conv2d(x, w, padding=1),
    "convolution_gradient": gradients_of(lambda x, w: F.conv2d(x, w, padding=1)),
    "convolution_1x1": F.conv2d,
    "max_pooling": lambda x: F.max_pool2d(x, 2),
    "max_pooling_gradient": gradients_of(lambda x: F.max_pool2d(x, 2)),
    "average_pooling": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "uniform": lambda: torch.rand(1 << 20),
    "normal": lambda: torch.randn(1 << 20),
    "cast_to_half": lambda x: x.half(),
}


def build(name: str) -> Step:
    inputs = [
        torch.randint(0, below, shape, dtype=torch.int32) if below else torch.rand(shape) + 0.5
        for shape, below in OPERATIONS[name]
    ]
    inputs = [prepared(name, x) for x in inputs]
    compute = TORCH[name]

    def step() -> None:
        compute(*inputs)

    return step


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    serve(build)
