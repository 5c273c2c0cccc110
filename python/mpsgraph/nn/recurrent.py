"""Recurrent layers: RNN, LSTM and GRU, in one or both directions, one upon the other, over the graph's operations.

Parameters bear PyTorch's names and have its shapes, so that its state dictionaries load as they are: of layer k,
weight_ih_lk (gates * H, inputs), weight_hh_lk (gates * H, H), bias_ih_lk and bias_hh_lk (gates * H), and the same with
"_reverse" behind for the way back. The gates stand in its order, too. Data has the batch first unless told otherwise,
as in Keras, where the graph's operations and PyTorch's default have the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core import Tensor
from .._shown import shown
from ..errors import GraphError, ShapeError
from .initialisers import Fans, GlorotUniform, Initialiser, Orthogonal, zeros
from .layers import size_of
from .module import Module, graph_of


class _EachGate:
    """An initialiser that draws the rows of each gate by themselves."""

    def __init__(self, initialiser: Initialiser, gates: int) -> None:
        self.initialiser, self.gates = initialiser, gates

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        rows = (shape[0] // self.gates, *shape[1:])
        return np.concatenate([self.initialiser(rows, generator, fans) for _ in range(self.gates)])


class _Recurrent(Module):
    """What recurrent layers share: parameters, the way through the layers and both directions, the last states."""

    gates = 1
    states = 1

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        weight_initialiser: Initialiser | None = None,
        recurrent_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
    ) -> None:
        name = type(self).__name__
        if hidden_size < 1 or num_layers < 1:
            raise ShapeError(f"{name}: there must be a unit and a layer at least, got {hidden_size} and {num_layers}")
        if not 0 <= dropout < 1:
            raise GraphError(f"{name}: dropout must be from 0 up to but not including 1, got {dropout}")
        self.hidden_size, self.num_layers, self.has_bias, self.batch_first = hidden_size, num_layers, bias, batch_first
        self.dropout, self.directions = dropout, 2 if bidirectional else 1
        self.weight_initialiser = _EachGate(weight_initialiser or GlorotUniform(), self.gates)
        self.recurrent_initialiser = _EachGate(recurrent_initialiser or Orthogonal(), self.gates)
        self.bias_initialiser = bias_initialiser
        self._weights: dict[str, Tensor] = {}

    def build(self, x: Tensor) -> None:
        if x.shape is None or len(x.shape) != 3:
            axes = "(batch, time, inputs)" if self.batch_first else "(time, batch, inputs)"
            raise ShapeError(f"{type(self).__name__} needs an input {axes}, its shape is {x.shape}")
        inputs, hidden = size_of(x, -1, None, type(self).__name__), self.hidden_size
        for layer in range(self.num_layers):
            for ending in ("", "_reverse")[: self.directions]:
                kinds = [("weight_ih", (inputs,), self.weight_initialiser, (float(inputs), float(hidden)))]
                kinds += [("weight_hh", (hidden,), self.recurrent_initialiser, (float(hidden), float(hidden)))]
                for kind, columns, initialiser, fans in kinds:
                    self._add_weight(f"{kind}_l{layer}{ending}", x, columns, initialiser, fans)
                for kind in ("bias_ih", "bias_hh") if self.has_bias else ():
                    self._add_weight(f"{kind}_l{layer}{ending}", x, (), self.bias_initialiser, None)
            inputs = self.directions * hidden

    def _add_weight(
        self, name: str, x: Tensor, columns: tuple[int, ...], initialiser: Initialiser, fans: Fans | None
    ) -> None:
        shape = (self.gates * self.hidden_size, *columns)
        self._weights[name] = self.add_parameter(name, x, shape, initialiser, fans)

    def _of_layer(self, kind: str, layer: int) -> list[Tensor]:
        """A parameter of a layer, for each direction."""
        return [self._weights[f"{kind}_l{layer}{ending}"] for ending in ("", "_reverse")[: self.directions]]

    def _behind_each_other(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return tensors[0] if len(tensors) == 1 else graph_of(tensors[0]).concat(list(tensors), axis)

    def _weights_of(self, layer: int) -> tuple[Tensor, Tensor]:
        """Recurrent and input weights as the operations take them."""
        recurrent = self._of_layer("weight_hh", layer)
        both = graph_of(recurrent[0]).stack(recurrent, 0) if self.directions == 2 else recurrent[0]
        return both, self._behind_each_other(self._of_layer("weight_ih", layer), 0)

    def _bias_of(self, layer: int) -> Tensor | None:
        if not self.has_bias:
            return None
        pairs = zip(self._of_layer("bias_ih", layer), self._of_layer("bias_hh", layer), strict=True)
        return self._behind_each_other([inputs + recurrent for inputs, recurrent in pairs], 0)

    def _one_layer(self, x: Tensor, layer: int, initial: Sequence[Tensor], final: bool) -> list[Tensor]:
        """The operation of a layer: its states of all steps, as many kinds of them as are asked for."""
        raise NotImplementedError

    def _through(self, x: Tensor, initial: Sequence[Tensor], final: bool) -> tuple[Tensor, list[Tensor]]:
        """The last layer's states of all steps, and if asked for the last steps' of all layers."""
        self.ensure_built(x)
        g, lasts = graph_of(x), []
        y = g.swap_axes(x, 0, 1) if self.batch_first else x
        for layer in range(self.num_layers):
            if layer and self.dropout:
                y = self._dropped(y)
            rows = range(layer * self.directions, (layer + 1) * self.directions)
            given = [
                self._behind_each_other([g.squeeze(g.slice_axis(state, 0, row, 1), 0) for row in rows], -1)
                for state in initial
            ]
            results = self._one_layer(y, layer, given, final)
            y = results[0]
            if final:
                lasts.append([self._last_step(result) for result in results])
        finals = [self._behind_each_other(kind, 0) for kind in zip(*lasts, strict=True)]
        return (g.swap_axes(y, 0, 1) if self.batch_first else y), finals

    def _dropped(self, y: Tensor) -> Tensor:
        return self.when_training(y, lambda: graph_of(y).dropout(y, self.dropout), lambda: y)

    def _last_step(self, states: Tensor) -> Tensor:
        """(directions, N, H) of [T, N, directions * H]: the way back ends at the first step."""
        g = graph_of(states)
        last = g.slice_axis(states, 0, -1, 1)
        if self.directions == 1:
            return last
        first = g.slice_axis(states, 0, 0, 1)
        hidden = self.hidden_size
        return g.concat([g.slice_axis(last, 2, 0, hidden), g.slice_axis(first, 2, hidden, hidden)], 0)

    def describe(self) -> str:
        layers = f", {self.num_layers}" if self.num_layers > 1 else ""
        return f"{self.hidden_size}{layers}" + (", bidirectional=True" if self.directions == 2 else "")


class RNN(_Recurrent):
    """Elman's recurrent layers: h[t] = activation(x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh).

    Args: hidden_size, H; num_layers, each upon the results of the one before; activation, "tanh" or "relu"; bias;
    batch_first, whether data is (N, T, C), else (T, N, C); dropout, the share that is dropped between layers in
    training mode; bidirectional; initialisers, Glorot's uniform, orthogonal and zeros as in Keras, drawn gate by gate.
    Input as said; result (N, T, H), or 2 H when bidirectional. `with_state` gives the last states, too. Errors:
    ShapeError, GraphError. Elman, 1990.

    >>> g = mg.Graph()
    >>> mg.nn.RNN(32)(g.placeholder((-1, 20, 8))).shape
    (-1, 20, 32)
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        weight_initialiser: Initialiser | None = None,
        recurrent_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
    ) -> None:
        super().__init__(
            hidden_size, num_layers, bias=bias, batch_first=batch_first, dropout=dropout, bidirectional=bidirectional,
            weight_initialiser=weight_initialiser, recurrent_initialiser=recurrent_initialiser,
            bias_initialiser=bias_initialiser,
        )  # fmt: skip
        if activation not in ("tanh", "relu"):
            raise GraphError(f'RNN: activation must be "tanh" or "relu", got {shown(activation)}')
        self.activation = activation

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return self._through(x, [] if state is None else [state], final=False)[0]

    def with_state(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The result and the last states (layers * directions, N, H), which begin another call where given: zeros else.

        >>> g = mg.Graph()
        >>> y, state = mg.nn.RNN(32).with_state(g.placeholder((-1, 20, 8)))
        >>> state.shape
        (1, -1, 32)
        """
        y, (last,) = self._through(x, [] if state is None else [state], final=True)
        return y, last

    def _one_layer(self, x: Tensor, layer: int, initial: Sequence[Tensor], final: bool) -> list[Tensor]:
        recurrent, weight = self._weights_of(layer)
        return graph_of(x).single_gate_rnn(
            x, recurrent, weight, self._bias_of(layer), *initial,
            activation=self.activation, bidirectional=self.directions == 2,
        )  # fmt: skip


class LSTM(_Recurrent):
    """Long short-term memory. Hochreiter and Schmidhuber, 1997.

    i, f, g, o = x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh, in this order; c[t] = sigmoid(f) * c[t-1] + sigmoid(i) *
    tanh(g); h[t] = sigmoid(o) * tanh(c[t]). Args and shapes: as RNN's, without the activation. The bias of the forget
    gate begins with zeros, too, where Keras has ones. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> mg.nn.LSTM(32, num_layers=2, bidirectional=True)(g.placeholder((-1, 20, 8))).shape
    (-1, 20, 64)
    """

    gates = 4

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Tensor:
        return self._through(x, state or (), final=False)[0]

    def with_state(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The result and the last states and cells, (layers * directions, N, H) each, to begin another call with.

        >>> g = mg.Graph()
        >>> y, (state, cell) = mg.nn.LSTM(32).with_state(g.placeholder((-1, 20, 8)))
        >>> cell.shape
        (1, -1, 32)
        """
        y, (last, cell) = self._through(x, state or (), final=True)
        return y, (last, cell)

    def _one_layer(self, x: Tensor, layer: int, initial: Sequence[Tensor], final: bool) -> list[Tensor]:
        recurrent, weight = self._weights_of(layer)
        return graph_of(x).lstm(
            x, recurrent, weight, self._bias_of(layer), *initial,
            produce_cell=final, bidirectional=self.directions == 2,
        )  # fmt: skip


class GRU(_Recurrent):
    """Gated recurrent units, with the reset gate behind the matrix, as PyTorch and cuDNN have them.

    r, z = sigmoid(x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh); n = tanh(x[t] W_in^T + b_in + r * (h[t-1] W_hn^T +
    b_hn)); h[t] = (1 - z) * n + z * h[t-1]. The gates stand in the order r, z, n. Args and shapes: as RNN's, without
    the activation. Errors: ShapeError, GraphError. Cho et al., arXiv:1406.1078.

    >>> g = mg.Graph()
    >>> mg.nn.GRU(32)(g.placeholder((-1, 20, 8))).shape
    (-1, 20, 32)
    """

    gates = 3

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return self._through(x, [] if state is None else [state], final=False)[0]

    def with_state(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The result and the last states (layers * directions, N, H), which begin another call where given: zeros else.

        >>> g = mg.Graph()
        >>> y, state = mg.nn.GRU(32, num_layers=2).with_state(g.placeholder((-1, 20, 8)))
        >>> state.shape
        (2, -1, 32)
        """
        y, (last,) = self._through(x, [] if state is None else [state], final=True)
        return y, last

    def _one_layer(self, x: Tensor, layer: int, initial: Sequence[Tensor], final: bool) -> list[Tensor]:
        g, hidden = graph_of(x), self.hidden_size
        recurrent, weight = self._weights_of(layer)
        first, second = None, None
        if self.has_bias:
            # r and z take the sum of both biases; n has that of the state apart, because r multiplies it
            added, kept = [], []
            for inputs, state in zip(self._of_layer("bias_ih", layer), self._of_layer("bias_hh", layer), strict=True):
                gates, new = g.split(state, [2 * hidden, hidden], 0)
                added.append(inputs + g.pad(gates, [0], [hidden]))
                kept.append(new)
            first, second = self._behind_each_other(added, 0), self._behind_each_other(kept, 0)
        return g.gru(
            x, recurrent, weight, first, initial[0] if initial else None, secondary_bias=second,
            bidirectional=self.directions == 2, reset_gate_first=True, reset_after=True,
        )  # fmt: skip
