"""Time from opening a package to the first scores, measured in a C application.

The networks are our LeNet and ResNet-50, and a ResNet-50 imported from an ONNX file as other tools publish it
(published_resnet50.py). All are packaged after optimize_for_inference(), once as they are and once prepared for this
processor with mg.prepare. Each sample runs in a fresh process, after an earlier process has read the files into the
page cache.

For comparison, ONNX Runtime creates a session and runs the same network once, from the published file or from our ONNX
export, and from the optimized model that ONNX Runtime itself has saved. It runs in Python with onnxruntime already
imported; a C++ program would make the same calls.
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

SAME = 1e-3  # Tolerance for the sum of the scores; relative where the sum exceeds 1.
PEER = """
import sys, time
import numpy as np
import onnxruntime as ort
shape = 1, *map(int, sys.argv[3:])
pixels = (np.arange(np.prod(shape)) % 7 / 7).astype(np.float32).reshape(shape)
options = ort.SessionOptions()
if sys.argv[2] == "optimized":  # OPTIMIZE has already optimized the file
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
options.log_severity_level = 3  # do not warn that the file is specific to this processor
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""

Command = Sequence[str | Path]


def lenet() -> mg.Model:
    """Build LeNet-5 (LeCun et al., 1998) with the ReLU and max pooling that are common today."""
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
    """A network to measure: its name, how to build it, its image shape, and its time limit in milliseconds."""

    name: str
    build: Callable[[], mg.Model | bytes]  # Bytes are the content of an ONNX file from another tool.
    image: tuple[int, int, int]  # In the axis order of the file.
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
    """Compile the C program against the installed library and return its path."""
    package, program = Path(mg.__file__).parent, folder / "application"
    where = f"-I{package / 'include'}", f"-L{package / 'lib'}", f"-Wl,-rpath,{package / 'lib'}"
    source = BENCH / "application_start.c"
    subprocess.run(["cc", "-std=c11", "-O2", source, "-o", program, *where, "-lmpsgraph"], check=True)
    return program


def once(command: Command) -> tuple[float, float, float, str]:
    """Return the ms to the first result, the ms of the whole process, the sum of the scores, and the peer's version."""
    begin = time.perf_counter()
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=BENCH)
    whole = 1e3 * (time.perf_counter() - begin)
    if done.returncode:
        raise SideFailed(f"{command[0]}: {done.stderr[-500:]}")
    milliseconds, total, *version = done.stdout.split()
    return float(milliseconds), whole, float(total), (version or [mg.__version__])[0]


def sides_of(network: Network, program: Path, options: Options, folder: Path) -> dict[tuple[str, str], Command]:
    """Write the files of all sides to folder and return the command that measures each side."""
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
        pass  # Every kernel uses its weights as they are, so there is nothing to prepare.
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
    """Measure the sides in turns; return a row for each side and one for the whole process."""
    patience = Patience(options.patience)
    # This run also brings the files into the page cache.
    sums = {side: once(command)[2] for side, command in commands.items()}
    if any(abs(total - sums[OURS, "C"]) > SAME * max(1, abs(total)) for total in sums.values()):
        raise SideFailed(f"{network.name}: the sides compute different sums of scores: {sums}")
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
