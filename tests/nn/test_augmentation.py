"""Test data augmentation: the effect and distribution of each random transform, seeding, and inference mode."""

import math

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

MADE = {
    "flip": lambda **o: nn.RandomFlip(True, True, **o),
    "crop": lambda **o: nn.RandomCrop((6, 5), padding=2, **o),
    "rotation": lambda **o: nn.RandomRotation(40, **o),
    "jitter": lambda **o: nn.ColorJitter(0.4, 0.3, 0.2, **o),
    "cutout": lambda **o: nn.Cutout(3, **o),
}


def images(count=64, height=7, width=9, channels=3, dtype=np.float32):
    return np.random.default_rng(3).uniform(0.1, 0.9, (count, height, width, channels)).astype(dtype)


def run(layer, x, seed=0, training=True, times=1):
    g = mg.Graph(seed)
    placeholder = g.placeholder((-1, *x.shape[1:]), x.dtype.name)
    y = layer.train(training)(placeholder)
    return [g.run({placeholder: x}, y).numpy() for _ in range(times)][-1]


@pytest.mark.parametrize("name", MADE)
def test_augmentation_depends_on_seed_and_step(name):
    x = images()
    first, again, other, later = (run(MADE[name](), x, s, times=t) for s, t in ((1, 1), (1, 1), (2, 1), (1, 2)))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != later).any()
    assert len({sample.tobytes() for sample in first - (x if first.shape == x.shape else 0)}) > 3, (
        "samples must be drawn independently"
    )


@pytest.mark.parametrize("name", MADE)
def test_inference_mode_disables_augmentation(name):
    x = images()
    # The center crop of the padded 11 x 13 image starts at row 2, column 4: row 0, column 2 of the unpadded image.
    wanted = x[:, 0:6, 2:7] if name == "crop" else x
    np.testing.assert_array_equal(run(MADE[name](), x, training=False), wanted)


@pytest.mark.parametrize("name", MADE)
def test_augmented_nchw_images_equal_augmented_nhwc_images(name):
    x = images(8)
    found = run(MADE[name](data_layout="NCHW"), x.transpose(0, 3, 1, 2).copy())
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), run(MADE[name](), x), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("name", MADE)
def test_augmentation_supports_other_float_dtypes(name, dtype):
    x = images(8)
    found = run(MADE[name](), x.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(float), run(MADE[name](), x), atol=2e-2 if dtype == np.float16 else 1e-5)


def test_random_flip_rate_matches_its_probability():
    x = images(2000, 2, 3, 1)
    y = run(nn.RandomFlip(rate=0.3), x)
    turned = (y == x[:, :, ::-1]).all((1, 2, 3))
    assert (turned | (y == x).all((1, 2, 3))).all()
    assert abs(turned.mean() - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 2000)
    y = run(nn.RandomFlip(False, True), x)
    assert ((y == x[:, ::-1]).all((1, 2, 3)) | (y == x).all((1, 2, 3))).all()
    np.testing.assert_array_equal(run(nn.RandomFlip(rate=0.0), x), x)


def test_random_crops_are_uniform_over_positions():
    x = images(900, 4, 5, 1)
    padded, found = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), np.zeros((3, 5), int)
    y = run(nn.RandomCrop((4, 3), padding=1), x)
    for before, after in zip(padded, y, strict=True):
        places = [(i, j) for i in range(3) for j in range(5) if (before[i : i + 4, j : j + 3] == after).all()]
        assert len(places) == 1
        found[places[0]] += 1
    assert found.min() > 30 and found.max() < 95, "each of the 15 positions is expected 60 times"
    with pytest.raises(mg.ShapeError, match=r"size \(8, 8\) is larger than images of 4 x 5 pixels"):
        run(nn.RandomCrop(8, padding=1), x)


def test_random_rotation_angles_are_uniform():
    """Angles are uniform, and pixels from outside the image fill the corners."""
    x = images(4, 5, 5, 2)
    line = np.zeros((2000, 9, 9, 1), np.float32)
    line[:, 4, 8] = 1.0  # This pixel is to the right of the center.
    turned = run(nn.RandomRotation(60), line)[..., 0]
    down, right = np.mgrid[:9, :9] - 4
    mass = turned.sum((1, 2))
    angles = np.degrees(np.arctan2(-(turned * down).sum((1, 2)) / mass, (turned * right).sum((1, 2)) / mass))
    assert np.abs(angles).max() < 68 and abs(angles.mean()) < 4
    assert abs(np.mean(np.abs(angles) > 30) - 0.5) < 0.08, "angles must be uniform between -60 and 60 degrees"
    filled = run(nn.RandomRotation(45, fill=7.0), np.zeros((50, 6, 6, 1), np.float32))
    assert filled.max() == pytest.approx(7) and (filled[:, 2:4, 2:4] == 0).all()
    np.testing.assert_allclose(run(nn.RandomRotation(0.0), x), x, atol=1e-6)


def test_rotation_by_fixed_angle_matches_numpy(monkeypatch):
    from mpsgraph.nn import augmentation

    monkeypatch.setattr(augmentation, "_draws", lambda x, low, high: x.graph.constant(1.0, (2, 1, 1, 1)))
    x = images(2, 5, 5, 2)
    np.testing.assert_allclose(run(nn.RandomRotation(90), x), np.rot90(x, -1, (1, 2)), atol=1e-5)
    np.testing.assert_allclose(run(nn.RandomRotation(180, "nearest"), x), x[:, ::-1, ::-1], atol=1e-5)


