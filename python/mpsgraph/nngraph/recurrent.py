"""Descriptors of recurrent layers, their weight sources, directions, and weight names.

In the formulas, x is the input of a step, and h0 and c0 are the output and cell of the previous step. Weights come from
data sources of 1 x 1 convolutions: objects with load, purge, descriptor, weights, bias_terms, data_type, and label.
Weights are (outputs, inputs) or (outputs, 1, 1, inputs), float32 or float16. The activation function and the bias of a
gate come from the source of its *input weights*; activation functions and biases in other sources are ignored. Weights
without a source are zero and are not trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from .. import _core
from .._display import shown
from .._dtypes import as_dtype
from ..errors import DTypeError, GraphError, ShapeError

INPUT, RECURRENT, MEMORY, BIAS = range(4)
SINGLE_GATE, LSTM, GRU = range(3)
NEURONS = (
    "none", "relu", "linear", "sigmoid", "hard_sigmoid", "tanh", "absolute", "softplus", "softsign", "elu", "prelu",
    "relun", "power", "exponential", "logarithm", "gelu",
)  # fmt: skip
"""Names of the neuron types, in the order of Apple's numbers."""


class RNNSequenceDirection(IntEnum):
    """Direction in which a layer reads a sequence in bidirectional inference.

    Source: MPSRNNSequenceDirection.

    Example:
        >>> [member.name for member in mg.nngraph.RNNSequenceDirection][:3]
        ['forward', 'backward']
    """

    forward = 0
    backward = 1


class RNNBidirectionalCombineMode(IntEnum):
    """Combination of the results of both directions in bidirectional inference.

    Source: MPSRNNBidirectionalCombineMode.

    Example:
        >>> [member.name for member in mg.nngraph.RNNBidirectionalCombineMode][:3]
        ['none', 'add', 'concatenate']
    """

    none = 0
    add = 1
    concatenate = 2


class RNNMatrixId(IntEnum):
    """Names of a recurrent layer's weights, for encode_copy_weights.

    The memory gate of an LSTM is its cell gate.

    Source: MPSRNNMatrixId.

    Example:
        >>> [member.name for member in mg.nngraph.RNNMatrixId][:3]
        ['single_gate_input_weights', 'single_gate_recurrent_weights', 'single_gate_bias_terms']
    """

    single_gate_input_weights = 0
    single_gate_recurrent_weights = 1
    single_gate_bias_terms = 2
    lstm_input_gate_input_weights = 3
    lstm_input_gate_recurrent_weights = 4
    lstm_input_gate_memory_weights = 5
    lstm_input_gate_bias_terms = 6
    lstm_forget_gate_input_weights = 7
    lstm_forget_gate_recurrent_weights = 8
    lstm_forget_gate_memory_weights = 9
    lstm_forget_gate_bias_terms = 10
    lstm_memory_gate_input_weights = 11
    lstm_memory_gate_recurrent_weights = 12
    lstm_memory_gate_memory_weights = 13
    lstm_memory_gate_bias_terms = 14
    lstm_output_gate_input_weights = 15
    lstm_output_gate_recurrent_weights = 16
    lstm_output_gate_memory_weights = 17
    lstm_output_gate_bias_terms = 18
    gru_input_gate_input_weights = 19
    gru_input_gate_recurrent_weights = 20
    gru_input_gate_bias_terms = 21
    gru_recurrent_gate_input_weights = 22
    gru_recurrent_gate_recurrent_weights = 23
    gru_recurrent_gate_bias_terms = 24
    gru_output_gate_input_weights = 25
    gru_output_gate_recurrent_weights = 26
    gru_output_gate_input_gate_weights = 27
    gru_output_gate_bias_terms = 28


# --- data sources -----------------------------------------------------------------------------------------------------


def _asked(source: Any, name: str, where: str) -> Any:
    """Return an attribute of a data source, or the result of calling it if it is a method."""
    if not hasattr(source, name):
        raise GraphError(f"{where}: data source {shown(source)} has no attribute or method '{name}'")
    value = getattr(source, name)
    return value() if callable(value) else value


