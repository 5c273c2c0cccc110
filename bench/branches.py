"""What `if_` on a flag costs: ResNet-50 with its 53 batch normalizations behind `if_`, beside graphs without `if_`.

Training and inference, batch 64, in one process and in turns; the ratio is that of each turn. Ours alone: a talk about
MPSGraph warns of a "conditional performance penalty". The network is that of examples/resnet50.py.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from measuring import BENCH
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

sys.path.insert(0, str(BENCH.parent / "examples"))
from resnet50 import CLASSES, ResNet50

BATCH = 64
PLAIN, FLAG = "without if_", "if_ on is_training"


def pairs() -> dict[str, dict[str, Callable[[], object]]]:
    """A step without and with `if_`: of training, and of inference."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((BATCH, 32, 32, 3), np.float32), rng.integers(0, CLASSES, BATCH)
    nets = {FLAG: ResNet50(), True: ResNet50(is_training=True), False: ResNet50(is_training=False)}
    return {
        "training": {PLAIN: lambda: nets[True].train_step(images, labels),
                     FLAG: lambda: nets[FLAG].train_step(images, labels)},
        "inference": {PLAIN: lambda: nets[False].evaluate(images, labels),
                      FLAG: lambda: nets[FLAG].evaluate(images, labels)},
    }  # fmt: skip


def seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)
    with progress("branches") as say:
        for what, steps in pairs().items():
            say(what)
            for step in steps.values():
                step()  # compiles
            turns, shares = [], []
            for _ in range(3 * options.rounds):
                turn, share = patience.undisturbed(lambda steps=steps: [seconds(step) for step in steps.values()])
                turns.append(turn)
                shares.append(share)
            ratio = Spread.of([flag / plain for plain, flag in turns])
            for mode, times in zip(steps, zip(*turns, strict=True), strict=True):
                value = Spread.of([1e3 * t for t in times])
                beside = ratio if mode == FLAG else None
                title = f"ResNet-50, {what}, batch {BATCH}"
                disturbed = statistics.median(shares)
                rows.append(Row("branches", title, "ms", OURS, mode, value, beside, disturbed=disturbed))
    return rows


if __name__ == "__main__":
    main(measure)
