"""Translations of recurrent layers.

LSTM and GRU have several layers in one or both directions. `torch/recurrent.py` replaces LSTM, GRU and RNN in captured
graphs with operations for a single layer, forward and backward, which are translated here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..._core import Tensor
from ._table import Call, aten, shape_of

own = partial(aten, domain="mpsgraph")
Layer = Callable[[Tensor, list[Any], int, bool], tuple[Tensor, list[Tensor]]]
"""Function that runs one recurrent layer in one direction.

Its arguments are (inputs, weights and biases, state index, reverse). It returns the outputs and, for each state, the
state over time.
"""


def _run(
    call: Call, layer: Layer, x: Tensor, parameters: Sequence[Tensor], biases: bool, layers: int, dropout: float,
    training: bool, both: bool, batch_first: bool,
) -> list[Tensor]:  # fmt: skip
    """Run all layers and directions of a recurrent network.

    Returns the outputs and the last value of each state, with shape (layers * directions, N, H).
    """
    g, each, ways = call.g, 4 if biases else 2, 2 if both else 1
    if len(shape_of(x)) != 3 or len(parameters) != each * layers * ways:
        call.refuse("inputs without a batch axis and projections (proj_size) are not supported")
    x = g.transpose(x, [1, 0, 2]) if batch_first else x
    ends: list[list[Tensor]] = []
    for number in range(layers):
        outputs = []
        for way in range(ways):
            at = number * ways + way
            given = [*parameters[at * each : (at + 1) * each], *([] if biases else [None, None])]
            found, states = layer(x, given, at, way == 1)
            outputs.append(found)
            last = 0 if way else shape_of(found)[0] - 1
            ends.append([g.slice_axis(state, 0, last, 1) for state in states])
        x = g.concat(outputs, 2) if both else outputs[0]
        if dropout and training and number < layers - 1:
            x = g.dropout(x, float(dropout))
    final = [g.concat(list(states), 0) if len(states) > 1 else states[0] for states in zip(*ends, strict=True)]
    return [g.transpose(x, [1, 0, 2]) if batch_first else x, *final]


def _state(call: Call, states: Tensor, number: int) -> Tensor:
    return call.g.reshape(call.g.slice_axis(states, 0, number, 1), shape_of(states)[1:])


@aten("lstm")
def lstm(
    call: Call, x: Tensor, states: Sequence[Tensor], parameters: Sequence[Tensor], biases: bool, layers: int,
    dropout: float, training: bool, both: bool, batch_first: bool,
) -> list[Tensor]:  # fmt: skip
    if not isinstance(states, (list, tuple)):
        call.refuse("packed sequences are not supported")

    def layer(x: Tensor, given: list[Any], number: int, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        inputs, recurrent, *two = given
        bias = None if two[0] is None else two[0] + two[1]
        first, cell = (_state(call, s, number) for s in states)
        h, c = call.g.lstm(x, recurrent, inputs, bias, first, cell, reverse=reverse, produce_cell=True)[:2]
        return h, [h, c]

    return _run(call, layer, x, parameters, biases, layers, dropout, training, both, batch_first)


@aten("gru")
def gru(
    call: Call, x: Tensor, states: Tensor, parameters: Sequence[Tensor], biases: bool, layers: int, dropout: float,
    training: bool, both: bool, batch_first: bool,
) -> list[Tensor]:  # fmt: skip
    if not isinstance(biases, bool):
        call.refuse("packed sequences are not supported")

    def layer(x: Tensor, given: list[Any], number: int, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        g = call.g
        inputs, recurrent, of_inputs, of_states = given
        bias = secondary = None
        if of_inputs is not None:
            size = shape_of(recurrent)[1]
            gates = g.slice_axis(of_states, 0, 0, 2 * size)
            secondary = g.slice_axis(of_states, 0, 2 * size, size)
            bias = of_inputs + g.pad(gates, [0], [size])
        h = g.gru(
            x, recurrent, inputs, bias, _state(call, states, number), secondary_bias=secondary, reverse=reverse,
            reset_gate_first=True, reset_after=True,
        )[0]  # fmt: skip
        return h, [h]

    return _run(call, layer, x, parameters, biases, layers, dropout, training, both, batch_first)


@own("lstm_layer")
def lstm_layer(
    call: Call, x: Tensor, h: Tensor, c: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, reverse: bool
) -> list[Tensor | None]:
    """Translate one LSTM layer.

    Returns the hidden states, the cell states, and the gates, which are None unless the backward pass reads them.
    """
    training = call.gives(2)
    found = call.g.lstm(x, recurrent, inputs, bias, h, c, reverse=reverse, produce_cell=True, training=training)
    return [*found] if training else [*found, None]


@own("lstm_layer_backward")
def lstm_layer_backward(
    call: Call, to_states: Tensor, to_cells: Tensor | None, cells: Tensor, gates: Tensor, x: Tensor, h: Tensor,
    c: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h, to_c = call.g.lstm_gradients(
        x, recurrent, to_states, gates, cells, inputs, bias, h, c, cell_gradient=to_cells, reverse=reverse
    )
    return [to_x, to_h, to_c, to_inputs, to_recurrent, to_bias]


@own("gru_layer")
def gru_layer(
    call: Call, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, secondary: Tensor, reverse: bool
) -> list[Tensor | None]:
    training = call.gives(1)
    found = call.g.gru(
        x, recurrent, inputs, bias, h, secondary_bias=secondary, reverse=reverse, training=training,
        reset_gate_first=True, reset_after=True,
    )  # fmt: skip
    return [*found] if training else [*found, None]


@own("gru_layer_backward")
def gru_layer_backward(
    call: Call, to_states: Tensor, states: Tensor, gates: Tensor, x: Tensor, h: Tensor, inputs: Tensor,
    recurrent: Tensor, bias: Tensor, secondary: Tensor, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h, to_secondary = call.g.gru_gradients(
        x, recurrent, to_states, gates, states, inputs, bias, h, secondary_bias=secondary, reverse=reverse,
        reset_gate_first=True, reset_after=True,
    )  # fmt: skip
    return [to_x, to_h, to_inputs, to_recurrent, to_bias, to_secondary]


@own("rnn_layer")
def rnn_layer(
    call: Call, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, activation: str, reverse: bool
) -> list[Tensor | None]:
    training = call.gives(1)
    found = call.g.single_gate_rnn(
        x, recurrent, inputs, bias, h, activation=activation, reverse=reverse, training=training
    )
    return [*found] if training else [*found, None]


@own("rnn_layer_backward")
def rnn_layer_backward(
    call: Call, to_states: Tensor, sums: Tensor, x: Tensor, h: Tensor, inputs: Tensor, recurrent: Tensor,
    bias: Tensor, activation: str, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    to_x, to_recurrent, to_inputs, to_bias, to_h = call.g.single_gate_rnn_gradients(
        x, recurrent, to_states, sums, inputs, bias, h, activation=activation, reverse=reverse
    )
    return [to_x, to_h, to_inputs, to_recurrent, to_bias]
