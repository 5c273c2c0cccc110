"""Recurrent layers over sequences: single-gate RNN, LSTM, GRU, and their gradients as separate operations.

Sequences have shape [T, N, I] (time steps, batch, inputs), and states have shape [N, H]. Weights are laid out as in
PyTorch, with one row for each unit and the gates one after the other. A bidirectional layer concatenates the weights of
both directions, and returns both results concatenated along the last axis, whose size is then 2 H. `mpsgraph.nn` has
layers with variables on top of these operations.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Tensor

Optional = Tensor | None


class Recurrent(Family):
    """Graph methods for single_gate_rnn, lstm, gru, and their gradients."""

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
        """Apply Elman's recurrent layer, which computes each state from the input of the step and the previous state.

        z[t] = x[t] Wᵀ + b + (h[t-1] * m) Rᵀ; h[t] = activation(z[t]).

        Args:
            source: x, of shape [T, N, I]. Without input_weight, [T, N, H], which takes the place of x[t] Wᵀ.
            recurrent_weight: R, of shape [H, H], or [2, H, H] if bidirectional.
            input_weight: W, of shape [H, I], or [2 H, I] if bidirectional. Defaults to None.
            bias: b, of shape [H], or [2 H] if bidirectional. None, the default, means zeros.
            initial_state: h[-1], of shape [N, H], or [N, 2 H] if bidirectional. None, the default, means zeros.
            mask: m, a tensor that broadcasts to [T, N, H], or to [T, N, 2 H] if bidirectional, for dropout of the
                state. None, the default, means ones.
            activation: Activation of the state: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid" (min(max(0.2 x +
                0.5, 0), 1)). Defaults to "relu".
            reverse: Whether to process the sequence from the last step to the first. Defaults to False.
            bidirectional: Whether to process the sequence in both directions, with the results concatenated along the
                last axis. Defaults to False.
            training: Whether to return z as well, which the gradients need. Defaults to False.
            name: Name of the operation.

        Returns:
            [h], or [h, z] with training=True, each of shape [T, N, H], or [T, N, 2 H] if bidirectional.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If activation is unknown.

        Gradient: single_gate_rnn_gradients; the mask receives a gradient as well.

        Source: MPSGraph singleGateRNNWithSourceTensor:recurrentWeight:inputWeight:bias:initState:mask:descriptor:name:
        and its short forms, MPSGraphSingleGateRNNDescriptor.

        Example:
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
        """Compute the gradients of single_gate_rnn with respect to its operands, by backpropagation through time.

        Args:
            source: The source given to single_gate_rnn.
            recurrent_weight: The recurrent weight given to single_gate_rnn.
            source_gradient: Gradient with respect to the states, of shape [T, N, H], or [T, N, 2 H] if bidirectional.
            training_state: z, the second result of single_gate_rnn with training=True.
            input_weight: The input_weight given to single_gate_rnn. Defaults to None.
            bias: The bias given to single_gate_rnn. Defaults to None.
            initial_state: The initial_state given to single_gate_rnn. Defaults to None.
            mask: The mask given to single_gate_rnn. Defaults to None.
            state_gradient: Gradient with respect to the last state of each direction, of shape [N, H] or [N, 2 H],
                which is added to the gradient of that state in source_gradient. Defaults to None.
            activation: The activation given to single_gate_rnn. Defaults to "relu".
            reverse: The reverse given to single_gate_rnn. Defaults to False.
            bidirectional: The bidirectional given to single_gate_rnn. Defaults to False.
            name: Name of the operation.

        Returns:
            The gradients of source, recurrent_weight, input_weight, bias, and initial_state, in this order, omitting
            those of operands that were not given.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If activation is unknown.

        Gradient: derived from the operation's decomposition, for a static T.

        Source: MPSGraph singleGateRNNGradientsWithSourceTensor:recurrentWeight:sourceGradient:zState:stateGradient:
        inputWeight:bias:initState:mask:descriptor:name: and its short forms.

        Example:
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
        """Apply a long short-term memory layer (Hochreiter and Schmidhuber, 1997).

        i, f, z, o = act(x[t] Wᵀ + b + (h[t-1] * m) Rᵀ + p * c[t-1]); c[t] = f * c[t-1] + i * z;
        h[t] = o * activation(c[t]).

        Args:
            source: x, of shape [T, N, I]. Without input_weight, [T, N, 4 H], which takes the place of x[t] Wᵀ.
            recurrent_weight: R, of shape [4 H, H], or [2, 4 H, H] if bidirectional, with the gates in the order input,
                forget, cell, output.
            input_weight: W, of shape [4 H, I], or [8 H, I] if bidirectional. Defaults to None.
            bias: b, of shape [4 H], or [8 H] if bidirectional. None, the default, means zeros.
            initial_state: h[-1], of shape [N, H], or [N, 2 H] if bidirectional. None, the default, means zeros.
            initial_cell: c[-1], of shape [N, H], or [N, 2 H] if bidirectional. None, the default, means zeros.
            mask: m, a tensor that broadcasts to [T, N, H], or to [T, N, 2 H] if bidirectional, for dropout of the
                state. None, the default, means ones.
            peephole: p, of shape [4 H], or [2, 4 H] if bidirectional. None, the default, means zeros.
            reverse: Whether to process the sequence from the last step to the first. Defaults to False.
            bidirectional: Whether to process the sequence in both directions, with the results concatenated along the
                last axis. Defaults to False.
            produce_cell: Whether to return c as well. Defaults to False.
            training: Whether to return c and the gates as well, which the gradients need. Defaults to False.
            forget_gate_last: Whether the gates are in the order input, cell, forget, output. Defaults to False.
            input_gate_activation: Activation of the input gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "sigmoid".
            forget_gate_activation: Activation of the forget gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "sigmoid".
            cell_gate_activation: Activation of the cell gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "tanh".
            output_gate_activation: Activation of the output gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "sigmoid".
            activation: Activation of the cell state in the result: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "tanh".
            name: Name of the operation.

        Returns:
            [h], [h, c], or [h, c, gates]. h and c have shape [T, N, H], or [T, N, 2 H] if bidirectional; the gates,
            after their activations, [T, N, 4 H] or [T, N, 8 H].

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If an activation is unknown.

        Gradient: lstm_gradients; the mask receives a gradient as well.

        Source: MPSGraph
        LSTMWithSourceTensor:recurrentWeight:inputWeight:bias:initState:initCell:mask:peephole:descriptor:name:
        and its short forms, MPSGraphLSTMDescriptor.

        Example:
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
        """Compute the gradients of lstm with respect to its operands, by backpropagation through time.

        Args:
            source: The source given to lstm.
            recurrent_weight: The recurrent weight given to lstm.
            source_gradient: Gradient with respect to the states, of shape [T, N, H], or [T, N, 2 H] if bidirectional.
            training_state: The gates, the third result of lstm with training=True.
            cell: c, the second result of lstm with training=True.
            input_weight: The input_weight given to lstm. Defaults to None.
            bias: The bias given to lstm. Defaults to None.
            initial_state: The initial_state given to lstm. Defaults to None.
            initial_cell: The initial_cell given to lstm. Defaults to None.
            mask: The mask given to lstm. Defaults to None.
            peephole: The peephole given to lstm. Defaults to None.
            state_gradient: Gradient with respect to the last state of each direction, of shape [N, H] or [N, 2 H],
                which is added to the gradient of that state in source_gradient. Defaults to None.
            cell_gradient: Gradient with respect to the last cell state of each direction, of shape [N, H] or [N, 2 H],
                or to all cell states, of shape [T, N, H] or [T, N, 2 H]. Defaults to None.
            reverse: The reverse given to lstm. Defaults to False.
            bidirectional: The bidirectional given to lstm. Defaults to False.
            forget_gate_last: The forget_gate_last given to lstm. Defaults to False.
            input_gate_activation: The input_gate_activation given to lstm. Defaults to "sigmoid".
            forget_gate_activation: The forget_gate_activation given to lstm. Defaults to "sigmoid".
            cell_gate_activation: The cell_gate_activation given to lstm. Defaults to "tanh".
            output_gate_activation: The output_gate_activation given to lstm. Defaults to "sigmoid".
            activation: The activation given to lstm. Defaults to "tanh".
            name: Name of the operation.

        Returns:
            The gradients of source, recurrent_weight, input_weight, bias, peephole, initial_state, and initial_cell, in
            this order, omitting those of operands that were not given.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If an activation is unknown.

        Gradient: derived from the operation's decomposition, for a static T.

        Source: MPSGraph
        LSTMGradientsWithSourceTensor:recurrentWeight:sourceGradient:zState:cellOutputFwd:stateGradient:
        cellGradient:inputWeight:bias:initState:initCell:mask:peephole:descriptor:name: and its short forms.

        Example:
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
        """Apply a layer of gated recurrent units (Cho et al., arXiv:1406.1078).

        z, r = act(x[t] Wᵀ + b + (h[t-1] * m) Rᵀ);
        o = act(x[t] Wᵀ + b + c), where c = (h[t-1] * r * m) Rᵀ, or ((h[t-1] * m) Rᵀ + b2) * r with reset_after;
        h[t] = z * h[t-1] + (1 - z) * o, or (1 - z) * h[t-1] + z * o with flip_z.

        Args:
            source: x, of shape [T, N, I]. Without input_weight, [T, N, 3 H], which takes the place of x[t] Wᵀ.
            recurrent_weight: R, of shape [3 H, H], or [2, 3 H, H] if bidirectional, with the gates in the order update
                z, reset r, output o.
            input_weight: W, of shape [3 H, I], or [6 H, I] if bidirectional. Defaults to None.
            bias: b, of shape [3 H], or [6 H] if bidirectional. None, the default, means zeros.
            initial_state: h[-1], of shape [N, H], or [N, 2 H] if bidirectional. None, the default, means zeros.
            mask: m, a tensor that broadcasts to [T, N, H], or to [T, N, 2 H] if bidirectional, for dropout of the
                state. None, the default, means ones.
            secondary_bias: b2, of shape [H], or [2 H] if bidirectional; requires reset_after. None, the default, means
                zeros.
            reverse: Whether to process the sequence from the last step to the first. Defaults to False.
            bidirectional: Whether to process the sequence in both directions, with the results concatenated along the
                last axis. Defaults to False.
            training: Whether to return the gates as well, which the gradients need. Defaults to False.
            reset_gate_first: Whether the gates are in the order r, z, o, as in PyTorch. Defaults to False.
            reset_after: Whether the reset gate is applied after the product, as in PyTorch and cuDNN, instead of before
                it, as in the paper. Defaults to False.
            flip_z: Whether z and 1 - z are exchanged in h[t]. Defaults to False.
            update_gate_activation: Activation of the update gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "sigmoid".
            reset_gate_activation: Activation of the reset gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "sigmoid".
            output_gate_activation: Activation of the output gate: "none", "relu", "tanh", "sigmoid", or "hard_sigmoid"
                (min(max(0.2 x + 0.5, 0), 1)). Defaults to "tanh".
            name: Name of the operation.

        Returns:
            [h] or [h, gates]. h has shape [T, N, H], or [T, N, 2 H] if bidirectional; the gates, after their
            activations, [T, N, 3 H] or [T, N, 6 H].

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If an activation is unknown, or secondary_bias is given without reset_after.

        Gradient: gru_gradients; the mask receives a gradient as well.

        Source: MPSGraph
        GRUWithSourceTensor:recurrentWeight:inputWeight:bias:initState:mask:secondaryBias:descriptor:name: and its short
        forms, MPSGraphGRUDescriptor. Apple's documentation of flipZ is contradictory; this method follows the
        documentation of the operation.

        Example:
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
        """Compute the gradients of gru with respect to its operands, by backpropagation through time.

        Args:
            source: The source given to gru.
            recurrent_weight: The recurrent weight given to gru.
            source_gradient: Gradient with respect to the states, of shape [T, N, H], or [T, N, 2 H] if bidirectional.
            training_state: The gates, the second result of gru with training=True.
            state: h, the first result of gru.
            input_weight: The input_weight given to gru. Defaults to None.
            bias: The bias given to gru. Defaults to None.
            initial_state: The initial_state given to gru. Defaults to None.
            mask: The mask given to gru. Defaults to None.
            secondary_bias: The secondary_bias given to gru. Defaults to None.
            state_gradient: Gradient with respect to the last state of each direction, of shape [N, H] or [N, 2 H],
                which is added to the gradient of that state in source_gradient. Defaults to None.
            reverse: The reverse given to gru. Defaults to False.
            bidirectional: The bidirectional given to gru. Defaults to False.
            reset_gate_first: The reset_gate_first given to gru. Defaults to False.
            reset_after: The reset_after given to gru. Defaults to False.
            flip_z: The flip_z given to gru. Defaults to False.
            update_gate_activation: The update_gate_activation given to gru. Defaults to "sigmoid".
            reset_gate_activation: The reset_gate_activation given to gru. Defaults to "sigmoid".
            output_gate_activation: The output_gate_activation given to gru. Defaults to "tanh".
            name: Name of the operation.

        Returns:
            The gradients of source, recurrent_weight, input_weight, bias, initial_state, and secondary_bias, in this
            order, omitting those of operands that were not given.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If an activation is unknown, or secondary_bias is given without reset_after.

        Gradient: derived from the operation's decomposition, for a static T.

        Source: MPSGraph
        GRUGradientsWithSourceTensor:recurrentWeight:sourceGradient:zState:outputFwd:stateGradient:inputWeight:
        bias:initState:mask:secondaryBias:descriptor:name: and its short forms.

        Example:
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
        """Create a recurrent operation. Optional operands that are None are omitted, and attributes record which
        operands are present.
        """
        given = [x for x in optional.values() if x is not None]
        flags = {f"has_{key}": x is not None for key, x in optional.items()}
        return self._tensors(kind, [*required, *given], name, **flags, **how)
