"""load_torch and to_torch: import and export of a model's weights as a PyTorch state dict.

Both functions iterate over the model's forms, which pair PyTorch tensors with variables (see `pytorch_parameters.py`).
All values are checked before any variable is changed. Conversions move elements but never round them, unless `cast`
requests a conversion to a different dtype.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np

from ..._checks import checked
from ..._core import Tensor, bfloat16
from ...errors import GraphError
from ..module import Module
from ..parts import graph_of, is_built, wait_for
from ..state import IncompatibleKeys, Value, copied, fitting, value_of
from .flatten_order import Orders, orders_in
from .names import Names, renamed
from .pytorch_parameters import Form, all_forms


@checked
def load_torch(
    model: Module,
    state_dict: Annotated[Mapping[str, Any], "give module.state_dict()"],
    mapping: Names | None = None,
    *,
    strict: bool = True,
    cast: bool = False,
) -> IncompatibleKeys | None:
    """Load the state dict of a PyTorch model with the same layers.

    This is `model.load_state_dict` for PyTorch's layouts: axes are transposed where channels are last, including the
    inputs of a Linear after a Flatten; packed attention projections are split; normalizations get their running
    statistics. Settings that are not weights, such as epsilon, remain those of the model.

    Args:
        model: Model to load into. If it has not been called yet, the weights are loaded at the end of its first call.
        state_dict: Dict of tensors or arrays, keyed by PyTorch's names. Names within a layer are the same here, except
            for those listed in docs/weights.md.
        mapping: How to rename the state's names to the model's: a dictionary of names or dotted prefixes, a list of
            (regular expression, replacement) pairs, applied in order, or a function. A new name of None drops the
            value. Defaults to no renaming.
        strict: Whether all names must match. Defaults to True.
        cast: Whether to convert floating-point values to the dtype of the variables. Defaults to False.

    Returns:
        The missing and the unexpected names, or None if the model has not been called yet.

    Raises:
        GraphError: If strict and names are missing or unexpected, or mapping is invalid. The model is then unchanged.
        ShapeError: If shapes differ; the message lists all of them. The model is then unchanged.
        DTypeError: If element types differ; the message lists all of them. The model is then unchanged.

    Source: torch.nn.Module.load_state_dict.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.ReLU())
        >>> y = model(mg.Graph().constant([[1.0, 2.0]]))
        >>> state = {"fc.weight": np.float32([[1, 0], [0, 1], [1, 1]]), "fc.bias": np.zeros(3, np.float32)}
        >>> _ = mg.nn.load_torch(model, state, {"fc": "0"})
        >>> y.graph.run({}, y).tolist()
        [[1.0, 2.0, 3.0]]
    """
    state = renamed("load_torch", state_dict, mapping)
    return taken(model, state, partial(take_torch_state, strict=strict, cast=cast, where="load_torch"))


def taken(
    model: Module, state: Mapping[str, Any], take: Callable[[Mapping[str, Any], Module], IncompatibleKeys]
) -> IncompatibleKeys | None:
    """Load a state now if the model has variables. Otherwise, copy its values and load them after the first call."""
    if is_built(model):
        return take(state, model)
    wait_for(model, partial(take, copied(state)))
    return None


def take_torch_state(
    state: Mapping[str, Any], model: Module, *, strict: bool, cast: bool, where: str
) -> IncompatibleKeys:
    """Load a state with PyTorch's names into a model that already has its variables."""
    forms = all_forms(model, _orders(model), state)
    slots = {name: slot for form in forms for name, slot in form.slots.items()}
    arrays, keys = fitting(where, slots, state, strict=strict, cast=cast, optional=_may_be_missing(forms, state))
    values: dict[Tensor, np.ndarray] = {}
    kept = []
    for form in forms:
        given = [arrays[name] for name in form.slots if name in arrays]
        if len(given) < len(form.slots):
            if given:
                raise GraphError(
                    f"{where}: {', '.join(form.slots)} together form one parameter of the model: the state must "
                    "contain either all of them or none"
                )
            continue
        for variable, value in zip(form.variables, _read(where, form, given), strict=True):
            if variable in values and not np.array_equal(_bytes(values[variable]), _bytes(value)):
                raise GraphError(
                    f"{where}: {', '.join(form.slots)} must equal the other values in the state that belong to the "
                    "same variable, got different values"
                )
            values[variable] = value
        if form.keep is not None:
            kept.append((form.keep, given))
    if values:
        fitted = {v: np.ascontiguousarray(value).reshape(value.shape) for v, value in values.items()}
        graph_of(next(iter(fitted))).set_variables(fitted)
    for keep, given in kept:
        keep(given)
    return keys


