"""Element-wise activation functions: MPSCNNNeuron…Node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import ImageNode
from ._node import Node


class _Neuron(Node):
    """Base of the neuron nodes with parameters a, b, and c; None means the function's default."""

    def __init__(
        self,
        source: ImageNode,
        a: float | None = None,
        b: float | None = None,
        c: float | None = None,
        *,
        label: str = "",
    ) -> None:
        given = {"a": a, "b": b, "c": c}
        super().__init__([source], {k: float(v) for k, v in given.items() if v is not None}, label=label)


class NeuronReLUNode(_Neuron):
    """Rectified linear unit: x where x >= 0, otherwise a * x.

    Args:
        source: Image node that the filter reads.
        a: Slope for negative values. None (the default) means 0.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Gradient: 1 at 0, as in Apple's API.

    Source: MPSCNNNeuronReLUNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronReLUNode(nn.ImageNode("x"), 0.1)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.1  0.   2. ]
    """

    kind_name = "neuron_relu"


class NeuronLinearNode(_Neuron):
    """Linear function: a * x + b.

    Args:
        source: Image node that the filter reads.
        a: Factor. None (the default) means 1.
        b: Offset. None (the default) means 0.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronLinearNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronLinearNode(nn.ImageNode("x"), 2.0, 1.0)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-1.  1.  5.]
    """

    kind_name = "neuron_linear"


class NeuronSigmoidNode(_Neuron):
    """Sigmoid function: 1 / (1 + e^-x).

    Args:
        source: Image node that the filter reads.
        a: Not used by this function.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronSigmoidNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronSigmoidNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.269 0.5   0.881]
    """

    kind_name = "neuron_sigmoid"


class NeuronHardSigmoidNode(_Neuron):
    """Hard sigmoid function: a * x + b, clamped to the range from 0 to 1.

    Args:
        source: Image node that the filter reads.
        a: Factor. None (the default) means 0.2.
        b: Offset. None (the default) means 0.5.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronHardSigmoidNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronHardSigmoidNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.3 0.5 0.9]
    """

    kind_name = "neuron_hard_sigmoid"


class NeuronTanHNode(_Neuron):
    """Scaled hyperbolic tangent: a * tanh(b * x).

    Args:
        source: Image node that the filter reads.
        a: Factor of the result. None (the default) means 1.
        b: Factor of the argument. None (the default) means 1.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronTanHNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronTanHNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.762  0.     0.964]
    """

    kind_name = "neuron_tanh"


class NeuronAbsoluteNode(_Neuron):
    """Absolute value.

    Args:
        source: Image node that the filter reads.
        a: Not used by this function.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronAbsoluteNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronAbsoluteNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 0. 2.]
    """

    kind_name = "neuron_absolute"


class NeuronSoftPlusNode(_Neuron):
    """Softplus function: a * log(1 + e^(b * x)).

    Args:
        source: Image node that the filter reads.
        a: Factor of the result. None (the default) means 1.
        b: Factor of the argument. None (the default) means 1.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronSoftPlusNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronSoftPlusNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.313 0.693 2.127]
    """

    kind_name = "neuron_softplus"


class NeuronSoftSignNode(_Neuron):
    """Softsign function: x / (1 + |x|).

    Args:
        source: Image node that the filter reads.
        a: Not used by this function.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronSoftSignNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronSoftSignNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.5    0.     0.667]
    """

    kind_name = "neuron_softsign"


class NeuronELUNode(_Neuron):
    """Exponential linear unit: x where x >= 0, otherwise a * (e^x - 1).

    Args:
        source: Image node that the filter reads.
        a: Factor for negative values. None (the default) means 1.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronELUNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronELUNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.632  0.     2.   ]
    """

    kind_name = "neuron_elu"


class NeuronPReLUNode(Node):
    """Parametric rectified linear unit: x where x >= 0, otherwise the channel's slope times x.

    Args:
        source: Image node that the filter reads.
        slopes: One number for each channel.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.
        ShapeError: From encode_batch, if the number of slopes differs from the number of channels.

    Source: MPSCNNNeuronPReLUNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronPReLUNode(nn.ImageNode("x"), [0.1, 0.2, 0.3])
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.1  0.   2. ]
    """

    kind_name = "neuron_prelu"

    def __init__(self, source: ImageNode, slopes: Any, *, label: str = "") -> None:
        super().__init__([source], {"slopes": np.asarray(slopes, np.float32).ravel()}, label=label)


class NeuronReLUNNode(_Neuron):
    """Rectified linear unit with an upper limit: min(x, b) where x >= 0, otherwise a * x.

    Args:
        source: Image node that the filter reads.
        a: Slope for negative values. None (the default) means 1.
        b: Upper limit. None (the default) means 6.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronReLUNNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronReLUNNode(nn.ImageNode("x"), 0.0, 1.5)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.  0.  1.5]
    """

    kind_name = "neuron_relun"


class NeuronPowerNode(_Neuron):
    """Power function: (a * x + b)^c.

    Args:
        source: Image node that the filter reads.
        a: Factor. None (the default) means 1.
        b: Offset. None (the default) means 0.
        c: Exponent. None (the default) means 1.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronPowerNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronPowerNode(nn.ImageNode("x"), 1.0, 0.0, 2.0)
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 0. 4.]
    """

    kind_name = "neuron_power"


class NeuronExponentialNode(_Neuron):
    """Exponential function: c^(a * x + b).

    Args:
        source: Image node that the filter reads.
        a: Factor. None (the default) means 1.
        b: Offset. None (the default) means 0.
        c: Base; -1 stands for e. None (the default) means -1.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronExponentialNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronExponentialNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.368 1.    7.389]
    """

    kind_name = "neuron_exponential"


class NeuronLogarithmNode(_Neuron):
    """Logarithm of a * x + b to base c.

    Args:
        source: Image node that the filter reads.
        a: Factor. None (the default) means 1.
        b: Offset. None (the default) means 0.
        c: Base; -1 stands for e. None (the default) means -1.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronLogarithmNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronLogarithmNode(nn.ImageNode("x"))
        >>> x = np.float32([1, 2, 4]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [0.    0.693 1.386]
    """

    kind_name = "neuron_logarithm"


class NeuronGeLUNode(_Neuron):
    """Gaussian error linear unit: x * (1 + erf(x / sqrt(2))) / 2.

    Args:
        source: Image node that the filter reads.
        a: Not used by this function.
        b: Not used by this function.
        c: Not used by this function.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode.

    Source: MPSCNNNeuronGeLUNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.NeuronGeLUNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [-0.159  0.     1.954]
    """

    kind_name = "neuron_gelu"
