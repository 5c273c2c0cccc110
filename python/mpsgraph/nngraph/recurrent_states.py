"""States that recurrent layers begin with and leave: outputs and cells of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import NDArray
from ..errors import GraphError
from .matrix import Matrix

Layers = list[tuple[Any, Any]]


class RNNRecurrentMatrixState:
    """The outputs of a step, and of an LSTM the cells, of each layer of a stack, one row a sequence.

    Layers make it; to begin with one's own, RNNRecurrentMatrixState([(output, cell), ...]) takes a Matrix (rows, H) or
    None for zeros of each layer, and the same for its cell. It holds numbers when its command buffer has run. Source:
    MPSRNNRecurrentMatrixState.

    >>> h = mg.nngraph.Matrix(np.ones((2, 3), np.float32))
    >>> mg.nngraph.RNNRecurrentMatrixState([(h, None)]).recurrent_output_matrix(0).numpy().sum()
    np.float32(6.0)
    """

    def __init__(self, layers: Sequence[tuple[Matrix | None, Matrix | None]]) -> None:
        self._layers = list(layers)

    @classmethod
    def of_arrays(cls, layers: Sequence[tuple[NDArray, NDArray | None]]) -> RNNRecurrentMatrixState:
        """Over arrays [rows, H]."""
        return cls([(Matrix(output), None if cell is None else Matrix(cell)) for output, cell in layers])

    def recurrent_output_matrix(self, layer_index: int) -> Matrix | None:
        """(rows, H), float32. Source: getRecurrentOutputMatrixForLayerIndex:."""
        return self._layers[self._index(layer_index)][0]

    def memory_cell_matrix(self, layer_index: int) -> Matrix | None:
        """(rows, H), float32; None where there is no cell. Source: getMemoryCellMatrixForLayerIndex:."""
        return self._layers[self._index(layer_index)][1]

    def _index(self, layer: int) -> int:
        if not 0 <= layer < len(self._layers):
            raise GraphError(f"there is no layer {layer}: the state is of {len(self._layers)}")
        return layer

    def arrays(self) -> Layers:
        """(output, cell) of each layer as arrays."""
        return [(_array(output), _array(cell)) for output, cell in self._layers]


class RNNRecurrentImageState:
    """The same for images: outputs and cells are NDArray [N, H, W, channels]. Source: MPSRNNRecurrentImageState.

    >>> h = mg.asarray(np.zeros((2, 4, 4, 8), np.float32))
    >>> state = mg.nngraph.RNNRecurrentImageState([(h, None)])
    >>> state.recurrent_output_image(0).shape, state.memory_cell_image(0)
    ((2, 4, 4, 8), None)
    """

    def __init__(self, layers: Sequence[tuple[Any, Any]]) -> None:
        self._layers = list(layers)

    def recurrent_output_image(self, layer_index: int) -> Any:
        """[N, H, W, channels], float32. Source: getRecurrentOutputImageForLayerIndex:."""
        return self._layers[self._index(layer_index)][0]

    def memory_cell_image(self, layer_index: int) -> Any:
        """[N, H, W, channels], float32; None where there is no cell. Source: getMemoryCellImageForLayerIndex:."""
        return self._layers[self._index(layer_index)][1]

    def _index(self, layer: int) -> int:
        if not 0 <= layer < len(self._layers):
            raise GraphError(f"there is no layer {layer}: the state is of {len(self._layers)}")
        return layer

    def arrays(self) -> Layers:
        """(output, cell) of each layer as arrays, a row for each pixel."""
        return [(_pixels(output), _pixels(cell)) for output, cell in self._layers]


def _array(matrix: Matrix | None) -> NDArray | None:
    return None if matrix is None else matrix.array


def _pixels(image: Any) -> Any:
    if image is None:
        return None
    array = image.numpy() if isinstance(image, NDArray) else image
    return array.reshape(-1, array.shape[-1])


def append_to(states: Any, found: Sequence[Any], what: str) -> None:
    """Appends to a caller's list. GraphError when it is none."""
    if not isinstance(states, list):
        raise GraphError(f"{what} must be a list, which is appended to")
    states.extend(found)
