"""Training on several GPUs of one host: weak scaling of data parallelism, and a GPT of 1.5 B parameters, sharded.

    python bench/xla_cards.py                                   all measurements, on 1, 2, 4, and 8 cards
    python bench/xla_cards.py --cards 1 2 --only "GPT-2 ours"   some of them
    python bench/xla_cards.py --small --virtual                 small networks on virtual CPU devices, for a trial

GPT-2 and ResNet-50 are those of xla_training.py, in bfloat16 with the same batch on each card: `efficiency` is the time
of a step on one card divided by that on n cards. GPT-2 XL has 48 layers of 1,600 features, 1,024 positions, and AdamW
with float32 weights; parameters and optimizer states are divided among the cards, and layers are computed again in the
backward pass. It runs next to PyTorch's fully_shard, with activation checkpointing and bfloat16 communication. Each
measurement runs in a separate process; PyTorch starts one process for each card. The memory of a card is the largest
amount in use, or for our side also XLA's estimate.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))
import xla_training as one  # noqa: E402

XL = {"layers": 48, "features": 1600, "heads": 25, "positions": 1024, "words": 50257, "batch": 8}
SMALL_XL = {"layers": 3, "features": 64, "heads": 2, "positions": 32, "words": 96, "batch": 2}
Sizes = dict[str, Any]
SIDES = {"GPT-2": ("ours",), "ResNet-50": ("ours",), "GPT-2 XL": ("ours", "PyTorch")}


def sizes_of(name: str, cards: int, small: bool) -> Sizes:
    """Return the sizes of a workload, with the batch of all cards."""
    if name == "GPT-2 XL":
        sizes = SMALL_XL if small else XL
    else:
        sizes = one.sizes_of(name, small)
        if small and name == "ResNet-50":
            sizes = sizes | {"image": 64}
    return sizes | {"batch": sizes["batch"] * cards}


# --- mpsgraph -----------------------------------------------------------------------------------------------------


def ours(name: str, cards: int, sizes: Sizes) -> dict[str, Any]:
    import jax
    import mpsgraph as mg
    import numpy as np

    if jax.device_count() < cards:
        raise SystemExit(f"{cards} cards are needed, JAX has {jax.device_count()}")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:cards]), ("data",))
    is_large = name == "GPT-2 XL"
    engine = mg.jax.Engine(mesh, fully_sharded=is_large, precision="default")
    if name == "ResNet-50":
        import w2_resnet50
        import workloads

        workloads.W2_STEM, workloads.W2_STAGES = sizes["stem"], sizes["stages"]
        workloads.CLASSES = sizes["classes"]
        model: Any = w2_resnet50.network()
        optimizer: Any = mg.optim.SGD(one.RATE, momentum=one.MOMENTUM)
        inputs, labels = one.images(sizes)
    else:
        model = mg.lm.create(
            {
                "model_type": "gpt2", "vocab_size": sizes["words"], "n_embd": sizes["features"],
                "n_head": sizes["heads"], "n_layer": sizes["layers"], "n_positions": sizes["positions"],
                "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0,
            }
        )  # fmt: skip
        model.train()
        optimizer = mg.optim.AdamW(one.RATE, weight_decay=one.DECAY)
        inputs, labels = one.tokens(sizes)
    trainer = mg.Trainer(
        model, optimizer=optimizer, metrics=(), precision="bfloat16", engine=engine, checkpoint_layers=is_large, seed=0
    )
    estimate = trainer.memory_estimate((inputs, labels))
    inputs, labels = engine.on_device((inputs, labels))
    found = one.timed(lambda: trainer.train_step(inputs, labels), float)
    used = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return found | {"memory": used, "estimated_memory": estimate.total}


# --- PyTorch ------------------------------------------------------------------------------------------------------


def torch_large(sizes: Sizes) -> dict[str, Any] | None:
    """Return the result of PyTorch's FSDP in one of several processes, or None in all but the first."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn import functional as F

    is_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if is_gpu else "gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if is_gpu else torch.device("cpu")
    if is_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    module = one.torch_gpt(sizes).to(device)
    apply_activation_checkpointing(module, check_fn=lambda part: type(part).__name__ == "Block")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in module.layers:
        fully_shard(block, mp_policy=policy)
    fully_shard(module, mp_policy=policy)
    module.compile()
    optimizer = torch.optim.AdamW(module.parameters(), one.RATE, weight_decay=one.DECAY, fused=is_gpu)
    share = sizes["batch"] // count
    inputs, labels = (
        torch.from_numpy(a[rank * share : (rank + 1) * share]).long().to(device) for a in one.tokens(sizes)
    )

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(module(inputs).flatten(0, -2).float(), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    def mean(loss: Any) -> float:
        dist.all_reduce(loss)
        return float(loss.item()) / count

    found = one.timed(step, mean)
    found["memory"] = torch.cuda.max_memory_allocated() if is_gpu else None
    dist.destroy_process_group()
    return found if rank == 0 else None


# --- run ----------------------------------------------------------------------------------------------------------


def measured(name: str, side: str, cards: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run one measurement in separate processes. Raise RuntimeError with their output if they fail."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        inner = [
            str(Path(__file__).resolve()),
            "--measurement",
            name,
            side,
            str(cards),
            str(result),
            *["--small"] * given.small,
        ]
        environment = dict(os.environ)
        if given.virtual:
            flags = f"--xla_force_host_platform_device_count={cards} {environment.get('XLA_FLAGS', '')}"
            environment |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "CUDA_VISIBLE_DEVICES": ""}
        start = [sys.executable]
        if side == "PyTorch":
            start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={cards}"]
        ended = subprocess.run([*start, *inner], capture_output=True, text=True, env=environment, check=False)
        if ended.returncode:
            raise RuntimeError(ended.stderr.strip()[-2000:])
        return dict(json.loads(result.read_text()))


