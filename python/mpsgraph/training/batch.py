"""Batches for training, evaluation, and prediction, and conversion of the accepted forms of data to them.

A batch consists of inputs, labels, and sample weights, each a structure of arrays. Training data is passed as whole
arrays, or as an iterable of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import is_number
from .._core import DType, NDArray, bfloat16
from .._display import shown
from ..data.batches import Batches, batches
from ..errors import ArgumentError, DTypeError, GraphError, ShapeError
from .engine import DeviceArray
from .structure import in_order, leaves, mapped, named_leaves, refilled

ARRAYS = (np.ndarray, NDArray, DeviceArray)


@dataclass(frozen=True)
class Batch:
    """Inputs, labels, and sample weights of one training step. Labels and weights may be None."""

    inputs: Any
    labels: Any = None
    weights: Any = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return int(leaves(self.inputs)[0].shape[0])

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """The inputs, labels, and weights as a tuple."""
        return self.inputs, self.labels, self.weights

    def shapes(self) -> tuple[Any, Any, Any]:
        """Return the shapes of the arrays, in the nested structure of the batch.

        A step is compiled for each combination of shapes.
        """
        inputs, labels, weights = (mapped(lambda array: tuple(array.shape), part) for part in self.parts)
        return inputs, labels, weights

    def arrays(self) -> list[Any]:
        """Return all arrays in the order in which a step's placeholders are fed."""
        return leaves(self.parts)

    def copy(self) -> Batch:
        """Return a batch with copies of the arrays."""
        return Batch(*(mapped(lambda array: array.copy(), part) for part in self.parts))


def checked_batch(inputs: Any, labels: Any = None, weights: Any = None) -> Batch:
    """Return a batch of the given parts, after checking them and sorting the keys of dicts.

    Raises:
        DTypeError: If a leaf is not a numeric array.
        GraphError: If there are no inputs.
        ShapeError: If an array has no batch axis.
    """
    inputs, labels, weights = (
        part if type(part) is np.ndarray else with_arrays(part, name)
        for part, name in ((inputs, "inputs"), (labels, "labels"), (weights, "weights"))
    )
    for name, structure in (("inputs", inputs), ("labels", labels), ("weights", weights)):
        for path, array in named_leaves(structure):
            what = f"{name} '{path}'" if path else name
            if not isinstance(array, ARRAYS):
                kind = type(array).__name__
                raise DTypeError(
                    f"Trainer: {what} must be an array, got {kind}: convert it with np.asarray(..., dtype)"
                )
            if isinstance(array, np.ndarray) and array.dtype.kind in "OUSMm":
                raise DTypeError(
                    f"Trainer: {what} must be numeric, got an array of {array.dtype}: convert it with "
                    "array.astype(np.float32), or replace words by numbers"
                )
    if not leaves(inputs):
        raise GraphError("Trainer: a batch needs inputs: pass an array, or a tuple or dict of arrays")
    for _, array in named_leaves((inputs, labels, weights)):
        if array.ndim == 0:
            raise ShapeError(
                "Trainer: the first axis of inputs, labels and weights must be the batch, got an array of rank 0"
            )
    return Batch(in_order(inputs), in_order(labels), in_order(weights))


def with_arrays(structure: Any, name: str) -> Any:
    """Return a structure in which lists of numbers, tables, and columns are arrays.

    Lists of floats become float32, and lists of ints int32.
    """
    if structure is None or isinstance(structure, ARRAYS):
        return structure
    if hasattr(structure, "to_numpy"):
        return structure.to_numpy()
    if isinstance(structure, Mapping):
        return {key: with_arrays(value, name) for key, value in structure.items()}
    if isinstance(structure, (tuple, list)):
        if not _is_list_of_numbers(structure):
            return type(structure)(with_arrays(value, name) for value in structure)
        try:
            array = np.asarray(structure)
        except ValueError as error:
            raise ShapeError(f"Trainer: {name}: the rows of a list must have equal lengths, got {error}") from error
        narrow = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
        return array.astype(narrow.get(array.dtype, array.dtype), copy=False)
    return np.asarray(structure) if hasattr(structure, "__array__") and hasattr(structure, "shape") else structure


