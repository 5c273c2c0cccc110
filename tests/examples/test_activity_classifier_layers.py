"""Test examples/activity_classifier_layers.py: all parts train, both graphs use the trained weights, and the model
learns.
"""

import activity_classifier_layers as example
import mpsgraph as mg
import numpy as np
import pytest
from activity_classifier import recordings


def test_sequence_matrix_and_step_images_share_memory():
    sequence = example.Sequence(3, 5)
    sequence.rows.numpy()[1] = np.arange(example.PLACES * 5)
    assert len(sequence.steps) == example.PLACES == 20
    assert sequence.steps[7].numpy()[1].tolist() == [35, 36, 37, 38, 39]
    assert not sequence.steps[7].numpy()[0].any()


def test_each_layer_trains_and_inference_uses_current_weights():
    x, y = recordings(4)
    classifier = example.Classifier(6, features=8, hidden=12)

    def parameters() -> list[np.ndarray]:
        sources = [classifier.convolution, *classifier.head]
        assert all(source.load() for source in sources)
        arrays = [a.copy() for source in sources for a in (source.weights(), source.bias_terms())]
        return arrays + [matrix.numpy().copy() for matrix in classifier.weights]

    before = parameters()
    losses = [classifier.iteration(x, y) for _ in range(5)]
    assert losses[0] == pytest.approx(np.log(6) * len(x) / example.BATCH, rel=0.3) and losses[4] < losses[0]
    after = parameters()
    for old, new in zip(before, after, strict=True):
        assert 1e-4 < np.abs(new - old).max() < 0.1, old.shape
    windows = x.reshape(4, 20, -1) @ after[0].reshape(8, -1).T + after[1]
    found = classifier.before(x[:, None]).numpy()[:, 0]
    np.testing.assert_allclose(found, np.maximum(windows, 0), rtol=1e-4, atol=1e-5)


def test_image_batches_are_read_and_written_without_copies():
    x, y = recordings(3)
    classifier = example.Classifier(6, features=4, hidden=4)
    classifier.iteration(x, y)
    before = mg.copy_count()
    classifier.iteration(x, y)
    assert mg.copy_count() == before


def test_layer_classifier_learns_activities():
    (x, y), (new_x, new_y) = recordings(48, 0), recordings(16, 1)
    classifier = example.Classifier(6, features=16, hidden=16, rate=1e-2)
    for _ in range(25):
        for batch in mg.data.batches((x, y), 16, seed=0):
            classifier.iteration(*batch)
    predicted = classifier.predict(new_x)
    assert predicted.shape == (16, 20)
    assert (predicted == new_y).mean() > 0.75
