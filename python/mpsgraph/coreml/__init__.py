"""Import and export of Core ML models: `mpsgraph.coreml.load(path)` and `mpsgraph.coreml.export(model, path)`.

ML Programs (`.mlpackage`) and the older neural networks (`.mlmodel`) are imported as graphs. Importing needs no other
package; exporting needs coremltools (`pip install mpsgraph[coreml]`). `mil/` contains the translations of MIL
operations, one file per group, and `layers/` those of neural-network layers, mostly in terms of MIL operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._display import shown
from ..errors import GraphError, UnsupportedError
from ..interchange.custom_operators import Operators, value_of
from ..interchange.data_dependent import DataDependent, Trainable
from ..interchange.deferred_build import Built, DeferredModel, built_or_deferred
from ..interchange.importer import require_known
from ..model import Model
from . import mil  # noqa: F401  enters the operations
from ._files import Blobs, read_model
from ._operation import known_operations
from ._values import Values
from ._wire import Message
from .export import export, exported_operations
from .interface import require_no_state
from .layers import known_layers
from .network import Network, missing_layers
from .program import Program, body_of, is_state, missing_operations

NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


@checked
def load(
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    trainable: Trainable = True,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
) -> Model:
    """Load a model from a Core ML package or file.

    Inputs keep their names and dynamic dimensions, and outputs keep their names. A floating-point constant with more
    than one element becomes a variable, one of the model's parameters, if it is used as a weight: of a convolution,
    matmul, recurrent layer, normalization, lookup, or prelu, or as an operand of +, -, *, or /. All other constants
    remain constants. Compressed weights (quantized, palettized, or sparse) are decompressed.

    Images are arrays with values from 0 to 255, of shape (1, channels, height, width) in ML Programs, with the channel
    order specified by the model. A classifier returns the index of the class, and the scores as one array;
    `model.classes` maps output names to labels. States become variables initialized with zeros, listed among the
    parameters by name; running any output updates the states.

    Args:
        path: Path of an .mlpackage directory or an .mlmodel file.
        function: Which function of the package to load. Defaults to the model's default function, or "main".
        trainable: Which weights become variables: True for all, False for none, a collection of names, or a predicate
            on the name. Defaults to True.
        values: Dict of arrays, keyed by input name. These inputs become constants.
        shapes: Dict of shapes, keyed by input name, that replace the shapes in the file.
        operators: Dict of functions that translate operations, keyed by the type of an operation of ML Programs, the
            kind of a layer, or the class name of a custom layer. The function of an operation takes its parameters as
            keyword arguments. The function of a layer takes its inputs as positional arguments; that of a custom layer
            also takes the layer's parameters as keyword arguments, and its weights, if it has any, as a list of arrays
            named `weights`. Functions return a tensor or a sequence of tensors. They take precedence over built-in
            translations.

    Returns:
        A Model. If shapes depend on input values, a DeferredModel, whose graph is built on the first run.

    Raises:
        GraphError: If the file is missing, damaged, or not a Core ML model, or has no such function or input.
        UnsupportedError: If operations are not supported (the message lists all of them), the model is compiled, or it
            is neither an ML Program nor a neural network.
        ShapeError: If the operands of an operation have incompatible shapes.
        DTypeError: If an operation has operands of the wrong dtype.
    Source: the formats of Apple's coremltools, https://github.com/apple/coremltools/tree/main/mlmodel/format.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "relu.mlmodel"
        >>> network = "0804121e0a0d0a01781a082a06080210a08004520d0a01791a082a06080210a08004"  # an input x, an output y,
        >>> network += "a21f150a110a0472656c751201781a017992080252002801"  # a layer between them
        >>> _ = file.write_bytes(bytes.fromhex(network))
        >>> mg.coreml.load(file)(np.float32([-1, 2])).tolist()
        [0.0, 2.0]
        >>> model = mg.coreml.load(file, operators={"activation": lambda x: x * 2.0})
        >>> model(np.float32([-1, 2])).tolist()
        [-2.0, 4.0]
    """
    model, folder = read_model(path)
    held = model.which("Type")
    if held not in (*NETWORKS, "mlProgram"):
        raise UnsupportedError(
            f"[coreml] {os.fspath(path)} must contain an ML Program or a neural network, got "
            f"{held or 'a model of unknown type'}"
        )
    build: _OfProgram | _OfNetwork
    if held == "mlProgram":
        build = _OfProgram(model, folder, function, trainable, operators or {})
    elif function is None:
        build = _OfNetwork(model, folder, trainable, operators or {})
    else:
        raise GraphError(f"[coreml] a {held} has no functions: omit function={shown(function)}")
    for name in [*(values or {}), *(shapes or {})]:
        if name not in build.inputs:
            raise GraphError(
                f"[coreml] the model has no input {shown(name)}; its inputs are {', '.join(map(repr, build.inputs))}"
            )

    def require_no_states(data_dependent: DataDependent) -> None:
        if build.states:
            kept = ", ".join(map(repr, build.states))
            deciding = ", ".join(sorted(data_dependent.values | data_dependent.shapes))
            raise UnsupportedError(
                f"[coreml] inputs {deciding} determine shapes inside the model, but a model with states ({kept}) "
                "cannot be rebuilt for new inputs: pass these inputs in values= or shapes="
            ) from data_dependent

    return built_or_deferred(build, build.inputs, build.outputs, values, shapes, require_no_states)


class _OfProgram:
    """Builds a graph from a function of an ML Program.

    A DeferredModel, whose graph depends on input values or shapes, calls this object once for each set of them.
    """

    def __init__(
        self, model: Message, folder: Path, name: str | None, trainable: Trainable, operators: Operators
    ) -> None:
        functions = model.mlProgram.entries("functions")
        name = name or model.description.defaultFunctionName or "main"
        if name not in functions:
            raise GraphError(
                f"[coreml] the model has no function '{name}'; it has {', '.join(map(repr, sorted(functions)))}"
            )
        self._function = functions[name]
        block = body_of(self._function)
        require_known("coreml", "operation", missing_operations(block, operators))
        named = self._function.inputs
        self.inputs = [one.name for one in named if not is_state(one)]
        self.states, self.outputs = [one.name for one in named if is_state(one)], list(block.outputs)
        self._values, self._trainable, self._operators = Values(Blobs(folder)), trainable, operators

    def __call__(self, values: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> Built:
        return Program(self._function, self._values, self._trainable, values, shapes, self._operators).built()


class _OfNetwork:
    """Builds a graph from a Core ML neural network.

    A DeferredModel, whose graph depends on input values or shapes, calls this object once for each set of them.
    """

    def __init__(self, model: Message, folder: Path, trainable: Trainable, operators: Operators) -> None:
        require_no_state(model)
        self.states: list[str] = []
        require_known("coreml", "layer", missing_layers(getattr(model, str(model.which("Type"))), operators))
        self.inputs = [feature.name for feature in model.description.input]
        self.outputs = [feature.name for feature in model.description.output]
        self._model, self._values, self._trainable, self._operators = model, Values(Blobs(folder)), trainable, operators

    def __call__(self, values: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> Built:
        return Network(self._model, self._values, self._trainable, values, shapes, self._operators).built()


__all__ = [
    "DeferredModel",
    "Model",
    "export",
    "exported_operations",
    "known_layers",
    "known_operations",
    "load",
    "value_of",
]
