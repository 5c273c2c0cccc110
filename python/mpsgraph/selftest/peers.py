"""The networks of parts/speed.py in PyTorch (on MPS) and MLX. Both libraries are imported only to be measured."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from . import workloads
from .workloads import Step

TORCH_DEVICE = "mps"


# --- PyTorch ----------------------------------------------------------------------------------------------------------
def _torch_step(model: Any, optimizer: Callable[[Any], Any], inputs: Any, labels: Any) -> Step:
    torch = importlib.import_module("torch")
    if TORCH_DEVICE == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError("PyTorch's mps device is not available on this machine")
    model = model.to(TORCH_DEVICE)
    x, y = torch.from_numpy(inputs).to(TORCH_DEVICE), torch.from_numpy(labels).long().to(TORCH_DEVICE)
    rule = optimizer(model.parameters())

    def step() -> float:
        rule.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        rule.step()
        return float(loss.item())

    return step


def torch_digits() -> Step:
    """Create a step of the digit network in NCHW layout, as usual in PyTorch."""
    torch = importlib.import_module("torch")
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(7 * 7 * 64, 1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(1024, workloads.CLASSES),
    )
    images, labels = workloads.digits_batch()
    first = images.reshape(-1, 1, 28, 28)
    return _torch_step(model, lambda p: torch.optim.SGD(p, lr=workloads.DIGIT_RATE), first, labels)


def torch_perceptron() -> Step:
    """Create a step of the perceptron."""
    torch = importlib.import_module("torch")
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, workloads.CLASSES)
    )
    inputs, labels = workloads.perceptron_batch()
    return _torch_step(model, lambda p: torch.optim.Adam(p, lr=workloads.PERCEPTRON_RATE), inputs, labels)


# --- MLX --------------------------------------------------------------------------------------------------------------
def _mlx_step(model: Any, optimizer: Any, inputs: Any, labels: Any) -> Step:
    mx, nn = importlib.import_module("mlx.core"), importlib.import_module("mlx.nn")
    x, y = mx.array(inputs), mx.array(labels)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    value_and_gradients = nn.value_and_grad(model, loss_of)
    state = [model.state, optimizer.state, mx.random.state]

    def whole(x: Any, y: Any) -> Any:
        loss, gradients = value_and_gradients(model, x, y)
        optimizer.update(model, gradients)
        return loss

    compiled = mx.compile(whole, inputs=state, outputs=state)

    def step() -> float:
        loss = compiled(x, y)
        mx.eval(loss, state)
        return float(loss.item())

    return step


def mlx_digits() -> Step:
    """Create a compiled step of the digit network in NHWC layout, as usual in MLX."""
    nn, optimizers = importlib.import_module("mlx.nn"), importlib.import_module("mlx.optimizers")
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        lambda x: x.reshape(x.shape[0], -1),
        nn.Linear(7 * 7 * 64, 1024),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(1024, workloads.CLASSES),
    )
    model.train()
    return _mlx_step(model, optimizers.SGD(workloads.DIGIT_RATE), *workloads.digits_batch())


def mlx_perceptron() -> Step:
    """Create a compiled step of the perceptron."""
    nn, optimizers = importlib.import_module("mlx.nn"), importlib.import_module("mlx.optimizers")
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, workloads.CLASSES)
    )
    return _mlx_step(model, optimizers.Adam(workloads.PERCEPTRON_RATE), *workloads.perceptron_batch())


DIGITS: dict[str, Callable[[], Step]] = {"PyTorch MPS": torch_digits, "MLX": mlx_digits}
PERCEPTRONS: dict[str, Callable[[], Step]] = {"PyTorch MPS": torch_perceptron, "MLX": mlx_perceptron}
