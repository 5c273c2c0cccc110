"""An object detector with the YOLO loss node: finds scanned digits in scenes, with their boxes and classes.

The task is that of Turi Create in "Metal for Accelerating Machine Learning" (WWDC18). A Darknet-like network of
convolution, batch normalization, and leaky ReLU is trained with MPSNNGraph nodes on augmented scenes. The graph's
non-maximum suppression removes overlapping boxes; the metric is mean average precision at an overlap of 0.5.
Run: python examples/object_detector.py [--steps 1200]; page: docs/examples/object_detector.md.
"""

import argparse
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nngraph as nn
from mpsgraph._optional import require

SIZE, GRID, CLASSES = 64, 8, 10  # Pixels and cells per side.
ANCHORS = np.array([[1.2, 1.8], [2.0, 2.8]], np.float32)  # Width and height in cells.
FILTERS = (16, 32, 64)  # Of the stages, each followed by pooling.


class Scenes:
    """Random scenes of one to three digits, with random positions, sizes, contrasts, and noise."""

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        self.images, self.labels = images, labels

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, list[list[tuple[int, np.ndarray]]]]:
        """Return images [n, 64, 64, 1] and their objects: class and (center x, y, width, height) in pixels."""
        scenes = rng.random((count, SIZE, SIZE), np.float32) * np.float32(0.2)
        objects: list[list[tuple[int, np.ndarray]]] = []
        for scene in scenes:
            found: list[tuple[int, np.ndarray]] = []
            for _ in range(rng.integers(1, 4)):
                placed = self.place(scene, found, rng)
                if placed is not None:
                    found.append(placed)
            objects.append(found)
        return scenes[..., None], objects

    def place(self, scene, found, rng):
        """Draw a digit at a free position; return None if there is no room."""
        i = rng.integers(len(self.images))
        height = int(rng.integers(14, 27))
        digit = self.images[i][:, self.images[i].max(0) > 0.1]  # without empty columns
        width = max(5, round(height * digit.shape[1] / 8))
        digit = digit[np.arange(height) * 8 // height][:, np.arange(width) * digit.shape[1] // width]
        for _ in range(10):
            y, x = rng.integers(0, SIZE - height + 1), rng.integers(0, SIZE - width + 1)
            box = np.array([x + width / 2, y + height / 2, width, height], np.float32)
            if all((np.abs(box[:2] - other[:2]) > (box[2:] + other[2:]) * 0.45).any() for _, other in found):
                part = scene[y : y + height, x : x + width]
                np.maximum(part, digit * np.float32(rng.uniform(0.6, 1.0)), out=part)
                return int(self.labels[i]), box
        return None


def targets(objects) -> np.ndarray:
    """Return the labels of each cell and anchor: x and y within the cell, w and h in cells, confidence 1, and class."""
    result = np.zeros((len(objects), GRID, GRID, len(ANCHORS), 5 + CLASSES), np.float32)
    for scene, found in zip(result, objects, strict=True):
        for kind, box in found:
            x, y, w, h = box * GRID / SIZE
            column, row = min(int(x), GRID - 1), min(int(y), GRID - 1)
            scene[row, column, :, :5] = x - column, y - row, w, h, 1
            scene[row, column, :, 5:] = np.eye(CLASSES, dtype=np.float32)[kind]
    return result.reshape(len(objects), GRID, GRID, -1)


def network(images: nn.ImageNode, optimizer, seed: int = 0) -> nn.ImageNode:
    """Create the network with output [n, 8, 8, anchors * (5 + classes)]."""
    x, channels = images, 1

    def conv(x, inputs, outputs, size, label):
        descriptor = nn.ConvolutionDescriptor(size, size, inputs, outputs)
        own = {"optimizer": optimizer, "label": label, "seed": 1000 * seed + outputs + size}
        source = nn.TrainableConvolution(descriptor, None, False, **own)
        norm = nn.TrainableNormalization(outputs, momentum=0.95, optimizer=optimizer, label=f"{label} norm")
        x = nn.ConvolutionNode(x, source).result_image
        return nn.NeuronReLUNode(nn.BatchNormalizationNode(x, norm).result_image, 0.1).result_image

    for stage, filters in enumerate(FILTERS):
        x = conv(x, channels, filters, 3, f"conv{stage}")
        x, channels = nn.PoolingMaxNode(x, 2).result_image, filters
    x = conv(x, channels, 128, 3, "conv3")
    x = conv(x, 128, 128, 3, "conv4")
    descriptor = nn.ConvolutionDescriptor(1, 1, 128, len(ANCHORS) * (5 + CLASSES))
    last = nn.TrainableConvolution(descriptor, optimizer=optimizer, label="boxes", seed=1000 * seed + 1)
    return nn.ConvolutionNode(x, last).result_image


class Detector:
    """The network, and a graph that decodes its predictions and removes overlapping boxes."""

    def __init__(self, prediction: nn.ImageNode):
        self.nodes = nn.NNGraph(None, prediction)
        self.graph = g = mg.Graph()
        self.given = g.placeholder((-1, GRID, GRID, len(ANCHORS), 5 + CLASSES))
        cells = np.stack(np.meshgrid(np.arange(GRID), np.arange(GRID)), -1)[:, :, None].astype(np.float32)
        centre = (g.sigmoid(self.given[..., :2]) + g.constant(cells)) * (SIZE / GRID)
        size = g.exponent(self.given[..., 2:4]) * g.constant(ANCHORS * (SIZE / GRID))
        scores = g.sigmoid(self.given[..., 4:5]) * g.softmax(self.given[..., 5:], axis=-1)
        count = GRID * GRID * len(ANCHORS)
        self.boxes = g.reshape(g.concat([centre, size], axis=-1), (-1, count, 4))
        self.scores = g.reshape(scores, (-1, count, CLASSES))
        self.kept = g.non_maximum_suppression(
            self.boxes, self.scores, 0.4, 0.02, coordinate_mode="centers_width_first", per_class_suppression=True
        )

    def __call__(self, images):
        """Return the detections in each image: (score, class, box)."""
        given = self.nodes(images).numpy().reshape(-1, *self.given.shape[1:])
        results = self.graph.run({self.given: given}, [self.boxes, self.scores, self.kept])
        boxes, scores, kept = (array.numpy() for array in results.values())
        found: list[list[tuple[float, int, np.ndarray]]] = [[] for _ in images]
        for image, kind, box in kept:
            found[image].append((float(scores[image, box, kind]), int(kind), boxes[image, box]))
        return found


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return the intersection over union of two boxes (center x, y, width, height)."""
    common = np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2) - np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    inside = float(np.prod(np.maximum(common, 0)))
    return inside / float(np.prod(a[2:]) + np.prod(b[2:]) - inside)


def mean_average_precision(found, objects, at: float = 0.5) -> float:
    """Return the mean over classes of the area under the precision-recall curve, where each box counts once."""
    areas = []
    for kind in range(CLASSES):
        truth = {i: [box for k, box in scene if k == kind] for i, scene in enumerate(objects)}
        total = sum(map(len, truth.values()))
        hits = []
        claims = [(score, i, box) for i, scene in enumerate(found) for score, k, box in scene if k == kind]
        for _, i, box in sorted(claims, key=lambda claim: -claim[0]):
            best = max(range(len(truth[i])), key=lambda j: overlap(box, truth[i][j]), default=None)
            hits.append(best is not None and overlap(box, truth[i][best]) >= at)
            if hits[-1]:
                del truth[i][best]
        right = np.cumsum(hits) if hits else np.zeros(1)
        precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
        areas.append(float(np.sum(precision * np.diff(right, prepend=0)) / max(total, 1)))
    return float(np.mean(areas))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and of the training scenes")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args(arguments)
    digits = require("sklearn.datasets", "demo", "the digits").load_digits()
    images = digits.images.astype(np.float32) / 16
    train, test = Scenes(images[:1400], digits.target[:1400]), Scenes(images[1400:], digits.target[1400:])

    optimizer, place = nn.Adam(2e-3), nn.ImageNode("scenes")
    prediction = network(place, optimizer, options.seed)
    descriptor = nn.YOLOLossDescriptor(ANCHORS, weight=0.1 / options.batch)
    ends = nn.YOLOLossNode(prediction, descriptor, label="yolo").training_graph(None)
    graph = nn.NNGraph(None, [node.result_image for node in ends], [False] * len(ends))
    rng = np.random.default_rng(2 * options.seed)  # odd seeds are for the test scenes
    queue, losses, start = mg.CommandQueue(graph.device), [], time.perf_counter()
    for step in require("tqdm.auto", "demo", "the progress bar").trange(options.steps, unit="step"):
        optimizer.learning_rate = 2e-3 * (1 - step / options.steps) + 1e-5
        scenes, objects = train.draw(options.batch, rng)
        labels, buffer = nn.LossLabelsBatch(targets(objects)), queue.command_buffer()
        graph.encode_batch(buffer, [scenes], [labels])
        buffer.commit()
        buffer.wait_until_completed()
        losses.append(float(labels.losses.numpy().sum()))
    print(f"Trained {options.steps} steps of {options.batch} scenes in {time.perf_counter() - start:.0f} s")
    print(f"Loss    {np.mean(losses[:5]):.2f} at first, {np.mean(losses[-20:]):.2f} in the last twenty steps")
    scenes, objects = test.draw(200, np.random.default_rng(1))
    found = Detector(prediction)(scenes)
    print(f"Test    mAP {mean_average_precision(found, objects):.3f} at an overlap of 0.5 on {len(scenes)} scenes")
    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "object_detector.png", scenes, found, objects)


def draw(path, scenes, found, objects):
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(10, 5.2), layout="constrained")
    for axes, scene, claims, truth in zip(figure.subplots(2, 4).flat, scenes, found, objects, strict=False):
        axes.imshow(scene[..., 0], cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[], xlim=(0, SIZE), ylim=(SIZE, 0), xlabel=f"{len(truth)} digits")
        for _, (x, y, _, _) in truth:
            axes.plot(x, y, "+", color="tab:green")
        for score, kind, (x, y, w, h) in (c for c in claims if c[0] > 0.3):
            corners = x + w / 2 * np.array([-1, 1, 1, -1, -1]), y + h / 2 * np.array([-1, -1, 1, 1, -1])
            axes.plot(*corners, color="tab:orange")
            axes.text(x - w / 2, max(y - h / 2 - 1, 4), f"{kind}: {score:.2f}", color="tab:orange", size=8)
    figure.savefig(path, dpi=110)
    print(f"Wrote   {path}")


if __name__ == "__main__":
    main()
