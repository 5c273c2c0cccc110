"""Training steps of GPT-2 and ResNet-50 in bfloat16 on one GPU: mg.jax.Engine, plain JAX, and compiled PyTorch.

    python bench/xla_training.py                      all sides, in separate processes
    python bench/xla_training.py --only "GPT-2 ours"  one side
    python bench/xla_training.py --small              small networks, for a trial without a GPU

GPT-2 has 12 layers of 768 features, 1,024 positions, a tied head, no dropout, and AdamW; a batch has 32 sequences.
ResNet-50 trains on 256 images of 224 x 224 with SGD and momentum. Weights are float32, and matmuls and convolutions
compute in bfloat16. Plain JAX is written by hand with optax, with cuDNN's attention; PyTorch runs torch.compile with
its fused optimizers. Every side keeps its batch on the GPU and waits at the end of a round. The result is the median of
the rounds' means.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BENCH = Path(__file__).resolve().parent
PEAK = 989e12  # bfloat16 operations per second of an H100 or H200, dense, from NVIDIA's data sheet.
WARMUP, ROUNDS, STEPS = 3, 5, 10
GPT = {"layers": 12, "features": 768, "heads": 12, "positions": 1024, "words": 50257, "batch": 32}
SMALL_GPT = {"layers": 2, "features": 32, "heads": 2, "positions": 16, "words": 97, "batch": 2}
STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
RESNET = {"batch": 256, "image": 224, "classes": 1000, "stem": 64, "stages": STAGES}
SMALL_RESNET = {"batch": 4, "image": 32, "classes": 10, "stem": 8, "stages": ((4, 8, 1, 1), (8, 16, 1, 2))}
RATE, MOMENTUM, DECAY = 1e-4, 0.9, 0.01
Sizes = dict[str, Any]


def tokens(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(0).integers(
        sizes["words"], size=(sizes["batch"], sizes["positions"] + 1), dtype=np.int32
    )
    return np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, 1:])


def images(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (sizes["batch"], sizes["image"], sizes["image"], 3)
    labels = rng.integers(sizes["classes"], size=shape[0], dtype=np.int32)
    return rng.standard_normal(shape, np.float32), np.asarray(labels)


def operations(name: str, sizes: Sizes) -> float:
    """Return the operations of a step's matmuls and convolutions; the backward pass has twice those of the forward."""
    if name == "GPT-2":
        words = sizes["batch"] * sizes["positions"]
        weights = 12 * sizes["layers"] * sizes["features"] ** 2 + sizes["words"] * sizes["features"]
        causal = sizes["layers"] * sizes["positions"] * sizes["features"]  # Half of the scores are needed.
        return 6.0 * words * (weights + causal)
    return 3 * 2 * 4.09e9 * sizes["batch"]


def timed(step: Callable[[], Any], wait: Callable[[Any], float]) -> dict[str, Any]:
    """Return the first losses and the median, least, and greatest time of a step over the rounds, in ms."""
    began = time.perf_counter()
    losses = [wait(step())]
    first = time.perf_counter() - began
    losses += [wait(step()) for _ in range(WARMUP)]
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(STEPS):
            last = step()
        losses.append(wait(last))
        rounds.append((time.perf_counter() - began) / STEPS * 1e3)
    return {
        "ms": statistics.median(rounds), "least": min(rounds), "most": max(rounds), "first_seconds": first,
        "losses": losses,
    }  # fmt: skip


# --- mpsgraph -----------------------------------------------------------------------------------------------------


def ours(name: str, sizes: Sizes) -> dict[str, Any]:
    import mpsgraph as mg

    engine = mg.jax.Engine(precision="default")
    if name == "GPT-2":
        model: Any = mg.lm.create(
            {
                "model_type": "gpt2", "vocab_size": sizes["words"], "n_embd": sizes["features"],
                "n_head": sizes["heads"], "n_layer": sizes["layers"], "n_positions": sizes["positions"],
                "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0,
            }
        )  # fmt: skip
        model.train()
        optimizer: Any = mg.optim.AdamW(RATE, weight_decay=DECAY)
        inputs, labels = tokens(sizes)
    else:
        sys.path.insert(0, str(BENCH))
        import w2_resnet50
        import workloads

        workloads.W2_STEM, workloads.W2_STAGES = sizes["stem"], sizes["stages"]
        workloads.CLASSES = sizes["classes"]
        model, optimizer = w2_resnet50.network(), mg.optim.SGD(RATE, momentum=MOMENTUM)
        inputs, labels = images(sizes)
    trainer = mg.Trainer(model, optimizer=optimizer, metrics=(), precision="bfloat16", engine=engine)
    inputs, labels = engine.on_device((inputs, labels))
    return timed(lambda: trainer.train_step(inputs, labels), float)


