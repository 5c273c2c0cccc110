"""Models that can be built only when they are run: inputs decide shapes by their values, or are of unknown shape.

A reshape to a fed shape, a slice up to a fed end: the graph needs these numbers while it is built. Such a model is
built at its first run, with the deciding inputs as constants, and kept for as long as they stay the same.
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

MOST_KEPT = 16  # built models


class Built(Protocol):
    """What an import gives."""

    graph: Graph
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    parameters: dict[str, Tensor]
    classes: dict[str, list[Any]]


Build: TypeAlias = Callable[[Mapping[str, np.ndarray], Mapping[str, Sequence[int]]], Built]
"""Builds the model with these values of inputs as constants, and with these shapes of others."""


class DeferredModel(Model):
    """A model that is built when it is run; `bind` builds it for given inputs at once.

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
        """The model built for these inputs; those that decide shapes by value are constants in it, and no inputs.

        Args: feeds, arrays by input name; of inputs that decide nothing, none is needed. Errors: GraphError when one
        that decides something is missing.
        """
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        while True:
            missing = sorted((self._by_value | self._by_shape) - set(arrays))
            if missing:
                raise GraphError(
                    f"the model cannot be built without its inputs {', '.join(missing)}: they decide shapes"
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
                    raise UnsupportedError("shapes depend on values that only a run gives") from more
                self._by_value |= more.values
                self._by_shape |= more.shapes
                continue
            self._built[key] = Model(built.graph, built.inputs, built.outputs, built.parameters)
            self._built[key].classes = self.classes = built.classes
            if len(self._built) > MOST_KEPT:
                self._built.popitem(last=False)
            return self._built[key]

    @property
    def deciding(self) -> tuple[list[str], list[str]]:
        """The inputs that decide shapes as far as is known: by their values, and by their own shapes alone."""
        return sorted(self._by_value), sorted(self._by_shape - self._by_value)

    @property
    def graph(self) -> Graph:
        """There is none before the deciding inputs are known: UnsupportedError that names them."""
        raise self._not_built()

    @property
    def inputs(self) -> dict[str, Tensor]:
        """As graph."""
        raise self._not_built()

    @property
    def outputs(self) -> dict[str, Tensor]:
        """As graph."""
        raise self._not_built()

    @property
    def parameters(self) -> dict[str, Tensor]:
        """As graph."""
        raise self._not_built()

    def _not_built(self) -> UnsupportedError:
        deciding = ", ".join(sorted(self._by_value | self._by_shape))
        values, shapes = ("{" + ", ".join(f"{name!r}: ..." for name in names) + "}" for names in self.deciding)
        how = [f"{word}={names}" for word, names in (("values", values), ("shapes", shapes)) if names != "{}"]
        return UnsupportedError(
            f"the model's inputs {deciding} decide shapes, so it has no graph before they are known: "
            f"model.bind({{name: array}}) gives the model for them, or load it with {' and '.join(how)}"
        )

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        target_operations: Sequence[Operation] = (),
    ) -> dict[str, NDArray]:
        """As Model.run; builds the model for these feeds when that has not been done."""
        if not isinstance(feeds, Mapping):
            refuse("Model.run: feeds", Mapping[str, Any], feeds)
        for name in feeds:
            if name not in self._input_names:
                raise GraphError(f"the model has no input '{name}'; it has {', '.join(map(repr, self._input_names))}")
        model = self.bind(feeds)
        kept = model.inputs
        return model.run({name: a for name, a in feeds.items() if name in kept}, outputs, target_operations)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        if len(arrays) > len(self._input_names):
            raise GraphError(f"the model has {len(self._input_names)} inputs, got {len(arrays)} arrays")
        results = self.run({**dict(zip(self._input_names, arrays, strict=False)), **named})
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    def __repr__(self) -> str:
        return f"<Model ({', '.join(self._input_names)}) -> ({', '.join(self._output_names)}), built when it runs>"
