"""Training of a PyTorch module with one executable per step: forward pass, gradients and optimizer update.

torch.export provides the forward pass, the graph derives the gradients, and the optimizer's formula computes the
update. Variables of the graph store parameters, buffers and the optimizer's state until `sync` copies them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from .._core import DeviceGraph, Executable, Operation, Tensor
from ..errors import DTypeError, GraphError
from ..graph import Graph
from ..random import next_seed
from ..training.step_result import StepResult
from . import importer
from .exports import Step, loss_of, names_of
from .optimizers import moved, rule_of
from .tensors import as_array, as_tensor


class _Built:
    """A training step for one set of input shapes: its placeholders, loss and assignments."""

    def __init__(self, feeds: list[Tensor], rates: list[Tensor], loss: Tensor, updates: list[Operation]) -> None:
        self.feeds, self.rates, self.loss, self.updates = feeds, rates, loss, updates
        self.executable: Executable | None = None


class Trainer:
    """Trainer of a PyTorch module, with one executable per step: forward pass, gradients and optimizer update.

    Between steps, mpsgraph stores the weights and the optimizer's state; `sync` copies them back to PyTorch.

    Args:
        module: Module to train. The step uses the mode (training or evaluation) that the module is in.
        loss: Function (outputs, *labels) on PyTorch tensors that returns a scalar.
        optimizer: SGD, Adam, AdamW or RMSprop of torch.optim, over parameters of the module.
        device: Device to run on. Defaults to None, which selects the default device.
        seed: Seed of dropout and other random numbers, which come from Philox and differ from PyTorch's. None, the
            default, means a new seed for each trainer (see mpsgraph.random.seed).

    Attributes:
        module: The module that is trained.
        loss: The loss function.
        optimizer: The optimizer, whose learning rates are read at each step.
        device: The device that was passed.
        graph: Graph that holds the variables and the training steps.

    Raises:
        UnsupportedError: If the optimizer is not supported.
        GraphError: If module or loss has the wrong type, or if the optimizer has parameters that do not belong to the
            module.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> module = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        >>> trainer = mg.torch.Trainer(module, torch.nn.functional.mse_loss, optimizer)
        >>> x, y = torch.eye(2), torch.ones(2, 1)
        >>> first = float(trainer.step(x, y))
        >>> float(trainer.step(x, y)) < first
        True
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., Any],
        optimizer: torch.optim.Optimizer,
        *,
        device: Any = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(module, torch.nn.Module) or not callable(loss):
            raise GraphError(
                "mpsgraph.torch.Trainer expects a torch.nn.Module, a loss function (outputs, *labels) and an "
                f"optimizer of torch.optim, got {type(module).__name__}, {type(loss).__name__} and "
                f"{type(optimizer).__name__}"
            )
        self.rule = rule_of(optimizer)
        self.module, self.loss, self.optimizer, self.device = module, loss, optimizer, device
        self.seed = next_seed() if seed is None else seed
        self.graph = Graph(seed=self.seed)
        self._on: DeviceGraph = self.graph.on(device)
        self._step = Step(module, loss)
        # A tensor with several names (a tied parameter) is stored under its first name.
        everything = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self._first = names_of(module)
        self._tensors = {name: everything[name] for name in dict.fromkeys(self._first.values())}
        self._variables: dict[str, Tensor] = {}
        self._states: dict[str, dict[str, Tensor]] = {}
        names = {id(p): name for name, p in module.named_parameters()}
        self._groups: list[list[str]] = []
        for group in optimizer.param_groups:
            if any(id(p) not in names for p in group["params"]):
                raise GraphError("the optimizer has parameters that do not belong to the module")
            self._groups.append([names[id(p)] for p in group["params"] if p.requires_grad])
        self._built: dict[Any, _Built] = {}

    # --- building --------------------------------------------------------------------------------------------------

    def _variable(self, name: str) -> Tensor:
        """Return the variable of a parameter or buffer. A new variable is initialized with the value in the module."""
        if name not in self._variables:
            self._variables[name] = self.graph.variable(as_array(self._tensors[name]), name=name)
        return self._variables[name]

    def _kept(self, name: str, options: Any) -> dict[str, Tensor]:
        """Return the variables of a parameter's optimizer state. New variables are initialized from PyTorch's state, if
        any.
        """
        if name not in self._states:
            parameter = self._tensors[name]
            has = self.optimizer.state.get(parameter, {})
            kept = {}
            for state in self.rule.states(options):
                known = has.get(state)
                if state == "step":
                    count = float(known) if known is not None else float(has.get("momentum_buffer") is not None)
                    value = np.array(count, np.float32)
                elif known is not None:
                    value = as_array(known)
                else:
                    value = np.zeros(tuple(parameter.shape), _wide(parameter))
                kept[state] = self.graph.variable(value, name=f"{name}/{state}", trainable=False)
            self._states[name] = kept
        return self._states[name]

    def _build(self, inputs: tuple[Any, ...], labels: tuple[Any, ...]) -> _Built:
        self._refuse_what_is_fixed()
        g = self.graph
        found = loss_of(g, self._step, inputs, labels, lambda name: g.read(self._variable(name)))
        updates = [g.assign(self._variable(name), x) for name, x in found.buffers.items()]
        rates = [g.placeholder((), self._rate_dtype(names), "rate") for names in self._groups]
        # As in PyTorch, a parameter that the loss does not depend on is not updated.
        read = importer.read_by([found.value])
        groups = [[name for name in names if self._variable(name) in read] for names in self._groups]
        gradients = g.gradients(found.value, [self._variables[name] for names in groups for name in names])
        for names, rate, options in zip(groups, rates, self.optimizer.param_groups, strict=True):
            for name in names:
                variable = self._variables[name]
                updates += moved(g, self.rule, options, variable, gradients[variable], rate, self._kept(name, options))
        return _Built(found.feeds, rates, found.value, updates)

    def _rate_dtype(self, names: list[str]) -> str:
        """Return the dtype of a parameter group's learning rate: float64 if a parameter is float64, and float32
        otherwise.

        PyTorch's learning rates are Python floats, which have the precision of float64.
        """
        return "float64" if any(self._tensors[name].dtype == torch.float64 for name in names) else "float32"

    def _refuse_what_is_fixed(self) -> None:
        for name, tensor in self._tensors.items():
            if tensor.device.type != "cpu":
                raise GraphError(
                    f"parameters and buffers must be on the CPU, got {name} on {tensor.device}: call module.cpu()"
                )

    # --- training --------------------------------------------------------------------------------------------------

    def step(self, inputs: Any, *labels: Any) -> StepResult:
        """Make one training step with the optimizer's current learning rates, and return without waiting for it.

        Each new set of input shapes and dtypes is exported and compiled once.

        Args:
            inputs: PyTorch tensor, or a tuple of the tensors that the module takes. They must not change until the step
                is done.
            *labels: PyTorch tensors that the loss function takes after the outputs. These must not change until the
            step is done, either.

        Returns:
            A StepResult; float(result) waits for the loss.

        Raises:
            DTypeError: If an input or label is not a PyTorch tensor.
            UnsupportedError: If torch.export cannot export the module, or an operation is not supported.
            GraphError: If the loss is not a scalar, or a parameter or buffer is not on the CPU.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> trainer = mg.torch.Trainer(module, lambda y: y.square().mean(), torch.optim.Adam(module.parameters()))
            >>> float(trainer.step(torch.zeros(4, 2))) >= 0
            True
        """
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        tensors = [x for x in (*given, *labels) if isinstance(x, torch.Tensor)]
        if len(tensors) != len(given) + len(labels):
            raise DTypeError("inputs and labels must be PyTorch tensors or a tuple of them: use torch.as_tensor(array)")
        key = tuple((tuple(x.shape), x.dtype) for x in tensors), len(given), self.module.training
        built = self._built.get(key)
        if built is None:
            built = self._built[key] = self._build(given, labels)
        rates = [
            np.array(float(group["lr"]), rate.dtype.numpy)
            for group, rate in zip(self.optimizer.param_groups, built.rates, strict=True)
        ]
        arrays = [as_array(x) for x in tensors]
        if built.executable is None:
            feeds = [*built.rates, *built.feeds]
            types = {t: (tuple(t.shape or ()), t.dtype) for t in feeds}
            built.executable = self.graph.compile(types, [built.loss], built.updates, device=self.device)
        by_feed = dict(zip([*built.rates, *built.feeds], [*rates, *arrays], strict=True))
        order = [by_feed[feed] for feed in built.executable.feeds]
        return StepResult(built.executable.run_async(order), ["loss"])

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return copies of the current parameters and buffers, under PyTorch's names.

        Returns:
            A dict of PyTorch tensors with the keys of module.state_dict(). Entries that are neither parameters nor
            buffers are left out.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> trainer = mg.torch.Trainer(module, lambda y: y.mean(), torch.optim.SGD(module.parameters(), lr=1.0))
            >>> sorted(trainer.state_dict())
            ['bias', 'weight']
        """
        first = self._first
        own = {name: first[name] for name in self.module.state_dict() if first.get(name) in self._tensors}
        values = self._values(dict.fromkeys(own.values()))
        return {name: values[one] if one == name else values[one].clone() for name, one in own.items()}

    def _values(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Return copies of the current values of parameters and buffers."""
        names = list(names)
        known = [name for name in names if name in self._variables]
        found = self._on.variable_values([self._variables[name] for name in known])
        read = {name: _tensor(value, self._tensors[name]) for name, value in zip(known, found, strict=True)}
        return {name: read[name] if name in read else self._tensors[name].detach().clone() for name in names}

    def sync(self) -> None:
        """Copy the weights to the module and the optimizer's state to the optimizer, after waiting for all steps so
        far.

        The module and the optimizer remain ordinary PyTorch objects, which can be saved or trained further.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.Adam(module.parameters())
            >>> trainer = mg.torch.Trainer(module, lambda y: y.mean(), optimizer)
            >>> _ = trainer.step(torch.ones(3, 2)); trainer.sync()
            >>> float(optimizer.state[module.weight]["step"])
            1.0
        """
        with torch.no_grad():
            for name, value in self._values(self._variables).items():
                self._tensors[name].copy_(value)
        kept_variables = [variable for kept in self._states.values() for variable in kept.values()]
        values = dict(zip(kept_variables, self._on.variable_values(kept_variables), strict=True))
        for name, kept in self._states.items():
            state = self.optimizer.state[self._tensors[name]]
            for key, variable in kept.items():
                if key == "step" and isinstance(self.optimizer, torch.optim.SGD):
                    # PyTorch's SGD stores no step count. It takes the presence of a momentum buffer to mean that there
                    # was an earlier step.
                    continue
                state[key] = _tensor(values[variable], None)

    def load(self) -> None:
        """Copy the module's weights and the optimizer's state from PyTorch, for example after load_state_dict.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> trainer = mg.torch.Trainer(module, lambda y: y.mean(), torch.optim.SGD(module.parameters(), lr=1.0))
            >>> _ = trainer.step(torch.ones(3, 2))
            >>> _ = module.bias.data.zero_(); trainer.load()
            >>> trainer.state_dict()["bias"].tolist()
            [0.0]
        """
        values = {variable: as_array(self._tensors[name]) for name, variable in self._variables.items()}
        for name, kept in self._states.items():
            has = self.optimizer.state.get(self._tensors[name], {})
            for key, variable in kept.items():
                known = has.get(key)
                if key == "step":
                    count = float(known) if known is not None else float(has.get("momentum_buffer") is not None)
                    values[variable] = np.array(count, np.float32)
                elif known is None:
                    values[variable] = np.zeros(variable.shape or (), variable.dtype.numpy)
                else:
                    values[variable] = as_array(known)
        self.graph.set_variables(values, device=self.device)


def _wide(tensor: torch.Tensor) -> Any:
    return np.float64 if tensor.dtype == torch.float64 else np.float32


def _tensor(array: Any, like: torch.Tensor | None) -> torch.Tensor:
    found = as_tensor(array).clone()
    return found if like is None else found.reshape(like.shape).to(like.dtype)
