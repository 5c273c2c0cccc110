"""Sides of a comparison, each with a command that speaks the protocol, and their running processes.

A side is mpsgraph or a mode of a peer. `make bench` creates a virtual environment for each peer; without it, the peer
is skipped.
"""

from __future__ import annotations

import ctypes.util
import functools
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import BENCH
from .report import OURS

ENVIRONMENTS = Path(os.environ.get("MPSGRAPH_BENCH_PEERS", BENCH.parent / ".venv-bench"))
COMPILED_BY_TORCH = BENCH.parent / "build" / "bench" / "inductor"
PEERS = {
    "PyTorch": ("torch", "peers.torch_peer"),
    "JAX": ("jax", "peers.jax_peer"),
    "MLX": ("mlx", "peers.mlx_peer"),
    "ONNX Runtime": ("onnx", "peers.onnxruntime_peer"),
    "OpenVINO": ("onnx", "peers.openvino_peer"),
    "numpy": ("numpy", "peers.numpy_peer"),
}
"""The environment of each peer, and the module that runs there."""


class SideFailed(Exception):
    """A side failed to start or ended; the message contains the end of its error output."""


@dataclass(frozen=True)
class Side:
    """The library and mode to measure, and the command that does it."""

    name: str
    mode: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def label(self) -> str:
        return f"{self.name} {self.mode}"


def ours(script: str, build: str, mode: str | None = None) -> Side:
    """Return our side: a script in this folder, run with the name of one of its builders."""
    return Side(OURS, mode or build, (sys.executable, script, "--serve", build))


def peer(name: str, workload: str, modes: Iterable[str], compiled: Path = COMPILED_BY_TORCH) -> list[Side]:
    """Return a peer in these modes, each with the system's allocator and, where it is installed, with tcmalloc.

    Args:
        name: Name of the peer, a key of `PEERS`.
        workload: Name of the workload in the peer's script.
        modes: Names of the modes.
        compiled: Cache folder for kernels compiled by torch.compile.
    Returns:
        A list of sides, empty if the peer's environment does not exist.
    """
    environment, module = PEERS[name]
    python = _python(name, environment)
    return [
        Side(
            name,
            mode + suffix,
            (str(python), "-m", module, workload, mode),
            {"TORCHINDUCTOR_CACHE_DIR": str(compiled), **preload},
        )
        for mode in modes
        for suffix, preload in _allocators().items()
        if python
    ]


def torch_operations() -> list[Side]:
    """Return PyTorch's side for single operations: eager mode with the best available allocator."""
    suffix, preload = list(_allocators().items())[-1]
    python = _python("PyTorch", "torch")
    return [Side("PyTorch", "eager" + suffix, (str(python), "-m", "peers.torch_operations"), preload)] if python else []


def python_of(name: str) -> Path | None:
    """Return the interpreter of a peer's environment; if it does not exist, print a message and return None."""
    return _python(name, PEERS[name][0])


@functools.cache
def _python(name: str, environment: str) -> Path | None:
    python = ENVIRONMENTS / environment / "bin" / "python"
    if python.exists():
        return python
    print(f"{name} is skipped because {python} does not exist; `make bench` creates it", file=sys.stderr)
    return None


def _allocators() -> dict[str, dict[str, str]]:
    """Return, for each allocator, its environment variables by the suffix that it adds to a mode's name."""
    tcmalloc = ctypes.util.find_library("tcmalloc_minimal")
    return {"": {}} | ({", tcmalloc": {"LD_PRELOAD": tcmalloc}} if tcmalloc else {})


class Running:
    """The process of a side, as a context manager that ends it on exit."""

    def __init__(self, side: Side, timeout: float = 900.0) -> None:
        self.side, self._timeout = side, timeout
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            side.command,
            cwd=BENCH,
            env=os.environ | side.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            begun = self._answer()
        except SideFailed:
            self.close()
            raise
        self.resident_after_import, self.version = float(begun["resident"]), str(begun["version"])

    @property
    def id(self) -> int:
        return self._process.pid

    def ask(self, command: str) -> Any:
        """Send a protocol command and return its answer; raise SideFailed if the process does not answer."""
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # Reading the answer then reports why the process ended.
        return self._answer()

    def setup(self, name: str = "") -> float:
        """Build the workload, selected by name if the process can build several; return the number of seconds."""
        return float(self.ask(f"setup {name}".strip())["seconds"])

    def steps(self, count: int) -> tuple[list[float], float | None]:
        """Run steps; return the seconds of each and the value of the last."""
        answer = self.ask(f"step {count}")
        return answer["seconds"], answer["value"]

    def peak_memory(self) -> float:
        """Return the peak resident memory in MB."""
        return float(self.ask("memory")["peak"])

    def _answer(self) -> Any:
        if not self._selector.select(self._timeout):
            raise SideFailed(f"{self.side.label} did not answer within {self._timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            told = self._errors.read().decode(errors="replace").strip().splitlines()[-15:]
            raise SideFailed("\n  ".join([f"{self.side.label} exited with code {self._process.returncode}:", *told]))
        return json.loads(line)

    def close(self) -> None:
        """End the process, if it is still running."""
        if self._errors.closed:
            return
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._selector.close()
        self._errors.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