def _read(where: str, form: Form, given: list[np.ndarray]) -> Iterable[np.ndarray]:
    try:
        return form.read(given)
    except GraphError as error:
        raise GraphError(f"{where}: {', '.join(form.slots)}: {error}") from None


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _may_be_missing(forms: list[Form], state: Mapping[str, Any]) -> set[str]:
    """Return the names that a state may lack: counters, and all but one of the names of a shared parameter."""
    missing = {name for form in forms if form.optional for name in form.slots}
    given = {form.variables for form in forms if form.variables and all(name in state for name in form.slots)}
    return missing | {name for form in forms if form.variables in given for name in form.slots if name not in state}


def _orders(model: Module) -> Orders:
    """Return the feature orders of the graph that holds the model's variables."""
    variable = next((v for found in (model.parameters(), model.buffers()) for v in found), None)
    return Orders() if variable is None else orders_in(graph_of(variable).operations)


@checked
def to_torch(model: Module, *, arrays: bool = False) -> dict[str, Any]:
    """Export the weights in the form that `torch.nn.Module.load_state_dict` takes.

    Names, layouts, and packing are those of PyTorch's layers. This is the inverse of `load_torch`: weights that were
    loaded from PyTorch are exported bit for bit. Batch normalizations get num_batches_tracked as it was loaded, or 0.

    Args:
        model: Model that has been called.
        arrays: Whether to return numpy arrays even if PyTorch is installed; bfloat16 is returned as bits in uint16.
            Defaults to False.

    Returns:
        A dict of copies, keyed by PyTorch's names: PyTorch tensors if PyTorch is installed, otherwise arrays.

    Raises:
        GraphError: If the model has not been called yet and so has no variables.

    Source: torch.nn.Module.state_dict.

    Example:
        >>> model = mg.nn.Conv2d(8, 3)
        >>> _ = model(mg.Graph().placeholder((-1, 28, 28, 1)))
        >>> {name: array.shape for name, array in mg.nn.to_torch(model, arrays=True).items()}
        {'weight': (8, 1, 3, 3), 'bias': (8,)}
    """
    if not is_built(model):
        raise GraphError(f"to_torch: {type(model).__name__} has no variables yet: call it with a tensor first")
    found: dict[str, Value] = {}
    forms = list(all_forms(model, _orders(model), {}))
    variables = list(dict.fromkeys(v for form in forms for v in form.variables))
    copies = graph_of(variables[0]).variable_values(variables) if variables else []
    values = dict(zip(variables, copies, strict=True))
    for form in forms:
        held = [value_of(values[v]).array for v in form.variables]
        for (name, slot), array in zip(form.slots.items(), form.write(held), strict=True):
            found[name] = Value(np.ascontiguousarray(array).reshape(slot.shape), slot.dtype)
    if arrays or importlib.util.find_spec("torch") is None:
        return {name: value.array for name, value in found.items()}
    torch = importlib.import_module("torch")
    return {name: _tensor(value, torch) for name, value in found.items()}


def _tensor(value: Value, torch: Any) -> Any:
    if value.dtype == bfloat16:
        return torch.from_numpy(value.array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value.array)
