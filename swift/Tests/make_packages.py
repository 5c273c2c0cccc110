"""Write Tests/MpsgraphTests/Packages: packages for the Swift tests, and the expected results.

    python swift/Tests/make_packages.py

classifier.mpsgraph is a model for inference. training.mpsgraph is a trainer of the same network with dropout, Adam, and
a schedule, saved after three steps. expected.json holds a batch, the model's outputs, and the losses of ten more steps.
"""

import json
import shutil
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

PACKAGES = Path(__file__).resolve().parent / "MpsgraphTests" / "Packages"
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


if __name__ == "__main__":
    main()
