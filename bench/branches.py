"""What `if_` on a flag costs: ResNet-50 with its 53 batch normalizations behind `if_`, beside graphs without `if_`.

Training and inference, batch 64, in one process and in turns; the ratio is that of each turn. Also with the branches
kept for the run to choose (as for who observes the passes), which is what they cost if no program is chosen by the
flag. Ours alone: a talk warns of a "conditional performance penalty". The network is that of examples/resnet50.py.
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
    """One step of training, or one inference."""
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
    """Milliseconds that each takes."""
    return [1e3 * seconds(function) for function in functions]


def measure(options: Options) -> list[Row]:
    rows, patience = [], Patience(options.patience)
    with progress("branches") as say:
        for training, turns in ((True, 3 * options.rounds), (False, 9 * options.rounds)):
            title = f"ResNet-50, {'training' if training else 'inference'}, batch {BATCH}"
            say(title)
            steps = {mode: step(mode, training) for mode in (PLAIN, CHOSEN, KEPT)}
            for function in steps.values():
                function()  # the first compiles
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
