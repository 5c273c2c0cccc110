"""Write the application's resources: the classifier that `make demo` trained, and scanned digits.

    make demo
    python swift/Examples/DrawADigit/make_resources.py [demo-output/digits.mpsgraph]

With --untrained, the classifier has taken a single step, so that the application itself trains it.
"""

import shutil
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
from mpsgraph.demo.digits import classifier

RESOURCES = Path(__file__).resolve().parent / "Resources"
TRAINED = Path(__file__).resolve().parents[3] / "demo-output" / "digits.mpsgraph"


def main(arguments: list[str]) -> None:
    RESOURCES.mkdir(exist_ok=True)
    (images, labels), _ = mg.data.digits()
    package = RESOURCES / "digits.mpsgraph"
    shutil.rmtree(package, ignore_errors=True)
    if arguments == ["--untrained"]:
        optimizer = mg.optim.SGD(0.05, momentum=0.9)
        trainer = mg.Trainer(classifier(), loss="cross_entropy", optimizer=optimizer, metrics=["accuracy"], seed=0)
        trainer.train_step(images[:40], labels[:40])  # the first step builds the state that is saved
        mg.save(package, trainer)
    else:
        trained = Path(arguments[0]) if arguments else TRAINED
        if not trained.is_dir():
            sys.exit(f"there is no package {trained}: run make demo first, or pass --untrained")
        shutil.copytree(trained, package)
    (RESOURCES / "digits.images").write_bytes(np.uint8(np.rint(images * 255)).tobytes())
    (RESOURCES / "digits.labels").write_bytes(np.uint8(labels).tobytes())
    print(f"wrote {len(labels)} digits and the classifier to {RESOURCES}")


if __name__ == "__main__":
    main(sys.argv[1:])
