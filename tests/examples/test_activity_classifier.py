"""Test examples/activity_classifier.py: simulated signals are plausible, files are read, and the model learns."""

import activity_classifier as example
import mpsgraph as mg
import numpy as np
import pytest


@pytest.mark.parametrize("activity", example.ACTIVITIES)
def test_simulated_signals_match_gravity_and_gait_parameters(activity: str):
    rng = np.random.default_rng(4)
    samples = np.stack([example.motion(activity, 3000, rng) for _ in range(5)])
    acceleration, turning = samples[..., :3], samples[..., 3:]
    mean = acceleration.mean(1)
    up = np.radians(example.GAITS[activity][1])
    # Averaged over whole strides the body does not accelerate, so only gravity remains, along the thigh.
    assert np.abs(np.linalg.norm(mean, axis=1) - 1).max() < 0.35
    assert np.abs(mean[:, 1] - np.cos(up)).max() < 0.45
    assert np.abs(turning.mean((0, 1))).max() < 0.1, "rotation must average to zero"
    # The thigh swings once per stride, so the rotation has that frequency.
    strides, swing = example.GAITS[activity][0], example.GAITS[activity][2]
    if not swing:
        assert turning.std() < 0.2 and acceleration.std(1).max() < 0.1
        return
    power = np.abs(np.fft.rfft(turning[..., 2] - turning[..., 2].mean(1, keepdims=True))) ** 2
    frequencies = np.fft.rfftfreq(3000, 1 / example.RATE)
    found = frequencies[power[:, : np.searchsorted(frequencies, 1.5 * strides)].argmax(1)]
    assert (np.abs(found / strides - 1) < 0.2).all()


def test_simulated_running_alternates_between_free_fall_and_impact():
    size = np.linalg.norm(example.motion("running", 3000, np.random.default_rng(0))[:, :3], axis=1)
    assert np.quantile(size, 0.2) < 0.7 and np.quantile(size, 0.95) > 2


def test_each_window_is_labeled_with_its_most_frequent_activity():
    labels = np.zeros((1, example.SAMPLES), np.int32)
    labels[0, 140:270] = 3
    assert example.most(labels, 6)[0, :4].tolist() == [0, 3, 3, 0]
    x, y = example.recordings(3)
    assert x.shape == (3, 2000, 6) and y.shape == (3, 20) and y.dtype == np.int32
    assert np.array_equal(x, example.recordings(3)[0]), "recordings must repeat for the same seed"


def test_classifier_learns_activities():
    (x, y), (new_x, new_y) = example.recordings(48, 0), example.recordings(16, 1)
    model = example.Classifier(6, features=16, hidden=16)
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(1e-2))
    trainer.fit((x, y), epochs=25, batch_size=16, progress=False)
    outputs = trainer.predict(new_x)
    assert outputs.shape == (16, 20, 6)
    assert trainer.history.loss[0] == pytest.approx(np.log(6), abs=0.6)
    assert (outputs.argmax(-1) == new_y).mean() > 0.75


def write(path, x: np.ndarray, names: list[str], header: str = "ax,ay,az,gx,gy,gz,activity") -> None:
    lines = [",".join([*(f"{v:.6f}" for v in row), name]) for row, name in zip(x, names, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def test_csv_files_are_read(tmp_path):
    x = np.concatenate([example.motion("walking", 2000, np.random.default_rng(0)), np.zeros((700, 6), np.float32)])
    write(tmp_path / "a.csv", x, ["walk"] * 1040 + ["stand"] * 1660)
    write(tmp_path / "b.csv", x[:2000], ["jump"] * 2000)
    files, names = example.read_csv(tmp_path)
    assert names == ["jump", "stand", "walk"] and len(files) == 2
    np.testing.assert_allclose(files[0][0], x[None, :2000], atol=1e-6)
    assert files[0][1].tolist() == [[2] * 10 + [1] * 10]
    assert (files[1][1] == 0).all()


def test_invalid_csv_files_raise(tmp_path):
    write(tmp_path / "a.csv", np.zeros((2000, 6)), ["walk"] * 2000)
    with pytest.raises(mg.data.DataError, match="must contain at least two CSV files"):
        example.read_csv(tmp_path)
    write(tmp_path / "b.csv", np.zeros((3, 6)), ["walk"] * 3, header="x,y,z,gx,gy,gz,activity")
    with pytest.raises(mg.data.DataError, match=r"b\.csv, line 1: expected the columns .* got \['x'"):
        example.read_csv(tmp_path)
    for line, message in (
        ("1,2,3,4,five,6,walk", "could not convert string to float: 'five'"),
        ("1,2,3,nan,5,6,walk", "six finite numbers"),
        ("1,2,3,1e300,5,6,walk", "six finite numbers"),
        ("1,2,3,4,5,6,", "six finite numbers and an activity"),
        ("1,2,3", "float"),
        ("1,2,3,4,5,6", "str"),
    ):
        (tmp_path / "b.csv").write_text(f"ax,ay,az,gx,gy,gz,activity\n1,2,3,4,5,6,walk\n{line}\n", encoding="utf-8")
        with pytest.raises(mg.data.DataError, match=rf"b\.csv, line 3: .*{message}"):
            example.read_csv(tmp_path)
    (tmp_path / "b.csv").write_text("ax,ay,az,gx,gy,gz,activity\n1,2,3,4,5,6,größer\n", encoding="latin1")
    with pytest.raises(mg.data.DataError, match=r"b\.csv, .*utf-8"):
        example.read_csv(tmp_path)


def test_spreadsheet_csv_files_are_read(tmp_path):
    """Such files start with a byte order mark and may have spaces after commas."""
    for name in "ab":
        write(
            tmp_path / f"{name}.csv",
            np.zeros((2000, 6)),
            ["walk"] * 2000,
            header="\ufeffax, ay, az, gx, gy, gz, activity",
        )
    files, names = example.read_csv(tmp_path)
    assert names == ["walk"] and len(files) == 2


def test_confusion_matrix_and_figure_are_created(tmp_path):
    from matplotlib.image import imread

    x, y = example.recordings(2)
    guesses = np.where(np.arange(20) % 7, y, 0)
    assert example.confusion(y, guesses, 6).sum() == 40
    assert np.trace(example.confusion(y, y, 6)) == 40
    example.draw(tmp_path / "activity.png", x, y, guesses, list(example.ACTIVITIES))
    assert imread(tmp_path / "activity.png").shape[0] > 300
