"""Batches: what data give to training, evaluation and prediction, and what people may give as data.

A batch is inputs, labels and weights of the samples, each a structure of arrays; data are whole arrays, or an iterable
of batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import is_number
from .._core import NDArray
from .._display import shown
from ..data.batches import Batches, batches
from ..errors import DTypeError, GraphError, ShapeError
from .structure import in_order, leaves, mapped, named_leaves, refilled

ARRAYS = (np.ndarray, NDArray)


@dataclass(frozen=True)
class Batch:
    """Inputs, labels and weights of one step; without labels and weights these are None."""

    inputs: Any
    labels: Any = None
    weights: Any = None

    def __len__(self) -> int:
        """Samples in it."""
        return int(leaves(self.inputs)[0].shape[0])

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """The three structures as one."""
        return self.inputs, self.labels, self.weights

    def shapes(self) -> tuple[Any, Any, Any]:
        """Those of its arrays, in its structure: what a step is compiled for."""
        inputs, labels, weights = (mapped(lambda array: tuple(array.shape), part) for part in self.parts)
        return inputs, labels, weights

    def arrays(self) -> list[Any]:
        """All arrays, in the order in which a step is fed."""
        return leaves(self.parts)

    def copy(self) -> Batch:
        """The same with arrays of its own."""
        return Batch(*(mapped(lambda array: array.copy(), part) for part in self.parts))


def checked_batch(inputs: Any, labels: Any = None, weights: Any = None) -> Batch:
    """A batch of arrays, dictionaries in the order of their keys: what comes in another order is the same batch.

    Errors: DTypeError for what is no array of numbers; GraphError for inputs that are nothing; ShapeError.
    """
    for name, structure in (("inputs", inputs), ("labels", labels), ("weights", weights)):
        if _is_list_of_numbers(structure):
            raise DTypeError(f"Trainer: {name} are an array, got a list: convert them with np.asarray(..., dtype)")
        for path, array in named_leaves(structure):
            what = f"{name} '{path}'" if path else name
            if not isinstance(array, ARRAYS):
                kind = type(array).__name__
                raise DTypeError(
                    f"Trainer: {what} are an array, got a {kind}: convert them with np.asarray(..., dtype)"
                )
            if isinstance(array, np.ndarray) and array.dtype.kind in "OUSMm":
                raise DTypeError(f"Trainer: {what} are numbers, got an array of {array.dtype}")
    if not leaves(inputs):
        raise GraphError("Trainer: a batch without inputs: give an array, or a tuple or dict of arrays")
    for _, array in named_leaves((inputs, labels, weights)):
        if array.ndim == 0:
            raise ShapeError("Trainer: arrays of a batch have the batch as their first axis, got one of rank 0")
    return Batch(in_order(inputs), in_order(labels), in_order(weights))


def as_batch(value: Any) -> Batch:
    """A batch as an iterable gives it: (inputs, labels), (inputs, labels, weights), or inputs that stand alone."""
    if isinstance(value, Batch):
        return value
    if isinstance(value, Mapping) or isinstance(value, ARRAYS):
        return checked_batch(value)
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3:
        what = f"{len(value)} values" if isinstance(value, (tuple, list)) else shown(value)
        raise GraphError(
            "a batch is a pair of arrays (inputs, labels), or of structures of them, and may have weights of the "
            f"samples as a third; the data gave {what}"
        )
    return checked_batch(*value)


def is_whole(value: Any) -> bool:
    """Is it an array, or a structure of whole arrays: neither a list of batches nor an iterable?"""
    if isinstance(value, ARRAYS):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(is_whole(item) for item in value.values())
    return isinstance(value, tuple) and bool(value) and all(item is None or is_whole(item) for item in value)


class WholeArrays:
    """Arrays of one length as batches in an order of their own: Batches, with the structure put back."""

    def __init__(self, batch: Batch, batch_size: int, shuffle: bool, seed: int) -> None:
        self._parts = batch.parts
        arrays = [array.numpy() if isinstance(array, NDArray) else array for array in leaves(self._parts)]
        self.batches: Batches = batches(arrays, batch_size, shuffle, seed)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for arrays in self.batches:
            yield Batch(*refilled(self._parts, list(arrays)))


def as_source(data: Any, labels: Any, weights: Any, batch_size: int, shuffle: bool, seed: int) -> Iterable[Any]:
    """Whole arrays become batches; anything else is taken for an iterable of batches. GraphError, DTypeError."""
    if labels is not None:
        return WholeArrays(checked_batch(data, labels, weights), batch_size, shuffle, seed)
    if isinstance(data, (tuple, list)) and data and all(isinstance(array, np.ndarray) for array in data):
        return WholeArrays(_whole_batch(tuple(data)), batch_size, shuffle, seed)
    if isinstance(data, tuple) and any(_is_list_of_numbers(array) for array in data):
        raise DTypeError(f"data are a pair of arrays, got {shown(data)}: convert them with np.asarray(..., dtype)")
    if is_whole(data):
        whole = _whole_batch(data) if isinstance(data, tuple) else checked_batch(data)
        return WholeArrays(whole, batch_size, shuffle, seed)
    if weights is not None:
        raise GraphError("weights beside data that are batches already: give them as the third part of each batch")
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise GraphError(f"Trainer: data are arrays (inputs, labels) or an iterable of such batches, got {shown(data)}")
    return data


def _whole_batch(data: tuple[Any, ...]) -> Batch:
    if len(data) > 3:
        raise GraphError(f"data are a pair of arrays (inputs, labels), with weights as a third; got {len(data)} values")
    return checked_batch(*data)


def with_class_weights(batch: Batch, class_weights: Mapping[int, float] | np.ndarray) -> Batch:
    """The batch with each sample's weight times that of its class. GraphError, ShapeError for labels of no class.

    Labels are class numbers (batch,) or (batch, 1), or one number for each class (batch, classes).
    """
    if not isinstance(batch.labels, ARRAYS):
        raise GraphError("class_weight is for labels that are one array of classes: give weights of samples instead")
    labels = np.asarray(batch.labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        labels = labels.argmax(axis=1)
    labels = labels.reshape(len(labels), -1)
    if labels.shape[1] != 1:
        raise ShapeError(f"class_weight is for one class a sample, the labels have shape {batch.labels.shape}")
    numbers = labels[:, 0].astype(np.int64)
    if isinstance(class_weights, Mapping):
        found = np.array([class_weights.get(int(number), 1.0) for number in numbers], np.float32)
    else:
        given = np.asarray(class_weights)
        if given.dtype.kind not in "biuf":
            raise DTypeError(f"class_weight are numbers, got an array of {given.dtype}")
        table = given.astype(np.float32)
        if table.ndim != 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(table)):
            raise ShapeError(f"class_weight has {table.size} numbers, the labels need one for each class")
        found = table[numbers]
    return Batch(batch.inputs, batch.labels, found if batch.weights is None else batch.weights * found)


def split_off(data: Any, labels: Any, weights: Any, share: float) -> tuple[Batch, Batch]:
    """Whole arrays without their last share, and that share, as Keras's validation_split takes it.

    Errors: GraphError for data that are batches, and where one of the parts would be empty.
    """
    if labels is None and isinstance(data, tuple) and is_whole(data):
        whole = _whole_batch(data)
    elif is_whole(data):
        whole = checked_batch(data, labels, weights)
    else:
        raise GraphError("validation_split is for arrays; of batches, set some apart and give them as validation")
    length = len(whole)
    first = int(length * (1 - share))
    if not 0 < first < length:
        raise GraphError(f"validation_split {share} leaves nothing of {length} samples for one of the parts")
    parts = [mapped(lambda a, s=where: a[s], whole.parts) for where in (slice(None, first), slice(first, None))]
    return Batch(*parts[0]), Batch(*parts[1])


def _is_list_of_numbers(value: Any) -> bool:
    """Or of such lists? Its first items tell."""
    if not isinstance(value, (list, tuple)):
        return False
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
        if is_number(value):
            return True
    return False
