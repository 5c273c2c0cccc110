"""Core ML models in and out: `mpsgraph.coreml.load(path)`, `mpsgraph.coreml.export(model, path)`.

ML Programs (`.mlpackage`) and the older neural networks (`.mlmodel`) become graphs. Files are read here, without a
package of others; coremltools (`pip install mpsgraph[coreml]`) is needed to write them. MIL's operations stand one file
a group in mil/, the layers of neural networks in layers/, which say them in MIL's operations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked
from .._display import shown
from ..errors import GraphError, UnsupportedError
from ..interchange.data_dependent import DataDependent, Trainable
from ..interchange.deferred_build import Built, DeferredModel
from ..model import Model
from . import mil  # noqa: F401  enters the operations
from ._files import Blobs, read_model
from ._table import known_operations
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
) -> Model:
    """A model from a Core ML package or file.

    Inputs keep their names and their open sizes, outputs their names. Constants of floating point and of more than one
    element become variables, the model's parameters, where convolutions, products, recurrent layers, normalizations,
    lookups, prelu, +, -, * or / take weights; all others constants. Weights that are stored small (integers with
    scales, palettes, masks) are made whole. Images are arrays of 0 to 255, (1, channels, height, width) in programs,
    channels in the order that the model states. A classifier gives each label's place among its classes, and the scores
    as one array; `model.classes` has the labels, by output. States are variables, parameters by their names, that begin
    as zeros; a run of any output writes them.
    Args: path of an .mlpackage folder or an .mlmodel file; function, of a package with several, by default the one that
    the model names, or "main"; trainable, which weights become variables: all, none, names, or a function of the name;
    values, arrays by name for inputs that shall be constants; shapes, by name for inputs.
    Result: a Model, as mpsgraph.onnx.load gives. When values of inputs decide shapes, it is built at its first run.
    Errors: GraphError for what is no Core ML model, is damaged or makes no sense; UnsupportedError that names all
    operations that are missing, with their places, and for models of other kinds and compiled ones; ShapeError,
    DTypeError.
    Source: the formats of Apple's coremltools, https://github.com/apple/coremltools/tree/main/mlmodel/format.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "relu.mlmodel"
    >>> network = "0804121e0a0d0a01781a082a06080210a08004520d0a01791a082a06080210a08004"  # an input x, an output y,
    >>> network += "a21f150a110a0472656c751201781a017992080252002801"  # a layer between them
    >>> _ = file.write_bytes(bytes.fromhex(network))
    >>> mg.coreml.load(file)(np.float32([-1, 2])).tolist()
    [0.0, 2.0]
    """
    model, folder = read_model(path)
    held = model.which("Type")
    if held not in (*NETWORKS, "mlProgram"):
        raise UnsupportedError(
            f"[coreml] {os.fspath(path)} holds a {held or 'model of an unknown kind'}: ML Programs and neural networks "
            "are read here"
        )
    build: _OfProgram | _OfNetwork
    if held == "mlProgram":
        build = _OfProgram(model, folder, function, trainable)
    elif function is None:
        build = _OfNetwork(model, folder, trainable)
    else:
        raise GraphError(f"[coreml] a {held} has no functions, so no {shown(function)}")
    given_values = {name: np.asarray(value) for name, value in (values or {}).items()}
    given_shapes = dict(shapes or {})

    def built(more_values: Mapping[str, np.ndarray], more_shapes: Mapping[str, Sequence[int]]) -> Built:
        return build({**given_values, **more_values}, {**given_shapes, **more_shapes})

    names = build.inputs
    for name in [*given_values, *given_shapes]:
        if name not in names:
            raise GraphError(f"[coreml] the model has no input {shown(name)}; it has {', '.join(map(repr, names))}")
    try:
        done = built({}, {})
    except DataDependent as data_dependent:
        if build.states:
            kept, deciding = (
                ", ".join(map(repr, build.states)),
                ", ".join(sorted(data_dependent.values | data_dependent.shapes)),
            )
            raise UnsupportedError(
                f"[coreml] the model keeps {kept} from run to run, and inputs decide shapes, for which it would be "
                f"built anew: give {deciding} as values= or shapes="
            ) from data_dependent
        free = [name for name in names if name not in given_values]
        return DeferredModel(built, free, build.outputs, data_dependent)
    made = Model(done.graph, done.inputs, done.outputs, done.parameters)
    made.classes = done.classes
    return made


class _OfProgram:
    """Builds a function of an ML Program, as often as is asked for."""

    def __init__(self, model: Message, folder: Path, name: str | None, trainable: Trainable) -> None:
        functions = model.mlProgram.entries("functions")
        name = name or model.description.defaultFunctionName or "main"
        if name not in functions:
            raise GraphError(
                f"[coreml] the model has no function '{name}'; it has {', '.join(map(repr, sorted(functions)))}"
            )
        self._function = functions[name]
        block = body_of(self._function)
        _require_known(missing_operations(block), "operation")
        named = self._function.inputs
        self.inputs = [one.name for one in named if not is_state(one)]
        self.states, self.outputs = [one.name for one in named if is_state(one)], list(block.outputs)
        self._values, self._trainable = Values(Blobs(folder)), trainable

    def __call__(self, values: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> Built:
        return Program(self._function, self._values, self._trainable, values, shapes).run()


class _OfNetwork:
    """Builds a neural network, as often as is asked for."""

    def __init__(self, model: Message, folder: Path, trainable: Trainable) -> None:
        require_no_state(model)
        self.states: list[str] = []
        _require_known(missing_layers(getattr(model, str(model.which("Type")))), "layer")
        self.inputs = [feature.name for feature in model.description.input]
        self.outputs = [feature.name for feature in model.description.output]
        self._model, self._values, self._trainable = model, Values(Blobs(folder)), trainable

    def __call__(self, values: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> Built:
        return Network(self._model, self._values, self._trainable, values, shapes).run()


def _require_known(missing: Sequence[str], what: str) -> None:
    if missing:
        raise UnsupportedError(
            f"[coreml] {len(missing)} {what}{'s' * (len(missing) > 1)} of the model are not known here: "
            + ", ".join(missing)
        )


__all__ = ["DeferredModel", "Model", "export", "exported_operations", "known_layers", "known_operations", "load"]
