"""Compare non-maximum suppression and crops with loops in Python, for MIL, network layers, and export."""

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
import mpsgraph as mg  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402
from coremltools.models import datatypes  # noqa: E402
from coremltools.models.neural_network import NeuralNetworkBuilder  # noqa: E402
from harness.mil_programs import results_here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # coremltools warns about untested versions of other packages.
RNG = np.random.default_rng(9)
BOXES = np.concatenate([RNG.uniform(0, 4, (3, 14, 2)), RNG.uniform(1, 3, (3, 14, 2))], -1).astype(np.float32)
SCORES = RNG.permutation(3 * 14 * 2).reshape(3, 14, 2).astype(np.float32) / 84  # All scores are distinct.
SCORES[2] *= 0.1  # No score of the third image reaches the threshold.


def overlap(a, b):
    (low_a, high_a), (low_b, high_b) = (((box[:2] - box[2:] / 2), (box[:2] + box[2:] / 2)) for box in (a, b))
    both = np.prod(np.maximum(np.minimum(high_a, high_b) - np.maximum(low_a, low_b), 0))
    return both / (np.prod(a[2:]) + np.prod(b[2:]) - both)


def suppressed(boxes, scores, iou, lowest, most, per_class):
    """Suppress boxes as specified in coremltools' NeuralNetwork.proto."""
    results = []
    for of_image, of_scores in zip(boxes, scores, strict=True):
        best, kinds, kept = of_scores.max(1), of_scores.argmax(1), []
        for i in np.argsort(-best):
            alike = [k for k in kept if not per_class or kinds[k] == kinds[i]]
            if best[i] >= lowest and all(overlap(of_image[k], of_image[i]) <= iou for k in alike):
                kept.append(i)
        kept = (kept or [int(best.argmax())])[:most]
        more = ((0, most - len(kept)), (0, 0))
        padded = [np.pad(x[kept], more) for x in (of_image, of_scores)]
        results.append([*padded, np.int32(kept + [-1] * (most - len(kept))), np.int32(len(kept))])
    return [np.stack(x) for x in zip(*results, strict=True)]


@pytest.mark.parametrize("per_class", [False, True], ids=["all", "per_class"])
@pytest.mark.parametrize(("most", "target"), [(5, "iOS15"), (20, "iOS15"), (5, "iOS17"), (20, "iOS18")])
def test_mil_non_maximum_suppression_matches_python_loops(most, target, per_class, tmp_path):
    newer = target != "iOS15"
    options = {"iou_threshold": np.float32(0.3), "max_boxes": most, "per_class_suppression": per_class}
    if not newer:
        options["score_threshold"] = np.float32(0.4)
    turn = (lambda x: x.swapaxes(1, 2)) if newer else (lambda x: x)
    inputs = {"boxes": turn(BOXES), "scores": turn(SCORES)}
    found = results_here(tmp_path, lambda **xs: mb.non_maximum_suppression(**xs, **options), inputs, target)
    boxes, scores, indices, count = suppressed(BOXES, SCORES, 0.3, -1 if newer else 0.4, most, per_class)
    assert newer or count.tolist()[2] == 1 < count.tolist()[0]
    wanted = [turn(boxes), turn(scores), indices, *([] if newer else [count])]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("told", [False, True], ids=["parameters", "inputs"])
def test_network_non_maximum_suppression_matches_python_loops(told, tmp_path):
    names, shapes = ["boxes", "scores"], [(3, 14, 4), (3, 14, 2)]
    outputs = [("y", None), ("s", None), ("i", None), ("n", None)]
    builder = NeuralNetworkBuilder(
        [(name, datatypes.Array(*shape)) for name, shape in zip(names, shapes, strict=True)], outputs,
        disable_rank5_shape_mapping=True,
    )  # fmt: skip
    if told:
        for name, value in (("iou", 0.3), ("lowest", 0.4), ("most", 5)):
            builder.add_load_constant_nd(name, name, np.float32([value]), (1,))
        builder.add_nms("nms", [*names, "iou", "lowest", "most"], ["y", "s", "i", "n"], per_class_suppression=True)
    else:
        builder.add_nms(
            "nms", names, ["y", "s", "i", "n"], iou_threshold=0.3, score_threshold=0.4, max_boxes=5,
            per_class_suppression=True,
        )  # fmt: skip
    ct.utils.save_spec(builder.spec, str(tmp_path / "net.mlmodel"))
    found = mg.coreml.load(tmp_path / "net.mlmodel").run({"boxes": BOXES, "scores": SCORES})
    wanted = suppressed(BOXES, SCORES, 0.3, 0.4, 5, True)
    for x, y in zip(found.values(), wanted, strict=True):
        np.testing.assert_array_equal(x.numpy(), y)


