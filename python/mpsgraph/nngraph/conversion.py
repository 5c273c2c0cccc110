"""Converters between batches of images and matrices, whose rows are images."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .. import _core
from .._core import CommandBuffer
from .._display import shown
from ..errors import GraphError
from .matrix import Matrix, device_of


class DataLayout(IntEnum):
    """The order of an image's numbers in a row. Source: MPSDataLayout.

    >>> [member.name for member in mg.nngraph.DataLayout]
    ['height_x_width_x_feature_channels', 'feature_channels_x_height_x_width']
    """

    height_x_width_x_feature_channels = 0
    feature_channels_x_height_x_width = 1


def array_of(images: Any) -> Any:
    """The array [N, H, W, C] of an image batch, or the array that was given."""
    return getattr(images, "array", images)


class _Converter:
    def __init__(self, device: Any, data_layout: DataLayout | int) -> None:
        name = type(self).__name__
        found = device_of(device)
        if data_layout not in set(DataLayout):
            raise GraphError(f"{name}: {shown(data_layout)} is no DataLayout: {', '.join(x.name for x in DataLayout)}")
        self.device, self.data_layout = found, DataLayout(data_layout)

    def _where(self, origin: tuple[int, int], index: int) -> tuple[bool, int, int, int]:
        row, column = origin
        return self.data_layout is DataLayout.feature_channels_x_height_x_width, row, column, index


class ImageCopyToMatrix(_Converter):
    """Copies each image of a batch into a row of a matrix, when the command buffer runs.

    Args: device, that of the command buffers; data_layout, a DataLayout. `destination_matrix_origin` (row, column) says
    where the first image goes, `destination_matrix_batch_index` in which of the matrices. Source: MPSImageCopyToMatrix.

    >>> images = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    >>> rows = mg.nngraph.Matrix(np.zeros((1, 8), np.float32))
    >>> copy = mg.nngraph.ImageCopyToMatrix("cpu", mg.nngraph.DataLayout.feature_channels_x_height_x_width)
    >>> buffer = mg.CommandQueue("cpu").command_buffer()
    >>> copy.encode_batch(buffer, images, rows)
    >>> buffer.commit(); buffer.wait_until_completed()
    >>> rows.numpy().tolist()
    [[0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]]
    """

    def __init__(
        self, device: Any, data_layout: DataLayout | int = DataLayout.height_x_width_x_feature_channels
    ) -> None:
        super().__init__(device, data_layout)
        self.destination_matrix_origin = (0, 0)
        self.destination_matrix_batch_index = 0

    def encode_batch(self, command_buffer: CommandBuffer, source_images: Any, destination_matrix: Matrix) -> None:
        """Encodes the copy of a batch.

        Args: source_images, an array [N, H, W, C] or what has one as `array`; destination_matrix, of the images' type,
        with N rows of H W C columns from the origin on. Errors: ShapeError; DTypeError, nothing is converted;
        DeviceError when they share memory, the matrix is read-only or the command buffer is another device's;
        UnsupportedError for other types than float32 and float16 on device metal. Source:
        encodeBatchToCommandBuffer:sourceImages:destinationMatrix:,
        encodeToCommandBuffer:sourceImage:destinationMatrix:.
        """
        where = self._where(self.destination_matrix_origin, self.destination_matrix_batch_index)
        images = array_of(source_images)
        _core.encode_images_to_matrix(command_buffer, self.device, images, destination_matrix, *where)


class MatrixCopyToImage(_Converter):
    """Copies a row of a matrix into each image of a batch, when the command buffer runs: ImageCopyToMatrix's reverse.

    Args: as there; `source_matrix_origin` (row, column), `source_matrix_batch_index`. Source: MPSMatrixCopyToImage.

    >>> images = np.zeros((2, 1, 1, 3), np.float32)
    >>> rows = mg.nngraph.Matrix(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> buffer = mg.CommandQueue("cpu").command_buffer()
    >>> mg.nngraph.MatrixCopyToImage("cpu").encode_batch(buffer, rows, images)
    >>> buffer.commit(); buffer.wait_until_completed()
    >>> images[1].ravel().tolist()
    [3.0, 4.0, 5.0]
    """

    def __init__(
        self, device: Any, data_layout: DataLayout | int = DataLayout.height_x_width_x_feature_channels
    ) -> None:
        super().__init__(device, data_layout)
        self.source_matrix_origin = (0, 0)
        self.source_matrix_batch_index = 0

    def encode_batch(self, command_buffer: CommandBuffer, source_matrix: Matrix, destination_images: Any) -> None:
        """Encodes the copy of a batch.

        Args: source_matrix, N rows of H W C columns from the origin on; destination_images, a writable array
        [N, H, W, C] of its type, or what has one as `array`. Errors: ShapeError, DTypeError, DeviceError. Source:
        encodeBatchToCommandBuffer:sourceMatrix:destinationImages:.
        """
        where = self._where(self.source_matrix_origin, self.source_matrix_batch_index)
        images = array_of(destination_images)
        _core.encode_matrix_to_images(command_buffer, self.device, images, source_matrix, *where)
