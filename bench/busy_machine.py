"""Step times while other processes keep the processors busy: two threads against one, PyTorch, and ONNX Runtime.

A single thread never waits for another one, so it is the baseline. Small networks suffer most: a parallel loop that
waits for a descheduled thread loses milliseconds, in every kernel. Values are means over the steps of a turn, because
the delays are rare and long. The ratio compares with one thread under the same load, in the same round; its limit is
1.3.
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
import workloads as sizes
from measuring.options import Options, main, progress
from measuring.protocol import Step
from measuring.report import Row, Spread
from measuring.sides import Running, Side, ours, peer

BUSY = (0, 1, 2)  # Numbers of competing processes, which loop forever.
LIMIT = 1.3
RNG = np.random.default_rng(0)


def tabular() -> Step:
    nn = mg.nn
    inputs, first, second, classes = sizes.BUSY_TABULAR
    model = nn.Sequential(nn.Linear(first), nn.ReLU(), nn.Linear(second), nn.ReLU(), nn.Linear(classes))
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(sizes.BUSY_RATE), metrics=())
    x = RNG.standard_normal((sizes.BUSY_BATCH, inputs), np.float32)
    y = RNG.integers(classes, size=sizes.BUSY_BATCH, dtype=np.int32)
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
    layers = [nn.Conv2d(sizes.BUSY_STEM, 3, strides=2, **how), nn.BatchNorm(), nn.Hardswish()]
    for kernel, expanded, channels, stride, hard in sizes.BUSY_MOBILE:
        activation = nn.Hardswish if hard else nn.ReLU
        layers += [nn.Conv2d(expanded, 1, **how), nn.BatchNorm(), activation()]
        layers += [nn.Conv2d(expanded, kernel, strides=stride, groups=expanded, **how), nn.BatchNorm(), activation()]
        layers += [nn.Conv2d(channels, 1, **how), nn.BatchNorm()]
    layers += [nn.Conv2d(sizes.BUSY_HEAD, 1, **how), nn.BatchNorm(), nn.Hardswish()]
    layers += [nn.GlobalAveragePooling2d(), nn.Linear(sizes.BUSY_CLASSES)]
    return inference(nn.Sequential(*layers), (1, sizes.BUSY_IMAGE, sizes.BUSY_IMAGE, 3))


def text() -> Step:
    width = sizes.BUSY_WIDTH
    layers = [mg.nn.TransformerEncoderLayer(width, sizes.BUSY_HEADS, 4 * width) for _ in range(sizes.BUSY_LAYERS)]
    return inference(mg.nn.Sequential(*layers), (1, sizes.BUSY_WORDS, width))


def alone(build: Callable[[], Step]) -> Step:
    mg.set_num_threads(1)  # Set before anything is compiled, so that kernels are not split across threads.
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
    "tabular": "MLP 32-128-64-2 with Adam, training step, batch 32",
    "digits": "W1, CNN digit classifier, training step, batch 64",
    "perceptron": "W6, MLP 784-512-512-10 with Adam, training step, batch 32",
    "mobile": "MobileNetV3 small without squeeze-and-excite, one image",
    "text": f"BERT of {sizes.BUSY_LAYERS} layers of {sizes.BUSY_WIDTH}, one text of {sizes.BUSY_WORDS} words",
}
PEERS: dict[str, tuple[str, dict[str, str]]] = {
    "tabular": ("busy tabular", {"PyTorch": "eager"}),
    "digits": ("W1", {"PyTorch": "eager"}),
    "perceptron": ("W6", {"PyTorch": "eager"}),
    "mobile": ("busy mobile", {"PyTorch": "eager channels_last", "ONNX Runtime": "float32"}),
    "text": ("busy text", {"PyTorch": "eager", "ONNX Runtime": "float32"}),
}
"""For each network, its name in the peer scripts and the mode of each peer. ONNX Runtime does not train."""


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
    """Return the sides, starting with one thread, the baseline of the ratios."""
    one = ours("busy_machine.py", f"{name}, 1 thread", "1 thread")
    both = ours("busy_machine.py", name, "2 threads")
    workload, modes = PEERS[name]
    known = modes if options.peers else {}
    return [one, both, *(side for of, mode in known.items() for side in peer(of, workload, (mode,)))]


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
                        rows += beside(running, f"{title}, next to {count} busy processes", options)
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
