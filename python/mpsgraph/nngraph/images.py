"""Images, batches of images, and labels: MPSImage, MPSImageBatch, and MPSCNNLossLabels.

A batch is one array [images, height, width, feature channels] whose images are views of it, so numpy arrays are used
and returned without a copy. Images that are not adjacent in memory are copied into one array, and `mpsgraph.copy_count`
counts the copy. Data that a graph writes can be read once its command buffer has completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import CommandBuffer, NDArray
from .._display import shown
from ..errors import DeviceError, DTypeError, GraphError, OutOfRangeError, ShapeError

_FORMATS = {
    "unorm8": np.dtype("uint8"),
    "unorm16": np.dtype("uint16"),
    "float16": np.dtype("float16"),
    "float32": np.dtype("float32"),
}


def _format_of(array: np.ndarray, what: str) -> str:
    for name, dtype in _FORMATS.items():
        if array.dtype == dtype:
            return name
    raise DTypeError(
        f"{what}: the dtype must be float32, float16, uint8 (unorm8) or uint16 (unorm16), got {array.dtype}; "
        "convert the array first"
    )


class Image:
    """Image of height x width x feature channels.

    The image shares the memory of the array. Its dtype determines the channel format: float32, float16, uint8 as
    "unorm8" (0 to 255 represent 0 to 1), or uint16 as "unorm16".

    Args:
        array: numpy array or anything that numpy converts to one, of shape (height, width) or (height, width,
            channels). Convert a PIL image with np.asarray(image).

    Raises:
        ShapeError: If the array is not 2-D or 3-D, or has a dimension of size 0.
        DTypeError: If the dtype is not one of the four above.

    Source: MPSImage.

    Example:
        >>> nn = mg.nngraph
        >>> image = nn.Image(np.zeros((28, 28), np.uint8))
        >>> image.height, image.width, image.feature_channels, image.format
        (28, 28, 1, 'unorm8')
    """

    def __init__(self, array: Any) -> None:
        values = np.asarray(array)
        if values.ndim == 2:
            values = values[:, :, None]
        if values.ndim != 3 or 0 in values.shape:
            raise ShapeError(
                "Image: the array must have shape (height, width) or (height, width, channels) without a dimension of "
                f"size 0, got {values.shape}"
            )
        self.format = _format_of(values, "Image")
        self._array = values
        self._written_by: CommandBuffer | None = None

    @classmethod
    def empty(cls, height: int, width: int, feature_channels: int, format: str = "float32") -> Image:
        """Create an image of zeros.

        Args:
            height: Height in pixels.
            width: Width in pixels.
            feature_channels: Number of channels.
            format: Channel format: "float32" (the default), "float16", "unorm8", or "unorm16".

        Returns:
            An image with its own memory.

        Raises:
            GraphError: If format is unknown.
            ShapeError: If a size is 0.

        Source: initWithDevice:imageDescriptor:.
        """
        if format not in _FORMATS:
            raise GraphError(f"Image: format must be one of {', '.join(_FORMATS)}, got {shown(format)}")
        return cls(np.zeros((height, width, feature_channels), _FORMATS[format]))

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self._array.shape[0])

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self._array.shape[1])

    @property
    def feature_channels(self) -> int:
        """Number of channels per pixel."""
        return int(self._array.shape[2])

    def numpy(self) -> np.ndarray:
        """Return the pixels, [height, width, channels], without a copy.

        Returns:
            A view of the image's memory.

        Raises:
            DeviceError: If the command buffer that writes the image has not completed, or failed.
        """
        _require_written(self._written_by, "this image")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=True if copy else None) if copy or dtype else self.numpy()

    def read_bytes(self, data_layout: str = "height_x_width_x_feature_channels") -> np.ndarray:
        """Return a copy of the pixels in one of Apple's layouts.

        Args:
            data_layout: "height_x_width_x_feature_channels" (the default), which returns [height, width, channels], or
                "feature_channels_x_height_x_width", which returns [channels, height, width].

        Returns:
            A contiguous array with its own memory.

        Raises:
            GraphError: If data_layout is unknown.
            DeviceError: If the command buffer that writes the image has not completed, or failed.

        Source: readBytes:dataLayout:imageIndex:.
        """
        return np.array(self.numpy().transpose(_axes(data_layout)), order="C")

    def write_bytes(self, data: Any, data_layout: str = "height_x_width_x_feature_channels") -> None:
        """Copy pixels from one of Apple's layouts into the image.

        Args:
            data: Array with the dtype of the image, [height, width, channels] or [channels, height, width] according to
                data_layout.
            data_layout: "height_x_width_x_feature_channels" (the default) or "feature_channels_x_height_x_width".

        Raises:
            ShapeError: If the shape of data does not match.
            DTypeError: If the dtype of data differs from the image's.
            GraphError: If data_layout is unknown.
            DeviceError: If the command buffer that writes the image has not completed, or failed.

        Source: writeBytes:dataLayout:imageIndex:.
        """
        values, there = np.asarray(data), self.numpy().transpose(_axes(data_layout))
        if values.shape != there.shape:
            raise ShapeError(
                f"write_bytes: data must have shape {there.shape} for data_layout={data_layout!r}, got {values.shape}"
            )
        if values.dtype != there.dtype:
            raise DTypeError(
                f"write_bytes: data must have the image's dtype {there.dtype}, got {values.dtype}; convert it first"
            )
        there[...] = values

    def __repr__(self) -> str:
        return f"Image({self.height} x {self.width} x {self.feature_channels}, {self.format})"


def _axes(data_layout: str) -> tuple[int, int, int]:
    if data_layout == "height_x_width_x_feature_channels":
        return 0, 1, 2
    if data_layout == "feature_channels_x_height_x_width":
        return 2, 0, 1
    raise GraphError(
        "data_layout must be 'height_x_width_x_feature_channels' or 'feature_channels_x_height_x_width', "
        f"got {shown(data_layout)}"
    )


def _require_written(buffer: CommandBuffer | None, what: str) -> None:
    if buffer is None:
        return
    # Do not use buffer.done(), which would also wait for completion handlers.
    if buffer.status not in ("completed", "error"):
        raise DeviceError(
            f"{what} cannot be read yet, because its command buffer has not completed; commit the command buffer and "
            "call wait_until_completed()"
        )
    if buffer.error is not None:
        raise DeviceError(
            f"{what} was not written, because its command buffer failed: {buffer.error}"
        ) from buffer.error


class ImageBatch(Sequence[Image]):
    """Batch of images of one size and format, stored as one array.

    Indexing returns images, which are views of the batch.

    Args:
        images: Array of shape (images, height, width, channels), whose memory is shared; or a sequence of images.
            Images that are adjacent in one array are shared, others are copied (counted by mpsgraph.copy_count).

    Raises:
        ShapeError: If the array is not 4-D or has a dimension of size 0, or the images differ in size.
        DTypeError: If the images differ in format, or the dtype is not float32, float16, uint8, or uint16.
        DeviceError: If a command buffer that writes one of the images has not completed, or failed.

    Source: MPSImageBatch.

    Example:
        >>> nn = mg.nngraph
        >>> batch = nn.ImageBatch(np.zeros((8, 28, 28, 1), np.float32))
        >>> len(batch), batch[0]
        (8, Image(28 x 28 x 1, float32))
    """

    _array: np.ndarray
    format: str

    def __init__(self, images: Any) -> None:
        self._written_by: CommandBuffer | None = None
        self._native: NDArray | None = None
        if isinstance(images, ImageBatch):
            self._array, self._native, self._written_by = images._array, images._native, images._written_by
        elif isinstance(images, (list, tuple)) and images and all(isinstance(i, Image) for i in images):
            self._array = _together(images)
        else:
            self._array = np.asarray(images)
        if self._array.ndim != 4 or 0 in self._array.shape:
            raise ShapeError(
                "ImageBatch: expected an array of shape (images, height, width, channels) without a dimension of "
                f"size 0, or a sequence of images, got an array of shape {self._array.shape}"
            )
        self.format = _format_of(self._array, "ImageBatch")

    @classmethod
    def _of(cls, native: NDArray, buffer: CommandBuffer) -> ImageBatch:
        """Create a batch over an array that commands in `buffer` will write."""
        batch = cls.__new__(cls)
        batch._native, batch._written_by, batch._array = native, buffer, np.from_dlpack(native)
        batch.format = _format_of(batch._array, "ImageBatch")
        return batch

    @property
    def array(self) -> np.ndarray:
        """Array of the batch, [images, height, width, channels]; undefined until the batch has been written."""
        return self._array

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the batch: (images, height, width, channels)."""
        images, height, width, channels = self._array.shape
        return images, height, width, channels

    def numpy(self) -> np.ndarray:
        """Return the pixels, [images, height, width, channels], without a copy.

        Returns:
            A view of the batch's memory.

        Raises:
            DeviceError: If the command buffer that writes the batch has not completed, or failed.
        """
        _require_written(self._written_by, "this batch")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=True if copy else None) if copy or dtype else self.numpy()

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            part = ImageBatch(self._array[index])
            part._written_by = self._written_by
            return part
        if not -len(self) <= index < len(self):
            raise IndexError(f"image index {index} is out of range for a batch of {len(self)}")
        image = Image(self._array[index])
        image._written_by = self._written_by
        return image

    def __iter__(self) -> Iterator[Image]:
        return (self[i] for i in range(len(self)))

    def _operand(self) -> NDArray:
        return self._native if self._native is not None else _core.asarray(dense(self._array))

    def _tensor_data(self, command_buffer: CommandBuffer | None, written: bool) -> NDArray:
        """Return the array that a core graph uses: the same memory, or a float32 copy (0 to 1) of a unorm batch."""
        before = self._written_by
        if before is not None and not (command_buffer is not None and before.queue is command_buffer.queue):
            # The work of one queue runs in order, so a pending write on the same queue is fine.
            _require_written(before, "this batch")
        if self.format not in ("unorm8", "unorm16"):
            return self._native if self._native is not None else _core.asarray(self._array, copy=False)
        if written:
            raise DTypeError(
                f"cannot write floating-point results into an ImageBatch of format {self.format}; pass a batch of "
                "format float32"
            )
        _core.nn_count_copy()
        return _core.asarray(self._array * np.float32(1 / np.iinfo(self._array.dtype).max))

    def _note_writer(self, command_buffer: CommandBuffer) -> None:
        self._written_by = command_buffer

    def __repr__(self) -> str:
        return "ImageBatch({} of {} x {} x {}, {})".format(*self.shape, self.format)


