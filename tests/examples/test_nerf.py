"""Test examples/nerf.py: the hash encoding matches its definition, fog absorbs light, and both encodings learn."""

import mpsgraph as mg
import nerf
import numpy as np
import pytest
from mpsgraph import nn
from radiance_field import scene
from radiance_field.hash_encoding import HashEncoding, hash_encoding

RESOLUTIONS = (4, 6, 20, 37)  # On the first two levels, every corner of the grid has its own row.
ROWS = 512
PRIMES = np.array([1, 2654435761, 805459861], np.uint32)


# --- hash encoding, by its definition in numpy ------------------------------------------------------------------------
def corners(places: np.ndarray, resolution: int, rows: int):
    """Yield the row and weight, of shape (n,), of each of the eight corners around the positions."""
    x = np.clip(places, np.float32(0), np.float32(1)) * np.float32(resolution)
    low = np.minimum(np.floor(x).astype(np.int64), resolution - 1)
    for bits in np.ndindex(2, 2, 2):
        at, weight = low + bits, np.where(bits, x - low, 1 - (x - low)).prod(1)
        if (resolution + 1) ** 3 <= rows:
            yield np.ravel_multi_index(at.T, [resolution + 1] * 3, order="F"), weight
        else:
            yield np.bitwise_xor.reduce(at.astype(np.uint32) * PRIMES, 1) % rows, weight


def encoding(places: np.ndarray, tables: np.ndarray) -> np.ndarray:
    levels = [
        sum(weight[:, None] * table[row] for row, weight in corners(places, resolution, len(table)))
        for table, resolution in zip(tables, RESOLUTIONS, strict=True)
    ]
    return np.concatenate(levels, 1)


def gradient_of_tables(incoming: np.ndarray, places: np.ndarray) -> np.ndarray:
    result = np.zeros((len(RESOLUTIONS), ROWS, 2))
    for level, resolution in enumerate(RESOLUTIONS):
        for row, weight in corners(places, resolution, ROWS):
            np.add.at(result[level], row, weight[:, None] * incoming[:, 2 * level : 2 * level + 2])
    return result


def test_hash_encoding_and_its_gradient_match_the_paper():
    rng = np.random.default_rng(0)
    edges = [[0, 0, 0], [1, 1, 1], [1, 0, 0.5], [-1, 2, 0.3], [0.25, 0.5, 0.75]]
    places = np.concatenate([np.float32(edges), rng.random((3000, 3), np.float32)])
    tables = rng.standard_normal((len(RESOLUTIONS), ROWS, 2), np.float32)
    weights = rng.standard_normal((len(places), 2 * len(RESOLUTIONS)), np.float32)
    g = mg.Graph()
    x, w = g.placeholder((-1, 3)), g.placeholder((-1, 8))
    t = g.variable(tables)
    encoded = hash_encoding(x, t, resolutions=RESOLUTIONS)
    assert encoded.shape == (-1, 8)
    slope = g.gradients(g.reduction_sum(encoded * w), [t])[t]
    assert slope.shape == t.shape
    found = g.run({x: places, w: weights}, [encoded, slope])
    np.testing.assert_allclose(found[encoded], encoding(places, tables), atol=1e-5)
    np.testing.assert_allclose(found[slope], gradient_of_tables(weights, places), atol=1e-4)
    again = g.run({x: places, w: weights}, slope)
    np.testing.assert_array_equal(again, found[slope], err_msg="sums must not depend on the order of threads")
    fewer = g.run({x: places[:7], w: weights[:7]}, [encoded, slope])
    np.testing.assert_array_equal(fewer[encoded], found[encoded].numpy()[:7])
    np.testing.assert_allclose(fewer[slope], gradient_of_tables(weights[:7], places[:7]), atol=1e-5)


