"""Time per step when every step has a new size, in mpsgraph and its peers.

    .venv-conformance/bin/python bench/new_sizes.py             with mpsgraph importable, as in `make test-torch`
    .venv-conformance/bin/python bench/new_sizes.py --only onnx --tokens 24

Workloads:

onnx      An ONNX decoder whose past grows by one position per token, compared with ONNX Runtime.
torch     A PyTorch decoder with `torch.compile(dynamic=True, backend="mpsgraph")` whose cache grows by one position per
          token, compared with eager mode.
training  A training step of a GPT whose batches cycle through 160 lengths, compared with steps of the mean length. A
          new trainer also runs one cycle.
networks  The networks of w*.py that accept another batch, sequence length, or image size, each with sizes between two
          that were compiled before. The first run of each new size is compared with its second run.

The sides take turns, each with a complete sequence of tokens or lengths, and the first sequence of each side is not
counted. Each row has the median time per step of each side and their ratio. "repeated" is the time of the same sizes
when they have been compiled before.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

Side = Callable[[], list[float]]
"""Runs a complete sequence and returns the seconds of each step."""
OfSize = Callable[[int], object]
"""Runs a network once for a batch, a sequence length, or an image size."""


def timed(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


# ---- an ONNX decoder


def onnx_decoder(layers: int, width: int, heads: int, words: int) -> bytes:
    """Return a decoder with inputs `ids`, `past.N.key`, and `past.N.value`, whose sizes are open.

    Shapes are computed from the inputs, as PyTorch's exporter writes them.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng, head = np.random.default_rng(0), width // heads
    nodes: list[Any] = []
    weights: list[Any] = []

    def constant(value: Any, name: str) -> str:
        if all(weight.name != name for weight in weights):
            weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def integer(*values: int) -> str:
        return constant(np.array(values, np.int64), "i" + "_".join(map(str, values)))

    def weight(name: str, *shape: int) -> str:
        return constant((0.02 * rng.standard_normal(shape)).astype(np.float32), name)

    def add(kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{kind}_{len(nodes)}_{i}" for i in range(outputs)]
        nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def size(x: str, axis: int) -> str:
        return add("Unsqueeze", add("Gather", add("Shape", x), constant(np.int64(axis), f"axis{axis}")), integer(0))

    def shape(*parts: str) -> str:
        return add("Concat", *parts, axis=0)

    def normalized(x: str, name: str) -> str:
        return add("LayerNormalization", x, weight(name + ".w", width), weight(name + ".b", width), axis=-1)

    def linear(x: str, name: str, inputs: int, outputs: int) -> str:
        return add("Add", add("MatMul", x, weight(name + ".w", inputs, outputs)), weight(name + ".b", outputs))

    past = [(f"past.{i}.key", f"past.{i}.value") for i in range(layers)]
    before = size(past[0][0], 2)
    total = add("Add", before, size("ids", 1))
    scalar = integer(0)
    places = add("Range", add("Squeeze", before, scalar), add("Squeeze", total, scalar), constant(np.int64(1), "one"))
    keys = add("Range", constant(np.int64(0), "zero"), add("Squeeze", total, scalar), "one")
    causal = add("LessOrEqual", add("Unsqueeze", keys, integer(0)), add("Unsqueeze", places, integer(1)))
    masked = add("Where", causal, constant(np.float32(0), "unmasked"), constant(np.float32(-1e9), "masked"))
    mask = add(
        "Expand", add("Unsqueeze", masked, integer(0, 1)), shape(size("ids", 0), integer(1), integer(1), integer(1))
    )
    x = add(
        "Add", add("Gather", weight("words", words, width), "ids"), add("Gather", weight("places", 4096, width), places)
    )
    results = []
    for i, (key, value) in enumerate(past):
        h = normalized(x, f"{i}.norm1")
        parts = add("Split", linear(h, f"{i}.qkv", width, 3 * width), outputs=3, axis=-1, num_outputs=3)
        split = [
            add(
                "Transpose",
                add("Reshape", p, shape(size(p, 0), size(p, 1), integer(heads), integer(head))),
                perm=[0, 2, 1, 3],
            )
            for p in parts
        ]
        k, v = (add("Concat", old, new, axis=2) for old, new in ((key, split[1]), (value, split[2])))
        results += [k, v]
        scores = add("MatMul", split[0], add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = add("Add", add("Div", scores, constant(np.float32(head**0.5), "scale")), mask)
        seen = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        seen = add("Reshape", seen, shape(size(seen, 0), size(seen, 1), integer(width)))
        x = add("Add", x, linear(seen, f"{i}.out", width, width))
        h = linear(normalized(x, f"{i}.norm2"), f"{i}.up", width, 4 * width)
        inner = add("Erf", add("Div", h, constant(np.float32(2**0.5), "root")))
        h = add(
            "Mul", add("Mul", h, add("Add", inner, constant(np.float32(1), "unit"))), constant(np.float32(0.5), "half")
        )
        x = add("Add", x, linear(h, f"{i}.down", 4 * width, width))
    logits = add("MatMul", normalized(x, "norm"), weight("head", width, words))
    renamed = {logits: "logits"} | {r: f"present.{n}" for n, r in enumerate(results)}
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    cache = ["batch", heads, "past", head]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])]
    inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, cache) for pair in past for n in pair]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in renamed.values()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    opset = [helper.make_opsetid("", 18)]
    return bytes(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString())


