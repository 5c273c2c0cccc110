"""Test examples/diffusion.py: it learns, samples depend only on the seed, and the sampler follows the velocities."""

import math

import diffusion
import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

DIGITS = np.array([3, 1, 4], np.int32)


@pytest.fixture(scope="module")
def trained():
    (images, labels), _ = mg.data.digits(diffusion.SIZE)
    trainer = diffusion.Diffusion(
        diffusion.UNet(16), optimizer=mg.optim.Adam(5e-3), metrics=(), ema_decay=0.9, seed=1
    )  # fmt: skip
    trainer.fit(images[:512] * 2 - 1, labels[:512], iterations=60, batch_size=32, progress=False)
    return trainer


def test_diffusion_training_lowers_the_loss(trained):
    loss = trained.history.loss
    assert loss[0] > 0.8, "the initial loss must be near the velocities' variance of 1"
    assert np.mean(loss[-10:]) < 0.5 * loss[0]
    shapes = {v.name: v.shape for v in trained.graph.trainable_variables}
    assert shapes["digit.weight"] == (diffusion.ANY + 1, diffusion.FEATURES)


def test_diffusion_samples_depend_only_on_the_seed(trained):
    before = trained.weights()
    way = trained.sample(DIGITS, 2.0, seed=5, moves=4)
    assert way.shape == (5, 3, 8, 8, 1) and np.isfinite(way).all()
    np.testing.assert_array_equal(way[0], np.random.default_rng(5).standard_normal((3, 8, 8, 1), np.float32))
    np.testing.assert_array_equal(trained.sample(DIGITS, 2.0, seed=5, moves=4), way)
    assert np.abs(trained.sample(DIGITS, 0.0, seed=5, moves=4)[-1] - way[-1]).max() > 1e-3
    for path, value in trained.weights().items():
        np.testing.assert_array_equal(
            before[path], value, err_msg="sampling must restore the weights that the averages replace"
        )


def test_sampler_with_exact_velocities_reaches_the_target_image(trained, monkeypatch):
    """With a data set of a single image, the velocity is known exactly; each step keeps the noise and gets closer."""
    picture = np.linspace(-0.9, 0.9, 64, dtype=np.float32).reshape(8, 8, 1)

    class Known(nn.Module):
        def forward(self, x, time, digit):
            g, angle = x.graph, x.graph.expand_dims(time, (2, 3)) * (math.pi / 2)
            whole = g.constant(picture[None])
            noise = (x - g.cos(angle) * whole) / g.sin(angle)
            return g.cos(angle) * noise - g.sin(angle) * whole

    monkeypatch.setitem(vars(trained), "model", Known())  # a trainer does not accept another model
    way = trained.sample(DIGITS, 3.0, seed=2, moves=6)
    np.testing.assert_allclose(way[-1], np.broadcast_to(picture, way[-1].shape), atol=1e-5)
    third = math.cos(math.pi / 4) * picture + math.sin(math.pi / 4) * way[0]
    np.testing.assert_allclose(way[3], third, atol=1e-5)


def test_diffusion_figure_is_drawn(trained, tmp_path):
    from matplotlib.image import imread

    way = trained.sample(np.arange(10, dtype=np.int32), 2.0, seed=0, moves=5)
    diffusion.draw(tmp_path / "diffusion.png", way, trained.history)
    assert imread(tmp_path / "diffusion.png").shape[1] == 14 * 90
