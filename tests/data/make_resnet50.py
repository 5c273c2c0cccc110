"""Makes resnet50.json: the losses of Keras's ResNet-50 over 20 steps, which examples/resnet50.py must repeat.

The network is the one that the talk "Training DNNs on iOS with MPSGraph" writes with Keras's layers; plain stochastic
gradient descent. First weights and batches come from numpy by a seed, so that only losses are stored: the test,
tests/examples/test_resnet50.py, takes both from here and needs no Keras. The last gamma of each block begins at 0 and
the rate is 0.003: with gammas of 1 a change of 1e-7 in the weights moves the loss by 0.1 after two steps, and no two
programs agree.
Run with tensorflow-cpu 2.21 and Keras 3.15: python tests/data/make_resnet50.py
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_name("resnet50.json")
STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
CLASSES, BATCH, STEPS = 10, 16, 20
LEARNING_RATE, MOMENTUM, EPSILON = 0.003, 0.99, 1e-3


def first_weights() -> Iterator[np.ndarray]:
    """All of them as they are made: kernel (HWIO), gamma and beta of each convolution, then the dense layer's two."""
    rng = np.random.default_rng(50)

    def glorot(*shape: int) -> np.ndarray:
        limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
        return (limit * (2 * rng.random(shape, np.float32) - 1)).astype(np.float32)

    def convolution(size: int, inputs: int, outputs: int, gamma: float = 1.0) -> list[np.ndarray]:
        return [glorot(size, size, inputs, outputs), np.full(outputs, gamma, np.float32), np.zeros(outputs, np.float32)]

    yield from convolution(7, 3, 64)
    channels = 64
    for f1, f2, count, _ in STAGES:
        for i in range(count):
            yield from convolution(1, channels, f1) + convolution(3, f1, f1) + convolution(1, f1, f2, gamma=0.0)
            yield from convolution(1, channels, f2) if i == 0 else []
            channels = f2
    yield from (glorot(channels, CLASSES), np.zeros(CLASSES, np.float32))


def batches(steps: int = STEPS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images (16, 32, 32, 3) in 0..1, squares in colours of their class and random ones, and labels (16,)."""
    rng = np.random.default_rng(51)
    patterns = rng.random((CLASSES, 4, 4, 3), np.float32)
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, BATCH)
        colours = np.float32(0.7) * patterns[labels] + np.float32(0.3) * rng.random((BATCH, 4, 4, 3), np.float32)
        yield np.ascontiguousarray(colours.repeat(8, axis=1).repeat(8, axis=2)), labels


def keras_model():
    """The model, and its layers with weights as they are made."""
    from keras import Model, layers

    made = []

    def convolution(x, filters, size, stride=1, padding="valid"):
        made.append(layers.Conv2D(filters, size, strides=stride, padding=padding, use_bias=False))
        made.append(layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON))
        return made[-1](made[-2](x))

    def block(x, f1, f2, stride, changes_size):
        y = layers.ReLU()(convolution(x, f1, 1, stride))
        y = layers.ReLU()(convolution(y, f1, 3, padding="same"))
        y = convolution(y, f2, 1)
        return layers.ReLU()(layers.Add()([y, convolution(x, f2, 1, stride) if changes_size else x]))

    images = layers.Input((32, 32, 3))
    x = layers.MaxPooling2D(3, 2)(layers.ReLU()(convolution(images, 64, 7, 2)))
    for f1, f2, count, stride in STAGES:
        for i in range(count):
            x = block(x, f1, f2, stride if i == 0 else 1, i == 0)
    x = layers.Flatten()(layers.AveragePooling2D(2, padding="same")(x))
    made.append(layers.Dense(CLASSES, activation="softmax"))
    return Model(images, made[-1](x)), made


def main() -> None:
    import keras

    model, made = keras_model()
    weights = [weight for layer in made for weight in layer.trainable_weights]
    for weight, value in zip(weights, first_weights(), strict=True):
        weight.assign(value)
    model.compile(optimizer=keras.optimizers.SGD(LEARNING_RATE), loss=keras.losses.CategoricalCrossentropy())
    hot = np.eye(CLASSES, dtype=np.float32)
    losses = []
    for x, y in batches():
        model.reset_metrics()  # else it would give the mean of all losses so far
        losses.append(float(model.train_on_batch(x, hot[y])))
    model.reset_metrics()
    evaluated = float(model.test_on_batch(x, hot[y]))  # the last batch, by the moving averages
    stored = {"keras": keras.__version__, "losses": losses, "evaluated": evaluated}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