# --- crops ------------------------------------------------------------------------------------------------------------
X = RNG.standard_normal((2, 3, 6, 7)).astype(np.float32)
# Boxes are (y, x, y, x); one extends beyond the image.
CORNERS = np.float32([[0.5, 1, 4, 5.5], [1, 2, 3, 6], [4, 4, 7.5, 6], [2, 1, 2.5, 1.25]])
IMAGES = np.int32([1, 0, 1, 0])


def points(start, end, n, mode):
    """Return the sampling positions in an interval, as specified in coremltools' NeuralNetwork.proto, whose X - 1 is
    `length` here.
    """
    length = end - start
    if mode == "STRICT_ALIGN_CORNERS" or (mode == "ALIGN_CORNERS" and n > 1):
        return start + np.linspace(0, length, n)
    if mode == "ALIGN_CORNERS":
        return np.array([(start + end) / 2])
    if mode == "DEFAULT":
        first, spacing = 0, (length + 1) / n
    elif mode == "OFFSET_CORNERS":
        spacing = max(1, length) / n
        first = spacing / 2
    else:
        spacing = (length + 1) / n
        first = spacing / 2 - 0.5
    return start + np.clip(first + spacing * np.arange(n), 0, length)


def crops(x, corners, images, height, width, mode, pad=0.0):
    made = np.full((len(corners), x.shape[1], height, width), pad)
    for k, (box, image) in enumerate(zip(corners, images, strict=True)):
        for i, y in enumerate(points(box[0], box[2], height, mode)):
            for j, z in enumerate(points(box[1], box[3], width, mode)):
                if 0 <= y <= x.shape[2] - 1 and 0 <= z <= x.shape[3] - 1:
                    top, left, a, b = int(y), int(z), y - int(y), z - int(z)
                    down, along = int(np.ceil(y)), int(np.ceil(z))
                    above = x[image, :, top, left] * (1 - b) + x[image, :, top, along] * b
                    below = x[image, :, down, left] * (1 - b) + x[image, :, down, along] * b
                    made[k, :, i, j] = above * (1 - a) + below * a
    return made


def as_stated(corners, how):
    y, x, y2, x2 = corners.T
    stated = {
        "CORNERS_HEIGHT_FIRST": (y, x, y2, x2), "CORNERS_WIDTH_FIRST": (x, y, x2, y2),
        "CENTER_SIZE_HEIGHT_FIRST": ((y + y2) / 2, (x + x2) / 2, y2 - y, x2 - x),
        "CENTER_SIZE_WIDTH_FIRST": ((x + x2) / 2, (y + y2) / 2, x2 - x, y2 - y),
    }[how]  # fmt: skip
    return np.stack(stated, 1).astype(np.float32)


MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")
HOW = ("CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST")


