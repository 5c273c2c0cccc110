"""Test the selection of kernels at run time, and vectorized kernels with smaller instruction sets."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import pytest
from harness.instructions import HAS_VECTORS, IS_ARM, SMALLER_SETS, is_the_processors

pytestmark = pytest.mark.begins_early

HERE = Path(__file__).resolve().parent
OPERATIONS = HERE.parent / "operations"
TESTS = [
    f"{OPERATIONS / 'test_values.py'}::{test}"
    for test in (
        "test_elementwise_operations_of_various_sizes_match_numpy",
        "test_elementwise_operations_broadcast_as_in_numpy",
        "test_special_values_match_numpy",
    )
]
TESTS += [
    f"{OPERATIONS / 'test_fourier.py'}::{test}"
    for test in (
        "test_fourier_transforms_of_every_length_match_numpy",
        "test_fourier_transforms_of_many_signals_match_numpy",
    )
]
TESTS += [str(OPERATIONS / "test_attention.py")]
TESTS += [
    str(HERE / name)
    for name in (
        "test_vector_kernels.py",
        "test_convolution_winograd.py",
        "test_matrix_inverse.py",
        "test_packed_matmul.py",
        "test_packed_weights.py",
        "test_row_products.py",
    )
]

LONG_SORTS = str(HERE / "test_sort_long_rows.py")
KERNELS = "MPSGRAPH_KERNELS"
SLOW = pytest.mark.slow
PRODUCTS = [
    f"{OPERATIONS / 'test_values.py'}::test_results_match_numpy",
    f"{OPERATIONS / 'test_gradients.py'}::test_optimized_gradients_match_float64",
    *("-k", "matrix_multiplication or convolution"),
]
LAST = {"in_float32", "integers", "complex"}  # candidates that have no substitute
BFLOAT16 = f"{HERE / 'test_convolution_taps.py'}::test_bfloat16_convolution_rounds_its_result_once"
PLAN_OF_BFLOAT16 = """
import mpsgraph as mg
g = mg.Graph()
x, w = g.placeholder((2, 8, 8, 16), mg.bfloat16), g.placeholder((3, 3, 16, 32), mg.bfloat16)
print(g.compile({t: t.shape for t in (x, w)}, g.convolution2d(x, w)).plan())
"""

PLAN_IN_TILES = """
import mpsgraph as mg
g = mg.Graph()
x, w = g.placeholder((8, 16, 16, 32)), g.placeholder((3, 3, 32, 32))
print(g.compile({t: t.shape for t in (x, w)}, g.convolution2d(x, w)).plan())
"""


def with_set(name: str, *command: str, variable: str = "MPSGRAPH_INSTRUCTION_SET") -> subprocess.CompletedProcess:
    environment = os.environ | {variable: name}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=600)


@functools.cache
def candidates(kind: str) -> list[str]:
    """Return the names of a kind's kernels in order, from the error about an unknown one."""
    told = with_set(f"{kind}=unknown", "-c", PLAN_IN_TILES, variable=KERNELS).stderr
    return told.split(f"expected {kind}= one of ")[1].strip().split(", ")


SETS = ("avx2", "avx512", "avx512_bf16")  # parts of the build that are compiled for more than the baseline
BUILD = HERE.parents[1] / os.environ.get("MPSGRAPH_BUILD_DIR", "build/release") / "CMakeFiles"


def objects_of(part: str) -> list[Path]:
    """Return the object files of a part of the build, without those that earlier builds made of removed sources."""
    folder, root = BUILD / f"mpsgraph_{part}.dir", HERE.parents[1]
    return [path for path in folder.rglob("*.o") if (root / path.relative_to(folder).with_suffix("")).exists()]


