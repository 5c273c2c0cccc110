"""examples/text_generation.py: the state goes on from character to character, and sampling follows the odds."""

import mpsgraph as mg
import numpy as np
import pytest
import text_generation as example

ALPHABET = "abcdef "


@pytest.fixture(scope="module")
def writer() -> example.Writer:
    return example.Writer(ALPHABET, hidden=12, seed=3)


def probabilities(writer: example.Writer, text: str) -> np.ndarray:
    """Of each character behind `text`, by the network over the whole of it at once."""
    g = writer.g
    return g.run({writer.text: writer.encode(text)[None]}, g.softmax(writer.network(writer.text)[:, -1])).numpy()[0]


def test_the_state_goes_on_from_character_to_character(writer: example.Writer):
    """Nearly without temperature the likeliest character is drawn: that of the whole text so far, read again."""
    text = "ab"
    for character in writer.generate(text, 12, temperature=1e-4):
        assert character == ALPHABET[probabilities(writer, text).argmax()]
        text += character


def test_a_character_needs_no_feed_but_the_temperature_and_compiles_nothing(writer: example.Writer):
    list(writer.generate("a", 3, 1.0))
    compiled = writer.g.cache.compiles
    assert len("".join(writer.generate("b", 20, 0.5))) == 20
    assert writer.g.cache.compiles == compiled


def test_characters_are_drawn_by_their_odds(writer: example.Writer):
    temperature, count = 0.25, 4000
    odds = probabilities(writer, "c") ** (1 / temperature)
    odds /= odds.sum()
    feeds = {writer.inverse_temperature: np.float32(1 / temperature), writer.given: writer.encode("c")[None]}
    for variable in writer.state:
        writer.g.set_variable(variable, np.zeros(variable.shape, np.float32))
    drawn = [writer.g.run(feeds, writer.read).item() for _ in range(count)]
    deviation = np.sqrt(odds * (1 - odds) / count)
    assert (np.abs(np.bincount(drawn, minlength=len(odds)) / count - odds) < 5 * deviation + 1e-3).all()
    assert odds.max() > 1.5 * odds.min(), "the temperature tells them apart"


def test_it_learns_a_text_and_recites_it():
    learning = example.Writer("abcd", hidden=24)
    text = learning.encode("abacabad" * 40)
    windows = np.stack([text[i : i + 33] for i in range(16)])
    losses = [learning.step(windows, 0.02) for _ in range(60)]
    assert losses[0] == pytest.approx(np.log(4), abs=0.2) and losses[-1] < 0.2
    assert "".join(learning.generate("abacabad", 16, 0.2)) == "abacabad" * 2


def test_training_reports_both_losses_and_draws_them(tmp_path, monkeypatch: pytest.MonkeyPatch):
    from matplotlib.image import imread

    monkeypatch.setattr(example, "WINDOW", 8)
    learning = example.Writer(ALPHABET, hidden=8)
    text = "".join(np.random.default_rng(0).choice(list(ALPHABET), 2000))
    losses, tests = example.train(learning, text, 4)
    assert len(losses) == 4 and sorted(tests) == [1, 2, 3, 4]
    example.draw(tmp_path / "losses.png", losses, tests)
    assert imread(tmp_path / "losses.png").shape[0] > 300


def test_texts_and_starts_that_cannot_be_used_are_refused(writer: example.Writer, tmp_path):
    assert {"T", "h", "e", " "} <= set(example.read_text(None)), "the start that is written by default"
    short = tmp_path / "short.txt"
    short.write_text("too short", encoding="utf-8")
    with pytest.raises(mg.data.DataError, match="too few to learn"):
        example.read_text(short)
    short.write_bytes(b"\xff\xfe")
    with pytest.raises(mg.data.DataError, match="is not a text in UTF-8"):
        example.read_text(short)
    with pytest.raises(mg.data.DataError, match="has not seen"):
        writer.encode("xyz")


def test_what_was_learnt_is_kept_with_its_characters(tmp_path):
    learnt, path = example.Writer(ALPHABET, seed=1), tmp_path / "weights.safetensors"
    mg.checkpoint.save(path, learnt.network.state_dict(), {"alphabet": ALPHABET})
    loaded = example.load(path, seed=1)
    assert loaded.alphabet == ALPHABET
    np.testing.assert_array_equal(probabilities(loaded, "face"), probabilities(learnt, "face"))
    mg.checkpoint.save(path, {"a": np.zeros(1, np.float32)})
    with pytest.raises(mg.data.DataError, match="is not a file of --weights"):
        example.load(path, seed=0)


def test_the_seed_counts_for_what_was_learnt_before(tmp_path):
    path = tmp_path / "weights.safetensors"
    mg.checkpoint.save(path, example.Writer(ALPHABET, seed=1).network.state_dict(), {"alphabet": ALPHABET})
    texts = ["".join(example.load(path, seed).generate("face", 40, 1.0)) for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]