def _together(images: Sequence[Image]) -> np.ndarray:
    """Return the images as one array: a view if they are adjacent in memory, otherwise a copy."""
    arrays = [image._array for image in images]
    for image in images:
        _require_written(image._written_by, "an image of this batch")
    first = arrays[0]
    for i, array in enumerate(arrays):
        if array.shape != first.shape:
            raise ShapeError(
                f"images of a batch must have the same shape; image 0 has {first.shape}, image {i} has {array.shape}"
            )
        if array.dtype != first.dtype:
            raise DTypeError(
                f"images of a batch must have the same dtype; image 0 has {first.dtype}, image {i} has {array.dtype}"
            )
    base = first.base
    start = first.__array_interface__["data"][0]
    neighbours = (
        base is not None
        and first.flags.c_contiguous
        and all(
            a.base is base and a.flags.c_contiguous and a.__array_interface__["data"][0] == start + i * first.nbytes
            for i, a in enumerate(arrays)
        )
    )
    if neighbours:
        return np.lib.stride_tricks.as_strided(
            first, (len(arrays), *first.shape), (first.nbytes, *first.strides), writeable=first.flags.writeable
        )
    _core.nn_count_copy()
    return np.stack(arrays)


def dense(array: np.ndarray) -> np.ndarray:
    """Return the array if it is C-contiguous, otherwise a copy, which mpsgraph.copy_count counts."""
    if array.flags.c_contiguous:
        return array
    _core.nn_count_copy()
    return np.ascontiguousarray(array)


