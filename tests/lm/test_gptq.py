"""Test checkpoints quantized by GPTQ and AWQ against dense checkpoints with the weights that their formats define."""

import json

import mpsgraph as mg
import numpy as np
import pytest
from harness.small_language_model import small_model
from mpsgraph.lm.storage import write_safetensors
from mpsgraph.nn.state import Value
from mpsgraph.nn.weights.files import read_values

GROUP = 32
TOKENS = np.int32([[5, 17, 33, 2, 8, 61, 0, 40, 12]])
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def logits(model):
    g = model.embedding.weight.graph
    x = g.placeholder((1, -1), mg.int32)
    return g.run({x: TOKENS}, g.cast(model(x), "float32")).numpy()


def along_first_axis(elements, bits):
    """Pack integers (rows, columns) into int32 (rows * bits / 32, columns), element by element."""
    words = np.zeros((len(elements) * bits // 32, elements.shape[1]), np.uint32)
    for bit in range(len(elements) * bits):
        value = (elements[bit // bits] >> (bit % bits) & 1).astype(np.uint32)
        words[bit // 32] |= value << np.uint32(bit % 32)
    return words.view(np.int32)


def along_last_axis_in_awq_order(elements):
    words = np.zeros((len(elements), elements.shape[1] // 8), np.uint32)
    for position, output in enumerate(AWQ_ORDER):
        words |= elements[:, output::8].astype(np.uint32) << np.uint32(4 * position)
    return words.view(np.int32)


def checkpoints(folder, method, bits=4, form="gptq", scale_dtype=np.float16):
    """Write a quantized checkpoint and a dense one with the same weights. Return their folders."""
    rng = np.random.default_rng(bits)
    dense, packed = folder / "dense", folder / "packed"
    mg.lm.save(small_model(intermediate_size=64), dense)
    mg.lm.save(small_model(intermediate_size=64), packed)
    state, quantized = dict(read_values(dense)), {}
    for name, value in state.items():
        if value.array.ndim != 2 or "_proj" not in name:
            quantized[name] = value
            continue
        outputs, inputs = value.array.shape
        q = rng.integers(0, 2**bits, (inputs, outputs))
        zeros = rng.integers(1, 2**bits, (inputs // GROUP, outputs))
        scales = rng.uniform(0.01, 0.05, zeros.shape).astype(scale_dtype)
        matrix = np.repeat(scales.astype(np.float64), GROUP, 0) * (q - np.repeat(zeros, GROUP, 0))
        state[name] = Value(np.ascontiguousarray(matrix.T, np.float32), mg.float32)
        base = name.removesuffix("weight")
        parts = {"scales": scales}
        if method == "awq":
            parts |= {"qweight": along_last_axis_in_awq_order(q), "qzeros": along_last_axis_in_awq_order(zeros)}
        else:
            stored = zeros - (form == "gptq")
            parts["qweight"] = along_first_axis(q, bits)
            parts["qzeros"] = np.ascontiguousarray(along_first_axis(stored.T, bits).T)
            parts["g_idx"] = (np.arange(inputs) // GROUP).astype(np.int32)
        quantized |= {base + part: Value(array, getattr(mg, array.dtype.name)) for part, array in parts.items()}
    write_safetensors(dense / "model.safetensors", state)
    write_safetensors(packed / "model.safetensors", quantized)
    entries = {"quant_method": method, "bits": bits, "group_size": GROUP}
    describe(packed, entries | ({"version": "gemm"} if method == "awq" else {"checkpoint_format": form}))
    return dense, packed


def describe(folder, quantization):
    entries = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**entries, "quantization_config": quantization}))


@pytest.mark.parametrize(
    ("method", "bits", "form"),
    [("gptq", 4, "gptq"), ("gptq", 4, "gptq_v2"), ("gptq", 8, "gptq"), ("gptq", 2, "gptq"), ("awq", 4, "")],
)
def test_quantized_checkpoint_equals_dense_checkpoint_with_its_weights(tmp_path, method, bits, form):
    dense, packed = checkpoints(tmp_path, method, bits, form)
    model, _ = mg.lm.load(packed)
    wanted = logits(mg.lm.load(dense)[0])
    np.testing.assert_allclose(logits(model), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    assert {type(m).__name__ for _, m in model.named_modules()} >= {"QuantizedLinear", "Embedding"}
    mg.lm.save(model, tmp_path / "saved")
    again, _ = mg.lm.load(tmp_path / "saved")
    np.testing.assert_array_equal(logits(again), logits(model))


def test_unsupported_forms_raise(tmp_path):
    _, packed = checkpoints(tmp_path, "gptq")
    usual = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
    for changed, error, words in (
        ({"checkpoint_format": "marlin"}, mg.UnsupportedError, "'marlin' is not supported"),
        ({"quant_method": "awq", "version": "gemv"}, mg.UnsupportedError, "version='gemm'"),
        ({"group_size": None}, mg.CheckpointError, "integers bits and group_size"),
        ({"group_size": 64}, mg.CheckpointError, "do not fit together, or to group_size=64"),
        ({"bits": 8}, mg.CheckpointError, "do not fit together"),
    ):
        describe(packed, usual | changed)
        with pytest.raises(error, match=words):
            mg.lm.load(packed)
    describe(packed, usual)
    state = dict(read_values(packed))
    name = next(name for name in state if name.endswith("down_proj.g_idx"))
    write_safetensors(packed / "model.safetensors", {**state, name: Value(state[name].array[::-1].copy(), mg.int32)})
    with pytest.raises(mg.UnsupportedError, match=r"reordered \(g_idx\)"):
        mg.lm.load(packed)
    lacking = {key: value for key, value in state.items() if key != name.replace("g_idx", "qzeros")}
    write_safetensors(packed / "model.safetensors", lacking)
    with pytest.raises(mg.CheckpointError, match="lacks '.*qzeros'"):
        mg.lm.load(packed)
