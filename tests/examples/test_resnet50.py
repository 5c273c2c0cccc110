"""examples/resnet50.py: equal to Keras's network, both batch normalizations alike, and a short run of the whole."""

import json

import mpsgraph as mg
import numpy as np
import pytest
import resnet50
from data import make_resnet50 as golden


@pytest.mark.parametrize("batch_norm", ["graph", "layer"])
def test_losses_are_those_of_keras(monkeypatch, batch_norm):
    """Twenty steps of the full network with the weights that Keras's had."""
    monkeypatch.setattr(resnet50, "LEARNING_RATE", golden.LEARNING_RATE)
    net = resnet50.ResNet50(batch_norm)
    assert sum(int(np.prod(w.shape)) for w in net.weights) == 23_528_522, "ResNet-50 for ten classes"
    for variable, value in zip(net.weights, golden.first_weights(), strict=True):
        net.graph.set_variable(variable, value.reshape(variable.shape))
    batches = list(golden.batches())
    losses = [net.train_step(*batch)[0] for batch in batches]
    stored = json.loads(golden.STORED.read_text())
    assert len(stored["losses"]) == 20 and losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(losses, stored["losses"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(net.evaluate(*batches[-1])[0], stored["evaluated"], rtol=0, atol=1e-3)


def curve(batch_norm: str, is_training: bool | None = None) -> tuple[list[float], float]:
    """Losses of some steps of a narrowed network, and that of an evaluation afterwards."""
    net = resnet50.ResNet50(batch_norm, narrow=16, is_training=is_training)
    batches = list(golden.batches(6))
    losses = [net.train_step(*batch)[0] for batch in batches]
    return losses, net.evaluate(*batches[0])[0]


def test_both_batch_normalizations_train_to_the_same_losses():
    """To the last bit, for the compiler makes the same kernels of both."""
    graph, evaluated = curve("graph")
    assert (graph, evaluated) == curve("layer")
    assert abs(evaluated - graph[0]) > 1e-3, "the averages are not the batch's statistics"


def test_the_graph_without_if_does_the_same():
    assert curve("graph")[0] == curve("graph", is_training=True)[0]


def test_a_short_run_on_digits(tmp_path, capsys):
    resnet50.main(["--narrow", "16", "--epochs", "1", "--batch", "64", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "resnet50.png").read_bytes().startswith(b"\x89PNG") and printed.count("Test    accuracy") == 2
    assert "1,438 for training, 359 for the test" in printed


def test_it_learns():
    """A narrowed network on digits, judged by the moving averages."""
    _, train_set, test_set = resnet50.read_data(None)
    net = resnet50.ResNet50(narrow=8)
    history = resnet50.train(net, train_set, test_set, epochs=6, batch=16)
    assert np.mean(history.loss[-20:]) < 0.5 * np.mean(history.loss[:20])
    assert history.validation[-1][1]["accuracy"] > 0.6


def test_files_of_cifar10_are_read(tmp_path, rng):
    record = np.zeros((20, 1 + 3072), np.uint8)
    record[:, 0], record[:, 1:] = np.arange(20) % 10, rng.integers(0, 256, (20, 3072))
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        record.tofile(tmp_path / name)
    name, (images, labels), (test_images, _) = resnet50.read_data(tmp_path)
    assert name.startswith("CIFAR-10") and images.shape == (100, 32, 32, 3) and len(test_images) == 20
    with pytest.raises(mg.data.DataError, match="contains neither data_batch_1"):
        resnet50.read_data(tmp_path / "absent")
