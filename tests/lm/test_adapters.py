"""Adapters of language models compared with PEFT: logits both ways, losses of training steps, and merging."""

import json
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness.transformers_models import logits_of, tokens_of, written
from mpsgraph import lm
from mpsgraph.nn.quantized import unpack

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

# PEFT uses a name of transformers that will change, and warns about configurations that it corrects itself.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]

TOKENS = tokens_of(3, (2, 17))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "names": ("llama-2", {"target_modules": ["q_proj", "v_proj"], "r": 4}),
    "all-linear, DoRA, rsLoRA": (
        "llama-2", {"target_modules": "all-linear", "r": 4, "lora_alpha": 3, "use_dora": True, "use_rslora": True},
    ),
    "regular expression with patterns of ranks and alphas": (
        "llama-2",
        {
            "target_modules": r".*\.mlp\..*_proj", "r": 4, "alpha_pattern": {"down_proj": 5},
            "rank_pattern": {"up_proj": 2, r"layers\.1\.mlp\.gate_proj": 3},
        },
    ),
    "modules_to_save": ("llama-2", {"target_modules": ["k_proj"], "modules_to_save": ["lm_head", "norm"]}),
    "biases": ("qwen2", {"target_modules": ["q_proj", "o_proj"], "use_dora": True}),
    "layers_to_transform": ("llama-2", {"target_modules": ["q_proj"], "layers_to_transform": [0, 2]}),
    "exclude_modules": ("llama-2", {"target_modules": ["q_proj", "k_proj"], "exclude_modules": r".*\.1\..*"}),
    "fused projections": ("phi-3-mini", {"target_modules": ["qkv_proj", "gate_up_proj"]}),
    "fused projections with DoRA": ("phi-3-mini", {"target_modules": ["qkv_proj"], "use_dora": True}),
    "Conv1D": ("gpt2", {"target_modules": ["c_attn", "c_fc"], "use_dora": True}),
    "soft caps": ("gemma-2", {"target_modules": ["q_proj", "down_proj"], "use_dora": True}),
    "mixture of experts": ("mixtral", {"target_modules": ["q_proj"]}),
}  # fmt: skip


def peft_model(theirs: Any, options: dict[str, Any]) -> Any:
    """Return the model with an adapter of random numbers."""
    model = peft.get_peft_model(theirs, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    torch.manual_seed(1)
    with torch.no_grad():
        for _, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def logits_of_peft(model: Any) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor(TOKENS).long()).logits.numpy()


def base_of(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_peft_files_give_equal_logits_both_ways(tmp_path: Path, case: str) -> None:
    name, options = CASES[case]
    theirs, _ = written(tmp_path, name)
    ours, _ = lm.load(tmp_path, dtype="float32")
    before = logits_of(ours, TOKENS)
    theirs = peft_model(theirs, options)
    theirs.save_pretrained(tmp_path / "theirs")
    want = logits_of_peft(theirs)
    lm.load_adapters(ours, tmp_path / "theirs")
    found = logits_of(ours, TOKENS)
    assert np.abs(found - before).max() > 0.05
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)

    lm.save_adapters(ours, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(base_of(tmp_path), tmp_path / "ours").eval()
    np.testing.assert_allclose(logits_of_peft(again), want, rtol=1e-5, atol=1e-5)

    lm.merge_adapters(ours)
    np.testing.assert_allclose(logits_of(ours, TOKENS), want, rtol=1e-5, atol=1e-5)
    lm.save(ours, tmp_path / "merged")
    np.testing.assert_allclose(logits_of_peft(base_of(tmp_path / "merged")), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_encoders_exchange_adapters(tmp_path: Path, name: str) -> None:
    theirs, _ = written(tmp_path, name)
    ours, _ = lm.load(tmp_path, dtype="float32")
    model = peft.get_peft_model(theirs, peft.LoraConfig(target_modules="all-linear", init_lora_weights=False)).eval()
    model.save_pretrained(tmp_path / "theirs")
    want = logits_of_peft(model)
    lm.load_adapters(ours, tmp_path / "theirs")
    np.testing.assert_allclose(logits_of(ours, TOKENS), want, rtol=1e-5, atol=1e-5)
    lm.save_adapters(ours, tmp_path / "ours")
    base = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, attn_implementation="eager")
    again = peft.PeftModel.from_pretrained(base, tmp_path / "ours").eval()
    np.testing.assert_allclose(logits_of_peft(again), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dora", [False, True])
def test_losses_of_ten_training_steps_equal_those_of_peft(tmp_path: Path, dora: bool) -> None:
    theirs, _ = written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path, dtype="float32")
    model = peft_model(theirs, {"target_modules": ["q_proj", "v_proj", "up_proj"], "r": 4, "use_dora": dora})
    model.save_pretrained(tmp_path / "adapter")
    lm.load_adapters(ours, tmp_path / "adapter")
    trainer = mg.Trainer(ours, optimizer=mg.optim.SGD(0.5), metrics=())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.5)
    for step in range(10):
        tokens = tokens_of(step, (2, 12))
        inputs, labels = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        optimizer.zero_grad()
        logits = model(torch.tensor(inputs).long()).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), torch.tensor(labels).long().reshape(-1)
        )
        loss.backward()
        optimizer.step()
        assert abs(float(trainer.train_step(inputs, labels)) - float(loss)) < 1e-5


