"""Discrete Fourier transforms over one to four axes: of complex tensors, and between real and Hermitean ones.

A real tensor's transform is Hermitean: along the last of the transformed axes (the highest-numbered one, wherever it
stands in `axes`) the points beyond the middle are conjugates of those before it, and only n // 2 + 1 of n are kept.
Direction and scale are independent: a transform and its inverse with scaling="size" give back what went in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ._family import AttributeLike, Family, Tensor

Scaling: TypeAlias = Literal["none", "size", "unitary"]


class FourierTransform(Family):
    """fast_fourier_transform, real_to_hermitean_fft, hermitean_to_real_fft."""

    def fast_fourier_transform(
        self,
        x: Tensor,
        axes: int | Sequence[int] | Tensor,
        *,
        inverse: bool = False,
        scaling: Scaling = "none",
        name: str | None = None,
    ) -> Tensor:
        """Discrete Fourier transform along axes.

        result[k] = scale * sum over j of exp(-2 pi i j k / n) * x[j] along each axis of n points; + with inverse.

        Args:
            x: complex64, or float32 for a tensor without imaginary part; complex128 and float64 on the CPU.
            axes: an int, one to four ints, or a tensor of ints.
            inverse: the other sign in the exponent; it does not change the scale.
            scaling: "none": 1; "size": 1 / the number of points in all the axes; "unitary": 1 / its root.
        Result: x's shape, complex. Errors: ShapeError for axes that lie outside, stand twice or are more than four,
        DTypeError, GraphError for another scaling.
        Gradient: incoming, transformed in the other direction with the same scale; the real part of that for a real x.
        Source: MPSGraph fastFourierTransformWithTensor:axes:descriptor:name: (or axesTensor:).

        >>> g = mg.Graph()
        >>> x = g.constant([1 + 0j, 0, 0, 0])
        >>> g.run({}, g.fast_fourier_transform(x, 0)).tolist()
        [(1+0j), (1+0j), (1+0j), (1+0j)]
        """
        return self._fourier("fast_fourier_transform", x, axes, name, inverse=inverse, scaling=scaling)

    def real_to_hermitean_fft(
        self,
        x: Tensor,
        axes: int | Sequence[int] | Tensor,
        *,
        inverse: bool = False,
        scaling: Scaling = "none",
        name: str | None = None,
    ) -> Tensor:
        """Discrete Fourier transform of a real tensor, without what is known by symmetry.

        As fast_fourier_transform, of which along the last of the axes the first n // 2 + 1 points are kept.
        Args: x, float32 (on the CPU also float64), at least one point in the last of the axes; all others as in
        fast_fourier_transform. Result: x's shape with n // 2 + 1 points in the last of the axes, complex64 for float32.
        Errors: ShapeError, DTypeError, GraphError.
        Gradient: hermitean_to_real_fft of incoming in the other direction, with half weight for the points that stand
        for two.
        Source: MPSGraph realToHermiteanFFTWithTensor:axes:descriptor:name: (or axesTensor:).

        >>> g = mg.Graph()
        >>> g.run({}, g.real_to_hermitean_fft(g.constant([1.0, 2.0, 3.0, 4.0]), 0)).tolist()
        [(10+0j), (-2+2j), (-2+0j)]
        """
        return self._fourier("real_to_hermitean_fft", x, axes, name, inverse=inverse, scaling=scaling)

    def hermitean_to_real_fft(
        self,
        x: Tensor,
        axes: int | Sequence[int] | Tensor,
        *,
        inverse: bool = False,
        scaling: Scaling = "none",
        round_to_odd_hermitean: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Discrete Fourier transform of a Hermitean tensor given by half of its points; the result is real.

        As fast_fourier_transform of the whole Hermitean tensor. Imaginary parts of points that are real in a Hermitean
        tensor do not count.
        Args: x, complex64 (on the CPU also complex128), m points in the last of the axes; round_to_odd_hermitean, 2m -
        1 points in the result instead of 2m - 2; others as in fast_fourier_transform, with the result's sizes.
        Result: x's shape with 2m - 2 or 2m - 1 points in the last of the axes, float32 for complex64.
        Errors: ShapeError, DTypeError, GraphError.
        Gradient: real_to_hermitean_fft of incoming in the other direction, doubled at the points that stand for two.
        Source: MPSGraph HermiteanToRealFFTWithTensor:axes:descriptor:name: (or axesTensor:).

        >>> g = mg.Graph()
        >>> x = g.constant([10 + 0j, -2 + 2j, -2 + 0j])
        >>> g.run({}, g.hermitean_to_real_fft(x, 0, inverse=True, scaling="size")).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        flags = {"inverse": inverse, "scaling": scaling, "round_to_odd_hermitean": round_to_odd_hermitean}
        return self._fourier("hermitean_to_real_fft", x, axes, name, **flags)

    def _fourier(
        self, kind: str, x: Tensor, axes: int | Sequence[int] | Tensor, name: str | None, **flags: bool | str
    ) -> Tensor:
        listed: AttributeLike = [axes] if isinstance(axes, int) else axes
        operands, attributes = self._tensor_attributes(kind, axes=listed)
        return self._tensor(kind, [x, *operands], name, **attributes, **flags)
