"""Images, batches of them, and the labels of a batch: MPSImage, MPSImageBatch, MPSCNNLossLabels.

A batch is one array [images, height, width, feature channels], and its images are views of it, so that numpy arrays go
in and come out without a copy. Images that do not lie side by side are copied together, and the copy is counted
(`mpsgraph.copy_count`). What a graph writes can be read when its command buffer is done, and not before.
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
        f"{what}: {array.dtype} is no channel format; give float32, float16, uint8 (unorm8) or uint16 (unorm16)"
    )


class Image:
    """One image of height x width x feature channels. Source: MPSImage.

    Args: array, numpy or anything that numpy takes, [height, width] or [height, width, channels]; its dtype is the
    channel format: float32, float16, uint8 as unorm8 (0 to 255 stand for 0 to 1), uint16 as unorm16. Shares the array's
    memory. A PIL image is given as np.asarray(image). Errors: ShapeError, DTypeError.

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
                f"an Image is [height, width, channels] or [height, width] without a size of 0, got {values.shape}"
            )
        self.format = _format_of(values, "Image")
        self._array = values
        self._written_by: CommandBuffer | None = None

    @classmethod
    def empty(cls, height: int, width: int, feature_channels: int, format: str = "float32") -> Image:
        """An image of zeros. Errors: GraphError for an unknown format. Source: initWithDevice:imageDescriptor:."""
        if format not in _FORMATS:
            raise GraphError(f"format {shown(format)} is not one of {', '.join(_FORMATS)}")
        return cls(np.zeros((height, width, feature_channels), _FORMATS[format]))

    @property
    def height(self) -> int:
        """In pixels."""
        return int(self._array.shape[0])

    @property
    def width(self) -> int:
        """In pixels."""
        return int(self._array.shape[1])

    @property
    def feature_channels(self) -> int:
        """Numbers in each pixel."""
        return int(self._array.shape[2])

    def numpy(self) -> np.ndarray:
        """The pixels, [height, width, channels], without a copy. Errors: DeviceError while a command buffer that
        writes them is not done."""
        _require_written(self._written_by, "this image")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=True if copy else None) if copy or dtype else self.numpy()

    def read_bytes(self, data_layout: str = "height_x_width_x_feature_channels") -> np.ndarray:
        """A copy of the pixels in one of Apple's layouts: [height, width, channels], or, as
        "feature_channels_x_height_x_width", [channels, height, width]. Source: readBytes:dataLayout:imageIndex:."""
        return np.array(self.numpy().transpose(_axes(data_layout)), order="C")

    def write_bytes(self, data: Any, data_layout: str = "height_x_width_x_feature_channels") -> None:
        """Takes pixels in that layout. Errors: ShapeError, DTypeError. Source: writeBytes:dataLayout:imageIndex:."""
        values, there = np.asarray(data), self.numpy().transpose(_axes(data_layout))
        if values.shape != there.shape:
            raise ShapeError(f"write_bytes: the image is {there.shape} in this layout, got {values.shape}")
        if values.dtype != there.dtype:
            raise DTypeError(f"write_bytes: the image is {there.dtype}, got {values.dtype}; convert it first")
        there[...] = values

    def __repr__(self) -> str:
        return f"Image({self.height} x {self.width} x {self.feature_channels}, {self.format})"


def _axes(data_layout: str) -> tuple[int, int, int]:
    if data_layout == "height_x_width_x_feature_channels":
        return 0, 1, 2
    if data_layout == "feature_channels_x_height_x_width":
        return 2, 0, 1
    raise GraphError(
        f"data_layout {shown(data_layout)} is not height_x_width_x_feature_channels or "
        "feature_channels_x_height_x_width"
    )


def _require_written(buffer: CommandBuffer | None, what: str) -> None:
    if buffer is None:
        return
    if buffer.status not in ("completed", "error"):  # its handlers may be under way still
        raise DeviceError(f"{what} is written by a command buffer that is not done; commit it and wait for it first")
    if buffer.error is not None:
        raise DeviceError(f"{what} was not written: its command buffer failed: {buffer.error}") from buffer.error


