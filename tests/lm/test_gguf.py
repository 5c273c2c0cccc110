"""Test GGUF files: blocks against the gguf package and numpy, names and layouts against checkpoints, and tokenizers.

Files are written with the gguf package, so most tests are skipped without it.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.small_language_model import SIZES, small_model
from mpsgraph.lm import gguf_blocks
from mpsgraph.lm.gguf import read_file
from mpsgraph.nn.quantized import unpack

pytest.importorskip("tokenizers")
KINDS = {"Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
GEMMA = {
    **LAYER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
MODELS = {
    "llama": ({}, LAYER),
    "qwen2": ({"model_type": "qwen2"}, LAYER),
    "qwen3": ({"model_type": "qwen3", "head_dim": 16}, LAYER),
    "gemma2": (
        {"model_type": "gemma2", "head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 16,
         "tie_word_embeddings": True}, GEMMA,
    ),
    "gemma3": (
        {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 16,
         "tie_word_embeddings": True, "rope_theta": 1e6}, GEMMA,
    ),
}  # fmt: skip
TOKENS = [5, 17, 33, 2, 8, 41, 7, 60]


def slow_q4_k(block):
    """Convert a block one number at a time, from the description of the format."""
    scale, least = (float(block[i : i + 2].copy().view(np.float16)[0]) for i in (0, 2))
    packed, numbers, found = block[4:16].astype(int), block[16:], []
    for group in range(8):
        if group < 4:
            factor, minimum = packed[group] & 63, packed[group + 4] & 63
        else:
            factor = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4)
            minimum = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4)
        for i in range(32):
            byte = int(numbers[group // 2 * 32 + i])
            found.append(scale * factor * (byte >> 4 if group % 2 else byte & 15) - least * minimum)
    return found


def slow_q6_k(block):
    """Convert a block one number at a time, from the description of the format."""
    scale, scales = float(block[208:210].copy().view(np.float16)[0]), block[192:208].view(np.int8)
    found = np.zeros(256)
    for half in range(2):
        low, high = block[64 * half : 64 * half + 64].astype(int), block[128 + 32 * half : 160 + 32 * half].astype(int)
        for i in range(32):
            for quarter in range(4):
                number = (low[i + 32 * (quarter % 2)] >> (4 * (quarter // 2))) & 15
                number |= ((high[i] >> (2 * quarter)) & 3) << 4
                index = 128 * half + 32 * quarter + i
                found[index] = scale * scales[index // 16] * (number - 32)
    return found


def random_blocks(kind, rng):
    """Return seven random blocks whose scales are ordinary numbers."""
    block = gguf_blocks.BLOCKS[kind]
    data = rng.integers(0, 256, (7, block.bytes)).astype(np.uint8)
    for first in {2: (0,), 8: (0,), 12: (0, 2), 14: (208,)}[kind]:
        data[:, first : first + 2] = rng.uniform(0.01, 0.1, (7, 1)).astype(np.float16).view(np.uint8)
    return data


@pytest.mark.parametrize(("kind", "slow"), [(12, slow_q4_k), (14, slow_q6_k)])
def test_k_blocks_equal_the_description_of_the_format(kind, slow, rng):
    data = random_blocks(kind, rng)
    found = gguf_blocks.dequantized(kind, (7, 256), data.reshape(-1))
    np.testing.assert_allclose(found, [slow(block) for block in data], rtol=1e-5, atol=1e-6)


def test_simple_blocks_equal_numpy(rng):
    for kind, shift in ((2, 8), (8, 0)):
        data = random_blocks(kind, rng)
        scales, numbers = data[:, :2].copy().view(np.float16).astype(float), data[:, 2:]
        if kind == 2:
            numbers = np.concatenate([numbers & 15, numbers >> 4], 1).astype(int) - shift
        else:
            numbers = numbers.view(np.int8).astype(int)
        found = gguf_blocks.dequantized(kind, (7, 32), data.reshape(-1))
        np.testing.assert_allclose(found, scales * numbers, rtol=1e-6)


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_packed_blocks_equal_the_floats(name, rng):
    kind, elements = KINDS[name], gguf_blocks.BLOCKS[KINDS[name]].elements
    data = np.concatenate([random_blocks(kind, rng) for _ in range(2)])
    shape = (2, len(data) // 2 * elements)
    words, scales, biases = gguf_blocks.packed(kind, shape, data.reshape(-1))
    q = unpack(words, gguf_blocks.PACKED[kind][0])
    found = np.repeat(scales.astype(np.float64), 32, -1) * q + np.repeat(biases.astype(np.float64), 32, -1)
    wanted = gguf_blocks.dequantized(kind, shape, data.reshape(-1))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("name", KINDS)
def test_blocks_equal_the_gguf_package(name, rng):
    gguf = pytest.importorskip("gguf")
    kind = KINDS[name]
    data = random_blocks(kind, rng)
    wanted = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(kind))
    found = gguf_blocks.dequantized(kind, wanted.shape, data.reshape(-1))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def written(path, model, names, architecture, kind="F32", tokens=()):
    """Write a model with the gguf package, in the layout of llama.cpp's converter."""
    gguf = pytest.importorskip("gguf")
    from mpsgraph.lm.families import family_of
    from mpsgraph.lm.weights import written as exported

    a, entries = model.architecture, model.configuration
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(a.max_length)
    writer.add_embedding_length(a.width)
    writer.add_block_count(a.layers)
    writer.add_feed_forward_length(a.hidden)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(a.kv_heads)
    writer.add_layer_norm_rms_eps(a.epsilon)
    writer.add_rope_freq_base(a.rotary[-1].base)
    writer.add_vocab_size(a.vocabulary)
    if "head_dim" in entries:
        writer.add_key_length(a.head_dim)
        writer.add_value_length(a.head_dim)
    if entries.get("sliding_window"):
        writer.add_sliding_window(entries["sliding_window"])
    for key, value in tokens:
        writer.add_key_value(key, *value)
    for name, value in exported(model, family_of(entries["model_type"]).rules(a)).items():
        array, (stem, _, ending) = value.array, name.rpartition(".")
        parts = stem.split(".", 3)
        layer = "layers" in parts
        own = f"blk.{parts[2]}.{names[parts[3]]}.{ending}" if layer else f"{TOP[stem]}.{ending}"
        if architecture == "llama" and layer and parts[3] in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = a.heads if "q_proj" in stem else a.kv_heads
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if architecture.startswith("gemma") and array.ndim == 1:
            array = array + 1
        if array.ndim == 2 and kind != "F32":
            number = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(own, gguf.quants.quantize(array, number), raw_dtype=number)
        else:
            writer.add_tensor(own, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(model):
    g = model.embedding.weight.graph
    x = g.placeholder((1, -1), mg.int32)
    return g.run({x: np.int32([TOKENS])}, model(x)).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_model_equals_its_checkpoint(name, tmp_path):
    more, names = MODELS[name]
    model = small_model(**more)
    written(tmp_path / "model.gguf", model, names, name)
    loaded, tokenizer = mg.lm.load(tmp_path / "model.gguf")
    assert tokenizer is None
    np.testing.assert_allclose(logits(loaded), logits(model), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0"])
def test_quantized_model_equals_a_model_with_dequantized_weights(kind, tmp_path):
    gguf = pytest.importorskip("gguf")
    sizes = {"hidden_size": 64, "intermediate_size": 96}
    model = small_model(**sizes)
    written(tmp_path / "model.gguf", model, LAYER, "llama", kind)
    state, number = model.state_dict(), gguf.GGMLQuantizationType[kind]
    for name, value in state.items():
        if value.ndim == 2:  # Blocks lie along the inputs.
            rows = value if name == "embedding.weight" else value.T
            rows = gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(rows), number), number)
            state[name] = np.ascontiguousarray(rows if name == "embedding.weight" else rows.T, np.float32)
    plain = logits(model)
    model.load_state_dict(state)
    loaded, _ = mg.lm.load(tmp_path / "model.gguf")
    np.testing.assert_allclose(logits(loaded), logits(model), atol=1e-4, rtol=0)
    assert np.abs(logits(loaded) - plain).max() > 1e-4
    assert isinstance(loaded.layers[1].attention.key, mg.nn.QuantizedLinear) == (kind != "F16")
    mg.lm.save(loaded, tmp_path / "folder")
    np.testing.assert_array_equal(logits(mg.lm.load(tmp_path / "folder")[0]), logits(loaded))


