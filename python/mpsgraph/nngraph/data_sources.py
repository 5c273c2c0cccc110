"""Where filters get their parameters: data sources, MPSCNNConvolutionDataSource and those of the normalizations.

A data source is an object of your own with the members that `ConvolutionDataSource` and `NormalizationDataSource` name;
they need not be its base. Weights are (out, height, width, in), as Apple's. A graph calls load when it needs the
parameters and purge when it has them. With `update` a source trains itself: it is called while a batch is encoded.
The ready-made ones train without entering Python in a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .. import _core
from ..errors import GraphError


@dataclass(frozen=True)
class NeuronDescriptor:
    """A neuron behind a convolution: its type, as in the neuron nodes' names ("relu", "tanh", ...), and a, b and c.
    Source: MPSNNNeuronDescriptor.

    >>> nn = mg.nngraph
    >>> descriptor = nn.ConvolutionDescriptor(3, 3, 1, 4, neuron=nn.NeuronDescriptor("relu"))
    >>> descriptor.neuron.type
    'relu'
    """

    type: str
    a: float = 0.0
    b: float = 0.0
    c: float = 0.0


@dataclass(frozen=True)
class ConvolutionDescriptor:
    """What a convolution does with its weights. Source: MPSCNNConvolutionDescriptor, MPSCNNDepthWise….

    depthwise: each input channel has filters of its own; output channels are a multiple of the input's, weights
    (out, height, width, 1). neuron: None for no neuron.

    >>> mg.nngraph.ConvolutionDescriptor(5, 3, 16, 32).weights_shape
    (32, 3, 5, 16)
    """

    kernel_width: int
    kernel_height: int
    input_feature_channels: int
    output_feature_channels: int
    stride_in_pixels_x: int = 1
    stride_in_pixels_y: int = 1
    dilation_rate_x: int = 1
    dilation_rate_y: int = 1
    groups: int = 1
    depthwise: bool = False
    neuron: NeuronDescriptor | None = None

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """(out, height, width, in of a group)."""
        inputs = 1 if self.depthwise else self.input_feature_channels // self.groups
        return self.output_feature_channels, self.kernel_height, self.kernel_width, inputs


class ParameterState(_core.NNParameterState):
    """Float32 arrays by name: what a data source's update is given and gives.

    "weights" and "biases" of a convolution, (out, height, width, in) and (out,); "gamma", "beta", "mean", "variance" of
    a normalization. Args: arrays, by name; their memory is shared, so that an optimizer may write into them. Source:
    MPSCNNConvolutionGradientState, MPSCNNConvolutionWeightsAndBiasesState, MPSCNNNormalization…State.

    >>> state = mg.nngraph.ParameterState({"gamma": np.float32([1, 2])})
    >>> state.names, state.read("gamma").tolist()
    (['gamma'], [1.0, 2.0])
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)


def ConvolutionWeightsAndBiasesState(weights: np.ndarray, biases: np.ndarray | None = None) -> ParameterState:
    """A convolution's parameters as a state, over the arrays' memory. Source: initWithWeights:biases:.

    >>> weights, biases = np.zeros((4, 3, 3, 1), np.float32), np.zeros(4, np.float32)
    >>> mg.nngraph.ConvolutionWeightsAndBiasesState(weights, biases).names
    ['weights', 'biases']
    """
    return ParameterState({"weights": weights} if biases is None else {"weights": weights, "biases": biases})


@runtime_checkable
class ConvolutionDataSource(Protocol):
    """What a convolution, transposed convolution or fully connected node asks of its data source.

    Optional: update(command_buffer, gradient_state, source_state), which is called while a batch is encoded; it encodes
    an optimizer, and gives the state to go on with, or None to keep the parameters. kernel_weights_data_type, "float32"
    or "float16": filters compute with weights of that type; updates are of float32 ones. Apple's default is float16,
    here it is float32. An exception in any of these reaches the caller of encode, and nothing is half updated. Source:
    MPSCNNConvolutionDataSource.

    >>> nn = mg.nngraph
    >>> class Ones:
    ...     def load(self):
    ...         return True
    ...     def purge(self):
    ...         pass
    ...     def descriptor(self):
    ...         return nn.ConvolutionDescriptor(3, 3, 1, 2)
    ...     def weights(self):
    ...         return np.ones((2, 3, 3, 1), np.float32)
    ...     def bias_terms(self):
    ...         return None
    ...     def data_type(self):
    ...         return mg.float32
    ...     def label(self):
    ...         return "ones"
    >>> node = nn.ConvolutionNode(nn.ImageNode("x"), Ones())
    >>> float(nn.NNGraph(None, node.result_image)(np.ones((1, 5, 5, 1), np.float32)).numpy().max())
    9.0
    """

    def load(self) -> bool:
        """Makes the parameters ready; False when they cannot be had."""

    def purge(self) -> None:
        """Gives back what load took."""

    def descriptor(self) -> ConvolutionDescriptor:
        """Between load and purge."""

    def weights(self) -> np.ndarray:
        """Float32 or float16, (out, height, width, in of a group)."""

    def bias_terms(self) -> np.ndarray | None:
        """Float32, (out,); None for none."""

    def data_type(self) -> Any:
        """Of the weights."""

    def label(self) -> str | None:
        """For errors."""