def neuron_of(neuron: Any, where: str) -> tuple[str, float, float, float]:
    """Return (type name, a, b, c) of an activation function.

    The argument is a NeuronDescriptor, a type, a tuple (type, a, b, c), or None for no activation. A type is a name,
    Apple's number, or an enumeration member of that name.
    """
    if neuron is None:
        return NEURONS[0], 0.0, 0.0, 0.0
    if hasattr(neuron, "type"):
        neuron = (neuron.type, neuron.a, neuron.b, neuron.c)
    kind, *parameters = neuron if isinstance(neuron, (tuple, list)) else (neuron,)
    if isinstance(kind, (int, np.integer)) and 0 <= kind < len(NEURONS):
        kind = NEURONS[kind]
    plain = str(getattr(kind, "name", kind)).lower().replace("_", "")
    found = next((name for name in NEURONS if name.replace("_", "") == plain), None)
    if found is None or len(parameters) > 3:
        raise GraphError(
            f"{where}: expected a NeuronDescriptor, a type or (type, a, b, c), where type is one of "
            f"{', '.join(NEURONS)}; got {shown(neuron)}"
        )
    a, b, c = (*(float(x) for x in parameters), 0.0, 0.0, 0.0)[:3]
    return found, a, b, c


class _Source:
    """Contents of a data source: weights (outputs, inputs), bias (outputs,) or None, and activation function."""

    def __init__(self, source: Any, where: str, inputs: int, outputs: int, diagonal: bool) -> None:
        if getattr(source, "load", None) is None:
            raise GraphError(f"{where}: data source {shown(source)} has no method 'load'")
        if source.load() is False:
            raise GraphError(
                f"{where}: load() of data source {label_of(source)} returned False; it must return True once the "
                "weights are available"
            )
        try:
            descriptor = _asked(source, "descriptor", where)
            self._check_descriptor(descriptor, where, inputs, outputs, diagonal)
            self.neuron = neuron_of(getattr(descriptor, "neuron", None), where)
            self.weights = self._array(source, "weights", where)
            if self.weights is None:
                raise GraphError(f"{where}: data source {label_of(source)} returned None for its weights")
            allowed = [(outputs, inputs), (outputs, 1, 1, inputs)]
            if self.weights.size != outputs if diagonal else self.weights.shape not in allowed:
                expected = f"{outputs} elements" if diagonal else f"shape {allowed[0]} or {allowed[1]}"
                raise ShapeError(
                    f"{where}: weights of data source {label_of(source)} must have {expected}, got shape "
                    f"{self.weights.shape}"
                )
            self.weights = self.weights.reshape((outputs,) if diagonal else allowed[0])
            self.bias = self._array(source, "bias_terms", where)
            if self.bias is not None:
                if self.bias.size != outputs:
                    raise ShapeError(
                        f"{where}: bias_terms of data source {label_of(source)} must have shape ({outputs},), got "
                        f"{self.bias.shape}"
                    )
                self.bias = self.bias.reshape(outputs)
        finally:
            if hasattr(source, "purge"):
                source.purge()

    @staticmethod
    def _check_descriptor(descriptor: Any, where: str, inputs: int, outputs: int, diagonal: bool) -> None:
        if descriptor is None:
            raise GraphError(f"{where}: the data source returned None for its descriptor")
        sizes = {"kernel_width": 1, "kernel_height": 1}
        if not diagonal:
            sizes |= {"input_feature_channels": inputs, "output_feature_channels": outputs}
        for name, wanted in sizes.items():
            if (found := getattr(descriptor, name, wanted)) != wanted:
                raise ShapeError(f"{where}: {name} in the data source's descriptor must be {wanted}, got {found}")

    @staticmethod
    def _array(source: Any, name: str, where: str) -> np.ndarray | None:
        value = _asked(source, name, where)
        if value is None:
            return None
        array = np.asarray(value)
        if array.dtype not in (np.float32, np.float16):
            raise DTypeError(
                f"{where}: {name} of data source {label_of(source)} must be float32 or float16, got {array.dtype}"
            )
        stated = _asked(source, "data_type", where) if name == "weights" and hasattr(source, "data_type") else None
        if stated is not None and as_dtype(stated) != as_dtype(array.dtype):
            raise DTypeError(
                f"{where}: data_type of data source {label_of(source)} is {as_dtype(stated).name}, but its weights are "
                f"{array.dtype}"
            )
        return array.copy()  # Copy the array, because purge() may free the original.


