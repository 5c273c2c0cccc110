"""InceptionV3 in the legacy MPSNNGraph API: 94 convolutions, concatenations, and batch normalizations.

"Metal for Accelerating Machine Learning" (WWDC18) shows this network in TensorFlow. Here every filter is a node, and
one NNGraph with gradient filters trains it. Its forward pass matches Keras up to rounding. The data are scikit-learn's
scanned digits, enlarged to 75 x 75 pixels, the smallest size that the network supports.
Run: python examples/inception.py [--narrow 4] [--steps 150]; page: docs/examples/inception.md.
"""

import argparse
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nngraph as nn
from mpsgraph._optional import require

EPSILON, MOMENTUM = 1e-3, 0.9
TENSORFLOW = nn.TENSORFLOW_SAME, nn.TENSORFLOW_VALID


class Inception:
    """Nodes that map images [n, size, size, 3] to logits [n, 1, 1, classes].

    `narrow` divides the numbers of filters. `optimizer` trains all data sources; pass None for inference. For
    pretrained networks, `weights(i, shape)` returns the i-th convolution's weights (height, width, in, out), and
    `norms(i, channels)` returns its (beta, mean, variance); if these functions are None, all are initialized.
    """

    def __init__(self, classes=10, narrow=1, optimizer=None, weights=None, norms=None, size=75, seed=0):
        self.narrow, self.optimizer, self.weights, self.norms, self.seed = narrow, optimizer, weights, norms, seed
        self.count = 0
        self.images = nn.ImageNode("images")
        x, channels = self.mixed(*self.stem(self.images))
        x = nn.ReductionSpatialMeanNode(x, label="pool").result_image
        source = self.source(1, 1, channels, classes, biases=True)
        self.logits = nn.FullyConnectedNode(x, source, label="logits").result_image

    def source(self, height, width, inputs, outputs, stride=1, biases=False):
        """Create the data source of the next convolution."""
        descriptor = nn.ConvolutionDescriptor(
            width, height, inputs, outputs, stride_in_pixels_x=stride, stride_in_pixels_y=stride
        )
        weights, seed = None, 1000 * self.seed + self.count
        if self.weights:
            weights = self.weights(self.count, (height, width, inputs, outputs)).transpose(3, 0, 1, 2).copy()
        bias_terms = None if biases else False
        return nn.TrainableConvolution(
            descriptor, weights, bias_terms, optimizer=self.optimizer, label=f"conv{self.count}", seed=seed
        )

    def conv(self, x, channels, outputs, height, width, stride=1, valid=False):
        """Add convolution, batch normalization, and ReLU; return the image node and its number of channels."""
        outputs = max(4, outputs // self.narrow // 4 * 4)  # concatenation needs multiples of four
        source = self.source(height, width, channels, outputs, stride)
        policy = TENSORFLOW[valid]
        x = nn.ConvolutionNode(x, source, padding_policy=policy).result_image
        beta, mean, variance = self.norms(self.count, outputs) if self.norms else (None, None, None)
        norm = nn.TrainableNormalization(
            outputs,
            beta=beta,
            mean=mean,
            variance=variance,
            epsilon=EPSILON,
            momentum=MOMENTUM,
            optimizer=self.optimizer,
            label=f"norm{self.count}",
        )
        self.count += 1
        x = nn.BatchNormalizationNode(x, norm).result_image
        return nn.NeuronReLUNode(x).result_image, outputs

    def chain(self, x, channels, *layers):
        """Add a sequence of convolutions, each given as (outputs, height, width[, stride, valid])."""
        for layer in layers:
            x, channels = self.conv(x, channels, *layer)
        return x, channels

    def stem(self, images):
        """Add the layers before the blocks: five convolutions and two poolings."""
        x, channels = self.chain(images, 3, (32, 3, 3, 2, True), (32, 3, 3, 1, True), (64, 3, 3))
        x = self.max_pool(x)
        x, channels = self.chain(x, channels, (80, 1, 1, 1, True), (192, 3, 3, 1, True))
        return self.max_pool(x), channels

    def max_pool(self, x):
        return nn.PoolingMaxNode(x, 3, 2, padding_policy=nn.TENSORFLOW_VALID).result_image

    def pooled(self, x, channels, outputs):
        x = nn.PoolingAverageNode(x, 3, 1, padding_policy=nn.TENSORFLOW_SAME).result_image
        return self.conv(x, channels, outputs, 1, 1)

    def join(self, *branches):
        image = nn.ConcatenationNode([x for x, _ in branches]).result_image
        return image, sum(channels for _, channels in branches)

    def mixed(self, x, channels):
        """Add the eleven blocks, at 35 x 35, 17 x 17, and 8 x 8 pixels for images of 299 x 299."""
        for pool in (32, 64, 64):
            x, channels = self.join(
                self.conv(x, channels, 64, 1, 1),
                self.chain(x, channels, (48, 1, 1), (64, 5, 5)),
                self.chain(x, channels, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
                self.pooled(x, channels, pool),
            )
        x, channels = self.join(
            self.conv(x, channels, 384, 3, 3, 2, True),
            self.chain(x, channels, (64, 1, 1), (96, 3, 3), (96, 3, 3, 2, True)),
            (self.max_pool(x), channels),
        )
        for n in (128, 160, 160, 192):
            x, channels = self.join(
                self.conv(x, channels, 192, 1, 1),
                self.chain(x, channels, (n, 1, 1), (n, 1, 7), (192, 7, 1)),
                self.chain(x, channels, (n, 1, 1), (n, 7, 1), (n, 1, 7), (n, 7, 1), (192, 1, 7)),
                self.pooled(x, channels, 192),
            )
        x, channels = self.join(
            self.chain(x, channels, (192, 1, 1), (320, 3, 3, 2, True)),
            self.chain(x, channels, (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3, 2, True)),
            (self.max_pool(x), channels),
        )
        for _ in range(2):
            one = self.conv(x, channels, 320, 1, 1)
            three = self.fork(*self.conv(x, channels, 384, 1, 1))
            double = self.fork(*self.chain(x, channels, (448, 1, 1), (384, 3, 3)))
            x, channels = self.join(one, three, double, self.pooled(x, channels, 192))
        return x, channels

    def fork(self, x, channels):
        return self.join(self.conv(x, channels, 384, 1, 3), self.conv(x, channels, 384, 3, 1))


def enlarged(images: np.ndarray, size: int) -> np.ndarray:
    """Enlarge [n, 8, 8] to [n, size, size, 3] by repeating pixels, with values from -1 to 1."""
    index = np.arange(size) * images.shape[1] // size
    large = images[:, index][:, :, index] * np.float32(2) - np.float32(1)
    return np.repeat(large[..., None], 3, axis=3).astype(np.float32)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--narrow", type=int, default=4, help="divisor of the numbers of filters; 1: full network")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args(arguments)
    digits = require("sklearn.datasets", "demo", "the digits").load_digits()
    images, labels = digits.images.astype(np.float32) / 16, np.eye(10, dtype=np.float32)[digits.target]
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order]

    net = Inception(narrow=options.narrow, optimizer=nn.Adam(2e-3), seed=options.seed)
    loss = nn.LossNode(net.logits, nn.LossDescriptor("softmax_cross_entropy", weight=1 / options.batch), label="loss")
    ends = loss.training_graph(None)
    graph = nn.NNGraph(None, [node.result_image for node in ends], [False] * len(ends))
    queue = mg.CommandQueue(graph.device)
    print(f"Network {net.count} convolutions, {graph.filter_count} filters including gradients")

    losses, start = [], time.perf_counter()
    for step in require("tqdm.auto", "demo", "the progress bar").trange(options.steps, unit="step"):
        chosen = np.arange(step * options.batch, (step + 1) * options.batch) % 1500
        batch = nn.LossLabelsBatch(labels[chosen])
        buffer = queue.command_buffer()
        graph.encode_batch(buffer, [enlarged(images[chosen], 75)], [batch])
        buffer.commit()
        buffer.wait_until_completed()
        losses.append(float(batch.losses.numpy().sum()))
    seconds = time.perf_counter() - start
    print(f"Trained {options.steps} steps of batch {options.batch} in {seconds:.1f} s, including compilation")
    print(f"Loss    {losses[0]:.4f} at first, {np.mean(losses[-5:]):.4f} in the last five steps")

    inference = nn.NNGraph(None, nn.SoftMaxNode(net.logits).result_image)
    test = inference(enlarged(images[1500:], 75)).numpy().reshape(-1, 10)
    accuracy = float((test.argmax(1) == labels[1500:].argmax(1)).mean())
    print(f"Test    accuracy {100 * accuracy:.2f}% on {len(test)} digits, with moving averages")
    options.output.mkdir(parents=True, exist_ok=True)
    draw(options.output / "inception.png", losses, images[1500:1516], test[:16].argmax(1), labels[1500:1516].argmax(1))


def draw(path, losses, images, predicted, expected):
    figure = require("matplotlib.figure", "demo", "the picture").Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(losses, color="tab:blue")
    left.set(xlabel="step", ylabel="loss of the batch", title="InceptionV3 as nodes", ylim=(0, None))
    framed = np.pad(images, ((0, 0), (2, 2), (4, 2)))
    right.imshow(framed.reshape(4, 4, 12, 14).transpose(0, 2, 1, 3).reshape(48, 56), cmap="gray_r")
    for i, digit in enumerate(predicted):
        color = "tab:green" if digit == expected[i] else "tab:red"
        right.text(i % 4 * 14 + 1, i // 4 * 12 + 7, str(digit), color=color, weight="bold")
    right.set(title="test digits and predictions, wrong ones in red", xticks=[], yticks=[])
    figure.savefig(path, dpi=110)
    print(f"Wrote   {path}")


if __name__ == "__main__":
    main()