def onnx_sides(options: argparse.Namespace) -> dict[str, Side]:
    import mpsgraph as mg
    import mpsgraph.onnx
    import onnx
    import onnxruntime

    heads, head = options.width // 64, 64
    file = onnx_decoder(options.layers, options.width, heads, options.words)
    model = mg.onnx.load(onnx.load_from_string(file)).optimize_for_inference()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()][1:]
    results = [o.name for o in session.get_outputs()]

    rounds = iter(range(1000))

    def sequence(run: Callable[[dict[str, np.ndarray]], Any], start: int) -> list[float]:
        past = {n: np.zeros((1, heads, start, head), np.float32) for n in names}
        times = []
        for token in range(options.tokens):
            feeds = {"ids": np.array([[token]], np.int64), **past}
            begin = time.perf_counter()
            found = run(feeds)
            times.append(time.perf_counter() - begin)
            past = {n: np.asarray(found[f"present.{i}"]) for i, n in enumerate(names)}
        return times

    def ours(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array.numpy() for name, array in model.run(feeds).items()}

    def new() -> list[float]:  # each round continues where the last one ended, so that all lengths are new
        return sequence(ours, options.past + options.tokens * next(rounds))

    def peer() -> list[float]:
        return sequence(lambda feeds: dict(zip(results, session.run(None, feeds), strict=True)), options.past)

    return {"mpsgraph": new, "repeated": lambda: sequence(ours, options.past), "ONNX Runtime": peer}


# ---- torch.compile with dynamic sizes


