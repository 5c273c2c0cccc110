"""Model: a graph whose inputs and outputs have names, so that it can be saved to files and loaded from them.

The graph remains available: operations can be added, gradients built, and parameters trained. `mpsgraph.save` and
`mpsgraph.load` keep models in packages; `mpsgraph.onnx.load` reads them from ONNX files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._checks import checked, refuse
from ._core import NDArray, Operation, Tensor
from ._display import shown
from ._dtypes import constant_data
from .errors import GraphError
from .graph import Graph, holder_of_values, set_trainable
from .pictures.tables import model_table
from .quantization import Ranges


class Model:
    """A graph with named inputs, outputs, and parameters.

    Args:
        graph: The graph that contains all tensors.
        inputs: Dict from names to placeholders.
        outputs: Dict from names to tensors.
        parameters: Dict from names to variables. None, the default, means all variables of the graph under their own
            names.

    Attributes:
        classes: Dict from output names to class labels, for a classifier from an ONNX file that specifies labels.
            Packages do not store class labels.

    Raises:
        GraphError: If a tensor does not belong to graph, an input is not a placeholder, or a parameter is not a
            variable.

    Example:
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
                    raise GraphError(f"{what} '{name}' must be a tensor of the model's graph, got {shown(tensor)}")
                if kind and tensor.operation.kind != kind:
                    raise GraphError(
                        f"{what} '{name}' must be a {kind}, got '{tensor.name}', which is a {tensor.operation.kind}"
                    )

    @property
    def graph(self) -> Graph:
        """The graph of the model, to which operations can be added."""
        return self._graph

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Dict from input names to placeholders, in the model's order."""
        return dict(self._inputs)

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Dict from output names to tensors, in the model's order."""
        return dict(self._outputs)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Dict from parameter names to variables."""
        return dict(self._parameters)

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        target_operations: Sequence[Operation] = (),
    ) -> dict[str, NDArray]:
        """Run the model on arrays that are passed by input name.

        Args:
            feeds: Dict from input names to arrays.
            outputs: Names of the outputs to compute. None, the default, means all.
            target_operations: Operations to run in addition, such as assignments. Defaults to none.

        Returns:
            A dict from output names to arrays.

        Raises:
            GraphError: If a name is unknown or an input is missing.
            ShapeError: If the shape of a feed does not match.
            DTypeError: If the dtype of a feed does not match.
            DeviceError: If the run fails.
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
        """Run the model on arrays that are passed in the order of its inputs or by input name.

        Args:
            *arrays: Arrays in the order of the inputs.
            **named: Arrays as keyword arguments with the names of inputs.

        Returns:
            The array of a single output, or a tuple in the order of the outputs.

        Raises:
            GraphError: If there are too many arrays, a name is unknown, or an input is missing.
            ShapeError: If the shape of an array does not match.
            DTypeError: If the dtype of an array does not match.
        """
        if len(arrays) > len(self.inputs):
            raise GraphError(
                f"the model takes at most {len(self.inputs)} arrays, one for each input, got {len(arrays)}"
            )
        results = self.run({**dict(zip(self.inputs, arrays, strict=False)), **named})
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    @staticmethod
    def _named(name: str, tensors: Mapping[str, Tensor], what: str) -> Tensor:
        if not isinstance(name, str) or name not in tensors:
            known = ", ".join(map(repr, tensors)) or "none"
            raise GraphError(f"the model has no {what} {shown(name)}: its {what}s are {known}")
        return tensors[name]

    @checked
    def optimize_for_inference(self, known: Mapping[str, Any] | None = None) -> Model:
        """Return a copy of the model that is optimized for inference.

        In the copy:

        - Variables become constants with their current values, unless the model assigns them.
        - Conditionals on known values are replaced with the branch that is taken.
        - Dropout is removed.
        - Operations on constants are computed.
        - Normalization by constants is folded into the weights and bias of the preceding convolution, transposed
          convolution, or matrix product, regardless of the operations that implement the normalization:
          y = gamma (w x - mean) / sqrt(variance + epsilon) + beta becomes (w' x) + b'.
        - Embeddings absorb the weights that they are multiplied by, if the new table is no larger than the old table
          and the weights together.
        - Constant weights of 2-D convolutions are stored with channels last (HWIO), the layout that devices read.

        The copy's results may differ from the model's in the last digits. The model itself does not change.

        Args:
            known: Dict from input names to values. These inputs become constants and are no longer inputs of the copy,
                such as {"is_training": False}. Defaults to None.

        Returns:
            A model with its own graph, which can be saved, loaded from C++, and run on every device.

        Raises:
            GraphError: If a name in known is not an input.
            ShapeError: If the shape of a value does not match its input.
            DTypeError: If the dtype of a value does not match its input.

        Source: MPSGraph optimizationLevel1 and its inference passes; Jacob et al., arXiv:1712.05877, for the folding.

        Example:
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
            self.graph, self.inputs, self.outputs, self.parameters, constants, holder_of_values(self.graph)
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
        """Return a copy of the model that computes with 8-bit integers internally, with the same inputs and outputs.

        The model is first optimized for inference. Then MPSGraph's quantize and dequantize operations are added, which
        convert the sources and weights of convolutions and matrix products, and the operands added to their results, to
        integers with value = (integer - zero_point) * scale. The compiler turns these operations into integer kernels.
        Weights are symmetric int8.

        Args:
            calibration: Data on which the model runs to determine the ranges of its tensors: an array, an iterable of
                arrays for a model with one input, or an iterable of dicts from input names to arrays.
            scheme: "symmetric" (the default): int8 around zero, or uint8 from zero for tensors that are never negative;
                or "asymmetric": uint8 with a zero point.
            per_channel: Whether weights have a scale for each output channel, instead of one scale for the whole
                tensor. Defaults to True.
            range: "minmax" (the default), the range of all values; or "percentile", the `percentile` of the values of
                each batch, so that a few large values do not reduce the precision of all others.
            percentile: Percentile of the values that the range must include, above 50 and at most 100. Defaults to
                99.99.

        Returns:
            A model with its own graph, which supports everything that other models support.

        Raises:
            GraphError: If there is no calibration data, a batch is empty or contains values that are not finite, an
                argument has an unknown value, or the model has nothing to quantize.
            ShapeError: If the shape of the calibration data does not match.
            DTypeError: If the dtype of the calibration data does not match.

        Source: Jacob et al., arXiv:1712.05877; MPSGraph quantizeTensor:scale:zeroPoint:dataType:name: and
        dequantizeTensor:.

        Example:
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
        """Yield the feeds of each calibration batch. The data is one array, or an iterable of arrays or dicts."""
        if not isinstance(calibration, Iterable):
            raise GraphError(f"calibration must be an array or an iterable of batches, got {shown(calibration)}")
        for batch in [calibration] if isinstance(calibration, np.ndarray) else calibration:
            if not isinstance(batch, Mapping):
                if len(self.inputs) != 1:
                    raise GraphError(
                        f"calibration must consist of dicts from the inputs {list(self.inputs)} to arrays, because the "
                        "model has several inputs, got an array"
                    )
                batch = {next(iter(self.inputs)): batch}
            yield {self._named(name, self.inputs, "input"): array for name, array in batch.items()}

    @checked
    def save(self, path: str | os.PathLike[str], *, locations: bool = False) -> None:
        """Write the model as a package, as mpsgraph.save does.

        Args:
            path: Directory to write, by convention with the extension .mpsgraph; an existing package is replaced.
            locations: Whether to store the source location of each operation, for error messages. Defaults to False.

        Raises:
            UnsupportedError: If a package cannot hold an operation of the model.
            PackageError: If the package cannot be written.
        """
        save_model(path, self, locations=locations)

    def __repr__(self) -> str:
        return f"<Model ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})>"

    def _repr_html_(self) -> str:
        """Return a table of inputs, outputs, and parameters with their types, for notebooks."""
        return model_table(self.inputs, self.outputs, self.parameters)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Support pickle and copy.deepcopy. The copy is a model with a copy of the graph."""
        named = ({name: t.name for name, t in ts.items()} for ts in (self._inputs, self._outputs, self._parameters))
        return _model_again, (self._graph, *named, self.classes)


def save_model(
    path: str | os.PathLike[str],
    graph: Graph | Model,
    inputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    outputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    locations: bool = False,
) -> None:
    """Write a graph or model as a package; see mpsgraph.save."""
    own = graph if isinstance(graph, Model) else None
    whole: Graph = own.graph if own else graph  # type: ignore[assignment]
    if inputs is None:
        inputs = own.inputs if own else whole.placeholders
    if outputs is None:
        if own is None:
            raise GraphError(
                "[save] outputs is required for a graph: pass a dict or a sequence of tensors, or save a Model"
            )
        outputs = own.outputs
    parameters = own.parameters if own else {variable.name: variable for variable in whole.variables}
    _core.save_package(
        os.fspath(path),
        whole,
        _named(inputs),
        _named(outputs),
        parameters,
        whole.trainable_variables,
        holder_of_values(whole),
        locations,
    )


def graph_of(contents: _core.PackageContents, seed: int) -> Graph:
    """Create the graph of an opened package. The call consumes `contents`, which cannot be used again."""
    graph = Graph(seed, text=contents)
    set_trainable(graph, contents.trainable(graph))
    return graph


def model_of(contents: _core.PackageContents, seed: int) -> Model:
    graph = graph_of(contents, seed)
    return Model(graph, contents.inputs(graph), contents.outputs(graph), contents.parameters(graph))


def _model_again(
    graph: Graph, inputs: dict[str, str], outputs: dict[str, str], parameters: dict[str, str], classes: dict[str, Any]
) -> Model:
    """Recreate a model from pickled state; `Model.__reduce_ex__` names this function."""

    def found(names: dict[str, str]) -> dict[str, Tensor]:
        made = {}
        for name, where in names.items():
            operation, _, index = where.partition(":")
            made[name] = graph.find(operation).outputs[int(index or 0)]  # type: ignore[union-attr]
        return made

    model = Model(graph, found(inputs), found(outputs), found(parameters))
    model.classes = classes
    return model


def _named(tensors: Mapping[str, Tensor] | Sequence[Tensor]) -> dict[str, Tensor]:
    """Return a dict from names to tensors. Tensors in a sequence get the names of their operations."""
    return dict(tensors) if isinstance(tensors, Mapping) else {tensor.name: tensor for tensor in tensors}
