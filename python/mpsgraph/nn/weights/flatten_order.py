"""Detection of features that are flattened channels-last images, which PyTorch flattens with channels first.

In a channels-last model that flattens images, the inputs of the following `Linear` are ordered differently from those
of the equivalent PyTorch model; where features become images, the same is true of the outputs of the preceding
`Linear`. The graph shows which layers these are: images are inputs and outputs of channels-last convolutions and
poolings, and each reshape between an image and a matrix is a flattening or its inverse. Other reshapes do not produce
images, for example those that produce sequences, which have features last in PyTorch too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..._core import Operation, Tensor
from ..layers import CHANNELS_LAST

Sizes = tuple[int, ...]
Order = np.ndarray
"""For each feature in the model's order, the index of the same feature in PyTorch's order."""


@dataclass
class Orders:
    """The feature order of each variable. Variables with the same order as in PyTorch are absent."""

    inputs: dict[Tensor, Order] = field(default_factory=dict)
    """Orders along the first axis: the rows of a weight whose inputs are flattened images, or a vector applied to them.
    """
    outputs: dict[Tensor, Order] = field(default_factory=dict)
    """Orders along the last axis: the columns of a weight whose outputs become images, and the vectors applied to them.
    """
    images: set[Tensor] = field(default_factory=set)
    """Variables with the shape of a channels-last image, for example those of a normalization over all of its axes."""


class _Walk:
    """Finds the feature orders in a graph, visiting its operations in order of creation."""

    def __init__(self) -> None:
        self.found = Orders()
        self.images: set[Tensor] = set()  # Tensors that are channels-last images.
        self.flat: dict[Tensor, Order] = {}  # Flattened images, possibly concatenated with other features.
        # For a tensor computed element-wise from one variable and constants, that variable.
        self.origin: dict[Tensor, Tensor] = {}
        self.makers: dict[Tensor, tuple[Tensor, ...]] = {}  # Variables that determine the feature order of a tensor.
        # Features reshaped to the shape of images, which are images if a convolution or pooling uses them.
        self.raised: dict[Tensor, tuple[tuple[Tensor, ...], Sizes]] = {}

    def see(self, operation: Operation) -> None:
        if len(operation.outputs) == 0:
            return
        y, inputs = operation.outputs[0], operation.inputs
        if operation.kind in ("variable", "constant", "placeholder"):
            if operation.kind == "variable":
                self.origin[y] = y
            return
        if not inputs or y.shape is None:
            return
        self._see_variables(operation, y, inputs)
        self._see_images(operation, y, inputs)
        self._see_flat(operation, y, inputs)
        self._see_makers(operation, y, inputs)

    def _see_variables(self, operation: Operation, y: Tensor, inputs: list[Tensor]) -> None:
        known = [x for x in inputs if x in self.origin]
        constant = all(x in self.origin or x.operation.kind == "constant" for x in inputs)
        if len(known) == 1 and constant and operation.kind != "transpose" and _count(y) == _count(known[0]):
            self.origin[y] = self.origin[known[0]]

    def _see_images(self, operation: Operation, y: Tensor, inputs: list[Tensor]) -> None:
        rank = len(y.shape or ())
        layout = operation.attributes.get("data_layout") or operation.attributes.get("layout")
        if layout in CHANNELS_LAST and rank == len(layout):
            self.images.add(y)
            for variables, sizes in (self.raised[x] for x in inputs[:1] if x in self.raised):
                self.found.outputs |= dict.fromkeys(variables, _laid_flat(sizes))
        elif any(x in self.images and _stays(operation, x, y) for x in inputs):
            self.images.add(y)
            if operation.kind != "matrix_multiplication":
                self.found.images |= {v for v in self._variables(inputs) if v.shape == (y.shape or ())[1:]}

    def _see_flat(self, operation: Operation, y: Tensor, inputs: list[Tensor]) -> None:
        shape = y.shape or ()
        if operation.kind in ("reshape", "flatten2d"):
            sizes = (inputs[0].shape or ())[1:]
            if inputs[0] in self.images and len(shape) == 2 and len(sizes) > 1 and min(sizes) > 0:
                if _product(sizes) == shape[1] and _product(sizes[:-1]) > 1:
                    self.flat[y] = _laid_flat(tuple(sizes))
                return
        met = [self.flat[x] for x in inputs if x in self.flat]
        if not met:
            return
        if operation.kind == "concat":
            self._see_beside(operation, y, inputs)
            return
        for variable in self._variables(inputs):
            if (variable.shape or (0,))[0] == len(met[0]):
                self.found.inputs[variable] = met[0]
        moved = operation.kind in ("matrix_multiplication", "transpose")
        if not moved and shape and shape[-1] == len(met[0]):
            self.flat[y] = met[0]

    def _see_beside(self, operation: Operation, y: Tensor, inputs: list[Tensor]) -> None:
        """Record the feature order of a concatenation: the orders of the operands, one after the other."""
        shapes = [x.shape or () for x in inputs]
        if any(len(shape) != 2 or shape[1] < 0 for shape in shapes) or operation.attributes.get("interleave"):
            return
        if operation.attributes.get("axis") in (1, -1):
            starts = np.cumsum([0] + [shape[1] for shape in shapes])
            orders = [self.flat.get(x, np.arange(shape[1])) for x, shape in zip(inputs, shapes, strict=True)]
            self.flat[y] = np.concatenate([start + order for start, order in zip(starts, orders, strict=False)])

    def _see_makers(self, operation: Operation, y: Tensor, inputs: list[Tensor]) -> None:
        shape, own = y.shape or (), tuple(self._variables(inputs))
        made = next((x for x in inputs if x in self.makers), None)
        raised = next((x for x in inputs if x in self.raised), None)
        if operation.kind == "matrix_multiplication" and own:
            self.makers[y] = own
        elif operation.kind == "reshape" and made is not None:
            if len(made.shape or ()) == 2 and len(shape) > 2 and min(shape[1:]) > 0 and _product(shape[1:-1]) > 1:
                if _product(shape[1:]) == (made.shape or ())[1]:
                    self.raised[y] = (self.makers[made], tuple(shape[1:]))
        elif made is not None and made.shape == y.shape:
            same = tuple(v for v in own if (v.shape or (0,))[-1] == shape[-1] == _count(v))
            self.makers[y] = self.makers[made] + same
        elif raised is not None and (raised.shape == y.shape or operation.kind in ("expand_dims", "squeeze")):
            self.raised[y] = self.raised[raised]

    def _variables(self, inputs: list[Tensor]) -> Iterator[Tensor]:
        return (self.origin[x] for x in inputs if x in self.origin)


def _stays(operation: Operation, x: Tensor, y: Tensor) -> bool:
    """Return whether an operation whose input is an image with channels last also returns one."""
    if operation.kind in ("reshape", "transpose", "flatten2d"):
        return False
    if operation.kind in ("expand_dims", "squeeze"):
        return len(y.shape or ()) >= 3 and (y.shape or ())[-1] == (x.shape or ())[-1]
    return len(y.shape or ()) == len(x.shape or ())


def _laid_flat(sizes: Sizes) -> Order:
    """Return the feature order of a flattened channels-last image, which PyTorch flattens with channels first."""
    places = np.arange(_product(sizes)).reshape(sizes[-1], *sizes[:-1])
    return np.moveaxis(places, 0, -1).reshape(-1)


def _product(sizes: Sizes) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _count(x: Tensor) -> int:
    """Return the number of elements, or -1 if unknown."""
    return _product(tuple(x.shape)) if x.shape is not None and min(x.shape, default=1) >= 0 else -1


def orders_in(operations: list[Operation]) -> Orders:
    """Return the feature orders implied by the operations of a graph."""
    walk = _Walk()
    for operation in operations:
        walk.see(operation)
    return walk.found
