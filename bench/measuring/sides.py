"""Sides of a comparison: ours and the peers' modes, each a command that speaks the protocol, and its running process.

A peer lives in a virtual environment of its own that `make bench` makes; where that is missing, ours is measured alone.
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
"""Of each peer its environment and the module that is measured there."""


class SideFailed(Exception):
    """A side could not be started, or died; the message carries the end of what it wrote."""


@dataclass(frozen=True)
class Side:
    """Who is measured, in which mode, and the command that does it."""

    name: str
    mode: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def label(self) -> str:
        return f"{self.name} {self.mode}"


def ours(script: str, build: str, mode: str | None = None) -> Side:
    """Our side: a script of this folder that serves one of its builders."""
    return Side(OURS, mode or build, (sys.executable, script, "--serve", build))


def peer(name: str, workload: str, modes: Iterable[str], compiled: Path = COMPILED_BY_TORCH) -> list[Side]:
    """A peer in these modes, each with the system's allocator and, where it is installed, with tcmalloc.

    Args: compiled, the folder of kernels that torch.compile has made, and makes. Result: none without its environment.
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
    """PyTorch's single operations, eager, with its best allocator."""
    suffix, preload = list(_allocators().items())[-1]
    python = _python("PyTorch", "torch")
    return [Side("PyTorch", "eager" + suffix, (str(python), "-m", "peers.torch_operations"), preload)] if python else []


def python_of(name: str) -> Path | None:
    """The interpreter of a peer's environment; None, with a word, where that is missing."""
    return _python(name, PEERS[name][0])


@functools.cache
def _python(name: str, environment: str) -> Path | None:
    python = ENVIRONMENTS / environment / "bin" / "python"
    if python.exists():
        return python
    print(f"{name} is left out: there is no {python}; `make bench` makes it", file=sys.stderr)
    return None


def _allocators() -> dict[str, dict[str, str]]:
    """What is added to a mode's name, and the environment that it means."""
    tcmalloc = ctypes.util.find_library("tcmalloc_minimal")
    return {"": {}} | ({", tcmalloc": {"LD_PRELOAD": tcmalloc}} if tcmalloc else {})


class Running:
    """A side's process. A context manager; leaving it ends the process."""

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
        """The answer to a command of the protocol. Errors: SideFailed."""
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer()

    def setup(self, name: str = "") -> float:
        """Builds the workload, or the one of this name where the process knows several. Result: seconds."""
        return float(self.ask(f"setup {name}".strip())["seconds"])

    def steps(self, count: int) -> tuple[list[float], float | None]:
        """Seconds of each step, and what the last one returned."""
        answer = self.ask(f"step {count}")
        return answer["seconds"], answer["value"]

    def peak_memory(self) -> float:
        """MB, the most that was ever resident."""
        return float(self.ask("memory")["peak"])

    def _answer(self) -> Any:
        if not self._selector.select(self._timeout):
            raise SideFailed(f"{self.side.label} did not answer within {self._timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            told = self._errors.read().decode(errors="replace").strip().splitlines()[-15:]
            raise SideFailed("\n  ".join([f"{self.side.label} ended with code {self._process.returncode}:", *told]))
        return json.loads(line)

    def close(self) -> None:
        """Ends the process; nothing when it has ended already."""
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
