"""Test quantized language models against dense models with the affine reference's weights, and their files."""

import json

import mpsgraph as mg
import numpy as np
import pytest
from harness.language_models import CONFIGURATIONS
from harness.small_language_model import small_model, word_tokenizer
from mpsgraph.lm.storage import write_safetensors
from mpsgraph.nn.quantized import pack, quantized, unpack
from mpsgraph.nn.state import Value
from mpsgraph.nn.weights.files import read_values

TOKENS = np.int32([[5, 17, 33, 2, 8, 61, 0, 40, 12]])
BITS = (2, 3, 4, 5, 6, 8)


def model_of(seed=0, **more):
    return small_model(seed, intermediate_size=64, **more)


def logits(model):
    g = model.embedding.weight.graph
    x = g.placeholder((1, -1), mg.int32)
    return g.run({x: TOKENS}, g.cast(model(x), "float32")).numpy()


def affine(words, scales, biases, bits):
    """Return the matrix from the definition, in float64."""
    q = unpack(words, bits)
    size = q.shape[-1] // scales.shape[-1]
    return np.repeat(scales.astype(np.float64), size, -1) * q + np.repeat(biases.astype(np.float64), size, -1)


def dense_like(model):
    """Return a float32 model whose matrices are the dequantized ones of a quantized model."""
    state = model.state_dict()
    dense = mg.lm.create({k: v for k, v in model.configuration.items() if k != "quantization"})
    values = {}
    for name, value in dense.state_dict().items():
        stem = name.removesuffix("weight")
        if stem + "scales" not in state:
            values[name] = state[name]
            continue
        layer = model
        for part in stem[:-1].split("."):
            layer = layer[int(part)] if part.isdigit() else getattr(layer, part)
        matrix = affine(state[name], state[stem + "scales"], state[stem + "biases"], layer.bits)
        values[name] = (matrix if isinstance(layer, mg.nn.QuantizedEmbedding) else matrix.T).astype(np.float32)
        assert values[name].shape == value.shape
    dense.load_state_dict(values)
    return dense.eval()


@pytest.mark.parametrize("bits", BITS)
def test_packing_round_trips_and_follows_the_bit_order(bits):
    q = np.random.default_rng(bits).integers(0, 2**bits, (3, 64))
    words = pack(q, bits)
    assert words.shape == (3, 2 * bits) and (unpack(words, bits) == q).all()
    for row, line in zip(q, words, strict=True):
        whole = sum(int(word) << (32 * i) for i, word in enumerate(line))
        assert [(whole >> (bits * i)) & (2**bits - 1) for i in range(64)] == row.tolist()


# First and last word, scale, and bias of mx.quantize(w, group_size=64, bits=bits) in MLX 0.32.4, for the weights below.
OF_MLX = {
    2: (0x78B4F1F2, 0x78B4F1E2, -0.49989643692970276, 0.9997928738594055),
    3: (0xD1DCAF44, 0x7E0BD1FC, -0.24994821846485138, 0.9997928738594055),
    4: (0xDE24FA08, 0x6F80AF41, -0.12497410923242569, 0.9997928738594055),
    5: (0xC68FD010, 0x5FE00A7D, -0.062487054616212845, 0.9997928738594055),
    6: (0x90FA8020, 0x5FF8409F, -0.031243527308106422, 0.9997928738594055),
    8: (0xF7A10180, 0x5CFE8401, -0.007810881827026606, 0.9997928738594055),
}