def as_before(array: Any, dtype: DType | None) -> Any:
    """Return integers with another integer dtype if it can represent them, and floats with another float dtype."""
    if not isinstance(array, np.ndarray) or dtype is None or dtype == bfloat16 or array.dtype == dtype.numpy:
        return array
    if array.dtype.kind in "iu" and dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        fits = not array.size or limits.min <= array.min() and array.max() <= limits.max
        return array.astype(dtype.numpy) if fits else array
    return array.astype(dtype.numpy) if array.dtype.kind == "f" and dtype.is_float else array


def is_wide(array: Any) -> bool:
    """Return whether an array is a numpy array of float64."""
    return isinstance(array, np.ndarray) and array.dtype == np.float64


def require_labels(where: str, labels: Any) -> None:
    """Raise ArgumentError for a number in the position of the labels of a fit."""
    if is_number(labels):
        number = shown(labels)
        raise ArgumentError(
            f"{where}: labels must be arrays, got {number}: pass a number by name, epochs={number}, "
            f"iterations={number}, or batch_size={number}"
        )


def as_batch(value: Any) -> Batch:
    """Convert an item of an iterable to a batch: (inputs, labels), (inputs, labels, weights), or inputs alone."""
    if isinstance(value, Batch):
        return value
    if isinstance(value, Mapping) or isinstance(value, ARRAYS):
        return checked_batch(value)
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3:
        what = f"{len(value)} values" if isinstance(value, (tuple, list)) else shown(value)
        raise GraphError(
            "Trainer: a batch must be a pair of arrays (inputs, labels), or of structures of arrays, with sample "
            f"weights as an optional third item, got {what}"
        )
    return checked_batch(*value)


def is_whole(value: Any) -> bool:
    """Return whether a value is an array or a tuple or dict of arrays, rather than a list of batches or another
    iterable.
    """
    if isinstance(value, ARRAYS):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(is_whole(item) for item in value.values())
    return isinstance(value, tuple) and bool(value) and all(item is None or is_whole(item) for item in value)


class WholeArrays:
    """Iterable that splits arrays of equal length into batches with the original structure."""

    def __init__(self, batch: Batch, batch_size: int, shuffle: bool, seed: int) -> None:
        self._parts = batch.parts
        arrays = [array.numpy() if isinstance(array, NDArray) else array for array in leaves(self._parts)]
        self.batches: Batches = batches(arrays, batch_size, shuffle, seed)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for arrays in self.batches:
            yield Batch(*refilled(self._parts, list(arrays)))


def as_source(
    data: Any,
    labels: Any,
    weights: Any,
    batch_size: int,
    shuffle: bool,
    seed: int,
    converted: Callable[[Batch], Batch],
) -> Iterable[Any]:
    """Split whole arrays, after a conversion, into batches, and return any other iterable unchanged.

    Raises:
        GraphError: If data is neither arrays nor an iterable of batches, or cannot be combined with the labels or
            weights.
        DTypeError: If an array is not numeric.
    """

    def whole(batch: Batch) -> WholeArrays:
        return WholeArrays(converted(batch), batch_size, shuffle, seed)

    if labels is not None:
        return whole(checked_batch(data, labels, weights))
    if isinstance(data, (tuple, list)) and data and all(isinstance(array, np.ndarray) for array in data):
        return whole(_whole_batch(tuple(data)))
    if isinstance(data, tuple) and any(_is_list_of_numbers(array) or hasattr(array, "to_numpy") for array in data):
        data = with_arrays(data, "data")
    elif hasattr(data, "to_numpy") or _is_list_of_numbers(data):
        data = with_arrays(data, "data")
    if is_whole(data):
        return whole(_whole_batch(data) if isinstance(data, tuple) else checked_batch(data))
    if weights is not None:
        raise GraphError(
            "Trainer: sample_weight needs data as arrays: for an iterable of batches, pass the weights as the third "
            "item of each batch"
        )
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise GraphError(
            f"Trainer: data must be arrays (inputs, labels) or an iterable of such batches, got {shown(data)}"
        )
    return data