def test_unknown_entries_and_tensors_are_refused(tmp_path):
    gguf = pytest.importorskip("gguf")
    uint = gguf.GGUFValueType.UINT32
    model = small_model()
    written(tmp_path / "a.gguf", model, LAYER, "llama", tokens=[("llama.new_feature", (1, uint))])
    with pytest.raises(mg.UnsupportedError, match=r"llama\.new_feature"):
        mg.lm.load(tmp_path / "a.gguf")
    written(tmp_path / "b.gguf", model, {**LAYER, "mlp.up_proj": "ffn_upper"}, "llama")
    with pytest.raises(mg.CheckpointError, match="ffn_upper"):
        mg.lm.load(tmp_path / "b.gguf")


def test_damaged_files_raise_checkpoint_error(tmp_path):
    written(tmp_path / "model.gguf", small_model(), LAYER, "llama")
    data = (tmp_path / "model.gguf").read_bytes()
    rng = np.random.default_rng(0)
    for i in range(60):
        damaged = bytearray(data[: int(rng.integers(len(data)))] if i % 2 else data)
        for at in rng.integers(0, min(len(damaged), 2000), 4) if damaged else ():
            damaged[at] = int(rng.integers(256))
        (tmp_path / "damaged.gguf").write_bytes(damaged)
        try:
            read_file(tmp_path / "damaged.gguf")
        except mg.Error:
            pass


def test_byte_pair_tokenizer_equals_the_original(tmp_path):
    gguf = pytest.importorskip("gguf")
    import tokenizers

    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=alphabet, special_tokens=["<|end|>"]
    )
    text = "the cat sat on the mat, and the dog sat on the log; naïve façades — 3.14159 — déjà vu!\n" * 20
    trained.train_from_iterator([text], trainer)
    import json

    model = json.loads(trained.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    value = gguf.GGUFValueType
    entries = [
        ("tokenizer.ggml.model", ("gpt2", value.STRING)), ("tokenizer.ggml.pre", ("gpt-2", value.STRING)),
        ("tokenizer.ggml.tokens", (words, value.ARRAY)), ("tokenizer.ggml.merges", (merges, value.ARRAY)),
        ("tokenizer.ggml.token_type", ([3] + [1] * (len(words) - 1), value.ARRAY)),
        ("tokenizer.ggml.eos_token_id", (0, value.UINT32)),
    ]  # fmt: skip
    written(tmp_path / "model.gguf", small_model(vocab_size=len(words)), LAYER, "llama", tokens=entries)
    _, tokenizer = mg.lm.load(tmp_path / "model.gguf")
    sample = "the dog, naïve and 42 — façade<|end|>the"
    assert tokenizer.encode(sample) == trained.encode(sample).ids
    assert tokenizer.decode(tokenizer.encode(sample)) == trained.decode(trained.encode(sample).ids)
    assert tokenizer.ends == {0}


def test_sizes_of_the_test_model_divide_into_blocks():
    assert SIZES["hidden_size"] % 32 == 0
