"""Makes inception.json: what Keras's InceptionV3 says of two images, which examples/inception.py must repeat.

Weights, statistics and images come from numpy by a seed, so that only the results are stored: the test,
tests/examples/test_inception.py, takes them from here and needs no Keras.
Run with tensorflow-cpu 2.21 and Keras 3.15: python tests/data/make_inception.py
"""

import json
import math
from pathlib import Path

import numpy as np

STORED = Path(__file__).with_name("inception.json")
SIZE, CLASSES = 107, 10


def weights(i: int, shape: tuple[int, ...]) -> np.ndarray:
    """Of the i-th convolution, (height, width, in, out), or of the dense layer behind them."""
    drawn = np.random.default_rng(1000 + i).standard_normal(shape, np.float32)
    return drawn * np.float32(math.sqrt(2 / math.prod(shape[:-1])))


def norms(i: int, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Beta, moving mean and moving variance behind the i-th convolution."""
    rng = np.random.default_rng(2000 + i)
    beta, mean = (np.float32(0.1) * rng.standard_normal(channels, np.float32) for _ in range(2))
    return beta, mean, np.float32(0.5) + rng.random(channels, np.float32)


def images() -> np.ndarray:
    """Two of them, from -1 to 1."""
    return np.random.default_rng(3).random((2, SIZE, SIZE, 3), np.float32) * np.float32(2) - np.float32(1)


def main() -> None:
    import keras

    model = keras.applications.InceptionV3(
        weights=None, classes=CLASSES, input_shape=(SIZE, SIZE, 3), classifier_activation=None
    )
    made = dict.fromkeys(("Conv2D", "BatchNormalization"), 0)
    numbered = sorted(  # Keras names layers in the order in which they are made, and lists them by depth
        (layer for layer in model.layers if type(layer).__name__ in made),
        key=lambda layer: (
            int(("0" + layer.name).rpartition("_")[2]) if layer.name[-1].isdigit() and "_" in layer.name else 0
        ),
    )
    for layer in numbered:
        kind = type(layer).__name__
        i = made[kind]
        made[kind] += 1
        if kind == "Conv2D":
            layer.set_weights([weights(i, tuple(layer.kernel.shape))])
        else:
            layer.set_weights(list(norms(i, layer.beta.shape[0])))
    dense = model.layers[-1]
    dense.set_weights([weights(made["Conv2D"], tuple(dense.kernel.shape)), np.zeros(CLASSES, np.float32)])
    logits = model.predict(images(), verbose=0)
    stored = {"keras": keras.__version__, "convolutions": made["Conv2D"], "logits": logits.tolist()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    print(logits)


if __name__ == "__main__":
    main()