def test_color_jitter_factors_have_expected_range():
    x = images(1000)
    grey = (x * [0.299, 0.587, 0.114]).sum(-1, keepdims=True)
    mean = grey.mean((1, 2), keepdims=True)
    for options, origin in (({"brightness": 0.5}, 0 * mean), ({"contrast": 0.5}, mean), ({"saturation": 0.5}, grey)):
        y = run(nn.ColorJitter(**options, value_range=None), x)
        factors = (y - origin) / np.where(np.abs(x - origin) < 0.05, np.nan, x - origin)
        each = np.nanmean(factors, (1, 2, 3))
        assert np.nanmax(np.abs(factors - each[:, None, None, None])) < 3e-3
        assert 0.5 <= each.min() < 0.55 and 1.45 < each.max() < 1.501 and abs(each.mean() - 1) < 0.04
    held = run(nn.ColorJitter(2.0), x)
    assert held.min() >= 0 and held.max() == 1.0
    np.testing.assert_allclose(run(nn.ColorJitter(0, 0, 0.5), x[..., :1]), x[..., :1], atol=1e-6)
    with pytest.raises(mg.ShapeError, match="1 or 3 channels"):
        run(nn.ColorJitter(0, 0.5), x[..., :2])


def test_cutout_hides_one_rectangle():
    x = np.ones((2000, 6, 8, 1), np.float32)
    hidden = run(nn.Cutout(3, fill=0.5), x)[..., 0] == 0.5
    sides = hidden.any(2).sum(1), hidden.any(1).sum(1)
    assert (hidden.sum((1, 2)) == sides[0] * sides[1]).all(), "the hidden area must be a rectangle"
    assert set(sides[0]) == set(sides[1]) == {2, 3}
    share = hidden.mean(0)
    assert abs(share[2:4, 2:6].mean() - 9 / 48) < 0.03 and abs(share[0, 0] - 4 / 48) < 0.03


@pytest.mark.parametrize("alpha", [0.1, 0.4, 1.0])
def test_mixup_shares_follow_beta_distribution(alpha):
    count = 4000
    x = np.arange(count, dtype=np.float32)[:, None]
    y = np.eye(2, dtype=np.float32)[np.arange(count) % 2]
    g = mg.Graph(5)
    given = g.placeholder((-1, 1)), g.placeholder((-1, 2))
    mixed = list(nn.mixup(*given, alpha))
    results = g.run(dict(zip(given, (x, y), strict=True)), mixed)
    found = [results[tensor].numpy() for tensor in mixed]
    share = found[1][np.arange(count), np.arange(count) % 2]
    np.testing.assert_allclose(found[0][1:, 0], x[1:, 0] - (1 - share[1:]), rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(found[1].sum(1), 1, atol=1e-6)
    assert np.isfinite(share).all() and share.min() >= 0 and share.max() <= 1
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(share.mean() - 0.5) < 4 * math.sqrt(variance / count)
    assert abs(share.var() / variance - 1) < 0.06
    kurtosis = ((share - 0.5) ** 4).mean() / variance**2
    assert abs(kurtosis - (3 - 6 / (2 * alpha + 3))) < 0.08, "the shares must have the kurtosis of Beta(alpha, alpha)"


def test_invalid_augmentation_arguments_raise():
    g = mg.Graph()
    with pytest.raises(mg.DTypeError, match=r"RandomFlip needs floating-point images, got uint8"):
        nn.RandomFlip()(g.placeholder((-1, 4, 4, 3), "uint8"))
    with pytest.raises(mg.ShapeError, match="needs 4-D images"):
        nn.Cutout(2)(g.placeholder((4, 4, 3)))
    with pytest.raises(mg.ShapeError, match="needs images of known height and width"):
        nn.RandomRotation(5).train()(g.placeholder((-1, -1, 4, 3)))
    with pytest.raises(mg.GraphError, match="NHWC or NCHW"):
        nn.RandomFlip(data_layout="HWC")
    with pytest.raises(mg.GraphError, match="value_range"):
        nn.ColorJitter(value_range=(1.0, 0.0))
    with pytest.raises(mg.GraphError, match="at most 1"):
        nn.mixup(g.placeholder((-1, 4)), g.placeholder((-1, 2)), 1.5)
    with pytest.raises(mg.DTypeError, match="one_hot"):
        nn.mixup(g.placeholder((-1, 4)), g.placeholder((-1,), "int32"))


def test_trainer_applies_augmentation_only_in_training_steps(tmp_path):
    """Train with every augmentation layer, predict twice with equal results, and resume with the same random draws."""
    x, y = images(32, 8, 8), np.arange(32, dtype=np.int32) % 3

    def made():
        layers = nn.RandomFlip(), nn.RandomCrop(8, 2), nn.RandomRotation(9), nn.ColorJitter(0.2, 0.2, 0.2), nn.Cutout(2)
        return mg.Trainer(nn.Sequential(*layers, nn.Flatten(), nn.Linear(3)), optimizer=mg.optim.SGD(0.05), seed=3)

    trainer = made()
    trainer.fit(x, y, epochs=2, batch_size=8, progress=False)
    np.testing.assert_array_equal(trainer.predict(x), trainer.predict(x))
    trainer.save(tmp_path / "saved")
    other = made()
    other.load(tmp_path / "saved")
    losses = [t.fit(x, y, epochs=1, batch_size=8, progress=False).loss for t in (trainer, other)]
    assert losses[0] == losses[1] and len(losses[0]) == 12
