"""Test examples/digits_nodes.py: both update methods give equal weights, and at most two batches are in flight."""

import digits_nodes
import mpsgraph as mg
import numpy as np
import pytest


def digits(images: int) -> mg.data.Dataset:
    train, _ = mg.data.digits()
    return train[0][:images], train[1][:images]


@pytest.mark.parametrize("python_update", [False, True])
def test_digit_training_learns_and_reload_updates_inference(python_update: bool):
    train, test = digits(400), mg.data.digits()[1]
    training = digits_nodes.Training(python_update=python_update)
    before = training.predict(test[0])
    told = list[str]()
    training.run(train, test, 2, told.append)
    assert len(training.losses) == len(told) == 20 and list(training.accuracies) == [10, 20]
    assert np.mean(training.losses[-3:]) < 0.5 * training.losses[0]
    assert training.accuracies[20] > 0.6 > np.mean(before == test[1])


def test_python_and_graph_weight_updates_give_equal_results():
    """Initial weights and dropout masks have the same seeds."""
    (images, labels), losses = digits(digits_nodes.BATCH), list[list[float]]()
    for python_update in (False, True):
        training = digits_nodes.Training(seed=3, python_update=python_update)
        for _ in range(8):
            latest = training.iteration(images, labels)
        latest.wait_until_completed()
        losses.append(training.losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_digit_training_keeps_at_most_two_batches_in_flight():
    training, (images, labels) = digits_nodes.Training(), digits(digits_nodes.BATCH)
    event = mg.SharedEvent()
    blocking = training.queue.command_buffer()
    blocking.encode_wait_for_event(event, 1)
    blocking.commit()
    for _ in range(2):
        latest = training.iteration(images, labels)
    assert not training.double_buffering.acquire(blocking=False) and training.losses == []
    event.signal(1)
    latest.wait_until_completed()
    assert training.double_buffering.acquire(timeout=60) and len(training.losses) == 2


def test_figure_is_drawn_if_all_or_no_predictions_are_correct(tmp_path):
    from matplotlib.image import imread

    training = digits_nodes.Training()
    training.losses, training.accuracies = [2.0, 1.0], {2: 0.5}
    images = digits(48)[0]
    known = training.predict(images)
    for name, labels in (("right", known), ("wrong", (known + 1) % 10)):
        digits_nodes.draw(tmp_path / f"{name}.png", training, (images, labels))
        assert imread(tmp_path / f"{name}.png").shape[0] > 300
