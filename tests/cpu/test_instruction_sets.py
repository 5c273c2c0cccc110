"""What is chosen at run time is tested at run time: vectorised kernels once more with lesser instruction sets."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import pytest
from harness.instructions import is_the_processors

pytestmark = pytest.mark.begins_early

HERE = Path(__file__).resolve().parent
OPERATIONS = HERE.parent / "operations"
TESTS = [
    f"{OPERATIONS / 'test_values.py'}::{test}"
    for test in ("test_elementwise_sizes", "test_broadcasting", "test_special_values")
]
TESTS += [
    f"{OPERATIONS / 'test_fourier.py'}::{test}"
    for test in ("test_every_length_is_numpys", "test_many_signals_are_numpys")
]
TESTS += [str(OPERATIONS / "test_attention.py")]
TESTS += [
    str(HERE / name) for name in ("test_vector_kernels.py", "test_convolution_winograd.py", "test_matrix_inverse.py")
]

LONG_SORTS = str(HERE / "test_sort_long_rows.py")
LONG_SORT = """
import mpsgraph as mg
g = mg.Graph()
x = g.placeholder((1 << 18,))
g.compile({x: x.shape}, [g.sort(x)])
"""

BFLOAT16_PRODUCTS = "MPSGRAPH_BFLOAT16_PRODUCTS"
BFLOAT16 = f"{HERE / 'test_convolution_taps.py'}::test_bfloat16_is_rounded_once"
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


BUILD = HERE.parents[1] / os.environ.get("MPSGRAPH_BUILD_DIR", "build/release") / "CMakeFiles"


@pytest.mark.skipif(not shutil.which("readelf"), reason="reads object files with readelf")
def test_loading_the_library_runs_nothing_of_an_instruction_set():
    """An initialiser in a file for AVX-512 would end every process on a processor without it, at import."""
    objects = [path for name in ("avx2", "avx512") for path in (BUILD / f"mpsgraph_{name}.dir").rglob("*.o")]
    if not objects:
        pytest.skip("this processor's build has no such files, or they are not here")
    sections = subprocess.run(["readelf", "-SW", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    assert sections.count("File: ") == len(objects) > 1
    initialised = [part.split("\n")[0] for part in sections.split("File: ") if "init_array" in part]
    assert initialised == [], "make their tables constexpr"


@pytest.mark.skipif(not shutil.which("objdump"), reason="reads object files with objdump")
@pytest.mark.parametrize(
    ("instructions", "allowed"),
    [
        (r"\b(vdpbf16ps|vcvtne2?ps2bf16)\b", r"_bf16_"),
        (r"\b(tileloadd|tilestored|tdp\w+)\b", r"_amx_"),
        (r"\bvpdpbusds?\b", r"_int8_"),
    ],
)
def test_instructions_that_not_all_avx512_has_are_where_files_say_so(instructions, allowed):
    """All of those files are compiled with the options for bfloat16 and AMX, which no compiler may take by itself."""
    objects = list((BUILD / "mpsgraph_avx512.dir").rglob("*.o"))
    if not objects:
        pytest.skip("this processor's build has no such files, or they are not here")
    has = {
        path.name
        for path in objects
        if re.search(instructions, subprocess.run(["objdump", "-d", path], capture_output=True, text=True).stdout)
    }
    measures = "machine_limits_avx512.cpp.o"  # whose functions for them say so, one by one
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
    trainer = mg.Trainer(network, optimizer=mg.optim.SGD(0.05), precision=precision)
    return [float(trainer.train_step(x, y)) for _ in range(5)]
half, single = losses("bfloat16"), losses("float32")
assert half != single and single[-1] < single[0], (half, single)
np.testing.assert_allclose(half, single, rtol=0.05)
"""


@pytest.mark.skipif("oneDNN" not in mg.Device("cpu").description, reason="oneDNN is not there")
def test_bfloat16_trains_where_onednn_has_no_products_of_it():
    """Before AVX-512 it has none; oneDNN's own variable makes a newer processor such a one."""
    for name in ("ONEDNN_MAX_CPU_ISA", "MPSGRAPH_INSTRUCTION_SET"):
        run = with_set("AVX2", "-c", TRAINING_IN_BFLOAT16, variable=name)
        assert run.returncode == 0, f"{name}\n{run.stderr}"


