"""Import and export of ONNX models: `mpsgraph.onnx.load(path)` and `mpsgraph.onnx.export(model, path)`.

Both need the onnx package (`pip install mpsgraph[onnx]`). A model converted to an mpsgraph package with `mpsgraphtool
convert` can be loaded without it. The operators are translated in `ops/`, one file per group; an operator without a
translation is expanded if the model defines it as a function of simpler operators.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("mpsgraph.onnx needs the onnx package: pip install mpsgraph[onnx]") from error

from .._checks import checked
from ..interchange.custom_operators import Operators, value_of
from ..interchange.data_dependent import Trainable
from ..interchange.deferred_build import DeferredModel, built_or_deferred
from ..interchange.importer import refuse_too_large, reporting_malformed
from ..model import Model
from . import ops  # noqa: F401  enters the operators
from .building.assumptions import build_assuming
from .building.functions import Functions
from .building.importer import NodeImporter
from .building.node import known_operators
from .export import export, written_kinds
from .reading.files import ModelLike, read_model
from .reading.importer import FileImporter
from .rebuilding.importer import GraphImporter
from .rebuilding.original_graph import description_of


@checked
def load(
    path: ModelLike,
    *,
    trainable: Trainable = True,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    operators: Mapping[str, Callable[..., Any]] | None = None,
) -> Model:
    """Load a model from an ONNX file.

    Inputs and outputs keep their names and dynamic dimensions. Floating-point initializers of rank 1 or more become
    variables, which are the model's parameters; all other initializers become constants.

    Some exporters store weights in Constant nodes instead of initializers. A Constant node becomes a variable, named
    after its result, if all of these conditions hold:

    - It holds a floating-point tensor with more than one element.
    - It is in the main graph, not in a function, branch, or loop.
    - A convolution, matmul, recurrent layer, normalization, lookup, PRelu, or one of +, -, *, and / combines the
    constant with values computed from the inputs. The constant may be cast, transposed, or reshaped first.

    If input values determine shapes inside the model, the function returns a `DeferredModel`, which builds its graph on
    the first run.

    String tensors are not supported. A classifier of ai.onnx.ml with string labels returns the index of the class as
    int64, and ZipMap returns the scores with one column per class; `model.classes` maps output names to labels.

    Resize with align_corners uses the integer output size and rounds nearest-neighbor coordinates in float32, like
    PyTorch and ONNX Runtime. The results differ from the reference implementation in the onnx package where scale *
    size is not an integer.

    Args:
        path: Path of the file, or an onnx.ModelProto.
        trainable: Which floating-point weights become variables: True for all, False for none, a collection of names,
            or a predicate on the name. Defaults to True.
        values: Dict of arrays, keyed by input name. These inputs become constants.
        shapes: Dict of shapes, keyed by input name, that replace the shapes in the file.
        operators: Dict of functions that translate operators, keyed by "domain::Name", or by "Name" for any domain.
            Each function takes the operands of a node as positional arguments (None for an omitted operand) and its
            attributes as keyword arguments, and returns a tensor or a sequence of tensors. These functions take
            precedence over built-in translations.

    Returns:
        A Model, or a DeferredModel if shapes depend on input values.

    Raises:
        GraphError: If the file is missing, damaged, or not a valid ONNX model.
        UnsupportedError: If operators or element types are not supported. The message lists all of them with their
            nodes.
        ShapeError: If the operands of a node have incompatible shapes.
        DTypeError: If a node has operands of the wrong dtype.

    Example:
        >>> from onnx import TensorProto, helper
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
        >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
        >>> model = mg.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        >>> model(np.float32([-1, 2])).tolist()
        [0.0, 2.0]

        An operator that is not built in:

        >>> node = helper.make_node("Scale", ["x"], ["y"], domain="com.example", factor=3.0)
        >>> graph = helper.make_graph([node], "net", [x], [y])
        >>> opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
        >>> scale = {"com.example::Scale": lambda x, factor: x * factor}
        >>> model = mg.onnx.load(helper.make_model(graph, opset_imports=opsets), operators=scale)
        >>> model(np.float32([-1, 2])).tolist()
        [-3.0, 6.0]
    """
    with _no_search_for_circles():
        return _loaded(path, trainable, values or {}, shapes or {}, operators or {})


@contextmanager
def _no_search_for_circles() -> Iterator[None]:
    """Disable Python's cyclic garbage collector during an import.

    The collector repeatedly scans the growing graph without finding garbage. In a large model, this took a sixth of the
    import time.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


def _loaded(
    path: ModelLike,
    trainable: Trainable,
    values: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    operators: Operators,
) -> Model:
    model, tensors = read_model(path)
    with reporting_malformed("onnx", "the model"):
        functions = Functions(model, operators)
        refuse_too_large("onnx", functions.expanded(model.graph))
    initialisers = {tensor.name for tensor in model.graph.initializer}
    inputs = [info.name for info in model.graph.input if info.name not in initialisers]
    outputs = [info.name for info in model.graph.output]

    def build(values: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]]) -> FileImporter:
        # The description replaces the nodes, including those that a user's functions translate.
        description = None if values or operators else description_of(model)
        if description is not None:
            return GraphImporter(description, written_kinds(), model, tensors, trainable, values, shapes).built()
        return build_assuming(
            lambda assumptions: NodeImporter(model, tensors, functions, trainable, values, shapes, assumptions)
        )

    return built_or_deferred(build, inputs, outputs, values, shapes, lambda data_dependent: tensors.keep())


__all__ = ["DeferredModel", "Model", "export", "known_operators", "load", "value_of"]
