"""Compare embedding, upsampling, pixel shuffle, and padding layers with numpy and results of torch 2.13."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

IMAGES = np.arange(2 * 3 * 4 * 8, dtype=np.float32).reshape(2, 3, 4, 8)


def applied(module, x):
    g = mg.Graph(seed=1)
    placeholder = g.placeholder((-1, *x.shape[1:]), x.dtype)
    return g.run({placeholder: x}, module(placeholder)).numpy()


def planar(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def test_embedding_gathers_rows_and_updates_only_gathered_rows():
    g = mg.Graph(seed=0)
    layer, indices = nn.Embedding(5, 3, padding_index=-1), g.placeholder((-1, 2), mg.int32)
    y = layer(indices)
    d = g.gradients(g.reduction_sum(y), [layer.weight])[layer.weight]
    fed = {indices: np.array([[0, 2], [2, 4]], np.int32)}
    found = g.run(fed, [y, d])
    table = layer.state_dict()["weight"]
    assert table.shape == (5, 3) and table.dtype == np.float32
    np.testing.assert_array_equal(found[y].numpy(), [[table[0], table[2]], [table[2], np.zeros(3)]])
    np.testing.assert_array_equal(found[d].numpy(), np.repeat([[1], [0], [2], [0], [0]], 3, 1))
    with pytest.raises(mg.DTypeError, match="integers"):
        nn.Embedding(5, 3)(g.placeholder((2,)))
    with pytest.raises(mg.ShapeError, match="padding_index"):
        nn.Embedding(5, 3, padding_index=5)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_pixel_shuffle_matches_numpy_and_is_inverted_by_unshuffle(layout):
    n, h, w, c = IMAGES.shape
    x = IMAGES if layout == "NHWC" else planar(IMAGES)
    blocks = IMAGES.reshape(n, h, w, c // 4, 2, 2)  # The axes are channels, then the offset within the block.
    wanted = blocks.transpose(0, 1, 4, 2, 5, 3).reshape(n, h * 2, w * 2, c // 4)
    shuffled = applied(nn.PixelShuffle(2, data_layout=layout), x)
    np.testing.assert_array_equal(shuffled, wanted if layout == "NHWC" else planar(wanted))
    np.testing.assert_array_equal(applied(nn.PixelUnshuffle(2, data_layout=layout), shuffled), x)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("layer", "mode"), [(nn.ZeroPad2d, "constant"), (nn.ReflectionPad2d, "reflect"), (nn.ReplicationPad2d, "edge")]
)
def test_padding_layers_match_numpy(layer, mode, layout):
    wanted = np.pad(IMAGES, [(0, 0), (2, 0), (1, 3), (0, 0)], mode)  # Pads are ordered left, right, top, bottom.
    x = IMAGES if layout == "NHWC" else planar(IMAGES)
    found = applied(layer((1, 3, 2, 0), data_layout=layout), x)
    np.testing.assert_array_equal(found, wanted if layout == "NHWC" else planar(wanted))
    assert applied(layer(1, data_layout=layout), x).size == 2 * 5 * 6 * 8


def test_upsampling_matches_pytorch():
    x = np.array([[1.0, 2.0, -3.0], [4.0, 0.5, 6.0]], np.float32).reshape(1, 2, 3, 1)
    wanted = {
        ("nearest", False): [[1, 1, 2, 2, -3], [1, 1, 2, 2, -3], [4, 4, 0.5, 0.5, 6]],
        ("bilinear", False): [[1, 1.4, 2, -1, -3], [2.5, 2, 1.25, 1.4, 1.5], [4, 2.6, 0.5, 3.8, 6]],
        ("bilinear", True): [[1, 1.5, 2, -0.5, -3], [2.5, 1.875, 1.25, 1.375, 1.5], [4, 2.25, 0.5, 3.25, 6]],
    }
    for (mode, corners), numbers in wanted.items():
        found = applied(nn.Upsample((3, 5), mode=mode, align_corners=corners), x)
        np.testing.assert_allclose(found[0, ..., 0], numbers, rtol=1e-5, atol=1e-5)
    doubled = applied(nn.Upsample(scale_factor=2, data_layout="NCHW"), planar(IMAGES))
    np.testing.assert_array_equal(doubled, planar(IMAGES).repeat(2, 2).repeat(2, 3))


def test_invalid_resampling_arguments_raise():
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match="exactly one of size and scale_factor"):
        nn.Upsample()
    with pytest.raises(mg.GraphError, match="mode"):
        nn.Upsample(2, mode="cubic")
    with pytest.raises(mg.ShapeError, match="known height and width"):
        nn.Upsample(scale_factor=2)(g.placeholder((1, -1, 4, 3)))
    with pytest.raises(mg.ShapeError, match="needs 4-D images"):
        nn.ZeroPad2d(1)(g.placeholder((4, 4)))
    with pytest.raises(mg.GraphError, match="data_layout"):
        nn.PixelShuffle(2, data_layout="HWC")(g.placeholder((1, 4, 4, 4)))
