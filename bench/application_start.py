"""How soon an application has its first result: a C program with a LeNet, from opening the package to the scores.

Each sample is a process of its own, behind one that has brought the files into memory. Beside it the whole of the
process, loading the library included, and ONNX Runtime's session and first run of the same network from an ONNX file,
in a process that has imported it. A session in C++ does what Python's does.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import mpsgraph as mg
import numpy as np
from measuring import BENCH
from measuring.machine import Patience
from measuring.options import Options, main, progress
from measuring.report import OURS, Row, Spread
from measuring.sides import SideFailed, python_of

TITLE = "a LeNet in an application, from opening its file to the first result"
WHOLE = "a LeNet in an application, the whole process"
LIMIT = 30.0  # ms
SAME = 1e-4  # of the sums of the scores
PEER = """
import sys, time
import numpy as np
import onnxruntime as ort
pixels = (np.arange(784) % 7 / 7).astype(np.float32).reshape(1, 28, 28, 1)
begin = time.perf_counter()
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
scores = session.run(None, {session.get_inputs()[0].name: pixels})[0]
print(1e3 * (time.perf_counter() - begin), scores.sum(), ort.__version__)
"""

Command = Sequence[str | Path]


def lenet() -> mg.nn.Sequential:
    """LeCun et al., 1998, with ReLU and maxima, as everybody trains it now."""
    nn = mg.nn
    return nn.Sequential(
        *(nn.Conv2d(6, 5, padding="TF_SAME"), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(120), nn.ReLU(), nn.Linear(84), nn.ReLU(), nn.Linear(10)),
    )


def write_files(folder: Path) -> tuple[Path, Path]:
    """The network as a package and as an ONNX file."""
    trainer = mg.Trainer(lenet())
    trainer.predict(np.zeros((1, 28, 28, 1), np.float32))
    model = trainer._model()
    model.save(folder / "lenet.mpsgraph")
    mg.onnx.export(model, folder / "lenet.onnx")
    return folder / "lenet.mpsgraph", folder / "lenet.onnx"


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


def measure(options: Options) -> list[Row]:
    if not re.search(options.workloads, TITLE):
        return []
    rows, patience = [], Patience(options.patience)
    with progress("application start") as say, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        package, onnx_file = write_files(folder)
        commands: dict[tuple[str, str], Command] = {(OURS, "C"): (application(folder), package)}
        peer = python_of("ONNX Runtime") if options.peers else None
        if peer and re.search(options.modes, "ONNX Runtime session"):
            (folder / "peer.py").write_text(PEER)
            commands["ONNX Runtime", "session"] = (peer, folder / "peer.py", onnx_file)
        sums = {side: once(command)[2] for side, command in commands.items()}  # files come into memory, too
        if any(abs(total - sums[OURS, "C"]) > SAME for total in sums.values()):
            raise SideFailed(f"the sides compute different scores: {sums}")
        samples: dict[tuple[str, str], list[tuple[float, float, float, str]]] = {side: [] for side in commands}
        for number in range(options.rounds):
            for side, command in commands.items():  # in turns
                say(f"{side[0]}, turn {number + 1}")
                samples[side].append(patience.undisturbed(partial(once, command))[0])
        spreads = {side: Spread.of([sample[0] for sample in found]) for side, found in samples.items()}
        ours = spreads[OURS, "C"]
        for (name, mode), spread in spreads.items():
            ratio = None if name == OURS else Spread.of([ours.median / spread.median])
            limit = LIMIT if name == OURS else None
            version = samples[name, mode][0][3]
            rows.append(Row("application start", TITLE, "ms", name, mode, spread, ratio, limit=limit, version=version))
        whole = Spread.of([sample[1] for sample in samples[OURS, "C"]])
        rows.append(Row("application start", WHOLE, "ms", OURS, "C", whole, version=mg.__version__))
    return rows


if __name__ == "__main__":
    main(measure)