@pytest.mark.skipif(not shutil.which("readelf"), reason="requires readelf")
def test_library_has_no_static_initializers_with_avx_instructions():
    """A static initializer compiled for AVX-512 would crash every process on a processor without it, as soon as it is
    loaded.
    """
    objects = [path for name in SETS for path in objects_of(name)]
    if not objects:
        pytest.skip("the object files of this build are not available")
    sections = subprocess.run(["readelf", "-SW", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    assert sections.count("File: ") == len(objects) > 1
    initialised = [part.split("\n")[0] for part in sections.split("File: ") if "init_array" in part]
    assert initialised == [], "make the tables of these files constexpr"


@pytest.mark.skipif(not shutil.which("objdump"), reason="requires objdump")
@pytest.mark.parametrize(
    ("instructions", "allowed"),
    [
        (r"\b(vdpbf16ps|vcvtne2?ps2bf16)\b", r"_bf16\b"),
        (r"\b(tileloadd|tilestored|tdp\w+)\b", r"_amx_"),
        (r"\bvpdpbusds?\b", r"_int8_|quantized_digits\b"),
    ],
)
def test_optional_avx512_instructions_appear_only_in_their_files(instructions, allowed):
    """All AVX-512 files are compiled with bfloat16 and AMX enabled, so the compiler might use these instructions
    elsewhere.
    """
    objects = [path for name in SETS[1:] for path in objects_of(name)]
    if not objects:
        pytest.skip("the object files of this build are not available")
    has = {
        f"{path.relative_to(BUILD).parts[0]}/{path.name}"
        for path in objects
        if re.search(instructions, subprocess.run(["objdump", "-d", path], capture_output=True, text=True).stdout)
    }
    measures = "mpsgraph_avx512.dir/machine_limits_avx512.cpp.o"  # its callers check for each instruction separately
    assert any(re.search(allowed, name) for name in has)
    assert {name for name in has if not re.search(allowed, name)} <= {measures}


TRAINING_IN_BFLOAT16 = """
import numpy as np
import mpsgraph as mg
from mpsgraph import nn
rng = np.random.default_rng(0)
x, y = rng.normal(size=(16, 8, 8, 3)).astype(np.float32), rng.integers(4, size=16).astype(np.int32)
def losses(precision):
    network = nn.Sequential(nn.Conv2d(6, 3), nn.BatchNorm(), nn.ReLU(), nn.Conv2d(8, 3, strides=2), nn.ReLU(),
                            nn.Flatten(), nn.Linear(12), nn.ReLU(), nn.Linear(4))
    trainer = mg.Trainer(network, optimizer=mg.optim.SGD(0.05), precision=precision, seed=0)
    return [float(trainer.train_step(x, y)) for _ in range(5)]
half, single = losses("bfloat16"), losses("float32")
assert half != single and single[-1] < single[0], (half, single)
np.testing.assert_allclose(half, single, rtol=0.05)
"""


def test_bfloat16_training_works_without_bfloat16_instructions():
    run = with_set(SMALLER_SETS[0], "-c", TRAINING_IN_BFLOAT16)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", SMALLER_SETS)
def test_vectorized_kernel_tests_pass_with_smaller_instruction_sets(name):
    if is_the_processors(name):
        pytest.skip(f"the tests already run with {name}")
    run = with_set(name, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 200


PROCESSOR = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
QUANTIZED = str(OPERATIONS / "test_quantization.py")
HAS_AMX = "AMX" in mg.Device("cpu").description
AMX = pytest.mark.skipif(not HAS_AMX, reason="requires AMX")


@pytest.mark.skipif(
    "avx512_bf16" not in PROCESSOR, reason="requires AVX-512 with bfloat16, otherwise there is no choice"
)
@pytest.mark.parametrize("setting", [pytest.param("amx=on", marks=AMX), "amx=off,pairs=on", "amx=off,pairs=off"])
def test_bfloat16_matmul_setting_selects_the_technique(setting):
    run = with_set(setting, "-m", "pytest", "-q", "-p", "no:cacheprovider", BFLOAT16, variable=KERNELS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    run = with_set(setting, "-c", PLAN_OF_BFLOAT16, variable=KERNELS)
    told = ("in float32" in run.stdout, "with AMX" in run.stdout)
    assert told == ("pairs=off" in setting, setting == "amx=on"), run.stdout + run.stderr


def test_amx_is_used_if_the_operating_system_permits_it():
    """This test asks the system itself; otherwise a missing AMX would only skip the tests below."""
    ask = "import ctypes; print(ctypes.CDLL(None).syscall(158, 0x1023, 18))"  # arch_prctl on x86-64
    granted = (
        "amx_bf16" in PROCESSOR and subprocess.run([sys.executable, "-c", ask], capture_output=True).stdout == b"0\n"
    )
    vectors = "AVX-512" in mg.Device("cpu").description
    assert HAS_AMX == (granted and vectors)


@AMX
@pytest.mark.parametrize("setting", ["amx=on", "amx=off"])
def test_quantized_tests_pass_with_and_without_amx(setting):
    run = with_set(setting, "-m", "pytest", "-q", "-p", "no:cacheprovider", QUANTIZED, variable=KERNELS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 50


@pytest.mark.skipif(not HAS_VECTORS, reason="requires vectorized convolutions")
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("", "winograd: tiles of 4 x 4 by Winograd"),
        ("winograd=off", "taps: one matmul per tap"),
        ("winograd=off", "winograd (forbidden by MPSGRAPH_KERNELS)"),
        ("convolution2d=patches", "patches: patches"),
        ("taps=off,convolution2d=taps", "taps (forbidden by MPSGRAPH_KERNELS)"),
        ("convolution2d=depthwise", "[convolution2d] no kernel can compute operation 'convolution2d'"),
        ("convolution2d=depthwise", "depthwise (is not depthwise with channels last"),
        (
            "winograd=on",
            "contains 'winograd=on', expected CANDIDATE=off with one of amx_digits, bfloat16, bfloat16_blocks, blocks",
        ),
        (
            "bubbles=off",
            "contains 'bubbles=off', expected CANDIDATE=off with one of amx_digits, bfloat16, bfloat16_blocks, blocks",
        ),
        ("convolution2d=bubbles", "expected convolution2d= one of depthwise, depthwise_planes, winograd, taps"),
        ("softmax=taps", "contains 'softmax=taps', expected an operation kind with several kernels"),
        ("amx", "contains 'amx', expected amx=on or amx=off"),
        (",", "contains '', expected CANDIDATE=off"),
        pytest.param(
            "amx=on",
            "contains 'amx=on', expected amx=off, because this processor lacks it",
            marks=pytest.mark.skipif(HAS_AMX, reason="AMX is available"),
        ),
    ],
)
def test_kernel_setting_chooses_forbids_or_raises(setting, told):
    run = with_set(setting, "-c", PLAN_IN_TILES, variable=KERNELS)
    assert told in run.stdout + run.stderr, run.stdout + run.stderr


@pytest.mark.skipif(not HAS_VECTORS, reason="requires vectorized convolutions")
@pytest.mark.parametrize(
    "instruction_set", ["", pytest.param("AVX2", marks=SLOW), pytest.param("baseline", marks=SLOW)]
)
@pytest.mark.parametrize("first", range(1, 7))
def test_matmul_and_convolution_tests_pass_with_each_candidate_as_the_first(first, instruction_set):
    """Without the candidates before it, a candidate computes all cases that it accepts."""
    forbidden = candidates("matrix_multiplication")[:first] + candidates("convolution2d")[:first]
    setting = ",".join(f"{name}=off" for name in forbidden if name not in LAST)
    environment = os.environ | {KERNELS: setting, "MPSGRAPH_INSTRUCTION_SET": instruction_set}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PRODUCTS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 50


def test_every_candidate_comes_first_in_some_run_of_the_test_above():
    for kind in ("matrix_multiplication", "convolution2d"):
        assert 3 < len([name for name in candidates(kind) if name not in LAST]) <= 9


@pytest.mark.skipif("AVX-512" not in mg.Device("cpu").description, reason="only AVX-512 has these sorts")
@pytest.mark.parametrize("setting", ["buckets=on", "buckets=off"])
def test_long_row_sort_tests_pass_with_each_sort_setting(setting):
    run = with_set(setting, "-m", "pytest", "-q", "-p", "no:cacheprovider", LONG_SORTS, variable=KERNELS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 70


@pytest.mark.skipif(IS_ARM, reason="every set of Arm has generated code")
def test_plan_names_kernels_of_the_selected_instruction_set():
    plan = (
        "import mpsgraph as mg; g = mg.Graph(); x = g.placeholder((64,)); y = g.exponent(x) * x;"
        "print(g.compile({x: (64,)}, y).plan())"
    )
    run = with_set("baseline", "-c", plan)
    assert "tile functions" in run.stdout, run.stdout + run.stderr
    assert "generated code" not in run.stdout


def test_invalid_instruction_set_raises():
    run = with_set("SSE9", "-c", "import mpsgraph as mg; g = mg.Graph(); print(g.run({}, g.constant(1.0) + 1.0))")
    assert run.returncode != 0
    names = "NEON-bf16, NEON-dotprod or NEON" if IS_ARM else "AVX-512, AVX2 or baseline"
    assert f"MPSGRAPH_INSTRUCTION_SET must be {names}, got 'SSE9'" in run.stderr
