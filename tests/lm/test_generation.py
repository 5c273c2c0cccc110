"""Test generation without other libraries: greedy text compared with full sequences, batches, caches, drafts."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.small_language_model import small_model, word_tokenizer
from mpsgraph.lm.engine import Engine, borrow

pytest.importorskip("tokenizers")
FAMILIES = {
    "llama": {},
    "window": {"model_type": "mistral", "sliding_window": 6},
    "gemma-3": {
        "model_type": "gemma3_text", "head_dim": 16, "sliding_window": 6, "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 16,
    },
    "longrope": {
        "model_type": "phi3", "rope_scaling": {
            "rope_type": "longrope", "factor": 4.0, "short_factor": [1.0] * 4, "long_factor": [1.5, 2.0, 4.0, 8.0],
            "original_max_position_embeddings": 24,
        },
    },
}  # fmt: skip
PROMPTS = [[5, 17, 33, 2, 8, 41, 7, 60, 11, 3, 28], [9, 70, 4], list(range(10, 50))]


def greedy(model, prompt, count):
    """Return the likeliest tokens, computed from the whole sequence for each token, without a cache."""
    g = model.embedding.weight.graph
    x = g.placeholder((1, -1), mg.int32)
    y, tokens = model(x), list(prompt)
    for _ in range(count):
        tokens.append(int(np.argmax(g.run({x: np.int32([tokens])}, y).numpy()[0, -1])))
    return tokens[len(prompt) :]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return small_model(**FAMILIES[request.param])


@pytest.fixture(scope="module")
def wanted(model):
    found = [greedy(model, prompt, 20) for prompt in PROMPTS]
    assert all(len(set(tokens)) > 5 for tokens in found)
    return found


def test_greedy_text_equals_full_sequences(model, wanted):
    assert [mg.lm.generate(model, None, prompt, max_tokens=20) for prompt in PROMPTS] == wanted


def test_batch_of_different_lengths_equals_each_prompt_alone(model, wanted):
    if model.architecture.rotary[0].scaling is not None:
        pytest.skip("frequencies depend on the longest sequence of a batch")
    assert mg.lm.generate(model, None, PROMPTS, max_tokens=20) == wanted


def test_prompt_cache_continues_conversations(model, wanted):
    """Prompts extend, repeat, shorten, and replace what the cache holds; windows are shorter than the cache."""
    cache = mg.lm.PromptCache(model, 128, chunk=8)
    for i in (0, 0, 2, 1):
        assert mg.lm.generate(model, None, PROMPTS[i], max_tokens=20, cache=cache) == wanted[i]
    longer = PROMPTS[1] + wanted[1][:12]
    assert mg.lm.generate(model, None, longer, max_tokens=8, cache=cache) == wanted[1][12:]
    assert cache.tokens == (longer + wanted[1][12:])[:-1]


def test_prompt_cache_on_disk_continues_in_the_same_way(model, wanted, tmp_path):
    cache = mg.lm.PromptCache(model, 128, chunk=8)
    mg.lm.generate(model, None, PROMPTS[2], max_tokens=9, cache=cache)
    cache.save(tmp_path / "cache.safetensors")
    loaded = mg.lm.PromptCache.load(tmp_path / "cache.safetensors", model)
    assert loaded.tokens == cache.tokens
    longer = PROMPTS[2] + wanted[2][:9]
    assert mg.lm.generate(model, None, longer, max_tokens=11, cache=loaded) == wanted[2][9:]


def test_prompt_cache_of_another_model_is_refused(tmp_path):
    first, second = small_model(0), small_model(1)
    cache = mg.lm.PromptCache(first, 64)
    cache.save(tmp_path / "cache.safetensors")
    with pytest.raises(mg.CheckpointError, match="another model"):
        mg.lm.PromptCache.load(tmp_path / "cache.safetensors", second)
    with pytest.raises(mg.GraphError, match="another model"):
        mg.lm.generate(second, None, [1, 2], cache=cache)


@pytest.mark.parametrize("draft", ["same", "other"])
def test_speculative_greedy_text_equals_plain_text(model, wanted, draft):
    if model.architecture.rotary[0].scaling is not None:
        with pytest.raises(mg.GraphError, match="depends on the length"):
            mg.lm.generate(model, None, PROMPTS[0], draft=model)
        return
    other = model if draft == "same" else small_model(3)
    for prompt, own in zip(PROMPTS, wanted, strict=True):
        assert mg.lm.generate(model, None, prompt, max_tokens=20, draft=other, draft_tokens=3) == own


def test_speculative_samples_are_distributed_as_plain_samples():
    """The first token after a prompt is drawn 2,000 times with a draft model that disagrees."""
    model, draft = small_model(0), small_model(3)
    prompt, options = [5, 17, 33], {"temperature": 1.5, "top_k": 5}
    engine = borrow(model, 1, 8)
    logits = engine.run(np.int32([prompt]), np.int32([[0, 1, 2]]))[0]
    odds = mg.lm.Sampler(**options).odds(logits)
    counts = np.zeros(96)
    for seed in range(400):
        counts[mg.lm.generate(model, None, prompt, max_tokens=2, draft=draft, seed=seed, **options)[0]] += 1
    assert (counts[odds == 0] == 0).all()
    np.testing.assert_allclose(counts / counts.sum(), odds, atol=0.09)


def test_token_at_position_50_reads_only_the_filled_part():
    """With a cache of 4,096 entries, only the slices of the filled part, and the writes of new entries, refer to it."""
    model = small_model(max_position_embeddings=4096)
    engine = Engine(model, 1, 4096)
    engine.run(np.int32([range(50)]), np.arange(50, dtype=np.int32)[None])
    engine.run(np.int32([[1]]), np.int32([[50]]))
    with mg.profiler.profile() as profile:
        engine.run(np.int32([[1]]), np.int32([[51]]))
    lines = profile.table("kernel", 1000).splitlines()
    long = [line for line in lines if "4096" in line]
    assert len(long) >= 4 and all("slice" in line for line in long), long
    assert any("4096,8] -> float32[1,2,64,8]" in line for line in long), long


def test_stop_strings_end_the_text_and_are_not_part_of_it():
    model, tokenizer = small_model(), word_tokenizer()
    text = mg.lm.generate(model, tokenizer, "w5 w17 w33", max_tokens=20)
    words = text.split()
    stop = f"{words[6][-1]} {words[7]}"  # Begins within one token and ends with the next.
    pieces = list(mg.lm.stream(model, tokenizer, "w5 w17 w33", max_tokens=20, stop=["zzz", stop]))
    assert "".join(pieces) == text[: text.index(stop)]
    assert pieces[-1].reason == "stop" and all(piece.reason is None for piece in pieces[:-1])


def test_pieces_join_to_the_text_and_carry_all_tokens():
    model, tokenizer = small_model(), word_tokenizer()
    tokens = mg.lm.generate(model, None, [5, 17, 33], max_tokens=12)
    pieces = list(mg.lm.stream(model, tokenizer, "w5 w17 w33", max_tokens=12, stop="never"))
    assert "".join(pieces) == tokenizer.decode(tokens)
    assert [token for piece in pieces for token in piece.tokens] == tokens and pieces[-1].reason == "length"


def test_end_tokens_end_the_text():
    model = small_model()
    tokens = mg.lm.generate(model, None, [5, 17, 33], max_tokens=12)
    end = tokens[5]
    pieces = list(mg.lm.stream(model, word_tokenizer((end,)), [5, 17, 33], max_tokens=12))
    assert pieces[-1].reason == "stop"
    assert "".join(pieces) == word_tokenizer().decode(tokens[: tokens.index(end)])


def test_seeds_repeat_samples_and_batches_use_consecutive_seeds():
    model = small_model()
    options = {"max_tokens": 8, "temperature": 2.0, "top_p": 0.9}
    alone = [mg.lm.generate(model, None, prompt, seed=7 + i, **options) for i, prompt in enumerate(PROMPTS)]
    assert mg.lm.generate(model, None, PROMPTS, seed=7, **options) == alone
    assert mg.lm.generate(model, None, PROMPTS[0], seed=8, **options) != alone[0]


def test_two_streams_of_one_model_do_not_disturb_each_other():
    model = small_model()
    wanted = [mg.lm.generate(model, None, prompt, max_tokens=10) for prompt in PROMPTS[:2]]
    streams = [mg.lm.stream(model, None, prompt, max_tokens=10) for prompt in PROMPTS[:2]]
    found = [[], []]
    for _ in range(10):
        for tokens, each in zip(found, streams, strict=True):
            tokens += next(each).tokens
    assert found == wanted


def test_chat_template_renders_messages():
    pytest.importorskip("jinja2")
    tokenizer = word_tokenizer()
    messages = [{"role": "user", "content": "w1 w2"}]
    assert tokenizer.chat(messages) == "user w1 w2 end assistant"
    with pytest.raises(mg.GraphError, match="unknown role"):
        tokenizer.chat([{"role": "robot", "content": "w1"}])
    tokenizer.configuration["chat_template"] = "{{ messages.__class__.__mro__ }}"
    with pytest.raises(mg.GraphError, match="unsafe"):
        tokenizer.chat(messages)


@pytest.mark.parametrize(
    ("prompt", "options", "error", "message"),
    [
        ([], {}, mg.ShapeError, "at least one token"),
        ([96], {}, mg.OutOfRangeError, "token 96 is out of range"),
        ("text", {}, mg.GraphError, "needs a tokenizer"),
        ([1.5], {}, mg.GraphError, "prompt must be"),
        ([1], {"stop": "x"}, mg.GraphError, "stop needs a tokenizer"),
        ([1], {"temperature": -1.0}, mg.GraphError, "temperature"),
        ([1], {"top_p": 0.0}, mg.GraphError, "top_p"),
        ([1], {"max_tokens": 0}, mg.Error, "max_tokens"),
    ],
)
def test_invalid_arguments_raise_typed_errors(prompt, options, error, message):
    with pytest.raises(error, match=message):
        mg.lm.generate(small_model(), None, prompt, **options)


def test_learned_positions_limit_the_text():
    model = mg.lm.create({"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_head": 4, "n_layer": 1,
                          "n_positions": 12}).eval()  # fmt: skip
    assert len(mg.lm.generate(model, None, [1, 2, 3], max_tokens=50)) == 9
    with pytest.raises(mg.ShapeError, match="fewer tokens than the model has positions"):
        mg.lm.generate(model, None, list(range(12)))


# --- sampling ---------------------------------------------------------------------------------------------------------
def test_sampler_restrictions_equal_direct_computation(rng):
    logits = rng.normal(size=50) * 2
    odds = np.exp(logits / 0.7) / np.exp(logits / 0.7).sum()
    order = np.argsort(-odds)

    def only(kept):
        masked = np.where(np.isin(np.arange(50), kept), odds, 0.0)
        return masked / masked.sum()

    def sampled(**options):
        return mg.lm.Sampler(temperature=0.7, **options).odds(logits)

    np.testing.assert_allclose(sampled(), odds, rtol=1e-12)
    np.testing.assert_allclose(sampled(top_k=7), only(order[:7]), rtol=1e-12)
    count = int(np.searchsorted(np.cumsum(odds[order]), 0.8)) + 1
    np.testing.assert_allclose(sampled(top_p=0.8), only(order[:count]), rtol=1e-12)
    np.testing.assert_allclose(sampled(min_p=0.1), only(np.flatnonzero(odds >= 0.1 * odds.max())), rtol=1e-12)


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits():
    sampler = mg.lm.Sampler(repetition_penalty=2.0, temperature=1.0)
    wanted = np.exp([1.0, -2.0, 0.5]) / np.exp([1.0, -2.0, 0.5]).sum()
    np.testing.assert_allclose(sampler.odds(np.array([2.0, -1.0, 0.5]), [0, 1, 1]), wanted, rtol=1e-12)


def test_draws_follow_the_odds():
    sampler, odds = mg.lm.Sampler(temperature=1.0, seed=0), np.array([0.5, 0.0, 0.3, 0.2])
    counts = np.bincount([sampler.draw(odds) for _ in range(4000)], minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 4000, odds, atol=0.03)
