"""Recurrent layers over sequences: single-gate RNN, LSTM, GRU, and their gradients as operations of their own.

Sequences are [T, N, I]: time steps, batch, inputs; states are [N, H]. Weights stand as in PyTorch, one row a unit, the
gates one after the other. A bidirectional layer has the weights of both directions behind each other and gives both
results behind each other in the last axis: H becomes 2 H there. `mpsgraph.nn` has layers with variables over these.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Tensor

Optional = Tensor | None


class Recurrent(Family):
    """single_gate_rnn, lstm, gru and their gradients."""

    def single_gate_rnn(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        mask: Optional = None,
        *,
        activation: str = "relu",
        reverse: bool = False,
        bidirectional: bool = False,
        training: bool = False,
        name: str | None = None,
    ) -> list[Tensor]:
        """Elman's recurrent layer: each step's state from its input and the state before.

        z[t] = x[t] Wᵀ + b + (h[t-1] * m) Rᵀ; h[t] = activation(z[t]).

        Args:
            source: x, [T, N, I]; without an input weight [T, N, H], added as it is.
            recurrent_weight: R, [H, H]; bidirectional [2, H, H]. input_weight: W, [H, I]; bidirectional [2 H, I].
            bias: b, [H] or [2 H], zeros when None. initial_state: h[-1], [N, H] or [N, 2 H], zeros when None.
            mask: m, what broadcasts to [T, N, H] or [T, N, 2 H], ones when None: dropout of the state.
            activation: "none", "relu", "tanh", "sigmoid" or "hard_sigmoid", that is min(max(0.2 x + 0.5, 0), 1).
            reverse: from the last step to the first. bidirectional: both ways, one result behind the other.
            training: whether z is a result.
        Returns: [h], training [h, z]; [T, N, H], bidirectional [T, N, 2 H]. Errors: ShapeError, DTypeError, GraphError.
        Gradient: single_gate_rnn_gradients; the mask has one, too. Source: MPSGraph
        singleGateRNNWithSourceTensor:recurrentWeight:inputWeight:bias:initState:mask:descriptor:name: and its short
        forms, MPSGraphSingleGateRNNDescriptor.

        >>> g = mg.Graph()
        >>> x, r = g.constant([[[1.0]], [[1.0]], [[1.0]]]), g.constant([[0.5]])
        >>> g.run({}, g.single_gate_rnn(x, r)[0]).numpy().ravel().tolist()
        [1.0, 1.5, 1.75]
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state, "mask": mask}
        how = {"activation": activation, "reverse": reverse, "bidirectional": bidirectional, "training": training}
        return self._recurrent("single_gate_rnn", [source, recurrent_weight], optional, how, name)

    def single_gate_rnn_gradients(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        source_gradient: Tensor,
        training_state: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        mask: Optional = None,
        state_gradient: Optional = None,
        *,
        activation: str = "relu",
        reverse: bool = False,
        bidirectional: bool = False,
        name: str | None = None,
    ) -> list[Tensor]:
        """Gradients of single_gate_rnn by its operands, back through time.

        Args:
            source, recurrent_weight, input_weight, bias, initial_state, mask and the flags: as they were given there.
            source_gradient: the gradient of the states, [T, N, H] or [T, N, 2 H]. training_state: its second result.
            state_gradient: [N, H] or [N, 2 H], added to that of the last state that each direction comes to.
        Returns: gradients of source, recurrent_weight, input_weight, bias and initial_state, in this order, without
        those that were not given. Errors: ShapeError, DTypeError, GraphError. Gradient: by composition, for a known T.
        Source: MPSGraph singleGateRNNGradientsWithSourceTensor:recurrentWeight:sourceGradient:zState:stateGradient:
        inputWeight:bias:initState:mask:descriptor:name: and its short forms.

        >>> g = mg.Graph()
        >>> x, r, one = g.constant([[[2.0]], [[1.0]]]), g.constant([[0.5]]), g.constant(1.0, (2, 1, 1))
        >>> h, z = g.single_gate_rnn(x, r, training=True)
        >>> [g.run({}, d).numpy().ravel().tolist() for d in g.single_gate_rnn_gradients(x, r, one, z)]
        [[1.5, 1.0], [2.0]]
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state, "mask": mask}
        optional |= {"state_gradient": state_gradient}
        how = {"activation": activation, "reverse": reverse, "bidirectional": bidirectional}
        required = [source, recurrent_weight, source_gradient, training_state]
        return self._recurrent("single_gate_rnn_gradients", required, optional, how, name)

    def lstm(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        initial_cell: Optional = None,
        mask: Optional = None,
        peephole: Optional = None,
        *,
        reverse: bool = False,
        bidirectional: bool = False,
        produce_cell: bool = False,
        training: bool = False,
        forget_gate_last: bool = False,
        input_gate_activation: str = "sigmoid",
        forget_gate_activation: str = "sigmoid",
        cell_gate_activation: str = "tanh",
        output_gate_activation: str = "sigmoid",
        activation: str = "tanh",
        name: str | None = None,
    ) -> list[Tensor]:
        """Long short-term memory. Hochreiter and Schmidhuber, 1997.

        i, f, z, o = act(x[t] Wᵀ + b + (h[t-1] * m) Rᵀ + p * c[t-1]); c[t] = f * c[t-1] + i * z;
        h[t] = o * activation(c[t]).

        Args:
            source: x, [T, N, I]; without an input weight [T, N, 4 H], added as it is.
            recurrent_weight: R, [4 H, H]; bidirectional [2, 4 H, H]. input_weight: W, [4 H, I]; bidirectional [8 H, I].
                The gates stand in the order input, forget, cell, output; with forget_gate_last input, cell, forget,
                output.
            bias: b, [4 H] or [8 H]. initial_state, initial_cell: h[-1] and c[-1], [N, H] or [N, 2 H]. All zeros when
                None.
            mask: m, what broadcasts to [T, N, H] or [T, N, 2 H], ones when None: dropout of the state.
            peephole: p, [4 H] or [2, 4 H], zeros when None.
            reverse: from the last step to the first. bidirectional: both ways, one result behind the other.
            produce_cell: whether c is a result. training: whether c and the gates are.
            the activations: "none", "relu", "tanh", "sigmoid" or "hard_sigmoid", that is min(max(0.2 x + 0.5, 0), 1).
        Returns: [h], [h, c] or [h, c, gates]; h and c [T, N, H] or [T, N, 2 H], the gates after their activations
        [T, N, 4 H] or [T, N, 8 H]. Errors: ShapeError, DTypeError, GraphError. Gradient: lstm_gradients; the mask has
        one, too. Source: MPSGraph LSTMWithSourceTensor:recurrentWeight:inputWeight:bias:initState:initCell:mask:
        peephole:descriptor:name: and its short forms, MPSGraphLSTMDescriptor.

        >>> g = mg.Graph()
        >>> h, c = g.lstm(g.constant(100.0, (2, 1, 4)), g.constant(0.0, (4, 1)), produce_cell=True)
        >>> g.run({}, c).numpy().ravel().tolist()
        [1.0, 2.0]
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state}
        optional |= {"initial_cell": initial_cell, "mask": mask, "peephole": peephole}
        how = {
            "reverse": reverse,
            "bidirectional": bidirectional,
            "produce_cell": produce_cell,
            "training": training,
            "forget_gate_last": forget_gate_last,
            "input_gate_activation": input_gate_activation,
            "forget_gate_activation": forget_gate_activation,
            "cell_gate_activation": cell_gate_activation,
            "output_gate_activation": output_gate_activation,
            "activation": activation,
        }
        return self._recurrent("lstm", [source, recurrent_weight], optional, how, name)

    def lstm_gradients(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        source_gradient: Tensor,
        training_state: Tensor,
        cell: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        initial_cell: Optional = None,
        mask: Optional = None,
        peephole: Optional = None,
        state_gradient: Optional = None,
        cell_gradient: Optional = None,
        *,
        reverse: bool = False,
        bidirectional: bool = False,
        forget_gate_last: bool = False,
        input_gate_activation: str = "sigmoid",
        forget_gate_activation: str = "sigmoid",
        cell_gate_activation: str = "tanh",
        output_gate_activation: str = "sigmoid",
        activation: str = "tanh",
        name: str | None = None,
    ) -> list[Tensor]:
        """Gradients of lstm by its operands, back through time.

        Args:
            source, the weights and all to the peephole, and the flags: as they were given there.
            source_gradient: the gradient of the states, [T, N, H] or [T, N, 2 H].
            training_state, cell: the third and second result of lstm in training.
            state_gradient: [N, H] or [N, 2 H], added to that of the last state that each direction comes to.
            cell_gradient: likewise for the last cell; or [T, N, H], [T, N, 2 H], the gradient of all cells.
        Returns: gradients of source, recurrent_weight, input_weight, bias, peephole, initial_state and initial_cell, in
        this order, without those that were not given. Errors: ShapeError, DTypeError, GraphError.
        Gradient: by composition, for a known T. Source: MPSGraph LSTMGradientsWithSourceTensor:recurrentWeight:
        sourceGradient:zState:cellOutputFwd:stateGradient:cellGradient:inputWeight:bias:initState:initCell:mask:peephole:
        descriptor:name: and its short forms.

        >>> g = mg.Graph()
        >>> x, r, one = g.constant(0.0, (2, 1, 4)), g.constant(0.0, (4, 1)), g.constant(1.0, (2, 1, 1))
        >>> h, c, gates = g.lstm(x, r, training=True)
        >>> d = g.lstm_gradients(x, r, one, gates, c)
        >>> g.run({}, d[0]).numpy().reshape(2, 4).tolist()
        [[0.0, 0.0, 0.375, 0.0], [0.0, 0.0, 0.25, 0.0]]
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state}
        optional |= {"initial_cell": initial_cell, "mask": mask, "peephole": peephole}
        optional |= {"state_gradient": state_gradient, "cell_gradient": cell_gradient}
        how = {
            "reverse": reverse,
            "bidirectional": bidirectional,
            "forget_gate_last": forget_gate_last,
            "input_gate_activation": input_gate_activation,
            "forget_gate_activation": forget_gate_activation,
            "cell_gate_activation": cell_gate_activation,
            "output_gate_activation": output_gate_activation,
            "activation": activation,
        }
        required = [source, recurrent_weight, source_gradient, training_state, cell]
        return self._recurrent("lstm_gradients", required, optional, how, name)

    def gru(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        mask: Optional = None,
        secondary_bias: Optional = None,
        *,
        reverse: bool = False,
        bidirectional: bool = False,
        training: bool = False,
        reset_gate_first: bool = False,
        reset_after: bool = False,
        flip_z: bool = False,
        update_gate_activation: str = "sigmoid",
        reset_gate_activation: str = "sigmoid",
        output_gate_activation: str = "tanh",
        name: str | None = None,
    ) -> list[Tensor]:
        """Gated recurrent units. Cho et al., arXiv:1406.1078.

        z, r = act(x[t] Wᵀ + b + (h[t-1] * m) Rᵀ); o = act(x[t] Wᵀ + b + c), c = (h[t-1] * r * m) Rᵀ, with reset_after
        ((h[t-1] * m) Rᵀ + b2) * r; h[t] = z * h[t-1] + (1 - z) * o, with flip_z (1 - z) * h[t-1] + z * o.

        Args:
            source: x, [T, N, I]; without an input weight [T, N, 3 H], added as it is.
            recurrent_weight: R, [3 H, H]; bidirectional [2, 3 H, H]. input_weight: W, [3 H, I]; bidirectional [6 H, I].
                The gates stand in the order update z, reset r, output o; with reset_gate_first r, z, o as in PyTorch.
            bias: b, [3 H] or [6 H]. initial_state: h[-1], [N, H] or [N, 2 H]. Zeros when None.
            mask: m, what broadcasts to [T, N, H] or [T, N, 2 H], ones when None: dropout of the state.
            secondary_bias: b2, [H] or [2 H], zeros when None; only with reset_after.
            reverse: from the last step to the first. bidirectional: both ways, one result behind the other.
            training: whether the gates are a result. reset_after: as PyTorch and cuDNN do, else as in the paper.
            the activations: "none", "relu", "tanh", "sigmoid" or "hard_sigmoid", that is min(max(0.2 x + 0.5, 0), 1).
        Returns: [h] or [h, gates]; h [T, N, H] or [T, N, 2 H], the gates after their activations [T, N, 3 H] or
        [T, N, 6 H]. Errors: ShapeError, DTypeError, GraphError. Gradient: gru_gradients; the mask has one, too.
        Source: MPSGraph GRUWithSourceTensor:recurrentWeight:inputWeight:bias:initState:mask:secondaryBias:descriptor:
        name: and its short forms, MPSGraphGRUDescriptor. Apple's texts contradict each other on flipZ; this is the one
        of the operation.

        >>> g = mg.Graph()
        >>> h = g.gru(g.constant([[[0.0, 0.0, 100.0]]]), g.constant(0.0, (3, 1)))[0]
        >>> g.run({}, h).item()
        0.5
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state}
        optional |= {"mask": mask, "secondary_bias": secondary_bias}
        how = {
            "reverse": reverse,
            "bidirectional": bidirectional,
            "training": training,
            "reset_gate_first": reset_gate_first,
            "reset_after": reset_after,
            "flip_z": flip_z,
            "update_gate_activation": update_gate_activation,
            "reset_gate_activation": reset_gate_activation,
            "output_gate_activation": output_gate_activation,
        }
        return self._recurrent("gru", [source, recurrent_weight], optional, how, name)

    def gru_gradients(
        self,
        source: Tensor,
        recurrent_weight: Tensor,
        source_gradient: Tensor,
        training_state: Tensor,
        state: Tensor,
        input_weight: Optional = None,
        bias: Optional = None,
        initial_state: Optional = None,
        mask: Optional = None,
        secondary_bias: Optional = None,
        state_gradient: Optional = None,
        *,
        reverse: bool = False,
        bidirectional: bool = False,
        reset_gate_first: bool = False,
        reset_after: bool = False,
        flip_z: bool = False,
        update_gate_activation: str = "sigmoid",
        reset_gate_activation: str = "sigmoid",
        output_gate_activation: str = "tanh",
        name: str | None = None,
    ) -> list[Tensor]:
        """Gradients of gru by its operands, back through time.

        Args:
            source, the weights and all to the secondary bias, and the flags: as they were given there.
            source_gradient: the gradient of the states, [T, N, H] or [T, N, 2 H].
            training_state, state: the second and first result of gru in training.
            state_gradient: [N, H] or [N, 2 H], added to that of the last state that each direction comes to.
        Returns: gradients of source, recurrent_weight, input_weight, bias, initial_state and secondary_bias, in this
        order, without those that were not given. Errors: ShapeError, DTypeError, GraphError.
        Gradient: by composition, for a known T. Source: MPSGraph GRUGradientsWithSourceTensor:recurrentWeight:
        sourceGradient:zState:outputFwd:stateGradient:inputWeight:bias:initState:mask:secondaryBias:descriptor:name:
        and its short forms.

        >>> g = mg.Graph()
        >>> x, r, one = g.constant(0.0, (1, 1, 3)), g.constant(0.0, (3, 1)), g.constant(1.0, (1, 1, 1))
        >>> h, gates = g.gru(x, r, training=True)
        >>> g.run({}, g.gru_gradients(x, r, one, gates, h)[0]).numpy().ravel().tolist()
        [0.0, 0.0, 0.5]
        """
        optional = {"input_weight": input_weight, "bias": bias, "initial_state": initial_state}
        optional |= {"mask": mask, "secondary_bias": secondary_bias, "state_gradient": state_gradient}
        how = {
            "reverse": reverse,
            "bidirectional": bidirectional,
            "reset_gate_first": reset_gate_first,
            "reset_after": reset_after,
            "flip_z": flip_z,
            "update_gate_activation": update_gate_activation,
            "reset_gate_activation": reset_gate_activation,
            "output_gate_activation": output_gate_activation,
        }
        required = [source, recurrent_weight, source_gradient, training_state, state]
        return self._recurrent("gru_gradients", required, optional, how, name)

    def _recurrent(
        self, kind: str, required: list[Tensor], optional: dict[str, Optional], how: dict[str, Any], name: str | None
    ) -> list[Tensor]:
        """The operation with the optional operands that are given, in the order of the definition."""
        given = [x for x in optional.values() if x is not None]
        flags = {f"has_{key}": x is not None for key, x in optional.items()}
        return self._tensors(kind, [*required, *given], name, **flags, **how)
