"""Model: a graph whose inputs and outputs have names, as it comes from a file and goes into one.

The graph stays open: operations can be added to it, gradients taken, parameters trained. `mpsgraph.save` and
`mpsgraph.load` keep models in packages; `mpsgraph.onnx.load` reads them from ONNX files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._checks import checked, refuse
from ._core import DeviceGraph, NDArray, Operation, Tensor
from ._display import shown
from ._dtypes import constant_data
from .errors import GraphError
from .graph import Graph
from .pictures.tables import model_table
from .quantization import Ranges


class Model:
    """A graph with named inputs, outputs and parameters.

    Args: graph; inputs, placeholders by name; outputs, tensors by name; parameters, variables by name, by default all
    of the graph by their own names. Errors: GraphError for what does not belong to the graph. `classes` has, by output,
    what a classifier's numbers or columns stand for, where an ONNX file says it; packages do not keep it.

    >>> g = mg.Graph()
    >>> x = g.placeholder((-1,), name="x")
    >>> model = mg.Model(g, {"x": x}, {"doubled": x * 2})
    >>> model.run({"x": np.float32([1, 2])})["doubled"].tolist()
    [2.0, 4.0]
    """

    @checked
    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        parameters: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._graph = graph
        self.classes: dict[str, list[Any]] = {}
        self._inputs, self._outputs = dict(inputs), dict(outputs)
        self._parameters = {v.name: v for v in graph.variables} if parameters is None else dict(parameters)
        for what, kind, tensors in (
            ("input", "placeholder", self._inputs),
            ("output", None, self._outputs),
            ("parameter", "variable", self._parameters),
        ):
            for name, tensor in tensors.items():
                if not isinstance(tensor, Tensor) or tensor.graph is not graph:
                    raise GraphError(f"{what} '{name}' is {shown(tensor)}, not a tensor of the model's graph")
                if kind and tensor.operation.kind != kind:
                    raise GraphError(f"{what} '{name}' must be a {kind}, {tensor.name} is a {tensor.operation.kind}")

    @property
    def graph(self) -> Graph:
        """The graph that holds everything; more can be added to it."""
        return self._graph

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Placeholders by name, in the model's order."""
        return dict(self._inputs)

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Tensors by name, in the model's order."""
        return dict(self._outputs)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Variables by name."""
        return dict(self._parameters)

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        target_operations: Sequence[Operation] = (),
    ) -> dict[str, NDArray]:
        """Runs the model.

        Args: feeds, arrays by input name; outputs, names of those that are wanted, by default all; target_operations,
        such as assigns, that shall run too. Result: arrays by output name.
        Errors: GraphError for unknown or missing names, and those of Graph.run.
        """
        if not isinstance(feeds, Mapping):
            refuse("Model.run: feeds", Mapping[str, Any], feeds)
        if outputs is not None and (isinstance(outputs, str) or not isinstance(outputs, Sequence)):
            refuse("Model.run: outputs", Sequence[str], outputs)
        wanted = {name: self._named(name, self.outputs, "output") for name in (outputs or self.outputs)}
        fed = {self._named(name, self.inputs, "input"): array for name, array in feeds.items()}
        results = self.graph.run(fed, list(dict.fromkeys(wanted.values())), target_operations)
        return {name: results[tensor] for name, tensor in wanted.items()}

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Runs the model on arrays in the order of its inputs, or by name.

        Result: the array of a single output, else a tuple in the order of the outputs.
        """
        if len(arrays) > len(self.inputs):
            raise GraphError(f"the model has {len(self.inputs)} inputs, got {len(arrays)} arrays")
        results = self.run({**dict(zip(self.inputs, arrays, strict=False)), **named})
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    @staticmethod
    def _named(name: str, tensors: Mapping[str, Tensor], what: str) -> Tensor:
        if not isinstance(name, str) or name not in tensors:
            raise GraphError(f"the model has no {what} {shown(name)}; it has {', '.join(map(repr, tensors)) or 'none'}")
        return tensors[name]

    @checked
    def optimize_for_inference(self, known: Mapping[str, Any] | None = None) -> Model:
        """The model as it is used when nothing trains any more: an ordinary model with a graph of its own.

        Variables become constants of their present values, unless the model assigns them; `if_`s on known values the
        branch that is taken; dropout goes; operations on constants are computed; and normalization by constants, in
        whatever operations it is written, goes into the weights and bias of the convolution, transposed convolution or
        matrix product before it, so that y = gamma (w x - mean) / sqrt(variance + epsilon) + beta is one (w' x) + b'.
        Embeddings take in the weights that they are multiplied by, where the new table is no larger than both. Constant
        weights of 2-D convolutions stand with channels last (HWIO), as devices read them.
        Results differ in the last places. This model stays as it is.
        Args: known, values of inputs, which are no inputs of the result then, such as {"is_training": False}.
        Result: a model that can be saved, loaded from C++, and run on every device. Errors: GraphError for unknown
        names, ShapeError, DTypeError for values that do not fit. Source: MPSGraph optimizationLevel1 and its inference
        passes; Jacob et al., arXiv:1712.05877, for the folding.

        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 2), name="x")
        >>> y = g.normalization(x @ g.variable(np.eye(2, dtype=np.float32)), g.constant([1.0, 2.0]),
        ...     g.constant([4.0, 1.0]), epsilon=0.0)
        >>> model = mg.Model(g, {"x": x}, {"y": y}).optimize_for_inference()
        >>> [operation.kind for operation in model.graph.operations if operation.kind != "constant"]
        ['placeholder', 'matrix_multiplication', 'addition']
        >>> model(np.float32([[3, 2]])).tolist()
        [[1.0, 0.0]]
        """
        constants = []
        for name, value in (known or {}).items():
            tensor = self._named(name, self.inputs, "input")
            constants.append((tensor, constant_data(value, None, tensor.dtype)))
        contents = _core.optimize_for_inference(
            self.graph, self.inputs, self.outputs, self.parameters, constants, _values(self.graph)
        )
        return model_of(contents, self.graph.seed)

    @checked
    def quantize(
        self,
        calibration: Iterable[Any],
        *,
        scheme: str = "symmetric",
        per_channel: bool = True,
        range: str = "minmax",
        percentile: float = 99.99,
    ) -> Model:
        """The model with 8-bit integers inside; its inputs and outputs stay what they are.

        It is optimized for inference first. Then the sources and weights of convolutions and matrix products, and what
        is added to their results, are made integers: value = (integer - zero_point) * scale, by MPSGraph's quantize and
        dequantize, of which the compiler makes integer kernels. Weights are symmetric int8.
        Args: calibration, batches that the model runs on to see the ranges of its tensors: an array, or an iterable of
        arrays for a model of one input, or of dicts by input name; scheme, "symmetric": int8 around zero, uint8 from
        zero on for what is never negative; "asymmetric": uint8 with a zero point; per_channel, weights have a scale for
        each output channel, else one; range, "minmax": of all that was seen; "percentile": of each batch the
        `percentile` of its values, so that a few large ones do not cost all others their precision.
        Result: an ordinary model. Errors: GraphError without calibration data, for an empty batch,
        another scheme or range, and a model without anything to quantize; those of run. Source: Jacob et al.,
        arXiv:1712.05877; MPSGraph quantizeTensor:scale:zeroPoint:dataType:name: and dequantizeTensor:.

        >>> g, rng = mg.Graph(), np.random.default_rng(0)
        >>> x = g.placeholder((-1, 64), name="x")
        >>> w = g.variable(rng.normal(size=(64, 8)).astype(np.float32))
        >>> model, data = mg.Model(g, {"x": x}, {"y": x @ w}), rng.normal(size=(100, 64)).astype(np.float32)
        >>> quantized = model.quantize(data)
        >>> "int8[64,8]" in str(quantized.graph)
        True
        >>> error = quantized(data).numpy() - model(data).numpy()
        >>> bool(abs(error).max() < 0.02 * abs(model(data).numpy()).max())
        True
        """
        ready = self.optimize_for_inference()
        graph = ready.graph
        tensors = _core.tensors_to_quantize(graph, list(ready.outputs.values()))
        ranges = Ranges(tensors, scheme, range, percentile)
        for feeds in ready._batches(calibration):
            ranges.observe(graph.run(feeds, tensors))
        contents = _core.quantized(
            graph, ready.inputs, ready.outputs, ready.parameters, ranges.quantization(), per_channel
        )
        return model_of(contents, graph.seed)

    def _batches(self, calibration: Iterable[Any]) -> Iterator[dict[Tensor, Any]]:
        """Feeds, from what is taken for calibration data."""
        if not isinstance(calibration, Iterable):
            raise GraphError(f"calibration data are an array or batches, got {shown(calibration)}")
        for batch in [calibration] if isinstance(calibration, np.ndarray) else calibration:
            if not isinstance(batch, Mapping):
                if len(self.inputs) != 1:
                    raise GraphError(f"calibration data must be dicts of the model's inputs {list(self.inputs)}")
                batch = {next(iter(self.inputs)): batch}
            yield {self._named(name, self.inputs, "input"): array for name, array in batch.items()}

    @checked
    def save(self, path: str | os.PathLike[str], *, locations: bool = False) -> None:
        """Writes the model as a package; see mpsgraph.save."""
        save_model(path, self, locations=locations)

    def __repr__(self) -> str:
        return f"<Model ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})>"

    def _repr_html_(self) -> str:
        """Inputs, outputs and parameters with their types, for notebooks."""
        return model_table(self.inputs, self.outputs, self.parameters)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle and copy.deepcopy: the model over a copy of its graph."""
        named = ({name: t.name for name, t in ts.items()} for ts in (self._inputs, self._outputs, self._parameters))
        return _model_again, (self._graph, *named, self.classes)


def save_model(
    path: str | os.PathLike[str],
    graph: Graph | Model,
    inputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    outputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    locations: bool = False,
) -> None:
    """See mpsgraph.save."""
    own = graph if isinstance(graph, Model) else None
    whole: Graph = own.graph if own else graph  # type: ignore[assignment]
    if inputs is None:
        inputs = own.inputs if own else whole.placeholders
    if outputs is None:
        if own is None:
            raise GraphError("[save] which outputs? Give tensors by name, or a model")
        outputs = own.outputs
    parameters = own.parameters if own else {variable.name: variable for variable in whole.variables}
    _core.save_package(
        os.fspath(path),
        whole,
        _named(inputs),
        _named(outputs),
        parameters,
        whole.trainable_variables,
        _values(whole),
        locations,
    )


def graph_of(contents: _core.PackageContents, seed: int) -> Graph:
    """A package's graph, of which it can be made once."""
    graph = Graph(seed, text=contents)
    graph._trainable = list(contents.trainable(graph))
    return graph


