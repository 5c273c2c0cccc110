"""Ranges of tensors, recorded while a model runs on calibration data, and scales and zero points computed from them.

Model.quantize uses these ranges. src/compiler/quantization.cpp decides which tensors become integers, and where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._core import DType, NDArray, Tensor, int8, uint8
from ._display import shown
from .errors import GraphError


class Ranges:
    """Recorder of the smallest and largest values of tensors, from which scales and zero points are computed.

    Args:
        tensors: Tensors to record.
        scheme: The scheme of Model.quantize.
        range: The range of Model.quantize.
        percentile: The percentile of Model.quantize.

    Raises:
        GraphError: If an argument has an unknown value, or there are no tensors.
    """

    def __init__(self, tensors: Sequence[Tensor], scheme: str, range: str, percentile: float) -> None:
        if scheme not in ("symmetric", "asymmetric"):
            raise GraphError(f"[quantize] scheme must be 'symmetric' or 'asymmetric', got {shown(scheme)}")
        if range not in ("minmax", "percentile"):
            raise GraphError(f"[quantize] range must be 'minmax' or 'percentile', got {shown(range)}")
        if not 50 < percentile <= 100:
            raise GraphError(f"[quantize] percentile must be above 50 and at most 100, got {percentile}")
        if not tensors:
            raise GraphError(
                "[quantize] the model has nothing to quantize: it needs a float32 convolution or matrix product with "
                "constant weights, channels last, and a number of channels divisible by four; to quantize a model "
                "trained in bfloat16 or float16, load its weights into a trainer with precision='float32' first"
            )
        self.scheme = scheme
        self.percentile = percentile if range == "percentile" else 100.0
        # Every range includes 0, so that 0 is exactly representable.
        self._ends: dict[Tensor, tuple[float, float]] = dict.fromkeys(tensors, (0.0, 0.0))
        self._batches = 0

    def observe(self, values: Mapping[Tensor, NDArray]) -> None:
        """Record the values of one batch. Raise GraphError if the batch is empty or a value is not finite."""
        self._batches += 1
        for tensor, (low, high) in self._ends.items():
            array = values[tensor].numpy()
            if not array.size:
                raise GraphError(
                    "[quantize] batches of calibration data must not be empty, got a batch in which "
                    f"'{tensor.name}' is empty"
                )
            if self.percentile == 100:
                first, last = array.min(initial=0), array.max(initial=0)
            else:
                first, last = np.percentile(array, [100 - self.percentile, self.percentile])
            if not (np.isfinite(first) and np.isfinite(last)):
                raise GraphError(
                    f"[quantize] calibration data must lead to finite values, got NaN or infinity in '{tensor.name}'"
                )
            self._ends[tensor] = min(low, float(first)), max(high, float(last))

    def quantization(self) -> list[tuple[Tensor, float, int, DType]]:
        """Return (tensor, scale, zero_point, dtype) for each tensor. Raise GraphError if no batch has been recorded."""
        if not self._batches:
            raise GraphError(
                "[quantize] calibration must contain at least one batch, got none: pass batches of typical inputs"
            )
        return [(tensor, *self._steps(low, high)) for tensor, (low, high) in self._ends.items()]

    def _steps(self, low: float, high: float) -> tuple[float, int, DType]:
        if self.scheme == "asymmetric":
            scale = (high - low) / 255 or 1.0
            return scale, round(-low / scale), uint8
        if low >= 0:
            return high / 255 or 1.0, 0, uint8
        return max(-low, high) / 127, 0, int8
