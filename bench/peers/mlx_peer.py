"""MLX as a benchmark peer: `python -m peers.mlx_peer WORKLOAD MODE`, run in a separate environment.

It runs only W2: MLX's CPU kernels are many times slower than those of the other peers, but MLX needs less memory than
most peers. The only mode is `compile`.
"""

import sys
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import workloads as sizes
from measuring.protocol import Step, serve

RNG = np.random.default_rng(0)


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution followed by batch normalization."""
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=1 if kernel == 3 else 0, bias=False),
        nn.BatchNorm(outputs, eps=sizes.EPSILON, momentum=1 - sizes.MOMENTUM),
    ]


class Block(nn.Module):
    """A residual block of three convolutions, with a projection where the shape changes."""

    def __init__(self, inputs: int, within: int, behind: int, stride: int, projected: bool) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *convolution(inputs, within, 1, stride),
            nn.ReLU(),
            *convolution(within, within, 3),
            nn.ReLU(),
            *convolution(within, behind, 1),
        )
        self.projection = nn.Sequential(*convolution(inputs, behind, 1, stride)) if projected else nn.Identity()

    def __call__(self, x: mx.array) -> mx.array:
        return nn.relu(self.convolutions(x) + self.projection(x))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks, inputs = [], sizes.W2_STEM
        for within, behind, count, strides in sizes.W2_STAGES:
            for i in range(count):
                blocks.append(Block(inputs, within, behind, 1 if i else strides, not i))
                inputs = behind
        self.stem = nn.Sequential(*convolution(3, sizes.W2_STEM, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.blocks = nn.Sequential(*blocks)
        self.dense = nn.Linear(inputs, sizes.CLASSES)

    def __call__(self, x: mx.array) -> mx.array:
        return self.dense(mx.mean(self.blocks(self.stem(x)), axis=(1, 2)))


def w2() -> Step:
    x = mx.array(RNG.standard_normal((sizes.W2_BATCH, sizes.W2_IMAGE, sizes.W2_IMAGE, 3), np.float32))
    labels = mx.array(RNG.integers(sizes.CLASSES, size=sizes.W2_BATCH))
    network, optimizer = ResNet50(), optim.SGD(sizes.W2_RATE)
    value_and_grad = nn.value_and_grad(network, lambda: nn.losses.cross_entropy(network(x), labels, reduction="mean"))
    state = [network.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def update() -> mx.array:
        loss, gradients = value_and_grad()
        optimizer.update(network, gradients)
        return loss

    def step() -> float:
        loss = update()
        mx.eval(loss, state)
        return loss.item()

    return step


if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    serve({"W2 float32": w2}[workload], "mlx")