class ImageBatch(Sequence[Image]):
    """Images of one size and format, one after the other. Source: MPSImageBatch.

    Args: images, an array [images, height, width, channels], whose memory is shared, or a sequence of images, which are
    shared where they lie side by side in one array, and else copied (counted by mpsgraph.copy_count). Indexing gives
    images, which are views. Errors: ShapeError for images of different sizes, DTypeError for different formats.

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
                "an ImageBatch is [images, height, width, channels] without a size of 0, or images, got "
                f"{self._array.shape}"
            )
        self.format = _format_of(self._array, "ImageBatch")

    @classmethod
    def _of(cls, native: NDArray, buffer: CommandBuffer) -> ImageBatch:
        """What `buffer` writes."""
        batch = cls.__new__(cls)
        batch._native, batch._written_by, batch._array = native, buffer, np.from_dlpack(native)
        batch.format = _format_of(batch._array, "ImageBatch")
        return batch

    @property
    def array(self) -> np.ndarray:
        """The batch, [images, height, width, channels], also while it is not written yet."""
        return self._array

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(images, height, width, channels)."""
        images, height, width, channels = self._array.shape
        return images, height, width, channels

    def numpy(self) -> np.ndarray:
        """The pixels without a copy. Errors: DeviceError while a command buffer that writes them is not done."""
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
            raise IndexError(f"image {index} of a batch of {len(self)}")
        image = Image(self._array[index])
        image._written_by = self._written_by
        return image

    def __iter__(self) -> Iterator[Image]:
        return (self[i] for i in range(len(self)))

    def _operand(self) -> NDArray:
        return self._native if self._native is not None else _core.asarray(dense(self._array))

    def _tensor_data(self, command_buffer: CommandBuffer | None, written: bool) -> NDArray:
        """What a core graph reads or writes for it: the same memory, or of unorm formats float32 from 0 to 1."""
        before = self._written_by
        if before is not None and not (command_buffer is not None and before.queue is command_buffer.queue):
            _require_written(before, "this batch")  # what is encoded to one queue runs in turn
        if self.format not in ("unorm8", "unorm16"):
            return self._native if self._native is not None else _core.asarray(self._array, copy=False)
        if written:
            raise DTypeError(
                f"results are floats and cannot be written into an ImageBatch of format {self.format}; give one of "
                "format float32"
            )
        _core.nn_count_copy()
        return _core.asarray(self._array * np.float32(1 / np.iinfo(self._array.dtype).max))

    def _note_writer(self, command_buffer: CommandBuffer) -> None:
        self._written_by = command_buffer

    def __repr__(self) -> str:
        return "ImageBatch({} of {} x {} x {}, {})".format(*self.shape, self.format)


def _together(images: Sequence[Image]) -> np.ndarray:
    """The images as one array: a view where they are neighbours in memory, else a copy."""
    arrays = [image._array for image in images]
    for image in images:
        _require_written(image._written_by, "an image of this batch")
    first = arrays[0]
    for i, array in enumerate(arrays):
        if array.shape != first.shape:
            raise ShapeError(f"images of a batch have one size: image 0 is {first.shape}, image {i} is {array.shape}")
        if array.dtype != first.dtype:
            raise DTypeError(f"images of a batch have one format: image 0 is {first.dtype}, image {i} is {array.dtype}")
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
    """As devices take it; a copy, which is counted, where it lies otherwise."""
    if array.flags.c_contiguous:
        return array
    _core.nn_count_copy()
    return np.ascontiguousarray(array)