def test_fused_projections_with_own_adapters_become_one_of_the_sum_of_ranks(tmp_path: Path) -> None:
    written(tmp_path, "phi-3-mini")
    ours, _ = lm.load(tmp_path, dtype="float32")
    paths = lm.add_adapters(ours, rank=3, alpha=5, targets=("query", "value"))
    assert len(paths) == 6
    rng = np.random.default_rng(0)
    state = ours.state_dict()
    ours.load_state_dict({
        path: rng.normal(size=value.shape).astype(np.float32) * 0.2 if ".adapters." in path else value
        for path, value in state.items()
    })  # fmt: skip
    lm.save_adapters(ours, tmp_path / "ours")
    assert json.loads((tmp_path / "ours/adapter_config.json").read_text())["r"] == 6
    model = peft.PeftModel.from_pretrained(base_of(tmp_path), tmp_path / "ours").eval()
    np.testing.assert_allclose(logits_of(ours, TOKENS), logits_of_peft(model), rtol=1e-5, atol=1e-5)


def test_several_adapters_are_combined_as_peft_combines_them(tmp_path: Path) -> None:
    theirs, _ = written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path, dtype="float32")
    model = peft_model(theirs, {"target_modules": ["q_proj"]})
    torch.manual_seed(5)
    model.add_adapter("second", peft.LoraConfig(r=4, target_modules=["v_proj", "q_proj"], init_lora_weights=False))
    model.save_pretrained(tmp_path / "both")
    lm.load_adapters(ours, tmp_path / "both", "first")
    lm.load_adapters(ours, tmp_path / "both/second", "second")
    assert lm.adapter_names(ours) == ["first", "second"]
    model.set_adapter("second")
    np.testing.assert_allclose(logits_of(ours, TOKENS), logits_of_peft(model), rtol=1e-5, atol=1e-5)
    model.base_model.set_adapter(["default", "second"])
    lm.select_adapters(ours, "first", "second")
    np.testing.assert_allclose(logits_of(ours, TOKENS), logits_of_peft(model), rtol=1e-5, atol=1e-5)
    with pytest.raises(mg.errors.GraphError, match="has 2 adapters"):
        lm.save_adapters(ours, tmp_path / "one")


def test_generation_follows_the_selected_adapter(tmp_path: Path) -> None:
    theirs, _ = written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path, dtype="float32")
    prompt = [5, 9, 31]

    def text_of(model: Any) -> list[int]:
        # The tokens that follow the prompt are the likeliest ones, one after the other.
        tokens = list(prompt)
        with torch.no_grad():
            for _ in range(8):
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        return tokens[len(prompt) :]

    plain = text_of(theirs)
    model = peft_model(theirs, {"target_modules": "all-linear", "r": 8, "lora_alpha": 64})
    model.save_pretrained(tmp_path / "adapter")
    assert lm.generate(ours, None, prompt, max_tokens=8) == plain
    lm.load_adapters(ours, tmp_path / "adapter")
    changed = text_of(model)
    assert changed != plain
    assert lm.generate(ours, None, prompt, max_tokens=8) == changed
    lm.select_adapters(ours)
    assert lm.generate(ours, None, prompt, max_tokens=8) == plain


def test_save_refuses_a_model_with_adapters(tmp_path: Path) -> None:
    written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path)
    lm.add_adapters(ours)
    with pytest.raises(mg.errors.GraphError, match="merge_adapters"):
        lm.save(ours, tmp_path / "saved")


# --- files that cannot be expressed -----------------------------------------------------------------------------------