def label_of(source: Any) -> str:
    """Return the name of a data source for error messages."""
    label = getattr(source, "label", None)
    label = label() if callable(label) else label
    return shown(label) if label else shown(source)


# --- descriptors ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RNNDescriptor:
    """Base of the descriptors of recurrent layers.

    Args:
        input_feature_channels: Number of input channels I.
        output_feature_channels: Number of output channels H.
        use_layer_input_unit_transform_mode: Whether the input is used directly, as if W were the identity; requires I =
            H. Defaults to False.
        use_float32_weights: Whether weights are float32 instead of float16. Defaults to False.
        layer_sequence_direction: Direction of the layer in bidirectional inference. Defaults to forward.

    Source: MPSRNNDescriptor.
    """

    input_feature_channels: int
    output_feature_channels: int
    use_layer_input_unit_transform_mode: bool = False
    use_float32_weights: bool = False
    layer_sequence_direction: RNNSequenceDirection = RNNSequenceDirection.forward

    _cell: ClassVar[int]
    # For each gate: its attribute prefix before "input_weights", and the attribute of its memory weights, or "".
    _gates: ClassVar[tuple[tuple[str, str], ...]]

    def _finish(self, native: _core.RecurrentDescriptor) -> None:
        """Set the properties of the core descriptor that exist only for this kind of recurrent layer."""

    def _is_diagonal(self) -> bool:
        return False

    def native(self, float32_weights: bool | None = None) -> _core.RecurrentDescriptor:
        """Return the core descriptor with the current weights, after loading, reading, and purging the data sources.

        Args:
            float32_weights: Whether weights are float32 instead of float16. Defaults to use_float32_weights.

        Returns:
            The descriptor of the compiled core.

        Raises:
            ShapeError: If a number of feature channels is not a positive integer.
        """
        i, h = self.input_feature_channels, self.output_feature_channels
        for size in (i, h):
            if not isinstance(size, (int, np.integer)) or size < 1:
                raise ShapeError(
                    f"{type(self).__name__}: input_feature_channels and output_feature_channels must be integers of at "
                    f"least 1, got {shown(i)} and {shown(h)}"
                )
        native = _core.RecurrentDescriptor(self._cell, i, h)
        native.identity_input = self.use_layer_input_unit_transform_mode
        native.float32_weights = self.use_float32_weights if float32_weights is None else float32_weights
        native.backward = self.layer_sequence_direction == RNNSequenceDirection.backward
        for gate, (prefix, memory) in enumerate(self._gates):
            kinds: list[tuple[str, int, int]] = [(f"{prefix}input_weights", INPUT, i)]
            kinds.append((f"{prefix}recurrent_weights", RECURRENT, h))
            if memory:
                kinds.append((memory, MEMORY, h))
            for name, kind, inputs in kinds:
                source = getattr(self, name)
                if source is None:
                    continue
                diagonal = kind == MEMORY and self._is_diagonal()
                read = _Source(source, f"{type(self).__name__}.{name}", inputs, h, diagonal)
                native.set_weights(gate, kind, read.weights)
                if kind == INPUT:
                    native.set_neuron(gate, *read.neuron)
                    if read.bias is not None:
                        native.set_weights(gate, BIAS, read.bias)
        self._finish(native)
        return native


@dataclass(slots=True)
class RNNSingleGateDescriptor(RNNDescriptor):
    """Recurrent layer with a single gate: h1 = g(W x + U h0 + b).

    Args:
        input_feature_channels: Number of input channels I.
        output_feature_channels: Number of output channels H.
        use_layer_input_unit_transform_mode: Whether the input is used directly, as if W were the identity; requires I =
            H. Defaults to False.
        use_float32_weights: Whether weights are float32 instead of float16. Defaults to False.
        layer_sequence_direction: Direction of the layer in bidirectional inference. Defaults to forward.
        input_weights: Data source of W, the bias b, and the activation function g. None (the default) means zeros.
        recurrent_weights: Data source of U. None (the default) means zeros.

    Source: MPSRNNSingleGateDescriptor createRNNSingleGateDescriptorWithInputFeatureChannels:outputFeatureChannels:.

    Example:
        >>> mg.nngraph.RNNSingleGateDescriptor(3, 4).output_feature_channels
        4
    """

    input_weights: Any = None
    recurrent_weights: Any = None

    _cell: ClassVar[int] = SINGLE_GATE
    _gates: ClassVar[tuple[tuple[str, str], ...]] = (("", ""),)


