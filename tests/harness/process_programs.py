"""Functions that the distributed tests run in several processes; `processes.py` calls them by name with arguments.

Each process returns its result, which must be picklable. The models are small, and seeds distinguish their values.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np


def perceptron(dropout=0.0):
    layers = [mg.nn.Linear(24), mg.nn.Tanh(), mg.nn.Dropout(dropout), mg.nn.Linear(24), mg.nn.ReLU(), mg.nn.Linear(5)]
    return mg.nn.Sequential(*layers)


def network():
    nn = mg.nn
    first = [nn.Conv2d(6, 3, padding="TF_SAME", bias=False), nn.BatchNorm(momentum=0.9), nn.ReLU()]
    second = [nn.Conv2d(6, 3, padding="TF_SAME", bias=False), nn.BatchNorm(momentum=0.9), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(5))


SAVED_AT = 6  # Steps in the checkpoint that `dying` saves after step 5, when step 6 has already started.
MODELS = {"perceptron": (perceptron, (12,)), "network": (network, (6, 6, 2))}


def squared(outputs, labels):
    g = outputs.graph
    return mg.nn.losses.mean_squared_error(outputs, g.cast(g.one_hot(labels, 5), outputs.dtype))


LOSSES = {
    None: "cross_entropy",
    "squared": squared,
    "ignoring": functools.partial(mg.nn.losses.cross_entropy, ignore_index=2),
    "weighted": functools.partial(mg.nn.losses.cross_entropy, class_weights=[0.1, 1.0, 5.0, 2.0, 0.5]),
}


def dataset(model, samples, dtype):
    rng = np.random.default_rng(5)
    shape = MODELS[model][1]
    return rng.normal(size=(samples, *shape)).astype(dtype), rng.integers(0, 5, samples).astype(np.int32)


def fitted(
    model="perceptron", samples=96, batch=8, steps=12, dtype="float64", optimizer="Adam", distributed=True, loss=None,
    dropout=0.0, seed=3, sizes=None, path=None, resume=None, save_at=None, **options,
):  # fmt: skip
    """Train with `fit` and return losses, weights and other results."""
    make = MODELS[model][0]
    module = make(dropout) if model == "perceptron" else make()
    rate = {"Adam": 1e-2, "SGD": 0.1}[optimizer]
    trainer = mg.Trainer(
        module, LOSSES[loss], getattr(mg.optim, optimizer)(rate), device="cpu", seed=seed, dtype=dtype,
        distributed=distributed, **options,
    )  # fmt: skip
    x, y = dataset(model, samples, dtype)
    if resume is not None:
        trainer.load(resume)
    if save_at is not None:
        trainer.fit(x, y, iterations=save_at, batch_size=batch, progress=False)
        trainer.save(path)
        steps -= save_at
    trainer.fit(x, y, iterations=steps, batch_size=batch, progress=False)
    partnership = trainer.state.partnership
    return {
        "losses": list(trainer.history.loss),
        "history": trainer.history.steps,
        "weights": trainer.weights(),
        "step": trainer.step,
        "buckets": len([s for s, _ in partnership._slots if "bucket" in s]) if partnership else 0,
        "evaluated": trainer.evaluate(x, y),
        "explained": mg.distributed.explain(trainer),
    }


def many(cases):
    """Run several trainings in one start of the processes."""
    return [fitted(**case) for case in cases]


def by_routes(machines, without=(), **options):
    """Run `fitted` as if the processes were on several machines or lacked some kinds of shared memory.

    Args:
        machines: Machine number of each rank.
        without: Kinds of shared memory that are not available.

    Returns:
        The result of `fitted`, plus the files that are left in the shared memory folder.
    """
    from mpsgraph.distributed import machine

    def full(size):
        raise OSError(errno.ENOSPC, "No space left on device")

    machine.name = lambda: f"machine {machines[mg.distributed.rank()]}"
    for kind in without:
        setattr(machine, kind, full)
    result = fitted(**options)
    left = [path.name for path in Path("/dev/shm").glob("mpsgraph-*") if path.stat().st_uid == os.getuid()]
    return result | {"left": left}


def disagreeing(**by_rank):
    """Train with one setting that differs in one process.

    Returns the error message for each setting, and the time taken.
    """
    rank = mg.distributed.rank()
    other = rank == mg.distributed.size() - 1
    begin, told = time.perf_counter(), []
    for what in ("model", "seed", "optimizer", "variables"):
        width = 7 if other and what == "variables" else 5
        module = mg.nn.Linear(width) if not (other and what == "model") else mg.nn.Sequential(mg.nn.Linear(width))
        rate = mg.optim.Adam(0.1) if other and what == "optimizer" else mg.optim.SGD(0.1)
        seed = 1 if other and what == "seed" else 0
        trainer = mg.Trainer(module, optimizer=rate, seed=seed, distributed=True, device="cpu")
        x, y = dataset("perceptron", 8, "float32")
        try:
            trainer.train_step(x, y)
            told.append("nothing")
        except mg.GraphError as error:
            told.append(str(error))
    return told, time.perf_counter() - begin


def failing_build():
    """Fail to build the step in one process; all processes must get an error."""

    class Odd(mg.Trainer):
        def training_step(self, inputs, labels, weights=None):
            if mg.distributed.rank() == 1:
                raise ValueError("no such step")
            return super().training_step(inputs, labels, weights)

    x, y = dataset("perceptron", 8, "float32")
    try:
        Odd(mg.nn.Linear(5), distributed=True, device="cpu").train_step(x, y)
    except (mg.GraphError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def collective_calls():
    rank, size = mg.distributed.rank(), mg.distributed.size()
    mg.distributed.barrier()
    results = {
        "sum": mg.distributed.all_reduce(np.arange(3.0) + rank),
        "mean": mg.distributed.all_reduce(np.float16([rank, 1]), "mean"),
        "max": mg.distributed.all_reduce(np.int32([rank, -rank]), "max"),
        "min": mg.distributed.all_reduce(np.int64([rank]), "min"),
        "empty": mg.distributed.all_reduce(np.zeros((0, 2))),
        "root": mg.distributed.broadcast(np.arange(4) * size if rank == size - 1 else None, root=size - 1),
    }
    refused = {}
    for name, call in {
        "shape": lambda: mg.distributed.all_reduce(np.zeros(2 + (rank == 0))),
        "dtype": lambda: mg.distributed.all_reduce(np.zeros(2, np.float32 if rank else np.float64)),
        "operation": lambda: mg.distributed.all_reduce(np.zeros(2), "sum" if rank else "max"),
        "nothing": lambda: mg.distributed.broadcast(None),
        "root": lambda: mg.distributed.broadcast(np.zeros(2), root=size),
        "whole": lambda: mg.distributed.all_reduce(np.int32([1]), "mean"),
    }.items():
        try:
            refused[name] = f"no error: {call()}"
        except mg.Error as error:
            refused[name] = f"{type(error).__name__}: {error}"
    return results, refused


def custom_step():
    """Train with a custom step that reports two values, each averaged over all processes."""

    class Both(mg.Trainer):
        def training_step(self, inputs, labels, weights=None):
            outputs = self.forward(inputs)
            loss = mg.nn.losses.mean_squared_error(outputs, labels)
            self.minimize(loss)
            return {"loss": loss, "largest": mg.nn.losses.mean_of_all(outputs * outputs)}

    rank, size = mg.distributed.rank(), mg.distributed.size()
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float64)
    part = slice(8 * rank // size, 8 * (rank + 1) // size)
    trainer = Both(mg.nn.Linear(2), optimizer=mg.optim.SGD(0.1), dtype="float64", distributed=True, device="cpu")
    return [trainer.train_step(x[part], x[part, :2]).values for _ in range(4)]


def own_data(counts):
    """Train with iterables of different lengths; the epoch ends with the shortest."""
    rank = mg.distributed.rank()
    trainer = mg.Trainer(mg.nn.Linear(5), distributed=True, device="cpu")
    x, y = dataset("perceptron", 4, "float32")
    trainer.fit(((x + rank, y) for _ in range(counts[rank])), progress=False)
    return trainer.step, trainer.history.loss


def masks():
    """Return the random states of the dropout layer after the first step, which contain the rank of the process."""
    seen = []

    class Watched(mg.Trainer):
        def training_step(self, inputs, labels, weights=None):
            outputs = self.forward(inputs)
            self.minimize(mg.nn.losses.mean_of_all(outputs))
            return {"loss": mg.nn.losses.mean_of_all(outputs)}

    model = mg.nn.Sequential(mg.nn.Dropout(0.5), mg.nn.Linear(1))
    trainer = Watched(model, distributed=True, device="cpu", seed=4)
    x = np.ones((2, 16), np.float32)
    trainer.train_step(x).wait()
    for state in trainer.state.random_states:
        seen.append(trainer.graph.variable_value(state).tolist())
    return seen


def unreadable(path):
    """Return the errors of loading from and saving to a path that does not exist."""
    trainer = mg.Trainer(mg.nn.Linear(5), distributed=True, device="cpu")
    trainer.train_step(*dataset("perceptron", 4, "float32"))
    said = []
    for call in (trainer.load, trainer.save):
        try:
            call(path)
        except mg.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def packaged(path):
    """Return the error of mpsgraph.save for a distributed trainer."""
    trainer = mg.Trainer(mg.nn.Linear(5), distributed=True, device="cpu")
    trainer.train_step(*dataset("perceptron", 4, "float32"))
    try:
        mg.save(path, trainer)
    except mg.UnsupportedError as error:
        return str(error)


def dying(how, path, ready):
    """Train and save a checkpoint; process 1 then ends early in one of several ways."""
    rank = mg.distributed.rank()
    trainer = mg.Trainer(perceptron(0.2), optimizer=mg.optim.Adam(1e-2), seed=3, distributed=True, device="cpu")
    x, y = dataset("perceptron", 96, "float32")

    class Saves(mg.training.callbacks.Callback):
        def on_step_end(self, trainer, step, values):
            if step == 5:
                trainer.save(path)  # Saves the state after all steps that have started.
            if step == 8 and rank == 1:
                Path(ready).write_text(str(time.time()))
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "exit":
                    sys.exit(3)
                raise ValueError("the disk is on fire")

    trainer.fit(x, y, iterations=4000, batch_size=8, callbacks=[Saves()], progress=False)


def page(code):
    """Run the programs of docs/distributed.md, one after the other."""
    import matplotlib

    matplotlib.use("Agg")
    names = {}
    exec(compile(code, "distributed.md", "exec"), names)
    return names["history"].loss, names["hidden"]


def profiled(path):
    """Return the profiles of steps that communicate gradient buckets during computation."""
    layers = [layer for _ in range(6) for layer in (mg.nn.Linear(512), mg.nn.ReLU())]
    options = mg.distributed.DataParallel(bucket_bytes=1 << 20)
    trainer = mg.Trainer(mg.nn.Sequential(*layers, mg.nn.Linear(5)), distributed=options, device="cpu")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(128, 512)).astype(np.float32), rng.integers(0, 5, 128).astype(np.int32)
    for _ in range(3):
        trainer.train_step(x, y)
    trainer.wait()
    steps = []
    for _ in range(12):
        with mg.profiler.profile() as profile:
            trainer.train_step(x, y).wait()
        kernels = [(k.kernel.kind, k.name, k.begin, k.end) for k in profile.kernels]
        travels = [(r.name, r.thread, r.begin, r.end) for r in profile.records if r.category == "communication"]
        steps.append((kernels, travels))
    return steps, mg.distributed.statistics(trainer)
