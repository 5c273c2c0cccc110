"""Descriptors of recurrent layers: cells, the data sources of their gates' weights, directions, names of weights.

x is a step's input, h0 and c0 the output and the cell of the step before. Weights come from data sources of
convolutions 1 x 1, which are objects with load, purge, descriptor, weights, bias_terms, data_type and label: weights
are (outputs, inputs) or (outputs, 1, 1, inputs), float32 or float16. Neuron and bias of a gate come from the source of
its *input weights*; those of the other sources are not looked at. Without a source the weights are zeros and stay so.
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
"""Types of neurons, numbered as Apple's."""


class RNNSequenceDirection(IntEnum):
    """The way through a sequence in bidirectional inference. Source: MPSRNNSequenceDirection.

    >>> [member.name for member in mg.nngraph.RNNSequenceDirection][:3]
    ['forward', 'backward']
    """

    forward = 0
    backward = 1


class RNNBidirectionalCombineMode(IntEnum):
    """What becomes of the results of both directions. Source: MPSRNNBidirectionalCombineMode.

    >>> [member.name for member in mg.nngraph.RNNBidirectionalCombineMode][:3]
    ['none', 'add', 'concatenate']
    """

    none = 0
    add = 1
    concatenate = 2


class RNNMatrixId(IntEnum):
    """Names of weights, for encode_copy_weights; an LSTM's memory gate is its cell. Source: MPSRNNMatrixId.

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
    """An attribute of a data source, or what its method of that name returns."""
    if not hasattr(source, name):
        raise GraphError(f"{where}: the data source {shown(source)} has no {name}")
    value = getattr(source, name)
    return value() if callable(value) else value


def neuron_of(neuron: Any, where: str) -> tuple[str, float, float, float]:
    """The type's name, a, b and c of a NeuronDescriptor, of a type or of (type, a, b, c); None is no neuron.

    A type is a name, Apple's number, or an enumeration's item of such a name.
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
        raise GraphError(f"{where}: {shown(neuron)} is no neuron: take a type of {', '.join(NEURONS)}, and a, b and c")
    a, b, c = (*(float(x) for x in parameters), 0.0, 0.0, 0.0)[:3]
    return found, a, b, c


class _Source:
    """What was read of a data source: weights (outputs, inputs), bias (outputs,) or None, neuron."""

    def __init__(self, source: Any, where: str, inputs: int, outputs: int, diagonal: bool) -> None:
        if getattr(source, "load", None) is None:
            raise GraphError(f"{where}: the data source {shown(source)} has no load")
        if source.load() is False:
            raise GraphError(f"{where}: the data source {label_of(source)} could not load its weights")
        try:
            descriptor = _asked(source, "descriptor", where)
            self._check_descriptor(descriptor, where, inputs, outputs, diagonal)
            self.neuron = neuron_of(getattr(descriptor, "neuron", None), where)
            self.weights = self._array(source, "weights", where)
            if self.weights is None:
                raise GraphError(f"{where}: weights of the data source {label_of(source)} are None")
            allowed = [(outputs, inputs), (outputs, 1, 1, inputs)]
            if self.weights.size != outputs if diagonal else self.weights.shape not in allowed:
                expected = f"{outputs} elements" if diagonal else f"{allowed[0]} or {allowed[1]}"
                raise ShapeError(
                    f"{where}: weights of the data source {label_of(source)} have shape {self.weights.shape}, "
                    f"expected {expected}"
                )
            self.weights = self.weights.reshape((outputs,) if diagonal else allowed[0])
            self.bias = self._array(source, "bias_terms", where)
            if self.bias is not None:
                if self.bias.size != outputs:
                    raise ShapeError(
                        f"{where}: bias terms of the data source {label_of(source)} have shape {self.bias.shape}, "
                        f"expected ({outputs},)"
                    )
                self.bias = self.bias.reshape(outputs)
        finally:
            if hasattr(source, "purge"):
                source.purge()

    @staticmethod
    def _check_descriptor(descriptor: Any, where: str, inputs: int, outputs: int, diagonal: bool) -> None:
        if descriptor is None:
            raise GraphError(f"{where}: the data source's descriptor is None")
        sizes = {"kernel_width": 1, "kernel_height": 1}
        if not diagonal:
            sizes |= {"input_feature_channels": inputs, "output_feature_channels": outputs}
        for name, wanted in sizes.items():
            if (found := getattr(descriptor, name, wanted)) != wanted:
                raise ShapeError(f"{where}: the data source's descriptor says {name} {found}, expected {wanted}")

    @staticmethod
    def _array(source: Any, name: str, where: str) -> np.ndarray | None:
        value = _asked(source, name, where)
        if value is None:
            return None
        array = np.asarray(value)
        if array.dtype not in (np.float32, np.float16):
            raise DTypeError(
                f"{where}: {name} of the data source {label_of(source)} are {array.dtype}, expected float32 or float16"
            )
        stated = _asked(source, "data_type", where) if name == "weights" and hasattr(source, "data_type") else None
        if stated is not None and as_dtype(stated) != as_dtype(array.dtype):
            raise DTypeError(
                f"{where}: the data source {label_of(source)} says data_type {as_dtype(stated).name}, and its weights "
                f"are {array.dtype}"
            )
        return array.copy()  # the source may purge it


