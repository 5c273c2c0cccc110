"""States of recurrent layers between sequences: outputs and cells of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import NDArray
from ..errors import GraphError
from .matrix import Matrix

Layers = list[tuple[Any, Any]]


class RNNRecurrentMatrixState:
    """State of a stack of recurrent layers: the output of each layer and, for an LSTM, its cell.

    Layers create states; the constructor is for custom initial states. Each row of their matrices belongs to one
    sequence of the batch. The matrices contain values once the command buffer has completed.

    Args:
        layers: (output, cell) of each layer. Each is a Matrix of shape (rows, H), or None for zeros.

    Source: MPSRNNRecurrentMatrixState.

    Example:
        >>> h = mg.nngraph.Matrix(np.ones((2, 3), np.float32))
        >>> mg.nngraph.RNNRecurrentMatrixState([(h, None)]).recurrent_output_matrix(0).numpy().sum()
        np.float32(6.0)
    """

    def __init__(self, layers: Sequence[tuple[Matrix | None, Matrix | None]]) -> None:
        self._layers = list(layers)

    @classmethod
    def of_arrays(cls, layers: Sequence[tuple[NDArray, NDArray | None]]) -> RNNRecurrentMatrixState:
        """Create a state from arrays of shape (rows, H).

        Args:
            layers: (output, cell) of each layer; the cell is None for layers other than LSTMs.

        Returns:
            A state that shares the memory of the arrays.
        """
        return cls([(Matrix(output), None if cell is None else Matrix(cell)) for output, cell in layers])

    def recurrent_output_matrix(self, layer_index: int) -> Matrix | None:
        """Return the output of a layer.

        Args:
            layer_index: Index of the layer, starting at the input.

        Returns:
            A float32 matrix of shape (rows, H), or None if the state was created without an output for this layer.

        Raises:
            GraphError: If layer_index is out of range.

        Source: getRecurrentOutputMatrixForLayerIndex:.
        """
        return self._layers[self._index(layer_index)][0]

    def memory_cell_matrix(self, layer_index: int) -> Matrix | None:
        """Return the cell of a layer.

        Args:
            layer_index: Index of the layer, starting at the input.

        Returns:
            A float32 matrix of shape (rows, H), or None if the layer has no cell.

        Raises:
            GraphError: If layer_index is out of range.

        Source: getMemoryCellMatrixForLayerIndex:.
        """
        return self._layers[self._index(layer_index)][1]

    def _index(self, layer: int) -> int:
        if not 0 <= layer < len(self._layers):
            raise GraphError(f"layer index {layer} is out of range for a state of {len(self._layers)} layers")
        return layer

    def arrays(self) -> Layers:
        """Return (output, cell) of each layer as arrays."""
        return [(_array(output), _array(cell)) for output, cell in self._layers]


class RNNRecurrentImageState:
    """State of a stack of recurrent layers over images: the output of each layer and, for an LSTM, its cell.

    Layers create states; the constructor is for custom initial states.

    Args:
        layers: (output, cell) of each layer. Each is an array of shape (N, H, W, channels), or None for zeros.

    Source: MPSRNNRecurrentImageState.

    Example:
        >>> h = mg.asarray(np.zeros((2, 4, 4, 8), np.float32))
        >>> state = mg.nngraph.RNNRecurrentImageState([(h, None)])
        >>> state.recurrent_output_image(0).shape, state.memory_cell_image(0)
        ((2, 4, 4, 8), None)
    """

    def __init__(self, layers: Sequence[tuple[Any, Any]]) -> None:
        self._layers = list(layers)

    def recurrent_output_image(self, layer_index: int) -> Any:
        """Return the output of a layer.

        Args:
            layer_index: Index of the layer, starting at the input.

        Returns:
            A float32 NDArray of shape (N, H, W, channels), or None if the state was created without an output for this
            layer.

        Raises:
            GraphError: If layer_index is out of range.

        Source: getRecurrentOutputImageForLayerIndex:.
        """
        return self._layers[self._index(layer_index)][0]

    def memory_cell_image(self, layer_index: int) -> Any:
        """Return the cell of a layer.

        Args:
            layer_index: Index of the layer, starting at the input.

        Returns:
            A float32 NDArray of shape (N, H, W, channels), or None if the layer has no cell.

        Raises:
            GraphError: If layer_index is out of range.

        Source: getMemoryCellImageForLayerIndex:.
        """
        return self._layers[self._index(layer_index)][1]

    def _index(self, layer: int) -> int:
        if not 0 <= layer < len(self._layers):
            raise GraphError(f"layer index {layer} is out of range for a state of {len(self._layers)} layers")
        return layer

    def arrays(self) -> Layers:
        """Return (output, cell) of each layer as arrays with one row per pixel."""
        return [(_pixels(output), _pixels(cell)) for output, cell in self._layers]


def _array(matrix: Matrix | None) -> NDArray | None:
    return None if matrix is None else matrix.array


def _pixels(image: Any) -> Any:
    if image is None:
        return None
    array = image.numpy() if isinstance(image, NDArray) else image
    return array.reshape(-1, array.shape[-1])


def append_to(states: Any, found: Sequence[Any], what: str) -> None:
    """Append states to a caller's list. Raise GraphError if the argument is not a list."""
    if not isinstance(states, list):
        raise GraphError(f"{what} must be a list to append states to, got {type(states).__name__}")
    states.extend(found)
