"""Test examples/gan.py: each loss updates its own network, both from the same old values, and the images improve."""

import gan
import mpsgraph as mg
import numpy as np
import pytest

BATCH = 8


def fed(batch: int = BATCH) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    scans = gan.scanned_digits(None)
    return rng.standard_normal((batch, gan.SEED_SIZE), np.float32), scans[rng.permutation(len(scans))[:batch]]


def values(model: gan.Gan, network: gan.Network) -> list[np.ndarray]:
    return [model.g.variable_value(v) for v in network.variables]


def after(updates: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the variables of the generator and of the discriminator after one step with some of the updates."""
    model = gan.Gan(BATCH)
    seeds, scans = fed()
    model.g.run({model.seeds: seeds, model.scans: scans}, model.losses, getattr(model, updates))
    return values(model, model.generator), values(model, model.discriminator)


def same(these: list[np.ndarray], those: list[np.ndarray]) -> list[bool]:
    return [np.allclose(a, b, rtol=0, atol=1e-7) for a, b in zip(these, those, strict=True)]


def test_gan_has_expected_shapes_and_parameter_counts():
    model = gan.Gan(BATCH)
    assert model.images.shape == (BATCH, 28, 28, 1)
    assert sum(v.size for v in values(model, model.generator)) == 102 * 6272 + 16 * 64 * 129 + 2 * 64 + 1
    assert sum(v.size for v in values(model, model.discriminator)) == 17 * 64 + 16 * 64 * 128 + 128 + 6272 + 1


def test_each_gan_loss_updates_its_own_network_from_old_values(monkeypatch: pytest.MonkeyPatch):
    """Running all updates at once equals running each alone. Dropout is disabled, as its masks would differ."""
    monkeypatch.setattr(gan, "DROPOUT", 0.0)
    first = gan.Gan(BATCH)
    generator, discriminator = values(first, first.generator), values(first, first.discriminator)
    moved, still = after("generator_updates")
    assert not any(same(moved, generator)) and all(same(still, discriminator))
    still, looked = after("discriminator_updates")
    assert all(same(still, generator)) and not any(same(looked, discriminator))
    both = after("updates")
    assert all(same(both[0], moved)) and all(same(both[1], looked))


def test_gan_step_compiles_once_and_images_approach_digit_scans():
    model = gan.Gan(16)
    seeds, scans = fed(16)
    mean = scans.mean(axis=0)
    before = np.abs(model.draw(seeds).mean(axis=0) - mean).mean()
    compiled = model.g.cache.compiles
    losses = [model.step(seeds, scans) for _ in range(60)]
    assert model.g.cache.compiles == compiled + 1
    assert losses[0] == pytest.approx((np.log(2), 2 * np.log(2)), abs=0.05), (
        "the initial loss must be that of random guesses"
    )
    assert np.isfinite(losses).all()
    assert np.abs(model.draw(seeds).mean(axis=0) - mean).mean() < 0.7 * before


def test_image_grids_are_written_during_training(tmp_path, monkeypatch: pytest.MonkeyPatch):
    from matplotlib.image import imread

    monkeypatch.setattr(gan, "SHOWN", (0, 2))
    scans = gan.scanned_digits(None)[:BATCH]
    losses, grids = gan.train(gan.Gan(4), scans, 3, 0, tmp_path)
    assert len(losses) == 3 and sorted(grids) == [0, 2, 3]
    pixels = imread(tmp_path / "gan_00003.png")[..., 0]
    assert pixels.shape == (64, 64) and np.allclose(pixels, (grids[3] + 1) / 2, atol=0.01)
    gan.draw(tmp_path / "gan.png", losses, grids, scans)
    assert imread(tmp_path / "gan.png").shape[0] > 500


def test_folder_without_mnist_files_raises(tmp_path):
    with pytest.raises(mg.data.DataError, match=str(tmp_path)):
        gan.scanned_digits(tmp_path)