def model_of(contents: _core.PackageContents, seed: int) -> Model:
    graph = graph_of(contents, seed)
    return Model(graph, contents.inputs(graph), contents.outputs(graph), contents.parameters(graph))


def _model_again(
    graph: Graph, inputs: dict[str, str], outputs: dict[str, str], parameters: dict[str, str], classes: dict[str, Any]
) -> Model:
    """What __reduce_ex__ has taken apart."""

    def found(names: dict[str, str]) -> dict[str, Tensor]:
        made = {}
        for name, where in names.items():
            operation, _, index = where.partition(":")
            made[name] = graph.find(operation).outputs[int(index or 0)]  # type: ignore[union-attr]
        return made

    model = Model(graph, found(inputs), found(outputs), found(parameters))
    model.classes = classes
    return model


def _values(graph: Graph) -> DeviceGraph | None:
    """The graph on the device whose variables' values are meant; None while it has run nowhere."""
    if graph._guest is not None:
        graph._guest.give_back()
    return graph._on_devices.get(None) or next(iter(graph._on_devices.values()), None)


def _named(tensors: Mapping[str, Tensor] | Sequence[Tensor]) -> dict[str, Tensor]:
    """Tensors by the given names, or by those of their operations."""
    return dict(tensors) if isinstance(tensors, Mapping) else {tensor.name: tensor for tensor in tensors}