ENTRIES = {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": ["q_proj"]}
REFUSED = {
    "another method": ({"peft_type": "IA3"}, r"adapters of type 'IA3'"),
    "training of biases": ({"bias": "all"}, r"bias='all' is not supported"),
    "bias of lora_B": ({"lora_bias": True}, r"lora_bias=True is not supported"),
    "initial values that change the base": ({"init_lora_weights": "pissa"}, r"init_lora_weights='pissa'"),
    "replicated layers": ({"layer_replication": [[0, 2]]}, r"layer_replication="),
    "trained tokens": ({"trainable_token_indices": [1]}, r"trainable_token_indices="),
    "parameters": ({"target_parameters": ["mlp.experts"]}, r"target_parameters="),
    "a task with another head": ({"task_type": "SEQ_CLS"}, r"task_type='SEQ_CLS'"),
    "an unknown entry": ({"use_magic": True}, r"entries that are not supported: use_magic"),
    "a wrong type": ({"r": "8"}, r"'r' has an invalid value"),
    "tensors that are missing": ({"target_modules": ["q_proj", "v_proj"]}, r"has no tensors for it"),
    "tensors that are left": ({"target_modules": r".*0.*q_proj"}, r"which target_modules does not include"),
    "another rank": ({"r": 4}, r"must have shape \(4, 32\), got \(8, 32\)"),
    "DoRA without magnitudes": ({"use_dora": True}, r"must have the tensors A, B, M"),
    "layers to save that are missing": ({"modules_to_save": ["lm_head"]}, r"includes 'lm_head.weight'"),
    "layers to save that do not exist": ({"modules_to_save": ["score"]}, r"has 'score'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_cannot_be_expressed_are_refused(tmp_path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path, dtype="float32")
    lm.add_adapters(ours, targets=("query",))
    lm.save_adapters(ours, tmp_path / "adapter")
    lm.remove_adapters(ours)
    path = tmp_path / "adapter/adapter_config.json"
    path.write_text(json.dumps({**ENTRIES, "lora_alpha": 16, **changes}))
    with pytest.raises((mg.errors.UnsupportedError, mg.errors.CheckpointError), match=message):
        lm.load_adapters(ours, tmp_path / "adapter")
    assert lm.adapter_names(ours) == []
    assert len(list(ours.named_trainable_parameters())) == len(list(ours.named_parameters()))


def test_tensors_of_other_kinds_are_refused(tmp_path: Path) -> None:
    theirs, _ = written(tmp_path, "llama-2")
    ours, _ = lm.load(tmp_path, dtype="float32")
    peft_model(theirs, {"target_modules": ["q_proj", "embed_tokens"]}).save_pretrained(tmp_path / "adapter")
    with pytest.raises(mg.errors.UnsupportedError, match="adapters of embeddings"):
        lm.load_adapters(ours, tmp_path / "adapter")


# --- quantized models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dora", [False, True])
def test_adapters_of_quantized_weights_compute_as_around_the_dequantized_ones(tmp_path: Path, dora: bool) -> None:
    theirs, _ = written(tmp_path, "llama-2", hidden_size=64, intermediate_size=64)
    ours, _ = lm.load(tmp_path, dtype="float32")
    model = peft_model(theirs, {"target_modules": ["q_proj", "v_proj", "down_proj"], "use_dora": dora})
    model.save_pretrained(tmp_path / "adapter")
    lm.quantize(ours, bits=4, group_size=32)
    state = ours.state_dict()
    set_dequantized(theirs, ours)
    lm.load_adapters(ours, tmp_path / "adapter")
    np.testing.assert_allclose(logits_of(ours, TOKENS), logits_of_peft(model), rtol=2e-5, atol=2e-5)
    after = ours.state_dict()
    assert all(np.array_equal(after[path], value) for path, value in state.items())
    trainer = mg.Trainer(ours, optimizer=mg.optim.SGD(0.5), metrics=())
    inputs, labels = np.ascontiguousarray(TOKENS[:, :-1]), np.ascontiguousarray(TOKENS[:, 1:])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.5)
    for _ in range(4):
        optimizer.zero_grad()
        logits = model(torch.tensor(inputs).long()).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(labels).long().flatten())
        loss.backward()
        optimizer.step()
        assert abs(float(trainer.train_step(inputs, labels)) - float(loss)) < 2e-5
    trainer.save(tmp_path / "small", frozen=False)
    tensors, _ = mg.checkpoint.load(tmp_path / "small")
    assert not any(name.endswith(("scales", "biases", "gamma")) for name in tensors)


def set_dequantized(theirs: Any, ours: Any) -> None:
    """Set the matrices of a model of transformers to the values of our model's packed weights."""
    names = {
        "q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value",
        "o_proj": "attention.output", "gate_proj": "feed_forward.gate", "up_proj": "feed_forward.up",
        "down_proj": "feed_forward.down", "embed_tokens": "embedding", "lm_head": "head",
    }  # fmt: skip
    state = ours.state_dict()
    for name, parameter in theirs.named_parameters():
        part = next((part for part in names if f".{part}." in f".{name}"), None)
        if part is None or "lora" in name:
            continue
        layer = next((piece for piece in name.split(".") if piece.isdigit()), None)
        path = names[part] if layer is None else f"layers.{layer}.{names[part]}"
        scales, biases = state[f"{path}.scales"], state[f"{path}.biases"]
        groups = unpack(state[f"{path}.weight"], 4).reshape(*scales.shape, 32)
        dense = groups * scales[..., None] + biases[..., None]
        parameter.data.copy_(torch.from_numpy(dense.reshape(parameter.shape)))
