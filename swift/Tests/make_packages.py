"""Write Tests/MpsgraphTests/Packages: packages for the Swift tests, and the expected results.

    python swift/Tests/make_packages.py

DrawADigitTests/Digits has the resources of the example application with a small classifier and few scanned digits.
classifier.mpsgraph is a model for inference. training.mpsgraph is a trainer of the same network with dropout, Adam, and
a schedule, saved after three steps. expected.json holds a batch, the model's outputs, and the losses of ten more steps.
"""

import json
import math
import shutil
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

TESTS = Path(__file__).resolve().parent
PACKAGES, DIGITS = TESTS / "MpsgraphTests" / "Packages", TESTS / "DrawADigitTests" / "Digits"
STEPS = 10


def classifier() -> nn.Module:
    return nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(3))


def main() -> None:
    shutil.rmtree(PACKAGES, ignore_errors=True)
    PACKAGES.mkdir()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 4)).astype(np.float32)
    labels = rng.integers(3, size=12).astype(np.int32)

    optimizer = mg.optim.Adam(mg.optim.CosineRate(0.05, steps=50))
    trainer = mg.Trainer(classifier(), loss="cross_entropy", optimizer=optimizer, metrics=["accuracy"], seed=1)
    for _ in range(3):
        trainer.train_step(x, labels)
    mg.save(PACKAGES / "training.mpsgraph", trainer)

    g = mg.Graph()
    source = g.placeholder((-1, 4), name="x")
    weights = [np.float32(np.round(rng.normal(size=shape), 3)) for shape in ((4, 8), (8,), (8, 3))]
    named = zip(("w1", "b1", "w2"), weights, strict=True)
    first, bias, second = (g.variable(value, name=name) for name, value in named)
    hidden = g.relu(g.matrix_multiplication(source, first) + bias)
    scores = g.matrix_multiplication(hidden, second)
    mg.save(PACKAGES / "classifier.mpsgraph", g, [source], {"scores": scores})

    expected = {
        "x": x.ravel().tolist(),
        "labels": labels.tolist(),
        "scores": g.run({source: x}, [scores])[scores].numpy().ravel().tolist(),
        "w2": weights[2].ravel().tolist(),
        "losses": [float(trainer.train_step(x, labels).loss) for _ in range(STEPS)],
        "predicted": np.asarray(trainer.predict(x)).ravel().tolist(),
    }
    (PACKAGES / "expected.json").write_text(json.dumps(expected) + "\n")
    digits()
    strokes()


def digits() -> None:
    """Write the resources of the application: a classifier after 100 steps on digits 0 to 8, which does not know 9."""
    shutil.rmtree(DIGITS, ignore_errors=True)
    DIGITS.mkdir(parents=True)
    (images, labels), _ = mg.data.digits()
    images, labels = images[labels < 9][:400], labels[labels < 9][:400]
    optimizer = mg.optim.SGD(0.05, momentum=0.9)
    model = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(10))
    trainer = mg.Trainer(model, loss="cross_entropy", optimizer=optimizer, metrics=["accuracy"], seed=0)
    for step in range(100):
        batch = slice(40 * (step % 10), 40 * (step % 10) + 40)
        trainer.train_step(images[batch], labels[batch])
    mg.save(DIGITS / "digits.mpsgraph", trainer)
    (DIGITS / "digits.images").write_bytes(np.uint8(np.rint(images[:100] * 255)).tobytes())
    (DIGITS / "digits.labels").write_bytes(np.uint8(labels[:100]).tobytes())


def strokes() -> None:
    """Write the script of the terminal program: drawings of 0, 1, 7, and twice 9 in a square of 280 pixels."""

    def line(*points: tuple[float, float]) -> list[dict[str, float]]:
        return [{"x": x, "y": y} for x, y in points]

    def oval(x: float, y: float, width: float, height: float) -> list[dict[str, float]]:
        turns = [2 * math.pi * i / 16 for i in range(17)]
        return line(*((round(x + width * math.sin(a), 1), round(y - height * math.cos(a), 1)) for a in turns))

    drawings = [
        (0, [oval(140, 140, 60, 90)]),
        (1, [line((110, 80), (140, 50), (140, 230))]),
        (7, [line((80, 60), (200, 60), (120, 230))]),
        (9, [oval(140, 95, 45, 45), line((185, 95), (180, 230))]),
        (9, [oval(130, 100, 50, 40), line((180, 100), (150, 225))]),
    ]
    script = [{"digit": digit, "drawing": {"side": 280, "strokes": drawn}} for digit, drawn in drawings]
    (DIGITS.parent / "strokes.json").write_text(json.dumps(script) + "\n")


if __name__ == "__main__":
    main()
