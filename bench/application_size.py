"""Size and start of a native application that runs a LeNet or a ResNet-50, with this library and with other ones.

    python bench/application_size.py [--onnxruntime-headers DIR] [--static BUILD_DIR] [--rounds 15]

For each library, a program of a few lines opens the network's file, runs it on one image, and prints the sum of the
scores. The table has the stripped size of everything that the program needs apart from the system's libraries, the time
to the first result, and the time of the whole process. The times are the shortest of several fresh processes, in which
the libraries take turns, with the files in the page cache.

ONNX Runtime's wheel contains no headers: pass the folder with onnxruntime_c_api.h from its repository. libtorch is
that of PyTorch's wheel. Environments of the peers are found as in run.py (MPSGRAPH_BENCH_PEERS). A side whose
environment or headers are missing is left out.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpsgraph as mg
from application_start import lenet
from measuring import BENCH
from measuring.sides import python_of
from published_resnet50 import published_resnet50

PACKAGE = Path(mg.__file__).parent
SHAPES = {"LeNet": (28, 28, 1), "ResNet-50": (3, 224, 224)}
"""Shape of an image in our packages and ONNX files."""


@dataclass
class Side:
    """A library: the program linked with it, and the ending of the network's file."""

    name: str
    program: Path
    ending: str


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def ours(folder: Path, headers: Path | None) -> Side:
    link = f"-L{PACKAGE / 'lib'}", f"-Wl,-rpath,{PACKAGE / 'lib'}", "-lmpsgraph"
    run("cc", "-O2", BENCH / "application_start.c", f"-I{PACKAGE / 'include'}", *link, "-o", folder / "shared")
    return Side("mpsgraph, shared library", folder / "shared", "mpsgraph")


def ours_static(folder: Path, build: Path) -> Side:
    archive = "-Wl,--whole-archive", build / "libmpsgraph_objects.a", "-Wl,--no-whole-archive"
    link = *archive, "-lstdc++", "-lm", "-pthread", "-Wl,--gc-sections"
    run("cc", "-O2", BENCH / "application_start.c", f"-I{PACKAGE / 'include'}", *link, "-o", folder / "static")
    return Side("mpsgraph, static", folder / "static", "mpsgraph")


def onnxruntime(folder: Path, headers: Path | None) -> Side | None:
    python = python_of("ONNX Runtime")
    if python is None or headers is None:
        return None
    where = Path(run(python, "-c", "import onnxruntime; print(onnxruntime.__file__)").strip()).parent / "capi"
    (library,) = where.glob("libonnxruntime.so.*")
    (folder / "libonnxruntime.so.1").symlink_to(library)  # the name that programs ask for, which the wheel lacks
    link = library, f"-Wl,-rpath,{folder}"
    run("cc", "-O2", BENCH / "application_size_ort.c", f"-I{headers}", *link, "-o", folder / "ort")
    version = run(python, "-c", "import onnxruntime; print(onnxruntime.__version__)").strip()
    return Side(f"ONNX Runtime {version}", folder / "ort", "onnx")


def libtorch(folder: Path, headers: Path | None) -> Side | None:
    python = python_of("PyTorch")
    if python is None:
        return None
    version = run(python, BENCH / "application_size_torch.py", folder).strip()
    where = Path(run(python, "-c", "import torch; print(torch.__file__)").strip()).parent
    include = f"-I{where / 'include'}", f"-I{where / 'include/torch/csrc/api/include'}"
    link = f"-L{where / 'lib'}", f"-Wl,-rpath,{where / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"
    run("c++", "-std=c++20", "-O2", BENCH / "application_size_torch.cpp", *include, *link, "-o", folder / "torch")
    return Side(f"libtorch {version}", folder / "torch", "pt")


def stripped_size(program: Path, folder: Path) -> int:
    """Return the size in bytes of the program and its libraries, apart from the system's, without symbols."""
    system = ("/lib/", "/lib64/", "/usr/lib/")
    needed = [line.split()[2] for line in run("ldd", program).splitlines() if "=> /" in line]
    total = 0
    for path in [program, *(Path(library) for library in needed if not library.startswith(system))]:
        run("strip", "-o", folder / "stripped", path)
        total += (folder / "stripped").stat().st_size
    return total


def write_networks(folder: Path) -> None:
    network = lenet()
    for name, shape in SHAPES.items():
        if name == "ResNet-50":
            (folder / f"{name}.onnx").write_bytes(published_resnet50(shape[1]))
            network = mg.onnx.load(folder / f"{name}.onnx")
        model = network.optimize_for_inference()
        model.save(folder / f"{name}.mpsgraph")
        if name == "LeNet":
            mg.onnx.export(model, folder / f"{name}.onnx")


def sample(side: Side, name: str, folder: Path) -> tuple[float, float]:
    """Return the milliseconds to the first result, and those of the whole process."""
    shape = (1, 28, 28) if side.ending == "pt" and name == "LeNet" else SHAPES[name]
    begin = time.perf_counter()
    printed = run(side.program, folder / f"{name}.{side.ending}", *shape)
    return float(printed.split()[0]), 1e3 * (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime-headers", type=Path)
    parser.add_argument("--static", type=Path, help="build directory with libmpsgraph_objects.a")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        write_networks(folder)
        makers: list[Callable[[Path, Path | None], Side | None]] = [ours, onnxruntime, libtorch]
        sides = [side for make in makers if (side := make(folder, options.onnxruntime_headers))]
        if options.static:
            sides.insert(1, ours_static(folder, options.static))
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number in range(options.rounds + 1):
            for side in sides:
                for name in SHAPES:
                    times = sample(side, name, folder)
                    if number > 0:  # The first turn brings the files into the page cache.
                        found.setdefault((side.name, name), []).append(times)
        print("| library | size | " + " | ".join(f"{name}: first result | process" for name in SHAPES) + " |")
        print("|---|---|" + "---|---|" * len(SHAPES))
        for side in sides:
            shortest = [min(column) for name in SHAPES for column in zip(*found[side.name, name], strict=True)]
            cells = " | ".join(f"{value:.0f} ms" for value in shortest)
            print(f"| {side.name} | {stripped_size(side.program, folder) / 1e6:.1f} MB | {cells} |")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
