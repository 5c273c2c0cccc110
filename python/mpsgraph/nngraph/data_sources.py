"""Data sources: objects that supply the parameters of convolutions and normalizations.

A data source is a user-defined object with the members of `ConvolutionDataSource` or `NormalizationDataSource`; it does
not have to derive from them. Weights have Apple's layout (out, height, width, in). A graph calls `load` when it needs
the parameters and `purge` once it has copied them. A source with an `update` method trains its own parameters; the
graph calls this method while a batch is encoded. The built-in sources train without calling Python during a step.
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
    """Activation function that a convolution applies to its result.

    Args:
        type: Name of the function, as in the neuron nodes: "relu", "tanh", "sigmoid", and so on.
        a: First parameter of the function. Defaults to 0.
        b: Second parameter of the function. Defaults to 0.
        c: Third parameter of the function. Defaults to 0.

    Source: MPSNNNeuronDescriptor.

    Example:
        >>> nn = mg.nngraph
        >>> descriptor = nn.ConvolutionDescriptor(3, 3, 1, 4, neuron=nn.NeuronDescriptor("relu"))
        >>> descriptor.neuron.type
        'relu'
    """

    type: str
    a: float = 0.0
    b: float = 0.0
    c: float = 0.0


@dataclass
class ConvolutionDescriptor:
    """Sizes and options of a convolution.

    Args:
        kernel_width: Width of the kernel, in pixels.
        kernel_height: Height of the kernel, in pixels.
        input_feature_channels: Number of channels of the source images.
        output_feature_channels: Number of channels of the result.
        stride_in_pixels_x: Horizontal stride. Defaults to 1.
        stride_in_pixels_y: Vertical stride. Defaults to 1.
        dilation_rate_x: Horizontal distance between kernel elements. Defaults to 1.
        dilation_rate_y: Vertical distance between kernel elements. Defaults to 1.
        groups: Number of groups that the channels are divided into. Defaults to 1.
        depthwise: Whether each input channel has its own filters. The number of output channels must then be a multiple
            of the number of input channels, and weights have shape (out, height, width, 1). Defaults to False.
        neuron: Activation function applied to the result. None (the default) applies no function.

    Source: MPSCNNConvolutionDescriptor, MPSCNNDepthWise….

    Example:
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
        """Shape of the weights: (out, height, width, input channels per group)."""
        inputs = 1 if self.depthwise else self.input_feature_channels // self.groups
        return self.output_feature_channels, self.kernel_height, self.kernel_width, inputs


class ParameterState(_core.NNParameterState):
    """Named float32 arrays that a graph passes to a data source's update and receives from it.

    For a convolution the names are "weights" and "biases", of shapes (out, height, width, in) and (out,). For a
    normalization they are "gamma", "beta", "mean", and "variance".

    Args:
        arrays: Dict from names to arrays. The state shares the memory of the arrays, so optimizers can write into them.

    Raises:
        DTypeError: If an array is not float32.

    Source: MPSCNNConvolutionGradientState, MPSCNNConvolutionWeightsAndBiasesState, MPSCNNNormalization…State.

    Example:
        >>> state = mg.nngraph.ParameterState({"gamma": np.float32([1, 2])})
        >>> state.names, state.read("gamma").tolist()
        (['gamma'], [1.0, 2.0])
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(arrays)


def ConvolutionWeightsAndBiasesState(weights: np.ndarray, biases: np.ndarray | None = None) -> ParameterState:
    """Create a ParameterState for the parameters of a convolution that shares the memory of the arrays.

    Args:
        weights: float32 array of shape (out, height, width, in).
        biases: float32 array of shape (out,), or None (the default) for a convolution without biases.

    Returns:
        A ParameterState with the names "weights" and, if given, "biases".

    Raises:
        DTypeError: If an array is not float32.

    Source: initWithWeights:biases:.

    Example:
        >>> weights, biases = np.zeros((4, 3, 3, 1), np.float32), np.zeros(4, np.float32)
        >>> mg.nngraph.ConvolutionWeightsAndBiasesState(weights, biases).names
        ['weights', 'biases']
    """
    return ParameterState({"weights": weights} if biases is None else {"weights": weights, "biases": biases})


@runtime_checkable
class ConvolutionDataSource(Protocol):
    """Protocol for the data source of a convolution, transposed convolution, or fully connected node.

    Two more members are optional:

    - `update(command_buffer, gradient_state, source_state)` is called while a batch is encoded. It encodes an optimizer
      step and returns the state with the new parameters, or None to keep the old ones.
    - `kernel_weights_data_type` is the dtype in which filters use the weights, "float32" or "float16". Updates always
      apply to float32 weights. The default is float32; Apple's is float16.

    If a member raises an exception, the method that encodes the batch raises the same exception, and no parameters are
    updated.

    Source: MPSCNNConvolutionDataSource.

    Example:
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
        """Make the parameters available; return False if that is not possible."""

    def purge(self) -> None:
        """Release the memory that `load` allocated."""

    def descriptor(self) -> ConvolutionDescriptor:
        """Return the sizes of the convolution; called between `load` and `purge`."""

    def weights(self) -> np.ndarray:
        """Return the weights: float32 or float16, (out, height, width, input channels per group)."""

    def bias_terms(self) -> np.ndarray | None:
        """Return the biases, float32 of shape (out,), or None for a convolution without biases."""

    def data_type(self) -> Any:
        """Return the dtype of the weights."""

    def label(self) -> str | None:
        """Return a name for error messages, or None."""