def test_hash_encoding_at_a_grid_corner_equals_its_table_row():
    tables = np.random.default_rng(1).standard_normal((1, 125, 2), np.float32)
    g = mg.Graph()
    x = g.placeholder((-1, 3))
    encoded = hash_encoding(x, g.constant(np.pad(tables, ((0, 0), (0, 3), (0, 0)))), resolutions=(4,))
    grid = np.stack(np.meshgrid(*[np.arange(5)] * 3, indexing="ij"), -1).reshape(-1, 3)
    rows = grid @ np.array([1, 5, 25])
    assert sorted(rows) == list(range(125))
    np.testing.assert_array_equal(g.run({x: np.float32(grid / 4)}, encoded), tables[0, rows])


def test_invalid_hash_encoding_operands_raise():
    g = mg.Graph()
    places, tables = g.placeholder((-1, 3)), g.variable(np.zeros((4, ROWS, 2), np.float32))
    for wrong in (g.placeholder((-1, 2)), g.placeholder((3,))):
        with pytest.raises(mg.ShapeError, match=r"places must have shape \(n, 3\)"):
            hash_encoding(wrong, tables, resolutions=RESOLUTIONS)
    for shape in ((3, ROWS, 2), (4, ROWS - 1, 2), (4, ROWS, 3), (4, ROWS)):
        with pytest.raises(mg.ShapeError, match="as many as resolutions, and a number of rows that is a power of two"):
            hash_encoding(places, g.variable(np.zeros(shape, np.float32)), resolutions=RESOLUTIONS)
    with pytest.raises(mg.GraphError, match="from 1 to 65535 cells"):
        hash_encoding(places, tables, resolutions=(4, 6, 0, 37))
    assert g.gradients(g.reduction_sum(hash_encoding(places, tables, resolutions=RESOLUTIONS)), [tables])


# --- absorption -------------------------------------------------------------------------------------------------------
class Everywhere(nn.Module):
    """A field with the same values at every position."""

    def __init__(self, *values: float) -> None:
        self.values = np.float32(values)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return x[..., :1] * 0.0 + x.graph.constant(self.values)


@pytest.mark.parametrize("training", [True, False])
def test_uniform_fog_follows_exponential_absorption(training: bool):
    field = nerf.Field(nn.Identity(), width=1, depth=1)
    field.density, field.here, field.facing = Everywhere(np.log(3.0), 0), Everywhere(0), Everywhere(0)
    field.colour = Everywhere(0.1, 0.5, 0.9)
    g = mg.Graph()
    rays = g.placeholder((-1, 2, 3))
    colours = (field if training else field.eval())(rays)
    ends = np.float32([[[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0.3, 0.4, 0]], [[1, 1, 0.2], [1, 1, 0.2]]])
    through = np.exp(-3.0 * np.array([1.0, 0.5, 0.0]))[:, None]
    expected = through + (1 - through) * [0.1, 0.5, 0.9]
    np.testing.assert_allclose(g.run({rays: ends}, colours), expected, rtol=1e-5)


def test_dense_region_occludes_the_background():
    """Rays cross a dense region from both sides; each sees the color of the side it comes from."""

    class Halves(nn.Module):
        def forward(self, x: mg.Tensor) -> mg.Tensor:
            g = x.graph
            inside = g.cast(abs(x[:, :1] - 0.5) < 0.25, "float32")
            # Return the density and the input of the color network.
            return g.concat((inside * 20.0 - 12.0, x[:, :1] - 0.5), 1)

    class Sides(nn.Module):
        def forward(self, x: mg.Tensor) -> mg.Tensor:
            g = x.graph
            return g.concat((g.cast(x > 0, "float32"), g.cast(x < 0, "float32"), x * 0.0), -1)

    class Told(nn.Module):
        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return x[..., :1]

    field = nerf.Field(nn.Identity(), width=1, depth=1)
    field.density, field.here, field.facing, field.colour = Halves(), Told(), Everywhere(0), Sides()
    g = mg.Graph()
    rays = g.placeholder((-1, 2, 3))
    colours = field(rays)
    ends = np.float32([[[0, 0, 0], [1, 0, 0]], [[1, 0.3, 0], [0, 0.3, 0]], [[0.1, 0, 0], [0.1, 1, 0]]])
    found = g.run({rays: ends}, colours).numpy()
    np.testing.assert_allclose(found, [[0, 1, 0], [1, 0, 0], [1, 1, 1]], atol=1e-3)


