"""Data sources and cells for tests of the recurrent layers of the legacy MPSNNGraph API, with a reference.

The reference is float64 numpy code, written from the equations independently of the package. Its gradients are central
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpsgraph as mg
import numpy as np
from mpsgraph import nngraph
from mpsgraph.nngraph import RNNMatrixId

from harness.device import IS_METAL, NAME

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[tuple, Callable[[Array], Array]] = {
    ("none",): lambda x: x,
    ("sigmoid",): sigmoid,
    ("tanh", 1.0, 1.0): np.tanh,
    ("tanh", 1.5, 0.5): lambda x: 1.5 * np.tanh(0.5 * x),
    ("relu", 0.25): lambda x: np.where(x >= 0, x, 0.25 * x),
    ("relu", 0.0): lambda x: np.where(x >= 0, x, 0),
    ("linear", 0.5, 0.25): lambda x: 0.5 * x + 0.25,
    ("hard_sigmoid", 0.2, 0.5): lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    ("absolute",): np.abs,
    ("softplus", 1.5, 0.5): lambda x: 1.5 * np.log(1 + np.exp(0.5 * x)),
    ("softsign",): lambda x: x / (np.abs(x) + 1),
    ("elu", 0.5): lambda x: np.where(x >= 0, x, 0.5 * (np.exp(x) - 1)),
    ("relun", 0.25, 0.5): lambda x: np.minimum(np.where(x >= 0, x, 0.25 * x), 0.5),
    ("power", 0.5, 3.0, 1.5): lambda x: (0.5 * x + 3) ** 1.5,
    ("exponential", 0.5, 0.25, -1.0): lambda x: np.exp(0.5 * x + 0.25),
    ("exponential", 0.5, 0.25, 2.0): lambda x: 2 ** (0.5 * x + 0.25),
    ("logarithm", 0.5, 3.0, -1.0): lambda x: np.log(0.5 * x + 3),
    ("logarithm", 0.5, 3.0, 10.0): lambda x: np.log10(0.5 * x + 3),
    ("gelu",): lambda x: 0.5 * x * (1 + np.vectorize(__import__("math").erf)(x * np.sqrt(0.5))),
}
SIGMOID, TANH, NONE = ("sigmoid",), ("tanh", 1.0, 1.0), ("none",)


# --- data sources -----------------------------------------------------------------------------------------------------


@dataclass
class ConvolutionDescriptor:
    """The properties of a convolution descriptor that recurrent layers read."""

    input_feature_channels: int
    output_feature_channels: int
    neuron: Any = None
    kernel_width: int = 1
    kernel_height: int = 1


class Source:
    """A data source for arrays that records its method calls in `calls`."""

    def __init__(
        self,
        weights: Array,
        bias: Array | None = None,
        neuron: Any = None,
        convolution: bool = False,
        descriptor: ConvolutionDescriptor | None = None,
    ) -> None:
        out = weights.shape[0]
        inputs = weights.shape[1] if weights.ndim > 1 else 1
        self._weights = weights.reshape(out, 1, 1, inputs) if convolution else weights
        self._bias = bias
        self._descriptor = descriptor or ConvolutionDescriptor(inputs, out, neuron)
        self.calls: list[str] = []
        self.loaded = False

    def load(self) -> bool:
        self.calls.append("load")
        self.loaded = True
        return True

    def purge(self) -> None:
        self.calls.append("purge")
        self.loaded = False

    def descriptor(self) -> ConvolutionDescriptor:
        self.calls.append("descriptor")
        return self._descriptor

    def weights(self) -> Array:
        assert self.loaded, "weights() was called before load()"
        self.calls.append("weights")
        return self._weights

    def bias_terms(self) -> Array | None:
        return self._bias

    def data_type(self) -> mg.DType:
        return mg.DType(self._weights.dtype)

    def label(self) -> str:
        return "test source"


# --- cells ------------------------------------------------------------------------------------------------------------

GATES = {"single_gate": ("",), "lstm": ("input", "forget", "cell", "output"), "gru": ("input", "recurrent", "output")}
ID_GATES = {"cell": "memory"}  # The names of weights call the LSTM's cell gate the memory gate.
PARTS = ("input_weights", "recurrent_weights", "memory_weights", "bias_terms")


@dataclass
class Cell:
    """The configuration of a cell. Gates are numbered in the order of GATES."""

    kind: str
    inputs: int = 3
    outputs: int = 2
    activations: Sequence[tuple] = ()
    memory: Sequence[int] = ()  # Gates with memory weights; for a GRU only the output gate.
    diagonal: bool = False
    without: Sequence[tuple[int, str]] = ()  # Gates with a part that is omitted.
    identity: bool = False
    p: float = 1.0
    flip: bool = False
    to_output: tuple = TANH
    weights: dict[tuple[int, str], Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usual = {"single_gate": [TANH], "lstm": [SIGMOID, SIGMOID, TANH, SIGMOID], "gru": [SIGMOID, SIGMOID, TANH]}
        self.activations = self.activations or usual[self.kind]

    def drawn(self, rng: np.random.Generator, dtype: str = "float32") -> Cell:
        """Draw random weights and return the cell."""
        h = self.outputs
        for gate in range(len(GATES[self.kind])):
            sizes: dict[str, tuple[int, ...]] = {"recurrent_weights": (h, h), "bias_terms": (h,)}
            if not self.identity:
                sizes["input_weights"] = (h, self.inputs)
            if gate in self.memory:
                sizes["memory_weights"] = (h,) if self.diagonal else (h, h)
            for part, size in sizes.items():
                if (gate, part) not in self.without:
                    drawn = rng.uniform(-0.8, 0.8, size).astype(dtype)
                    self.weights[gate, part] = drawn
        return self

    def descriptor(self, **how: Any) -> Any:
        """Return the descriptor, with a data source for each weight matrix."""
        kinds = {
            "single_gate": nngraph.RNNSingleGateDescriptor,
            "lstm": nngraph.LSTMDescriptor,
            "gru": nngraph.GRUDescriptor,
        }
        d = kinds[self.kind](self.inputs, self.outputs, use_float32_weights=True)
        d.use_layer_input_unit_transform_mode = self.identity
        for gate, name in enumerate(GATES[self.kind]):
            prefix = f"{name}_gate_" if name else ""
            given = {part: self.weights.get((gate, part)) for part in PARTS}
            weights = given["input_weights"]
            if weights is None and (self.identity or given["bias_terms"] is not None):
                weights = np.zeros((self.outputs, self.inputs), np.float32)
            if weights is not None:
                source = Source(weights, given["bias_terms"], self.activations[gate], convolution=gate % 2 == 0)
                setattr(d, f"{prefix}input_weights", source)
            if given["recurrent_weights"] is not None:  # The neuron of this data source has no effect.
                setattr(d, f"{prefix}recurrent_weights", Source(given["recurrent_weights"], neuron=("absolute",)))
            if given["memory_weights"] is not None:
                attribute = "output_gate_input_gate_weights" if self.kind == "gru" else f"{prefix}memory_weights"
                setattr(d, attribute, Source(given["memory_weights"]))
        if self.kind == "lstm":
            d.memory_weights_are_diagonal = self.diagonal
            d.cell_to_output_neuron_type = self.to_output[0]
            for letter, value in zip("abc", self.to_output[1:], strict=False):
                setattr(d, f"cell_to_output_neuron_param_{letter}", value)
        if self.kind == "gru":
            d.gate_pnorm_value, d.flip_output_gates = self.p, self.flip
        for name, value in how.items():
            setattr(d, name, value)
        return d

    def matrix_id(self, gate: int, part: str) -> RNNMatrixId:
        if self.kind == "single_gate":
            return RNNMatrixId[f"single_gate_{part}"]
        name = GATES[self.kind][gate]
        name = ID_GATES.get(name, name)
        part = "input_gate_weights" if self.kind == "gru" and part == "memory_weights" else part
        return RNNMatrixId[f"{self.kind}_{name}_gate_{part}"]

    def run(
        self, xs: Sequence[Array], h: Array | None = None, c: Array | None = None, weights: Any = None
    ) -> tuple[list[Array], list[Array]]:
        """Return the outputs and cell states of all steps in float64.

        The number of rows may decrease from step to step.
        """
        own = {key: value.astype(np.float64) for key, value in (weights or self.weights).items()}
        rows = xs[0].shape[0]
        h = np.zeros((rows, self.outputs)) if h is None else h.astype(np.float64)
        c = np.zeros((rows, self.outputs)) if c is None else c.astype(np.float64)
        hs, cs = [], []
        for x in xs:
            h, c = self._step(own, x.astype(np.float64), h[: x.shape[0]], c[: x.shape[0]])
            hs.append(h)
            cs.append(c)
        return hs, cs

    def _step(self, w: dict, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        def gate(number: int, seen_h: Array, seen_c: Array | None) -> Array:
            total = np.zeros((x.shape[0], self.outputs))
            if self.identity:
                total = total + x
            if (number, "input_weights") in w:
                total = total + x @ w[number, "input_weights"].T
            if (number, "recurrent_weights") in w:
                total = total + seen_h @ w[number, "recurrent_weights"].T
            if (number, "memory_weights") in w and seen_c is not None:
                v = w[number, "memory_weights"]
                total = total + (seen_c * v if v.ndim == 1 else seen_c @ v.T)
            return ACTIVATIONS[tuple(self.activations[number])](total + w.get((number, "bias_terms"), 0))

        if self.kind == "single_gate":
            return gate(0, h, None), c
        if self.kind == "lstm":
            i, f, z = (gate(number, h, c) for number in range(3))
            c = f * c + i * z
            return gate(3, h, c) * ACTIVATIONS[tuple(self.to_output)](c), c
        z, r = gate(0, h, None), gate(1, h, None)
        o = gate(2, r * h, z * h)
        rest = (1 - z**self.p) ** (1 / self.p)
        return (rest * h + z * o if self.flip else rest * o + z * h), c


def differences(function: Callable[[], float], array: Array, step: float = 1e-5) -> Array:
    """Return the gradient of a function with respect to a float64 array, which is changed temporarily."""
    result = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        before = array[index]
        array[index] = before + step
        above = function()
        array[index] = before - step
        result[index] = (above - function()) / (2 * step)
        array[index] = before
    return result


# --- running ----------------------------------------------------------------------------------------------------------


class Queue:
    """A context manager for a command buffer, which is committed and completed on exit."""

    def __init__(self) -> None:
        self.queue = mg.CommandQueue(NAME)

    def __enter__(self) -> mg.CommandBuffer:
        self.buffer = self.queue.command_buffer()
        return self.buffer

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.buffer.commit()
            self.buffer.wait_until_completed()


def matrices(arrays: Sequence[Array]) -> list[nngraph.Matrix]:
    return [nngraph.Matrix(array) for array in arrays]


def empty(rows: Sequence[int], columns: int, dtype: str = "float32") -> list[Array]:
    """Return arrays for results, filled with NaN so that missing results are detected."""
    return [np.full((n, columns), np.nan, dtype) for n in rows]


def compiled(on_cpu: int) -> int:
    """Return the number of executables that a layer must have compiled.

    It is 0 on device metal, where the layers are Apple's.
    """
    return 0 if IS_METAL else on_cpu


def part_of(layer: Any, weights: Sequence[nngraph.Matrix], identity: RNNMatrixId, like: Array) -> Array:
    """Copy the weights of one gate from a layer's matrices into a new array like `like`."""
    found = np.full_like(like, np.nan)
    with Queue() as buffer:
        layer.encode_copy_weights(buffer, weights, identity, nngraph.Matrix(found), True)
    return found


def weights_of(layer: Any, cell: Cell, held: Sequence[nngraph.Matrix]) -> dict[tuple[int, str], Array]:
    """Return the weights, or their gradients, by gate and part, from a layer's matrices."""
    found = {}
    with Queue() as buffer:
        for (gate, part), own in cell.weights.items():
            found[gate, part] = np.zeros(own.shape if own.ndim == 2 else (1, own.size), np.float32)
            layer.encode_copy_weights(buffer, held, cell.matrix_id(gate, part), nngraph.Matrix(found[gate, part]), True)
    return {key: value.reshape(cell.weights[key].shape) for key, value in found.items()}
