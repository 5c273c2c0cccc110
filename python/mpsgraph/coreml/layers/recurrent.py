"""Translations of recurrent layers.

Inputs have shape (Seq, Batch, width, 1, 1), and optional states have shape (1, Batch, width, 1, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Tensor
from ...interchange.renames import between
from .._values import Fixed
from .._wire import Message
from ._layer import Layer, layer

_ACTIVATIONS = between("layer", "mil", "gate activation")
_CELL_LIMIT = 50.0  # Core ML's default clipping threshold of LSTM cells.


def _activation(n: Layer, proto: Message) -> str:
    kind = proto.which("NonlinearityType") or "nothing"
    if kind == "sigmoidHard" and not np.allclose([proto.sigmoidHard.alpha, proto.sigmoidHard.beta], [0.2, 0.5]):
        n.refuse("a hard sigmoid must have alpha 0.2 and beta 0.5")
    if kind == "linear" and (proto.linear.alpha, proto.linear.beta) != (1.0, 0.0):
        n.refuse("a linear activation must be the identity")
    if kind not in _ACTIVATIONS:
        n.refuse(f"activation {kind} is not supported")
    return _ACTIVATIONS[kind]


def _steps(n: Layer) -> Tensor:
    """Reshape the input of a recurrent layer to (Seq, Batch, width)."""
    x = n.floats(n.x)
    return n.reshape(x, [n.dim(x, 0), n.dim(x, 1), n.dim(x, 2)]) if n.rank(x) == 5 else x


def _state(n: Layer, i: int, x: Tensor, width: int) -> Tensor:
    """Return input i, an initial state, with shape (batch, width), or zeros if the layer has no such input."""
    batch = n.dim(x, 1)
    if len(n.xs) > i:
        return n.reshape(n.xs[i], [batch, width])
    return n.g.broadcast_to(n.g.constant(0.0, (), x.dtype), n.joined([batch, width]))


def _five(n: Layer, x: Tensor, width: int) -> Tensor:
    """Reshape a result to (Seq, Batch, width, 1, 1), or to (Seq, Batch, width) if the layer's input has rank 3."""
    steps = [n.dim(x, 0), n.dim(x, 1)] if n.rank(x) == 3 else [1, n.dim(x, 0)]
    return n.reshape(x, [*steps, width, 1, 1]) if n.rank(n.x) == 5 else n.reshape(x, [*steps, width])


def _joined(n: Layer, held: Message, names: Sequence[str], shape: Sequence[int], part: str) -> Fixed:
    """Return the weights of all gates, concatenated along the first axis."""
    parts = [n.weight(getattr(held, name), shape, part).value for name in names]
    return Fixed(np.concatenate(parts, 0), "FLOAT32", f"{n.label}.{part}")


@layer("simpleRecurrent")
def simple(n: Layer) -> Sequence[Tensor]:
    p, given, width = n.p, int(n.p.inputVectorSize), int(n.p.outputVectorSize)
    x = _steps(n)
    made = n.several(
        "rnn", 2, x=x, initial_h=_state(n, 1, x, width),
        weight_ih=n.weight(p.weightMatrix, [width, given], "weight_ih"),
        weight_hh=n.weight(p.recursionMatrix, [width, width], "weight_hh"),
        bias=n.weight(p.biasVector, [width], "bias") if p.hasBiasVector else None,
        direction="reverse" if p.reverseInput else "forward", output_sequence=bool(p.sequenceOutput),
        activation=_activation(n, p.activation),
    )  # fmt: skip
    return [_five(n, y, width) for y in made][: n.results]


