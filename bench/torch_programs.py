"""Training steps of PyTorch's programs by each way in, and by PyTorch itself: median times, and the first step's.

    .venv-conformance/bin/python bench/torch_programs.py [--rounds 5]   with mpsgraph on the path, as `make test-torch`

The ways in are Trainer, compile_step and the backend of torch.compile; beside them stand eager and Inductor (which
needs a C++ compiler at hand). Each side is a process of its own, and they take turns. It stands beside the other
benchmarks, which run ours where PyTorch is not; its numbers go to no page by themselves.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

OURS, PEERS = ("trainer", "compile_step", "backend"), ("eager", "inductor")
SIDES = (*OURS, *PEERS)
PROGRAMS = (
    "perceptron, batch 64",
    "convolutions and batch norm, batch 32",
    "transformer, 4 x 64 words",
    "LSTM, 16 steps",
)


def programs() -> dict[str, Callable[[], tuple[Any, Any, Any, Any]]]:
    """By name: what makes a module, its loss, inputs and labels."""
    import torch
    from torch import nn

    entropy = nn.functional.cross_entropy

    def perceptron() -> Any:
        layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
        return nn.Sequential(*layers), entropy, torch.randn(64, 784), torch.randint(0, 10, (64,))

    def convolutions() -> Any:
        layers: list[Any] = []
        for inner, outer in ((1, 32), (32, 64)):
            layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Flatten(), nn.Linear(64 * 49, 10)]
        return nn.Sequential(*layers), entropy, torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,))

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
            block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, activation="gelu", batch_first=True)
            self.blocks, self.head = nn.TransformerEncoder(block, 4, enable_nested_tensor=False), nn.Linear(128, 256)
            self.register_buffer("mask", torch.triu(torch.full((64, 64), -math.inf), 1))

        def forward(self, x: Any) -> Any:
            y = self.words(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.blocks(y, self.mask, is_causal=True)).transpose(1, 2)

    def transformer() -> Any:
        return Words(), entropy, torch.randint(0, 256, (4, 64)), torch.randint(0, 256, (4, 64))

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    def sequences() -> Any:
        return Sequences(), entropy, torch.randn(32, 16, 32), torch.randint(0, 10, (32,))

    return dict(zip(PROGRAMS, (perceptron, convolutions, transformer, sequences), strict=True))


def stepping(side: str, made: tuple[Any, Any, Any, Any]) -> Callable[[], float]:
    """A function that makes a step and gives its loss."""
    import torch

    module, loss, x, labels = made
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    if side == "trainer" or side == "compile_step":
        import mpsgraph as mg

        if side == "trainer":
            trainer = mg.torch.Trainer(module, loss, optimizer)
            return lambda: float(trainer.step(x, labels))
        step = mg.torch.compile_step(module, loss, optimizer)
        return lambda: float(step(x, labels))
    compiled = module
    if side == "backend":
        import mpsgraph as mg

        compiled = mg.torch.compile(module)
    elif side == "inductor":
        compiled = torch.compile(module)

    def run() -> float:
        optimizer.zero_grad()
        found = loss(compiled(x), labels)
        found.backward()
        optimizer.step()
        return float(found.detach())

    return run


def serve(side: str, threads: int) -> None:
    """Answers lines of a program's name and a number of steps by their times, and the last loss."""
    import torch

    torch.set_num_threads(threads)
    known: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name, steps = json.loads(line)
        if name not in known:
            torch.manual_seed(0)
            known[name] = stepping(side, programs()[name]())
        times, loss = [], 0.0
        try:
            for _ in range(steps):
                began = time.perf_counter()
                loss = known[name]()
                times.append(time.perf_counter() - began)
        except Exception as error:  # Inductor without a compiler, for one
            print(json.dumps([None, f"{type(error).__name__}: {error}".splitlines()[0][:100]]), flush=True)
            continue
        print(json.dumps([times, loss]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30, help="in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", nargs="*", default=[], choices=SIDES, help="sides that are left out")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    names = [side for side in SIDES if side not in options.without]
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, __file__, "--threads", str(options.threads), "--serve"]
    sides = {
        side: subprocess.Popen(
            [*command, side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for side in names
    }

    def asked(side: str, name: str, steps: int) -> tuple[list[float] | None, Any]:
        process = sides[side]
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps([name, steps]) + "\n")
        process.stdin.flush()
        times, loss = json.loads(process.stdout.readline())
        return times, loss

    for name in PROGRAMS:
        first = {side: asked(side, name, 1) for side in names}
        working = [side for side in names if first[side][0] is not None]
        for side in set(names) - set(working):
            print(f"{name}: {side} does not run: {first[side][1]}")
        losses = {side: first[side][1] for side in working}
        assert max(losses.values()) - min(losses.values()) <= 1e-3 * abs(min(losses.values())), losses
        for side in working:
            asked(side, name, 3)
        rounds = [{side: asked(side, name, options.steps)[0] for side in working} for _ in range(options.rounds)]
        medians = {side: statistics.median(t for r in rounds for t in r[side] or ()) * 1e3 for side in working}
        best = min((medians[side] for side in PEERS if side in medians), default=math.nan)
        print(f"{name}: the best of PyTorch's own {best:.2f} ms")
        for side in working:
            begun = (first[side][0] or [math.nan])[0]
            print(
                f"    {side:14}{medians[side]:10.3f} ms a step{medians[side] / best:8.2f}    first step {begun:6.2f} s"
            )
    for process in sides.values():
        process.communicate()


if __name__ == "__main__":
    main()
