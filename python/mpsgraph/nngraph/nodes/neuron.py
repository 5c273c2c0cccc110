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
    """x where x >= 0, else a * x; a 0. Source: MPSCNNNeuronReLUNode."""

    kind_name = "neuron_relu"


class NeuronLinearNode(_Neuron):
    """a * x + b; 1 and 0. Source: MPSCNNNeuronLinearNode."""

    kind_name = "neuron_linear"


class NeuronSigmoidNode(_Neuron):
    """1 / (1 + e^-x). Source: MPSCNNNeuronSigmoidNode."""

    kind_name = "neuron_sigmoid"


class NeuronHardSigmoidNode(_Neuron):
    """a * x + b between 0 and 1; 0.2 and 0.5. Source: MPSCNNNeuronHardSigmoidNode."""

    kind_name = "neuron_hard_sigmoid"


class NeuronTanHNode(_Neuron):
    """a * tanh(b * x); 1 and 1. Source: MPSCNNNeuronTanHNode."""

    kind_name = "neuron_tanh"


class NeuronAbsoluteNode(_Neuron):
    """The absolute value. Source: MPSCNNNeuronAbsoluteNode."""

    kind_name = "neuron_absolute"


class NeuronSoftPlusNode(_Neuron):
    """a * log(1 + e^(b * x)); 1 and 1. Source: MPSCNNNeuronSoftPlusNode."""

    kind_name = "neuron_softplus"


class NeuronSoftSignNode(_Neuron):
    """x / (1 + |x|). Source: MPSCNNNeuronSoftSignNode."""

    kind_name = "neuron_softsign"


class NeuronELUNode(_Neuron):
    """x where x >= 0, else a * (e^x - 1); 1. Source: MPSCNNNeuronELUNode."""

    kind_name = "neuron_elu"


class NeuronPReLUNode(Node):
    """x where x >= 0, else the channel's slope times x; slopes: a number for each channel. Source:
    MPSCNNNeuronPReLUNode."""

    kind_name = "neuron_prelu"

    def __init__(self, source: ImageNode, slopes: Any, *, label: str = "") -> None:
        super().__init__([source], {"slopes": np.asarray(slopes, np.float32).ravel()}, label=label)


class NeuronReLUNNode(_Neuron):
    """x where x >= 0, else a * x, and at most b; 1 and 6. Source: MPSCNNNeuronReLUNNode."""

    kind_name = "neuron_relun"


class NeuronPowerNode(_Neuron):
    """(a * x + b)^c; 1, 0, 1. Source: MPSCNNNeuronPowerNode."""

    kind_name = "neuron_power"


class NeuronExponentialNode(_Neuron):
    """c^(a * x + b); 1, 0 and -1, which stands for e. Source: MPSCNNNeuronExponentialNode."""

    kind_name = "neuron_exponential"


class NeuronLogarithmNode(_Neuron):
    """The logarithm to base c of a * x + b; 1, 0 and -1, which stands for e. Source: MPSCNNNeuronLogarithmNode."""

    kind_name = "neuron_logarithm"


class NeuronGeLUNode(_Neuron):
    """x * (1 + erf(x / sqrt(2))) / 2. Source: MPSCNNNeuronGeLUNode."""

    kind_name = "neuron_gelu"
