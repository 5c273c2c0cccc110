"""Run the examples as programs, from an empty directory and on small files, and with invalid options and files."""

import contextlib
import gzip
import io
import runpy
import struct
import subprocess
import sys
from pathlib import Path

import activity_classifier
import numpy as np
import pytest

pytestmark = pytest.mark.begins_early

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))
NAMES = [path.stem for path in EXAMPLES]


def as_a_process(name: str, *arguments: object, within: Path) -> subprocess.CompletedProcess[str]:
    path = EXAMPLES[NAMES.index(name)]
    return subprocess.run(
        [sys.executable, path, *map(str, arguments)], cwd=within, capture_output=True, text=True, timeout=300
    )


def run(name: str, *arguments: object, within: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in this process, as its imports take longer than a short run."""
    path, out, err, code = EXAMPLES[NAMES.index(name)], io.StringIO(), io.StringIO(), None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(within)
        patch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        patch.setattr(sys, "path", [str(path.parent), *sys.path])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as end:
                code = end.code
    words = f"{code}\n" if isinstance(code, str) else ""  # Like Python, print a string passed to exit and use status 1.
    status = 1 if words else int(code or 0)
    return subprocess.CompletedProcess([path, *arguments], status, out.getvalue(), err.getvalue() + words)


def said(name: str, *arguments: object, within: Path, status: int) -> str:
    """Return what the program prints before it exits with the given status."""
    ended = run(name, *arguments, within=within)
    assert ended.returncode == status
    return ended.stdout + ended.stderr


def refused(name: str, *arguments: object, within: Path, status: int) -> str:
    """Return the error message; the status is argparse's 2 for invalid options, or 1 for invalid files."""
    return said(name, *arguments, within=within, status=status)


def cifar10(directory: Path) -> None:
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        records = rng.integers(0, 256, (20, 1 + 3072), np.uint8)
        records[:, 0] %= 10
        records.tofile(directory / name)


def recordings(directory: Path) -> None:
    for i, activity in enumerate(["walking", "sitting", "running"]):
        samples = activity_classifier.motion(activity, 2000, np.random.default_rng(i))
        lines = [",".join([*map(str, row), activity]) for row in samples]
        (directory / f"{i}.csv").write_text("\n".join(["ax,ay,az,gx,gy,gz,activity", *lines]), encoding="utf-8")


def mnist(directory: Path, count: int = 80) -> None:
    for part in ("train", "t10k"):
        images = np.random.default_rng(0).integers(0, 256, (count, 28, 28), np.uint8)
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", images[:, 0, 0] % 10)):
            header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (directory / f"{name}.gz").write_bytes(gzip.compress(header + array.tobytes()))


def text(directory: Path) -> None:
    (directory / "text.txt").write_text("the cat sat on the mat, and the rat ran. " * 700, encoding="utf-8")


def sentences(directory: Path) -> None:
    (directory / "text.txt").write_text("The cat sits on the mat. The dog sleeps in the sun. ", encoding="utf-8")


# Run these examples in separate processes to check that they import everything they need.
PROCESSES = ["gelu", "two_queues"]

SHORT = {
    "activity_classifier": (recordings, ["--data", "files", "--epochs", 1]),
    "activity_classifier_layers": (recordings, ["--data", "files", "--epochs", 1]),
    "diffusion": (None, ["--steps", 2]),
    "digits_nodes": (mnist, ["--data", "files", "--epochs", 1, "--python-update"]),
    "fine_tuning": (sentences, ["--text", "files/text.txt", "--steps", 2, "--adapter-steps", 2, "--length", 3]),
    "gan": (mnist, ["--data", "files", "--steps", 2]),
    "gelu": (None, ["--largest", 10]),
    "gpt": (
        text,
        ["--text", "files/text.txt", "--steps", 2, "--start", "the", "--length", 9, "--weights", "w.safetensors"],
    ),
    "inception": (None, ["--narrow", 32, "--steps", 1, "--batch", 2]),
    "nerf": (None, ["--quick"]),
    "object_detector": (None, ["--steps", 2, "--batch", 2]),
    "resnet50": (cifar10, ["--data", "files", "--epochs", 1, "--batch", 50, "--narrow", 16]),
    "text_generation": (
        text,
        ["--text", "files/text.txt", "--steps", 2, "--start", "the", "--weights", "w.safetensors"],
    ),
    "two_queues": (None, ["--frames", 3, "--size", 64]),
}


@pytest.mark.parametrize("path", EXAMPLES, ids=NAMES)
def test_each_example_is_short_documented_and_self_contained(path: Path, tmp_path: Path):
    assert path.stem in SHORT and len(path.read_text(encoding="utf-8").splitlines()) < 200
    page = path.parents[1] / "docs" / "examples" / f"{path.stem}.md"
    assert f"../images/{path.stem}.png" in page.read_text(encoding="utf-8")
    assert (path.parents[1] / "docs" / "images" / f"{path.stem}.png").is_file()
    assert "--output" in said(path.stem, "--help", within=tmp_path, status=0) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_example_runs_on_small_files_in_an_empty_directory(name: str, tmp_path: Path):
    write, arguments = SHORT[name]
    if write:
        (tmp_path / "files").mkdir()
        write(tmp_path / "files")
    ended = (as_a_process if name in PROCESSES else run)(name, *arguments, within=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "demo-output" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    if name == "text_generation":  # Generate from the saved weights, without the text.
        again = run(name, "--weights", "w.safetensors", "--start", "the ", "--length", 9, within=tmp_path)
        assert again.returncode == 0 and again.stdout.startswith("the ") and len(again.stdout) == 4 + 9 + 1
        assert "without training" in again.stderr
    if name == "gpt":
        for options in (["--top-k", 3, "--top-p", 0.9], ["--beams", 2]):
            again = run(name, "--weights", "w.safetensors", "--start", "the ", "--length", 9, *options, within=tmp_path)
            assert again.returncode == 0 and again.stdout.startswith("the ") and len(again.stdout) == 4 + 9 + 1


def test_invalid_command_line_options_are_rejected(tmp_path: Path):
    assert "--epochs must be 1 or more" in refused("resnet50", "--epochs", 0, within=tmp_path, status=2)
    assert "from 2 to the 1438 images" in refused("resnet50", "--batch", 5000, within=tmp_path, status=2)
    assert "invalid choice: 3" in refused("resnet50", "--narrow", 3, within=tmp_path, status=2)
    assert "--epochs must be at least 1" in refused("digits_nodes", "--epochs", 0, within=tmp_path, status=2)
    assert "--steps must be at least 1" in refused("gan", "--steps", 0, within=tmp_path, status=2)
    assert "--steps must be at least 1" in refused("diffusion", "--steps", 0, within=tmp_path, status=2)
    assert "--minutes must be above 0" in refused("nerf", "--minutes", "nan", within=tmp_path, status=2)
    assert "--size and --views at least 8" in refused("nerf", "--views", 3, within=tmp_path, status=2)
    assert "--largest must be from 10" in refused("gelu", "--largest", 3, within=tmp_path, status=2)
    assert "--frames must be at least 1" in refused("two_queues", "--frames", 0, within=tmp_path, status=2)
    for name in ("activity_classifier", "activity_classifier_layers"):
        assert "--recordings and --epochs" in refused(name, "--epochs", 0, within=tmp_path, status=2)
    for name in (
        "resnet50", "digits_nodes", "gan", "activity_classifier", "activity_classifier_layers",
        "gpt", "text_generation",
    ):  # fmt: skip
        assert "--seed " in refused(name, "--seed", -1, within=tmp_path, status=2)
    for option, value in (
        ("--temperature", "nan"),
        ("--temperature", "1e-40"),
        ("--start", ""),
        ("--length", 0),
        ("--weights", "none/w.safetensors"),
    ):
        assert f"{option} " in refused("text_generation", option, value, within=tmp_path, status=2)
        if value != "1e-40":
            assert f"{option} " in refused("gpt", option, value, within=tmp_path, status=2)


def test_invalid_example_files_are_rejected(tmp_path: Path):
    assert "contains neither data_batch_1" in refused("resnet50", "--data", "none", within=tmp_path, status=1)
    for name in ("activity_classifier", "activity_classifier_layers"):
        assert "must contain at least two CSV files" in refused(name, "--data", "none", within=tmp_path, status=1)
    text(tmp_path)
    for name in ("gpt", "text_generation"):
        assert "none" in refused(name, "--text", "none", within=tmp_path, status=1)
        assert "has not seen ['T']" in refused(name, "--text", "text.txt", within=tmp_path, status=1)
    mnist(tmp_path, count=10)
    assert "40 images of 28x28" in refused("digits_nodes", "--data", ".", within=tmp_path, status=1)
    assert "expected 64 images of 28x28" in refused("gan", "--data", ".", within=tmp_path, status=1)
    (tmp_path / "file").write_text("")
    assert "file" in refused("two_queues", "--frames", 1, "--output", "file/x", within=tmp_path, status=1)
