"""Models with masks, lengths, caches and states for the ONNX export tests.

exported_layers.py has the single layers. Each `Model` is built in a graph with named inputs and provides feeds for two
pairs of dynamic sizes. tests/onnx rebuilds each model from its file; tests/onnx_runtime runs each one in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpsgraph as mg
import numpy as np
import onnx
from mpsgraph import nn
from mpsgraph.interchange.export import needed

SIZES = ((3, 5), (2, 7))  # Batch size and number of steps.
Made = tuple[dict[str, mg.Tensor], dict[str, mg.Tensor]]


class Model:
    """A model for the export tests.

    Args:
        make: Function that builds the model in a graph and returns inputs and outputs by name.
        feeds: By input name, functions from batch size and number of steps to an array. Other inputs get random normal
            numbers, class indices, or flags.
    """

    def __init__(self, make: Callable[[mg.Graph], Made], **feeds: Callable[..., Any]) -> None:
        self.make, self.feeds = make, feeds

    def build(self) -> tuple[mg.Graph, dict[str, mg.Tensor], dict[str, mg.Tensor]]:
        """Return a new graph with inputs and outputs, whose variables no longer have their initial values."""
        graph = mg.Graph(seed=1)
        inputs, outputs = self.make(graph)
        rng = np.random.default_rng(1)
        for v in graph.variables:
            if v.dtype.is_float and "cache" not in v.name:
                graph.set_variable(v, (rng.uniform(0.5, 1.5, v.shape) * 0.4).astype(v.dtype.numpy))
        return graph, inputs, outputs

    def arrays(self, inputs: Mapping[str, mg.Tensor], batch: int, steps: int) -> dict[str, np.ndarray]:
        """Return arrays for the inputs.

        Dynamic dimensions have the batch size on axis 0 and the number of steps elsewhere.
        """
        rng = np.random.default_rng(steps)
        found = {}
        for name, tensor in inputs.items():
            shape = [size if size >= 0 else steps if axis else batch for axis, size in enumerate(tensor.shape)]
            if name in self.feeds:
                found[name] = np.asarray(self.feeds[name](batch, steps), tensor.dtype.numpy)
            elif str(tensor.dtype) == "bool":
                found[name] = rng.random(shape) < 0.4
            elif tensor.dtype.is_integer:
                found[name] = rng.integers(0, 10, shape).astype(tensor.dtype.numpy)
            else:
                found[name] = rng.normal(size=shape).astype(np.float32)
        return found


def without_description(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without our own metadata, as if another program had written it."""
    plain = onnx.ModelProto()
    plain.CopyFrom(proto)
    kept = [entry for entry in plain.metadata_props if entry.key != "mpsgraph.graph"]
    del plain.metadata_props[:]
    plain.metadata_props.extend(kept)
    return plain


def listed(operations: Any) -> list[tuple[str, str]]:
    """Return the kinds and attributes of operations, including those in blocks, and the elements of constants."""
    found = []
    for operation in operations:
        if operation.kind not in ("placeholder", "argument"):
            attributes = dict(operation.attributes)
            value = attributes.pop("value", None)
            if operation.kind == "constant":
                attributes["value"] = np.asarray(value.numpy()).tobytes(), operation.outputs[0].type
            found.append((operation.kind, repr(attributes)))
        for block in operation.blocks:
            found += listed(block.operations)
    return found


def what_outputs_need(outputs: Mapping[str, mg.Tensor]) -> list[tuple[str, str]]:
    """Return what an export of the outputs contains."""
    return listed(needed(outputs.values()))


# --- recurrent layers -------------------------------------------------------------------------------------------------


def some_lengths(batch: int, steps: int) -> np.ndarray:
    """Return lengths from 0 to the number of steps."""
    return np.arange(batch) * steps // max(batch - 1, 1)


def some_steps(batch: int, steps: int) -> np.ndarray:
    """Return a mask with gaps."""
    return (np.arange(steps)[None] + np.arange(batch)[:, None]) % 3 != 0


def recurrent(kind: str, *told: str, **options: Any) -> Model:
    """Return a recurrent layer with lengths, a mask, initial and final states, or several of these."""

    def make(g: mg.Graph) -> Made:
        layer = getattr(nn, kind)(3, **options).eval()
        inputs = {"x": g.placeholder((-1, -1, 4), name="x")}
        if "lengths" in told:
            inputs["lengths"] = g.placeholder((-1,), mg.int32, "lengths")
        if "mask" in told:
            inputs["mask"] = g.placeholder((-1, -1), mg.bool_, "mask")
        call = {name: inputs[name] for name in ("lengths", "mask") if name in told}
        if "state" not in told:
            return inputs, {"y": layer(inputs["x"], **call)}
        rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
        states = [g.placeholder((rows, -1, 3), name=f"state_{i}") for i in range(1 + (kind == "LSTM"))]
        y, last = layer.with_state(inputs["x"], tuple(states) if kind == "LSTM" else states[0], **call)
        outputs = dict(zip(("last", "cell"), last if isinstance(last, tuple) else [last], strict=False))
        return {**inputs, **{s.name: s for s in states}}, {"y": y, **outputs}

    rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))

    def state(batch: int, steps: int) -> np.ndarray:
        return np.random.default_rng(batch).normal(size=(rows, batch, 3))

    return Model(make, lengths=some_lengths, mask=some_steps, state_0=state, state_1=state)


