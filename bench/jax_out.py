"""Training steps on NVIDIA GPUs: mpsgraph graphs exported to XLA, compared with compiled PyTorch steps.

    python bench/jax_out.py write                     needs mpsgraph and JAX but no GPU; writes build/bench/jax_out
    python bench/jax_out.py run [--output FILE]       needs JAX, numpy, and PyTorch for the GPU; installs nothing

`write` exports each step with jax.export for CUDA and the CPU, together with the rule for its initial values and the
losses of the CPU device, so the GPU machine does not need mpsgraph. `run` measures each side in a separate process,
prints a table, and writes JSON. It ends within --seconds (450) and lists the measurements that it did not reach.

Both sides keep their batch on the GPU and read the loss at the end of a round; the result is the median of the rounds'
means. Matmuls and convolutions use TF32 on both sides, or float32 after `write --precision highest`. Without a GPU, it
runs on two virtual CPU devices; `write --small` makes networks small enough for that.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BENCH = Path(__file__).resolve().parent
FILES = BENCH.parent / "build" / "bench" / "jax_out"
RECORDED = 4  # Losses to record on the CPU device. The large batches record none because they would take minutes.
WARMUP, ROUNDS = 3, 7
GPT = {"layers": 6, "features": 384, "heads": 6, "positions": 256, "characters": 96, "batch": 64, "rate": 1e-3}
SMALL_GPT = {"layers": 1, "features": 16, "heads": 2, "positions": 8, "characters": 11, "batch": 4, "rate": 1e-3}
MODES = {"W1": ("default", "reduce-overhead"), "GPT": ("default", "reduce-overhead")}


def sizes_of(name: str, small: bool) -> dict[str, Any]:
    """Return the batch size, the steps in a round, and the sizes of the GPT."""
    gpt = SMALL_GPT if small else GPT
    large = {"W1": 64, "W2": 64, "W2 1024": 1024, "W2 2048": 2048, "GPT": gpt["batch"]}
    batch = {"W1": 8, "W2": 4, "W2 1024": 8, "W2 2048": 16, "GPT": gpt["batch"]}[name] if small else large[name]
    steps = {"W1": 200, "W2": 20, "W2 1024": 10, "W2 2048": 10, "GPT": 20}[name]
    return {"batch": batch, "steps": 2 if small else steps, "gpt": gpt, "small": small}


NAMES = ("W1", "W2", "W2 1024", "W2 2048", "GPT")
DEVICES = {"W2 1024": [1, 2], "W2 2048": [2]}  # W2 2048 uses 1,024 images per GPU.


def batch_of(name: str, sizes: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels, the same on every machine. Images are NHWC."""
    rng = np.random.default_rng(7)
    if name == "GPT":
        gpt = sizes["gpt"]
        text = rng.integers(gpt["characters"], size=(gpt["batch"], gpt["positions"] + 1), dtype=np.int32)
        return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])
    shape = (28, 28, 1) if name == "W1" else (32, 32, 3)
    images = rng.standard_normal((sizes["batch"], *shape), np.float32)
    return images, rng.integers(10, size=sizes["batch"], dtype=np.int32)


