"""Recurrent layers: RNN, LSTM, and GRU, stacked and optionally bidirectional, built on the graph's operations.

Parameters have PyTorch's names, shapes, and gate order, so its state dicts load unchanged. Layer k has weight_ih_lk
(gates * H, inputs), weight_hh_lk (gates * H, H), and bias_ih_lk and bias_hh_lk (gates * H); the reverse direction has
the same with the suffix "_reverse". The batch comes first by default, as in Keras, whereas the graph's operations and
PyTorch's default have time first.

All layers take the `lengths` (N,) of padded sequences, or a `mask` (N, T) that is True at real steps, as in Keras. Each
sequence then gets the result it would get without padding: the reverse direction starts at its last real step, the
final state is that of this step, and outputs are zero at padding, as with PyTorch's pack_padded_sequence. The contents
of the padding do not matter. If neither is passed, the mask attached to x, if any, is used (see nn.masks).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks import BelowOne, Size
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from .initialisers import Fans, GlorotUniform, Initialiser, Orthogonal, zeros
from .layers import size_of
from .masks import mask_of
from .module import Module
from .parts import graph_of
from .sequence_lengths import Lengths, RealSteps

FORWARD, BACK = "", "_reverse"  # Suffixes of parameter names for the two directions.


class _EachGate:
    """Initializer that initializes the rows of each gate as a separate matrix, with another initializer."""

    def __init__(self, initialiser: Initialiser, gates: int) -> None:
        self.initialiser, self.gates = initialiser, gates

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        rows = (shape[0] // self.gates, *shape[1:])
        return np.concatenate([self.initialiser(rows, generator, fans) for _ in range(self.gates)])


class _Recurrent(Module):
    """Base class of the recurrent layers: holds the parameters and runs the loop over layers and directions."""

    gates = 1
    passes_mask = True
    unbounded = False  # Whether states can grow without bound while the layer runs over long padding.

    _input_size = 0

    def __init__(
        self,
        hidden_size: Size,
        *,
        num_layers: Size = 1,
        bias: bool = True,
        recurrent_bias: bool = True,
        batch_first: bool = True,
        dropout: BelowOne = 0.0,
        bidirectional: bool = False,
        weight_initialiser: Initialiser | None = None,
        recurrent_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
    ) -> None:
        name = type(self).__name__
        if hidden_size < 1 or num_layers < 1:
            raise ShapeError(
                f"{name}: hidden_size and num_layers must be at least 1, got hidden_size={hidden_size} and "
                f"num_layers={num_layers}"
            )
        if not 0 <= dropout < 1:
            raise GraphError(f"{name}: dropout must be at least 0 and below 1, got {dropout}")
        self.hidden_size, self.num_layers, self.has_bias, self.batch_first = hidden_size, num_layers, bias, batch_first
        self.recurrent_bias = bias and recurrent_bias
        self.dropout, self.directions = dropout, 2 if bidirectional else 1
        self.weight_initialiser = _EachGate(weight_initialiser or GlorotUniform(), self.gates)
        self.recurrent_initialiser = _EachGate(recurrent_initialiser or Orthogonal(), self.gates)
        self.bias_initialiser = bias_initialiser
        self._weights: dict[str, Tensor] = {}

    def build(self, x: Tensor) -> None:
        if x.shape is None or len(x.shape) != 3:
            axes = "(batch, time, inputs)" if self.batch_first else "(time, batch, inputs)"
            raise ShapeError(f"{type(self).__name__} needs a 3-D input {axes}, got shape {x.shape}")
        inputs, hidden = size_of(x, -1, None, type(self).__name__), self.hidden_size
        self._weights = {}  # A copy must not keep the variables of the original's graph.
        for layer in range(self.num_layers):
            for ending in ("", "_reverse")[: self.directions]:
                kinds = [("weight_ih", (inputs,), self.weight_initialiser, (float(inputs), float(hidden)))]
                kinds += [("weight_hh", (hidden,), self.recurrent_initialiser, (float(hidden), float(hidden)))]
                for kind, columns, initialiser, fans in kinds:
                    self._add_weight(f"{kind}_l{layer}{ending}", x, columns, initialiser, fans)
                for kind in ("bias_ih", "bias_hh")[: self.has_bias + self.recurrent_bias]:
                    self._add_weight(f"{kind}_l{layer}{ending}", x, (), self.bias_initialiser, None)
            inputs = self.directions * hidden

    def _add_weight(
        self, name: str, x: Tensor, columns: tuple[int, ...], initialiser: Initialiser, fans: Fans | None
    ) -> None:
        shape = (self.gates * self.hidden_size, *columns)
        self._weights[name] = self.add_parameter(name, x, shape, initialiser, fans, outputs_first=True)

    def _of_layer(self, kind: str, layer: int, ways: Sequence[str]) -> list[Tensor]:
        """Return a layer's parameters of one kind, such as "weight_ih", one for each direction in `ways`."""
        return [self._weights[f"{kind}_l{layer}{way}"] for way in ways]

    def _behind_each_other(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return tensors[0] if len(tensors) == 1 else graph_of(tensors[0]).concat(list(tensors), axis)

    def _weights_of(self, layer: int, ways: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return recurrent and input weights in the layout of the graph's operations."""
        recurrent = self._of_layer("weight_hh", layer, ways)
        both = graph_of(recurrent[0]).stack(recurrent, 0) if len(ways) == 2 else recurrent[0]
        return both, self._behind_each_other(self._of_layer("weight_ih", layer, ways), 0)

    def _bias_of(self, layer: int, ways: Sequence[str]) -> Tensor | None:
        if not self.has_bias:
            return None
        inputs = self._of_layer("bias_ih", layer, ways)
        if self.recurrent_bias:
            recurrent = self._of_layer("bias_hh", layer, ways)
            inputs = [one + other for one, other in zip(inputs, recurrent, strict=True)]
        return self._behind_each_other(inputs, 0)

    def _one_layer(
        self,
        x: Tensor,
        layer: int,
        ways: Sequence[str],
        initial: Sequence[Tensor],
        final: bool,
        kept: Tensor | None = None,
    ) -> list[Tensor]:
        """Run one layer and return its hidden states at all steps, and its cell states if they are needed.

        Args:
            kept: 0 at steps that must not see the previous state, 1 elsewhere.
        """
        raise NotImplementedError

    def _through(
        self, x: Tensor, initial: Sequence[Tensor], final: bool, lengths: Lengths | None, mask: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Run all layers and return the states of the last layer at all steps.

        If requested, also return the final states of all layers.
        """
        self.ensure_built(x)
        g, lasts = graph_of(x), []
        if lengths is None and mask is None:
            mask = mask_of(x)
        y = g.swap_axes(x, 0, 1) if self.batch_first else x
        real = None
        if lengths is not None or mask is not None:
            real = RealSteps(y, lengths, mask, self.batch_first, type(self).__name__)
            y = real.packed(y)
        for layer in range(self.num_layers):
            if layer and self.dropout:
                y = self._dropped(y)
            rows = range(layer * self.directions, (layer + 1) * self.directions)
            given = [[g.squeeze(g.slice_axis(state, 0, row, 1), 0) for state in initial] for row in rows]
            if real is None:
                starts = [self._behind_each_other(kind, -1) for kind in zip(*given, strict=True)]
                results = self._one_layer(y, layer, (FORWARD, BACK)[: self.directions], starts, final)
                last = [self._last_step(result) for result in results] if final else []
            else:
                results, last = self._real_layer(y, layer, given, final, real)
            y = results[0]
            if final:
                lasts.append(last)
        finals = [self._behind_each_other(kind, 0) for kind in zip(*lasts, strict=True)]
        if real is not None:
            y = real.unpacked(y)
        self.load_waiting()
        return (g.swap_axes(y, 0, 1) if self.batch_first else y), finals

    def _real_layer(
        self, x: Tensor, layer: int, initial: Sequence[Sequence[Tensor]], final: bool, real: RealSteps
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run a layer's directions over packed sequences. Return its states and, if requested, its final states."""
        found, lasts = [], []
        kept = graph_of(x).expand_dims(graph_of(x).cast(real.real, x.dtype), -1) if self.unbounded else None
        for way, given in zip((FORWARD, BACK)[: self.directions], initial, strict=True):
            source = real.reversed(x) if way == BACK else x
            states = self._one_layer(source, layer, (way,), given, final, kept)
            if final:
                before: Sequence[Tensor | None] = given or [None] * len(states)
                lasts.append([real.last(state, start) for state, start in zip(states, before, strict=True)])
            found.append(real.reversed(states[0]) if way == BACK else states[0])
        y = real.cleared(self._behind_each_other(found, -1))
        return [y], [self._behind_each_other(kind, 0) for kind in zip(*lasts, strict=True)]

    def _dropped(self, y: Tensor) -> Tensor:
        return self.when_training(y, lambda: graph_of(y).dropout(y, self.dropout), lambda: y)

    def _last_step(self, states: Tensor) -> Tensor:
        """Return final states (directions, N, H) from states (T, N, directions * H).

        The final state of the reverse direction is at step 0.
        """
        g = graph_of(states)
        last = g.slice_axis(states, 0, -1, 1)
        if self.directions == 1:
            return last
        first = g.slice_axis(states, 0, 0, 1)
        hidden = self.hidden_size
        return g.concat([g.slice_axis(last, 2, 0, hidden), g.slice_axis(first, 2, hidden, hidden)], 0)


class RNN(_Recurrent):
    """Elman recurrent layers: h[t] = activation(x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh).

    Maps an input of shape (N, T, features) to (N, T, hidden_size), or to (N, T, 2 * hidden_size) if bidirectional. See
    `forward` for padded sequences and initial states, and `with_state` for final states.

    Args:
        hidden_size: Number of units.
        num_layers: Number of stacked layers. Defaults to 1.
        activation: "tanh" (the default) or "relu".
        bias: Whether there are input biases. Defaults to True.
        recurrent_bias: Whether there are recurrent biases as well, as in PyTorch; Keras's layers have input biases
            only. Defaults to True.
        batch_first: Whether data is (N, T, features), the default, or (T, N, features).
        dropout: Probability of dropping an element between layers in training mode, in [0, 1). Defaults to 0.
        bidirectional: Whether to also run over the sequence in reverse. Defaults to False.
        weight_initialiser: Initializer of the input weights, called for each gate. Glorot uniform if None, the default.
        recurrent_initialiser: Initializer of the recurrent weights, called for each gate. Orthogonal if None, the
            default.
        bias_initialiser: Initializer of the biases. Defaults to zeros.

    Attributes:
        weight_ih_l0: (hidden_size, features), named after its layer and direction, as in PyTorch.
        weight_hh_l0: (hidden_size, hidden_size).
        bias_ih_l0: (hidden_size,); absent if bias is False.
        bias_hh_l0: (hidden_size,); absent if bias or recurrent_bias is False.

    Raises:
        ShapeError: If the input is not 3-D, or lengths or mask has the wrong shape.
        DTypeError: If lengths are not integers, or mask is not bool.
        GraphError: If dropout is out of range, or both lengths and mask are passed.
        OutOfRangeError: If a length is negative or exceeds the number of steps.

    Source: Elman, 1990.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.RNN(32)(g.placeholder((-1, 20, 8))).shape
        (-1, 20, 32)
    """

    _computed = frozenset(("unbounded",))

    def __init__(
        self,
        hidden_size: Size,
        *,
        num_layers: Size = 1,
        activation: str = "tanh",
        bias: bool = True,
        recurrent_bias: bool = True,
        batch_first: bool = True,
        dropout: BelowOne = 0.0,
        bidirectional: bool = False,
        weight_initialiser: Initialiser | None = None,
        recurrent_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
    ) -> None:
        super().__init__(
            hidden_size, num_layers=num_layers, bias=bias, recurrent_bias=recurrent_bias, batch_first=batch_first,
            dropout=dropout, bidirectional=bidirectional, weight_initialiser=weight_initialiser,
            recurrent_initialiser=recurrent_initialiser, bias_initialiser=bias_initialiser,
        )  # fmt: skip
        if activation not in ("tanh", "relu"):
            raise GraphError(f'RNN: activation must be "tanh" or "relu", got {shown(activation)}')
        self.activation, self.unbounded = activation, activation == "relu"

    def forward(
        self, x: Tensor, state: Tensor | None = None, *, lengths: Lengths | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Apply the layers.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Initial state (num_layers * directions, N, hidden_size). Zeros if None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The states of the last layer, (N, T, hidden_size), or (N, T, 2 * hidden_size) if bidirectional, with the
            axes ordered as in x.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.
        """
        return self._through(x, [] if state is None else [state], False, lengths, mask)[0]

    def with_state(
        self, x: Tensor, state: Tensor | None = None, *, lengths: Lengths | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Apply the layers and also return the final state.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Initial state (num_layers * directions, N, hidden_size). Zeros if None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The output, as `forward` returns it, and the final state (num_layers * directions, N, hidden_size), which
            can be passed to another call.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.

        Example:
            >>> g = mg.Graph()
            >>> y, state = mg.nn.RNN(32).with_state(g.placeholder((-1, 20, 8)))
            >>> state.shape
            (1, -1, 32)
        """
        y, (last,) = self._through(x, [] if state is None else [state], True, lengths, mask)
        return y, last

    def _one_layer(
        self,
        x: Tensor,
        layer: int,
        ways: Sequence[str],
        initial: Sequence[Tensor],
        final: bool,
        kept: Tensor | None = None,
    ) -> list[Tensor]:
        recurrent, weight = self._weights_of(layer, ways)
        return graph_of(x).single_gate_rnn(
            x, recurrent, weight, self._bias_of(layer, ways), initial[0] if initial else None, kept,
            activation=self.activation, bidirectional=len(ways) == 2,
        )  # fmt: skip


class LSTM(_Recurrent):
    """Long short-term memory layers.

    The gates i, f, g, o, in this order, are x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh. The cell state is c[t] =
    sigmoid(f) * c[t-1] + sigmoid(i) * tanh(g), and the hidden state is h[t] = sigmoid(o) * tanh(c[t]). Maps an input of
    shape (N, T, features) to (N, T, hidden_size), or to (N, T, 2 * hidden_size) if bidirectional.

    Args:
        hidden_size: Number of units.
        num_layers: Number of stacked layers. Defaults to 1.
        bias: Whether there are input biases. Defaults to True.
        recurrent_bias: Whether there are recurrent biases as well, as in PyTorch; Keras's layers have input biases
            only. Defaults to True.
        batch_first: Whether data is (N, T, features), the default, or (T, N, features).
        dropout: Probability of dropping an element between layers in training mode, in [0, 1). Defaults to 0.
        bidirectional: Whether to also run over the sequence in reverse. Defaults to False.
        weight_initialiser: Initializer of the input weights, called for each gate. Glorot uniform if None, the default.
        recurrent_initialiser: Initializer of the recurrent weights, called for each gate. Orthogonal if None, the
            default.
        bias_initialiser: Initializer of the biases. Defaults to zeros, also for the forget gate, where Keras uses ones.

    Attributes:
        weight_ih_l0: (4 * hidden_size, features), named after its layer and direction, as in PyTorch.
        weight_hh_l0: (4 * hidden_size, hidden_size).
        bias_ih_l0: (4 * hidden_size,); absent if bias is False.
        bias_hh_l0: (4 * hidden_size,); absent if bias or recurrent_bias is False.

    Raises:
        ShapeError: If the input is not 3-D, or lengths or mask has the wrong shape.
        DTypeError: If lengths are not integers, or mask is not bool.
        GraphError: If dropout is out of range, or both lengths and mask are passed.
        OutOfRangeError: If a length is negative or exceeds the number of steps.

    Source: Hochreiter and Schmidhuber, 1997.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.LSTM(32, num_layers=2, bidirectional=True)(g.placeholder((-1, 20, 8))).shape
        (-1, 20, 64)
    """

    gates = 4

    def forward(
        self,
        x: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        *,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Apply the layers.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Pair of initial hidden and cell states, (num_layers * directions, N, hidden_size) each. Zeros if
                None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The states of the last layer, (N, T, hidden_size), or (N, T, 2 * hidden_size) if bidirectional, with the
            axes ordered as in x.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.
        """
        return self._through(x, state or (), False, lengths, mask)[0]

    def with_state(
        self,
        x: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        *,
        lengths: Lengths | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Apply the layers and also return the final hidden and cell states.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Pair of initial hidden and cell states, (num_layers * directions, N, hidden_size) each. Zeros if
                None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The output, as `forward` returns it, and a pair of the final hidden and cell states,
            (num_layers * directions, N, hidden_size) each, which can be passed to another call.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.

        Example:
            >>> g = mg.Graph()
            >>> y, (state, cell) = mg.nn.LSTM(32).with_state(g.placeholder((-1, 20, 8)))
            >>> cell.shape
            (1, -1, 32)
        """
        y, (last, cell) = self._through(x, state or (), True, lengths, mask)
        return y, (last, cell)

    def _one_layer(
        self,
        x: Tensor,
        layer: int,
        ways: Sequence[str],
        initial: Sequence[Tensor],
        final: bool,
        kept: Tensor | None = None,
    ) -> list[Tensor]:
        recurrent, weight = self._weights_of(layer, ways)
        return graph_of(x).lstm(
            x, recurrent, weight, self._bias_of(layer, ways), *initial,
            produce_cell=final, bidirectional=len(ways) == 2,
        )  # fmt: skip


class GRU(_Recurrent):
    """Gated recurrent unit layers, with the reset gate applied after the matrix product, as in PyTorch and cuDNN.

    The gates are r, z = sigmoid(x[t] W_ih^T + b_ih + h[t-1] W_hh^T + b_hh), the candidate is n = tanh(x[t] W_in^T +
    b_in + r * (h[t-1] W_hn^T + b_hn)), and the state is h[t] = (1 - z) * n + z * h[t-1]. The gate order is r, z, n.
    Corresponds to Keras's GRU(reset_after=True), which also has both biases. Maps an input of shape (N, T, features) to
    (N, T, hidden_size), or to (N, T, 2 * hidden_size) if bidirectional.

    Args:
        hidden_size: Number of units.
        num_layers: Number of stacked layers. Defaults to 1.
        bias: Whether there are input biases. Defaults to True.
        recurrent_bias: Whether there are recurrent biases as well, as in PyTorch; Keras's layers have input biases
            only. Defaults to True.
        batch_first: Whether data is (N, T, features), the default, or (T, N, features).
        dropout: Probability of dropping an element between layers in training mode, in [0, 1). Defaults to 0.
        bidirectional: Whether to also run over the sequence in reverse. Defaults to False.
        weight_initialiser: Initializer of the input weights, called for each gate. Glorot uniform if None, the default.
        recurrent_initialiser: Initializer of the recurrent weights, called for each gate. Orthogonal if None, the
            default.
        bias_initialiser: Initializer of the biases. Defaults to zeros.

    Attributes:
        weight_ih_l0: (3 * hidden_size, features), named after its layer and direction, as in PyTorch.
        weight_hh_l0: (3 * hidden_size, hidden_size).
        bias_ih_l0: (3 * hidden_size,); absent if bias is False.
        bias_hh_l0: (3 * hidden_size,); absent if bias or recurrent_bias is False.

    Raises:
        ShapeError: If the input is not 3-D, or lengths or mask has the wrong shape.
        DTypeError: If lengths are not integers, or mask is not bool.
        GraphError: If dropout is out of range, or both lengths and mask are passed.
        OutOfRangeError: If a length is negative or exceeds the number of steps.

    Source: Cho et al., arXiv:1406.1078.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.GRU(32)(g.placeholder((-1, 20, 8))).shape
        (-1, 20, 32)
    """

    gates = 3

    def forward(
        self, x: Tensor, state: Tensor | None = None, *, lengths: Lengths | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Apply the layers.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Initial state (num_layers * directions, N, hidden_size). Zeros if None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The states of the last layer, (N, T, hidden_size), or (N, T, 2 * hidden_size) if bidirectional, with the
            axes ordered as in x.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.
        """
        return self._through(x, [] if state is None else [state], False, lengths, mask)[0]

    def with_state(
        self, x: Tensor, state: Tensor | None = None, *, lengths: Lengths | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Apply the layers and also return the final state.

        Args:
            x: (N, T, features), or (T, N, features) if batch_first is False.
            state: Initial state (num_layers * directions, N, hidden_size). Zeros if None, the default.
            lengths: Number of real steps of each padded sequence, integers (N,). Defaults to all steps.
            mask: Bool tensor, True at real steps, (N, T), or (T, N) if batch_first is False. Pass either lengths or
                mask; if neither is given, the mask attached to x, if any, is used (see nn.masks).

        Returns:
            The output, as `forward` returns it, and the final state (num_layers * directions, N, hidden_size), which
            can be passed to another call.

        Raises:
            ShapeError: If x is not 3-D, or lengths or mask has the wrong shape.
            DTypeError: If lengths are not integers, or mask is not bool.
            GraphError: If both lengths and mask are passed.
            OutOfRangeError: If a length is negative or exceeds the number of steps; for tensors, at run time.

        Example:
            >>> g = mg.Graph()
            >>> y, state = mg.nn.GRU(32, num_layers=2).with_state(g.placeholder((-1, 20, 8)))
            >>> state.shape
            (2, -1, 32)
        """
        y, (last,) = self._through(x, [] if state is None else [state], True, lengths, mask)
        return y, last

    def _one_layer(
        self,
        x: Tensor,
        layer: int,
        ways: Sequence[str],
        initial: Sequence[Tensor],
        final: bool,
        kept: Tensor | None = None,
    ) -> list[Tensor]:
        g = graph_of(x)
        recurrent, weight = self._weights_of(layer, ways)
        first, second = self._biases_of(layer, ways)
        return g.gru(
            x, recurrent, weight, first, initial[0] if initial else None, secondary_bias=second,
            bidirectional=len(ways) == 2, reset_gate_first=True, reset_after=True,
        )  # fmt: skip

    def _biases_of(self, layer: int, ways: Sequence[str]) -> tuple[Tensor | None, Tensor | None]:
        """Return the two biases of the graph's GRU operation.

        The input and recurrent biases are summed for the gates r and z. They stay separate for the candidate n,
        because r scales only the recurrent bias.
        """
        if not self.recurrent_bias:
            return self._bias_of(layer, ways), None
        added, apart = [], []
        biases = (self._of_layer(kind, layer, ways) for kind in ("bias_ih", "bias_hh"))
        for inputs, state in zip(*biases, strict=True):
            g, hidden = graph_of(inputs), self.hidden_size
            gates, new = g.split(state, [2 * hidden, hidden], 0)
            added.append(inputs + g.pad(gates, [0], [hidden]))
            apart.append(new)
        return self._behind_each_other(added, 0), self._behind_each_other(apart, 0)
