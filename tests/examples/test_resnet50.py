"""Test examples/resnet50.py: losses equal those of Keras, both batch normalizations agree, and a short run succeeds."""

import json

import mpsgraph as mg
import numpy as np
import pytest
import resnet50
from data import make_resnet50 as golden


@pytest.mark.parametrize("batch_norm", ["graph", "layer"])
def test_resnet_losses_match_keras(monkeypatch, batch_norm):
    """Train the full network for twenty steps from the initial weights used in Keras."""
    monkeypatch.setattr(resnet50, "LEARNING_RATE", golden.LEARNING_RATE)
    net = resnet50.ResNet50(batch_norm)
    assert sum(int(np.prod(w.shape)) for w in net.weights) == 23_528_522, (
        "must be the size of ResNet-50 for ten classes"
    )
    for variable, value in zip(net.weights, golden.first_weights(), strict=True):
        net.graph.set_variable(variable, value.reshape(variable.shape))
    batches = list(golden.batches())
    losses = [net.train_step(*batch)[0] for batch in batches]
    stored = json.loads(golden.STORED.read_text())
    assert len(stored["losses"]) == 20 and losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(losses, stored["losses"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(net.evaluate(*batches[-1])[0], stored["evaluated"], rtol=0, atol=1e-3)


def curve(batch_norm: str, is_training: bool | None = None) -> tuple[list[float], float]:
    """Return the losses of some steps of a narrow network, and the loss of an evaluation afterwards."""
    net = resnet50.ResNet50(batch_norm, narrow=16, is_training=is_training)
    batches = list(golden.batches(6))
    losses = [net.train_step(*batch)[0] for batch in batches]
    return losses, net.evaluate(*batches[0])[0]


def test_graph_and_layer_batch_normalization_give_equal_losses():
    """Losses are equal bit for bit because the compiler generates the same kernels for both."""
    graph, evaluated = curve("graph")
    assert (graph, evaluated) == curve("layer")
    assert abs(evaluated - graph[0]) > 1e-3, "evaluation must use moving averages, not batch statistics"


def test_constant_training_flag_gives_the_same_losses_as_a_fed_flag():
    assert curve("graph")[0] == curve("graph", is_training=True)[0]


def test_short_training_run_on_digits_works_for_both_networks(tmp_path, capsys):
    resnet50.main(["--narrow", "16", "--epochs", "1", "--batch", "64", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "resnet50.png").read_bytes().startswith(b"\x89PNG") and printed.count("Test    accuracy") == 2
    assert "1,438 for training, 359 for testing" in printed


def test_narrow_resnet_learns_digits():
    """Accuracy is evaluated with the moving averages."""
    _, train_set, test_set = resnet50.read_data(None)
    net = resnet50.ResNet50(narrow=8)
    history = resnet50.train(net, train_set, test_set, epochs=6, batch=16)
    assert np.mean(history.loss[-20:]) < 0.5 * np.mean(history.loss[:20])
    assert history.validation[-1][1]["accuracy"] > 0.6


def test_cifar10_files_are_read(tmp_path, rng):
    record = np.zeros((20, 1 + 3072), np.uint8)
    record[:, 0], record[:, 1:] = np.arange(20) % 10, rng.integers(0, 256, (20, 3072))
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        record.tofile(tmp_path / name)
    name, (images, labels), (test_images, _) = resnet50.read_data(tmp_path)
    assert name.startswith("CIFAR-10") and images.shape == (100, 32, 32, 3) and len(test_images) == 20
    with pytest.raises(mg.data.DataError, match="contains neither data_batch_1"):
        resnet50.read_data(tmp_path / "absent")