@runtime_checkable
class NormalizationDataSource(Protocol):
    """Protocol for the data source of a batch, instance, or group normalization node.

    Parameters are float32 arrays of shape (channels,), or None. These members are optional:

    - `epsilon`, the constant added to the variance;
    - `number_of_groups`, for group normalization;
    - `mean` and `variance`, for batch normalization;
    - `load`, `purge`, and `label`, as in `ConvolutionDataSource`;
    - `update_gamma_and_beta(command_buffer, gradient_state, source_state)`, which returns the state with new
      parameters, or None to keep the old ones;
    - `update_mean_and_variance(command_buffer, gradient_state, source_state)`, for batch normalization, whose
      gradient_state also holds the mean and variance of the batch.

    Source: MPSCNNBatchNormalizationDataSource, MPSCNNInstanceNormalizationDataSource,
    MPSCNNGroupNormalizationDataSource.

    Example:
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
        """Return the number of channels of the images."""

    def gamma(self) -> np.ndarray | None:
        """Return the scale, or None for 1."""

    def beta(self) -> np.ndarray | None:
        """Return the shift, or None for 0."""


def _normal(shape: tuple[int, ...], seed: int | None) -> np.ndarray:
    """Draw weights with standard deviation sqrt(2 / inputs per output), after He et al., arXiv:1502.01852."""
    inputs = math.prod(shape[1:])
    drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return drawn * np.float32(math.sqrt(2 / inputs))


class TrainableConvolution(_core.NNTrainableConvolution):
    """Data source for a convolution that trains inside the graph, without calling Python.

    The arrays are copied. While a training graph uses the source, that graph holds the trained values, and `load`
    copies them back into the source. Another graph with the same source reads these values when its
    `reload_from_data_sources` is called.

    Args:
        descriptor: Sizes and options of the convolution.
        weights: float32 or float16 array of shape (out, height, width, in). None (the default) draws from He's normal
            distribution.
        bias_terms: float32 array of shape (out,). None (the default) means zeros, False means no biases.
        optimizer: Optimizer that trains the parameters, such as Adam. None (the default) keeps them fixed.
        label: Name of the source in error messages. Empty by default.
        seed: Seed for weights=None. None (the default) draws different weights every time.
        kernel_weights_data_type: dtype in which filters use the weights, "float32" (the default) or "float16". Updates
            always apply to float32 weights.

    Raises:
        ShapeError: If an array does not have the shape that the descriptor specifies, or the descriptor's numbers of
            channels are not divisible by its number of groups.
        DTypeError: If weights are not float32 or float16, biases are not float32, or kernel_weights_data_type is
            neither of these two dtypes.

    Example:
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
        """Return the descriptor that was passed to the constructor."""
        return self._descriptor

    def weights(self) -> np.ndarray:
        """Return the weights at the last `load`, (out, height, width, in)."""
        weights: np.ndarray = self.array("weights").numpy()
        return weights

    def bias_terms(self) -> np.ndarray | None:
        """Return the biases at the last `load`, of shape (out,), or None if there are no biases."""
        biases = self.array("biases")
        return None if biases is None else biases.numpy()

    def data_type(self) -> Any:
        """Return float32, the dtype of the stored weights."""
        return _core.float32