@pytest.mark.parametrize(("mode", "how"), [*zip(MODES, (*HOW, HOW[0]), strict=True)])
def test_mil_crop_resize_matches_numpy_in_every_mode(mode, how, tmp_path):
    """Crops include ones of size 1 and one extending beyond the image."""
    cases = {"of_many": (4, 3), "of_one": (1, 1)}
    for height, width in cases.values():
        options = {"target_height": height, "target_width": width, "box_coordinate_mode": how, "sampling_mode": mode}
        (found,) = results_here(
            tmp_path,
            lambda x, boxes, images, options=options: mb.crop_resize(
                x=x, boxes=boxes, box_indices=images, pad_value=np.float32(9), **options
            ),
            {"x": X, "boxes": as_stated(CORNERS, how), "images": IMAGES},
            "iOS17",
        )
        wanted = crops(X, CORNERS, IMAGES, height, width, mode, pad=9.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert height == 1 or (wanted == 9).any()


def test_mil_crop_resize_accepts_boxes_for_one_or_all_images(tmp_path):
    inside = CORNERS[:2]
    options = {"target_height": 2, "target_width": 3, "spatial_scale": np.float32(0.5)}
    (found,) = results_here(
        tmp_path, lambda x, roi: mb.crop_resize(x=x, roi=roi, **options),
        {"x": X, "roi": (inside * 2).reshape(2, 1, 4, 1, 1)}, "iOS15",
    )  # fmt: skip
    wanted = [[crops(X, [box], [image], 2, 3, "DEFAULT")[0] for image in (0, 1)] for box in inside]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    regions = np.concatenate([np.zeros((2, 1)), inside / np.float32([5, 6, 5, 6])], 1).astype(np.float32)
    (found,) = results_here(
        tmp_path,
        lambda x, roi: mb.crop_resize(x=x, roi=roi, target_height=2, target_width=3, normalized_coordinates=True),
        {"x": X[:1], "roi": regions.reshape(2, 1, 5, 1, 1)}, "iOS16",
    )  # fmt: skip
    np.testing.assert_allclose(found[:, 0], crops(X, inside, [0, 0], 2, 3, "DEFAULT"), rtol=1e-4, atol=1e-5)


def test_network_crop_resize_matches_numpy(tmp_path):
    shapes = {"x": (1, 2, 3, 6, 7), "roi": (4, 1, 5, 1, 1)}
    builder = NeuralNetworkBuilder(
        [(name, datatypes.Array(*shape)) for name, shape in shapes.items()], [("y", None)],
        disable_rank5_shape_mapping=True,
    )  # fmt: skip
    builder.add_crop_resize(
        "crop", ["x", "roi"], "y", target_height=3, target_width=2, mode="ROI_ALIGN_MODE",
        box_indices_mode="CORNERS_WIDTH_FIRST", spatial_scale=0.5,
    )  # fmt: skip
    ct.utils.save_spec(builder.spec, str(tmp_path / "net.mlmodel"))
    regions = np.concatenate([IMAGES[:, None], 2 * as_stated(CORNERS, "CORNERS_WIDTH_FIRST")], 1).astype(np.float32)
    found = mg.coreml.load(tmp_path / "net.mlmodel")(X[None], regions.reshape(4, 1, 5, 1, 1)).numpy()
    np.testing.assert_allclose(found[:, 0], crops(X, CORNERS, IMAGES, 3, 2, "OFFSET_CORNERS"), rtol=1e-4, atol=1e-5)


def test_crop_from_missing_image_raises(tmp_path):
    with pytest.raises(mg.OutOfRangeError):
        results_here(
            tmp_path, lambda x, boxes, images: mb.crop_resize(x=x, boxes=boxes, box_indices=images),
            {"x": X, "boxes": CORNERS[:1], "images": np.int32([2])}, "iOS17",
        )  # fmt: skip


# --- export -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
@pytest.mark.parametrize("mode", ["corners_height_first", "corners_width_first", "centers_height_first"])
@pytest.mark.parametrize(("classes", "per_class"), [(1, False), (2, False), (2, True)])
def test_exported_non_maximum_suppression_returns_equal_rows(classes, per_class, mode, target, tmp_path):
    """The rows (image, class, box) must be equal in number and order."""
    centers = {"corners_height_first": HOW[0], "corners_width_first": HOW[1], "centers_height_first": HOW[2]}[mode]
    low, high = BOXES[..., :2] - BOXES[..., 2:] / 2, BOXES[..., :2] + BOXES[..., 2:] / 2
    corners = np.concatenate([low[..., ::-1], high[..., ::-1]], -1)
    given = as_stated(corners.reshape(-1, 4), centers).reshape(3, 14, 4)
    g = mg.Graph()
    boxes, scores = g.placeholder((-1, 14, 4), name="boxes"), g.placeholder((-1, 14, classes), name="scores")
    kept = g.non_maximum_suppression(boxes, scores, 0.3, 0.4, per_class, mode)
    path = tmp_path / "net.mlpackage"
    mg.coreml.export(g, path, outputs={"kept": kept}, target=target)
    back = mg.coreml.load(path)
    for n in (3, 2):
        feeds = {"boxes": given[:n], "scores": SCORES[:n, :, :classes]}
        wanted = g.run({boxes: feeds["boxes"], scores: feeds["scores"]}, kept).numpy()
        assert len(wanted) > 3 and set(wanted[:, 0]) == {0, 1}, "only the first two images have boxes"
        np.testing.assert_array_equal(back.run(feeds)["kept"].numpy(), wanted)


def test_exporting_per_class_non_maximum_suppression_raises(tmp_path):
    g = mg.Graph()
    boxes, scores = g.placeholder((1, 9, 4), name="boxes"), g.placeholder((1, 9, 1), name="scores")
    classes = g.placeholder((1, 9), "int32", "classes")
    kept = g.non_maximum_suppression(boxes, scores, 0.3, 0.4, True, class_indices=classes)
    with pytest.raises(mg.UnsupportedError, match="one class index per box"):
        mg.coreml.export(g, tmp_path / "net.mlpackage", outputs={"kept": kept})
