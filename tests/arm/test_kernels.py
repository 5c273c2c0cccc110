"""The kernels for Arm's extensions, cross-compiled and run under qemu. `make arm` runs all other tests on Arm."""

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


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arm")

    def compiled(source: Path, instruction_set: str) -> Path:
        made = folder / f"{source.stem}_{instruction_set}.o"
        options = [*OPTIONS, f"-march={ARCHITECTURES[instruction_set]}", f"-DMPSGRAPH_ISA={instruction_set}"]
        subprocess.run([COMPILER, *options, "-c", source, "-o", made], check=True, timeout=300)
        return made

    tiles = CPU / "convolution" / "integer_tiles_arm.simd.cpp"
    objects = [
        compiled(Path(__file__).with_name("kernels.cpp"), "neon"),
        compiled(tiles, "neon_dotprod"),
        compiled(tiles, "neon_bf16"),
        compiled(CPU / "random" / "philox_neon.cpp", "neon"),
    ]
    made = folder / "kernels"
    subprocess.run([COMPILER, *OPTIONS, *objects, "-o", made], check=True, timeout=300)
    return made


@pytest.mark.parametrize(("extension", "processor"), [("dotprod", "neoverse-n1"), ("bf16", "max")])
def test_kernels_for_extensions_agree_with_plain_loops(program, extension, processor):
    run = subprocess.run(
        [QEMU, "-cpu", processor, program, extension], capture_output=True, text=True, check=False, timeout=300
    )
    assert (run.returncode, run.stdout) == (0, "0 wrong\n")


def test_kernels_for_bf16_use_instructions_that_other_processors_lack(program):
    run = subprocess.run([QEMU, "-cpu", "neoverse-n1", program, "bf16"], capture_output=True, check=False, timeout=300)
    assert run.returncode < 0 or run.returncode > 128, "an illegal instruction must end the program"