@dataclass(slots=True)
class LSTMDescriptor(RNNDescriptor):
    """Long short-term memory (LSTM) layer, with peepholes where memory weights V are set.

    i, f, z = g(W x + U h0 + V c0 + b); c1 = f c0 + i z; o = g(W x + U h0 + V c1 + b); h1 = o act(c1)

    i, f, and o are the input, forget, and output gates, and z is the cell gate; each has its own W, U, V, and b. g is
    the activation function of each gate's input source. Set it to sigmoid for i, f, and o, and to tanh for z.

    Args:
        input_feature_channels: Number of input channels I.
        output_feature_channels: Number of output channels H.
        use_layer_input_unit_transform_mode: Whether the input is used directly, as if W were the identity; requires I =
            H. Defaults to False.
        use_float32_weights: Whether weights are float32 instead of float16. Defaults to False.
        layer_sequence_direction: Direction of the layer in bidirectional inference. Defaults to forward.
        input_gate_input_weights: Data source of W, b, and g for i. None (the default) means zeros.
        input_gate_recurrent_weights: Data source of U for i. None (the default) means zeros.
        input_gate_memory_weights: Data source of V for i. None (the default) means zeros.
        forget_gate_input_weights: Data source of W, b, and g for f. None (the default) means zeros.
        forget_gate_recurrent_weights: Data source of U for f. None (the default) means zeros.
        forget_gate_memory_weights: Data source of V for f. None (the default) means zeros.
        output_gate_input_weights: Data source of W, b, and g for o. None (the default) means zeros.
        output_gate_recurrent_weights: Data source of U for o. None (the default) means zeros.
        output_gate_memory_weights: Data source of V for o. None (the default) means zeros.
        cell_gate_input_weights: Data source of W, b, and g for z. None (the default) means zeros.
        cell_gate_recurrent_weights: Data source of U for z. None (the default) means zeros.
        cell_gate_memory_weights: Data source of V for z. None (the default) means zeros.
        memory_weights_are_diagonal: Whether each V is a vector of length H that multiplies the cell element by element.
            Defaults to False.
        cell_to_output_neuron_type: Activation function act. Defaults to "tanh".
        cell_to_output_neuron_param_a: Parameter a of act. Defaults to 1.
        cell_to_output_neuron_param_b: Parameter b of act. Defaults to 1.
        cell_to_output_neuron_param_c: Parameter c of act. Defaults to 1.

    Source: MPSLSTMDescriptor createLSTMDescriptorWithInputFeatureChannels:outputFeatureChannels:.

    Example:
        >>> lstm = mg.nngraph.LSTMDescriptor(64, 200, use_float32_weights=True)
        >>> lstm.cell_to_output_neuron_type
        'tanh'
    """

    input_gate_input_weights: Any = None
    input_gate_recurrent_weights: Any = None
    input_gate_memory_weights: Any = None
    forget_gate_input_weights: Any = None
    forget_gate_recurrent_weights: Any = None
    forget_gate_memory_weights: Any = None
    output_gate_input_weights: Any = None
    output_gate_recurrent_weights: Any = None
    output_gate_memory_weights: Any = None
    cell_gate_input_weights: Any = None
    cell_gate_recurrent_weights: Any = None
    cell_gate_memory_weights: Any = None
    memory_weights_are_diagonal: bool = False
    cell_to_output_neuron_type: Any = "tanh"
    cell_to_output_neuron_param_a: float = 1.0
    cell_to_output_neuron_param_b: float = 1.0
    cell_to_output_neuron_param_c: float = 1.0

    _cell: ClassVar[int] = LSTM
    _gates: ClassVar[tuple[tuple[str, str], ...]] = tuple(
        (f"{gate}_gate_", f"{gate}_gate_memory_weights") for gate in ("input", "forget", "cell", "output")
    )

    def _is_diagonal(self) -> bool:
        return self.memory_weights_are_diagonal

    def _finish(self, native: _core.RecurrentDescriptor) -> None:
        native.diagonal_memory = self.memory_weights_are_diagonal
        a, b, c = (getattr(self, f"cell_to_output_neuron_param_{name}") for name in "abc")
        neuron = neuron_of((self.cell_to_output_neuron_type, a, b, c), "LSTMDescriptor.cell_to_output_neuron_type")
        native.set_neuron(-1, *neuron)