def label_of(source: Any) -> str:
    """How a data source is called in errors."""
    label = getattr(source, "label", None)
    label = label() if callable(label) else label
    return shown(label) if label else shown(source)


# --- descriptors ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RNNDescriptor:
    """What all recurrent layers say.

    input_feature_channels, I, and output_feature_channels, H; use_layer_input_unit_transform_mode: the input is taken
    as it is, W is the identity, I = H; use_float32_weights: else float16; layer_sequence_direction: for bidirectional
    inference. Source: MPSRNNDescriptor.
    """

    input_feature_channels: int
    output_feature_channels: int
    use_layer_input_unit_transform_mode: bool = False
    use_float32_weights: bool = False
    layer_sequence_direction: RNNSequenceDirection = RNNSequenceDirection.forward

    _cell: ClassVar[int]
    # Of each gate in its order: its name before "input_weights", and the attribute with its memory weights or "".
    _gates: ClassVar[tuple[tuple[str, str], ...]]

    def _finish(self, native: _core.RecurrentDescriptor) -> None:
        """What only this cell has."""

    def _is_diagonal(self) -> bool:
        return False

    def native(self, float32_weights: bool | None = None) -> _core.RecurrentDescriptor:
        """The descriptor with its weights, as they are now: data sources are loaded, read and purged."""
        i, h = self.input_feature_channels, self.output_feature_channels
        for size in (i, h):
            if not isinstance(size, (int, np.integer)) or size < 1:
                raise ShapeError(
                    f"{type(self).__name__}: there must be a feature channel of input and output at least, got "
                    f"{shown(i)} and {shown(h)}"
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
    """A layer with one gate: h1 = g(W x + U h0 + b).

    W, g and b come from input_weights, U from recurrent_weights. Source: MPSRNNSingleGateDescriptor
    createRNNSingleGateDescriptorWithInputFeatureChannels:outputFeatureChannels:.

    >>> mg.nngraph.RNNSingleGateDescriptor(3, 4).output_feature_channels
    4
    """

    input_weights: Any = None
    recurrent_weights: Any = None

    _cell: ClassVar[int] = SINGLE_GATE
    _gates: ClassVar[tuple[tuple[str, str], ...]] = (("", ""),)


@dataclass(slots=True)
class LSTMDescriptor(RNNDescriptor):
    """Long short-term memory, with peepholes where memory weights V are given.

    i, f, z = g(W x + U h0 + V c0 + b); c1 = f c0 + i z; o = g(W x + U h0 + V c1 + b); h1 = o act(c1).
    The cell gate's source gives z; g is each input source's neuron: set sigmoid for i, f, o and tanh for z. act is
    cell_to_output_neuron_type with its parameters a, b, c: tanh, 1, 1, 1. memory_weights_are_diagonal: each V is a
    vector of H, multiplied by element. Source: MPSLSTMDescriptor
    createLSTMDescriptorWithInputFeatureChannels:outputFeatureChannels:.

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
    """Gated recurrent units, whose reset gate works before the product, and minimally gated units.

    z = g(Wz x + Uz h0 + bz); r = g(Wr x + Ur h0 + br); h = g(Wh x + bh + Uh (r h0) + Vh (z h0));
    h1 = (1 - z^p)^(1/p) h + z h0, with flip_output_gates (1 - z^p)^(1/p) h0 + z h. z is the input gate, r the recurrent
    gate, Vh output_gate_input_gate_weights, p gate_pnorm_value. A minimally gated unit has Vh and no Uh. PyTorch's and
    cuDNN's units reset after the product: their weights mean something else here. Source: MPSGRUDescriptor
    createGRUDescriptorWithInputFeatureChannels:outputFeatureChannels:.

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
    """A descriptor of a cell. GraphError for anything else."""
    if not isinstance(descriptor, RNNDescriptor) or type(descriptor) is RNNDescriptor:
        raise GraphError(f"{what}: {shown(descriptor)} is no descriptor of a cell: take e.g. LSTMDescriptor")
    return descriptor