def torch_sides(options: argparse.Namespace) -> dict[str, Side]:
    import mpsgraph as mg
    import torch

    width, heads, layers = options.width, options.width // 64, options.layers

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x: Any, key: Any, value: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
            q, k, v = (p.view(batch, length, heads, -1).transpose(1, 2) for p in (q, k, v))
            k, v = torch.cat([key, k], 2), torch.cat([value, v], 2)
            seen = torch.softmax(q @ k.transpose(2, 3) / (width // heads) ** 0.5, -1) @ v
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)))), k, v

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = torch.nn.Embedding(options.words, width), torch.nn.Embedding(4096, width)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, options.words, bias=False)

        def forward(self, ids: Any, past: Any) -> Any:
            start = past[0][0].shape[2]
            x = self.words(ids) + self.places(torch.arange(start, start + ids.shape[1]))
            present = []
            for layer, (key, value) in zip(self.layers, past, strict=True):
                x, k, v = layer(x, key, value)
                present.append((k, v))
            return self.head(self.norm(x)), present

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = Decoder().eval()
    compiled = torch.compile(model, dynamic=True, backend=mg.torch.backend)
    rounds = iter(range(1000))

    def sequence(run: Callable[..., Any], start: int) -> list[float]:
        times = []
        past = [(torch.zeros(1, heads, start, width // heads),) * 2 for _ in range(layers)]
        with torch.no_grad():
            for token in range(options.tokens):
                begin = time.perf_counter()
                _, past = run(torch.tensor([[token]]), past)
                times.append(time.perf_counter() - begin)
        return times

    def new() -> list[float]:  # each round continues where the last one ended, so that all lengths are new
        return sequence(compiled, options.past + options.tokens * next(rounds))

    return {
        "mpsgraph": new,
        "repeated": lambda: sequence(compiled, options.past),
        "eager": lambda: sequence(model, options.past),
    }


# ---- training with many lengths


def training_sides(options: argparse.Namespace) -> dict[str, Side]:
    import mpsgraph as mg
    from mpsgraph import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, norm_first=True)

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return self.layer(x, is_causal=True)

    def made() -> Callable[[int], float]:
        layers = [Layer() for _ in range(4)]
        model = nn.Sequential(nn.Embedding(1000, 256), *layers, nn.LayerNorm(), nn.Linear(1000))
        trainer = mg.Trainer(model, loss="cross_entropy", optimizer=mg.optim.AdamW(1e-3), metrics=())
        rng = np.random.default_rng(0)

        def step(length: int) -> float:
            tokens = rng.integers(1000, size=(2, 8, length), dtype=np.int32)
            return timed(lambda: float(trainer.train_step(tokens[0], tokens[1])))

        return step

    first, lengths = options.past, [options.past + i for i in range(options.lengths)]
    np.random.default_rng(0).shuffle(lengths)
    cycled, fixed = made(), made()
    fresh = [made()]

    def new() -> list[float]:  # the first cycle of a trainer
        fresh[0] = made()
        return [fresh[0](length) for length in lengths]

    mean = first + options.lengths // 2
    return {
        "first cycle": new,
        "mpsgraph": lambda: [cycled(length) for length in lengths],
        "fixed length": lambda: [fixed(mean) for _ in lengths],
    }


# ---- networks of the other benchmarks


def trained(trainer: Any, inputs: Callable[[int], np.ndarray], classes: int, labels: Callable[[int], Any]) -> OfSize:
    rng = np.random.default_rng(0)

    def run(size: int) -> float:
        return float(trainer.train_step(inputs(size), rng.integers(classes, size=labels(size), dtype=np.int32)))

    return run


def language_model(name: str, shape: Callable[[int], tuple[int, int]]) -> OfSize:
    import w12_language_model
    import workloads as sizes

    words, rng = sizes.W12_MODELS[name][0], np.random.default_rng(0)
    trainer = w12_language_model.training(name)
    return trained(trainer, lambda n: rng.integers(words, size=shape(n), dtype=np.int32), words, shape)


def graphs(build: Callable[[Any], tuple[dict[Any, Callable[[int], np.ndarray]], list[Any]]]) -> OfSize:
    """Return a function that runs a graph, given its feeds as functions of the size, and its targets."""
    import mpsgraph as mg

    g = mg.Graph()
    feeds, targets = build(g)
    return lambda size: g.run({x: value(size) for x, value in feeds.items()}, targets)


def gelu_with_gradient() -> OfSize:
    def build(g: Any) -> Any:
        x = g.placeholder((-1, 4096))
        y = 0.5 * x * (1 + g.erf(x * 0.5**0.5))
        total = g.reduction_sum(y)
        return {x: drawn(4096)}, [total, g.gradients(total, x)[x]]

    return graphs(build)


def attention_with_gradient() -> OfSize:
    def build(g: Any) -> Any:
        q, k, v, dy = (g.placeholder((4, 8, -1, 64)) for _ in range(4))
        y = g.scaled_dot_product_attention(q, k, v, causal=True)
        rng = np.random.default_rng(0)
        fed = dict.fromkeys((q, k, v, dy), lambda n: rng.standard_normal((4, 8, n, 64), np.float32))
        return fed, [y, *g.gradients(y, [q, k, v], dy).values()]

    return graphs(build)


def residual_network(shape: Callable[[int], tuple[int, int]]) -> OfSize:
    """Return inference with ResNet-50, for the batch and image size that `shape` returns."""
    import w2_resnet50
    from mpsgraph import nn

    def build(g: Any) -> Any:
        x = g.placeholder((-1, -1, -1, 3))
        network: nn.Module = w2_resnet50.network().eval()
        rng = np.random.default_rng(0)

        def images(size: int) -> np.ndarray:
            batch, side = shape(size)
            return rng.standard_normal((batch, side, side, 3), np.float32)

        return {x: images}, [network(x)]

    return graphs(build)


def drawn(*shape: int) -> Callable[[int], np.ndarray]:
    rng = np.random.default_rng(0)
    return lambda size: rng.standard_normal((size, *shape), np.float32)


def networks() -> dict[str, tuple[Callable[[], OfSize], int, int]]:
    """Return the networks, each with the smallest and the largest size."""
    import mpsgraph as mg
    import w1_digits
    import w2_resnet50
    import w3_conv_lstm
    import w6_mlp

    def resnet() -> OfSize:
        trainer = mg.Trainer(w2_resnet50.network(), loss="cross_entropy", optimizer=mg.optim.SGD(0.01), metrics=())
        return trained(trainer, drawn(32, 32, 3), 10, int)

    return {
        "W1 batch": (lambda: trained(w1_digits.training(), drawn(28, 28, 1), 10, int), 20, 80),
        "W2 batch": (resnet, 20, 80),
        "W3 batch": (lambda: trained(w3_conv_lstm.training(), drawn(2000, 6), 6, int), 20, 80),
        "W5 rows": (gelu_with_gradient, 1000, 4000),
        "W6 batch": (lambda: trained(w6_mlp.training(), drawn(784), 10, int), 20, 80),
        "W8 batch": (lambda: residual_network(lambda n: (n, 32)), 10, 60),
        "W8 image": (lambda: residual_network(lambda n: (1, n)), 160, 250),
        "W11 length": (attention_with_gradient, 200, 500),
        "W12 words batch": (lambda: language_model("words", lambda n: (n, 64)), 20, 60),
        "W12 words length": (lambda: language_model("words", lambda n: (32, n)), 34, 90),
        "W12 characters batch": (lambda: language_model("characters", lambda n: (n, 64)), 20, 60),
        "W12 characters length": (lambda: language_model("characters", lambda n: (32, n)), 34, 90),
    }


def network_sides(make: Callable[[], OfSize], least: int, most: int, rounds: int) -> dict[str, Side]:
    count = 6
    run = make()
    sizes = np.random.default_rng(0).permutation(np.arange(least + 1, most))[: count * (rounds + 1)].tolist()
    for size in (least, most, least, most):
        run(size)
    last: list[int] = []

    def new() -> list[float]:
        last[:] = [sizes.pop() for _ in range(count)]
        return [timed(partial(run, size)) for size in last]

    return {"new size": new, "known size": lambda: [timed(partial(run, size)) for size in last]}


WORKLOADS: dict[str, Callable[[argparse.Namespace], dict[str, Side]]] = {
    "onnx": onnx_sides,
    "torch": torch_sides,
    "training": training_sides,
}


def measured(sides: dict[str, Side], rounds: int) -> dict[str, float]:
    """Return the median over all rounds of the mean time of a step, in ms. Sides take turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            gc.collect()
            found = side()
            if number > 0:
                times[name].append(1e3 * statistics.fmean(found))
    return {name: statistics.median(found) for name, found in times.items()}


def show(name: str, sides: dict[str, Side], rounds: int) -> None:
    found = measured(sides, rounds)
    base = list(found.values())[-1]
    for side, value in found.items():
        print(f"{name:21} {side:14} {value:9.2f} ms   ratio {value / base:.2f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=sorted([*WORKLOADS, "networks"]), action="append", help="workloads to measure"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=48, help="tokens of a sequence")
    parser.add_argument("--lengths", type=int, default=160, help="training lengths of a cycle")
    parser.add_argument("--past", type=int, default=65, help="positions before the first token; first training length")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--words", type=int, default=8000)
    options = parser.parse_args(arguments)
    chosen = options.only or [*WORKLOADS, "networks"]
    for name in WORKLOADS:
        if name in chosen:
            show(name, WORKLOADS[name](options), options.rounds)
    if "networks" in chosen:
        for name, sizes in networks().items():
            show(name, network_sides(*sizes, options.rounds), options.rounds)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
