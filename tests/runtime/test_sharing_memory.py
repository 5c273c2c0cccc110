"""Test the exchange of arrays with numpy and DLPack: sharing, copying, rejection, and lifetime of the memory."""

import gc
import sys
from collections.abc import Iterator

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices

DTYPES = "float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()


@pytest.fixture
def copies() -> Iterator[object]:
    """Return a function that returns the number of copies since its last call."""
    last = mg.copy_count()

    def since() -> int:
        nonlocal last
        now, before = mg.copy_count(), last
        last = now
        return now - before

    yield since


def doubler() -> tuple[mg.Graph, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    return g, x, x * 2


def unaligned(values: list[float]) -> np.ndarray:
    return np.frombuffer(b"\0" + np.float32(values).tobytes(), np.uint8)[1:].view(np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_shares_memory_with_numpy_in_both_directions(dtype, copies):
    array = np.ones((2, 3), dtype)
    ours = mg.asarray(array)
    assert str(ours.dtype) == dtype and ours.shape == (2, 3) and ours.strides == array.strides
    for view in (ours.numpy(), np.asarray(ours), np.from_dlpack(ours), mg.from_dlpack(array).numpy()):
        assert view.dtype == array.dtype
        assert np.shares_memory(view, array)
    assert copies() == 0


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-1], np.s_[1:, None], np.s_[0:0], np.s_[3]])
def test_strided_views_share_memory_with_numpy(view, copies):
    array = np.arange(12, dtype=np.float32).reshape(6, 2)[view]
    ours = mg.asarray(array)
    assert ours.tolist() == array.tolist()
    assert np.from_dlpack(ours).tolist() == array.tolist()
    assert array.size == 0 or np.shares_memory(ours.numpy(), array)
    assert copies() == 0


def test_feeds_and_results_are_shared(copies):
    g, x, y = doubler()
    fed, written = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    result = g.run({x: fed}, y, results=written, copy=False)
    assert written.tolist() == [0, 2, 4]
    assert np.shares_memory(result.numpy(), written)
    assert copies() == 0


def test_unshareable_feeds_are_copied_and_counted_or_raise(copies):
    g, x, y = doubler()
    strided = np.arange(6, dtype=np.float32)[::2]
    for array in (strided, unaligned([0, 2, 4]), np.array([0, 2, 4], ">f4")):
        assert g.run({x: array}, y).tolist() == [0, 4, 8]
        assert copies() == 1
        with pytest.raises(mg.ShapeError, match="copy=False"):
            g.run({x: array}, y, copy=False)
    with pytest.raises(mg.ShapeError, match="copy=False"):
        mg.asarray([1.0, 2.0], copy=False)
    assert copies() == 0
    fresh = mg.asarray(strided, copy=True)
    assert copies() == 1 and not np.shares_memory(fresh.numpy(), strided)


def test_python_values_take_dtype_of_placeholder():
    g, x, y = doubler()
    assert g.run({x: [1, 2.5]}, y).tolist() == [2, 5]
    n = g.placeholder((), mg.int8)
    assert g.run({n: 3}, n + 1).item() == 4
    for wrong in (0.5, 300, True):
        with pytest.raises(mg.DTypeError):
            g.run({n: wrong}, n)


def test_feeds_are_not_implicitly_cast():
    g, x, y = doubler()
    for wrong in (np.zeros(3), np.zeros(3, np.int32), mg.NDArray((3,), mg.float16), np.zeros(3, np.complex64)):
        with pytest.raises(mg.DTypeError):
            g.run({x: wrong}, y)
    with pytest.raises(mg.DTypeError, match="float64"):
        g.run({x: np.zeros(3, np.float32)}, y, results=np.zeros(3))


def test_results_must_be_writable_contiguous_and_disjoint():
    g, x, y = doubler()
    fed, fixed = np.ones(3, np.float32), np.zeros(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(mg.DeviceError, match="read-only"):
        g.run({x: fed}, y, results=fixed)
    with pytest.raises(mg.ShapeError, match="contiguous"):
        g.run({x: fed}, y, results=np.zeros(6, np.float32)[::2])
    with pytest.raises(mg.ShapeError):
        g.run({x: fed}, y, results=np.zeros(4, np.float32))
    with pytest.raises(mg.DeviceError, match="shares memory"):
        g.run({x: fed}, y, results=fed)
    assert fed.tolist() == [1, 1, 1] and fixed.tolist() == [0, 0, 0]
    assert g.run({x: fixed}, y).tolist() == [0, 0, 0]


def test_read_only_arrays_stay_read_only():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    ours = mg.asarray(array)
    assert not ours.writable and not ours.numpy().flags.writeable
    assert not np.from_dlpack(ours).flags.writeable
    with pytest.raises(BufferError):
        ours.__dlpack__()  # the old protocol has no read-only flag
    with pytest.raises(mg.DeviceError, match="read-only"):
        ours.copy_from(np.zeros(3, np.float32))


def test_array_view_keeps_its_memory_alive():
    g, x, y = doubler()
    view = g.run({x: np.ones(5, np.float32)}, y).numpy()
    borrowed = mg.asarray(np.arange(4))
    capsule = np.from_dlpack(mg.asarray(np.arange(5)))
    del g, x, y
    gc.collect()
    assert view.sum() == 10 and borrowed.tolist() == [0, 1, 2, 3] and capsule.sum() == 10


def test_array_memory_is_released_after_last_use():
    g, x, y = doubler()
    array = np.ones(3, np.float32)
    count = sys.getrefcount(array)
    g.run({x: array}, y)
    assert sys.getrefcount(array) == count
    views = [mg.asarray(array), mg.from_dlpack(array), np.from_dlpack(mg.asarray(array)), mg.asarray(array).numpy()]
    assert sys.getrefcount(array) == count + len(views)
    views.clear()
    gc.collect()
    assert sys.getrefcount(array) == count


def test_array_changes_are_visible_in_shared_numpy_array():
    array = np.zeros(3, np.float32)
    ours = mg.asarray(array)
    array[0] = 5
    ours.numpy()[1] = 6
    ours[2] = 7
    assert ours.tolist() == array.tolist() == [5, 6, 7]


@pytest.mark.parametrize("shape", [-1, float("nan"), float("inf"), 2**70, 2**62, (2**40, 2**40), 2**46, "3", (1,) * 17])
def test_invalid_array_sizes_raise(shape):
    with pytest.raises((mg.ShapeError, mg.DeviceError)):
        mg.NDArray(shape)
    assert mg.NDArray(3).tolist() == [0, 0, 0]


def test_scalar_arrays_convert_to_python_numbers():
    one = mg.asarray(np.float32(2.5))
    assert (float(one), int(one), one.item(), one.shape, bool(one)) == (2.5, 2, 2.5, (), True)
    with pytest.raises(ValueError):
        float(mg.NDArray((2,)))
    with pytest.raises(TypeError):
        len(one)


def test_bfloat16_is_exchanged_as_bits_or_ml_dtypes():
    g = mg.Graph()
    x = g.placeholder((2,), mg.bfloat16)
    bits = np.array([0x3F80, 0x4000], np.uint16)  # 1.0, 2.0
    result = g.run({x: bits}, g.cast(x + x, mg.float32))
    assert result.tolist() == [2, 4]
    assert mg.asarray([1.0], mg.bfloat16).numpy().view(np.uint16).tolist() == [0x3F80]
