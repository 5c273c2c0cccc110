"""Models from ONNX files and in them: `mpsgraph.onnx.load(path)`, `mpsgraph.onnx.export(model, path)`.

Needs the package onnx (`pip install mpsgraph[onnx]`) to read files; what has been converted to a package of ours
(`mpsgraphtool convert`) does not. Operators stand one file a group in ops/; those without a function of their own are
expanded where ONNX or the model gives them a body of simpler ones.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("mpsgraph.onnx reads files with the package onnx: pip install mpsgraph[onnx]") from error

from .._checks import checked
from ..interchange.data_dependent import DataDependent, Trainable
from ..interchange.deferred_build import DeferredModel
from ..model import Model
from . import ops  # noqa: F401  enters the operators
from ._files import ModelLike, read_model, sense
from ._functions import Functions
from ._registry import known_operators
from .export import export
from .importer import Importer, build_assuming


@checked
def load(
    path: ModelLike,
    *,
    trainable: Trainable = True,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """A model from an ONNX file.

    Its inputs keep their names and their unknown dimensions. Initialisers of floating point become variables, the
    model's parameters; all others, and those of rank 0, constants. So do weights in Constant nodes, by the name of the
    node's result: constants of floating point and of more than one element that stand, as they are or turned, reshaped
    or cast, where convolutions, products, recurrent layers, normalizations, lookups, PRelu, +, -, * or / take weights,
    next to what comes from the inputs; in the main graph, not in functions, branches and loops. When values of inputs
    decide shapes, the model is built at its first run.

    Strings are no element type: a classifier of ai.onnx.ml whose labels are strings gives each label's place among its
    classes as int64, and ZipMap gives the scores, a column for each class; `model.classes` has the labels, by output.
    Resize places with align_corners follow from the result's size in whole elements, and nearest ones are rounded in
    float32, as PyTorch and ONNX Runtime do it; the package onnx's reference differs where scale * size is no integer.
    Args: path of a file, or an onnx.ModelProto; trainable, which weights become variables: all, none, names, or a
    function of the name; values, arrays by name for inputs that shall be constants; shapes, by name for inputs.
    Errors: GraphError for what is no ONNX model, is damaged or makes no sense; UnsupportedError that names all
    operators that are missing, with their nodes; ShapeError, DTypeError.

    >>> from onnx import TensorProto, helper
    >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    >>> model = mg.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    >>> model(np.float32([-1, 2])).tolist()
    [0.0, 2.0]
    """
    with _no_search_for_circles():
        return _loaded(path, trainable, values or {}, shapes or {})


@contextmanager
def _no_search_for_circles() -> Iterator[None]:
    """Python's search for garbage in circles waits: it would look at all that is built again and again, and nothing of
    it is garbage; of a large model that took a sixth of the time."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


def _loaded(
    path: ModelLike, trainable: Trainable, values: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
) -> Model:
    model, tensors = read_model(path)
    with sense("the model"):
        functions = Functions(model)
    given_values = {name: np.asarray(value) for name, value in values.items()}
    given_shapes = dict(shapes)

    def built(more_values: Mapping[str, np.ndarray], more_shapes: Mapping[str, Sequence[int]]) -> Importer:
        known = {**given_values, **more_values}, {**given_shapes, **more_shapes}
        return build_assuming(lambda assumptions: Importer(model, tensors, functions, trainable, *known, assumptions))

    initialisers = {tensor.name for tensor in model.graph.initializer}
    inputs = [info.name for info in model.graph.input if info.name not in initialisers]
    try:
        done = built({}, {})
    except DataDependent as data_dependent:
        tensors.keep()
        free = [name for name in inputs if name not in given_values]
        return DeferredModel(built, free, [info.name for info in model.graph.output], data_dependent)
    model = Model(done.graph, done.inputs, done.outputs, done.parameters)
    model.classes = done.classes
    return model


__all__ = ["DeferredModel", "Model", "export", "known_operators", "load"]
