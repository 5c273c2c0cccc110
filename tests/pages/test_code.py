"""Run the code blocks of the documentation pages: Python from top to bottom; C and C++ are compiled, linked, and run.

Blocks that need another package are only compiled here; the tests in the folder of that package run them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.pages import ROOT, Block, blocks, pages, run

PACKAGE = Path(mg.__file__).parent
BLOCKS = [block for page in pages() for block in blocks(page)]
PYTHON = {page: [b for b in blocks(page) if b.language == "python"] for page in pages()}
PROGRAMS = {page: own for page, every in PYTHON.items() if (own := [block for block in every if not block.needs])}
NATIVE = [block for block in BLOCKS if block.language in ("c", "cpp")]
FOLDERS = {
    "torch": "pytorch",
    "keras": "pytorch",
    "jax": "jax_and_xla",
    "mpi4py": "distributed",
    "coremltools": "coreml",
}
UNCHECKED = {"", "cmake", "swift", "text"}  # Command lines, program output, and graph drawings.


def test_all_code_block_languages_are_known():
    assert {block.language for block in BLOCKS} - {"python", "c", "cpp"} <= UNCHECKED
    assert len(PROGRAMS) > 10 and len(NATIVE) >= 3


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=lambda block: block.name)
def test_python_blocks_compile(block: Block):
    block.compiled()


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run(PROGRAMS[page])


def test_blocks_that_need_a_package_run_in_the_tests_of_that_package():
    found = {(page.name, block.needs) for page, own in PYTHON.items() for block in own if block.needs}
    assert {package for _, package in found} <= set(FOLDERS)
    for page, package in found:
        tests = (ROOT / "tests" / FOLDERS[package]).glob("test_*.py")
        # tests/pytorch runs every page.
        assert FOLDERS[package] == "pytorch" or any(page in path.read_text() for path in tests), (page, package)


@pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so")
@pytest.mark.parametrize("block", NATIVE, ids=lambda block: block.name)
def test_native_programs_run(block: Block, digits: Path):
    """Each program runs in a folder that contains the packages it opens."""
    source, program = digits / f"program.{block.language}", digits / "program"
    source.write_text(block.code)
    compiler = ("cc", "-std=c99") if block.language == "c" else ("c++", "-std=c++20")
    library = PACKAGE / "lib"
    command = [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE / 'include'}", source, "-o", program]
    if "int main" not in block.code:  # a library of custom operations
        subprocess.run([*map(str, command), "-shared", "-fPIC"], check=True, timeout=300)
        assert mg.load_custom_operations(program)
        return
    command += [f"-L{library}", "-lmpsgraph", f"-Wl,-rpath,{library}"]
    subprocess.run(list(map(str, command)), check=True, timeout=300, cwd=digits)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60, cwd=digits)
    assert done.stdout.strip() and not done.stderr


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with digits.mpsgraph as docs/guides/deployment.md saves it, trainer.mpsgraph, which can
    be trained, and denoise.mpsgraph, which needs softshrink.so.
    """
    folder = tmp_path_factory.mktemp("digits")
    page = ROOT / "docs" / "guides" / "deployment.md"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run([block for block in blocks(page) if block.language == "python"])
    assert (folder / "digits.mpsgraph").is_dir()
    trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Flatten(), mg.nn.Linear(10)), metrics=["accuracy"])
    trainer.train_step(np.zeros((64, 28, 28, 1), np.float32), np.zeros(64, np.int32))
    mg.save(folder / "trainer.mpsgraph", trainer)
    softshrink = mg.custom_operation("softshrink", cpu="void softshrink(mpsgraph::custom::Call&) {}")
    g = mg.Graph()
    x = g.placeholder((3,), name="x")
    mg.save(folder / "denoise.mpsgraph", g, [x], {"y": softshrink(x)})
    shutil.copy(softshrink.library, folder / "softshrink.so")
    return folder
