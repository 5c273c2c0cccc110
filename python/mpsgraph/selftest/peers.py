"""What parts/speed.py measures, in PyTorch, MLX, and numpy. PyTorch and MLX are imported only to be measured.

Each function takes the name of the device in that library: "mps" or "cpu" for PyTorch, "gpu" or "cpu" for MLX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import workloads
from .workloads import Step


# --- PyTorch ----------------------------------------------------------------------------------------------------------
def _torch_step(device: str, model: Any, optimizer: Callable[[Any], Any], inputs: Any, labels: Any) -> Step:
    torch = importlib.import_module("torch")
    if device == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError("PyTorch's mps device is not available on this machine")
    model = model.to(device)
    x, y = torch.from_numpy(inputs).to(device), torch.from_numpy(labels).long().to(device)
    rule = optimizer(model.parameters())

    def step() -> float:
        rule.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        rule.step()
        return float(loss.item())

    return step


def torch_digits(device: str) -> Step:
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
    return _torch_step(device, model, lambda p: torch.optim.SGD(p, lr=workloads.DIGIT_RATE), first, labels)


def torch_perceptron(device: str) -> Step:
    """Create a step of the perceptron."""
    torch = importlib.import_module("torch")
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, workloads.CLASSES)
    )
    inputs, labels = workloads.perceptron_batch()
    return _torch_step(device, model, lambda p: torch.optim.Adam(p, lr=workloads.PERCEPTRON_RATE), inputs, labels)


# --- MLX --------------------------------------------------------------------------------------------------------------
def _mlx_step(device: str, make: Callable[[], Any], optimizer: Any, inputs: Any, labels: Any) -> Step:
    mx, nn = importlib.import_module("mlx.core"), importlib.import_module("mlx.nn")
    where = getattr(mx, device)
    with mx.stream(where):
        model = make()
        mx.eval(model.parameters())
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
        with mx.stream(where):
            loss = compiled(x, y)
            mx.eval(loss, state)
            return float(loss.item())

    return step


def mlx_digits(device: str) -> Step:
    """Create a compiled step of the digit network in NHWC layout, as usual in MLX."""
    nn, optimizers = importlib.import_module("mlx.nn"), importlib.import_module("mlx.optimizers")

    def model() -> Any:
        made = nn.Sequential(
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
        made.train()
        return made

    return _mlx_step(device, model, optimizers.SGD(workloads.DIGIT_RATE), *workloads.digits_batch())


def mlx_perceptron(device: str) -> Step:
    """Create a compiled step of the perceptron."""
    nn, optimizers = importlib.import_module("mlx.nn"), importlib.import_module("mlx.optimizers")

    def model() -> Any:
        return nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, workloads.CLASSES)
        )

    return _mlx_step(device, model, optimizers.Adam(workloads.PERCEPTRON_RATE), *workloads.perceptron_batch())


# --- numpy ------------------------------------------------------------------------------------------------------------
def numpy_matmul() -> Step:
    """Create a step that multiplies the matrices with numpy, which uses the BLAS of its build: on macOS, Accelerate."""
    a, b = workloads.matrices()
    product = np.empty_like(a)

    def step() -> float:
        np.matmul(a, b, out=product)
        return float(product[0, 0])

    return step


def blas() -> str:
    """Return the name of numpy's BLAS, such as "accelerate"."""
    config: Any = np.show_config(mode="dicts")
    return str(config["Build Dependencies"]["blas"]["name"])


Peers = dict[str, Callable[[], Step]]


def _on(device: str, torch: Callable[[str], Step], mlx: Callable[[str], Step]) -> Peers:
    if device == "cpu":
        return {"PyTorch CPU": partial(torch, "cpu"), "MLX CPU": partial(mlx, "cpu")}
    return {"PyTorch MPS": partial(torch, "mps"), "MLX": partial(mlx, "gpu")}


def digits(device: str) -> Peers:
    """Return the digit network in the other libraries, on their counterparts of a device of mpsgraph."""
    return _on(device, torch_digits, mlx_digits)


def perceptrons(device: str) -> Peers:
    """Return the perceptron in the other libraries, on their counterparts of a device of mpsgraph."""
    return _on(device, torch_perceptron, mlx_perceptron)
