"""Training of a PyTorch module with the whole step as one executable: forward pass, gradients and optimizer update.

The module is exported with torch.export for each combination of input shapes. Its parameters and the optimizer's state
become variables, with the values that PyTorch has for them. `sync` copies them back. The names of methods, and of the
variables in checkpoints, are those of mpsgraph.Trainer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._checks import BelowOne, Size, checked
from .._core import DeviceGraph, Executable, Operation, Tensor
from ..errors import CheckpointError, DTypeError, GraphError
from ..graph import Graph
from ..random import next_seed
from ..training import checkpoint, evaluation
from ..training.callbacks import Callback
from ..training.fitting import Fit
from ..training.history import History
from ..training.state import TrainingState
from ..training.step import Built
from ..training.step_result import StepResult
from . import importer
from .evaluation import Evaluator, ModuleVariables, arrays_of
from .exports import Step, exported
from .optimizers import moved, rule_of
from .tensors import as_array, as_tensor

_KIND = "trainer of a PyTorch module"


@dataclass
class _Compiled:
    """A training step for one set of input shapes."""

    built: Built
    rates: list[Tensor]
    executable: Executable


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
        >>> first = float(trainer.train_step(x, y))
        >>> float(trainer.train_step(x, y)) < first
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
        self.module, self.loss, self.optimizer = module, loss, optimizer
        self.stopped: str | None = None
        """Reason why the current or last `fit` was stopped, or None."""
        seed = next_seed() if seed is None else seed
        self._weights = ModuleVariables(Graph(seed=seed), module)
        self._step = Step(module, loss)
        self._states: dict[str, dict[str, Tensor]] = {}
        names = {id(p): name for name, p in module.named_parameters()}
        self._groups: list[list[str]] = []
        for group in optimizer.param_groups:
            if any(id(p) not in names for p in group["params"]):
                raise GraphError("the optimizer has parameters that do not belong to the module")
            self._groups.append([names[id(p)] for p in group["params"] if p.requires_grad])
        self._compiled: dict[Any, _Compiled] = {}
        self.state = TrainingState(self._weights, seed, device)
        self.builder = Evaluator(self.state, self._weights, self._step)

    # --- attributes ------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """Graph that holds the variables and the training steps."""
        return self.state.graph

    @property
    def device(self) -> Any:
        """The device that was passed."""
        return self.state.device

    @property
    def seed(self) -> int:
        """Seed of dropout and other random numbers."""
        return self.state.seed

    @property
    def step(self) -> int:
        """Number of training steps made. Steps that raised an error are not counted."""
        return self.state.steps.made

    @property
    def history(self) -> History:
        """History of the steps, epochs, and validations of `fit`."""
        return self.state.history

    @history.setter
    def history(self, history: History) -> None:
        self.state.history = history

    @property
    def learning_rate(self) -> float:
        """Learning rate of the optimizer's first parameter group. Setting it sets those of all groups."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    # --- building --------------------------------------------------------------------------------------------------

    def _kept(self, name: str, options: Any) -> dict[str, Tensor]:
        """Return the variables of a parameter's optimizer state. New variables are initialized from PyTorch's state, if
        any.
        """
        if name not in self._states:
            states = {state: self._state_in_pytorch(name, state) for state in self.rule.states(options)}
            self._states[name] = {
                state: self.graph.variable(value, name=f"{name}/{state}", trainable=False)
                for state, value in states.items()
            }
        return self._states[name]

    def _state_in_pytorch(self, name: str, state: str) -> Any:
        """Return the value that PyTorch's optimizer has for a state of a parameter; 0 if it has none."""
        parameter = self._weights.tensors[name]
        has = self.optimizer.state.get(parameter, {})
        known = has.get(state)
        if state == "step":
            return np.array(float(known) if known is not None else float(has.get("momentum_buffer") is not None), "f4")
        if known is not None:
            return as_array(known)
        return np.zeros(tuple(parameter.shape), np.float64 if parameter.dtype == torch.float64 else np.float32)

    def _compile(self, inputs: tuple[Any, ...], labels: tuple[Any, ...]) -> _Compiled:
        self._refuse_what_is_fixed()
        g, weights = self.graph, self._weights
        found = exported(g, self._step, inputs, labels, weights.read)
        loss = found.loss()
        updates: list[Operation] = [g.assign(weights.variable(name), x) for name, x in found.buffers.items()]
        rates = [g.placeholder((), self._rate_dtype(names), "rate") for names in self._groups]
        # As in PyTorch, a parameter that the loss does not depend on is not updated.
        read = importer.read_by([loss])
        groups = [[name for name in names if weights.variable(name) in read] for names in self._groups]
        gradients = g.gradients(loss, [weights.variable(name) for names in groups for name in names])
        for names, rate, options in zip(groups, rates, self.optimizer.param_groups, strict=True):
            for name in names:
                variable = weights.variable(name)
                updates += moved(g, self.rule, options, variable, gradients[variable], rate, self._kept(name, options))
        types = {t: (tuple(t.shape or ()), t.dtype) for t in (*rates, *found.feeds)}
        executable = g.compile(types, [loss], updates, device=self.device)
        self.state.claim()
        return _Compiled(Built(tuple(found.feeds), None, None, [loss], ["loss"]), rates, executable)

    def _rate_dtype(self, names: list[str]) -> str:
        """Return the dtype of a parameter group's learning rate: float64 if a parameter is float64, and float32
        otherwise.

        PyTorch's learning rates are Python floats, which have the precision of float64.
        """
        return "float64" if any(self._weights.tensors[name].dtype == torch.float64 for name in names) else "float32"

    def _refuse_what_is_fixed(self) -> None:
        for name, tensor in self._weights.tensors.items():
            if tensor.device.type != "cpu":
                raise GraphError(
                    f"parameters and buffers must be on the CPU, got {name} on {tensor.device}: call module.cpu()"
                )

    # --- training --------------------------------------------------------------------------------------------------

    def train_step(self, inputs: Any, *labels: Any, copy: bool = False) -> StepResult:
        """Make one training step with the optimizer's current learning rates, and return without waiting for it.

        Each new set of input shapes and dtypes is exported and compiled once.

        Args:
            inputs: PyTorch tensor, or a tuple of the tensors that the module takes. They must not change until the step
                is done.
            *labels: PyTorch tensors that the loss function takes after the outputs. These must not change until the
                step is done, either.
            copy: Whether to copy the tensors, so that they may change at once. Defaults to False.

        Returns:
            A StepResult; float(result) waits for the loss.

        Raises:
            DTypeError: If an input or label is neither a PyTorch tensor nor an array.
            UnsupportedError: If torch.export cannot export the module, or an operation is not supported.
            GraphError: If the loss is not a scalar, or a parameter or buffer is not on the CPU.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> trainer = mg.torch.Trainer(module, lambda y: y.square().mean(), torch.optim.Adam(module.parameters()))
            >>> float(trainer.train_step(torch.zeros(4, 2))) >= 0
            True
        """
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        labels = tuple(label for label in labels if label is not None)
        tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in (*given, *labels)]
        if not all(isinstance(x, torch.Tensor) for x in tensors):
            raise DTypeError("inputs and labels must be PyTorch tensors or a tuple of them: use torch.as_tensor(array)")
        if copy:
            tensors = [x.clone() for x in tensors]
        steps = self.state.steps
        steps.make_room(1)
        key = tuple((tuple(x.shape), x.dtype) for x in tensors), len(given), self.module.training
        compiled = self._compiled.get(key)
        if compiled is None:
            made = self._compile(tuple(tensors[: len(given)]), tuple(tensors[len(given) :]))
            compiled = self._compiled[key] = made
        groups = zip(self.optimizer.param_groups, compiled.rates, strict=True)
        rates = [np.array(float(group["lr"]), rate.dtype.numpy) for group, rate in groups]
        arrays = [as_array(x) for x in tensors]
        placeholders = [*compiled.rates, *compiled.built.placeholders]
        by_feed = dict(zip(placeholders, [*rates, *arrays], strict=True))
        order = [by_feed[feed] for feed in compiled.executable.feeds]
        result = StepResult(compiled.executable.run_async(order), compiled.built.names)
        steps.add(result, order)
        self.builder.last_built = compiled.built
        return result

    def wait(self) -> None:
        """Wait for all steps that have been started. Raise the error of any step that failed."""
        self.state.steps.wait()

    @checked
    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        epochs: Size | None = None,
        iterations: Size | None = None,
        validation: Any = None,
        validation_split: BelowOne | None = None,
        steps_per_epoch: Size | None = None,
        batch_size: Size = 64,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        copy: bool | None = None,
    ) -> History:
        """Train for some epochs or a number of steps, like mpsgraph.Trainer.fit.

        Args:
            data: Tensors or arrays of inputs, which are shuffled into batches, with labels in the next argument; a
                tuple (inputs, labels); or an iterable of such batches, such as a DataLoader.
            labels: Labels, if data are tensors or arrays.
            epochs: Number of epochs. Defaults to 1.
            iterations: Number of steps, instead of epochs.
            validation: Data to evaluate after each epoch, in the same forms. Defaults to none.
            validation_split: Fraction at the end of the data to use for validation instead. Defaults to none.
            steps_per_epoch: Number of batches per epoch, for iterables without an end. Defaults to all batches.
            batch_size: Number of samples per batch, for tensors and arrays. Defaults to 64.
            callbacks: Callbacks of mpsgraph.training.callbacks.
            progress: Whether to print a line per epoch. Defaults to True.
            copy: Whether each step gets copies of its batch; see mpsgraph.Trainer.fit.

        Returns:
            The history, including earlier fits.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(1, 1)
            >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
            >>> trainer = mg.torch.Trainer(module, torch.nn.functional.mse_loss, optimizer)
            >>> x = torch.linspace(-1, 1, 64)[:, None]
            >>> history = trainer.fit(x, 3 * x, epochs=30, progress=False)
            >>> history.loss[-1] < 0.01
            True
        """
        own, checks = (arrays_of(part) for part in (data, validation))
        fit = Fit(self, own, arrays_of(labels), None, None, batch_size, checks, validation_split)
        return fit.run(epochs or 1, iterations, steps_per_epoch, callbacks, progress, copy)

    @checked
    def stop(self, reason: str = "asked to") -> None:
        """Stop the current `fit` after the current step. Callbacks call this.

        Args:
            reason: Reason, stored in `stopped`. Defaults to "asked to".
        """
        self.stopped = reason

    # --- evaluation ------------------------------------------------------------------------------------------------

    @checked
    def evaluate(self, data: Any, labels: Any = None, batch_size: Size = 256) -> dict[str, float]:
        """Return the mean loss over data, with the module in evaluation mode.

        Args:
            data: Tensors or arrays of inputs, with labels in the next argument; a tuple (inputs, labels); or an
                iterable of such batches.
            labels: Labels, if data are tensors or arrays.
            batch_size: Number of samples per batch, for tensors and arrays. Defaults to 256.

        Returns:
            A dict with the key "loss".

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            >>> trainer = mg.torch.Trainer(module, torch.nn.functional.mse_loss, optimizer)
            >>> sorted(trainer.evaluate(torch.ones(4, 2), torch.ones(4, 1)))
            ['loss']
        """
        return evaluation.evaluate(self.builder, arrays_of(data), arrays_of(labels), None, batch_size)

    @checked
    def predict(self, data: Any, batch_size: Size = 256) -> Any:
        """Return the outputs of the module in evaluation mode, as arrays.

        Args:
            data: Inputs as a tensor or an array, or a tuple of them; or an iterable of batches, whose labels are
                ignored.
            batch_size: Number of samples per batch, for tensors and arrays. Defaults to 256.

        Returns:
            An array (samples, ...), or a tuple of arrays for several outputs.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 3)
            >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            >>> trainer = mg.torch.Trainer(module, torch.nn.functional.mse_loss, optimizer)
            >>> trainer.predict(torch.ones(4, 2)).shape
            (4, 3)
        """
        return evaluation.predict(self.builder, arrays_of(data), batch_size)

    # --- weights and state -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of parameters and buffers, keyed by their name in the module."""
        self._weights.create_all()
        return self.state.weights()

    @checked
    def set_weights(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the values of parameters and buffers. If any name, shape, or dtype is wrong, nothing changes.

        Args:
            values: Dict of arrays, keyed by name, as returned by `weights`.

        Raises:
            GraphError: If the names differ from the module's.
            ShapeError: If a shape differs.
            DTypeError: If a dtype differs.
        """
        self._weights.create_all()
        self.state.set_weights("Trainer.set_weights", values)

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
        first, tensors = self._weights.first, self._weights.tensors
        own = {name: first[name] for name in self.module.state_dict() if first.get(name) in tensors}
        values = self._values(dict.fromkeys(own.values()))
        return {name: values[one] if one == name else values[one].clone() for name, one in own.items()}

    def _values(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Return copies of the current values of parameters and buffers."""
        names, tensors, variables = list(names), self._weights.tensors, self._weights.named_variables()
        known = [name for name in names if name in variables]
        found = self._on.variable_values([variables[name] for name in known])
        read = {name: _tensor(value, tensors[name]) for name, value in zip(known, found, strict=True)}
        return {name: read[name] if name in read else tensors[name].detach().clone() for name in names}

    @property
    def _on(self) -> DeviceGraph:
        return self.graph.on(self.device)

    def sync(self) -> None:
        """Copy the weights to the module and the optimizer's state to the optimizer, after waiting for all steps so
        far.

        The module and the optimizer remain ordinary PyTorch objects, which can be saved or trained further.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.Adam(module.parameters())
            >>> trainer = mg.torch.Trainer(module, lambda y: y.mean(), optimizer)
            >>> _ = trainer.train_step(torch.ones(3, 2)); trainer.sync()
            >>> float(optimizer.state[module.weight]["step"])
            1.0
        """
        with torch.no_grad():
            for name, value in self._values(self._weights.named_variables()).items():
                self._weights.tensors[name].copy_(value)
        kept_variables = [variable for kept in self._states.values() for variable in kept.values()]
        values = dict(zip(kept_variables, self._on.variable_values(kept_variables), strict=True))
        for name, kept in self._states.items():
            state = self.optimizer.state[self._weights.tensors[name]]
            for key, variable in kept.items():
                if key == "step" and isinstance(self.optimizer, torch.optim.SGD):
                    # PyTorch's SGD stores no step count. It takes the presence of a momentum buffer to mean that there
                    # was an earlier step.
                    continue
                state[key] = _tensor(values[variable], None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint of weights, optimizer state, random states, step, and history, like mpsgraph.Trainer.save.

        Args:
            path: Path of the file.

        Raises:
            CheckpointError: If the file cannot be written.

        Example:
            >>> import os, tempfile, pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
            >>> trainer = mg.torch.Trainer(module, torch.nn.functional.mse_loss, optimizer)
            >>> _ = trainer.train_step(torch.ones(3, 2), torch.ones(3, 1))
            >>> path = os.path.join(tempfile.mkdtemp(), "trainer.safetensors")
            >>> trainer.save(path)
            >>> sorted(mg.checkpoint.load(path)[0])[:2]
            ['bias', 'bias/momentum_buffer']
        """
        self.wait()
        variables = self._all_variables()
        values = dict(zip(variables, self.state.values(variables.values()), strict=True))
        metadata = {
            "kind": _KIND,
            "optimizer": type(self.optimizer).__name__,
            "step": str(self.step),
            "history": json.dumps(self.history.state_dict()),
        }
        dtypes = {name: str(variable.dtype) for name, variable in variables.items()}
        checkpoint.save(path, self.state.unclaimed | values, metadata, dtypes)

    def load(self, path: str | os.PathLike[str] | None = None) -> None:
        """Continue from a checkpoint, or from the values that the module and the optimizer have in PyTorch.

        Args:
            path: Path of a checkpoint that `save` has written. None, the default, copies the module's weights and the
                optimizer's state from PyTorch, for example after load_state_dict.

        Raises:
            CheckpointError: If the file is damaged, or belongs to another module or optimizer. The trainer is unchanged
                in this case.

        Example:
            >>> import pytest; torch = pytest.importorskip("torch")
            >>> module = torch.nn.Linear(2, 1)
            >>> trainer = mg.torch.Trainer(module, lambda y: y.mean(), torch.optim.SGD(module.parameters(), lr=1.0))
            >>> _ = trainer.train_step(torch.ones(3, 2))
            >>> _ = module.bias.data.zero_(); trainer.load()
            >>> trainer.state_dict()["bias"].tolist()
            [0.0]
        """
        if path is None:
            tensors = self._weights.tensors
            values = {variable: as_array(tensors[name]) for name, variable in self._weights.named_variables().items()}
            for name, kept in self._states.items():
                values |= {variable: self._state_in_pytorch(name, state) for state, variable in kept.items()}
            self.state.set_values(values)
            return
        stored, metadata = checkpoint.load(path)
        if metadata.get("kind") != _KIND:
            raise CheckpointError(f"{path} was not written by mpsgraph.torch.Trainer: read it with mg.checkpoint.load")
        variables = self._all_variables()
        wrong = [name for name, v in variables.items() if name in stored and stored[name].shape != tuple(v.shape or ())]
        missing = sorted(variables.keys() - stored.keys())
        unknown = sorted(name for name in stored.keys() - variables.keys() if not name.startswith("random_state"))
        if wrong or missing or unknown or metadata["optimizer"] != type(self.optimizer).__name__:
            raise CheckpointError(
                f"{path} belongs to another module or optimizer: missing variables {missing}, unexpected variables "
                f"{unknown}, variables of other shapes {wrong}"
            )
        self.wait()
        self.state.set_values({variable: stored.pop(name) for name, variable in variables.items()})
        self.state.unclaimed, self.state.steps.made = stored, int(metadata["step"])
        self.state.unclaimed_since = self.step
        self.history.load_state_dict(json.loads(metadata["history"]))

    def _all_variables(self) -> dict[str, Tensor]:
        """Return the variables of the module and of the optimizer, keyed by name, creating those not used yet."""
        self._weights.create_all()
        for names, options in zip(self._groups, self.optimizer.param_groups, strict=True):
            for name in names:
                self._kept(name, options)
        return self.state.variables()


def _tensor(array: Any, like: torch.Tensor | None) -> torch.Tensor:
    found = as_tensor(array).clone()
    return found if like is None else found.reshape(like.shape).to(like.dtype)
