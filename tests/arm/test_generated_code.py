"""The machine code that fused element-wise kernels generate for Arm, run under qemu."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JIT = ROOT / "src" / "backends" / "cpu" / "jit"
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
COMPILER = shutil.which("aarch64-linux-gnu-g++")
TESTS = ("test_generated_code", "test_generated_values", "test_arm64_assembler")

pytestmark = pytest.mark.skipif(
    QEMU is None or COMPILER is None, reason="requires the packages qemu-user-static and g++-aarch64-linux-gnu"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("arm") / "generated_code"
    sources = [
        *(ROOT / "tests" / "cpp" / f"{name}.cpp" for name in ("main", *TESTS)),
        *(JIT / f"{name}.cpp" for name in ("generator", "vector_code", "contract", "code_memory")),
        *sorted((JIT / "arm64").glob("*.cpp")),
        *sorted((JIT / "x86_64").glob("*.cpp")),
        *(ROOT / "src" / "backends" / "cpu" / f"{name}.cpp" for name in ("instruction_set",)),
        *(ROOT / "src" / "core" / f"{name}.cpp" for name in ("types", "errors")),
    ]
    # Statically linked, so that qemu needs no system for Arm.
    options = ["-static", "-std=c++20", "-O1", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
    subprocess.run([COMPILER, *options, *sources, "-o", made], check=True, timeout=600)
    return made


@pytest.mark.parametrize("processor", ["cortex-a72", "max"])  # without and with conversions to bfloat16
@pytest.mark.parametrize("test", TESTS)
def test_generated_code_agrees_with_plain_evaluation(program, test, processor):
    run = subprocess.run(
        [QEMU, "-cpu", processor, program, test], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert ", 0 failed" in run.stdout
