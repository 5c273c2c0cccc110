"""Discrete Fourier transforms over one to four axes, of complex tensors and between real and Hermitian tensors.

The transform of a real tensor is Hermitian: along the last transformed axis (the one with the highest index, in
whatever order `axes` lists them), the points beyond the middle are conjugates of those before it, so only n // 2 + 1 of
n points are stored. Direction and scale are independent; a transform followed by its inverse with scaling="size"
returns the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ._family import AttributeLike, Family, Tensor

Scaling: TypeAlias = Literal["none", "size", "unitary"]


class FourierTransform(Family):
    """Graph methods for discrete Fourier transforms."""

    def fast_fourier_transform(
        self,
        x: Tensor,
        axes: int | Sequence[int] | Tensor,
        *,
        inverse: bool = False,
        scaling: Scaling = "none",
        name: str | None = None,
    ) -> Tensor:
        """Compute the discrete Fourier transform along one to four axes.

        result[k] = scale * sum over j of exp(-2 pi i j k / n) * x[j] along each axis of n points; the exponent is
        positive with inverse=True.

        Args:
            x: Tensor, complex64 or float32 (an imaginary part of 0); on the CPU also complex128 or float64.
            axes: Axes to transform: an int, one to four ints, or an integer tensor.
            inverse: Whether to compute the inverse transform; this does not change the scale. Defaults to False.
            scaling: "none" (scale 1, the default), "size" (1 / the number of points along all axes), or "unitary" (1 /
                the square root of that number).
            name: Name of the operation.

        Returns:
            A complex tensor with the shape of x.

        Raises:
            ShapeError: If an axis is out of range, repeated, or empty, or there are more than four axes.
            DTypeError: If the dtype of x is not supported.
            GraphError: If scaling has an unknown value.

        Gradient: the incoming gradient transformed in the opposite direction with the same scale; for a real x, the
        real part of that transform.

        Source: MPSGraph fastFourierTransformWithTensor:axes:descriptor:name: (or axesTensor:).

        Example:
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
        """Compute the discrete Fourier transform of a real tensor, without the points that follow from symmetry.

        The result consists of the first n // 2 + 1 points of fast_fourier_transform along the last transformed axis.

        Args:
            x: Tensor, float32 (on the CPU also float64), with at least one point along the last transformed axis.
            axes: Axes to transform: an int, one to four ints, or an integer tensor.
            inverse: Whether to compute the inverse transform; this does not change the scale. Defaults to False.
            scaling: "none" (scale 1, the default), "size" (1 / the number of points along all axes), or "unitary" (1 /
                the square root of that number).
            name: Name of the operation.

        Returns:
            A complex tensor (complex64 for float32) with the shape of x, except for n // 2 + 1 points along the last
            transformed axis.

        Raises:
            ShapeError: If an axis is out of range, repeated, or empty, or there are more than four axes.
            DTypeError: If x is not float32 or float64.
            GraphError: If scaling has an unknown value.

        Gradient: hermitean_to_real_fft of the incoming gradient in the opposite direction, with a weight of one half
        for the points that represent two frequencies.

        Source: MPSGraph realToHermiteanFFTWithTensor:axes:descriptor:name: (or axesTensor:).

        Example:
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
        """Compute the real discrete Fourier transform of a Hermitian tensor that is given by half of its points.

        The result is the fast_fourier_transform of the complete Hermitian tensor. Imaginary parts at points that must
        be real in a Hermitian tensor are ignored.

        Args:
            x: Tensor, complex64 (on the CPU also complex128), with m points along the last transformed axis.
            axes: Axes to transform: an int, one to four ints, or an integer tensor.
            inverse: Whether to compute the inverse transform; this does not change the scale. Defaults to False.
            scaling: "none" (scale 1, the default), "size" (1 / the number of points of the result along all axes), or
                "unitary" (1 / the square root of that number).
            round_to_odd_hermitean: Whether the last transformed axis of the result has 2m - 1 points instead of 2m - 2.
                Defaults to False.
            name: Name of the operation.

        Returns:
            A real tensor (float32 for complex64) with the shape of x, except for 2m - 2 or 2m - 1 points along the last
            transformed axis.

        Raises:
            ShapeError: If an axis is out of range, repeated, or empty, or there are more than four axes.
            DTypeError: If x is not complex.
            GraphError: If scaling has an unknown value.

        Gradient: real_to_hermitean_fft of the incoming gradient in the opposite direction, doubled at the points that
        represent two frequencies.

        Source: MPSGraph HermiteanToRealFFTWithTensor:axes:descriptor:name: (or axesTensor:).

        Example:
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
