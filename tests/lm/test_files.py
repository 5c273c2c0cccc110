"""Test files of language models: saving and loading, shards, dtypes, and that nothing of a checkpoint is ignored."""

import json

import mpsgraph as mg
import numpy as np
import pytest
from harness.language_models import CONFIGURATIONS
from harness.small_language_model import SIZES, small_model, word_tokenizer
from mpsgraph.lm.families import family_of
from mpsgraph.lm.storage import write_safetensors
from mpsgraph.lm.weights import written
from mpsgraph.nn.parts import all_variables
from mpsgraph.nn.state import Value, bits_of, wide_of
from mpsgraph.nn.weights.files import read_values

TOKENS = np.int32([[5, 17, 33, 2, 8]])


def logits(model):
    g = model.embedding.weight.graph
    x = g.placeholder((1, -1), mg.int32)
    return g.run({x: TOKENS}, model(x)).numpy()


def rewritten(folder, change):
    """Change the tensors of a saved model."""
    state = {name: Value(value.array.copy(), value.dtype) for name, value in read_values(folder).items()}
    change(state)
    write_safetensors(folder / "model.safetensors", state)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_saved_model_of_every_family_loads_with_equal_values(name, tmp_path):
    model = mg.lm.create(CONFIGURATIONS[name], seed=1)
    mg.lm.save(model, tmp_path)
    loaded, tokenizer = mg.lm.load(tmp_path)
    wanted = model.state_dict()
    assert tokenizer is None and loaded.architecture == model.architecture and not loaded.training
    assert {k: v.tobytes() for k, v in loaded.state_dict().items()} == {k: v.tobytes() for k, v in wanted.items()}


def test_created_model_has_normal_weights_with_the_published_deviation():
    state = mg.lm.create({**SIZES, "hidden_size": 128}, seed=3).state_dict()
    weight = state["layers.0.attention.query.weight"]
    assert abs(weight.std() - 0.02) < 1e-3 and abs(weight.mean()) < 1e-3
    assert (state["norm.gamma"] == 1).all()


def test_sharded_model_loads_with_equal_logits(tmp_path):
    model = small_model()
    mg.lm.save(model, tmp_path, largest=20_000)
    shards = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(shards) > 3 and shards[0] == f"model-00001-of-{len(shards):05}.safetensors"
    np.testing.assert_array_equal(logits(mg.lm.load(tmp_path)[0]), logits(model))