def run_one(name: str, side: str, cards: int, result: Path, small: bool) -> None:
    """Measure in this process, and write the result."""
    sizes = sizes_of(name, cards, small)
    found = torch_large(sizes) if side == "PyTorch" else ours(name, cards, sizes)
    if found is not None:
        samples = sizes["batch"] * sizes.get("positions", 1)
        work = one.operations("ResNet-50" if name == "ResNet-50" else "GPT-2", sizes)
        found["per_second"] = samples / found["ms"] * 1e3
        found["share_of_peak"] = work / (found["ms"] / 1e3) / (one.PEAK * cards)
        result.write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cards", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--only", nargs="+", help='measurements such as "GPT-2 XL PyTorch" (default: all)')
    parser.add_argument("--small", action="store_true", help="small networks")
    parser.add_argument("--virtual", action="store_true", help="virtual devices on the CPU")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--measurement", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measurement:
        name, side, cards, result = given.measurement
        run_one(name, side, int(cards), Path(result), given.small)
        return
    results: dict[str, Any] = {}
    for name, side in [(name, side) for name, sides in SIDES.items() for side in sides]:
        if given.only and f"{name} {side}" not in given.only:
            continue
        for cards in given.cards:
            if name == "GPT-2 XL" and cards == 1 and not given.small:
                continue  # The states of AdamW do not leave enough memory for the batch on one card.
            key = f"{name} {side} on {cards}"
            try:
                found = results[key] = measured(name, side, cards, given)
            except RuntimeError as error:
                print(f"{key}: failed: {error}", flush=True)
                continue
            first = results.get(f"{name} {side} on {min(given.cards)}")
            efficiency = "" if first is None else f", efficiency {first['ms'] / found['ms']:.0%}"
            memory = "" if found.get("memory") is None else f", {found['memory'] / 1e9:.1f} GB on a card"
            if found.get("estimated_memory"):
                memory += f", {found['estimated_memory'] / 1e9:.4g} GB on a card by estimate"
            print(
                f"{key}: {found['ms']:.2f} ms ({found['least']:.2f} to {found['most']:.2f}){efficiency}, "
                f"{found['per_second']:,.0f} per second, {found['share_of_peak']:.0%} of the peak{memory}, losses "
                f"{found['losses'][0]:.4f} to {found['losses'][-1]:.4f}",
                flush=True,
            )
    if given.output:
        given.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
