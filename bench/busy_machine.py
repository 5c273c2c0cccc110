"""Steps beside other busy processes: with two threads, and with one, which nothing keeps waiting; PyTorch beside them.

Small networks suffer most: a loop that waits for a thread without a processor waits for milliseconds, in every kernel.
A figure is the mean of a turn's steps, because what hurts is seldom and long; the ratio is to one thread beside the
same processes, in the same round. The limit is 1.3 of that.
"""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import mpsgraph as mg
import numpy as np
import w1_digits
import w6_mlp
from measuring.options import Options, main, progress
from measuring.protocol import Step
from measuring.report import Row, Spread
from measuring.sides import Running, Side, ours, peer

BUSY = (0, 1, 2)  # processes that compute without an end
LIMIT = 1.3
RNG = np.random.default_rng(0)

# Kernel, expanded and final channels, stride, whether the activation is hardswish: MobileNetV3 small without its
# squeeze-and-excite blocks. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244, table 2.
MOBILE = (
    (3, 16, 16, 2, False),
    (3, 72, 24, 2, False),
    (3, 88, 24, 1, False),
    (5, 96, 40, 2, True),
    (5, 240, 40, 1, True),
    (5, 240, 40, 1, True),
    (5, 120, 48, 1, True),
    (5, 144, 48, 1, True),
    (5, 288, 96, 2, True),
    (5, 576, 96, 1, True),
    (5, 576, 96, 1, True),
)
WORDS, WIDTH, HEADS, LAYERS = 128, 256, 4, 4


def tabular() -> Step:
    nn = mg.nn
    model = nn.Sequential(nn.Linear(128), nn.ReLU(), nn.Linear(64), nn.ReLU(), nn.Linear(2))
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(1e-3), metrics=())
    x, y = RNG.standard_normal((32, 32), np.float32), RNG.integers(2, size=32, dtype=np.int32)
    return lambda: float(trainer.train_step(x, y))


def inference(network: mg.nn.Module, shape: tuple[int, ...]) -> Step:
    g = mg.Graph()
    x = g.placeholder((-1, *shape[1:]), name="x")
    model = mg.Model(g, {"x": x}, {"y": network.eval()(x)}).optimize_for_inference()
    fed = RNG.standard_normal(shape, np.float32)
    executable = model.graph.compile({model.inputs["x"]: fed}, [model.outputs["y"]])

    def step() -> None:
        executable.run([fed])

    return step


def mobile() -> Step:
    nn = mg.nn
    how: dict[str, Any] = {"padding": "TF_SAME", "bias": False}
    layers: list[Any]
    layers = [nn.Conv2d(16, 3, strides=2, **how), nn.BatchNorm(), nn.Hardswish()]
    for kernel, expanded, channels, stride, hard in MOBILE:
        activation = nn.Hardswish if hard else nn.ReLU
        layers += [nn.Conv2d(expanded, 1, **how), nn.BatchNorm(), activation()]
        layers += [nn.Conv2d(expanded, kernel, strides=stride, groups=expanded, **how), nn.BatchNorm(), activation()]
        layers += [nn.Conv2d(channels, 1, **how), nn.BatchNorm()]
    layers += [nn.Conv2d(576, 1, **how), nn.BatchNorm(), nn.Hardswish(), nn.GlobalAveragePooling2d(), nn.Linear(1000)]
    return inference(nn.Sequential(*layers), (1, 224, 224, 3))


def text() -> Step:
    layers = [mg.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH) for _ in range(LAYERS)]
    return inference(mg.nn.Sequential(*layers), (1, WORDS, WIDTH))


def alone(build: Callable[[], Step]) -> Step:
    mg.set_num_threads(1)  # before anything is compiled, so that kernels are not cut at all
    return build()


NETWORKS: dict[str, Callable[[], Step]] = {
    "tabular": tabular,
    "digits": w1_digits.trainer,
    "perceptron": w6_mlp.trainer,
    "mobile": mobile,
    "text": text,
}
BUILDERS = NETWORKS | {f"{name}, 1 thread": partial(alone, build) for name, build in NETWORKS.items()}
TITLES = {
    "tabular": "perceptron 32-128-64-2 with Adam, a training step at batch 32",
    "digits": "W1, digit network, a training step at batch 64",
    "perceptron": "W6, perceptron 784-512-512-10 with Adam, a training step at batch 32",
    "mobile": "MobileNetV3 small without squeeze-and-excite, one image",
    "text": f"BERT of {LAYERS} layers of {WIDTH}, one text of {WORDS} words",
}
PEERS = {"digits": "W1", "perceptron": "W6"}


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def sides(name: str, options: Options) -> list[Side]:
    """One thread first, which the ratios are to."""
    one = ours("busy_machine.py", f"{name}, 1 thread", "1 thread")
    both = ours("busy_machine.py", name, "2 threads")
    return [one, both, *(peer("PyTorch", PEERS[name], ("eager",)) if options.peers and name in PEERS else [])]


def measure(options: Options) -> list[Row]:
    rows = []
    with progress("busy machine") as say:
        for name, title in TITLES.items():
            with contextlib.ExitStack() as stack:
                running = [stack.enter_context(Running(side)) for side in sides(name, options)]
                for side in running:
                    say(f"{name}: {side.side.label}")
                    side.setup()
                    side.steps(40)
                for count in BUSY:
                    with busy(count):
                        rows += beside(running, f"{title}, beside {count} busy processes", options)
    return rows


def beside(running: list[Running], title: str, options: Options) -> list[Row]:
    counts = [max(3, int(options.turn_seconds / statistics.median(side.steps(5)[0]))) for side in running]
    means: list[list[float]] = [[] for _ in running]
    for _ in range(options.rounds):
        for side, count, seen in zip(running, counts, means, strict=True):
            seen.append(1e6 * statistics.fmean(side.steps(count)[0]))
    one = means[0]
    return [
        Row(
            "busy",
            title,
            "us",
            side.side.name,
            side.side.mode,
            Spread.of(seen),
            ratio=Spread.of([a / b for a, b in zip(seen, one, strict=True)]) if seen is not one else None,
            target=LIMIT if side.side.mode == "2 threads" else None,
            version=side.version,
        )
        for side, seen in zip(running, means, strict=True)
    ]


if __name__ == "__main__":
    main(measure, BUILDERS)