@dataclass(slots=True)
class GRUDescriptor(RNNDescriptor):
    """Gated recurrent unit (GRU) layer, or a minimally gated unit.

    z = g(Wz x + Uz h0 + bz); r = g(Wr x + Ur h0 + br); h = g(Wh x + bh + Uh (r h0) + Vh (z h0))
    h1 = (1 - z^p)^(1/p) h + z h0, or with flip_output_gates: h1 = (1 - z^p)^(1/p) h0 + z h

    z is the input gate and r the recurrent gate. r is applied before the matrix product with Uh. PyTorch and cuDNN
    apply it after that product, so their weights do not give the same results here. A minimally gated unit has Vh but
    no Uh.

    Args:
        input_feature_channels: Number of input channels I.
        output_feature_channels: Number of output channels H.
        use_layer_input_unit_transform_mode: Whether the input is used directly, as if W were the identity; requires I =
            H. Defaults to False.
        use_float32_weights: Whether weights are float32 instead of float16. Defaults to False.
        layer_sequence_direction: Direction of the layer in bidirectional inference. Defaults to forward.
        input_gate_input_weights: Data source of Wz, bz, and g for z. None (the default) means zeros.
        input_gate_recurrent_weights: Data source of Uz. None (the default) means zeros.
        recurrent_gate_input_weights: Data source of Wr, br, and g for r. None (the default) means zeros.
        recurrent_gate_recurrent_weights: Data source of Ur. None (the default) means zeros.
        output_gate_input_weights: Data source of Wh, bh, and g for h. None (the default) means zeros.
        output_gate_recurrent_weights: Data source of Uh. None (the default) means zeros.
        output_gate_input_gate_weights: Data source of Vh. None (the default) means zeros.
        gate_pnorm_value: Exponent p. Defaults to 1.
        flip_output_gates: Whether z and its complement are exchanged in h1. Defaults to False.

    Source: MPSGRUDescriptor createGRUDescriptorWithInputFeatureChannels:outputFeatureChannels:.

    Example:
        >>> mg.nngraph.GRUDescriptor(3, 4).gate_pnorm_value
        1.0
    """

    input_gate_input_weights: Any = None
    input_gate_recurrent_weights: Any = None
    recurrent_gate_input_weights: Any = None
    recurrent_gate_recurrent_weights: Any = None
    output_gate_input_weights: Any = None
    output_gate_recurrent_weights: Any = None
    output_gate_input_gate_weights: Any = None
    gate_pnorm_value: float = 1.0
    flip_output_gates: bool = False

    _cell: ClassVar[int] = GRU
    _gates: ClassVar[tuple[tuple[str, str], ...]] = (
        ("input_gate_", ""),
        ("recurrent_gate_", ""),
        ("output_gate_", "output_gate_input_gate_weights"),
    )

    def _finish(self, native: _core.RecurrentDescriptor) -> None:
        native.p_norm = float(self.gate_pnorm_value)
        native.flip_output_gates = self.flip_output_gates


def descriptor_checked(descriptor: Any, what: str) -> RNNDescriptor:
    """Return the descriptor. Raise GraphError if it is not a single-gate, LSTM, or GRU descriptor."""
    if not isinstance(descriptor, RNNDescriptor) or type(descriptor) is RNNDescriptor:
        raise GraphError(
            f"{what}: expected an RNNSingleGateDescriptor, LSTMDescriptor or GRUDescriptor, got {shown(descriptor)}"
        )
    return descriptor
