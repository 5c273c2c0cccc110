"""PyTorch as a measured side: `python -m peers.torch_peer WORKLOAD MODE`, in an environment of its own.

Modes: eager; eager channels_last; compile (forward and optimizer each by torch.compile); compile channels_last; compile
step (loss, gradients by torch.func and update as one compiled function). Eager modes use the fused optimizers.
"""

import math
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
import workloads as sizes
from harness import THREADS
from harness.protocol import Step, serve
from torch import Tensor, nn

Loss = Callable[[Callable[[Tensor], Tensor]], Tensor]
"""The loss of a model on the workload's batch."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch.optim.Adam's defaults


class DigitNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, second = sizes.W1_CHANNELS
        self.convolution1 = nn.Conv2d(1, first, 5, padding=2)
        self.convolution2 = nn.Conv2d(first, second, 5, padding=2)
        self.dense1 = nn.Linear(sizes.W1_FLAT, sizes.W1_HIDDEN)
        self.dense2 = nn.Linear(sizes.W1_HIDDEN, sizes.CLASSES)
        self.dropout = nn.Dropout(sizes.W1_DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.convolution1(x)), 2)
        x = F.max_pool2d(F.relu(self.convolution2(x)), 2)
        return self.dense2(self.dropout(F.relu(self.dense1(x.flatten(1)))))


def w1(mode: str) -> Step:
    layout = torch.channels_last if mode.endswith("channels_last") else torch.contiguous_format
    model = DigitNetwork().to(memory_format=layout)
    images = torch.randn(sizes.W1_BATCH, 1, sizes.W1_IMAGE, sizes.W1_IMAGE).contiguous(memory_format=layout)
    labels = torch.randint(0, sizes.CLASSES, (sizes.W1_BATCH,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(images), labels), sizes.W1_RATE, adam=False)


def w6(mode: str) -> Step:
    pairs = zip(sizes.W6_SIZES, sizes.W6_SIZES[1:], strict=False)
    layers = [layer for inputs, outputs in pairs for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
    model = nn.Sequential(*layers[:-1])
    inputs = torch.randn(sizes.W6_BATCH, sizes.W6_SIZES[0])
    labels = torch.randint(0, sizes.CLASSES, (sizes.W6_BATCH,))
    return training_step(mode, model, lambda f: F.cross_entropy(f(inputs), labels), sizes.W6_RATE, adam=True)


def training_step(mode: str, model: nn.Module, loss_of: Loss, rate: float, adam: bool) -> Step:
    if mode == "compile step":
        return whole_step(model, loss_of, rate, adam)
    compiled = mode.startswith("compile")
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=rate, fused=not compiled)

    def forward() -> Tensor:
        return loss_of(model)

    update = optimizer.step
    if compiled:
        forward, update = torch.compile(forward), torch.compile(update)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        update()
        return loss.item()

    return step


def whole_step(model: nn.Module, loss_of: Loss, rate: float, adam: bool) -> Step:
    """Everything of a step in one function that is compiled."""
    parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
    momenta = {name: torch.zeros_like(value) for name, value in parameters.items()}
    velocities = {name: torch.zeros_like(value) for name, value in parameters.items()}
    time = torch.zeros(())

    def loss_at(values: dict[str, Tensor]) -> Tensor:
        return loss_of(lambda x: torch.func.functional_call(model, values, (x,)))

    def descend(gradients: dict[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            parameters[name].sub_(rate * gradient)

    def descend_by_adam(gradients: dict[str, Tensor]) -> None:
        time.add_(1)
        for name, gradient in gradients.items():
            momentum = momenta[name].mul_(BETA1).add_((1 - BETA1) * gradient)
            velocity = velocities[name].mul_(BETA2).add_((1 - BETA2) * gradient * gradient)
            root = (velocity / (1 - BETA2**time)).sqrt() + EPSILON
            parameters[name].sub_(rate / (1 - BETA1**time) * momentum / root)

    @torch.compile(fullgraph=True)
    def whole() -> Tensor:
        gradients, loss = torch.func.grad_and_value(loss_at)(parameters)
        (descend_by_adam if adam else descend)(gradients)
        return loss

    def step() -> float:
        with torch.no_grad():
            return whole().item()

    return step


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * (1 / math.sqrt(2))))


def w5_forward(mode: str) -> Step:
    function = torch.compile(gelu) if mode == "compile" else gelu
    x = torch.randn(sizes.W5_SHAPE)

    def step() -> None:
        with torch.no_grad():
            function(x)

    return step


def w5_backward(mode: str) -> Step:
    def total(x: Tensor) -> Tensor:
        return gelu(x).sum()

    function = torch.compile(total) if mode == "compile" else total
    x = torch.randn(sizes.W5_SHAPE, requires_grad=True)

    def step() -> float:
        x.grad = None
        loss = function(x)
        loss.backward()
        return loss.item()

    return step


WORKLOADS = {"W1": w1, "W5 forward": w5_forward, "W5 forward+backward": w5_backward, "W6": w6}

if __name__ == "__main__":
    workload, mode = sys.argv[1:]
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    serve(lambda: WORKLOADS[workload](mode))