# --- the scene --------------------------------------------------------------------------------------------------------
def stands_in_a_shape(places: np.ndarray) -> np.ndarray:
    balls = [((places - centre) ** 2).sum(-1) < radius**2 for centre, radius in scene.BALLS]
    boxes = [((places > low) & (places < high)).all(-1) for low, high in scene.BOXES]
    return np.logical_or.reduce(balls + boxes)


def test_ray_intersections_match_small_step_ray_marching():
    origins, directions = (a[::37] for a in scene.camera(-0.6, 0.5, 48))
    far, which, normals = scene.nearest(origins, directions)
    t = np.arange(0.8, 3.2, 1e-3)
    inside = stands_in_a_shape(origins[:, None] + t[:, None] * directions[:, None])
    hit = inside.any(1) & np.isfinite(far)
    assert (inside.any(1) == np.isfinite(far)).mean() > 0.95, "only rays that graze an edge may differ"
    assert hit.sum() > 20 and (np.abs(far[hit] - t[inside.argmax(1)][hit]) < 2e-3).mean() > 0.95
    assert set(which[hit]) == {0, 1, 2, 3}, "every shape must be visible"
    np.testing.assert_allclose(np.linalg.norm(normals[hit], axis=1), 1, atol=1e-6)
    assert ((normals * directions).sum(1)[hit] < 0).all(), "normals must face the camera"


def test_view_rays_are_clipped_to_the_room():
    rays, colours = scene.view(2.0, 0.4, 24)
    assert rays.shape == (576, 2, 3) and rays.dtype == colours.dtype == np.float32
    assert (colours >= 0).all() and (colours <= 1).all()
    meets = (rays[:, 0] != rays[:, 1]).any(1)
    np.testing.assert_array_equal(colours[~meets], 1)
    ends = rays[meets]
    on_a_wall = np.minimum(np.abs(ends), np.abs(ends - scene.ROOM)).min(2)
    assert on_a_wall.max() < 1e-5 and (ends > -1e-5).all() and (ends < scene.ROOM + 1e-5).all()
    assert (colours[meets] < 0.9).any(1).mean() > 0.3


# --- learning ---------------------------------------------------------------------------------------------------------
def test_hash_encoding_learns_faster_than_frequency_encoding(monkeypatch: pytest.MonkeyPatch):
    for name, value in {"RAYS": 256, "SAMPLES": 24}.items():
        monkeypatch.setattr(nerf, name, value)
    views = [scene.view(2.4 * i, 0.3 + 0.2 * (i % 4), 32) for i in range(16)]
    rays, colours = (np.concatenate(arrays) for arrays in zip(*views, strict=True))
    held_out, true = scene.view(1.0, 0.6, 32)
    found = {}
    for name, field, rate in (
        ("waves", nerf.Field(nerf.Waves(), 64, 3), 2e-3),
        ("tables", nerf.Field(HashEncoding(6, 2**12, 8, 64), 32, 1), 2e-2),
    ):
        learner = nerf.Learner(field, rate, 1e9, seed=1)
        rng = np.random.default_rng(1)
        drawn = (rng.integers(len(rays), size=nerf.RAYS) for _ in range(150))
        loss = learner.trainer.fit(((rays[i], colours[i]) for i in drawn), progress=False).loss
        assert np.mean(loss[-10:]) < 0.4 * loss[0]
        found[name] = nerf.decibels(learner.shown(held_out), true)
    assert found["tables"] > 17 and found["tables"] > found["waves"] + 1