@runtime_checkable
class NormalizationDataSource(Protocol):
    """What a batch, instance or group normalization node asks: float32 arrays (channels,), or None.

    Also epsilon, number_of_groups (group), mean and variance (batch), load, purge, label. Optional:
    update_gamma_and_beta(command_buffer, gradient_state, source_state) and, of batch normalization,
    update_mean_and_variance(command_buffer, gradient_state, source_state), whose gradient_state holds the batch's mean
    and variance too. Source: MPSCNNBatchNormalizationDataSource and its kin.

    >>> nn = mg.nngraph
    >>> class Doubled:
    ...     def number_of_feature_channels(self):
    ...         return 1
    ...     def gamma(self):
    ...         return np.float32([2])
    ...     def beta(self):
    ...         return None
    >>> node = nn.InstanceNormalizationNode(nn.ImageNode("x"), Doubled())
    >>> x = np.float32([-1, 1]).reshape(1, 1, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(2))
    [-2.  2.]
    """

    def number_of_feature_channels(self) -> int:
        """Of the images."""

    def gamma(self) -> np.ndarray | None:
        """The scale; None for 1."""

    def beta(self) -> np.ndarray | None:
        """The shift; None for 0."""


def _normal(shape: tuple[int, ...], seed: int | None) -> np.ndarray:
    """He et al., arXiv:1502.01852: standard deviation sqrt(2 / inputs of an output)."""
    inputs = math.prod(shape[1:])
    drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return drawn * np.float32(math.sqrt(2 / inputs))


class TrainableConvolution(_core.NNTrainableConvolution):
    """A convolution's parameters and the optimizer that trains them, within the graph's own program.

    Args: descriptor; weights (out, height, width, in), float32 or float16, None for He's normal distribution by `seed`;
    bias_terms (out,), None for zeros, False for none; optimizer, None to keep them as they are; label, for errors;
    kernel_weights_data_type, as of a ConvolutionDataSource. The arrays are copied. While a training graph holds it,
    `load` takes what training has left, so that another graph sees it after reload_from_data_sources. Errors:
    ShapeError, DTypeError.

    >>> nn = mg.nngraph
    >>> source = nn.TrainableConvolution(nn.ConvolutionDescriptor(3, 3, 1, 8), optimizer=nn.Adam(1e-3))
    >>> source.weights().shape
    (8, 3, 3, 1)
    """

    def __init__(
        self,
        descriptor: ConvolutionDescriptor,
        weights: Any = None,
        bias_terms: Any = None,
        *,
        optimizer: _core.NNOptimizer | None = None,
        label: str = "",
        seed: int | None = None,
        kernel_weights_data_type: Any = "float32",
    ) -> None:
        if weights is None:
            weights = _normal(descriptor.weights_shape, seed)
        if bias_terms is None:
            bias_terms = np.zeros(descriptor.output_feature_channels, np.float32)
        biases = None if bias_terms is False else bias_terms
        super().__init__(descriptor, weights, biases, optimizer, label, kernel_weights_data_type)
        self._descriptor = descriptor

    def descriptor(self) -> ConvolutionDescriptor:
        """As it was given."""
        return self._descriptor

    def weights(self) -> np.ndarray:
        """As of the last load, (out, height, width, in)."""
        weights: np.ndarray = self.array("weights").numpy()
        return weights

    def bias_terms(self) -> np.ndarray | None:
        """As of the last load, (out,); None when there are none."""
        biases = self.array("biases")
        return None if biases is None else biases.numpy()

    def data_type(self) -> Any:
        """float32."""
        return _core.float32


