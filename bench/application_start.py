"""How soon an application has its first result: a C program with a network, from opening the package to the scores.

A LeNet and ResNet-50 of ours, and ResNet-50 from an ONNX file as others publish it (published_resnet50.py), which is
imported here; as optimize_for_inference() leaves them; the packages as they are, and prepared for this processor
(mg.prepare). Each sample is a process of its own, behind one that has brought the files into memory. Beside it ONNX
Runtime's session and first run of the same network, from that file or from our export of ours, and from what it has
itself optimized and saved of that, in a process that has imported it; a session in C++ does what Python's does.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mpsgraph as mg
from measuring import BENCH
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread
from measuring.sides import SideFailed, python_of
from published_resnet50 import published_resnet50
from w8_inference import trained_model

SAME = 1e-3  # of the sums of the scores, relative where they are large
PEER = """
import sys, time
import numpy as np
import onnxruntime as ort
shape = 1, *map(int, sys.argv[3:])
pixels = (np.arange(np.prod(shape)) % 7 / 7).astype(np.float32).reshape(shape)
options = ort.SessionOptions()
if sys.argv[2] == "optimized":  # by OPTIMIZE
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
begin = time.perf_counter()
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
scores = session.run(None, {session.get_inputs()[0].name: pixels})[0]
print(1e3 * (time.perf_counter() - begin), scores.sum(), ort.__version__)
"""
OPTIMIZE = """
import sys
import onnxruntime as ort
options = ort.SessionOptions()
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3  # the file is for this processor, as ours is
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""

Command = Sequence[str | Path]


def lenet() -> mg.Model:
    """LeCun et al., 1998, with ReLU and maxima, as everybody trains it now."""
    nn = mg.nn
    layers = nn.Sequential(
        *(nn.Conv2d(6, 5, padding="TF_SAME"), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(120), nn.ReLU(), nn.Linear(84), nn.ReLU(), nn.Linear(10)),
    )
    graph = mg.Graph()
    images = graph.placeholder((-1, 28, 28, 1), name="images")
    return mg.Model(graph, {"images": images}, {"scores": layers.eval()(images)})


@dataclass
class Network:
    """One of them: what it is called, what it comes from, the sizes of an image, the milliseconds that it may take."""

    name: str
    build: Callable[[], mg.Model | bytes]  # bytes: an ONNX file from elsewhere
    image: tuple[int, int, int]  # in the file's order of axes
    limit: float | None = None

    @property
    def title(self) -> str:
        return f"{self.name} in an application, from opening its file to the first result"


NETWORKS = (
    Network("a LeNet", lenet, (28, 28, 1), 30.0),
    Network("ResNet-50", trained_model, (32, 32, 3)),
    *(
        Network(f"a published ResNet-50, {size} x {size},", partial(published_resnet50, size), (3, size, size))
        for size in (32, 224)
    ),
)


def application(folder: Path) -> Path:
    """The C program, linked to the installed library."""
    package, program = Path(mg.__file__).parent, folder / "application"
    where = f"-I{package / 'include'}", f"-L{package / 'lib'}", f"-Wl,-rpath,{package / 'lib'}"
    source = BENCH / "application_start.c"
    subprocess.run(["cc", "-std=c11", "-O2", source, "-o", program, *where, "-lmpsgraph"], check=True)
    return program


def once(command: Command) -> tuple[float, float, float, str]:
    """Milliseconds to the first result and of the process, the sum of the scores, and the peer's version."""
    begin = time.perf_counter()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=BENCH)
    whole = 1e3 * (time.perf_counter() - begin)
    if done.returncode:
        raise SideFailed(f"{command[0]}: {done.stderr[-500:]}")
    milliseconds, total, *version = done.stdout.split()
    return float(milliseconds), whole, float(total), (version or [mg.__version__])[0]


def sides_of(network: Network, program: Path, options: Options, folder: Path) -> dict[tuple[str, str], Command]:
    """The command of each side, whose files are written here."""
    image = [str(size) for size in network.image]
    package, prepared, file = (folder / f"{network.name}.{end}" for end in ("mpsgraph", "prepared.mpsgraph", "onnx"))
    built = network.build()
    if isinstance(built, bytes):
        file.write_bytes(built)
        built = mg.onnx.load(file)
    model = built.optimize_for_inference()
    model.save(package)
    shutil.copytree(package, prepared)
    commands: dict[tuple[str, str], Command] = {(OURS, "C"): (program, package, *image)}
    try:
        mg.prepare(prepared, dict.fromkeys(model.inputs, (1, *network.image)))
        commands[OURS, "C, prepared"] = program, prepared, *image
    except mg.UnsupportedError:
        pass  # kernels that take all weights as they are
    peer = python_of("ONNX Runtime") if options.peers else None
    if peer and re.search(options.modes, "ONNX Runtime session"):
        if not file.exists():
            mg.onnx.export(model, file)
        (folder / "peer.py").write_text(PEER)
        commands["ONNX Runtime", "session"] = peer, folder / "peer.py", file, "plain", *image
        optimized = folder / f"{network.name}.optimized.onnx"
        subprocess.run([peer, "-c", OPTIMIZE, file, optimized], check=True)
        commands["ONNX Runtime", "session, optimized"] = peer, folder / "peer.py", optimized, "optimized", *image
    return commands


def rows_of(network: Network, commands: dict[tuple[str, str], Command], options: Options, say) -> list[Row]:
    """A row a side, in turns, and one of the whole process."""
    patience = Patience(options.patience)
    sums = {side: once(command)[2] for side, command in commands.items()}  # files come into memory, too
    if any(abs(total - sums[OURS, "C"]) > SAME * max(1, abs(total)) for total in sums.values()):
        raise SideFailed(f"the sides compute different scores: {sums}")
    samples: dict[tuple[str, str], list[tuple[float, float, float, str]]] = {side: [] for side in commands}
    for number in range(options.rounds):
        for side, command in commands.items():
            say(f"{network.name}, {side[0]} {side[1]}, turn {number + 1}")
            samples[side].append(patience.undisturbed(partial(once, command))[0])
    spreads = {side: Spread.of([sample[0] for sample in found]) for side, found in samples.items()}
    best = min(spread.median for (name, _), spread in spreads.items() if name == OURS)
    rows = []
    for (name, mode), spread in spreads.items():
        ratio = None if name == OURS else Spread.of([best / spread.median])
        limit = network.limit if name == OURS else None
        version = samples[name, mode][0][3]
        rows.append(
            Row("application start", network.title, "ms", name, mode, spread, ratio, limit=limit, version=version)
        )
    whole = Spread.of([sample[1] for sample in samples[OURS, "C"]])
    title = f"{network.name} in an application, the whole process"
    return [*rows, Row("application start", title, "ms", OURS, "C", whole, version=mg.__version__)]


def measure(options: Options) -> list[Row]:
    rows = []
    with progress("application start") as say, tempfile.TemporaryDirectory() as made:
        program = None
        for network in NETWORKS:
            if not re.search(options.workloads, network.title):
                continue
            program = program or application(Path(made))
            rows += rows_of(network, sides_of(network, program, options, Path(made)), options, say)
    return rows


if __name__ == "__main__":
    main(measure)