RECURRENT = {
    f"{kind}{''.join(f'-{one}' for one in told)}-{'both' if both else 'forward'}": recurrent(
        kind, *told, bidirectional=both, num_layers=2
    )
    for kind in ("RNN", "LSTM", "GRU")
    for told in (("lengths",), ("mask",), ("state",), ("state", "lengths"), ("state", "mask"))
    for both in (False, True)
}
RECURRENT |= {
    "RNN-relu-lengths": recurrent("RNN", "lengths", activation="relu"),
    "LSTM-without-bias": recurrent("LSTM", "lengths", bias=False),
    "GRU-one-bias": recurrent("GRU", "mask", recurrent_bias=False),
    "GRU-time-first": Model(
        lambda g: (lambda x: ({"x": x}, {"y": nn.GRU(3, batch_first=False).eval()(x)}))(g.placeholder((-1, -1, 4)))
    ),
}


# --- embeddings and propagated masks ----------------------------------------------------------------------------------


def embedded(**options: Any) -> Model:
    """Return an embedding layer."""

    def make(g: mg.Graph) -> Made:
        x = g.placeholder((-1, -1), mg.int32, "x")
        return {"x": x}, {"y": nn.Embedding(8, 4, **options)(x)}

    outside = options.get("out_of_range", "error") != "error"
    return Model(
        make, x=lambda n, t: np.arange(n * t).reshape(n, t) % 12 - 2 if outside else np.arange(n * t).reshape(n, t) % 8
    )


def masks_go_along(g: mg.Graph) -> Made:
    """Use the mask of an embedding in a recurrent layer and in attention."""
    x = g.placeholder((-1, -1), mg.int32, "x")
    y = nn.Embedding(10, 4, mask_zero=True)(x)
    return {"x": x}, {"y": nn.LSTM(3).eval()(y), "z": nn.MultiheadAttention(4, 2).eval()(y), "mask": nn.mask_of(y)}


def masked_steps(g: mg.Graph) -> Made:
    """Use Masking before a layer that preserves the steps and a recurrent layer."""
    x = g.placeholder((-1, -1, 4), name="x")
    return {"x": x}, {"y": nn.GRU(3).eval()(nn.Linear(4)(nn.Masking(0.0)(x)))}


def with_gaps(batch: int, steps: int) -> np.ndarray:
    x = np.random.default_rng(steps).normal(size=(batch, steps, 4))
    return x * some_steps(batch, steps)[..., None]


EMBEDDINGS = {
    "Embedding-zeros": embedded(out_of_range="zeros"),
    "Embedding-clip": embedded(out_of_range="clip"),
    "Embedding-padding": embedded(padding_index=2),
    "Embedding-mask": Model(masks_go_along),
    "Masking": Model(masked_steps, x=with_gaps),
}


# --- attention --------------------------------------------------------------------------------------------------------

POSITIONS = {
    "none": lambda: None,
    "rotary": nn.RotaryPositions,
    "interleaved": lambda: nn.RotaryPositions(interleaved=True),
    "relative": nn.RelativePositions,
    "linear": nn.LinearPositions,
}


def attention(
    positions: str = "none", *told: str, causal: bool = False, weights: bool = False, **options: Any
) -> Model:
    """Return self-attention or cross-attention with masks and positions."""

    def make(g: mg.Graph) -> Made:
        layer = nn.MultiheadAttention(8, 4, positions=POSITIONS[positions](), **options).eval()
        inputs = {"x": g.placeholder((-1, -1, 8), name="x")}
        call: dict[str, Any] = {"is_causal": causal}
        if "key" in told:
            inputs["key"] = g.placeholder((-1, -1, 8), name="key")
        for name in ("mask", "numbers"):
            if name in told:
                inputs[name] = call["mask"] = g.placeholder((-1, -1), "bool" if name == "mask" else "float32", name)
        if "padding" in told:
            inputs["padding"] = call["key_padding_mask"] = g.placeholder((-1, -1), mg.bool_, "padding")
        arguments = [inputs[name] for name in ("x", "key") if name in inputs]
        if not weights:
            return inputs, {"y": layer(*arguments, **call)}
        return inputs, dict(zip(("y", "weights"), layer.with_weights(*arguments, **call), strict=True))

    time_first = not options.get("batch_first", True)
    pair = (lambda n, t: (n, n)) if time_first else (lambda n, t: (t, t))
    return Model(
        make,
        mask=lambda n, t: np.random.default_rng(t).random(pair(n, t)) < 0.4,
        numbers=lambda n, t: np.random.default_rng(t).normal(size=pair(n, t)),
    )


