"""Lowering of recurrent sequences with lax.scan. Recurrent layers and their gradients consist of such sequences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half
from .matrix import product

_OPERANDS = (
    ("source", None),
    ("recurrent_weight", None),
    ("initial_state", None),
    ("initial_cell", "has_initial_cell"),
    ("mask", "has_mask"),
    ("extra", "has_extra"),
    ("input_weight", "has_input_weight"),
    ("bias", "has_bias"),
)
"""Operands of a recurrent sequence, in the order of src/core/ops/recurrent_sequence.cpp.

Each entry is the name of an operand and the attribute that states whether it is present, or None if it is required.
"""


def _activate(number: int, x: Value) -> Value:
    if number == 1:
        return jnp.maximum(x, jnp.zeros((), x.dtype))
    if number == 2:
        return jnp.tanh(x)
    if number == 3:
        return jax.nn.sigmoid(x)
    if number == 4:
        return jnp.clip(x * np.asarray(0.2, x.dtype) + np.asarray(0.5, x.dtype), 0, 1)
    return x


class _Direction:
    """One direction of a recurrent layer's loop over time. The values of a time step have shape [batch, hidden]."""

    def __init__(self, step: Step, operands: dict[str, Value], number: int) -> None:
        a = step.attributes
        self.cell, self.activations, self.places = a["cell"], a["activations"], a["places"]
        self.reset_after, self.flip = a["reset_after"], a["flip_z"]
        self.backward = bool(a["reverse"]) != (number == 1)
        self.precision = step.trace.precision
        weights = operands["recurrent_weight"]
        self.hidden, gated = weights.shape[2], weights.shape[1]
        self.weights = weights[number].T
        own = slice(number * self.hidden, (number + 1) * self.hidden)
        self.state = operands["initial_state"][:, own]
        self.initial_cell = operands["initial_cell"][:, own] if "initial_cell" in operands else self.state
        gates = slice(number * gated, (number + 1) * gated)
        if "input_weight" in operands:
            source = product(operands["source"], operands["input_weight"][gates].T, self.precision)
            self.source = source + operands["bias"][gates] if "bias" in operands else source
        else:
            self.source = operands["source"][:, :, gates]
        self.mask = self._mask(operands.get("mask"), own)
        self.extra = operands["extra"][number] if "extra" in operands else None

    def _mask(self, mask: Value, own: slice) -> Value:
        if mask is None:
            return None
        mask = mask if mask.shape[2] == 1 else mask[:, :, own]
        return jnp.broadcast_to(mask, (self.source.shape[0], *mask.shape[1:]))

    def run(self) -> tuple[Value, Value, Value]:
        """Return the hidden states, cell states, and gate values of all time steps. Gradients are computed from the
        gate values.
        """
        over = (self.source,) if self.mask is None else (self.source, self.mask)
        return lax.scan(self._step, (self.state, self.initial_cell), over, reverse=self.backward)[1]

    def _part(self, gates: Value, role: int) -> Value:
        return gates[:, self.places[role] * self.hidden : (self.places[role] + 1) * self.hidden]

    def _weights(self, role: int) -> Value:
        return self.weights[:, self.places[role] * self.hidden : (self.places[role] + 1) * self.hidden]

    def _joined(self, parts: list[Value]) -> Value:
        """Concatenate one part per gate. `parts` is in the order of roles, and the result is in the order of the
        weights.
        """
        return jnp.concatenate([parts[self.places.index(place)] for place in range(len(parts))], 1)

    def _step(self, carried: tuple[Value, Value], now: Any) -> tuple[tuple[Value, Value], tuple[Value, Value, Value]]:
        state, cell = carried
        mask = now[1] if self.mask is not None else None
        masked = state if mask is None else state * mask
        if self.cell == "gru":
            state, training = self._gru(state, masked, mask, now[0])
            return (state, cell), (state, cell, training)
        gates = now[0] + product(masked, self.weights, self.precision)
        if self.cell == "single_gate":
            state = _activate(self.activations[0], gates)
            return (state, cell), (state, cell, gates)
        values = []
        for role in range(4):
            x = self._part(gates, role)
            if self.extra is not None:
                place = self.places[role] * self.hidden
                x = x + cell * self.extra[place : place + self.hidden]
            values.append(_activate(self.activations[role], x))
        cell = values[1] * cell + values[0] * values[2]
        state = values[3] * _activate(self.activations[4], cell)
        return (state, cell), (state, cell, self._joined(values))

    def _gru(self, state: Value, masked: Value, mask: Value, source: Value) -> tuple[Value, Value]:
        z, r = (
            _activate(
                self.activations[role],
                self._part(source, role) + product(masked, self._weights(role), self.precision),
            )
            for role in (0, 1)
        )
        if self.reset_after:
            inner = product(masked, self._weights(2), self.precision)
            inner = r * (inner if self.extra is None else inner + self.extra)
        else:
            reset = state * r if mask is None else state * r * mask
            inner = product(reset, self._weights(2), self.precision)
        candidate = _activate(self.activations[2], self._part(source, 2) + inner)
        if self.flip:
            after = state + z * (candidate - state)
        else:
            after = candidate + z * (state - candidate)
        return after, self._joined([z, r, candidate])


@lowers("recurrent_sequence")
def recurrent_sequence(step: Step, *operands: Value) -> tuple[Value, ...]:
    """Compute a recurrent layer's loop over time for all directions.

    Returns the hidden states and, if requested, the cell states and the gate values from which gradients are computed.
    Directions are concatenated along the last axis.
    """
    names = [name for name, flag in _OPERANDS if flag is None or step[flag]]
    dtype = operands[0].dtype
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    given = {name: jnp.asarray(x).astype(wide) for name, x in zip(names, operands, strict=True)}
    sides = [_Direction(step, given, i).run() for i in range(given["recurrent_weight"].shape[0])]
    states, cells, training = (jnp.concatenate(parts, 2).astype(dtype) for parts in zip(*sides, strict=True))
    results = [states]
    if step["gives_cell"]:
        results.append(cells)
    if step["gives_training_state"]:
        results.append(training)
    return tuple(results)
