"""Export of recurrent layers as ONNX Scan nodes, for layers that ONNX's recurrent operators cannot express.

These layers mask states between time steps, return the cell state of every step, have peepholes or a flipped update
gate, or use different activations for different gates. Everything independent of the previous step is computed for all
steps at once.
"""

from __future__ import annotations

from onnx import helper

from ..._core import Operation, Tensor
from ...interchange.export import required_shape
from ...interchange.renames import names
from ._writer import Writer, type_number

_ACTIVATIONS = names("onnx", "gate activation")
_LSTM_GATES = ["input", "forget", "cell", "output"]


def by_steps(w: Writer, op: Operation, gates: int, given: dict[str, Tensor], hidden: int) -> list[str]:
    """Write a layer with Scan. Return the hidden states and, for LSTM, the cell states of all steps and directions."""
    ways = [True, False][: 2 if op.attributes["bidirectional"] else 1]
    flags = [not first for first in ways] if len(ways) == 2 else [bool(op.attributes["reverse"])]
    layers = _Steps(w, op, gates, given, hidden, len(ways))
    results = [layers.way(i, backwards) for i, backwards in enumerate(flags)]
    return [names[0] if len(names) == 1 else w.add("Concat", *names, axis=2) for names in zip(*results, strict=True)]


class _Steps:
    """The operands of a recurrent operation, split by direction."""

    def __init__(self, w: Writer, op: Operation, gates: int, given: dict[str, Tensor], hidden: int, ways: int) -> None:
        self.w, self.op, self.gates, self.hidden, self.ways = w, op, gates, hidden, ways
        source, recurrent = op.inputs[:2]
        self.source, self.dtype, self.rows = source, source.dtype, gates * hidden
        x = w.name(source)
        if "input_weight" in given:
            x = w.add("MatMul", x, w.transpose(w.name(given["input_weight"]), [1, 0]))
        if "bias" in given:
            x = w.add("Add", x, w.name(given["bias"]))
        self.products = self._parts(x, 2, self.rows)
        both = w.reshape(w.name(recurrent), [ways, self.rows, hidden])
        self.recurrent = [
            w.add("Squeeze", part, w.ints([0])) for part in self._parts(w.transpose(both, [0, 2, 1]), 0, 1)
        ]
        self.states = [self._state(given.get("initial_state"))]
        if op.kind == "lstm":
            self.states.append(self._state(given.get("initial_cell")))
        self.mask: list[str] | None = None
        if "mask" in given:
            sizes = w.sizes((source, 0), (source, 1), ways * hidden)
            self.mask = self._parts(w.add("Expand", w.name(given["mask"]), sizes), 2, hidden)
        self.extra: list[str] | None = None  # The peephole weights of an LSTM or the secondary bias of a GRU.
        for key, width in (("peephole", 4 * hidden), ("secondary_bias", hidden)):
            if key in given:
                self.extra = self._parts(w.reshape(w.name(given[key]), [ways * width]), 0, width)

    def _parts(self, name: str, axis: int, size: int) -> list[str]:
        if self.ways == 1:
            return [name]
        return self.w.add_several("Split", [name, self.w.ints([size] * self.ways)], self.ways, axis=axis)

    def _state(self, tensor: Tensor | None) -> list[str]:
        if tensor is not None:
            return self._parts(self.w.name(tensor), 1, self.hidden)
        zeros = self.w.add("Expand", self.w.number(0, self.dtype), self.w.sizes((self.source, 1), self.hidden))
        return [zeros] * self.ways

    def way(self, i: int, backwards: bool) -> list[str]:
        """Write a Scan node for direction i and return the names of its results for all time steps."""
        w, body = self.w, Writer(self.w.opset, self.w)
        before = [w.fresh("state") for _ in self.states]
        step, kept = w.fresh("step"), w.fresh("kept")
        state = body.add("Mul", before[0], kept) if self.mask else before[0]
        step_of = {"single_gate_rnn": self._rnn, "lstm": self._lstm, "gru": self._gru}[self.op.kind]
        after = step_of(body, i, step, state, before, kept if self.mask else "")
        scanned = [self.products[i], *([self.mask[i]] if self.mask else [])]
        batch = required_shape(self.source)[1]
        inputs = [self._info(name, batch, self.hidden) for name in before] + [self._info(step, batch, self.rows)]
        if self.mask:
            inputs.append(self._info(kept, batch, self.hidden))
        outputs = [self._info(body.identity(name), batch, self.hidden) for name in (*after, *after)]
        graph = helper.make_graph(body.nodes, w.fresh("steps"), inputs, outputs)
        count = len(before)
        results = w.add_several(
            "Scan",
            [*(state[i] for state in self.states), *scanned],
            2 * count,
            body=graph,
            num_scan_inputs=len(scanned),
            scan_input_directions=[int(backwards)] * len(scanned),
            scan_output_directions=[int(backwards)] * count,
        )
        return results[count:]

    def _info(self, name: str, batch: int, width: int) -> object:
        return helper.make_tensor_value_info(name, type_number(self.dtype), [batch if batch >= 0 else None, width])

    def _activated(self, body: Writer, key: str, name: str) -> str:
        kind = self.op.attributes[key]
        if kind == "none":
            return name
        numbers = {"alpha": 0.2, "beta": 0.5} if kind == "hard_sigmoid" else {}
        return body.add(_ACTIVATIONS[kind], name, **numbers)

    def _split(self, body: Writer, name: str, count: int) -> list[str]:
        return body.add_several("Split", [name, body.ints([self.hidden] * count)], count, axis=-1)

    def _rnn(self, body: Writer, i: int, step: str, state: str, before: list[str], kept: str) -> list[str]:
        found = body.add("Add", step, body.add("MatMul", state, self.recurrent[i]))
        return [self._activated(body, "activation", found)]

    def _lstm(self, body: Writer, i: int, step: str, state: str, before: list[str], kept: str) -> list[str]:
        cell = before[1]
        found = body.add("Add", step, body.add("MatMul", state, self.recurrent[i]))
        if self.extra:
            every = body.add("Concat", cell, cell, cell, cell, axis=-1)
            found = body.add("Add", found, body.add("Mul", self.extra[i], every))
        order = ["input", "cell", "forget", "output"] if self.op.attributes["forget_gate_last"] else _LSTM_GATES
        gates = {
            gate: self._activated(body, f"{gate}_gate_activation", name)
            for gate, name in zip(order, self._split(body, found, 4), strict=True)
        }
        cell = body.add("Add", body.add("Mul", gates["forget"], cell), body.add("Mul", gates["input"], gates["cell"]))
        return [body.add("Mul", gates["output"], self._activated(body, "activation", cell)), cell]

    def _gru(self, body: Writer, i: int, step: str, state: str, before: list[str], kept: str) -> list[str]:
        a, recurrent = self.op.attributes, self.recurrent[i]
        first, second, candidate = self._split(body, step, 3)
        weights = body.add_several("Split", [recurrent, body.ints([self.hidden] * 3)], 3, axis=-1)
        names = ("reset", "update") if a["reset_gate_first"] else ("update", "reset")
        gates = {
            gate: self._activated(
                body, f"{gate}_gate_activation", body.add("Add", x, body.add("MatMul", state, weight))
            )
            for gate, x, weight in zip(names, (first, second), weights, strict=False)
        }
        if a["reset_after"]:
            own = body.add("MatMul", state, weights[2])
            own = body.add("Add", own, self.extra[i]) if self.extra else own
            own = body.add("Mul", own, gates["reset"])
        else:
            own = body.add("MatMul", body.add("Mul", state, gates["reset"]), weights[2])
        new = self._activated(body, "output_gate_activation", body.add("Add", candidate, own))
        update = gates["update"]
        rest = body.add("Sub", body.number(1, self.dtype), update)
        of_state, of_new = (rest, update) if a["flip_z"] else (update, rest)
        return [body.add("Add", body.add("Mul", of_state, before[0]), body.add("Mul", of_new, new))]
