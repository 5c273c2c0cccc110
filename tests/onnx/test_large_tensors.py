"""Test files with large tensors, which stay in the file while it is parsed, at any nesting level."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import BOOL, FLOAT, INT64, model, node, value
from mpsgraph.onnx.reading.elements import LARGE, _pieces, split
from onnx import helper, numpy_helper

COUNT = LARGE  # Number of elements: each tensor is several times larger than the threshold in bytes.


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(COUNT, np.float32)


def saved(made: onnx.ModelProto, path) -> str:
    made.graph.doc_string = "padding " * 4096  # The padding makes every file large enough to be split.
    onnx.save(made, path)
    return str(path)


def listed(array: np.ndarray, name: str) -> onnx.TensorProto:
    return helper.make_tensor(name, FLOAT, array.shape, array.tolist())


def test_large_tensors_are_found_at_any_nesting_level(tmp_path):
    """Large tensors as raw bytes and as lists: in initializers, in Constant nodes, and in a branch."""
    branch = [node("Add", ["x", "v"], ["t"])], "then", [], [value("t", FLOAT, None)], [listed(numbers(3), "v")]
    other = [node("Identity", ["x"], ["e"])], "else", [], [value("e", FLOAT, None)]
    nodes = [
        node("Constant", [], ["c"], value=numpy_helper.from_array(numbers(2))),
        node("Add", ["x", "c"], ["s"]),
        node("Mul", ["s", "w"], ["p"]),
        node("Add", ["p", "l"], ["q"]),
        node("If", ["b"], ["z"], then_branch=helper.make_graph(*branch), else_branch=helper.make_graph(*other)),
        node("Add", ["q", "z"], ["y"]),
    ]
    made = model(nodes, [value("x", FLOAT, (COUNT,)), value("b", BOOL)], [value("y", FLOAT, None)], {"w": numbers(0)})
    made.graph.initializer.append(listed(numbers(1), "l"))
    path = saved(made, tmp_path / "net.onnx")
    contents, _ = split(tmp_path / "net.onnx")
    assert len(contents) < COUNT * 4  # The contents are smaller than one of the four tensors.
    loaded, x = mg.onnx.load(path), numbers(9)
    first = (x + numbers(2)) * numbers(0) + numbers(1)
    np.testing.assert_allclose(loaded(x, np.array(True)), first + (x + numbers(3)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loaded(x, np.array(False)), first + x, rtol=1e-5, atol=1e-5)


def test_large_tensors_in_lists_or_other_dtypes_are_read(tmp_path):
    halves = numpy_helper.from_array(numbers(0).astype(np.float16), "h")
    whole = helper.make_tensor("i", INT64, (COUNT,), range(COUNT))
    nodes = [
        node("Cast", ["h"], ["a"], to=FLOAT),
        node("Cast", ["i"], ["b"], to=FLOAT),
        node("Add", ["a", "b"], ["s"]),
        node("Add", ["s", "x"], ["y"]),
    ]
    made = model(nodes, [value("x", FLOAT, (1,))], [value("y", FLOAT, None)])
    made.graph.initializer.extend([halves, whole])
    loaded = mg.onnx.load(saved(made, tmp_path / "net.onnx"))
    expected = numbers(0).astype(np.float16).astype(np.float32) + np.arange(COUNT, dtype=np.float32) + 1
    np.testing.assert_array_equal(loaded(np.ones(1, np.float32)), expected)


def test_long_lists_of_numbers_are_not_scanned():
    """Tree models store numbers as separate fields; splitting must skip them instead of visiting each one."""
    body = b"\x0a\x01a" + b"\x3d\0\0\0\0" * 200_000
    node_of = b"\x2a" + _length(body) + body
    graph = b"\x0a" + _length(node_of) + node_of
    seen = 0

    class Counted:
        """A bytes object that counts accesses to single elements."""

        def __init__(self, contents: bytes) -> None:
            self.contents = contents

        def __getitem__(self, place):
            nonlocal seen
            seen += isinstance(place, int)
            return self.contents[place]

    assert b"".join(_pieces(Counted(graph), 0, len(graph), "graph", b"", {})) == graph
    assert seen < 100


def _length(body: bytes) -> bytes:
    size, result = len(body), []
    while size > 127:
        result.append(size & 127 | 128)
        size >>= 7
    return bytes([*result, size])


def product(rows: str | int = "n") -> onnx.ModelProto:
    weights = {"w": numbers(0).reshape(64, -1)}
    return model([node("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, (rows, 64))], [value("y", FLOAT)], weights)


@pytest.mark.parametrize("share", [0.2, 0.6, 0.999])
def test_truncated_file_with_large_tensor_raises(tmp_path, share):
    path = tmp_path / "net.onnx"
    saved(product(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(mg.GraphError, match="truncated or not an ONNX model"):
        mg.onnx.load(path)


def test_tensor_with_size_differing_from_its_shape_raises(tmp_path):
    made = product()
    made.graph.initializer[0].dims[0] += 1
    with pytest.raises(mg.GraphError, match="must have 66560 bytes, got 65536"):
        mg.onnx.load(saved(made, tmp_path / "net.onnx"))


def test_deeply_nested_protobuf_messages_raise(tmp_path):
    """The messages are nested deeper than the recursion limit."""
    heads, size = [], 100_000
    for tag in [0x32, 0x2A, 0x0A] * 3000 + [0x3A]:  # Repeat the nesting of graph, node, and attribute within a model.
        head = bytes([tag]) + b"".join(bytes([size >> 7 * i & 127 | 128]) for i in range(3)) + bytes([size >> 21])
        heads.append(head)
        size += len(head)
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"".join(reversed(heads)) + b"\0" * 100_000 + b"\x08\x07" * 100_000)
    with pytest.raises(mg.GraphError, match="truncated or not an ONNX model"):
        mg.onnx.load(path)


def test_deferred_model_does_not_need_its_file(tmp_path):
    inputs = [value("x", FLOAT, ("n",)), value("shape", INT64, (None,))]
    nodes = [node("Add", ["x", "w"], ["s"]), node("Reshape", ["s", "shape"], ["y"])]
    path = tmp_path / "net.onnx"
    loaded = mg.onnx.load(saved(model(nodes, inputs, [value("y", FLOAT, None)], {"w": numbers(0)}), path))
    assert isinstance(loaded, mg.onnx.DeferredModel)
    path.write_bytes(b"")
    x = numbers(1)
    result = loaded(x, np.int64([2, -1]))
    np.testing.assert_allclose(result, (x + numbers(0)).reshape(2, -1), rtol=1e-6, atol=1e-6)