ATTENTION = {
    f"attention-{positions}{'-grouped' if kv else ''}-{what}": attention(positions, *told, num_kv_heads=kv, **how)
    for positions in POSITIONS
    for kv in (None, 2)
    for what, told, how in (
        ("causal", (), {"causal": True}),
        ("masks", ("mask", "padding"), {}),
        ("weights", ("padding",), {"causal": True, "weights": True}),
    )
}
ATTENTION |= {
    "attention-other-keys": attention("none", "key", "padding"),
    "attention-numbers": attention("none", "numbers"),
    "attention-time-first": attention("none", "mask", batch_first=False),
}


def transformer(g: mg.Graph) -> Made:
    """Build an encoder with a padding mask and a decoder that attends to it."""
    x, y = (g.placeholder((-1, -1, 8), name=name) for name in "xy")
    padding = g.placeholder((-1, -1), mg.bool_, "padding")
    memory = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 4, 16), 2).eval()(x, key_padding_mask=padding)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 4, 16), 2).eval()
    return {"x": x, "y": y, "padding": padding}, {"z": decoder(y, memory, is_causal=True)}


# --- caches -----------------------------------------------------------------------------------------------------------


def cached(positions: str, whole: str = "attention", kv: int | None = None) -> Model:
    """Return a layer with a cache of earlier keys and values, at a position that is an input."""

    def make(g: mg.Graph) -> Made:
        inputs = {"x": g.placeholder((2, -1, 8), name="x"), "position": g.placeholder((1,), mg.int32, "position")}
        cache = nn.KeyValueCache(2, 16, inputs["position"])
        where = POSITIONS[positions]()
        if whole == "attention":
            layer = nn.MultiheadAttention(8, 4, num_kv_heads=kv, positions=where).eval()
            return inputs, {"y": layer(inputs["x"], cache=cache)}
        if whole == "encoder":
            one = nn.TransformerEncoderLayer(8, 4, 16, norm_first=True, num_kv_heads=kv, positions=where)
            layers = nn.TransformerEncoder(one, 2, nn.LayerNorm()).eval()
            return inputs, {"y": layers(inputs["x"], is_causal=True, cache=cache)}
        inputs["memory"] = g.placeholder((2, -1, 8), name="memory")
        layer = nn.TransformerDecoderLayer(8, 4, 16).eval()
        return inputs, {"y": layer(inputs["x"], inputs["memory"], cache=cache)}

    return Model(make, position=lambda n, t: [0])


CACHES = {f"cache-{positions}": cached(positions) for positions in POSITIONS}
CACHES |= {
    "cache-grouped": cached("rotary", kv=2),
    "cache-encoder": cached("rotary", "encoder", 2),
    "cache-decoder": cached("none", "decoder"),
}


# --- control flow and sampling ----------------------------------------------------------------------------------------


def repeated(g: mg.Graph) -> Made:
    """Build a for loop with an input as its end, a while loop, and a for loop that counts down."""
    x, count = g.placeholder((-1, 3), name="x"), g.placeholder((), mg.int32, "count")
    v = g.variable(np.float32([2, 3, 4]), name="v")
    (total,) = g.for_(1, count, 2, initial=[x], body=lambda i, y: y * 0.5 + g.cast(i, "float32") * v)

    def before(y: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
        return g.less_than(g.reshape(g.reduction_maximum(y, [0, 1]), ()), 100.0), y + v

    doubled = g.while_([total], before, lambda y: y * 1.5 + 1.0)[0]
    backwards = g.for_(4, 0, -1, initial=[x], body=lambda i, y: y + g.cast(i, "float32"))[0]
    return {"x": x, "count": count}, {"total": total, "doubled": doubled, "backwards": backwards}


def sampled(g: mg.Graph) -> Made:
    """Sample at temperature 0, so that the result is deterministic."""
    logits, cold = g.placeholder((-1, 8), name="logits"), g.placeholder((1,), name="cold")
    return {"logits": logits, "cold": cold}, {"drawn": nn.sampled(logits, cold * 0.0, top_k=3, top_p=0.9)}


OTHERS = {
    "transformer": Model(transformer),
    "loops": Model(repeated, count=lambda n, t: n + t),
    "sampled": Model(sampled),
}
MODELS: dict[str, Model] = {**RECURRENT, **EMBEDDINGS, **ATTENTION, **CACHES, **OTHERS}