def _whole_batch(data: tuple[Any, ...]) -> Batch:
    if len(data) > 3:
        raise GraphError(
            "Trainer: data must be a pair of arrays (inputs, labels), with sample weights as an optional third item, "
            f"got a tuple of {len(data)} items"
        )
    return checked_batch(*data)


def with_class_weights(batch: Batch, class_weights: Mapping[int, float] | np.ndarray) -> Batch:
    """Return the batch with each sample's weight multiplied by the weight of the sample's class.

    Labels are class indices (batch,) or (batch, 1), or scores (batch, classes), such as one-hot labels, where the
    largest score determines the class. Classes that a dict of weights omits have weight 1.

    Raises:
        GraphError: If labels is not a single array.
        ShapeError: If labels do not hold exactly one class per sample, or an array of weights has no entry for a class.
        DTypeError: If class_weights is a non-numeric array.
    """
    if not isinstance(batch.labels, ARRAYS):
        raise GraphError("Trainer.fit: class_weight needs labels in a single array: pass sample_weight instead")
    labels = np.asarray(batch.labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        labels = labels.argmax(axis=1)
    labels = labels.reshape(len(labels), -1)
    if labels.shape[1] != 1:
        raise ShapeError(
            f"Trainer.fit: class_weight needs one class per sample, got labels of shape {batch.labels.shape}"
        )
    numbers = labels[:, 0].astype(np.int64)
    if isinstance(class_weights, Mapping):
        found = np.array([class_weights.get(int(number), 1.0) for number in numbers], np.float32)
    else:
        given = np.asarray(class_weights)
        if given.dtype.kind not in "biuf":
            raise DTypeError(f"Trainer.fit: class_weight must be numeric, got an array of {given.dtype}")
        table = given.astype(np.float32)
        if table.ndim != 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(table)):
            raise ShapeError(
                f"Trainer.fit: class_weight must be 1-D with an entry for each class, got shape {table.shape} for "
                f"labels from {numbers.min(initial=0)} to {numbers.max(initial=0)}"
            )
        found = table[numbers]
    return Batch(batch.inputs, batch.labels, found if batch.weights is None else batch.weights * found)


def split_off(data: Any, labels: Any, weights: Any, share: float) -> tuple[Batch, Batch]:
    """Split off the last samples of whole arrays for validation, a fraction `share` of all samples, as Keras does.

    Raises:
        GraphError: If data is not whole arrays, or one of the parts would be empty.
    """
    if isinstance(data, tuple) or hasattr(data, "to_numpy") or _is_list_of_numbers(data):
        data = with_arrays(data, "data")
    if labels is None and isinstance(data, tuple) and is_whole(data):
        whole = _whole_batch(data)
    elif is_whole(data):
        whole = checked_batch(data, labels, weights)
    else:
        raise GraphError(
            "Trainer.fit: validation_split needs data as arrays: for an iterable of batches, pass separate batches as "
            "validation"
        )
    length = len(whole)
    first = int(length * (1 - share))
    if not 0 < first < length:
        raise GraphError(
            f"Trainer.fit: validation_split={share} leaves one of the two parts of {length} samples empty: use a "
            "different fraction or more samples"
        )
    parts = [mapped(lambda a, s=where: a[s], whole.parts) for where in (slice(None, first), slice(first, None))]
    return Batch(*parts[0]), Batch(*parts[1])


def _is_list_of_numbers(value: Any) -> bool:
    """Return whether a value is a list or tuple of numbers, or a list of such lists, judging by the first items."""
    if isinstance(value, tuple):
        return bool(value) and is_number(value[0])
    while isinstance(value, list) and value:
        value = value[0]
        if is_number(value):
            return True
    return False
