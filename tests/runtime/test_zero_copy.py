"""Test zero copy with numpy and DLPack in both directions: sharing, copying, errors, lifetime, and the copy counter.

DLPack is tested with numpy's implementation, which checks its arguments strictly.
"""

from __future__ import annotations

import gc
import weakref

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices


def address(array) -> int:
    return np.asarray(array).__array_interface__["data"][0]


class Copies:
    """Counts copies within a `with` block; the result is in `made`."""

    def __enter__(self) -> Copies:
        self._before = mg.copy_count()
        return self

    def __exit__(self, *_) -> None:
        self.made = mg.copy_count() - self._before


@pytest.fixture
def doubling() -> tuple[mg.Graph, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x = g.placeholder((-1,), name="x")
    return g, x, x * 2


# --- share ------------------------------------------------------------------------------------------------------------
def test_numpy_returns_a_view_of_the_array():
    array = mg.NDArray((2, 3), mg.float32)
    view = array.numpy()
    view[1, 2] = 7
    assert array.tolist()[1][2] == 7 and address(view) == address(array.numpy())
    assert (view.shape, view.dtype, view.strides) == (array.shape, np.float32, array.strides)
    with Copies() as copies:
        assert address(np.asarray(array)) == address(view)
    assert copies.made == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint16", "uint64", "bool"])
def test_asarray_shares_every_dtype(dtype: str):
    source = np.arange(6).reshape(2, 3).astype(dtype)
    with Copies() as copies:
        array = mg.asarray(source)
    assert copies.made == 0 and address(array) == address(source)
    source[0, 1] = 0
    assert array.tolist() == source.tolist() and str(array.dtype) == dtype


def test_asarray_shares_views_of_any_strides():
    source = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (source[::2, 1::2], source.T, source[::-1], np.broadcast_to(source[0], (3, 6)), source[:0]):
        with Copies() as copies:
            array = mg.asarray(view)
        assert copies.made == 0
        np.testing.assert_array_equal(array.numpy(), view)
        if view.size:
            assert address(array) == address(view) and array.strides == view.strides


def test_feeding_contiguous_array_copies_nothing(doubling):
    g, x, y = doubling
    with Copies() as copies:
        for source in (np.ones(100, np.float32), np.ones((10, 10), np.float32)[3], mg.NDArray((5,), mg.float32)):
            g.run({x: source}, y)
    assert copies.made == 0


def test_placeholder_target_is_shared_or_copied_consistently(doubling):
    """The result may share memory with the feed or not, but must be correct in both cases."""
    g, x, _ = doubling
    source = np.array([1.0, 2.0], np.float32)
    result = g.run({x: source}, x)
    assert result.tolist() == [1, 2]


def test_results_are_written_into_given_arrays(doubling):
    g, x, y = doubling
    target = np.zeros(3, np.float32)
    with Copies() as copies:
        result = g.run({x: np.array([1, 2, 3], np.float32)}, y, results=target)
    assert copies.made == 0 and target.tolist() == [2, 4, 6] and address(result) == address(target)
    array = mg.NDArray((3,), mg.float32)
    g.run({x: target}, [y], results={y: array})
    assert array.tolist() == [4, 8, 12]


def test_results_can_be_preallocated_for_some_targets(doubling):
    g, x, y = doubling
    z = x + 1
    target = np.zeros(2, np.float32)
    found = g.run({x: np.array([1, 2], np.float32)}, [y, z], results={z: target})
    assert found[y].tolist() == [2, 4] and found[z].tolist() == target.tolist() == [2, 3]


def test_result_view_leaves_surrounding_memory_unchanged(doubling):
    g, x, y = doubling
    memory = np.full(10, -1, np.float32)
    g.run({x: np.ones(4, np.float32)}, y, results=memory[3:7])
    assert memory.tolist() == [-1] * 3 + [2] * 4 + [-1] * 3


# --- copy -------------------------------------------------------------------------------------------------------------
def test_copy_true_always_copies():
    source = np.arange(3, dtype=np.float32)
    with Copies() as copies:
        array = mg.asarray(source, copy=True)
    source[:] = -1
    assert copies.made == 1 and array.tolist() == [0, 1, 2]


def test_strided_feeds_are_copied_and_counted(doubling):
    g, x, y = doubling
    with Copies() as copies:
        result = g.run({x: np.arange(10, dtype=np.float32)[::2]}, y)
    assert copies.made == 1 and result.tolist() == [0, 4, 8, 12, 16]


def test_lists_and_numbers_are_converted_and_counted(doubling):
    g, x, y = doubling
    with Copies() as copies:
        assert g.run({x: [1, 2.5]}, y).tolist() == [2, 5]
    assert copies.made == 1


def test_byte_swapped_and_unaligned_arrays_are_copied(doubling):
    g, x, y = doubling
    swapped = np.array([1, 2], ">f4")
    unaligned = np.zeros(9, np.uint8)[1:].view(np.float32)
    unaligned[:] = [3, 4]
    for source, wanted in ((swapped, [2, 4]), (unaligned, [6, 8])):
        with Copies() as copies:
            assert g.run({x: source}, y).tolist() == wanted
        assert copies.made == 1
        with pytest.raises(mg.ShapeError, match="copy=False"):
            mg.asarray(source, copy=False)


def test_array_copies_are_independent():
    array = mg.asarray(np.arange(6, dtype=np.int32).reshape(2, 3)[:, ::2])
    with Copies() as copies:
        copy = array.copy()
    copy[0, 0] = 9
    assert copies.made == 1 and copy.contiguous and array.tolist() == [[0, 2], [3, 5]]
    array.copy_from(copy)
    assert array.tolist() == [[9, 2], [3, 5]]
    assert np.array(array, copy=True).tolist() == array.tolist()


def test_copy_from_mismatched_array_raises():
    array = mg.NDArray((2,), mg.float32)
    with pytest.raises(mg.ShapeError):
        array.copy_from(np.zeros(3, np.float32))
    with pytest.raises(mg.DTypeError):
        array.copy_from(np.zeros(2))
    assert array.tolist() == [0, 0]


# --- errors -----------------------------------------------------------------------------------------------------------
def test_copy_false_raises_if_a_copy_is_needed(doubling):
    g, x, y = doubling
    with Copies() as copies:
        for source in (np.arange(10, dtype=np.float32)[::2], [1.0, 2.0]):
            with pytest.raises(mg.ShapeError, match="copy=False"):
                g.run({x: source}, y, copy=False)
        assert g.run({x: np.ones(2, np.float32)}, y, copy=False).tolist() == [2, 2]
        with pytest.raises(mg.DTypeError, match="astype"):
            mg.asarray(np.ones(2), mg.float32, copy=False)
        with pytest.raises(ValueError, match="copy"):
            np.array(mg.NDArray((2,), mg.float32), dtype=np.float64, copy=False)
    assert copies.made == 0


def test_read_only_memory_is_never_written(doubling):
    g, x, y = doubling
    source = np.ones(2, np.float32)
    source.flags.writeable = False
    array = mg.asarray(source)
    assert not array.writable and not array.numpy().flags.writeable
    with Copies() as copies:
        assert g.run({x: array}, y).tolist() == [2, 2]
    assert copies.made == 0
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5
    with pytest.raises(mg.Error):
        array.copy_from(np.zeros(2, np.float32))
    with pytest.raises(mg.Error):
        g.run({x: np.ones(2, np.float32)}, y, results=array)
    assert source.tolist() == [1, 1]


# --- lifetime ---------------------------------------------------------------------------------------------------------
class Owned(np.ndarray):
    """An array that supports weak references, which numpy's own class does not."""


def owned(count: int) -> Owned:
    return np.ones(count, np.float32).view(Owned)


def test_borrowed_numpy_array_lives_as_long_as_the_ndarray():
    source = owned(4)
    alive = weakref.ref(source)
    array = mg.asarray(source)
    del source
    gc.collect()
    assert alive() is not None and array.tolist() == [1] * 4
    view = array.numpy()
    del array
    gc.collect()
    assert alive() is not None and view.tolist() == [1] * 4
    del view
    gc.collect()
    assert alive() is None


def test_feed_is_released_after_the_run(doubling):
    g, x, y = doubling
    source = owned(4)
    alive = weakref.ref(source)
    result = g.run({x: source}, y)
    del source
    gc.collect()
    assert alive() is None and result.tolist() == [2] * 4


def test_feed_lives_while_its_run_is_in_flight(doubling):
    g, x, y = doubling
    event = mg.SharedEvent()
    descriptor = mg.ExecutionDescriptor()
    descriptor.wait_for_event(event, 1)
    source = owned(1000)
    alive = weakref.ref(source)
    execution = g.run_async({x: source}, y, descriptor=descriptor)
    del source
    gc.collect()
    assert alive() is not None, "the run has not started and will read the feed"
    event.signal(1)
    assert execution.results.tolist() == [2] * 1000
    del execution
    gc.collect()
    assert alive() is None


def test_numpy_view_keeps_its_array_alive():
    array = mg.NDArray((1000,), mg.float32)
    part = array[10:20]
    part[:] = 3
    del array
    gc.collect()
    others = [mg.NDArray((1000,), mg.float32) for _ in range(10)]
    assert part.tolist() == [3] * 10 and all(not any(o.tolist()) for o in others)


def test_results_outlive_graph_and_executable(doubling):
    g, x, y = doubling
    result = g.run({x: np.ones(3, np.float32)}, y).numpy()
    del g, x, y, doubling
    gc.collect()
    assert result.tolist() == [2] * 3


def test_results_of_two_runs_are_separate(doubling):
    g, x, y = doubling
    first = g.run({x: np.array([1.0], np.float32)}, y)
    second = g.run({x: np.array([2.0], np.float32)}, y)
    assert address(first) != address(second) and first.tolist() == [2]


# --- DLPack -----------------------------------------------------------------------------------------------------------
def test_dlpack_export_to_numpy_shares_memory():
    array = mg.NDArray((2, 3), mg.float32)
    with Copies() as copies:
        other = np.from_dlpack(array)
    other_address = address(other)
    array[1, 1] = 5
    assert copies.made == 0 and other[1, 1] == 5 and other_address == address(array)
    assert array.__dlpack_device__() == (1, 0)


def test_dlpack_import_from_numpy_shares_memory():
    source = np.arange(6, dtype=np.int16).reshape(2, 3)
    for view in (source, source.T, source[:, ::2]):
        with Copies() as copies:
            array = mg.from_dlpack(view)
        assert copies.made == 0 and address(array) == address(view)
        np.testing.assert_array_equal(array.numpy(), view)
    source[0, 0] = 9
    assert array.tolist()[0][0] == 9


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int32", "uint8", "uint64", "bool"])
def test_every_dtype_round_trips_through_dlpack(dtype: str):
    source = np.array([0, 1, 2]).astype(dtype)
    back = np.from_dlpack(mg.from_dlpack(source))
    assert back.dtype == source.dtype and address(back) == address(source)


def test_dlpack_keeps_shared_memory_alive():
    source = owned(4)
    alive = weakref.ref(source)
    array = mg.from_dlpack(source)
    del source
    other = np.from_dlpack(array)
    del array
    gc.collect()
    assert alive() is not None and other.tolist() == [1] * 4
    del other
    gc.collect()
    assert alive() is None


def test_unused_dlpack_capsule_is_freed():
    source = owned(4)
    alive = weakref.ref(source)
    array = mg.asarray(source)
    capsule = array.__dlpack__(max_version=(1, 0))
    old = array.__dlpack__()
    del source, array
    gc.collect()
    assert alive() is not None
    del capsule, old
    gc.collect()
    assert alive() is None


def test_dlpack_copies_only_on_request():
    array = mg.NDArray((2,), mg.float32)
    with Copies() as copies:
        copied = np.from_dlpack(array, copy=True)
    array[0] = 1
    assert copies.made == 1 and copied.tolist() == [0, 0]


def test_dlpack_preserves_read_only_flag():
    source = np.ones(2, np.float32)
    source.flags.writeable = False
    array = mg.asarray(source)
    assert not np.from_dlpack(array).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__()


def test_invalid_dlpack_objects_raise():
    with pytest.raises(mg.DTypeError, match="__dlpack__"):
        mg.from_dlpack([1, 2])

    class Liar:
        def __dlpack__(self, **_):
            return "no capsule"

    with pytest.raises(mg.Error):
        mg.from_dlpack(Liar())
    with pytest.raises(BufferError):
        mg.NDArray((1,), mg.float32).__dlpack__(dl_device=(2, 0))


def test_dlpack_objects_are_fed_without_copy(doubling):
    """Any object with __dlpack__ can be a feed."""
    g, x, y = doubling

    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **how):
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    with Copies() as copies:
        assert g.run({x: Foreign(np.ones(3, np.float32))}, y).tolist() == [2] * 3
    assert copies.made == 0


# --- the array itself -------------------------------------------------------------------------------------------------
def test_scalar_arrays_convert_to_numbers_and_have_no_length():
    number = mg.asarray(np.array(2.5, np.float32))
    assert float(number) == number.item() == 2.5 and int(number) == 2 and bool(number)
    with pytest.raises(TypeError, match="rank 0"):
        len(number)
    with pytest.raises(ValueError):
        mg.NDArray((2,), mg.float32).item()
    array = mg.NDArray((2, 3), mg.int8)
    assert (len(array), array.ndim, array.size, array.nbytes, array.contiguous) == (2, 2, 6, 6, True)
    assert "int8" in repr(array) and "(2,3)" in repr(array)
    assert mg.NDArray((1,) * 16, mg.float32).ndim == 16
    with pytest.raises(mg.Error):
        mg.NDArray((1,) * 17, mg.float32)


def test_asarray_of_lists_has_expected_dtypes():
    assert mg.asarray([1.5]).dtype == mg.float32 and mg.asarray([1]).dtype == mg.int32
    assert mg.asarray([True]).dtype == mg.bool_ and mg.asarray([1], mg.float64).dtype == mg.float64
    with pytest.raises(mg.DTypeError):
        mg.asarray([1.5], mg.int32)
