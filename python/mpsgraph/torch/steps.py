"""A PyTorch training step as one executable that works on PyTorch's own parameters, buffers and optimizer state.

The executable reads these tensors in place. It writes new values to other memory, which then becomes the memory of the
PyTorch tensors. Between steps, all values are therefore in PyTorch, and `state_dict`, `load_state_dict`, schedulers and
other training loops work as usual. `Trainer` instead stores the values in mpsgraph, in layouts that its kernels prefer,
and is faster for models with convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._core import Executable, Tensor
from ..errors import DTypeError, GraphError
from ..graph import Graph
from . import importer
from .exports import Step, exported, names_of
from .optimizers import rule_of, stepped
from .tensors import as_array, as_tensor


@dataclass
class _Changing:
    """A PyTorch tensor that a training step changes, and the spare memory to which the step writes its new values."""

    tensor: torch.Tensor
    spare: torch.Tensor

    def exchange(self) -> None:
        self.tensor.data, self.spare = self.spare, self.tensor.data


@dataclass
class _Built:
    """A training step compiled for one set of input shapes: the executable, its feeds, and the tensors it changes."""

    executable: Executable
    sources: list[Any]
    """The source of each feed: a PyTorch tensor, the index of an input, or a parameter group, whose learning rate is
    fed.
    """
    changing: list[_Changing]


class CompiledStep:
    """A compiled training step, as returned by `compile_step`.

    Call the object with inputs and labels to make one step. Each new set of input shapes and dtypes is exported and
    compiled once.

    Args:
        module: Module to train, in training or evaluation mode.
        loss: Function (outputs, *labels) that returns a scalar.
        optimizer: SGD, Adam, AdamW or RMSprop of torch.optim, over parameters of the module.
        device: Device to run on. Defaults to None, which selects the default device.
        seed: Seed of the random numbers in the step.

    Attributes:
        module: The module that is trained.
        optimizer: The optimizer, which holds the state and the learning rates.

    Raises:
        UnsupportedError: If the optimizer is not supported.
        GraphError: If module or loss has the wrong type, if a parameter or buffer is not on the CPU, or if the
            optimizer has parameters that do not belong to the module.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> module = torch.nn.Linear(2, 1, bias=False)
        >>> step = mg.torch.compile_step(module, lambda y: y.sum(), torch.optim.SGD(module.parameters(), lr=1.0))
        >>> isinstance(step, mg.torch.CompiledStep)
        True
        >>> before = module.weight.detach().clone()
        >>> _ = step(torch.ones(1, 2))
        >>> (before - module.weight.detach()).tolist()
        [[1.0, 1.0]]
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., Any],
        optimizer: torch.optim.Optimizer,
        device: Any,
        seed: int,
    ) -> None:
        if not isinstance(module, torch.nn.Module) or not callable(loss):
            raise GraphError(
                "mpsgraph.torch.compile_step expects a torch.nn.Module, a loss function (outputs, *labels) and an "
                f"optimizer of torch.optim, got {type(module).__name__}, {type(loss).__name__} and "
                f"{type(optimizer).__name__}"
            )
        self._rule, self.module, self.optimizer = rule_of(optimizer), module, optimizer
        self._step, self._device, self._seed = Step(module, loss), device, seed
        first = names_of(module)
        everything = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self._tensors = {name: everything[name] for name in set(first.values())}
        names = {id(tensor): name for name, tensor in self._tensors.items()}
        for name, tensor in self._tensors.items():
            if tensor.device.type != "cpu":
                raise GraphError(
                    f"parameters and buffers must be on the CPU, got {name} on {tensor.device}: call module.cpu()"
                )
        if any(id(p) not in names for group in optimizer.param_groups for p in group["params"]):
            raise GraphError("the optimizer has parameters that do not belong to the module")
        self._names = names
        self._counts: dict[str, torch.Tensor] = {}
        self._built: dict[Any, _Built] = {}

    def _state(self, name: str, key: str) -> torch.Tensor:
        """Return a tensor of the optimizer's state for a parameter, or zeros if PyTorch has not created the tensor yet.

        PyTorch's SGD does not store a step count, so the step count is stored in this object.
        """
        parameter = self._tensors[name]
        kept = self.optimizer.state[parameter]
        if key == "step" and isinstance(self.optimizer, torch.optim.SGD):
            begun = float(kept.get("momentum_buffer") is not None)
            return self._counts.setdefault(name, torch.tensor(begun))
        if kept.get(key) is None:
            wide = torch.float64 if parameter.dtype == torch.float64 else torch.float32
            kept[key] = torch.zeros(()) if key == "step" else torch.zeros(parameter.shape, dtype=wide)
        found: torch.Tensor = kept[key]
        return found

    def _build(self, inputs: tuple[Any, ...], labels: tuple[Any, ...]) -> _Built:
        g = Graph(seed=self._seed + len(self._built))
        fed: dict[Tensor, Any] = {}
        values: dict[str, Tensor] = {}

        def fed_by(tensor: torch.Tensor, name: str) -> Tensor:
            feed = g.placeholder(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), name)
            fed[feed] = tensor
            return feed

        def value_of(name: str) -> Tensor:
            if name not in values:
                values[name] = fed_by(self._tensors[name], name)
            return values[name]

        found = exported(g, self._step, inputs, labels, value_of)
        fed |= {feed: place for place, feed in enumerate(found.feeds)}
        new: list[tuple[torch.Tensor, Tensor]] = [(self._tensors[name], x) for name, x in found.buffers.items()]
        groups = [
            (options, [self._names[id(p)] for p in options["params"] if p.requires_grad])
            for options in self.optimizer.param_groups
        ]
        # As in PyTorch, a parameter that the loss does not depend on is not updated.
        loss = found.loss()
        read = importer.read_by([loss])
        groups = [(options, [name for name in names if values.get(name) in read]) for options, names in groups]
        trained = [name for _, names in groups for name in names]
        gradients = g.gradients(loss, [values[name] for name in trained])
        for options, names in groups:
            double = any(self._tensors[name].dtype == torch.float64 for name in names)
            rate = g.placeholder((), "float64" if double else "float32", "rate")
            fed[rate] = options
            for name in names:
                kept = {key: self._state(name, key) for key in self._rule.states(options)}
                states = {key: fed_by(tensor, f"{name}/{key}") for key, tensor in kept.items()}
                result, states = stepped(g, self._rule, options, values[name], gradients[values[name]], rate, states)
                new += [(self._tensors[name], result), *((kept[key], states[key]) for key in kept)]
        types = {feed: (tuple(feed.shape or ()), feed.dtype) for feed in fed}
        executable = g.compile(types, [loss, *(x for _, x in new)], device=self._device)
        changing = [_Changing(tensor, torch.empty(tensor.shape, dtype=tensor.dtype)) for tensor, _ in new]
        return _Built(executable, [fed[feed] for feed in executable.feeds], changing)

    def __call__(self, inputs: Any, *labels: Any) -> torch.Tensor:
        """Make one training step, which updates parameters, buffers and the optimizer's state.

        Args:
            inputs: PyTorch tensor, or a tuple of the tensors that the module takes.
            *labels: PyTorch tensors that the loss function takes after the outputs.

        Returns:
            The loss, a scalar tensor without a gradient.

        Raises:
            DTypeError: If an input or label is not a PyTorch tensor.
            UnsupportedError: If torch.export cannot export the module, or an operation is not supported.
            GraphError: If the loss is not a scalar.
        """
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        tensors = [x for x in (*given, *labels) if isinstance(x, torch.Tensor)]
        if len(tensors) != len(given) + len(labels):
            raise DTypeError("inputs and labels must be PyTorch tensors or a tuple of them: use torch.as_tensor(array)")
        key = tuple((tuple(x.shape), x.dtype) for x in tensors), len(given), self.module.training
        built = self._built.get(key)
        if built is None:
            built = self._built[key] = self._build(given, labels)
        arrays = []
        for source, feed in zip(built.sources, built.executable.feeds, strict=True):
            if isinstance(source, dict):
                arrays.append(np.array(float(source["lr"]), feed.dtype.numpy))
            else:
                arrays.append(as_array(tensors[source] if isinstance(source, int) else source))
        results = [None, *(as_array(c.spare) for c in built.changing)]
        loss = built.executable.run(arrays, results)[0]
        for changing in built.changing:
            changing.exchange()
        return as_tensor(loss)


