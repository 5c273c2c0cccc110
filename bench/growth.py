"""How our own cost grows: a step's time with the batch, and memory with the number of distinct batch sizes. Ours alone.

W1's step from batch 8 to 512 should lie on a line: a fixed cost, which is that of the weights, and one a sample. After
1,000 batch sizes, each compiled for itself, no more memory should be taken than after the first 100: the cache of
executables is bounded. Compile time by the number of operations is in compile_time.py.
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
OFF_LINE = 0.1  # the share of a step's time by which it may lie off the line
DISTINCT, FIRST = 1000, 100
FLAT = 1.1  # memory after all sizes, of that after the first
TIME, MEMORY = "W1, training step by batch size", "W6, peak memory by number of batch sizes"


def step_of(batch: int) -> Step:
    """W1's training step at another batch."""
    trainer = w1_digits.training()
    rng = np.random.default_rng(0)
    images = rng.standard_normal((batch, sizes.W1_IMAGE, sizes.W1_IMAGE, 1), np.float32)
    labels = rng.integers(sizes.CLASSES, size=batch, dtype=np.int32)
    return lambda: float(trainer.train_step(images, labels))


def many_sizes() -> Step:
    """A step of W6 at a batch size that is new to the trainer, from 1 to DISTINCT in no order."""
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
    """The largest deviation from the line that fits best, both as shares of the time."""
    weights = 1 / np.array(times)
    columns = np.stack([np.ones(len(batches)), np.array(batches)], 1)
    line, *_ = np.linalg.lstsq(columns * weights[:, None], np.ones(len(batches)), rcond=None)
    return float(np.abs(columns @ line * weights - 1).max())


def by_batch(options: Options) -> list[Row]:
    """Milliseconds by batch, and how far they lie off a line."""
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
    """MB after the first sizes and after all."""
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
