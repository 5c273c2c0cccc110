"""Ranges of tensors, seen while a model runs on calibration data, and the scales and zero points that follow from them.

Model.quantize uses them; which tensors become integers, and where, is C++ (src/compiler/quantization.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._core import DType, NDArray, Tensor, int8, uint8
from ._display import shown
from .errors import GraphError


class Ranges:
    """The smallest and largest values of some tensors.

    Args: tensors; scheme, range and percentile as Model.quantize's. Errors: GraphError.
    """

    def __init__(self, tensors: Sequence[Tensor], scheme: str, range: str, percentile: float) -> None:
        if scheme not in ("symmetric", "asymmetric"):
            raise GraphError(f"[quantize] scheme is 'symmetric' or 'asymmetric', got {shown(scheme)}")
        if range not in ("minmax", "percentile"):
            raise GraphError(f"[quantize] range is 'minmax' or 'percentile', got {shown(range)}")
        if not 50 < percentile <= 100:
            raise GraphError(f"[quantize] percentile is above 50 and at most 100, got {percentile}")
        if not tensors:
            raise GraphError(
                "[quantize] there is nothing to quantize: no convolution or matrix product in float32 by constant "
                "weights, with channels last and their number a multiple of four; of a model that was trained in "
                "bfloat16 or float16, load the weights into a trainer with precision='float32' and quantize that"
            )
        self.scheme = scheme
        self.percentile = percentile if range == "percentile" else 100.0
        self._ends: dict[Tensor, tuple[float, float]] = dict.fromkeys(tensors, (0.0, 0.0))  # zero is always exact
        self._batches = 0

    def observe(self, values: Mapping[Tensor, NDArray]) -> None:
        """Takes one batch's values in. Errors: GraphError for what is not finite."""
        self._batches += 1
        for tensor, (low, high) in self._ends.items():
            array = values[tensor].numpy()
            if not array.size:
                raise GraphError("[quantize] a batch of the calibration data is empty")
            if self.percentile == 100:
                first, last = array.min(initial=0), array.max(initial=0)
            else:
                first, last = np.percentile(array, [100 - self.percentile, self.percentile])
            if not (np.isfinite(first) and np.isfinite(last)):
                raise GraphError(f"[quantize] '{tensor.name}' has values that are not finite on this calibration data")
            self._ends[tensor] = min(low, float(first)), max(high, float(last))

    def quantization(self) -> list[tuple[Tensor, float, int, DType]]:
        """(tensor, scale, zero_point, dtype) of each. Errors: GraphError before any batch was observed."""
        if not self._batches:
            raise GraphError("[quantize] there is no calibration data: give some batches that are like what will come")
        return [(tensor, *self._steps(low, high)) for tensor, (low, high) in self._ends.items()]

    def _steps(self, low: float, high: float) -> tuple[float, int, DType]:
        if self.scheme == "asymmetric":
            scale = (high - low) / 255 or 1.0
            return scale, round(-low / scale), uint8
        if low >= 0:
            return high / 255 or 1.0, 0, uint8
        return max(-low, high) / 127, 0, int8