class LossLabels:
    """The labels of one image, and perhaps weights, for a loss node. Source: MPSCNNLossLabels.

    Args: labels, float32 [channels], or [height, width, channels] of the image that the loss reads; its channels may be
    filled up to a multiple of four with zeros. weights, of the same shape, or one number. After the run `loss_image`
    holds the image's loss. Errors: ShapeError, DTypeError.

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
        """The loss: 1 x 1 x 1, or an image like the labels when nothing is reduced. Errors: GraphError before it was
        encoded; reading the image before the command buffer is done, DeviceError. Source: lossImage."""
        if self._loss is None:
            raise GraphError("these labels have been in no batch yet: encode a graph with them first")
        return self._loss


def _label_image(values: Any, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype != np.float32:
        if array.dtype.kind not in "fiub" or isinstance(values, np.ndarray):
            raise DTypeError(f"LossLabels: {what} are float32, got {array.dtype}; convert them first")
        array = array.astype(np.float32)
    if array.ndim < 2:
        array = array.reshape(1, 1, -1)
    if array.ndim != 3:
        raise ShapeError(f"LossLabels: {what} are [channels] or [height, width, channels], got {array.shape}")
    return array


class LossLabelsBatch(Sequence[LossLabels]):
    """The labels of a batch as one array, which is shared: an MPSStateBatch of MPSCNNLossLabels.

    Args: labels, float32 [images, channels] or [images, height, width, channels]; weights, likewise, or [images].
    `losses` are those of the last encode. Errors: ShapeError, DTypeError.

    >>> nn = mg.nngraph
    >>> nn.LossLabelsBatch(np.eye(10, dtype=np.float32)[[3, 1, 4]]).labels.shape
    (3, 1, 1, 10)
    """

    def __init__(self, labels: Any, weights: Any = None) -> None:
        self.labels = _label_batch(labels, "labels")
        self.weights = None if weights is None else _label_batch(weights, "weights")
        if self.weights is not None and len(self.weights) != len(self.labels):
            raise ShapeError(f"LossLabelsBatch: {len(self.labels)} labels and {len(self.weights)} weights")
        self._losses: ImageBatch | None = None

    @property
    def losses(self) -> ImageBatch:
        """[images, 1, 1, 1], or like the labels when nothing is reduced. Errors: as of LossLabels.loss_image."""
        if self._losses is None:
            raise GraphError("these labels have been in no batch yet: encode a graph with them first")
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
        raise DTypeError(f"LossLabelsBatch: {what} are float32, got {array.dtype}; convert them first")
    if array.ndim in (1, 2):
        array = array.reshape(len(array), 1, 1, -1)
    if array.ndim != 4:
        raise ShapeError(
            f"LossLabelsBatch: {what} are [images, channels] or [images, height, width, channels], got {array.shape}"
        )
    return array


def label_arrays(batch: Any, images: int, buffer: CommandBuffer) -> tuple[NDArray, NDArray | None]:
    """Labels and weights of a state batch as arrays for `images` images; the mask of a dropout's state."""
    if isinstance(batch, _core.NNParameterState):
        mask = batch.array_for("mask", buffer)
        if mask is None:
            raise GraphError(f"a source state is labels or a dropout's state with a mask, this one has {batch.names}")
        return mask, None
    if isinstance(batch, LossLabelsBatch):
        _require_free([batch._losses])
        labels, weights = batch.labels, batch.weights
    else:
        states = list(batch)
        if not all(isinstance(s, LossLabels) for s in states):
            raise GraphError("a batch of source states is a LossLabelsBatch or a list of LossLabels")
        if not states:
            raise OutOfRangeError(f"there are labels for 0 images, {images} came")
        _require_free([s._loss for s in states])
        for state in states:
            if state.labels.shape != states[0].labels.shape:
                raise ShapeError(
                    f"labels of a batch have one size, got {states[0].labels.shape} and {state.labels.shape}"
                )
        with_weights = [s.weights is not None for s in states]
        if any(with_weights) != all(with_weights):
            raise GraphError("either all labels of a batch have weights or none has")
        labels = np.stack([s.labels for s in states])
        weights = np.stack([s.weights for s in states]) if all(with_weights) else None
    if len(labels) != images:
        raise OutOfRangeError(f"there are labels for {len(labels)} images, {images} came")
    return _core.asarray(dense(labels)), None if weights is None else _core.asarray(dense(weights))


def _require_free(losses: Sequence[ImageBatch | Image | None]) -> None:
    """Labels hold the losses of one batch, which the next would take away before they are there."""
    for writer in (loss._written_by for loss in losses if loss is not None):
        if writer is not None and writer.status not in ("completed", "error"):
            raise DeviceError(
                "these labels belong to another batch, whose command buffer is not done: wait for it, or take other "
                "labels for each batch that is under way"
            )


def give_losses(batch: Any, losses: ImageBatch) -> None:
    """Lets labels know the images that their losses are written to."""
    if isinstance(batch, LossLabelsBatch):
        batch._losses = losses
        return
    for state, image in zip(batch, losses, strict=True):
        state._loss = image