def batch_written_by(native: NDArray, buffer: CommandBuffer) -> ImageBatch:
    """Return a batch over an array that commands in `buffer` will write."""
    return ImageBatch._of(native, buffer)


def operand_of(batch: ImageBatch) -> NDArray:
    """Return the array of a batch for the core: the same memory, or a dense copy."""
    return batch._operand()


def unwaited_array(image: Image) -> np.ndarray:
    """Return the array of an image, which may not have been written yet."""
    return image._array


class LossLabels:
    """Labels of one image for a loss node, and optionally weights.

    Args:
        labels: float32 array of shape (channels,), or (height, width, channels) like the image that the loss reads. The
            channels may be padded with zeros to a multiple of four.
        weights: float32 array of the same shape, or one number. None (the default) means the weight of the loss
            descriptor.

    Attributes:
        loss_image: Loss of the image, available after the run.

    Raises:
        ShapeError: If an array has the wrong rank.
        DTypeError: If an array is not float32.

    Source: MPSCNNLossLabels.

    Example:
        >>> nn = mg.nngraph
        >>> labels = nn.LossLabels(np.eye(10, dtype=np.float32)[3])
        >>> labels.labels.shape
        (1, 1, 10)
    """

    def __init__(self, labels: Any, weights: Any = None) -> None:
        self.labels = _label_image(labels, "labels")
        self.weights = None if weights is None else _label_image(weights, "weights")
        self._loss: Image | None = None

    @property
    def loss_image(self) -> Image:
        """Loss of the image: 1 x 1 x 1, or with the shape of the labels for reduction_type="none".

        Reading the image before its command buffer has completed raises DeviceError.

        Raises:
            GraphError: If no batch with these labels has been encoded yet.

        Source: lossImage.
        """
        if self._loss is None:
            raise GraphError("these labels have no loss yet; pass them to encode_batch first")
        return self._loss


