"""Conversion of each layer's parameters to and from PyTorch: names, shapes, and the order of elements.

A Form pairs one or more PyTorch tensors with the variables that hold the same values, and converts between them. It
usually has one tensor and one variable. Where PyTorch packs several parameters into one tensor (attention's
in_proj_weight), a Form has several variables; where PyTorch has redundant tensors (a second bias of zeros), it has
several tensors. Layers without a rule in this file have the same names and arrays in both libraries.

bfloat16 arrays are handled as bits in uint16. Most conversions only move elements; those that inspect values first
convert them to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..._core import DType, Tensor, bfloat16, int64
from ...errors import GraphError
from ..activations import PReLU
from ..adapters import Adapted, LowRank
from ..attention import MultiheadAttention
from ..convolution import DepthwiseConv2d, _Convolution
from ..embedding import Embedding
from ..layers import Linear
from ..module import Module
from ..normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm
from ..parts import all_variables, own_variables
from ..recurrent import GRU, _Recurrent
from ..state import Slot, bits_of, slot_of, wide_of
from .flatten_order import Order, Orders

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Form:
    """One or more PyTorch tensors, the variables that hold the same values, and the conversions between them."""

    slots: Mapping[str, Slot]
    variables: tuple[Tensor, ...]
    read: Callable[[Arrays], Arrays]
    """Convert PyTorch's arrays to those of the variables. Raises GraphError if the layer cannot represent their values.
    """
    write: Callable[[Arrays], Arrays]
    optional: bool = False
    """Whether a state may lack PyTorch's tensors."""
    keep: Callable[[Arrays], None] | None = field(default=None, compare=False)
    """Function that receives the loaded arrays and stores those values that are not variables."""

    def within(self, path: str) -> Form:
        """Return a copy whose PyTorch names begin with a path."""
        return replace(self, slots={f"{path}.{name}" if path else name: slot for name, slot in self.slots.items()})


Rule = Callable[[Module, Orders], list[list[Form]]]
"""Function that returns the Forms of a layer, as a list of alternatives.

PyTorch's own names and shapes come first, followed by others that a state may use instead.
"""


def forms_of(module: Module, orders: Orders, names: Mapping[str, object], path: str = "") -> Iterator[Form]:
    """Yield a Form for each parameter of a module and its descendants, with dotted PyTorch names.

    If a layer has alternatives, the one with most of its names in `names` is used.
    """
    if isinstance(module, Adapted):
        yield from _adapted(module, orders, names, path)
        return
    rule = next((_RULES[cls] for cls in type(module).__mro__ if cls in _RULES), None)
    choices = [] if rule is None else [[form.within(path) for form in forms] for forms in rule(module, orders)]
    chosen = max(choices, key=lambda forms: sum(name in names for f in forms for name in f.slots), default=[])
    yield from chosen
    said = {variable for form in chosen for variable in form.variables}
    for name, variable in own_variables(module).items():
        if variable not in said:
            yield _same(name, variable).within(path)
    inner = _PACKED if isinstance(module, MultiheadAttention) else ()
    for name, child in module.children():
        if name not in inner:
            yield from forms_of(child, orders, names, f"{path}.{name}" if path else name)


def all_forms(module: Module, orders: Orders, names: Mapping[str, object]) -> list[Form]:
    """Return the Forms of every variable of a model.

    Variables that no layer's Forms contain, such as those that a module assigned to an attribute itself, have the same
    name and array in PyTorch.
    """
    forms = list(forms_of(module, orders, names))
    known = {variable for form in forms for variable in form.variables}
    return forms + [_same(path, variable) for path, variable in all_variables(module).items() if variable not in known]


def _adapted(module: Adapted, orders: Orders, names: Mapping[str, object], path: str) -> Iterator[Form]:
    """Yield the Forms of a layer with adapters, under the names that PEFT gives them.

    The layer itself may also have its name without adapters.
    """
    low_rank = any(isinstance(adapter, LowRank) for adapter in module.adapters.values())
    base = "base_layer" if low_rank else "original_module"
    inner = list(forms_of(module.layer, orders, {}))
    choices = [[form.within(where).within(path) for form in inner] for where in (base, "")]
    yield from max(choices, key=lambda forms: sum(name in names for form in forms for name in form.slots))
    for name, adapter in module.adapters.items():
        if not isinstance(adapter, LowRank):
            yield from (form.within(f"modules_to_save.{name}").within(path) for form in forms_of(adapter, orders, {}))
            continue
        for mine, theirs in (("down", "lora_A"), ("up", "lora_B"), ("magnitude", "lora_magnitude_vector")):
            if (variable := own_variables(adapter).get(mine)) is not None:
                label = f"{theirs}.{name}.weight"
                shape = tuple(variable.shape or ())[::-1]
                yield _form(label, variable, shape, lambda a: a.T, lambda a: a.T).within(path)