@pytest.mark.parametrize("bits", BITS)
def test_quantization_equals_that_of_mlx(bits):
    w = np.sin(np.arange(64) * 1.7).astype(np.float32)[None]
    words, scales, biases = quantized(w, bits, 64)
    first, last, scale, bias = OF_MLX[bits]
    assert (int(words[0, 0]), int(words[0, -1])) == (first, last)
    np.testing.assert_allclose([scales.item(), biases.item()], [scale, bias], rtol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_quantization_error_is_at_most_half_a_step_and_zero_is_exact(bits):
    w = (np.arange(64, dtype=np.float32) * 37 % 64 / 31.5 - 0.9).reshape(1, 64)
    w[0, [3, 40]] = 0
    words, scales, biases = quantized(w, bits, 32)
    found = affine(words, scales, biases, bits)
    steps = np.repeat(np.abs(scales), 32, -1)
    assert (np.abs(found - w) <= steps * (1.01 if bits < 4 else 0.75)).all()
    np.testing.assert_allclose(found[0, [3, 40]], 0, atol=1e-6)


@pytest.mark.both_devices
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bits", BITS)
def test_quantized_model_equals_dense_model_with_affine_weights(bits, tied):
    model = model_of(tie_word_embeddings=tied)
    mg.lm.quantize(model, bits=bits, group_size=32)
    assert {v.dtype for _, v in model.named_buffers()} >= {mg.uint32}
    reference = dense_like(model)
    wanted = logits(reference)
    np.testing.assert_allclose(logits(model), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
    assert mg.lm.generate(model, None, [5, 17, 33], max_tokens=12) == mg.lm.generate(
        reference, None, [5, 17, 33], max_tokens=12
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_model_keeps_scales_in_its_dtype(dtype, tmp_path):
    mg.lm.save(model_of(), tmp_path)
    model = mg.lm.load(tmp_path, dtype=dtype)[0]
    before = logits(model)
    mg.lm.quantize(model, bits=8, group_size=32)
    assert model.head.scales.dtype.name == dtype and model.embedding.weight.dtype == mg.uint32
    after = logits(model)
    assert np.abs(after - before).max() < 0.1 * np.abs(before).max()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_family_quantizes_saves_and_loads(name, tmp_path):
    model = mg.lm.create(CONFIGURATIONS[name], seed=1).eval()
    layers = {p: m for p, m in model.named_modules() if isinstance(m, (mg.nn.Linear, mg.nn.Embedding))}
    odd = [
        p for p, m in layers.items() if m.weight.shape[0 if isinstance(m, mg.nn.Linear) else 1] % 32
    ]  # fmt: skip
    if any("experts" in key for key in CONFIGURATIONS[name]):
        with pytest.raises(mg.UnsupportedError, match="experts in layers.0.feed_forward"):
            mg.lm.quantize(model, group_size=32, skip=odd)
        odd = ["layers.*.feed_forward*", *(p for p in odd if "feed_forward" not in p)]
    mg.lm.quantize(model, bits=6, group_size=32, skip=odd)
    mg.lm.save(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["quantization"] == {"group_size": 32, "bits": 6}
    loaded, _ = mg.lm.load(tmp_path)
    wanted = model.state_dict()
    assert {k: v.tobytes() for k, v in loaded.state_dict().items()} == {k: v.tobytes() for k, v in wanted.items()}


def test_file_has_the_names_and_dtypes_of_mlx(tmp_path):
    model = model_of()
    mg.lm.quantize(model, bits=4, group_size=32, skip=["layers.0.attention.value"])
    mg.lm.save(model, tmp_path)
    state = read_values(tmp_path)
    base = "model.layers.1.mlp.down_proj"
    shapes = {part: (state[f"{base}.{part}"].array.shape, state[f"{base}.{part}"].dtype.name)
              for part in ("weight", "scales", "biases")}  # fmt: skip
    assert shapes == {"weight": ((32, 8), "uint32"), "scales": ((32, 2), "float32"), "biases": ((32, 2), "float32")}
    assert "model.layers.0.self_attn.v_proj.scales" not in state
    assert {"model.embed_tokens.scales", "lm_head.biases"} <= state.keys()
    np.testing.assert_array_equal(logits(mg.lm.load(tmp_path)[0]), logits(model))


def test_layers_may_have_their_own_number_of_bits(tmp_path):
    """MLX writes an entry with the name of the layer for each exception."""
    model = model_of()
    mg.lm.quantize(model, bits=4, group_size=32)
    mg.lm.save(model, tmp_path)
    original = model_of().state_dict()["head.weight"]
    parts = dict(zip(("weight", "scales", "biases"), quantized(np.ascontiguousarray(original.T), 8, 32), strict=True))
    state = dict(read_values(tmp_path))
    state.update({f"lm_head.{k}": Value(v, mg.uint32 if k == "weight" else mg.float32) for k, v in parts.items()})
    write_safetensors(tmp_path / "model.safetensors", state)
    entries = json.loads((tmp_path / "config.json").read_text())
    entries["quantization"]["lm_head"] = {"bits": 8, "group_size": 32}
    entries["quantization_config"] = entries["quantization"]
    (tmp_path / "config.json").write_text(json.dumps(entries))
    loaded, _ = mg.lm.load(tmp_path)
    assert (loaded.head.bits, loaded.layers[0].attention.query.bits) == (8, 4)
    reference = dense_like(loaded)
    np.testing.assert_allclose(logits(loaded), logits(reference), rtol=1e-4, atol=1e-4)


def test_command_quantizes(tmp_path):
    from mpsgraph.cli import main

    mg.lm.save(model_of(), tmp_path / "a", word_tokenizer())
    options = ["--bits", "4", "--group-size", "32", "--skip", "head"]
    assert main(["lm", "quantize", str(tmp_path / "a"), str(tmp_path / "b"), *options]) == 0
    model, tokenizer = mg.lm.load(tmp_path / "b")
    expected = model_of()
    mg.lm.quantize(expected, bits=4, group_size=32, skip=["head"])
    np.testing.assert_array_equal(logits(model), logits(expected))
    assert tokenizer is not None and isinstance(model.head, mg.nn.Linear)


@pytest.mark.both_devices
def test_gradient_passes_quantized_layers_to_trained_ones():
    """As in QLoRA: the packed weights have no gradient, and a bias before them has the dense model's."""
    g = mg.Graph()
    x = g.placeholder((3, 64))
    layer = mg.nn.QuantizedLinear(32, bits=4, group_size=32)
    shift = g.variable(np.zeros(64, np.float32))
    loss = g.reduction_sum(g.square(layer(x + shift)))
    random = np.random.default_rng(0)
    w, data = random.normal(size=(32, 64)).astype(np.float32), random.normal(size=(3, 64)).astype(np.float32)
    words, scales, biases = quantized(w, 4, 32)
    layer.load_state_dict({"weight": words, "scales": scales, "biases": biases, "bias": np.zeros(32, np.float32)})
    found = g.run({x: data}, g.gradients(loss, [shift])[shift]).numpy()
    matrix = affine(words, scales, biases, 4)
    np.testing.assert_allclose(found, (2 * data @ matrix.T @ matrix).sum(0), rtol=1e-4, atol=1e-3)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]


def test_invalid_quantization_raises(tmp_path):
    with pytest.raises(mg.GraphError, match="bits must be one of"):
        mg.lm.quantize(model_of(), bits=7)
    with pytest.raises(mg.ShapeError, match=r"layers.0.attention.query \(32\)"):
        mg.lm.quantize(model_of(), group_size=64)
    with pytest.raises(mg.GraphError, match="'heads', which matches no layer"):
        mg.lm.quantize(model_of(), group_size=32, skip=["heads"])
    model = model_of()
    mg.lm.quantize(model, group_size=32)
    with pytest.raises(mg.GraphError, match="already quantized"):
        mg.lm.quantize(model, group_size=32)
    mg.lm.save(model, tmp_path)
    entries = json.loads((tmp_path / "config.json").read_text())

    def load_with(**changed):
        (tmp_path / "config.json").write_text(json.dumps({**entries, **changed}))
        return mg.lm.load(tmp_path)

    with pytest.raises(mg.UnsupportedError, match="quantized by 'hqq'"):
        load_with(quantization_config={"quant_method": "hqq", "bits": 4})
    with pytest.raises(mg.UnsupportedError, match="mode 'mxfp4'"):
        load_with(quantization={"bits": 4, "group_size": 32, "mode": "mxfp4"})
    with pytest.raises(mg.CheckpointError, match="integers bits and group_size"):
        load_with(quantization={"bits": 4})
    with pytest.raises(mg.CheckpointError, match="shapes in the checkpoint differ"):
        load_with(quantization={"bits": 8, "group_size": 32})
    with pytest.raises(mg.CheckpointError, match="does not use|lacks"):
        load_with(quantization=None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("dora", [False, True])
def test_adapters_merge_into_quantized_projections_as_float_layers(tmp_path, dora, dtype):
    model = model_of(num_hidden_layers=1) if dtype == "float32" else mg.lm.create(
        {**model_of(num_hidden_layers=1).configuration}, dtype=dtype)  # fmt: skip
    logits(model)
    mg.lm.quantize(model, bits=4, group_size=32)
    paths = mg.lm.add_adapters(model, rank=2, targets=("query", "down"), dora=dora)
    state = model.state_dict()
    random = np.random.default_rng(3)
    for path, value in state.items():
        if path.endswith(".up"):
            state[path] = (random.normal(size=value.shape) * 0.3).astype(np.float32)
    model.load_state_dict(state)
    before = logits(model)
    mg.lm.merge_adapters(model)
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    np.testing.assert_allclose(logits(model), before, rtol=tolerance, atol=tolerance * np.abs(before).max())
    kinds = {path: type(layer).__name__ for path, layer in model.named_modules()}
    assert len(paths) == 2 and all(kinds[path] == "Linear" for path in paths)
    assert sum(kind == "QuantizedLinear" for kind in kinds.values()) >= 4
    mg.lm.save(model, tmp_path / "merged")
    loaded, _ = mg.lm.load(tmp_path / "merged")
    np.testing.assert_array_equal(logits(loaded), logits(model))
