"""Times of single calls on small arrays: operations of mpsgraph.numpy, compared with numpy's, and of a small model.

Each call is repeated in short batches, of which the median and the minimum are printed in microseconds. The goals are
15 us for an operation and 20 us for `predict` of one row.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
from mpsgraph import nn

BATCHES, CALLS = 200, 20


def calls() -> dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]:
    """Return, for each name, our call and numpy's."""
    x, n = mnp.ones((4, 4)), np.ones((4, 4), np.float32)
    rng = np.random.default_rng(0)
    trainer = mg.Trainer(nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(4)), loss="mse", optimizer="sgd")
    trainer.fit(rng.random((64, 8), np.float32), rng.random((64, 4), np.float32), epochs=1, progress=False)
    row = rng.random((1, 8), np.float32)
    return {
        "x + x": (lambda: x + x, lambda: n + n),
        "x * 2.5": (lambda: x * 2.5, lambda: n * 2.5),
        "exp(x)": (lambda: mnp.exp(x), lambda: np.exp(n)),
        "where(x > 0, x, 0)": (lambda: mnp.where(x > 0, x, 0), lambda: np.where(n > 0, n, 0)),
        "x.sum(axis=1)": (lambda: x.sum(axis=1), lambda: n.sum(axis=1)),
        "x @ x": (lambda: x @ x, lambda: n @ n),
        "x[1:, 0]": (lambda: x[1:, 0], lambda: n[1:, 0]),
        "x.reshape(2, 8)": (lambda: x.reshape(2, 8), lambda: n.reshape(2, 8)),
        "model(row)": (lambda: trainer.model(row), None),
        "predict(row)": (lambda: trainer.predict(row), None),
    }


def microseconds(call: Callable[[], Any]) -> list[float]:
    call()
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS * 1e6)
    return times


def main() -> None:
    print(f"{'call':20s} {'median':>8s} {'minimum':>8s} {'numpy':>8s}   us")
    for name, (ours, theirs) in calls().items():
        times = microseconds(ours)
        peer = f"{statistics.median(microseconds(theirs)):8.2f}" if theirs else f"{'':8s}"
        print(f"{name:20s} {statistics.median(times):8.2f} {min(times):8.2f} {peer}")


if __name__ == "__main__":
    main()
