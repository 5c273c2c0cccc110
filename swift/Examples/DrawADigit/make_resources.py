"""Write the application's resources: the classifier as a trainable package, and scanned digits.

python swift/Examples/DrawADigit/make_resources.py
"""

from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph.demo.digits import classifier

RESOURCES = Path(__file__).resolve().parent / "Resources"


def main() -> None:
    RESOURCES.mkdir(exist_ok=True)
    (images, labels), _ = mg.data.digits()
    optimizer = mg.optim.SGD(0.05, momentum=0.9)
    trainer = mg.Trainer(classifier(), loss="cross_entropy", optimizer=optimizer, metrics=["accuracy"], seed=0)
    trainer.train_step(images[:40], labels[:40])  # the first step builds the state that is saved
    mg.save(RESOURCES / "digits.mpsgraph", trainer)
    (RESOURCES / "digits.images").write_bytes(np.uint8(np.rint(images * 255)).tobytes())
    (RESOURCES / "digits.labels").write_bytes(np.uint8(labels).tobytes())
    print(f"wrote {len(labels)} digits and the classifier to {RESOURCES}")


if __name__ == "__main__":
    main()
