"""Kernels for Arm, cross-compiled and run under qemu. `make arm` runs all other tests on Arm."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPU = ROOT / "src" / "backends" / "cpu"
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
COMPILER = shutil.which("aarch64-linux-gnu-g++")
# Statically linked, so that qemu needs no system for Arm.
OPTIONS = ["-static", "-std=c++20", "-O2", "-DMPSGRAPH_VECTOR_BYTES=16", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
ARCHITECTURES = {
    "neon": "armv8-a",
    "neon_dotprod": "armv8.2-a+dotprod",
    "neon_bf16": "armv8.2-a+dotprod+i8mm+bf16",
}

pytestmark = pytest.mark.skipif(
    QEMU is None or COMPILER is None, reason="requires the packages qemu-user-static and g++-aarch64-linux-gnu"
)


def compiled(folder: Path, source: Path, instruction_set: str) -> Path:
    made = folder / f"{source.stem}_{instruction_set}.o"
    options = [*OPTIONS, f"-march={ARCHITECTURES[instruction_set]}", f"-DMPSGRAPH_ISA={instruction_set}"]
    if instruction_set == "neon_bf16":
        options.append("-DMPSGRAPH_BF16_PRODUCTS")
    subprocess.run([COMPILER, *options, "-c", source, "-o", made], check=True, timeout=300)
    return made


def linked(made: Path, objects: list[Path]) -> Path:
    subprocess.run([COMPILER, *OPTIONS, *objects, "-o", made], check=True, timeout=300)
    return made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arm")
    tiles = CPU / "convolution" / "integer_tiles_arm.simd.cpp"
    objects = [
        compiled(folder, Path(__file__).with_name("kernels.cpp"), "neon"),
        compiled(folder, tiles, "neon_dotprod"),
        compiled(folder, tiles, "neon_bf16"),
        compiled(folder, CPU / "random" / "philox_neon.cpp", "neon"),
    ]
    return linked(folder / "kernels", objects)


@pytest.mark.parametrize(("extension", "processor"), [("dotprod", "neoverse-n1"), ("bf16", "max")])
def test_kernels_for_extensions_agree_with_plain_loops(program, extension, processor):
    run = subprocess.run(
        [QEMU, "-cpu", processor, program, extension], capture_output=True, text=True, check=False, timeout=300
    )
    assert (run.returncode, run.stdout) == (0, "0 wrong\n")


def test_kernels_for_bf16_use_instructions_that_other_processors_lack(program):
    run = subprocess.run([QEMU, "-cpu", "neoverse-n1", program, "bf16"], capture_output=True, check=False, timeout=300)
    assert run.returncode < 0 or run.returncode > 128, "an illegal instruction must end the program"


def test_convolution_kernels_agree_with_plain_loops(tmp_path):
    tiles = CPU / "convolution" / "convolution_tiles.simd.cpp"
    objects = [
        compiled(tmp_path, Path(__file__).with_name("convolution_kernels.cpp"), "neon"),
        compiled(tmp_path, tiles, "neon"),
        compiled(tmp_path, tiles, "neon_bf16"),
    ]
    program = linked(tmp_path / "convolution_kernels", objects)
    for extension, processor in (("neon", "cortex-a72"), ("bf16", "max")):
        run = subprocess.run(
            [QEMU, "-cpu", processor, program, extension], capture_output=True, text=True, check=False, timeout=300
        )
        assert (run.returncode, run.stdout) == (0, "0 wrong\n"), extension
