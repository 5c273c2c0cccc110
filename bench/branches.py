"""Cost of branching on a flag with `if_`: ResNet-50 with its 53 batch normalizations inside `if_`, against no `if_`.

Training and inference at batch 64 run in one process, in turns, and each ratio compares two runs of the same turn. A
third mode keeps the branches until run time, as when an observer is set, and so shows the cost when the flag does not
select a specialized program. This measures only mpsgraph, to check the "conditional performance penalty" that a talk
warns about. The network comes from examples/resnet50.py.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import mpsgraph as mg
import numpy as np
from measuring import BENCH
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread

sys.path.insert(0, str(BENCH.parent / "examples"))
from resnet50 import CLASSES, ResNet50

BATCH = 64
PLAIN, CHOSEN, KEPT = "without if_", "if_ on is_training", "if_ on is_training, kept as a branch"


def step(mode: str, training: bool) -> Callable[[], object]:
    """Return a function that runs one training step or one inference."""
    rng = np.random.default_rng(0)
    net = ResNet50(is_training=training if mode == PLAIN else None)
    feeds = net.feeds(rng.random((BATCH, 32, 32, 3), np.float32), rng.integers(0, CLASSES, BATCH), training)
    options = mg.CompilationDescriptor(observe=(lambda *_: None) if mode == KEPT else None)
    types, updates = {tensor: array.shape for tensor, array in feeds.items()}, net.updates if training else []
    executable = net.graph.compile(types, [net.loss, net.probabilities], updates, options=options)
    inputs = [feeds[tensor] for tensor in executable.feeds]
    return lambda: executable.run(inputs)


def seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def in_turn(functions: list[Callable[[], object]]) -> list[float]:
    """Run each function once and return the milliseconds of each."""
    return [1e3 * seconds(function) for function in functions]


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)
    with progress("branches") as say:
        for training, turns in ((True, 3 * options.rounds), (False, 9 * options.rounds)):
            title = f"ResNet-50, {'training' if training else 'inference'}, batch {BATCH}"
            say(title)
            steps = {mode: step(mode, training) for mode in (PLAIN, CHOSEN, KEPT)}
            for function in steps.values():
                function()  # The first call compiles.
            times: dict[str, list[float]] = {mode: [] for mode in steps}
            shares = []
            for _ in range(turns):
                turn, share = patience.undisturbed(partial(in_turn, list(steps.values())))
                shares.append(share)
                for mode, milliseconds in zip(steps, turn, strict=True):
                    times[mode].append(milliseconds)
            for mode, values in times.items():
                ratio = Spread.of([own / plain for own, plain in zip(values, times[PLAIN], strict=True)])
                beside = None if mode == PLAIN else ratio
                disturbed = statistics.median(shares)
                rows.append(Row("branches", title, "ms", OURS, mode, Spread.of(values), beside, disturbed=disturbed))
    return rows


if __name__ == "__main__":
    main(measure)