class TrainableNormalization(_core.NNTrainableNormalization):
    """A normalization's parameters, statistics and optimizer, within the graph's own program.

    Args: number_of_feature_channels; kind, "batch", "instance" or "group"; gamma, beta, mean, variance, float32
    (channels,), None for 1, 0, 0, 1; epsilon; number_of_groups; momentum, what a step of training keeps of the moving
    mean and variance; optimizer, of gamma and beta. Errors: ShapeError, DTypeError, GraphError.

    >>> nn = mg.nngraph
    >>> nn.TrainableNormalization(4, kind="batch").gamma().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        number_of_feature_channels: int,
        *,
        kind: str = "batch",
        gamma: Any = None,
        beta: Any = None,
        mean: Any = None,
        variance: Any = None,
        epsilon: float = 1e-5,
        number_of_groups: int = 1,
        momentum: float = 0.9,
        optimizer: _core.NNOptimizer | None = None,
        label: str = "",
    ) -> None:
        if kind != "batch" and (mean is not None or variance is not None):
            raise GraphError(f"only batch normalization keeps a mean and a variance, this is {kind}")
        given = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        arrays = {name: value for name, value in given.items() if value is not None}
        super().__init__(
            kind, number_of_feature_channels, number_of_groups, epsilon, arrays, momentum, optimizer, label
        )

    def _held(self, name: str) -> np.ndarray | None:
        array = self.array(name)
        return None if array is None else array.numpy()

    def gamma(self) -> np.ndarray | None:
        """As of the last load."""
        return self._held("gamma")

    def beta(self) -> np.ndarray | None:
        """As of the last load."""
        return self._held("beta")

    def mean(self) -> np.ndarray | None:
        """The moving mean as of the last load; None of an instance or group normalization."""
        return self._held("mean")

    def variance(self) -> np.ndarray | None:
        """The moving variance as of the last load; None of an instance or group normalization."""
        return self._held("variance")


class StoredWeights(_core.NNStoredWeights):
    """A convolution's parameters in a safetensors file, mapped while a filter needs them and not before.

    A graph that does not train runs filter by filter over such sources: each is mapped when its turn has come and let
    go behind it, so that a network takes the memory of its largest layers. Args: path; descriptor; weights and
    bias_terms, names of tensors in the file, float32 or the weights float16, the latter None for none; layout of the
    weights there, "OHWI" as Apple's, "OIHW" as PyTorch's or "HWIO" as TensorFlow's; label; kernel_weights_data_type, as
    of a ConvolutionDataSource. Errors: PackageError for a file that is damaged or lacks a tensor, ShapeError,
    DTypeError.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> mg.checkpoint.save(path, {"conv1.weight": np.ones((4, 3, 3, 1), np.float32)})
    >>> source = mg.nngraph.StoredWeights(path, mg.nngraph.ConvolutionDescriptor(3, 3, 1, 4), weights="conv1.weight")
    >>> source.load(), source.weights().shape
    (True, (4, 3, 3, 1))
    """

    def __init__(
        self,
        path: str | Path,
        descriptor: ConvolutionDescriptor,
        weights: str,
        bias_terms: str | None = None,
        *,
        layout: str = "OHWI",
        label: str = "",
        kernel_weights_data_type: Any = "float32",
    ) -> None:
        super().__init__(str(path), descriptor, weights, bias_terms or "", layout, label, kernel_weights_data_type)
        self._descriptor = descriptor

    def descriptor(self) -> ConvolutionDescriptor:
        """As it was given."""
        return self._descriptor

    def weights(self) -> np.ndarray:
        """Mapped, (out, height, width, in). Errors: DeviceError before load and after purge."""
        weights: np.ndarray = self.array("weights").numpy()
        return weights

    def bias_terms(self) -> np.ndarray | None:
        """Mapped, (out,); None when there are none. Errors: as of weights."""
        biases = self.array("biases")
        return None if biases is None else biases.numpy()

    def data_type(self) -> Any:
        """Of the weights."""
        return self.array("weights").dtype


__all__ = [
    "ConvolutionDataSource",
    "ConvolutionDescriptor",
    "ConvolutionWeightsAndBiasesState",
    "NeuronDescriptor",
    "NormalizationDataSource",
    "ParameterState",
    "StoredWeights",
    "TrainableConvolution",
    "TrainableNormalization",
]