# --- plain JAX ----------------------------------------------------------------------------------------------------


def plain_jax(name: str, sizes: Sizes) -> dict[str, Any]:
    import jax
    import optax

    made, loss_of = jax_gpt(sizes) if name == "GPT-2" else jax_resnet(sizes)
    optimizer = optax.adamw(RATE, weight_decay=DECAY) if name == "GPT-2" else optax.sgd(RATE, momentum=MOMENTUM)
    inputs, labels = map(jax.device_put, tokens(sizes) if name == "GPT-2" else images(sizes))
    weights, averages = made
    state = optimizer.init(weights)

    @jax.jit
    def begin() -> Any:
        return weights, averages, state

    def step(held: Any, inputs: Any, labels: Any) -> Any:
        weights, averages, state = held
        (loss, averages), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, averages, inputs, labels)
        updates, state = optimizer.update(gradients, state, weights)
        return (optax.apply_updates(weights, updates), averages, state), loss

    compiled, held = jax.jit(step, donate_argnums=0), begin()

    def run() -> Any:
        nonlocal held
        held, loss = compiled(held, inputs, labels)
        return loss

    return timed(run, float)


def jax_gpt(sizes: Sizes) -> Any:
    import jax
    from jax import numpy as jnp

    width, heads, low = sizes["features"], sizes["heads"], jnp.bfloat16
    rng = np.random.default_rng(1)

    def drawn(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, np.float32) * 0.02)

    def norm() -> Any:
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    def linear(inputs: int, outputs: int) -> Any:
        return {"weight": drawn(inputs, outputs), "bias": jnp.zeros(outputs)}

    weights = {
        "words": drawn(sizes["words"], width),
        "places": drawn(sizes["positions"], width),
        "norm": norm(),
        "layers": [
            {
                "norm1": norm(), "together": linear(width, 3 * width), "out": linear(width, width),
                "norm2": norm(), "up": linear(width, 4 * width), "down": linear(4 * width, width),
            }
            for _ in range(sizes["layers"])
        ],
    }  # fmt: skip

    def normalized(x: Any, w: Any) -> Any:
        x = x.astype(jnp.float32)
        mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
        return ((x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-5) * w["scale"] + w["shift"]).astype(low)

    def dense(x: Any, w: Any) -> Any:
        return x @ w["weight"].astype(low) + w["bias"].astype(low)

    def attention(x: Any) -> Any:
        made = x.reshape(*x.shape[:2], 3, heads, width // heads)
        fast = "cudnn" if jax.default_backend() == "gpu" else None
        seen = jax.nn.dot_product_attention(
            made[:, :, 0], made[:, :, 1], made[:, :, 2], is_causal=True, implementation=fast
        )
        return seen.reshape(x.shape[0], x.shape[1], width)

    def loss_of(weights: Any, averages: Any, inputs: Any, labels: Any) -> Any:
        words = weights["words"].astype(low)
        x = words[inputs] + weights["places"].astype(low)
        for layer in weights["layers"]:
            x = x + dense(attention(dense(normalized(x, layer["norm1"]), layer["together"])), layer["out"])
            x = x + dense(jax.nn.gelu(dense(normalized(x, layer["norm2"]), layer["up"])), layer["down"])
        logits = (normalized(x, weights["norm"]) @ words.T).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean(), averages

    return (weights, {}), loss_of


def jax_resnet(sizes: Sizes) -> Any:
    import flax.linen as fnn
    import jax
    import optax
    from jax import numpy as jnp

    low = jnp.bfloat16

    class Block(fnn.Module):
        within: int
        behind: int
        strides: int

        @fnn.compact
        def __call__(self, x: Any) -> Any:
            norm = lambda: fnn.BatchNorm(use_running_average=False, momentum=0.9, dtype=low)  # noqa: E731
            conv = lambda c, k, s: fnn.Conv(c, (k, k), (s, s), use_bias=False, dtype=low)  # noqa: E731
            y = fnn.relu(norm()(conv(self.within, 1, self.strides)(x)))
            y = norm()(conv(self.behind, 1, 1)(fnn.relu(norm()(conv(self.within, 3, 1)(y)))))
            if x.shape != y.shape:
                x = norm()(conv(self.behind, 1, self.strides)(x))
            return fnn.relu(x + y)

    class Network(fnn.Module):
        @fnn.compact
        def __call__(self, x: Any) -> Any:
            x = fnn.Conv(sizes["stem"], (7, 7), (2, 2), padding="VALID", use_bias=False, dtype=low)(x.astype(low))
            x = fnn.relu(fnn.BatchNorm(use_running_average=False, momentum=0.9, dtype=low)(x))
            x = fnn.max_pool(x, (3, 3), (2, 2))
            for within, behind, count, strides in sizes["stages"]:
                for i in range(count):
                    x = Block(within, behind, 1 if i else strides)(x)
            return fnn.Dense(sizes["classes"], dtype=low)(x.mean((1, 2))).astype(jnp.float32)

    network = Network()
    made = network.init(jax.random.key(0), jnp.zeros((1, sizes["image"], sizes["image"], 3)))

    def loss_of(weights: Any, averages: Any, inputs: Any, labels: Any) -> Any:
        held = {"params": weights, "batch_stats": averages}
        logits, changed = network.apply(held, inputs, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), changed["batch_stats"]

    return (made["params"], made["batch_stats"]), loss_of


# --- PyTorch ------------------------------------------------------------------------------------------------------


def torch_side(name: str, sizes: Sizes) -> dict[str, Any]:
    import torch
    from torch.nn import functional as F

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    options = {"fused": True} if device.type == "cuda" else {}
    if name == "GPT-2":
        inputs, labels = (torch.from_numpy(array).long().to(device) for array in tokens(sizes))
        module = torch_gpt(sizes).to(device)
        optimizer: Any = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY, **options)
    else:
        sys.path.insert(0, str(BENCH))
        import workloads
        from peers import torch_networks

        workloads.W2_STEM, workloads.W2_STAGES = sizes["stem"], sizes["stages"]
        workloads.CLASSES = sizes["classes"]
        given, labels = (torch.from_numpy(array).to(device) for array in images(sizes))
        inputs, labels = given.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last), labels.long()
        module = torch_networks.resnet50().to(device).to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(module.parameters(), RATE, momentum=MOMENTUM, **options)

    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            logits = module(x)
        return F.cross_entropy(logits.flatten(0, -2).float(), y.flatten())

    compiled = torch.compile(loss_of)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = compiled(inputs, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed(step, float)


def torch_gpt(sizes: Sizes) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    width, heads = sizes["features"], sizes["heads"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            made = self.together(self.norm1(x)).view(*x.shape[:2], 3, heads, width // heads)
            query, key, value = made.permute(2, 0, 3, 1, 4).unbind()
            seen = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
            x = x + self.out(seen.reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(sizes["words"], width)
            self.places = nn.Embedding(sizes["positions"], width)
            self.layers = nn.Sequential(*(Block() for _ in range(sizes["layers"])))
            self.norm = nn.LayerNorm(width)
            for parameter in (self.words.weight, self.places.weight):
                nn.init.normal_(parameter, std=0.02)

        def forward(self, x: Any) -> Any:
            places = self.places(torch.arange(x.shape[1], device=x.device))
            return self.norm(self.layers(self.words(x) + places)) @ self.words.weight.T

    return Network()


# --- run ----------------------------------------------------------------------------------------------------------

SIDES = {"ours": ours, "JAX": plain_jax, "PyTorch": torch_side}


def sizes_of(name: str, small: bool) -> Sizes:
    if name == "GPT-2":
        return SMALL_GPT if small else GPT
    return SMALL_RESNET if small else RESNET


def report(name: str, side: str, small: bool) -> dict[str, Any]:
    sizes = sizes_of(name, small)
    found = SIDES[side](name, sizes)
    samples = sizes["batch"] * sizes.get("positions", 1)
    found["per_second"] = samples / found["ms"] * 1e3
    found["share_of_peak"] = operations(name, sizes) / (found["ms"] / 1e3) / PEAK
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help='sides such as "GPT-2 ours" (default: all)')
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--side", help="measure one side in this process and print JSON")
    given = parser.parse_args()
    if given.side:
        name, side = given.side.split()
        print(json.dumps(report(name, side, given.small)))
        return
    results: dict[str, Any] = {}
    for key in given.only or [f"{name} {side}" for name in ("GPT-2", "ResNet-50") for side in SIDES]:
        command = [sys.executable, str(Path(__file__).resolve()), "--side", key, *["--small"] * given.small]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(f"{key}: failed: {ended.stderr.strip()[-1500:]}", flush=True)
            continue
        found = results[key] = json.loads(ended.stdout.splitlines()[-1])
        print(
            f"{key}: {found['ms']:.2f} ms ({found['least']:.2f} to {found['most']:.2f}), "
            f"{found['per_second']:,.0f} per second, {found['share_of_peak']:.0%} of the peak, first result after "
            f"{found['first_seconds']:.1f} s, losses {found['losses'][0]:.4f} to {found['losses'][-1]:.4f}",
            flush=True,
        )
    if given.output:
        given.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
