"""Test examples/object_detector.py: targets, overlaps, and precision are correct, and a short run lowers the loss."""

import re

import numpy as np
import object_detector as detector


def test_detection_target_is_in_the_cell_of_the_box_center():
    box = np.float32([20, 36, 16, 24])  # The box is in pixels; cells are 8 pixels wide.
    made = detector.targets([[(3, box)]]).reshape(8, 8, 2, 15)
    np.testing.assert_allclose(made[4, 2, :, :5], [[0.5, 0.5, 2, 3, 1]] * 2)
    assert made[4, 2, 0, 5:].argmax() == 3 and made[4, 2, 0, 5:].sum() == 1
    made[4, 2] = 0
    assert not made.any()


def test_generated_scenes_contain_their_labeled_objects():
    scenes = detector.Scenes(np.ones((1, 8, 8), np.float32), np.array([7]))
    images, objects = scenes.draw(20, np.random.default_rng(0))
    assert images.shape == (20, 64, 64, 1) and {len(found) for found in objects} <= {1, 2, 3}
    for image, found in zip(images, objects, strict=True):
        for kind, (x, y, w, h) in found:
            part = image[int(y - h / 2) : int(y + h / 2), int(x - w / 2) : int(x + w / 2)]
            assert kind == 7 and part.min() >= 0.6 and part.shape[:2] == (h, w)


def test_overlap_and_mean_average_precision_are_correct():
    one, other = np.float32([2, 2, 4, 4]), np.float32([4, 2, 4, 4])
    assert detector.overlap(one, one) == 1 and abs(detector.overlap(one, other) - 1 / 3) < 1e-6
    truth = [[(kind, one) for kind in range(10)]]
    perfect = [[(0.9, kind, one) for kind in range(10)]]
    assert detector.mean_average_precision(perfect, truth) == 1
    assert detector.mean_average_precision([[(0.9, 0, other)]], truth) == 0
    # A wrong box before the right one halves the precision of its class.
    late = [[(0.95, 0, other), *perfect[0]]]
    assert abs(detector.mean_average_precision(late, truth) - 0.95) < 1e-6
    # The second detection of the same box is a false positive, but it comes last.
    twice = [[*perfect[0], (0.5, 0, one)]]
    assert detector.mean_average_precision(twice, truth) == 1


def test_short_training_run_lowers_the_loss(tmp_path, capsys):
    detector.main(["--steps", "60", "--batch", "16", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert (tmp_path / "object_detector.png").read_bytes().startswith(b"\x89PNG")
    first, last = re.search(r"Loss +([\d.]+) at first, ([\d.]+)", printed).groups()
    assert float(last) < 0.6 * float(first)
