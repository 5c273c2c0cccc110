"""The base of the importers of ONNX files, which reads a model's inputs, stored tensors, variables, and states.

An importer in `building/` translates the nodes of the file, and one in `rebuilding/` restores the graph that mpsgraph
exported to the file.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from ..._core import DType, Tensor
from ...errors import GraphError, UnsupportedError
from ...interchange.data_dependent import Trainable
from ...interchange.importer import Importer
from .files import Tensors, input_type, is_narrow
from .weights import buffers_of, states_of


class Initialiser:
    """A tensor stored in the file, whose elements are read on first use.

    `variable` is the variable created from the tensor, if any.
    """

    def __init__(
        self, proto: TensorProto, read: Callable[[TensorProto], tuple[np.ndarray, DType]], fixed: bool = False
    ) -> None:
        # A fixed initializer never becomes a variable. Neither do quantized weights.
        self.proto, self._read, self._fixed = proto, read, fixed
        self._narrow = is_narrow(proto.data_type)
        self.name = proto.name
        self._elements: tuple[np.ndarray, DType] | None = None
        self.variable: Tensor | None = None

    @property
    def fixed(self) -> bool:
        """Whether the tensor always becomes a constant."""
        return self._fixed or self._narrow

    @fixed.setter
    def fixed(self, fixed: bool) -> None:
        self._fixed = fixed

    @property
    def elements(self) -> tuple[np.ndarray, DType]:
        """The tensor's elements as an array, and their dtype."""
        if self._elements is None:
            self._elements = self._read(self.proto)
        return self._elements


class FileImporter(Importer):
    """Imports an ONNX file.

    Args:
        model: The file's contents.
        tensors: Reader of the elements of its tensors.
        trainable: Which weights become variables, as in `load`.
        values: Arrays keyed by input name. These inputs become constants.
        shapes: Shapes keyed by input name, which replace the shapes in the file.
    """

    format = "onnx"

    def __init__(
        self,
        model: ModelProto,
        tensors: Tensors,
        trainable: Trainable = True,
        values: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(trainable, values, shapes)
        self._model, self._tensors = model, tensors
        # Files exported by mpsgraph list buffers and states explicitly.
        self._ours = model.producer_name == "mpsgraph"
        self._buffers: frozenset[str] = frozenset()
        self._states: dict[str, str] = {}

    def read_contents(self) -> dict[str, Initialiser]:
        """Read the names of buffers and states, and return the initializers of the main graph, keyed by name."""
        if self._ours:
            self._buffers, self._states = buffers_of(self._model), states_of(self._model)
        return self.initialisers(self._model.graph)

    def initialisers(self, graph: GraphProto, taken: Container[str] = ()) -> dict[str, Initialiser]:
        """Return the initializers of a graph, keyed by name. Raise GraphError if names repeat or are in `taken`."""
        if graph.sparse_initializer:
            raise UnsupportedError(
                f"[onnx] sparse initializers are not supported, got {graph.sparse_initializer[0].values.name!r}"
            )
        found: dict[str, Initialiser] = {}
        for proto in graph.initializer[:]:
            made = Initialiser(proto, self._tensors.read)
            if made.name in found or made.name in taken:
                raise GraphError(f"[onnx] initializer names must be unique, got '{made.name}' twice")
            found[made.name] = made
        return found

    def input_of(self, info: ValueInfoProto) -> Tensor:
        """Return the placeholder for an input of the file, or a constant if its value is known."""
        dtype, shape = input_type(info)
        return self.input(info.name, dtype, shape)

    def tensor_of(self, initialiser: Initialiser, trainable: bool = True) -> Tensor:
        """Return the variable or constant of an initializer, which is created on first use."""
        if initialiser.variable is not None:
            return initialiser.variable
        array, dtype = initialiser.elements
        name = initialiser.name
        weight = dtype.is_float and array.ndim > 0 and not initialiser.fixed
        if (weight and self.varies(name)) or name in self._states:
            initialiser.variable = self.variable_of(initialiser, trainable)
            return initialiser.variable
        return self.constant_of(initialiser, lambda: self._constant(initialiser))

    def _constant(self, initialiser: Initialiser) -> Tensor:
        array, dtype = initialiser.elements
        tensor = self.graph.constant(array, dtype=dtype, name=initialiser.name or None)
        self._known.enter(tensor, array)
        return tensor

    def varies(self, name: str) -> bool:
        """Return whether the initializer with a name becomes a variable rather than a constant."""
        return name in self._states or self._trains(name)

    def variable_of(self, initialiser: Initialiser, trainable: bool = True) -> Tensor:
        """Create the variable of an initializer, which is a parameter of the model."""
        (array, dtype), name = initialiser.elements, initialiser.name
        variable = self.graph.variable(array, dtype, name or None, trainable and name not in self._buffers)
        self.parameters[name] = variable
        return variable