def test_safetensors_package_reads_saved_files(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = small_model()
    mg.lm.save(model, tmp_path)
    found = safetensors.load_file(tmp_path / "model.safetensors")
    wanted = model.state_dict()
    np.testing.assert_array_equal(
        found["model.layers.1.mlp.up_proj.weight"].T, wanted["layers.1.feed_forward.up.weight"]
    )
    assert len(found) == len(wanted)


def test_bfloat16_weights_stay_bfloat16_unless_a_dtype_is_passed(tmp_path):
    model = small_model()
    mg.lm.save(model, tmp_path)

    def narrow(state):
        for name, value in state.items():
            state[name] = Value(bits_of(value.array), mg.bfloat16)

    rewritten(tmp_path, narrow)
    half, wide = mg.lm.load(tmp_path)[0], mg.lm.load(tmp_path, dtype="float32")[0]
    assert half.embedding.weight.dtype == mg.bfloat16 and wide.embedding.weight.dtype == mg.float32
    model.load_state_dict({name: wide_of(bits_of(value)) for name, value in model.state_dict().items()})
    np.testing.assert_array_equal(logits(wide), logits(model))
    np.testing.assert_allclose(
        wide_of(logits(half).view(np.uint16)), logits(model), atol=0.05 * np.abs(logits(model)).max()
    )
    mg.lm.save(half, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_rounding_weights_requires_a_dtype(tmp_path):
    mg.lm.save(small_model(), tmp_path)
    narrow = mg.lm.load(tmp_path, dtype="bfloat16")[0]
    assert narrow.embedding.weight.dtype == mg.bfloat16


def test_tokenizer_round_trips(tmp_path):
    pytest.importorskip("tokenizers")
    mg.lm.save(small_model(), tmp_path, word_tokenizer((93,)))
    _, tokenizer = mg.lm.load(tmp_path)
    assert tokenizer.encode("w5 user w7") == [5, 94, 7] and tokenizer.decode([5, 94]) == "w5 user"
    assert tokenizer.ends == {93} and tokenizer.special("eos_token") == "end"


def test_tied_head_in_the_file_must_equal_the_embedding(tmp_path):
    model = small_model(tie_word_embeddings=True)
    mg.lm.save(model, tmp_path)
    rewritten(tmp_path, lambda s: s.update({"lm_head.weight": s["model.embed_tokens.weight"]}))
    np.testing.assert_array_equal(logits(mg.lm.load(tmp_path)[0]), logits(model))

    def differ(state):
        state["lm_head.weight"] = Value(state["lm_head.weight"].array + 1, mg.float32)

    rewritten(tmp_path, differ)
    with pytest.raises(mg.CheckpointError, match=r"lm_head\.weight' differs from 'model\.embed_tokens"):
        mg.lm.load(tmp_path)


def test_missing_extra_and_misshapen_tensors_are_refused(tmp_path):
    mg.lm.save(small_model(), tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    for change, message in (
        (lambda s: s.pop(name), rf"lacks {name}"),
        (lambda s: s.update(extra=s[name]), r"does not use: model\.extra"),
        (lambda s: s.update({name: Value(s[name].array[:-1], mg.float32)}), "differ from config.json"),
    ):
        mg.lm.save(small_model(), tmp_path)
        rewritten(tmp_path, change)
        with pytest.raises(mg.CheckpointError, match=message):
            mg.lm.load(tmp_path)


def test_extra_tensors_can_be_ignored_by_pattern(tmp_path):
    model = small_model()
    mg.lm.save(model, tmp_path)
    rewritten(tmp_path, lambda s: s.update({"vision.a": s["model.norm.weight"], "vision.b": s["model.norm.weight"]}))
    np.testing.assert_array_equal(logits(mg.lm.load(tmp_path, ignore=["vision.*"])[0]), logits(model))


def test_constants_of_older_programs_are_checked(tmp_path):
    mg.lm.save(small_model(), tmp_path)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    right = Value((10000.0 ** (-np.arange(4) / 4)).astype(np.float32), mg.float32)
    rewritten(tmp_path, lambda s: s.update({name: right}))
    mg.lm.load(tmp_path)
    rewritten(tmp_path, lambda s: s.update({name: Value(right.array * 2, mg.float32)}))
    with pytest.raises(mg.CheckpointError, match="is not the constant"):
        mg.lm.load(tmp_path)


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({"new_feature": True}, mg.UnsupportedError, "new_feature"),
        ({"quantization_config": {"bits": 4}}, mg.UnsupportedError, "quantization_config"),
        ({"hidden_act": "quick_gelu"}, mg.UnsupportedError, "quick_gelu"),
        ({"rope_scaling": {"rope_type": "cubic"}}, mg.GraphError, "cubic"),
        ({"hidden_size": "32"}, mg.CheckpointError, "'hidden_size' must be int"),
        ({"hidden_size": 0}, mg.CheckpointError, "'hidden_size' must be at least 1"),
        ({"vocab_size": None}, mg.CheckpointError, "'vocab_size', which is missing"),
        ({"model_type": "mamba"}, mg.UnsupportedError, "mamba"),
        ({"rope_interleaved": True}, mg.UnsupportedError, "rope_interleaved"),
    ],
)
def test_unsupported_configurations_are_refused(entries, error, message, tmp_path):
    with pytest.raises(error, match=message):
        mg.lm.create({**SIZES, **entries})


def test_entries_can_be_ignored_at_the_callers_request(tmp_path):
    mg.lm.save(small_model(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "new_feature": True}))
    with pytest.raises(mg.UnsupportedError, match="new_feature"):
        mg.lm.load(tmp_path)
    assert mg.lm.load(tmp_path, ignore=["new_feature"])[0].architecture.vocabulary == 96


def test_folder_without_configuration_is_refused(tmp_path):
    with pytest.raises(mg.CheckpointError, match=r"no config\.json"):
        mg.lm.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(mg.CheckpointError, match="cannot be read"):
        mg.lm.load(tmp_path)


def test_every_variable_of_every_family_has_exactly_one_rule():
    for entries in CONFIGURATIONS.values():
        model = mg.lm.create(entries)
        rules = family_of(entries["model_type"]).rules(model.architecture)
        paths = [path for rule in rules for path in rule.ours]
        names = [name for rule in rules for name in rule.theirs]
        assert sorted(paths) == sorted(all_variables(model)) and len(names) == len(set(names))
        assert set(written(model, rules)) == set(names)