def first_value(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return the initial value of a weight, which depends only on its name, shape, and dtype."""
    if len(shape) >= 2:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        fan = int(np.prod(shape[:-1]))
        return (rng.standard_normal(shape) / np.sqrt(fan)).astype(dtype)
    ones = name.endswith(("gamma", "moving_variance"))
    return np.full(shape, float(ones), dtype)


# --- write: with mpsgraph -----------------------------------------------------------------------------------------


def gpt_network(gpt: dict[str, Any]) -> Any:
    """Build a pre-norm GPT with causal attention, GELU, and learned positions; `torch_gpt` is the same in PyTorch."""
    import mpsgraph as mg
    from mpsgraph import nn

    features, heads = gpt["features"], gpt["heads"]

    class Block(nn.Module):
        def __init__(self) -> None:
            self.norm1, self.norm2 = nn.LayerNorm(epsilon=1e-5), nn.LayerNorm(epsilon=1e-5)
            self.together, self.out = nn.Linear(3 * features), nn.Linear(features)
            self.up, self.down = nn.Linear(4 * features), nn.Linear(features)

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            g: Any = x.graph
            made = g.reshape(self.together(self.norm1(x)), (-1, gpt["positions"], 3 * heads, features // heads))
            query, key, value = g.split(g.transpose(made, (0, 2, 1, 3)), 3, 1)
            seen = g.transpose(g.scaled_dot_product_attention(query, key, value, causal=True), (0, 2, 1, 3))
            x = x + self.out(g.reshape(seen, (-1, gpt["positions"], features)))
            return x + self.down(nn.GELU()(self.up(self.norm2(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            self.characters = nn.Embedding(gpt["characters"], features)
            self.places = nn.Embedding(gpt["positions"], features)
            self.blocks = nn.Sequential(*(Block() for _ in range(gpt["layers"])))
            self.norm, self.next = nn.LayerNorm(epsilon=1e-5), nn.Linear(gpt["characters"])

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            g: Any = x.graph
            places = g.constant(np.arange(gpt["positions"], dtype=np.int32))
            return self.next(self.norm(self.blocks(self.characters(x) + self.places(places))))

    return Network()


def trainer_of(name: str, sizes: dict[str, Any], engine: Any = None) -> Any:
    """Build the Trainer of a workload; small ones have fewer channels and, for W2 and the GPT, fewer layers."""
    import mpsgraph as mg

    sys.path.insert(0, str(BENCH))
    if name == "GPT":
        adam = mg.optim.Adam(sizes["gpt"]["rate"])
        return mg.Trainer(gpt_network(sizes["gpt"]), optimizer=adam, metrics=(), engine=engine)
    import workloads

    if sizes["small"]:
        workloads.W1_CHANNELS, workloads.W1_HIDDEN = (2, 3), 8
        workloads.W2_STEM = 4
        workloads.W2_STAGES = ((2, 8, 1, 1), (4, 16, 1, 2))  # type: ignore[assignment]
    if name == "W1":
        import w1_digits

        made = w1_digits.training()
        return mg.Trainer(made.model, optimizer=mg.optim.SGD(workloads.W1_RATE), metrics=(), engine=engine)
    import w2_resnet50

    sgd = mg.optim.SGD(workloads.W2_RATE)
    return mg.Trainer(w2_resnet50.network(), optimizer=sgd, metrics=(), engine=engine)


def write(folder: Path, small: bool, precision: str, only: list[str] | None = None) -> None:
    """Write the files of each workload: its step for each device count, its initial values, and reference losses."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2 " + os.environ.get("XLA_FLAGS", "")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import flatbuffers
    import jax
    import mpsgraph as mg

    # jax.export needs flatbuffers to read files, and JAX does not install it; copy it, as it is pure Python and small.
    shutil.copytree(Path(flatbuffers.__file__).parent, folder / "flatbuffers", dirs_exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in only or NAMES:
        began = time.perf_counter()
        sizes = sizes_of(name, small)
        inputs, labels = batch_of(name, sizes)
        trainer = trainer_of(name, sizes)
        step = mg.jax.function(trainer, example=(inputs, labels), precision=precision)
        state = step.state()
        weights = {key: first_value(key, value.shape, str(value.dtype)) for key, value in trainer.weights().items()}
        state.update(weights)
        rules = {}
        for key, value in state.items():
            rule: Any = "weight" if key in weights else value.tolist() if value.size <= 16 else float(value.flat[0])
            rules[key] = {"shape": list(value.shape), "dtype": str(value.dtype), "rule": rule}
        feeds = feeds_of(step.inputs, trainer, inputs, labels)
        described = {
            "name": name, "sizes": sizes, "precision": precision, "state": rules, "jax": jax.__version__,
            "parameters": [path for path, _ in trainer.model.named_parameters()], "losses": [],
            "rates": {key: value.tolist() for key, value in feeds.items() if key.startswith("learning_rate")},
            "devices": DEVICES.get(name, [1]),
        }  # fmt: skip
        for count in described["devices"]:
            exported(step, state, feeds, count, folder / f"{file_of(name)}-{count}.stablehlo")
        if name not in DEVICES:
            trainer.set_weights(weights)
            described["losses"] = [float(trainer.train_step(inputs, labels)) for _ in range(RECORDED)]
        (folder / f"{file_of(name)}.json").write_text(json.dumps(described))
        print(f"{name}: written in {time.perf_counter() - began:.1f} s", flush=True)


def file_of(name: str) -> str:
    return name.lower().replace(" ", "_")


def feeds_of(placeholders: Any, trainer: Any, inputs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    known = {"inputs": inputs, "labels": labels}
    rate = np.float32(trainer.learning_rate)
    return {name: known[name] if name in known else np.asarray(rate) for name in placeholders}


def exported(step: Any, state: Any, feeds: Any, count: int, path: Path) -> None:
    """Export a step for `count` devices, which split the batch, as StableHLO with JAX's calling convention."""
    import jax

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, parts = shardings(mesh)

    def spec(value: np.ndarray, sharding: Any) -> Any:
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)

    specs = (
        {key: spec(value, whole) for key, value in state.items()},
        {key: spec(value, parts if value.ndim else whole) for key, value in feeds.items()},
    )
    jitted = jax.jit(step, donate_argnums=0, out_shardings=whole)
    made = jax.export.export(jitted, platforms=("cuda", "cpu"))(*specs)
    path.write_bytes(made.serialize())


def shardings(mesh: Any) -> tuple[Any, Any]:
    import jax

    named, spec = jax.sharding.NamedSharding, jax.sharding.PartitionSpec
    return named(mesh, spec()), named(mesh, spec("data"))


# --- the sides, each in its own process ---------------------------------------------------------------------------


def timed(step: Callable[[], Any], wait: Callable[[Any], float], sizes: dict[str, Any]) -> dict[str, Any]:
    """Run a step repeatedly and return its first losses and its median time over the rounds, in ms per step."""
    began = time.perf_counter()
    losses = [wait(step())]
    first = time.perf_counter() - began
    losses += [wait(step()) for _ in range(RECORDED - 1)]
    for _ in range(WARMUP):
        wait(step())
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(sizes["steps"]):
            last = step()
        wait(last)
        rounds.append((time.perf_counter() - began) / sizes["steps"] * 1e3)
    return {
        "losses": losses, "ms": statistics.median(rounds), "least": min(rounds), "most": max(rounds),
        "first_seconds": first,
    }  # fmt: skip


def described_of(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{file_of(name)}.json").read_text())


def xla_side(folder: Path, name: str, count: int) -> dict[str, Any]:
    import jax

    sys.path.append(str(folder))  # flatbuffers is in this folder.
    told = described_of(folder, name)
    made = jax.export.deserialize(bytearray((folder / f"{file_of(name)}-{count}.stablehlo").read_bytes()))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, parts = shardings(mesh)
    state = {}
    for key, entry in told["state"].items():
        shape, dtype, rule = tuple(entry["shape"]), entry["dtype"], entry["rule"]
        value = first_value(key, shape, dtype) if rule == "weight" else np.broadcast_to(np.asarray(rule, dtype), shape)
        state[key] = jax.device_put(value, whole)
    inputs, labels = batch_of(name, told["sizes"])
    feeds = {"inputs": jax.device_put(inputs, parts), "labels": jax.device_put(labels, parts)}
    feeds |= {key: jax.device_put(np.float32(rate), whole) for key, rate in told["rates"].items()}
    run = jax.jit(made.call, donate_argnums=0)

    def step() -> Any:
        nonlocal state
        reported, state = run(state, feeds)
        return reported["loss"]

    found = timed(step, float, told["sizes"])
    return {**found, "device": jax.devices()[0].device_kind, "version": f"JAX {jax.__version__}"}


def torch_gpt(gpt: dict[str, Any]) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    features, heads = gpt["features"], gpt["heads"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
            self.together, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
            self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

        def forward(self, x: Any) -> Any:
            made = self.together(self.norm1(x)).view(len(x), -1, 3 * heads, features // heads).transpose(1, 2)
            query, key, value = made.chunk(3, 1)
            seen = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
            x = x + self.out(seen.reshape(len(x), -1, features))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(gpt["characters"], features)
            self.places = nn.Embedding(gpt["positions"], features)
            self.blocks = nn.Sequential(*(Block() for _ in range(gpt["layers"])))
            self.norm, self.next = nn.LayerNorm(features), nn.Linear(features, gpt["characters"])

        def forward(self, x: Any) -> Any:
            places = self.places(torch.arange(x.shape[1], device=x.device))
            return self.next(self.norm(self.blocks(self.characters(x) + places)))

    return Network()


def torch_network(name: str, sizes: dict[str, Any]) -> Any:
    if name == "GPT":
        return torch_gpt(sizes["gpt"])
    sys.path.insert(0, str(BENCH))
    import workloads

    if sizes["small"]:
        workloads.W1_CHANNELS, workloads.W1_HIDDEN, workloads.W1_FLAT = (2, 3), 8, 7 * 7 * 3
        workloads.W2_STEM = 4
        workloads.W2_STAGES = ((2, 8, 1, 1), (4, 16, 1, 2))  # type: ignore[assignment]
    from peers import torch_networks

    return torch_networks.DigitNetwork() if name == "W1" else torch_networks.resnet50()


def give_weights(module: Any, told: dict[str, Any]) -> None:
    """Copy our weights into a PyTorch module, in its layout; both have the same parameters in the same order."""
    import torch

    theirs = dict(module.named_parameters())
    assert len(theirs) == len(told["parameters"]), (
        f"the networks differ: {len(theirs)} parameters in PyTorch, {len(told['parameters'])} in mpsgraph"
    )
    with torch.no_grad():
        for path, parameter, owner in zip(told["parameters"], theirs.values(), theirs, strict=True):
            entry = told["state"][path]
            value = first_value(path, tuple(entry["shape"]), entry["dtype"])
            is_embedding = owner.startswith(("characters", "places"))
            if value.ndim == 4:
                value = value.transpose(3, 2, 0, 1)
            elif value.ndim == 2 and not is_embedding:
                value = value.T
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def torch_side(folder: Path, name: str, mode: str) -> dict[str, Any]:
    import torch
    from torch.nn import functional as F

    told = described_of(folder, name)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fast = told["precision"] == "default"
    torch.set_float32_matmul_precision("high" if fast else "highest")
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = fast, True
    module = torch_network(name, told["sizes"])
    give_weights(module, told)
    module = module.to(device)
    inputs, labels = (torch.from_numpy(array) for array in batch_of(name, told["sizes"]))
    labels = labels.long().to(device)
    if name == "GPT":
        inputs = inputs.long().to(device)
        options = {"fused": True} if device.type == "cuda" else {}
        optimizer = torch.optim.Adam(module.parameters(), told["sizes"]["gpt"]["rate"], **options)
    else:
        module = module.to(memory_format=torch.channels_last)
        inputs = inputs.permute(0, 3, 1, 2).to(device).contiguous(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(module.parameters(), next(iter(told["rates"].values())))
    loss_of = lambda x, y: F.cross_entropy(module(x).flatten(0, -2), y.flatten())  # noqa: E731
    compiled = loss_of if mode == "eager" else torch.compile(loss_of, mode=mode)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(inputs, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    found = timed(step, float, told["sizes"])
    where = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    return {**found, "device": where, "version": f"PyTorch {torch.__version__}", "mode": mode}


# --- run ----------------------------------------------------------------------------------------------------------


def side(folder: Path, arguments: list[str], seconds: float) -> dict[str, Any]:
    """Return the result of a side's process, or {"error": ...} if it failed."""
    if seconds < 20:
        return {"error": "no time left (--seconds)"}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2 " + environment.get("XLA_FLAGS", "")
    command = [sys.executable, str(Path(__file__).resolve()), "side", *arguments, "--files", str(folder)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "timed out (--seconds)"}
    for line in reversed(ended.stdout.splitlines()):
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                return json.loads(line)
    return {"error": (ended.stderr.strip().splitlines() or ["no output"])[-1][:300]}


def run(folder: Path, output: Path, seconds: float, only: list[str] | None = None) -> None:
    """Measure all sides in turn, the most important ones first; print a table and write JSON."""
    end = time.monotonic() + seconds
    results: dict[str, Any] = {"workloads": {}}

    def measured(name: str, key: str, *arguments: str) -> None:
        found = side(folder, list(arguments), end - time.monotonic())
        results["workloads"].setdefault(name, {})[key] = found
        said = f"{found['ms']:.3f} ms on {found['device']}" if "ms" in found else f"not measured: {found['error']}"
        print(f"{name}, {key}: {said}", flush=True)
        output.write_text(json.dumps(results, indent=1))

    present = [name for name in only or NAMES if (folder / f"{file_of(name)}.json").exists()]
    if not present:
        raise SystemExit(
            f"{folder} has no exported steps: run `python bench/jax_out.py write` on a machine that has mpsgraph"
        )
    for name in sorted(present, key=lambda name: ("W1", "GPT", "W2 1024", "W2 2048", "W2").index(name)):
        told = described_of(folder, name)
        results["workloads"][name] = {"cpu_losses": told["losses"], "precision": told["precision"]}
        for count in told["devices"]:
            measured(name, f"XLA, {count}", "xla", name, str(count))
        for mode in () if name == "W2 2048" else MODES.get(name, ("default",)):
            measured(name, f"PyTorch {mode}", "torch", name, mode)
    print(table(results))
    print(f"written to {output}")


def difference(a: list[float], b: list[float]) -> str:
    if not a or not b:
        return "–"
    return f"{max(abs(x - y) / max(abs(y), 1e-9) for x, y in zip(a, b, strict=False)):.1e}"


def table(results: dict[str, Any]) -> str:
    """Return the results as a Markdown table, in the format of docs/measurements.md."""
    lines = [
        "| | GPU | mpsgraph on XLA | PyTorch, compiled | ratio | loss difference to CPU | loss difference to PyTorch |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in results["workloads"].items():
        ours = found.get("XLA, 1", {})
        theirs = [v for k, v in found.items() if k.startswith("PyTorch") and "ms" in v]
        best = min(theirs, key=lambda v: v["ms"]) if theirs else {}
        ratio = f"{ours['ms'] / best['ms']:.2f}" if "ms" in ours and best else "–"
        times = [f"{v['ms']:.3f} ms" if "ms" in v else "–" for v in (ours, best)]
        cpu = difference(ours.get("losses", []), found["cpu_losses"])
        peer = "dropout" if name == "W1" else difference(ours.get("losses", []), best.get("losses", []))
        lines.append(f"| {name} | {ours.get('device', '–')} | {' | '.join(times)} | {ratio} | {cpu} | {peer} |")
    one = results["workloads"].get("W2 1024", {}).get("XLA, 1", {})
    for name, images in (("W2 1024", 1), ("W2 2048", 2)):
        two = results["workloads"].get(name, {}).get("XLA, 2", {})
        if "ms" in one and "ms" in two:
            lines += ["", f"W2, one GPU with 1,024 images: {one['ms']:.2f} ms, "]
            lines[-1] += f"two with {images * 1024:,} {two['ms']:.2f} ms: "
            lines[-1] += f"{images * one['ms'] / two['ms']:.2f} times the images per second"
            if images == 1:
                lines[-1] += f"; losses differ by {difference(two['losses'], one['losses'])}"
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "run", "side"))
    parser.add_argument("arguments", nargs="*", help="arguments of `side`: xla NAME DEVICES, or torch NAME MODE")
    parser.add_argument("--files", type=Path, default=FILES)
    parser.add_argument("--output", type=Path, default=Path("jax_out.json"))
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, help="run only these workloads (default: all that were written)"
    )
    parser.add_argument("--small", action="store_true", help="write small networks, for a quick trial")
    parser.add_argument("--precision", choices=("default", "highest"), default="default")
    given = parser.parse_args()
    if given.what == "write":
        write(given.files, given.small, given.precision, given.only)
    elif given.what == "run":
        run(given.files, given.output, given.seconds, given.only)
    else:
        kind, name, how = given.arguments
        found = xla_side(given.files, name, int(how)) if kind == "xla" else torch_side(given.files, name, how)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
