"""Test examples/text_generation.py: the state carries over, and sampling follows the probabilities."""

import mpsgraph as mg
import numpy as np
import pytest
import text_generation as example

ALPHABET = "abcdef "


@pytest.fixture(scope="module")
def writer() -> example.Writer:
    return example.Writer(ALPHABET, hidden=12, seed=3)


def probabilities(writer: example.Writer, text: str) -> np.ndarray:
    """Return the probabilities of each character after `text`, from the network over the whole text."""
    g = writer.g
    return g.run({writer.text: writer.encode(text)[None]}, g.softmax(writer.network(writer.text)[:, -1])).numpy()[0]


def test_generator_state_carries_over_between_characters(writer: example.Writer):
    """At almost zero temperature the most likely character is sampled; it must be that of rereading the whole text."""
    text = "ab"
    for character in writer.generate(text, 12, temperature=1e-4):
        assert character == ALPHABET[probabilities(writer, text).argmax()]
        text += character


def test_generation_feeds_only_temperature_and_does_not_recompile(writer: example.Writer):
    list(writer.generate("a", 3, 1.0))
    compiled = writer.g.cache.compiles
    assert len("".join(writer.generate("b", 20, 0.5))) == 20
    assert writer.g.cache.compiles == compiled


def test_characters_are_sampled_with_predicted_probabilities(writer: example.Writer):
    temperature, count = 0.25, 4000
    odds = probabilities(writer, "c") ** (1 / temperature)
    odds /= odds.sum()
    feeds = {writer.inverse_temperature: np.float32(1 / temperature), writer.given: writer.encode("c")[None]}
    for variable in writer.state:
        writer.g.set_variable(variable, np.zeros(variable.shape, np.float32))
    drawn = [writer.g.run(feeds, writer.read).item() for _ in range(count)]
    deviation = np.sqrt(odds * (1 - odds) / count)
    assert (np.abs(np.bincount(drawn, minlength=len(odds)) / count - odds) < 5 * deviation + 1e-3).all()
    assert odds.max() > 1.5 * odds.min(), "the temperature must change the distribution"


def test_text_generator_learns_and_recites_a_text():
    learning = example.Writer("abcd", hidden=24)
    text = learning.encode("abacabad" * 40)
    windows = np.stack([text[i : i + 33] for i in range(16)])
    losses = [learning.step(windows, 0.02) for _ in range(60)]
    assert losses[0] == pytest.approx(np.log(4), abs=0.2) and losses[-1] < 0.2
    assert "".join(learning.generate("abacabad", 16, 0.2)) == "abacabad" * 2


def test_training_reports_and_draws_both_losses(tmp_path, monkeypatch: pytest.MonkeyPatch):
    from matplotlib.image import imread

    monkeypatch.setattr(example, "WINDOW", 8)
    learning = example.Writer(ALPHABET, hidden=8)
    text = "".join(np.random.default_rng(0).choice(list(ALPHABET), 2000))
    losses, tests = example.train(learning, text, 4)
    assert len(losses) == 4 and sorted(tests) == [1, 2, 3, 4]
    example.draw(tmp_path / "losses.png", losses, tests)
    assert imread(tmp_path / "losses.png").shape[0] > 300


def test_invalid_texts_and_prompts_raise(writer: example.Writer, tmp_path):
    assert {"T", "h", "e", " "} <= set(example.read_text(None)), (
        "the text must contain the characters of the default prompt"
    )
    short = tmp_path / "short.txt"
    short.write_text("too short", encoding="utf-8")
    with pytest.raises(mg.data.DataError, match="is too short"):
        example.read_text(short)
    short.write_bytes(b"\xff\xfe")
    with pytest.raises(mg.data.DataError, match="is not a UTF-8 text"):
        example.read_text(short)
    with pytest.raises(mg.data.DataError, match="has not seen"):
        writer.encode("xyz")


def test_saved_weights_include_the_alphabet(tmp_path):
    learnt, path = example.Writer(ALPHABET, seed=1), tmp_path / "weights.safetensors"
    mg.checkpoint.save(path, learnt.network.state_dict(), {"alphabet": ALPHABET})
    loaded = example.load(path, seed=1)
    assert loaded.alphabet == ALPHABET
    np.testing.assert_array_equal(probabilities(loaded, "face"), probabilities(learnt, "face"))
    mg.checkpoint.save(path, {"a": np.zeros(1, np.float32)})
    with pytest.raises(mg.data.DataError, match="was not written by --weights"):
        example.load(path, seed=0)


def test_generation_from_saved_weights_depends_on_the_seed(tmp_path):
    path = tmp_path / "weights.safetensors"
    mg.checkpoint.save(path, example.Writer(ALPHABET, seed=1).network.state_dict(), {"alphabet": ALPHABET})
    texts = ["".join(example.load(path, seed).generate("face", 40, 1.0)) for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]