# --- kinds of forms ---------------------------------------------------------------------------------------------------


def _form(name: str, variable: Tensor, shape: Sequence[int], read: _Move, write: _Move) -> Form:
    """Pair one PyTorch tensor with one variable that holds the same elements, possibly in a different order."""
    slot = Slot(tuple(shape), variable.dtype)
    return Form({name: slot}, (variable,), lambda a: [read(a[0])], lambda a: [write(a[0])])


_Move = Callable[[np.ndarray], np.ndarray]


def _same(name: str, variable: Tensor) -> Form:
    return _form(name, variable, variable.shape or (), lambda a: a, lambda a: a)


def _ordered(name: str, variable: Tensor, order: Order | None) -> Form:
    """Pair a vector with PyTorch's. If its features are a flattened image, PyTorch has them with channels first."""
    size = int(np.prod(variable.shape or ()))
    shape = tuple(variable.shape or ())
    return _form(
        name, variable, (size,),
        lambda a: _in_our_order(a, 0, order).reshape(shape), lambda a: _in_their_order(a.reshape(size), 0, order),
    )  # fmt: skip


def _image(name: str, variable: Tensor) -> Form:
    """Pair a variable of shape (..., channels) with PyTorch's tensor of shape (channels, ...)."""
    *between, channels = variable.shape or ()
    shape = (channels, *between)
    return _form(name, variable, shape, lambda a: np.moveaxis(a, 0, -1), lambda a: np.moveaxis(a, -1, 0))


def _in_our_order(array: np.ndarray, axis: int, order: Order | None) -> np.ndarray:
    """Reorder an axis from PyTorch's feature order to that of the model."""
    return array if order is None else array.take(order, axis)


def _in_their_order(array: np.ndarray, axis: int, order: Order | None) -> np.ndarray:
    """Reorder an axis from the model's feature order to PyTorch's; the inverse of _in_our_order."""
    return array if order is None else array.take(np.argsort(order), axis)


def _numbers(array: np.ndarray, dtype: DType) -> np.ndarray:
    return wide_of(array) if dtype == bfloat16 else array


def _filled(number: float, shape: Sequence[int], dtype: DType) -> np.ndarray:
    full = np.full(shape, number, np.float32)
    return bits_of(full) if dtype == bfloat16 else full.astype(dtype.numpy)


# --- layers -----------------------------------------------------------------------------------------------------------


def _linear(module: Module, orders: Orders) -> list[list[Form]]:
    own, forms = own_variables(module), []
    if "weight" in own:
        weight = own["weight"]
        inputs, outputs = weight.shape or ()
        first, second = orders.inputs.get(weight), orders.outputs.get(weight)
        forms.append(
            _form(
                "weight",
                weight,
                (outputs, inputs),
                lambda a: _in_our_order(_in_our_order(a.T, 0, first), 1, second),
                lambda a: _in_their_order(_in_their_order(a, 0, first), 1, second).T,
            )  # fmt: skip
        )
    if "bias" in own:
        forms.append(_ordered("bias", own["bias"], orders.outputs.get(own.get("weight", own["bias"]))))
    return [forms]


