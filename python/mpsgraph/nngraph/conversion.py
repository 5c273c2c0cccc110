"""Copies between batches of images and matrices with one image per row."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from .. import _core
from .._core import CommandBuffer
from .._display import shown
from ..errors import GraphError
from .images import Image, unwaited_array
from .matrix import Matrix, device_of


class DataLayout(IntEnum):
    """Order of an image's elements in a matrix row.

    Source: MPSDataLayout.

    Example:
        >>> [member.name for member in mg.nngraph.DataLayout]
        ['height_x_width_x_feature_channels', 'feature_channels_x_height_x_width']
    """

    height_x_width_x_feature_channels = 0
    feature_channels_x_height_x_width = 1


def array_of(images: Any) -> Any:
    """Return the [N, H, W, C] array of an image batch; return other objects unchanged."""
    return getattr(images, "array", images)


def _arrays_of(images: Any) -> list[Any]:
    """Return arrays [N, H, W, C]: of each image of a list, or of the whole batch."""
    if isinstance(images, (list, tuple)) and images and all(isinstance(image, Image) for image in images):
        return [unwaited_array(image)[None] for image in images]
    return [array_of(images)]


class _Converter:
    def __init__(self, device: Any, data_layout: DataLayout | int) -> None:
        name = type(self).__name__
        found = device_of(device)
        if data_layout not in set(DataLayout):
            raise GraphError(
                f"{name}: data_layout must be a DataLayout ({', '.join(x.name for x in DataLayout)}), "
                f"got {shown(data_layout)}"
            )
        self.device, self.data_layout = found, DataLayout(data_layout)

    def _encode(
        self, encode: Callable[..., None], buffer: CommandBuffer, images: Any, matrix: Matrix, where: tuple[int, ...]
    ) -> None:
        """Encode a copy for an array, or for each image of a list. `where` is the row, column, and index."""
        channels_first = self.data_layout is DataLayout.feature_channels_x_height_x_width
        row, column, index = where
        for array in _arrays_of(images):
            encode(buffer, self.device, array, matrix, channels_first, row, column, index)
            row += 1


class ImageCopyToMatrix(_Converter):
    """Operation that copies each image of a batch into a row of a matrix.

    The copy runs when the command buffer runs.

    Args:
        device: Device of the command buffers: a Device, its name, or None for the default device.
        data_layout: Order of an image's elements in a row, a DataLayout. Defaults to height x width x channels.

    Attributes:
        destination_matrix_origin: (row, column) at which the first image is written. Defaults to (0, 0).
        destination_matrix_batch_index: Index of the matrix to write, if destination_matrix holds several. Defaults to
            0.

    Raises:
        GraphError: If data_layout is not a DataLayout.
        DeviceError: If the device does not exist.

    Source: MPSImageCopyToMatrix.

    Example:
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
        """Encode the copy of a batch into a matrix.

        Args:
            command_buffer: Command buffer that the copy is encoded into.
            source_images: Array of shape (N, H, W, C), an object with such an array as its `array` attribute, or a list
                of images.
            destination_matrix: Matrix with the dtype of the images and, from the origin on, at least N rows and H*W*C
                columns.

        Raises:
            ShapeError: If source_images is not 4-D, or the images do not fit into the matrix.
            DTypeError: If the dtypes of the images and the matrix differ; there is no conversion.
            DeviceError: If images and matrix share memory, the matrix is read-only, or command_buffer belongs to
                another device.
            UnsupportedError: On the Metal device, if the dtype is not float32 or float16.

        Source: encodeBatchToCommandBuffer:sourceImages:destinationMatrix:,
        encodeToCommandBuffer:sourceImage:destinationMatrix:.
        """
        where = (*self.destination_matrix_origin, self.destination_matrix_batch_index)
        self._encode(_core.encode_images_to_matrix, command_buffer, source_images, destination_matrix, where)


class MatrixCopyToImage(_Converter):
    """Operation that copies rows of a matrix into the images of a batch, one row per image.

    This is the inverse of ImageCopyToMatrix. The copy runs when the command buffer runs.

    Args:
        device: Device of the command buffers: a Device, its name, or None for the default device.
        data_layout: Order of an image's elements in a row, a DataLayout. Defaults to height x width x channels.

    Attributes:
        source_matrix_origin: (row, column) at which the first image is read. Defaults to (0, 0).
        source_matrix_batch_index: Index of the matrix to read, if source_matrix holds several. Defaults to 0.

    Raises:
        GraphError: If data_layout is not a DataLayout.
        DeviceError: If the device does not exist.

    Source: MPSMatrixCopyToImage.

    Example:
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
        """Encode the copy of matrix rows into the images of a batch.

        Args:
            command_buffer: Command buffer that the copy is encoded into.
            source_matrix: Matrix with, from the origin on, at least N rows and H*W*C columns.
            destination_images: Writable array of shape (N, H, W, C) with the dtype of the matrix, an object with such
                an array as its `array` attribute, or a list of images.

        Raises:
            ShapeError: If destination_images is not 4-D, or the matrix has too few rows or columns.
            DTypeError: If the dtypes of the matrix and the images differ; there is no conversion.
            DeviceError: If matrix and images share memory, the images are read-only, or command_buffer belongs to
                another device.
            UnsupportedError: On the Metal device, if the dtype is not float32 or float16.

        Source: encodeBatchToCommandBuffer:sourceMatrix:destinationImages:.
        """
        where = (*self.source_matrix_origin, self.source_matrix_batch_index)
        self._encode(_core.encode_matrix_to_images, command_buffer, destination_images, source_matrix, where)
