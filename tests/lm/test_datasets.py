"""Data sets for fine-tuning: which tokens count, packing, buckets, and errors with line numbers."""

import json
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
import tokenizers
from harness.small_language_model import SIZES, small_model, word_tokenizer
from mpsgraph import lm

TALK = [
    {"role": "system", "content": "Be brief ."},
    {"role": "user", "content": "Hello there , who are you ?"},
    {"role": "assistant", "content": "A model ."},
    {"role": "user", "content": "And then ?"},
    {"role": "assistant", "content": "Nothing more , goodbye ."},
]
HEADER = "<|im_start|>"
PLAIN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKED = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>\n' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(template: str) -> lm.Tokenizer:
    """Return a byte-level BPE tokenizer with the special tokens of ChatML."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.train_from_iterator([m["content"] for m in TALK] * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=320, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|im_start|>", "<|im_end|>"],
    ))  # fmt: skip
    return lm.Tokenizer(backend, {"eos_token": "<|im_end|>", "chat_template": template})


def only_batch(data: lm.TokenBatches) -> tuple[np.ndarray, np.ndarray]:
    ((tokens, labels),) = data
    return tokens, labels


@pytest.mark.parametrize("template", [PLAIN, MARKED])
def test_answers_of_all_turns_count_and_nothing_else(template: str) -> None:
    tokenizer = byte_tokenizer(template)
    tokens, labels = only_batch(lm.chat_dataset([{"messages": TALK}], tokenizer, batch_size=1))
    wanted: list[tuple[int, bool]] = []
    for message in TALK:
        head = tokenizer.encode(f"{HEADER}{message['role']}\n", special=False)
        body = tokenizer.encode(f"{message['content']}<|im_end|>\n", special=False)
        wanted += [(t, False) for t in head] + [(t, message["role"] == "assistant") for t in body]
    count = len(wanted) - 1
    assert tokens[0, :count].tolist() == [token for token, _ in wanted[:-1]]
    assert labels[0, :count].tolist() == [token if counts else -100 for token, counts in wanted[1:]]
    assert (labels[0, count:] == -100).all() and (tokens[0, count:] == 0).all()


@pytest.mark.parametrize("template", [PLAIN, MARKED])
def test_counted_tokens_equal_the_assistant_mask_of_transformers(template: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = byte_tokenizer(template)
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    theirs.chat_template = MARKED
    found = theirs.apply_chat_template(TALK, return_assistant_tokens_mask=True, return_dict=True)
    tokens, labels = only_batch(lm.chat_dataset([{"messages": TALK}], tokenizer, batch_size=1))
    count = len(found["input_ids"]) - 1
    assert tokens[0, :count].tolist() == found["input_ids"][:-1]
    assert (labels[0, :count] != -100).astype(int).tolist() == found["assistant_masks"][1:]


def test_templates_with_generation_blocks_render_as_without_them() -> None:
    plain, marked = byte_tokenizer(PLAIN), byte_tokenizer(MARKED)
    assert marked.chat(TALK) == plain.chat(TALK)


def test_template_that_changes_earlier_messages_is_refused() -> None:
    changing = "{% for m in messages %}{{ m.role + (m.content if loop.last else '') }}{% endfor %}"
    with pytest.raises(mg.data.DataError, match=r"item 0: the chat template changes earlier messages"):
        lm.chat_dataset([{"messages": TALK}], byte_tokenizer(changing))


def test_only_completions_and_the_end_count() -> None:
    tokenizer = word_tokenizer()
    records = [{"prompt": "w1 w2 w3", "completion": "w4 w5"}, {"prompt": "w6", "completion": "w7"}]
    data = lm.completion_dataset(records, tokenizer, batch_size=2, shuffle=False)
    tokens, labels = only_batch(data)
    end = tokenizer.encode("end")[0]
    assert tokens[0, :5].tolist() == [1, 2, 3, 4, 5] and labels[0, :6].tolist() == [-100, -100, 4, 5, end, -100]
    assert tokens[1, :2].tolist() == [6, 7] and labels[1, :3].tolist() == [7, end, -100]


def test_long_texts_are_divided_without_losing_a_prediction() -> None:
    tokenizer = word_tokenizer()
    text = [int(i) for i in np.random.default_rng(0).integers(0, 90, 70)]
    data = lm.text_dataset(
        [{"text": " ".join(f"w{i}" for i in text)}], tokenizer, batch_size=1, max_length=16, shuffle=False
    )  # fmt: skip
    pairs = []
    for tokens, labels in data:
        pairs += [(t, label) for t, label in zip(tokens[0], labels[0], strict=True) if label != -100]
    whole = [*text, tokenizer.encode("end")[0]]
    assert pairs == list(zip(whole[:-1], whole[1:], strict=True))


def samples_of(seed: int, lengths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng, found = np.random.default_rng(seed), []
    for length in lengths:
        tokens = rng.integers(0, 96, length + 1).astype(np.int32)
        labels = np.where(np.arange(length) < 2, -100, tokens[1:]).astype(np.int32)
        found.append((tokens[:-1], labels))
    return found


def loss_and_gradients(model: Any, data: Any) -> tuple[float, dict[str, np.ndarray]]:
    """Return the sum of the losses of all labels that count, and its gradients."""
    g, total, sums = model.embedding.weight.graph, 0.0, dict[str, np.ndarray]()
    for inputs, labels in data:
        given = inputs if isinstance(inputs, dict) else {"tokens": inputs}
        fed = {name: g.placeholder(array.shape, mg.int32) for name, array in given.items()}
        y = g.placeholder(labels.shape, mg.int32)
        logits = model(fed["tokens"], positions=fed.get("positions"))
        loss = mg.nn.losses.cross_entropy(logits, y, ignore_index=-100, reduction="sum")
        gradients = g.gradients(loss, model.parameters())
        feeds = {fed[name]: array for name, array in given.items()}
        found = g.run({**feeds, y: labels}, [loss, *gradients.values()])
        total += found[loss].item()
        for v, d in gradients.items():
            sums[v.name] = sums.get(v.name, 0) + found[d].numpy()
    return total, sums


VARIANTS: dict[str, dict[str, Any]] = {
    "rotary": {},
    "window": {"model_type": "mistral", "sliding_window": 4},
    "learned positions": {
        "model_type": "gpt2", "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96,
    },
    "soft caps": {
        "model_type": "gemma2", "head_dim": 8, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 9.0, "sliding_window": 4, "hidden_activation": "gelu_pytorch_tanh",
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_packed_samples_have_the_losses_and_gradients_of_separate_ones(variant: str) -> None:
    more = VARIANTS[variant]
    if more.get("model_type") == "gpt2":
        model = lm.create(more)
        rng = np.random.default_rng(0)
        model.load_state_dict({
            name: v + rng.normal(size=v.shape).astype(v.dtype) * 0.1 for name, v in model.state_dict().items()
        })  # fmt: skip
    else:
        model = small_model(**more)
    samples = samples_of(1, (7, 12, 5, 20, 3, 16))
    apart = loss_and_gradients(model.eval(), [(tokens[None], labels[None]) for tokens, labels in samples])
    for data in (lm.TokenBatches(samples, 2, 32, pack=True), lm.TokenBatches(samples, 3)):
        loss, gradients = loss_and_gradients(model, data)
        np.testing.assert_allclose(loss, apart[0], rtol=1e-5)
        for name, gradient in gradients.items():
            scale = max(1.0, float(np.abs(apart[1][name]).max()))
            np.testing.assert_allclose(gradient, apart[1][name], rtol=1e-5, atol=1e-5 * scale, err_msg=name)


def test_packing_fills_rows_and_keeps_every_sample_once() -> None:
    lengths = tuple(int(n) for n in np.random.default_rng(3).integers(3, 60, 200))
    samples = samples_of(2, lengths)
    data = lm.TokenBatches(samples, 4, 64, pack=True)
    rows = [row for row in data.rows if row]
    assert sorted(i for row in rows for i in row) == list(range(200))
    assert max(sum(lengths[i] for i in row) for row in rows) <= 64
    assert len(rows) <= 1.1 * sum(lengths) / 64
    seen = []
    for inputs, labels in data:
        assert labels.shape == (4, 64) and inputs["tokens"].shape == (4, 64)
        for tokens, positions, row in zip(inputs["tokens"], inputs["positions"], labels, strict=True):
            starts = [*np.flatnonzero(positions == 0), 64]
            for first, last in zip(starts[:-1], starts[1:], strict=True):
                if (row[first:last] != -100).any():
                    seen.append((tokens[first:last].tobytes(), row[first:last].tobytes()))
    assert sorted(seen) == sorted((t.tobytes(), y.tobytes()) for t, y in samples)


def test_buckets_bound_the_number_of_shapes() -> None:
    lengths = tuple(int(n) for n in np.random.default_rng(3).integers(3, 500, 300))
    data = lm.TokenBatches(samples_of(2, lengths), 8, 512)
    shapes, padding = set(), 0
    for _ in range(2):
        for tokens, labels in data:
            assert tokens.shape == labels.shape
            shapes.add(tokens.shape)
            padding += int(tokens.size)
    assert shapes == {(8, length) for length in (16, 32, 64, 128, 256, 512)}
    assert padding < 2 * 2.2 * sum(lengths)


def test_order_depends_on_seed_and_epoch_and_continues_from_a_state() -> None:
    samples = samples_of(2, tuple(range(3, 40)))
    first, second = (lm.TokenBatches(samples, 4, seed=5) for _ in range(2))
    one = [labels.tobytes() for _, labels in first]
    assert [labels.tobytes() for _, labels in second] == one
    two = [labels.tobytes() for _, labels in first]
    assert two != one and sorted(map(len, two)) == sorted(map(len, one))
    part = iter(second)
    done = [next(part)[1].tobytes() for _ in range(3)]
    third = lm.TokenBatches(samples, 4, seed=5)
    third.load_state_dict(second.state_dict())
    assert done + [labels.tobytes() for _, labels in third] == two


def test_trainer_counts_only_labels_that_count() -> None:
    model = lm.create(SIZES)
    samples = samples_of(4, (7, 12, 5))
    trainer = mg.Trainer(model, optimizer=mg.optim.SGD(0.0), metrics=())
    history = trainer.fit(lm.TokenBatches(samples, 4), epochs=1, progress=False)
    total, _ = loss_and_gradients(model, [(t[None], y[None]) for t, y in samples])
    assert abs(history.epochs[-1]["loss"] - total / sum(len(t) - 2 for t, _ in samples)) < 1e-5
    packed = mg.Trainer(model, optimizer=mg.optim.SGD(0.0), metrics=())
    found = packed.evaluate(lm.TokenBatches(samples, 2, 16, pack=True))
    assert abs(found["loss"] - history.epochs[-1]["loss"]) < 1e-5


# --- errors -----------------------------------------------------------------------------------------------------------

GOOD = {"prompt": "w1 w2", "completion": "w3"}
LINES = {
    "no JSON": ('{"prompt": ', r"line 2: a line must be a JSON object, got '\{\"prompt\": ': Expecting"),
    "no object": ("[1]", r"line 2: a line must be a JSON object, got \[1\]"),
    "missing entry": ('{"prompt": "w1"}', r"line 2: the entry 'completion' is missing, got 'prompt'"),
    "unknown entry": (
        json.dumps({**GOOD, "id": 3}), r"line 2: the entry 'id' is unknown: to skip it, pass ignore=\('id',\)"
    ),
    "wrong type": ('{"prompt": 3, "completion": "w1"}', r"line 2: 'prompt' must be a string, got 3"),
    "too long": (
        json.dumps({"prompt": "w1 " * 9, "completion": "w3"}),
        r"line 2: the sample has 10 tokens, more than max_length=8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_invalid_lines_are_errors_with_their_number(case: str, tmp_path: Path) -> None:
    line, message = LINES[case]
    path = tmp_path / "train.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n")
    with pytest.raises(mg.data.DataError, match=message):
        lm.completion_dataset(path, word_tokenizer(), max_length=8)


def test_options_accept_what_is_an_error_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"prompt": "w1 w2", "completion": "w3 " * 20, "id": 1}) + "\n\n")
    data = lm.completion_dataset(path, word_tokenizer(), batch_size=1, max_length=8, truncate=True, ignore=["id"])
    tokens, labels = only_batch(data)
    assert tokens.tolist() == [[1, 2, 3, 3, 3, 3, 3, 3]] and labels.tolist() == [[-100, 3, 3, 3, 3, 3, 3, 3]]


def test_conversations_are_checked() -> None:
    tokenizer = byte_tokenizer(PLAIN)
    with pytest.raises(mg.data.DataError, match="no message of the assistant"):
        lm.chat_dataset([{"messages": TALK[:2]}], tokenizer)
    with pytest.raises(mg.data.DataError, match="'messages' must be a list of objects"):
        lm.chat_dataset([{"messages": "hello"}], tokenizer)
    with pytest.raises(mg.data.DataError, match="the checkpoint has no chat template"):
        lm.chat_dataset([{"messages": TALK}], lm.Tokenizer(tokenizer.backend))