class TrainableNormalization(_core.NNTrainableNormalization):
    """Data source for a normalization that trains inside the graph, without calling Python.

    Args:
        number_of_feature_channels: Number of channels of the images.
        kind: "batch" (the default), "instance", or "group".
        gamma: Scale, float32 of shape (channels,). None (the default) means ones.
        beta: Shift, float32 of shape (channels,). None (the default) means zeros.
        mean: Initial moving mean for kind="batch", float32 of shape (channels,). None (the default) means zeros.
        variance: Initial moving variance for kind="batch", float32 of shape (channels,). None (the default) means ones.
        epsilon: Constant added to the variance. Defaults to 1e-5.
        number_of_groups: Number of groups for kind="group". Defaults to 1.
        momentum: Fraction of the moving mean and variance that each training step keeps. Defaults to 0.9.
        optimizer: Optimizer that trains gamma and beta, such as Adam. None (the default) keeps them fixed.
        label: Name of the source in error messages. Empty by default.

    Raises:
        ShapeError: If an array does not have shape (channels,).
        DTypeError: If an array is not float32.
        GraphError: If kind is unknown, or mean or variance is passed for a kind other than "batch".

    Example:
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
            raise GraphError(f"TrainableNormalization: mean and variance are for kind='batch' only, got kind={kind!r}")
        given = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
        arrays = {name: value for name, value in given.items() if value is not None}
        super().__init__(
            kind, number_of_feature_channels, number_of_groups, epsilon, arrays, momentum, optimizer, label
        )

    def _held(self, name: str) -> np.ndarray | None:
        array = self.array(name)
        return None if array is None else array.numpy()

    def gamma(self) -> np.ndarray | None:
        """Return the scale at the last `load`."""
        return self._held("gamma")

    def beta(self) -> np.ndarray | None:
        """Return the shift at the last `load`."""
        return self._held("beta")

    def mean(self) -> np.ndarray | None:
        """Return the moving mean at the last `load`, or None for instance and group normalization."""
        return self._held("mean")

    def variance(self) -> np.ndarray | None:
        """Return the moving variance at the last `load`, or None for instance and group normalization."""
        return self._held("variance")


class StoredWeights(_core.NNStoredWeights):
    """Data source for a convolution whose parameters are memory-mapped from a safetensors file.

    The file is mapped only while a filter needs the parameters. A graph without gradient filters runs filter by filter
    over such sources and maps each one just before its filter runs, so a network needs memory only for its largest
    layers.

    Args:
        path: Path of the safetensors file.
        descriptor: Sizes and options of the convolution.
        weights: Name of the weight tensor in the file, float32 or float16.
        bias_terms: Name of the bias tensor in the file, float32. None (the default) means no biases.
        layout: Axis order of the weights in the file: "OHWI" (the default, as in Apple's API), "OIHW" (as in PyTorch),
            or "HWIO" (as in TensorFlow).
        label: Name of the source in error messages. Defaults to the name of the weight tensor.
        kernel_weights_data_type: dtype in which filters use the weights, "float32" (the default) or "float16".

    Raises:
        GraphError: If layout is unknown.
        PackageError: At `load`, if the file is damaged or lacks a tensor.
        ShapeError: If a tensor does not have the shape that the descriptor specifies.
        DTypeError: If a tensor is not float32 (or float16, for weights), or kernel_weights_data_type is neither of
            these two dtypes.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
        >>> mg.checkpoint.save(path, {"conv1.weight": np.ones((4, 3, 3, 1), np.float32)})
        >>> descriptor = mg.nngraph.ConvolutionDescriptor(3, 3, 1, 4)
        >>> source = mg.nngraph.StoredWeights(path, descriptor, weights="conv1.weight")
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
        """Return the descriptor that was passed to the constructor."""
        return self._descriptor

    def weights(self) -> np.ndarray:
        """Return the mapped weights, (out, height, width, in).

        Returns:
            An array that shares the memory of the mapped file.

        Raises:
            DeviceError: If called before `load` or after `purge`.
        """
        weights: np.ndarray = self.array("weights").numpy()
        return weights

    def bias_terms(self) -> np.ndarray | None:
        """Return the mapped biases, of shape (out,), or None if there are no biases.

        Returns:
            An array that shares the memory of the mapped file, or None.

        Raises:
            DeviceError: If called before `load` or after `purge`.
        """
        biases = self.array("biases")
        return None if biases is None else biases.numpy()

    def data_type(self) -> Any:
        """Return the dtype of the weights in the file."""
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