def _label_image(values: Any, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype != np.float32:
        if array.dtype.kind not in "fiub" or isinstance(values, np.ndarray):
            raise DTypeError(f"LossLabels: {what} must be float32, got {array.dtype}; convert them first")
        array = array.astype(np.float32)
    if array.ndim < 2:
        array = array.reshape(1, 1, -1)
    if array.ndim != 3:
        raise ShapeError(
            f"LossLabels: {what} must have shape (channels,) or (height, width, channels), got {array.shape}"
        )
    return array


class LossLabelsBatch(Sequence[LossLabels]):
    """Labels of a batch as one array, whose memory is shared.

    Args:
        labels: float32 array of shape (images, channels) or (images, height, width, channels).
        weights: float32 array of the same shape, or of shape (images,). None (the default) means the weight of the loss
            descriptor.

    Attributes:
        losses: Losses of the last encoded batch, available after its run.

    Raises:
        ShapeError: If an array has the wrong rank, or the numbers of labels and weights differ.
        DTypeError: If an array is not float32.

    Source: MPSStateBatch of MPSCNNLossLabels.

    Example:
        >>> nn = mg.nngraph
        >>> nn.LossLabelsBatch(np.eye(10, dtype=np.float32)[[3, 1, 4]]).labels.shape
        (3, 1, 1, 10)
    """

    def __init__(self, labels: Any, weights: Any = None) -> None:
        self.labels = _label_batch(labels, "labels")
        self.weights = None if weights is None else _label_batch(weights, "weights")
        if self.weights is not None and len(self.weights) != len(self.labels):
            raise ShapeError(
                f"LossLabelsBatch: expected one weight per image, got {len(self.labels)} labels and "
                f"{len(self.weights)} weights"
            )
        self._losses: ImageBatch | None = None

    @property
    def losses(self) -> ImageBatch:
        """Losses of the last encoded batch: [images, 1, 1, 1], or the labels' shape for reduction_type="none".

        Reading the batch before its command buffer has completed raises DeviceError.

        Raises:
            GraphError: If no batch with these labels has been encoded yet.
        """
        if self._losses is None:
            raise GraphError("these labels have no losses yet; pass them to encode_batch first")
        return self._losses

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        result = LossLabels(self.labels[index], None if self.weights is None else self.weights[index])
        result._loss = None if self._losses is None else self._losses[index]
        return result


def _label_batch(values: Any, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype != np.float32:
        raise DTypeError(f"LossLabelsBatch: {what} must be float32, got {array.dtype}; convert them first")
    if array.ndim in (1, 2):
        array = array.reshape(len(array), 1, 1, -1)
    if array.ndim != 4:
        raise ShapeError(
            f"LossLabelsBatch: {what} must have shape (images, channels) or (images, height, width, channels), got "
            f"{array.shape}"
        )
    return array


def label_arrays(batch: Any, images: int, buffer: CommandBuffer) -> tuple[NDArray, NDArray | None]:
    """Return labels and weights of a batch of source states as arrays; for the state of a dropout, return the mask and
    None.
    """
    if isinstance(batch, _core.NNParameterState):
        mask = batch.array_for("mask", buffer)
        if mask is None:
            raise GraphError(
                "a source state must be labels or a dropout's state with a 'mask', got a state with the arrays "
                f"{batch.names}"
            )
        return mask, None
    if isinstance(batch, LossLabelsBatch):
        _require_free([batch._losses])
        labels, weights = batch.labels, batch.weights
    else:
        states = list(batch)
        if not all(isinstance(s, LossLabels) for s in states):
            raise GraphError(
                "source_states must contain, for each loss, a LossLabelsBatch or a list of LossLabels, got "
                f"{shown(batch)}"
            )
        if not states:
            raise OutOfRangeError(f"expected labels for {images} images, got an empty list")
        _require_free([s._loss for s in states])
        for state in states:
            if state.labels.shape != states[0].labels.shape:
                raise ShapeError(
                    f"labels of a batch must have the same shape, got {states[0].labels.shape} and {state.labels.shape}"
                )
        with_weights = [s.weights is not None for s in states]
        if any(with_weights) != all(with_weights):
            raise GraphError("either all labels of a batch must have weights or none of them, got some of each")
        labels = np.stack([s.labels for s in states])
        weights = np.stack([s.weights for s in states]) if all(with_weights) else None
    if len(labels) != images:
        raise OutOfRangeError(f"expected labels for {images} images, got labels for {len(labels)}")
    return _core.asarray(dense(labels)), None if weights is None else _core.asarray(dense(weights))


def _require_free(losses: Sequence[ImageBatch | Image | None]) -> None:
    """Raise DeviceError if an earlier batch has not completed and will still write its losses to these labels."""
    for writer in (loss._written_by for loss in losses if loss is not None):
        if writer is not None and writer.status not in ("completed", "error"):
            raise DeviceError(
                "these labels are in use by another batch, whose command buffer has not completed; wait for it, or "
                "create separate labels for each batch in flight"
            )


def give_losses(batch: Any, losses: ImageBatch) -> None:
    """Attach to the labels the images that will hold their losses."""
    if isinstance(batch, LossLabelsBatch):
        batch._losses = losses
        return
    for state, image in zip(batch, losses, strict=True):
        state._loss = image