@pytest.mark.parametrize("name", ["AVX2", "baseline"])
def test_vectorised_kernels(name):
    if is_the_processors(name):
        pytest.skip(f"the tests themselves run with {name}")
    run = with_set(name, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 200


PROCESSOR = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
QUANTIZED = str(OPERATIONS / "test_quantization.py")
HAS_AMX = "AMX" in mg.Device("cpu").description
AMX = pytest.mark.skipif(not HAS_AMX, reason="needs AMX")


@pytest.mark.skipif("avx512_bf16" not in PROCESSOR, reason="has no choice, so that each would be the test itself")
@pytest.mark.parametrize("name", [pytest.param("registers", marks=AMX), "pairs", "float32"])
def test_products_of_bfloat16(name):
    run = with_set(name, "-m", "pytest", "-q", "-p", "no:cacheprovider", BFLOAT16, variable=BFLOAT16_PRODUCTS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    run = with_set(name, "-c", PLAN_OF_BFLOAT16, variable=BFLOAT16_PRODUCTS)
    told = ("in float32" in run.stdout, "with AMX" in run.stdout)
    assert told == (name == "float32", name == "registers"), run.stdout + run.stderr


@pytest.mark.skipif("avx512_bf16" not in PROCESSOR, reason="has no choice")
@pytest.mark.parametrize(
    "name", ["int8", pytest.param("registers", marks=pytest.mark.skipif(HAS_AMX, reason="has it"))]
)
def test_an_unknown_product_of_bfloat16_is_an_error(name):
    run = with_set(name, "-c", PLAN_OF_BFLOAT16, variable=BFLOAT16_PRODUCTS)
    choices = "registers, pairs or float32" if HAS_AMX else "pairs or float32"
    message = f"environment variable {BFLOAT16_PRODUCTS} must be {choices}, got '{name}'"
    assert message in run.stderr, run.stdout


def test_amx_is_used_where_the_system_grants_it():
    """Asked of the system by this test itself: else what is missing would only be skipped below."""
    ask = "import ctypes; print(ctypes.CDLL(None).syscall(158, 0x1023, 18))"  # arch_prctl, on x86-64
    granted = (
        "amx_bf16" in PROCESSOR and subprocess.run([sys.executable, "-c", ask], capture_output=True).stdout == b"0\n"
    )
    vectors = "AVX-512" in mg.Device("cpu").description
    assert HAS_AMX == (granted and vectors)


@AMX
def test_an_unknown_product_of_integers_is_an_error():
    run = with_set(
        "bytes", "-m", "pytest", "-q", "-p", "no:cacheprovider", QUANTIZED, variable="MPSGRAPH_INT8_PRODUCTS"
    )
    assert "MPSGRAPH_INT8_PRODUCTS must be registers or vectors, got 'bytes'" in run.stdout, run.stderr


@AMX
@pytest.mark.parametrize("name", ["registers", "vectors"])
def test_products_of_8_bit_integers(name):
    run = with_set(name, "-m", "pytest", "-q", "-p", "no:cacheprovider", QUANTIZED, variable="MPSGRAPH_INT8_PRODUCTS")
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 50


@pytest.mark.skipif("AVX" not in mg.Device("cpu").description, reason="kernels by taps and in tiles need vectors")
def test_products_in_tiles_can_be_switched_off():
    plans = {wish: with_set(wish, "-c", PLAN_IN_TILES, variable="MPSGRAPH_WINOGRAD") for wish in ("0", "1", "no")}
    assert "one matmul per tap" in plans["0"].stdout and "Winograd" not in plans["0"].stdout, plans["0"].stderr
    assert "tiles of 4 x 4 by Winograd" in plans["1"].stdout, plans["1"].stderr
    assert "MPSGRAPH_WINOGRAD must be 0 or 1, got 'no'" in plans["no"].stderr, plans["no"].stdout


@pytest.mark.skipif("AVX-512" not in mg.Device("cpu").description, reason="other vectors sort by radix")
@pytest.mark.parametrize("way", ["buckets", "quicksort"])
def test_sorts_of_long_rows(way):
    run = with_set(way, "-m", "pytest", "-q", "-p", "no:cacheprovider", LONG_SORTS, variable="MPSGRAPH_SORT")
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 70


@pytest.mark.skipif("AVX-512" not in mg.Device("cpu").description, reason="other vectors sort by radix")
def test_an_unknown_way_to_sort_is_an_error():
    run = with_set("bubbles", "-c", LONG_SORT, variable="MPSGRAPH_SORT")
    assert "MPSGRAPH_SORT must be buckets or quicksort, got 'bubbles'" in run.stderr, run.stdout


def test_what_runs_says_its_set():
    plan = (
        "import mpsgraph as mg; g = mg.Graph(); x = g.placeholder((64,)); y = g.exponent(x) * x;"
        "print(g.compile({x: (64,)}, y).plan())"
    )
    run = with_set("baseline", "-c", plan)
    assert "tile functions" in run.stdout, run.stdout + run.stderr
    assert "generated code" not in run.stdout


def test_an_unknown_set_is_an_error():
    run = with_set("SSE9", "-c", "import mpsgraph as mg; g = mg.Graph(); print(g.run({}, g.constant(1.0) + 1.0))")
    assert run.returncode != 0
    assert "MPSGRAPH_INSTRUCTION_SET must be AVX-512, AVX2 or baseline, got 'SSE9'" in run.stderr
