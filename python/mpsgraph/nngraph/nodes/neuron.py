"""Family neuron: element-wise functions. MPSCNNNeuron…Node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import ImageNode
from ._node import Node


class _Neuron(Node):
    """a, b and c: None for the neuron's default."""

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
    """x where x >= 0, else a * x; a 0. Source: MPSCNNNeuronReLUNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronReLUNode(nn.ImageNode("x"), 0.1)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.1  0.   2. ]
    """

    kind_name = "neuron_relu"


class NeuronLinearNode(_Neuron):
    """a * x + b; 1 and 0. Source: MPSCNNNeuronLinearNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronLinearNode(nn.ImageNode("x"), 2.0, 1.0)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-1.  1.  5.]
    """

    kind_name = "neuron_linear"


class NeuronSigmoidNode(_Neuron):
    """1 / (1 + e^-x). Source: MPSCNNNeuronSigmoidNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronSigmoidNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.269 0.5   0.881]
    """

    kind_name = "neuron_sigmoid"


class NeuronHardSigmoidNode(_Neuron):
    """a * x + b between 0 and 1; 0.2 and 0.5. Source: MPSCNNNeuronHardSigmoidNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronHardSigmoidNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.3 0.5 0.9]
    """

    kind_name = "neuron_hard_sigmoid"


class NeuronTanHNode(_Neuron):
    """a * tanh(b * x); 1 and 1. Source: MPSCNNNeuronTanHNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronTanHNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.762  0.     0.964]
    """

    kind_name = "neuron_tanh"


class NeuronAbsoluteNode(_Neuron):
    """The absolute value. Source: MPSCNNNeuronAbsoluteNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronAbsoluteNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 0. 2.]
    """

    kind_name = "neuron_absolute"


class NeuronSoftPlusNode(_Neuron):
    """a * log(1 + e^(b * x)); 1 and 1. Source: MPSCNNNeuronSoftPlusNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronSoftPlusNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.313 0.693 2.127]
    """

    kind_name = "neuron_softplus"


class NeuronSoftSignNode(_Neuron):
    """x / (1 + |x|). Source: MPSCNNNeuronSoftSignNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronSoftSignNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.5    0.     0.667]
    """

    kind_name = "neuron_softsign"


class NeuronELUNode(_Neuron):
    """x where x >= 0, else a * (e^x - 1); 1. Source: MPSCNNNeuronELUNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronELUNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.632  0.     2.   ]
    """

    kind_name = "neuron_elu"


class NeuronPReLUNode(Node):
    """x where x >= 0, else the channel's slope times x; slopes: a number for each channel. Source:
    MPSCNNNeuronPReLUNode.

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
    """x where x >= 0, else a * x, and at most b; 1 and 6. Source: MPSCNNNeuronReLUNNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronReLUNNode(nn.ImageNode("x"), 0.0, 1.5)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.  0.  1.5]
    """

    kind_name = "neuron_relun"


class NeuronPowerNode(_Neuron):
    """(a * x + b)^c; 1, 0, 1. Source: MPSCNNNeuronPowerNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronPowerNode(nn.ImageNode("x"), 1.0, 0.0, 2.0)
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 0. 4.]
    """

    kind_name = "neuron_power"


class NeuronExponentialNode(_Neuron):
    """c^(a * x + b); 1, 0 and -1, which stands for e. Source: MPSCNNNeuronExponentialNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronExponentialNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.368 1.    7.389]
    """

    kind_name = "neuron_exponential"


class NeuronLogarithmNode(_Neuron):
    """The logarithm to base c of a * x + b; 1, 0 and -1, which stands for e. Source: MPSCNNNeuronLogarithmNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronLogarithmNode(nn.ImageNode("x"))
    >>> x = np.float32([1, 2, 4]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [0.    0.693 1.386]
    """

    kind_name = "neuron_logarithm"


class NeuronGeLUNode(_Neuron):
    """x * (1 + erf(x / sqrt(2))) / 2. Source: MPSCNNNeuronGeLUNode.

    >>> nn = mg.nngraph
    >>> node = nn.NeuronGeLUNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-0.159  0.     1.954]
    """

    kind_name = "neuron_gelu"
