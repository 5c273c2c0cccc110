"""Test that the demo's network learns scikit-learn's digits.

Each of five seeds must reach 95% (three of the seeds run in `make test-slow`), and so must every precision. The Metal
device, which is slow on the mock, trains a smaller network in metal/test_training.
"""

import mpsgraph as mg
import pytest
from harness.clock import clock_that_favours
from mpsgraph.demo import digits

pytestmark = pytest.mark.begins_early


def test_digits_demo_prints_accuracy_and_draws_picture(tmp_path, capsys):
    from mpsgraph.cli import main

    assert main(["demo", "digits", "--iterations", "12", "--seed", "3", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1,438 for training, 359 for testing" in printed and "accuracy" in printed
    picture = (tmp_path / "digits.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 50_000
    tensors, metadata = mg.checkpoint.load(tmp_path / "digits.safetensors")
    assert metadata["step"] == "12" and tensors["7.weight"].shape == (3136, 1024)
    assert (tmp_path / "digits.mpsgraph" / "package.json").exists()  # swift/Examples/DrawADigit/make_resources.py
    assert main(["demo", "digits", "--data", str(tmp_path), "--output", str(tmp_path)]) == 1
    assert "contains neither train-images" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_digit_classifier_reaches_95_percent(seed):
    training, test = mg.data.digits()
    trainer = digits.train(training, iterations=300, seed=seed, progress=False)
    assert trainer.evaluate(test)["accuracy"] >= 0.95


def digits_classifier(precision):
    """Train the demo's network for 150 steps on 14 x 14 digits and return it with its test accuracy."""
    train_set, test_set = mg.data.digits(14)
    rate = mg.optim.WarmUp(mg.optim.CosineRate(digits.LEARNING_RATE, steps=150 - digits.WARM_UP), digits.WARM_UP)
    trainer = mg.Trainer(digits.classifier(), optimizer=mg.optim.SGD(rate), precision=precision, seed=0)
    batches = mg.data.batches(train_set, digits.BATCH, shuffle=True, seed=0, drop_last=True)
    trainer.fit(batches, iterations=150, progress=False)
    return trainer, trainer.evaluate(test_set)["accuracy"]


def test_digit_classifier_is_as_accurate_in_every_precision(monkeypatch):
    """Accuracies are within one point of float32. float16 uses loss scaling, and "auto" sees a clock that favors
    bfloat16.
    """
    trained = {precision: digits_classifier(precision) for precision in ("float32", "bfloat16", "float16")}
    clock_that_favours("bfloat16", monkeypatch)
    trained["auto"] = digits_classifier("auto")
    assert "bfloat16" in {choice.precision for choice in trained["auto"][0].precision_choices.values()}
    assert trained["float16"][0].history.steps["loss_scale"][-1] >= 2.0**12
    accuracies = {precision: accuracy for precision, (_, accuracy) in trained.items()}
    assert accuracies["float32"] > 0.95
    assert min(accuracies.values()) >= accuracies["float32"] - 0.01, accuracies