@layer("gru")
def gru(n: Layer) -> Sequence[Tensor]:
    p, given, width = n.p, int(n.p.inputVectorSize), int(n.p.outputVectorSize)
    x, gates = _steps(n), ("resetGate", "outputGate", "updateGate")
    inner, outer = (_activation(n, a) for a in p.activations)
    bias = _joined(n, p, [f"{g}BiasVector" for g in gates], [width], "bias") if p.hasBiasVectors else None
    made = n.several(
        "gru", 2, x=x, initial_h=_state(n, 1, x, width), bias=bias,
        weight_ih=_joined(n, p, [f"{g}WeightMatrix" for g in gates], [width, given], "weight_ih"),
        weight_hh=_joined(n, p, [f"{g}RecursionMatrix" for g in gates], [width, width], "weight_hh"),
        direction="reverse" if p.reverseInput else "forward", output_sequence=bool(p.sequenceOutput),
        recurrent_activation=inner, activation=outer,
    )  # fmt: skip
    return [_five(n, y, width) for y in made][: n.results]


_GATES = ("inputGate", "forgetGate", "outputGate", "blockInput")


def _lstm_weights(n: Layer, held: Message, given: int, width: int, back: str) -> dict[str, Any]:
    common = n.p.params
    result: dict[str, Any] = {
        f"weight_ih{back}": _joined(n, held, [f"{g}WeightMatrix" for g in _GATES], [width, given], f"weight_ih{back}"),
        f"weight_hh{back}": _joined(
            n, held, [f"{g}RecursionMatrix" for g in _GATES], [width, width], f"weight_hh{back}"
        ),
    }
    bias = np.zeros(4 * width, np.float32)
    if common.hasBiasVectors:
        bias = np.array(_joined(n, held, [f"{g}BiasVector" for g in _GATES], [width], "bias").value)
    if common.forgetBias:
        bias[width : 2 * width] += 1
    return {**result, f"bias{back}": Fixed(bias, "FLOAT32", f"{n.label}.bias{back}")}


@layer("uniDirectionalLSTM", "biDirectionalLSTM")
def lstm(n: Layer) -> Sequence[Tensor]:
    p, given, width, both = n.p, int(n.p.inputVectorSize), int(n.p.outputVectorSize), n.name == "biDirectionalLSTM"
    common, g = p.params, n.g
    if common.hasPeepholeVectors or common.coupledInputAndForgetGate:
        n.refuse("peepholes and coupled gates are not supported")
    x = _steps(n)
    acts = [_activation(n, a) for a in (p.activationsForwardLSTM if both else p.activations)]
    limit = float(common.cellClipThreshold) or _CELL_LIMIT
    # Each step changes a bounded cell by at most 1, so a short sequence cannot reach the limit.
    if acts[1] not in ("tanh", "sigmoid", "sigmoid_hard") or n.size(x, 0) > limit:
        n.refuse(f"clipping of cell states is not supported, but they may exceed the clipping threshold of {limit}")
    if both:
        if [_activation(n, a) for a in p.activationsBackwardLSTM] != acts:
            n.refuse("both directions must have the same activations")
        forward, backward = p.weightParams
        weights = _lstm_weights(n, forward, given, width, "") | _lstm_weights(n, backward, given, width, "_back")
        # Initial states: forward hidden state, forward cell, backward hidden state, backward cell.
        first = [_state(n, i, x, width) for i in range(1, 5)]
        states = [g.concat([first[0], first[2]], 1), g.concat([first[1], first[3]], 1)]
    else:
        weights = _lstm_weights(n, p.weightParams, given, width, "")
        states = [_state(n, i, x, width) for i in (1, 2)]
    direction = "bidirectional" if both else "reverse" if p.reverseInput else "forward"
    y, h, c = n.several(
        "lstm", 3, x=x, initial_h=states[0], initial_c=states[1], **weights, direction=direction,
        output_sequence=bool(common.sequenceOutput), recurrent_activation=acts[0], cell_activation=acts[1],
        activation=acts[2],
    )  # fmt: skip
    whole = 2 * width if both else width
    if not both:
        return [_five(n, t, whole) for t in (y, h, c)][: n.results]
    (hf, hb), (cf, cb) = g.split(h, 2, 1), g.split(c, 2, 1)
    return [_five(n, y, whole), *(_five(n, t, width) for t in (hf, cf, hb, cb))][: n.results]
