"""Test the functions that users supply for operations of Core ML models, without coremltools."""

import struct

import mpsgraph as mg
import numpy as np
import pytest
from harness.protobuf import message

FLOAT32, INT32 = 11, 15


def program(tmp_path, operation: bytes, constants=()):
    """Write an ML Program with an input x, some constants, and one operation with the result y; return its path."""
    block = message((2, b"y"), *((3, c) for c in constants), (3, operation))
    kind = message((1, message((1, FLOAT32), (2, 1), (3, message((1, message((1, 3))))))))
    function = message((1, message((1, b"x"), (2, kind))), (2, b"CoreML7"), (3, message((1, b"CoreML7"), (2, block))))
    file = tmp_path / "net.mlmodel"
    file.write_bytes(message((1, 8), (2, b""), (502, message((1, 1), (2, message((1, b"main"), (2, function)))))))
    return file


def tensor(kind: int, dims, held: bytes) -> bytes:
    """Encode a Value message with immediate elements."""
    dimensions = [(3, message((1, message((1, d))))) for d in dims]
    of_type = message((1, message((1, kind), *([(2, len(dims))] if dims else []), *dimensions)))
    return message((2, of_type), (3, message((1, held))))


def constant(name: bytes, value: bytes) -> bytes:
    attribute = message((1, b"val"), (2, value))
    return message((1, b"const"), (3, message((1, name))), (5, attribute))


def operation(kind: bytes, **inputs: bytes) -> bytes:
    bound = [(2, message((1, key.encode()), (2, message((1, message((1, name))))))) for key, name in inputs.items()]
    return message((1, kind), *bound, (3, message((1, b"y"))))


def floats(*values):
    return message((1, message((1, struct.pack(f"<{len(values)}f", *values)))))


X = np.float32([1, -2, 3])


def test_function_of_operation_receives_parameters_by_name(tmp_path):
    seen = {}

    def warp(x, weight, amount):
        seen.update(amount=amount)
        return x * weight + amount

    constants = [constant(b"w", tensor(FLOAT32, (3,), floats(2, 3, 4))), constant(b"a", tensor(FLOAT32, (), floats(5)))]
    file = program(tmp_path, operation(b"warp", x=b"x", weight=b"w", amount=b"a"), constants)
    with pytest.raises(mg.UnsupportedError, match=r"warp 'y'.*operators=\{name: function\}"):
        mg.coreml.load(file)
    loaded = mg.coreml.load(file, operators={"warp": warp})
    assert loaded(X).tolist() == [7, -1, 17]
    assert seen["amount"] == 5.0 and list(loaded.parameters) == ["w"]


def test_function_replaces_builtin_operation(tmp_path):
    file = program(tmp_path, operation(b"relu", x=b"x"))
    assert mg.coreml.load(file)(X).tolist() == [1, 0, 3]
    assert mg.coreml.load(file, operators={"relu": lambda x: -x})(X).tolist() == [-1, 2, -3]


def test_wrong_result_or_exception_of_function_raises(tmp_path):
    file = program(tmp_path, operation(b"warp", x=b"x"))
    with pytest.raises(mg.GraphError, match="the function for operator warp must return a tensor.*got int"):
        mg.coreml.load(file, operators={"warp": lambda x: 3})
    with pytest.raises(ZeroDivisionError):
        mg.coreml.load(file, operators={"warp": lambda x: 1 / 0})
    with pytest.raises(mg.Error, match="operators"):
        mg.coreml.load(file, operators={"warp": 3})


# --- custom layers of neural networks ---------------------------------------------------------------------------------
def network(tmp_path, layer: bytes):
    """Write a neural network with an input x of three elements and an output y."""
    array = message((5, message((1, 3), (2, 65568))))
    described = message((1, message((1, b"x"), (3, array))), (10, message((1, b"y"), (3, array))))
    file = tmp_path / "net.mlmodel"
    file.write_bytes(message((1, 4), (2, described), (500, message((1, layer), (5, 1)))))
    return file


def test_function_of_custom_layer_receives_parameters_and_weights(tmp_path):
    parameters = [
        message((1, b"mode"), (2, message((20, b"fast")))),
        message((1, b"times"), (2, message((30, 4)))),
    ]
    weights = message((1, struct.pack("<3f", 1, 2, 3)))
    custom = message((10, b"AAPLSwish"), (20, weights), *((30, p) for p in parameters))
    file = network(tmp_path, message((1, b"own"), (2, b"x"), (3, b"y"), (500, custom)))
    with pytest.raises(mg.UnsupportedError, match="custom AAPLSwish 'own'"):
        mg.coreml.load(file)
    seen = {}

    def swish(x, mode, times, weights):
        seen.update(mode=mode)
        return x * x.graph.constant(weights[0]) * float(times)

    assert mg.coreml.load(file, operators={"AAPLSwish": swish})(X).tolist() == [4, -16, 36]
    assert seen["mode"] == "fast"


def test_function_replaces_builtin_layer(tmp_path):
    relu = message((10, b""))
    file = network(tmp_path, message((1, b"r"), (2, b"x"), (3, b"y"), (130, relu)))
    assert mg.coreml.load(file)(X).tolist() == [1, 0, 3]
    assert mg.coreml.load(file, operators={"activation": lambda x: -x})(X).tolist() == [-1, 2, -3]
