"""load_torch and to_torch: a model's weights from PyTorch's state dictionary, and as one.

Both walk over the model's forms. All is compared before anything is changed; conversions move elements and never round,
unless `cast` asks for another type.
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
from ..module import Module, graph_of, is_built, wait_for
from ..state import IncompatibleKeys, Value, copied, fitting, value_of
from .flatten_order import Orders, orders_in
from .names import Names, renamed
from .pytorch_parameters import Form, forms_of


@checked
def load_torch(
    model: Module,
    state_dict: Annotated[Mapping[str, Any], "give module.state_dict()"],
    mapping: Names | None = None,
    *,
    strict: bool = True,
    cast: bool = False,
) -> IncompatibleKeys | None:
    """Gives a model the weights of a PyTorch model of the same layers: `model.load_state_dict` for PyTorch's layouts.

    Axes are turned where channels are last, also the inputs of a Linear behind a Flatten; packed projections of
    attention are parted, normalizations get their running statistics. What a layer computes with besides, epsilon for
    one, is the model's own. Args: model, called or not yet: then the weights come at the end of its first call;
    state_dict, tensors or arrays by PyTorch's names, which are those of our modules as far as layers are concerned:
    what differs is on the page docs/weights.md; mapping, from the state's names to the model's: a dictionary of names
    or of parts before a dot, pairs of a regular expression and what it becomes, each in turn, or a function; None for
    a name leaves the value out; strict, whether all names must match; cast, whether numbers become the variables'
    floating-point types. Result: the names that are missing and unexpected; None where the model waits. Errors:
    GraphError with all names that do not match, ShapeError and DTypeError with all that differ, and nothing changed.
    Source: torch.nn.Module.load_state_dict.

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
    """A state taken now, or copies of it when the model has been called."""
    if is_built(model):
        return take(state, model)
    wait_for(model, partial(take, copied(state)))
    return None


def take_torch_state(
    state: Mapping[str, Any], model: Module, *, strict: bool, cast: bool, where: str
) -> IncompatibleKeys:
    """The values of a state by PyTorch's names, for a model that has its variables."""
    forms = list(forms_of(model, _orders(model), state))
    slots = {name: slot for form in forms for name, slot in form.slots.items()}
    arrays, keys = fitting(where, slots, state, strict=strict, cast=cast, optional=_may_be_missing(forms, state))
    values: dict[Tensor, np.ndarray] = {}
    kept = []
    for form in forms:
        given = [arrays[name] for name in form.slots if name in arrays]
        if len(given) < len(form.slots):
            if given:
                raise GraphError(f"{where}: {', '.join(form.slots)} are one parameter here: give all of them or none")
            continue
        for variable, value in zip(form.variables, _read(where, form, given), strict=True):
            if variable in values and not np.array_equal(_bytes(values[variable]), _bytes(value)):
                raise GraphError(f"{where}: {', '.join(form.slots)} is shared, but has other values in another place")
            values[variable] = value
        if form.keep is not None:
            kept.append((form.keep, given))
    for variable, value in values.items():
        graph_of(variable).set_variable(variable, np.ascontiguousarray(value).reshape(value.shape))
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
    """Names that PyTorch's programs leave out: counters, and of shared parameters all but one."""
    missing = {name for form in forms if form.optional for name in form.slots}
    given = {form.variables for form in forms if form.variables and all(name in state for name in form.slots)}
    return missing | {name for form in forms if form.variables in given for name in form.slots if name not in state}


def _orders(model: Module) -> Orders:
    """Of the graph that the model's variables are in."""
    variable = next((v for found in (model.parameters(), model.buffers()) for v in found), None)
    return Orders() if variable is None else orders_in(graph_of(variable).operations)


@checked
def to_torch(model: Module, *, arrays: bool = False) -> dict[str, Any]:
    """The weights as `torch.nn.Module.load_state_dict` takes them: names, layouts and packing of PyTorch's layers.

    The reverse of load_torch: what comes from there goes back bit for bit. Args: model, which has been called; arrays,
    whether to give arrays of numpy's, in which bfloat16 is bits in uint16, also where PyTorch is installed. Result:
    copies by PyTorch's names, as its tensors where it is installed, else as arrays. Batch normalizations have
    num_batches_tracked as it was loaded, or 0. Errors: GraphError for a model that has no variables yet. Source:
    torch.nn.Module.state_dict.

    >>> model = mg.nn.Conv2d(8, 3)
    >>> _ = model(mg.Graph().placeholder((-1, 28, 28, 1)))
    >>> {name: array.shape for name, array in mg.nn.to_torch(model, arrays=True).items()}
    {'weight': (8, 1, 3, 3), 'bias': (8,)}
    """
    if not is_built(model):
        raise GraphError(f"to_torch: {type(model).__name__} has no variables yet: call it with a tensor first")
    found: dict[str, Value] = {}
    for form in forms_of(model, _orders(model), {}):
        held = [value_of(graph_of(v).variable_value(v)).array for v in form.variables]
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
