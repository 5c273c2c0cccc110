"""Test matrices, vectors, and the converters between image batches and matrices."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import NAME
from harness.recurrent_layers import Queue
from mpsgraph.nngraph import (
    DataLayout,
    Image,
    ImageCopyToMatrix,
    Matrix,
    MatrixCopyToImage,
    MatrixDescriptor,
    Vector,
    VectorDescriptor,
)

pytestmark = pytest.mark.both_devices
HWC, CHW = DataLayout.height_x_width_x_feature_channels, DataLayout.feature_channels_x_height_x_width


def test_matrix_shares_memory_with_its_array():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    copies = mg.copy_count()
    middle = Matrix(array[:, 1])
    assert (middle.rows, middle.columns, middle.matrices, middle.row_bytes) == (2, 4, 1, 48)
    middle.numpy()[:] = 0
    assert not array[:, 1].any()
    whole = Matrix(array)
    assert (whole.matrices, whole.rows, whole.columns, whole.matrix_bytes) == (2, 3, 4, 48)
    assert whole.array.numpy().base is not None and np.shares_memory(whole.numpy(), array)
    assert mg.copy_count() == copies


def test_matrix_from_descriptor_is_zero_with_padded_rows():
    matrix = Matrix(NAME, MatrixDescriptor(3, 4, row_bytes=32, data_type="float16", matrices=2, matrix_bytes=128))
    assert matrix.numpy().shape == (2, 3, 4) and not matrix.numpy().any()
    assert matrix.numpy().strides == (128, 32, 2) and matrix.data_type is mg.float16
    assert repr(matrix) == "Matrix(3 x 4, float16)"


def test_matrices_at_offsets_are_views_of_a_buffer():
    buffer = np.arange(60, dtype=np.float32)
    descriptor = MatrixDescriptor(3, 4, row_bytes=80)
    second = Matrix(buffer, descriptor, 16)
    np.testing.assert_array_equal(second.numpy(), buffer.reshape(3, 5, 4)[:, 1])
    assert second.offset == 16
    with pytest.raises(mg.ShapeError, match="does not lie within its buffer of 240 bytes"):
        Matrix(buffer, descriptor, 80)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Matrix(NAME, MatrixDescriptor(-1, 2)), mg.ShapeError, "rows must be from 0"),
        (
            lambda: Matrix(NAME, MatrixDescriptor(2, 2, row_bytes=4)),
            mg.ShapeError,
            "row_bytes must be at least 8 .* got 4",
        ),
        (lambda: Matrix(NAME, MatrixDescriptor(2, 2, row_bytes=10)), mg.ShapeError, "multiple of the element size 4"),
        (
            lambda: Matrix(NAME, MatrixDescriptor(2, 2, matrix_bytes=4)),
            mg.ShapeError,
            "matrix_bytes must be at least 16 .* got 4",
        ),
        (lambda: Matrix(NAME, MatrixDescriptor(2, 2, matrices=0)), mg.ShapeError, "matrices must be from 1"),
        (
            lambda: Matrix(NAME, MatrixDescriptor(2, 2, data_type="bool")),
            mg.DTypeError,
            "float or integer type .* got bool",
        ),
        (lambda: Matrix("tpu", MatrixDescriptor(2, 2)), mg.DeviceError, "tpu"),
        (lambda: Matrix(np.zeros(4, np.float32), 3), mg.GraphError, "must be a MatrixDescriptor"),
        (lambda: Matrix(np.zeros(4, np.float32)), mg.ShapeError, r"must have shape \[rows, columns\]"),
        (lambda: Matrix(np.zeros((4, 4), np.float32)[:, ::2]), mg.ShapeError, "must be adjacent in memory"),
        (lambda: Matrix(np.zeros((4, 4), np.float32)[::-1]), mg.ShapeError, "must not be negative"),
        (lambda: Matrix([[1.0]]), mg.ShapeError, "must be an array whose memory can be shared"),
        (
            lambda: Matrix(np.zeros(8, np.float32), MatrixDescriptor(1, 1), 2),
            mg.ShapeError,
            "multiple of the element size 4",
        ),
        (
            lambda: Vector(NAME, VectorDescriptor(3, vector_bytes=4, vectors=2)),
            mg.ShapeError,
            "vector_bytes must be at least 12 .* got 4",
        ),
        (lambda: Vector(NAME, VectorDescriptor(-3)), mg.ShapeError, "length must be from 0"),
        (lambda: Vector(np.zeros(4, np.float32), 3), mg.GraphError, "must be a VectorDescriptor"),
        (lambda: Vector(np.zeros(4, np.float32)[::2]), mg.ShapeError, "must be adjacent in memory"),
        (lambda: Vector(np.zeros((1, 1, 1), np.float32)), mg.ShapeError, r"must have shape \[length\]"),
    ],
)
def test_invalid_matrices_and_vectors_raise(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_vectors_share_memory_or_start_with_zeros():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    vectors = Vector(array)
    assert (vectors.length, vectors.vectors, vectors.vector_bytes) == (3, 2, 12)
    vectors.numpy()[1] = 9
    assert array[1].tolist() == [9, 9, 9]
    part = Vector(array, VectorDescriptor(2), 4)
    assert part.numpy().tolist() == [1, 2] and part.offset == 4
    zeros = Vector(NAME, VectorDescriptor(5, "float16"))
    assert zeros.data_type is mg.float16 and repr(zeros) == "Vector(5, float16)" and not zeros.numpy().any()


# --- converters -------------------------------------------------------------------------------------------------------


def as_rows(images: np.ndarray, layout: DataLayout) -> np.ndarray:
    return (images if layout is HWC else images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", DataLayout)
def test_images_convert_to_matrix_rows_and_back(layout, dtype, rng):
    images = rng.uniform(-1, 1, (3, 2, 4, 5)).astype(dtype)
    wide = np.full((2, 6, 50), 7, dtype)
    matrix = Matrix(wide)
    there, back = ImageCopyToMatrix(NAME, layout), MatrixCopyToImage(NAME, layout)
    there.destination_matrix_origin = back.source_matrix_origin = (2, 4)
    there.destination_matrix_batch_index = back.source_matrix_batch_index = 1
    again = np.zeros_like(images)
    with Queue() as buffer:
        there.encode_batch(buffer, mg.asarray(images), matrix)
        back.encode_batch(buffer, matrix, again)
        assert (wide == 7).all()  # Nothing has run yet.
    np.testing.assert_array_equal(wide[1, 2:5, 4:44], as_rows(images, layout))
    assert (wide[0] == 7).all() and (wide[1, :2] == 7).all() and (wide[1, 2:5, 44:] == 7).all()
    np.testing.assert_array_equal(again, images)


@pytest.mark.parametrize("layout", DataLayout)
def test_lists_of_images_convert_to_matrix_rows_and_back(layout, rng):
    images = rng.uniform(-1, 1, (3, 2, 4, 5)).astype(np.float32)
    rows, again = np.zeros((4, 40), np.float32), [Image.empty(2, 4, 5) for _ in images]
    there, back = ImageCopyToMatrix(NAME, layout), MatrixCopyToImage(NAME, layout)
    there.destination_matrix_origin = back.source_matrix_origin = (1, 0)
    with Queue() as buffer:
        there.encode_batch(buffer, [Image(image) for image in images], Matrix(rows))
        back.encode_batch(buffer, Matrix(rows), again)
    np.testing.assert_array_equal(rows[1:], as_rows(images, layout))
    np.testing.assert_array_equal([image.numpy() for image in again], images)


def test_strided_image_batches_convert_to_rows(rng):
    class Batch:
        array = rng.uniform(-1, 1, (2, 4, 4, 3)).astype(np.float32)[:, ::2]

    rows = np.zeros((2, 24), np.float32)
    with Queue() as buffer:
        ImageCopyToMatrix(NAME, CHW).encode_batch(buffer, Batch(), Matrix(rows))
    np.testing.assert_array_equal(rows, as_rows(Batch.array, CHW))


def test_invalid_image_and_matrix_copies_raise():
    images, rows = np.zeros((2, 2, 2, 3), np.float32), np.zeros((2, 12), np.float32)
    copy = ImageCopyToMatrix(NAME)
    buffer = mg.CommandQueue(NAME).command_buffer()
    with pytest.raises(mg.ShapeError, match=r"need 2 row\(s\) and 12 column\(s\) starting at row 1"):
        copy.destination_matrix_origin = (1, 0)
        copy.encode_batch(buffer, images, Matrix(rows))
    copy.destination_matrix_origin = (0, 0)
    with pytest.raises(mg.ShapeError, match=r"images must have shape \[N, H, W, C\]"):
        copy.encode_batch(buffer, images[0], Matrix(rows))
    with pytest.raises(mg.DTypeError, match="must have the same dtype"):
        copy.encode_batch(buffer, images.astype(np.float16), Matrix(rows))
    with pytest.raises(mg.DeviceError, match="share memory"):
        copy.encode_batch(buffer, rows.reshape(2, 2, 2, 3), Matrix(rows))
    with pytest.raises(mg.ShapeError, match="matrix index 1 is out of range"):
        copy.destination_matrix_batch_index = 1
        copy.encode_batch(buffer, images, Matrix(rows))
    images.flags.writeable = False
    with pytest.raises(mg.DeviceError, match="read-only"):
        MatrixCopyToImage(NAME).encode_batch(buffer, Matrix(rows), images)
    with pytest.raises(mg.GraphError, match="data_layout must be a DataLayout"):
        ImageCopyToMatrix(NAME, 2)
    with pytest.raises(mg.DeviceError):
        ImageCopyToMatrix("tpu")
    buffer.commit()
    with pytest.raises(mg.DeviceError, match="already been committed"):
        ImageCopyToMatrix(NAME).encode_batch(buffer, images, Matrix(rows))