def _convolution(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair a weight (kernel..., inputs, outputs) with PyTorch's (outputs, inputs, kernel...).

    For transposed convolutions, inputs and outputs are swapped in both layouts.
    """
    assert isinstance(module, _Convolution)
    own, forms = own_variables(module), []
    if "weight" in own:
        weight, axes = own["weight"], module.axes
        if module.last:
            shape = weight.shape or ()
            there, back = (axes + 1, axes, *range(axes)), (*range(2, axes + 2), 1, 0)
            forms.append(
                _form(
                    "weight",
                    weight,
                    [shape[axis] for axis in there],
                    lambda a: a.transpose(back),
                    lambda a: a.transpose(there),
                )  # fmt: skip
            )
        else:
            forms.append(_same("weight", weight))
    if "bias" in own:
        forms.append(_ordered("bias", own["bias"], None))
    return [forms]


def _depthwise(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair a depthwise weight with that of PyTorch's grouped Conv2d, of shape (channels * multiplier, 1, h, w)."""
    assert isinstance(module, _Convolution)
    (forms,) = _convolution(module, orders)
    if "weight" not in own_variables(module):
        return [forms]
    weight = own_variables(module)["weight"]
    there, back = ((2, 3, 0, 1), (2, 3, 0, 1)) if module.last else ((1, 0, 2, 3), (1, 0, 2, 3))
    parted = [(weight.shape or ())[axis] for axis in there]
    whole = (parted[0] * parted[1], 1, *parted[2:])
    weights = _form(
        "weight", weight, whole,
        lambda a: a.reshape(parted).transpose(back), lambda a: a.transpose(there).reshape(whole),
    )  # fmt: skip
    return [[weights, *forms[1:]]]


def _embedding(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair the tables. The row at padding_index must be zero in PyTorch's table, because this layer always reads that
    row as zeros.
    """
    assert isinstance(module, Embedding)
    own, index = own_variables(module), module.padding_index
    if "weight" not in own or index is None:
        return [[]]
    weight = own["weight"]

    def read(array: np.ndarray) -> np.ndarray:
        if np.any(_numbers(array[index], weight.dtype)):
            raise GraphError(
                f"the row of padding_index {index} must be all zeros, because the layer treats it as zeros: create the "
                "Embedding without padding_index to use the row"
            )
        return array

    def write(array: np.ndarray) -> np.ndarray:
        array[index] = 0
        return array

    return [[_form("weight", weight, weight.shape or (), read, write)]]


def _norm(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair gamma and beta with PyTorch's weight and bias.

    Where the layer has only one of them, PyTorch still has both, except that its LayerNorm can omit the bias.
    """
    own, forms = own_variables(module), []
    known = [found[v] for found in (orders.inputs, orders.outputs) for v in own.values() if v in found]
    order = known[0] if known else None
    features = isinstance(module, LayerNorm)
    for name, mine, other, neutral in (("weight", "gamma", "beta", 1.0), ("bias", "beta", "gamma", 0.0)):
        if mine in own and own[mine] in orders.images:
            forms.append(_image(name, own[mine]))
        elif mine in own and features and len(own[mine].shape or ()) != 1:
            forms.append(_same(name, own[mine]))
        elif mine in own:
            forms.append(_ordered(name, own[mine], order))
        elif other in own and not (features and name == "bias"):
            forms.append(_neutral(name, own[other], neutral, features))
    if isinstance(module, BatchNorm) and "moving_mean" in own:
        forms.append(_ordered("running_mean", own["moving_mean"], order))
        forms.append(_ordered("running_var", own["moving_variance"], order))
        forms.append(_batches_tracked(module))
    return [forms]


def _neutral(name: str, like: Tensor, number: float, same_shape: bool) -> Form:
    """Match a PyTorch weight or bias that the layer lacks.

    All its elements must equal `number`: 1 for a weight or 0 for a bias, which have no effect.
    """
    shape = tuple(like.shape or ()) if same_shape else (int(np.prod(like.shape or ())),)

    def read(arrays: Arrays) -> Arrays:
        if np.any(_numbers(arrays[0], like.dtype) != number):
            raise GraphError(
                f"the layer has no {name}, so {name} in the state must be {number:g} everywhere: create the layer with "
                "scale=True and center=True"
            )
        return []

    return Form({name: Slot(shape, like.dtype)}, (), read, lambda a: [_filled(number, shape, like.dtype)])


def _batches_tracked(module: BatchNorm) -> Form:
    """Keep PyTorch's num_batches_tracked for a later export. This package does not update it."""

    def keep(arrays: Arrays) -> None:
        module.batches_tracked = int(arrays[0])

    return Form(
        {"num_batches_tracked": Slot((), int64)}, (), lambda a: [],
        lambda a: [np.array(module.batches_tracked, np.int64)], optional=True, keep=keep,
    )  # fmt: skip


def _recurrent(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair the bias of a layer that has only one, as in Keras, with PyTorch's input and recurrent biases.

    Other layers need no rule, because names, shapes, and gate order are PyTorch's.
    """
    assert isinstance(module, _Recurrent)
    if module.recurrent_bias or not module.has_bias:
        return [[]]
    own = own_variables(module)
    return [[_one_bias(module, name, v) for name, v in own.items() if name.startswith("bias_ih")]]


def _one_bias(module: _Recurrent, name: str, bias: Tensor) -> Form:
    """Pair one bias with the sum of PyTorch's two biases.

    The sum is equivalent to the two biases except for the candidate gate of a GRU, whose recurrent bias must be zero.
    """
    slot, apart = slot_of(bias), 2 * module.hidden_size if isinstance(module, GRU) else None

    def read(arrays: Arrays) -> Arrays:
        inputs, state = (_numbers(array, bias.dtype) for array in arrays)
        if apart is not None and np.any(state[apart:]):
            raise GraphError(
                "the GRU's reset gate scales a nonzero recurrent bias, which a layer with one bias cannot represent: "
                "create the layer with recurrent_bias=True"
            )
        both = inputs + state
        return [bits_of(both) if bias.dtype == bfloat16 else both]

    return Form(
        {name: slot, name.replace("bias_ih", "bias_hh"): slot}, (bias,), read,
        lambda a: [a[0], np.zeros_like(a[0])],
    )  # fmt: skip


_PACKED = ("query", "key", "value", "output")


def _attention(module: Module, orders: Orders) -> list[list[Form]]:
    """Pair the projections of query, key, and value with PyTorch's in_proj_weight, in which they are concatenated.

    PyTorch stores the projections separately if their inputs differ in size. A state may also use the names of the four
    separate projections, as most other programs do. It must use them if heads share keys and values, which PyTorch's
    layer does not support.
    """
    assert isinstance(module, MultiheadAttention)
    inside = {name: child for name, child in module.children() if name in _PACKED}

    def parts(out: str, *names: str) -> list[Form]:
        """Return the Forms of separate projections; `out` is the name of the output projection."""
        labels = {name: out if name == "output" else name for name in names}
        return [form for name in names for form in forms_of(inside[name], orders, {}, labels[name])]

    apart = [parts(out, *inside) for out in ("output", "out_proj")]
    if any(isinstance(child, Adapted) for child in inside.values()):
        apart += [[_without_adapters(form) for form in forms] for forms in apart]
    inward = inside.keys() >= set(_PACKED[:3]) and _inward(module, orders)
    if not inward:
        return apart
    packed = {variable for form in inward for variable in form.variables}
    # A subclass of Linear may have further variables, which PyTorch does not pack.
    inward += [form for form in parts("output", *_PACKED[:3]) if not packed.issuperset(form.variables)]
    outward = [parts(out, "output") if "output" in inside else [] for out in ("out_proj", "output")]
    return [inward + outward[0], apart[0], inward + outward[1], apart[1]]


def _without_adapters(form: Form) -> Form:
    """Return a Form of a layer with adapters under the names that the layer has without them."""
    return replace(form, slots={name.replace(".base_layer.", "."): slot for name, slot in form.slots.items()})


def _inward(module: MultiheadAttention, orders: Orders) -> list[Form]:
    """Return the Forms of the projections of query, key, and value as PyTorch's layer stores them.

    The list is empty if PyTorch's layer cannot represent the projections, for example because one of them is not a
    Linear.
    """
    layers = [getattr(module, name) for name in _PACKED[:3]]
    maps = [own_variables(layer) for layer in layers]
    alike = len({"bias" in own for own in maps}) == 1 and all("weight" in own for own in maps)
    if not alike or not all(isinstance(layer, Linear) for layer in layers) or module.num_kv_heads != module.num_heads:
        return []
    weights = [own["weight"] for own in maps]
    if all(weight.shape == (module.embed_dim, module.embed_dim) for weight in weights):
        inward = [_packed("in_proj_weight", weights)]
    else:
        inward = [
            replace(form, slots={f"{name}_proj_weight": form.slots["weight"]})
            for name, layer in zip("qkv", layers, strict=True)
            for form in _linear(layer, orders)[0][:1]
        ]
    if "bias" in maps[0]:
        inward.append(_packed("in_proj_bias", [own["bias"] for own in maps]))
    return inward


def _packed(name: str, variables: Sequence[Tensor]) -> Form:
    """Pair the query, key, and value matrices or vectors with the PyTorch tensor that concatenates their transposes."""
    sizes = [(variable.shape or ())[-1] for variable in variables]
    ends = np.cumsum(sizes)[:-1]
    shape = (sum(sizes), *(variables[0].shape or ())[:-1])
    return Form(
        {name: Slot(shape, variables[0].dtype)}, tuple(variables),
        lambda a: [part.T for part in np.split(a[0], ends)], lambda a: [np.concatenate([part.T for part in a])],
    )  # fmt: skip


def _slope(module: Module, orders: Orders) -> list[list[Form]]:
    own = own_variables(module)
    return [[_ordered("weight", own["weight"], None)] if "weight" in own else []]


_RULES: dict[type[Module], Rule] = {
    Linear: _linear,
    _Convolution: _convolution,
    DepthwiseConv2d: _depthwise,
    Embedding: _embedding,
    BatchNorm: _norm,
    LayerNorm: _norm,
    GroupNorm: _norm,
    InstanceNorm: _norm,
    _Recurrent: _recurrent,
    MultiheadAttention: _attention,
    PReLU: _slope,
}
