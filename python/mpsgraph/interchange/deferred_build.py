"""Models whose graph is built on the first run because shapes depend on the inputs.

Some operations, such as a reshape to a shape given as an input, need input values (or input shapes) while the graph is
being built. The graph of such a model is built on the first run, with these inputs as constants. Built graphs are
cached, keyed by the values and shapes for which they were built.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from .._checks import refuse
from .._core import NDArray, Operation, Tensor
from ..errors import GraphError, UnsupportedError
from ..model import Model
from .data_dependent import DataDependent

if TYPE_CHECKING:
    from ..graph import Graph

MOST_KEPT = 16  # Maximum number of built graphs to cache.


class Built(Protocol):
    """The result of an import: a graph with its inputs, outputs, parameters, and class labels."""

    graph: Graph
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    parameters: dict[str, Tensor]
    classes: dict[str, list[Any]]


Build: TypeAlias = Callable[[Mapping[str, np.ndarray], Mapping[str, Sequence[int]]], Built]
"""A function that builds the graph, given some inputs.

Its arguments are two dicts keyed by input name: arrays for the inputs that become constants, and shapes for other
inputs.
"""


def built_or_deferred(
    build: Build,
    inputs: Sequence[str],
    outputs: Sequence[str],
    values: Mapping[str, Any] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    deferring: Callable[[DataDependent], None],
) -> Model:
    """Return the model that `build` makes, or a DeferredModel if its graph depends on inputs.

    Args:
        build: Function that builds the graph.
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        values: Arrays for inputs that become constants in every build.
        shapes: Shapes for inputs in every build.
        deferring: Called before the model is deferred. It can raise an error if the model cannot be built later.
    """
    given_values = {name: np.asarray(value) for name, value in (values or {}).items()}
    given_shapes = dict(shapes or {})

    def built(more_values: Mapping[str, np.ndarray], more_shapes: Mapping[str, Sequence[int]]) -> Built:
        return build({**given_values, **more_values}, {**given_shapes, **more_shapes})

    try:
        return _model_of(built({}, {}))
    except DataDependent as data_dependent:
        deferring(data_dependent)
        free = [name for name in inputs if name not in given_values]
        return DeferredModel(built, free, outputs, data_dependent)


def _model_of(built: Built) -> Model:
    model = Model(built.graph, built.inputs, built.outputs, built.parameters)
    model.classes = built.classes
    return model


class DeferredModel(Model):
    """A model whose graph is built on demand because input values or shapes determine the shapes inside it.

    `run` builds the graph for the arrays that it receives, and `bind` builds the graph ahead of a run. Built graphs are
    cached.

    Example:
        >>> from onnx import TensorProto, helper
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")  # of unknown rank
        >>> graph = helper.make_graph([helper.make_node("Flatten", ["x"], ["y"])], "net", [x], [y])
        >>> model = mg.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
        >>> type(model).__name__, model(np.ones((2, 3, 4), np.float32)).shape
        ('DeferredModel', (2, 12))
    """

    def __init__(
        self,
        build: Build,
        inputs: Sequence[str],
        outputs: Sequence[str],
        data_dependent: DataDependent,
    ) -> None:
        self._build, self._input_names, self._output_names = build, list(inputs), list(outputs)
        self._by_value, self._by_shape = set(data_dependent.values), set(data_dependent.shapes)
        self._built: OrderedDict[Any, Model] = OrderedDict()
        self.classes = {}

    def bind(self, feeds: Mapping[str, Any]) -> Model:
        """Build the model for the given inputs, or return it from the cache.

        Args:
            feeds: Dict of arrays, keyed by input name. Inputs that do not determine any shape can be omitted.

        Returns:
            A model with a graph. Inputs whose values determine shapes are constants in this graph rather than inputs.

        Raises:
            GraphError: If an input that determines shapes is missing.
            UnsupportedError: If shapes depend on values that are computed only when the model runs.
        """
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        while True:
            missing = sorted((self._by_value | self._by_shape) - set(arrays))
            if missing:
                raise GraphError(
                    f"inputs that determine shapes inside the model are missing: {', '.join(missing)}. "
                    "Pass arrays for them"
                )
            values = {name: arrays[name] for name in sorted(self._by_value)}
            shapes = {name: arrays[name].shape for name in sorted(self._by_shape - self._by_value)}
            key = (
                tuple((name, a.dtype.str, a.shape, a.tobytes()) for name, a in values.items()),
                tuple(shapes.items()),
            )
            if key in self._built:
                self._built.move_to_end(key)
                return self._built[key]
            try:
                built = self._build(values, shapes)
            except DataDependent as more:
                if more.values <= self._by_value and more.shapes <= self._by_shape:
                    raise UnsupportedError(
                        "shapes in the model depend on values that are computed only when the model runs, "
                        "so no graph can be built even when all inputs are known"
                    ) from more
                self._by_value |= more.values
                self._by_shape |= more.shapes
                continue
            self._built[key] = _model_of(built)
            self.classes = built.classes
            if len(self._built) > MOST_KEPT:
                self._built.popitem(last=False)
            return self._built[key]

    @property
    def deciding(self) -> tuple[list[str], list[str]]:
        """The inputs that are known so far to determine shapes.

        Returns:
            Two lists of input names: inputs whose values determine shapes inside the model, and inputs whose
                shapes, but not values, do so.
        """
        return sorted(self._by_value), sorted(self._by_shape - self._by_value)

    @property
    def graph(self) -> Graph:
        """Not available, because this model has a different graph for each set of inputs that determine shapes.

        Raises:
            UnsupportedError: Always. Use the graph of the model that `bind` returns.
        """
        raise self._not_built()

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Not available, because input placeholders belong to a graph, which this model does not have.

        Raises:
            UnsupportedError: Always. Use the inputs of the model that `bind` returns.
        """
        raise self._not_built()

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Not available, because output tensors belong to a graph, which this model does not have.

        Raises:
            UnsupportedError: Always. Use the outputs of the model that `bind` returns.
        """
        raise self._not_built()

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Not available, because variables belong to a graph, which this model does not have.

        Raises:
            UnsupportedError: Always. Use the variables of the model that `bind` returns.
        """
        raise self._not_built()

    def _not_built(self) -> UnsupportedError:
        deciding = ", ".join(sorted(self._by_value | self._by_shape))
        values, shapes = ("{" + ", ".join(f"{name!r}: ..." for name in names) + "}" for names in self.deciding)
        how = [f"{word}={names}" for word, names in (("values", values), ("shapes", shapes)) if names != "{}"]
        return UnsupportedError(
            f"the model has no graph yet because its inputs {deciding} determine shapes: call "
            f"model.bind({{name: array}}) with arrays for them, or load the model with {' and '.join(how)}"
        )

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        target_operations: Sequence[Operation] = (),
    ) -> dict[str, NDArray]:
        """Run the model, building its graph for these inputs if necessary.

        Args:
            feeds: Dict of arrays, keyed by input name.
            outputs: Names of the outputs to compute. Defaults to all.
            target_operations: Operations to run even though no output depends on them.

        Returns:
            A dict of results, keyed by output name.

        Raises:
            GraphError: If a feed does not name an input, or an input that determines shapes is missing.
        """
        if not isinstance(feeds, Mapping):
            refuse("Model.run: feeds", Mapping[str, Any], feeds)
        for name in feeds:
            if name not in self._input_names:
                raise GraphError(
                    f"the model has no input '{name}'; its inputs are {', '.join(map(repr, self._input_names))}"
                )
        model = self.bind(feeds)
        kept = model.inputs
        return model.run({name: a for name, a in feeds.items() if name in kept}, outputs, target_operations)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        if len(arrays) > len(self._input_names):
            raise GraphError(f"expected at most {len(self._input_names)} input arrays, got {len(arrays)}")
        results = self.run({**dict(zip(self._input_names, arrays, strict=False)), **named})
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    def __repr__(self) -> str:
        return f"<Model ({', '.join(self._input_names)}) -> ({', '.join(self._output_names)}), built on first run>"
