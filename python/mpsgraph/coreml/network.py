"""The importer for Core ML's older neural networks, which translates layers in order and adds operations to one graph.

Networks whose arrayInputShapeMapping is not EXACT_ARRAY_MAPPING represent array inputs as (sequence, batch, channels,
height, width). Their array outputs are reshaped to the declared shape if the number of elements matches, and otherwise
lose the sequence and batch axes if both have size 1. All networks are computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core import Tensor, float32, int32, int64
from ..errors import GraphError, ShapeError, UnsupportedError
from ..interchange.custom_operators import Operators, called
from ..interchange.data_dependent import Trainable
from ._importer import CoreMLImporter
from ._values import Values
from ._wire import Message
from .interface import labels_of
from .layers import Layer, layer


class Network(CoreMLImporter):
    """Imports a Core ML neural network once, optionally with fixed values or shapes for some inputs."""

    def __init__(
        self,
        model: Message,
        values: Values,
        trainable: Trainable = True,
        given: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        operators: Operators | None = None,
    ) -> None:
        super().__init__(values, trainable, given, shapes, operators)
        self._model, self._kind = model, str(model.which("Type"))
        self._network: Message = getattr(model, self._kind)
        self._exact = self._network.arrayInputShapeMapping == "EXACT_ARRAY_MAPPING"
        self._tensors: dict[str, Tensor] = {}

    def run(self) -> None:
        """Add the operations of the layers to the graph."""
        for feature in self._model.description.input:
            self._tensors[feature.name] = self._feature(feature)
        self.translate_all(self._network.layers, described, self._run_layer)
        self._name_outputs()

    # --- inputs ------------------------------------------------------------------------------------------------------

    def _feature(self, feature: Message) -> Tensor:
        kind, name = feature.type.which("Type"), feature.name
        if kind == "imageType":
            return self._image(name, feature.type.imageType)
        if kind != "multiArrayType":
            raise UnsupportedError(f"[coreml] input '{name}' must be an array or an image, got {kind}")
        held = feature.type.multiArrayType
        stated = _array_shape(held)
        dtype = int32 if held.dataType == "INT32" else float32
        x = self.input(name, dtype, stated)
        x = x if x.dtype == float32 else self.graph.cast(x, float32)
        return x if self._exact else self._five(x, len(stated), name)

    def _five(self, x: Tensor, stated: int, name: str) -> Tensor:
        """Expand a vector of channels, an image, or a sequence of vectors to rank 5.

        The result has shape (sequence, batch, channels, height, width).
        """
        rank = len(x.shape or ())
        if rank == 5:
            return x
        if rank == 1:
            return self.graph.expand_dims(x, [0, 1, 3, 4])
        if rank == 3 and stated == 3:
            return self.graph.expand_dims(x, [0, 1])
        if rank == 3 and stated == 1:  # The shape is (sequence, batch, channels).
            return self.graph.expand_dims(x, [3, 4])
        raise ShapeError(
            f"[coreml] input '{name}' must have shape (channels,), (channels, height, width), or (sequence, batch, "
            "channels, height, width), or (sequence, batch, channels) if it is declared as a vector, "
            f"got {x.shape}"
        )

    def _image(self, name: str, held: Message) -> Tensor:
        """Return an image input after the network's preprocessing.

        The input has shape (1, channels, height, width) and values from 0 to 255.
        """
        g, colour = self.graph, held.colorSpace
        channels = 1 if colour.startswith("GRAYSCALE") else 3
        sizes = [-1, -1] if held.which("SizeFlexibility") else [int(held.height), int(held.width)]
        x = self.input(name, float32, [1, channels, *sizes])
        for step in self._network.preprocessing:
            if step.featureName not in ("", name):
                continue
            if step.has("meanImage"):
                mean = step.meanImage.meanImage.reshape(1, channels, *sizes)
                x = g.subtraction(x, g.constant(np.asarray(mean, np.float32)))
            if step.has("scaler"):
                s = step.scaler
                by_colour = [s.redBias, s.greenBias, s.blueBias]
                biases = [s.grayBias] if channels == 1 else by_colour[::-1] if colour == "BGR" else by_colour
                scaled = g.multiplication(x, float(s.channelScale)) if s.has("channelScale") else x
                x = g.addition(scaled, g.constant(np.array(biases, np.float32).reshape(1, -1, 1, 1)))
        exact = self._network.imageInputShapeMapping == "RANK4_IMAGE_MAPPING"
        return x if exact else g.expand_dims(x, [0])

    # --- layers ------------------------------------------------------------------------------------------------------

    def _run_layer(self, proto: Message) -> None:
        kind = proto.which("layer") or "of no kind"
        made = self._translated(proto, kind, [self._tensor_named(name) for name in proto.input])
        found = [made] if isinstance(made, Tensor) else list(made)
        if len(found) != len(proto.output):
            raise GraphError(f"the layer must have {len(found)} outputs, got {len(proto.output)}")
        self._tensors.update(zip(proto.output, found, strict=True))

    def _translated(self, proto: Message, kind: str, xs: Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
        """Return the outputs of a layer, from a user's function if one is given for it."""
        name = operator_name(proto)
        if name in self._operators:
            parameters = _custom_parameters(proto.custom) if kind == "custom" else {}
            found = called(self, name, self._operators[name], xs, parameters, [True] * len(proto.output))
            return [y for y in found if y is not None]
        function = layer.get(kind)
        if function is None:
            raise UnsupportedError(f"layer {kind} is not supported by mpsgraph")
        return function(Layer(self, kind, proto.name, getattr(proto, kind), xs, len(proto.output)))

    def _tensor_named(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise GraphError(f"'{name}' is neither an input nor the output of a preceding layer")
        return self._tensors[name]

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _name_outputs(self) -> None:
        description = self._model.description
        label = description.predictedFeatureName if self._kind == "neuralNetworkClassifier" else ""
        scores = description.predictedProbabilitiesName if label else ""
        if label:
            self._classify(label, scores)
        for feature in description.output:
            if feature.name not in (label, scores):
                self.outputs[feature.name] = self._output(feature)

    def _output(self, feature: Message) -> Tensor:
        g = self.graph
        x = self._tensor_named(feature.name)
        x = x if x.dtype == float32 else g.cast(x, float32)
        if feature.type.which("Type") == "imageType" or self._exact or x.shape is None:
            return x
        stated = [int(v) for v in feature.type.multiArrayType.shape]
        if stated and min(x.shape, default=0) >= 0 and np.prod(stated) == np.prod(x.shape):
            return g.reshape(x, stated)
        return g.squeeze(x, [0, 1]) if len(x.shape) == 5 and x.shape[:2] == (1, 1) else x

    def _classify(self, label: str, scores: str) -> None:
        """Add a classifier's outputs: the index of the class with the highest score, and the scores as a vector."""
        g, held = self.graph, self._network
        layers = held.layers
        name = held.labelProbabilityLayerName or (layers[-1].output[0] if layers else "")
        y = self._tensor_named(name)
        flat = g.reshape(y if y.dtype == float32 else g.cast(y, float32), [-1])
        best = g.cast(g.squeeze(g.reduction_arg_maximum(flat, 0), [0]), int64)
        labels = labels_of(held)
        self.outputs[label] = best
        self.classes[label] = labels
        if scores:
            self.outputs[scores] = flat
            self.classes[scores] = labels


def described(proto: Message) -> str:
    """Return a layer's kind and name, for error messages."""
    kind = proto.which("layer") or "unknown"
    return f"{kind} {proto.custom.className} '{proto.name}'" if kind == "custom" else f"{kind} '{proto.name}'"


def operator_name(proto: Message) -> str:
    """Return the class name of a custom layer, and the kind of any other layer."""
    kind = proto.which("layer") or ""
    return str(proto.custom.className) if kind == "custom" else kind


def missing_layers(network: Message, operators: Operators) -> list[str]:
    """Return the kinds and names of unsupported layers. `operators` translates further layers."""
    layers = [proto for proto in network.layers if operator_name(proto) not in operators]
    return [described(proto) for proto in layers if (proto.which("layer") or "") not in layer]


def _custom_parameters(custom: Message) -> dict[str, Any]:
    """Return the parameters of a custom layer, with its weights as a list of flat arrays."""
    found: dict[str, Any] = {}
    for key, value in custom.entries("parameters").items():
        kind = value.which("value")
        found[key] = getattr(value, kind) if kind else None
    weights = [
        np.frombuffer(w.float16Value, "<f2").astype(np.float32) if w.has("float16Value") else np.asarray(w.floatValue)
        for w in custom.weights
    ]
    return {**found, "weights": weights} if weights else found


def _array_shape(held: Message) -> list[int]:
    """Return the shape of an array type, with -1 for flexible dimensions."""
    stated = [int(v) for v in held.shape]
    flexible = held.which("ShapeFlexibility")
    if flexible == "shapeRange":
        ranges = [(int(r.lowerBound), int(r.upperBound)) for r in held.shapeRange.sizeRanges]
        return [low if low == high else -1 for low, high in ranges]
    if flexible == "enumeratedShapes":
        shapes = [[int(v) for v in s.shape] for s in held.enumeratedShapes.shapes]
        return [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
    return stated