def compile_step(
    module: torch.nn.Module,
    loss: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    *,
    device: Any = None,
    seed: int = 0,
) -> CompiledStep:
    """Compile a whole training step to one executable: forward pass, gradients and optimizer update.

    Calling step(inputs, *labels) is equivalent to optimizer.zero_grad(), loss(module(inputs), *labels).backward() and
    optimizer.step(). Afterwards, the module and the optimizer hold the new values in PyTorch tensors.

    Args:
        module: Module to train, in training or evaluation mode.
        loss: Function (outputs, *labels) that returns a scalar.
        optimizer: SGD, Adam, AdamW or RMSprop of torch.optim, over parameters of the module.
        device: Device to run on. None means the default device.
        seed: Seed of the random numbers in the step, which come from Philox and differ from PyTorch's. Defaults to 0.

    Returns:
        A CompiledStep, to be called with inputs and labels. Calls raise UnsupportedError if an operation of the module
        is not supported.

    Raises:
        UnsupportedError: If the optimizer is not supported.
        GraphError: If module or loss has the wrong type, if a parameter or buffer is not on the CPU, or if the
            optimizer has parameters that do not belong to the module.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> module = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(module.parameters())
        >>> step = mg.torch.compile_step(module, torch.nn.functional.mse_loss, optimizer)
        >>> first = float(step(torch.eye(2), torch.ones(2, 1)))
        >>> float(step(torch.eye(2), torch.ones(2, 1))) < first
        True
        >>> float(optimizer.state[module.weight]["step"])
        2.0
    """
    return CompiledStep(module, loss, optimizer, device, seed)
