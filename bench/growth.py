"""How mpsgraph's cost grows: step time with the batch size, and memory with the number of distinct batch sizes.

W1's step time for batches of 8 to 512 should lie on a line: a fixed cost for the weights and a cost per sample. Each
new batch size is compiled separately, but memory after 1,000 sizes should not exceed memory after the first 100,
because the executable cache is bounded. compile_time.py measures compile time by the number of operations.
"""

import contextlib
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import w1_digits
import w6_mlp
import workloads as sizes
from measuring.compare import Contender, take_turns
from measuring.options import Options, main, progress
from measuring.protocol import Step
from measuring.report import OURS, Row, Spread
from measuring.sides import Running, ours

BATCHES = (8, 16, 32, 64, 128, 256, 512)
OFF_LINE = 0.1  # Tolerated relative deviation of a step's time from the line.
DISTINCT, FIRST = 1000, 100
FLAT = 1.1  # Tolerated ratio of the memory after all sizes to the memory after the first ones.
TIME, MEMORY = "W1, training step by batch size", "W6, peak memory by number of batch sizes"


def step_of(batch: int) -> Step:
    """Return W1's training step with the given batch size."""
    trainer = w1_digits.training()
    rng = np.random.default_rng(0)
    images = rng.standard_normal((batch, sizes.W1_IMAGE, sizes.W1_IMAGE, 1), np.float32)
    labels = rng.integers(sizes.CLASSES, size=batch, dtype=np.int32)
    return lambda: float(trainer.train_step(images, labels))


def many_sizes() -> Step:
    """Return a W6 step that uses a new batch size on every call: 1 to DISTINCT, shuffled."""
    trainer, rng = w6_mlp.training(), np.random.default_rng(0)
    batches = iter(rng.permutation(DISTINCT) + 1)

    def step() -> float:
        batch = next(batches)
        inputs = rng.standard_normal((batch, sizes.W6_SIZES[0]), np.float32)
        return float(trainer.train_step(inputs, rng.integers(sizes.CLASSES, size=batch, dtype=np.int32)))

    return step


BUILDERS: dict[str, Callable[[], Step]] = {
    **{str(batch): partial(step_of, batch) for batch in BATCHES},
    "sizes": many_sizes,
}


def off_line(batches: tuple[int, ...], times: list[float]) -> float:
    """Return the largest relative deviation from the best-fitting line."""
    weights = 1 / np.array(times)
    columns = np.stack([np.ones(len(batches)), np.array(batches)], 1)
    line, *_ = np.linalg.lstsq(columns * weights[:, None], np.ones(len(batches)), rcond=None)
    return float(np.abs(columns @ line * weights - 1).max())


def by_batch(options: Options) -> list[Row]:
    """Measure the milliseconds for each batch size and their deviation from a line."""
    with contextlib.ExitStack() as stack, progress("growth") as say:
        contenders = []
        for batch in BATCHES:
            say(f"batch {batch}")
            contenders.append(Contender(stack.enter_context(Running(ours(__file__, str(batch))))))
            contenders[-1].prepare(options.turn_seconds)
        take_turns(contenders, options, say)
    spreads = [Spread.of([1e3 * second for second in contender.seconds()]) for contender in contenders]
    rows = [
        Row("growth", TIME, "ms", OURS, f"batch {batch}", spread)
        for batch, spread in zip(BATCHES, spreads, strict=True)
    ]
    deviation = Spread.of([off_line(BATCHES, [spread.median for spread in spreads])])
    return [Row("growth", TIME, "", OURS, "largest deviation from a line", deviation, limit=OFF_LINE), *rows]


def by_sizes(options: Options) -> list[Row]:
    """Measure the memory in MB after the first batch sizes and after all of them."""
    with progress("growth") as say, Running(ours(__file__, "sizes")) as running:
        running.setup()
        megabytes = []
        for count in (FIRST, DISTINCT - FIRST):
            say(f"{count} batch sizes")
            running.steps(count)
            megabytes.append(running.peak_memory())
    growth = Spread.of([megabytes[1] / megabytes[0]])
    return [
        Row("growth", MEMORY, "", OURS, f"after {DISTINCT} / after {FIRST}", growth, limit=FLAT),
        Row("growth", MEMORY, "MB", OURS, f"after {FIRST}", Spread.of([megabytes[0]])),
        Row("growth", MEMORY, "MB", OURS, f"after {DISTINCT}", Spread.of([megabytes[1]])),
    ]


def measure(options: Options) -> list[Row]:
    rows = []
    for title, part in ((TIME, by_batch), (MEMORY, by_sizes)):
        if re.search(options.workloads, title):
            rows += part(options)
    return rows


if __name__ == "__main__":
    main(measure, BUILDERS)
