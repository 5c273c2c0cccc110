"""Compare the importer's table of operators with the ONNX standard: versions, attributes, and errors.

The importer must not query the installed onnx package. A single test compares the table with that package.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.device import MISSING
from harness.onnx_node import computed, one_node
from mpsgraph.onnx.reading.standard import REQUIRED, standard_operator, standard_operators
from onnx import TensorProto, defs, helper

pytestmark = pytest.mark.both_devices

FLOAT = TensorProto.FLOAT
KNOWN = [entry for entry in mg.onnx.known_operators() if standard_operator(*entry[:2]) is not None]


# --- attributes -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("domain", "name", "upto"), KNOWN, ids=lambda v: str(v))
def test_unknown_attribute_of_every_operator_raises(domain, name, upto):
    """For each operator version, the error message lists the attributes that it supports."""
    operator = standard_operator(domain, name)
    for version in [v for v in operator.versions if v <= upto]:
        node = helper.make_node(name, ["x"], ["y"], "here", domain=domain, nonsense=3)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", FLOAT, (2,))], [])
        imports = {"": 28, domain: version}
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()])
        with pytest.raises(mg.GraphError, match=rf"{name}, node 'here': unknown attribute 'nonsense'") as error:
            mg.onnx.load(model)
        for attribute in operator.attributes(version):
            assert attribute in str(error.value)


def test_ignored_attributes_raise_unless_default():
    """An attribute that the function of an operator does not read raises unless it has its default value."""
    from mpsgraph.onnx.building.node import Node, lowered

    def forgets(node: Node) -> list:
        node.attribute("read", 0)
        node.without_effect("hint")
        return []

    class Importer:
        graph = None

    def run(known, **attributes):
        return lowered(forgets, Node(Importer(), "Forgets", 7, [], [], attributes), known)

    known = {"read": 0, "hint": 0, "left": 2, "list": [1, 2], "real": 0.1, "open": REQUIRED}
    assert run(known, read=1, hint=5, left=2, list=[1, 2], real=float(np.float32(0.1)), consumed_inputs=[0]) == []
    for name, value in (("left", 3), ("list", [2, 1]), ("real", 0.2), ("open", 0)):
        with pytest.raises(mg.UnsupportedError, match=rf"attribute '{name}' of Forgets-7: .*not supported"):
            run(known, **{name: value})
    with pytest.raises(
        mg.GraphError, match=r"unknown attribute 'left'; the attributes supported for Forgets are: hint, read"
    ):
        run(None, read=1, left=2)


def test_model_functions_take_attributes():
    body = helper.make_node("LeakyRelu", ["a"], ["b"])
    body.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Leak", ["a"], ["b"], [body], imports, ["slope"])

    def model(**attributes):
        node = helper.make_node("Leak", ["x"], ["y"], "call", domain="own", **attributes)
        infos = [helper.make_tensor_value_info(name, FLOAT, (2,)) for name in "xy"]
        graph = helper.make_graph([node], "g", infos[:1], infos[1:])
        return helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)

    np.testing.assert_allclose(mg.onnx.load(model(slope=0.5))(np.float32([-2, 3])), [-1, 3])
    with pytest.raises(
        mg.GraphError, match=r"Leak, node 'call': unknown attribute 'slop'; Leak has the attributes slope"
    ):
        mg.onnx.load(model(slop=0.5))


def test_attention_window_attributes_require_the_newest_version():
    q = np.ones((1, 1, 3, 4), np.float32)
    with pytest.raises(mg.GraphError, match=r"'left_window_size'; Attention-24 has the attributes is_causal"):
        computed("Attention", q, q, q, opset=24, left_window_size=1)


# --- versions ---------------------------------------------------------------------------------------------------------
def test_operator_table_agrees_with_the_installed_onnx_package():
    """Only operator sets that the package knows are compared; the table may contain newer ones."""
    schemas = [s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) in set(standard_operators())]
    assert len(schemas) > 500
    for schema in schemas:
        operator = standard_operator(schema.domain, schema.name)
        assert set(operator.attributes(schema.since_version)) == set(schema.attributes), schema.name
        for name, default in operator.attributes(schema.since_version).items():
            assert (default is REQUIRED) == (not schema.attributes[name].default_value.name), (schema.name, name)


def test_standard_onnx_functions_expand_to_graph_operations():
    """The function bodies in the installed onnx package are not used."""
    known = {(domain, name): upto for domain, name, upto in KNOWN}
    schemas = defs.get_all_schemas()
    functions = [s for s in schemas if s.has_function or s.has_context_dependent_function]
    assert len(functions) > 40
    assert not [s.name for s in functions if known.get((s.domain, s.name), 0) < s.since_version]
    # These operators are newer than some versions of the onnx package.
    newer = {"LinearAttention": 27, "CausalConvWithState": 27, "SwiGLU": 28, "Attention": 25}
    assert all(known["", name] >= version for name, version in newer.items())
    assert known["ai.onnx.preview", "FlexAttention"] == 1


def test_importer_does_not_query_the_installed_onnx_package(monkeypatch):
    def asked(*_):
        raise AssertionError("the importer queried the installed onnx package")

    for name in ("get_schema", "onnx_opset_version", "has"):
        monkeypatch.setattr(defs, name, asked)
    x = np.float32([[-1, 2]])
    np.testing.assert_allclose(computed("Celu", x), [[np.exp(-1) - 1, 2]], rtol=1e-6)
    with pytest.raises(mg.UnsupportedError, match=r"Abs of opset 29: the newest opset known to mpsgraph is 28"):
        computed("Abs", x, opset=29)


def test_error_names_the_unsupported_operator_version(monkeypatch):
    from mpsgraph.onnx.building.node import operator

    entry = operator._entries["", "SpaceToDepth"]
    monkeypatch.setitem(operator._entries, ("", "SpaceToDepth"), entry._replace(upto=13))
    x = np.zeros((1, 1, 2, 2), np.float32)
    with pytest.raises(mg.UnsupportedError, match=r"SpaceToDepth of opset 28, version 28: the newest .* is 13"):
        computed("SpaceToDepth", x, blocksize=2)
    assert computed("SpaceToDepth", x, blocksize=2, opset=27).shape == (1, 4, 1, 1)


@pytest.mark.parametrize("name", [name for domain, name, _ in KNOWN if domain == ""])
def test_newest_version_of_every_operator_is_supported(name):
    assert {n: upto for d, n, upto in KNOWN if d == ""}[name] >= standard_operator("", name).versions[-1]


# --- changes in the newest versions -----------------------------------------------------------------------------------
def test_space_to_depth_in_both_channel_orders_matches_numpy():
    x = np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4)
    blocks = x.reshape(1, 2, 1, 2, 2, 2)  # The axes are batch, channel, row, row in block, column, and column in block.
    for mode, order in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
        expected = blocks.transpose(order).reshape(1, 8, 1, 2)
        np.testing.assert_array_equal(computed("SpaceToDepth", x, blocksize=2, mode=mode), expected)
        np.testing.assert_array_equal(computed("DepthToSpace", expected, blocksize=2, mode=mode), x)
    with pytest.raises(mg.GraphError, match="must be DCR or CRD, got 'RCD'"):
        computed("SpaceToDepth", x, blocksize=2, mode="RCD")


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_bit_shifts_by_any_count_match_numpy(dtype):
    bits = 8 * np.dtype(dtype).itemsize
    x = np.array([1, 5, 100, 127] if dtype == np.uint8 else [1, -5, 100, -128], dtype)
    counts = [0, 1, bits - 1, bits, bits + 1] if dtype == np.uint8 else [-1, 0, 1, bits - 1, bits, bits + 1]
    for count in counts:
        y = np.full(x.shape, count, dtype)
        inside = 0 <= count < bits
        left = [(int(v) << count) % 2**bits if inside else 0 for v in x]
        right = [int(v) >> count if inside else (-1 if v < 0 else 0) for v in x]
        wrapped = np.array(left, object).astype(np.uint64).astype(dtype)
        np.testing.assert_array_equal(computed("BitShift", x, y, direction="LEFT"), wrapped)
        np.testing.assert_array_equal(computed("BitShift", x, y, direction="RIGHT"), np.array(right).astype(dtype))


def test_floating_point_modulo_takes_the_sign_of_the_divisor():
    a, b = np.float32([5, -5, 5, -5, 0, -0.0]), np.float32([3, 3, -3, -3, -2, 2])
    result = computed("Mod", a, b)
    np.testing.assert_array_equal(result, [2, 1, -1, -2, 0, 0])
    np.testing.assert_array_equal(np.signbit(result), [False, False, True, True, True, False])
    with pytest.raises(mg.DTypeError, match="fmod=1"):
        computed("Mod", a, b, opset=27)


def test_float16_range_counts_in_higher_precision():
    start, limit, delta = np.float16(2000), np.float16(2100), np.float16(1)
    # If the range is fed, it is computed in float64.
    for known in ([0, 1, 2], []) if "float64" not in MISSING else ([0, 1, 2],):
        result = computed("Range", start, limit, delta, known=known)
        assert result.dtype == np.float16
        np.testing.assert_array_equal(result, np.arange(2000, 2100).astype(np.float16))


def test_bit_cast_reinterprets_bits():
    x = np.float32([1, -2])
    np.testing.assert_array_equal(computed("BitCast", x, to=TensorProto.INT32), x.view(np.int32))
    assert computed("BitCast", np.float32(1), to=TensorProto.UINT32) == 0x3F800000
    with pytest.raises(mg.DTypeError, match="a different size"):
        computed("BitCast", x, to=TensorProto.INT64)


# --- attention --------------------------------------------------------------------------------------------------------
def attended(q, k, v, seen, bias=0.0, cap=0.0):
    """Compute attention in float64 numpy; queries that see no key give zeros."""
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = cap * np.tanh(scores / cap) if cap else scores
    scores = np.where(seen, scores + bias, -np.inf)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def operands(rng, heads=2, shared=2, queries=3, keys=5):
    return [np.float32(rng.normal(size=(2, h, n, 4))) for h, n in ((heads, queries), (shared, keys), (shared, keys))]


@pytest.mark.parametrize("opset", [23, 24, 28])
def test_attention_of_queries_without_keys_is_zero(opset):
    """Outputs are zero and gradients contain no NaN."""
    q, k, v = operands(np.random.default_rng(0))
    seen = np.random.default_rng(1).random((3, 5)) < 0.5
    seen[1] = False
    np.testing.assert_allclose(computed("Attention", q, k, v, seen, opset=opset), attended(q, k, v, seen), atol=1e-6)
    model, feeds = one_node("Attention", [q, k, v, seen], opset)
    loaded = mg.onnx.load(model)
    xs = [loaded.inputs[f"x{i}"] for i in range(3)]
    gradients = loaded.graph.gradients(loaded.graph.reduction_sum(loaded.outputs["y0"]), xs)
    named = {loaded.inputs[name]: array for name, array in feeds.items()}
    for gradient in loaded.graph.run(named, [gradients[x] for x in xs]).values():
        assert np.isfinite(gradient.numpy()).all()


def test_attention_applies_softcap_before_the_mask():
    q, k, v = operands(np.random.default_rng(2))
    bias = np.float32(np.random.default_rng(3).normal(size=(3, 5)))
    result = computed("Attention", 10 * q, k, v, bias, softcap=1.5)
    np.testing.assert_allclose(result, attended(10 * q, k, v, True, bias, 1.5), atol=1e-5)


def test_attention_with_external_cache_and_lengths_matches_numpy():
    """The queries are aligned with the last of the valid keys."""
    q, k, v = operands(np.random.default_rng(4), heads=4)
    lengths = np.int64([5, 2])
    i, j = np.arange(3)[:, None], np.arange(5)
    seen = np.stack([(j < n) & (j <= i + n - 3) for n in lengths])[:, None]
    wide = [np.repeat(x, 2, 1) for x in (k, v)]  # Each key head serves two query heads.
    result = computed("Attention", q, k, v, None, None, None, lengths, is_causal=1)
    np.testing.assert_allclose(result, attended(q, *wide, seen), atol=1e-6)


@pytest.mark.parametrize(("left", "right", "causal"), [(1, -1, 0), (-1, 1, 0), (1, 1, 0), (2, 3, 1), (0, 0, 1)])
def test_attention_within_a_window_matches_numpy(left, right, causal):
    q, k, v = operands(np.random.default_rng(5))
    i, j = np.arange(3)[:, None], np.arange(5)
    seen = (left < 0 or j >= i - left) & (right < 0 or j <= i + right) & (not causal or j <= i)
    result = computed("Attention", q, k, v, left_window_size=left, right_window_size=right, is_causal=causal)
    np.testing.assert_allclose(result, attended(q, k, v, seen), atol=1e-6)
