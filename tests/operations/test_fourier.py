"""Compare Fourier transforms with numpy: lengths of every kind, round trips, and errors."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.running import REFERENCE

RNG = np.random.default_rng(7)


def complex_numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def run(x: np.ndarray, function, options=None) -> np.ndarray:
    g = mg.Graph()
    tensor = g.placeholder(x.shape, x.dtype)
    executable = g.compile({tensor: x.shape}, [function(g, tensor)], options=options or mg.CompilationDescriptor())
    return executable.run([x])[0].numpy()


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-12) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))


# Products of small primes, primes, twice primes, powers of two, and lengths that need Bluestein's convolution.
LENGTHS = [*range(1, 70), 97, 105, 121, 127, 128, 209, 243, 250, 251, 256, 257, 289, 343, 360, 385, 500, 502, 508,
           509, 512, 625, 640, 720, 961, 1000, 1009, 1018, 1024, 2048, 2187, 2310, 4096, 4099, 8192,
           10007, 16384]  # fmt: skip


@pytest.mark.parametrize("n", LENGTHS)
def test_fourier_transforms_of_every_length_match_numpy(n: int):
    z, x = complex_numbers(3, n), RNG.standard_normal((3, n))
    half = np.fft.rfft(x)
    odd = {"round_to_odd_hermitean": n % 2 == 1}
    assert_close(run(z, lambda g, t: g.fast_fourier_transform(t, 1)), np.fft.fft(z))
    assert_close(run(z, lambda g, t: g.fast_fourier_transform(t, 1, inverse=True, scaling="size")), np.fft.ifft(z))
    assert_close(run(x, lambda g, t: g.real_to_hermitean_fft(t, 1)), half)
    assert_close(run(half, lambda g, t: g.hermitean_to_real_fft(t, 1, inverse=True, scaling="size", **odd)), x)
    # The same transforms along an axis that is not the last, and with fewer signals than vector lanes.
    turned = np.ascontiguousarray(z.T)
    assert_close(run(turned, lambda g, t: g.fast_fourier_transform(t, 0)), np.fft.fft(turned, axis=0))
    turned = np.ascontiguousarray(x.T)
    assert_close(run(turned, lambda g, t: g.real_to_hermitean_fft(t, 0)), np.fft.rfft(turned, axis=0))


@pytest.mark.parametrize("shape", [(67, 24), (64, 128), (33, 250), (3, 70, 40), (2, 100, 33), (5, 6, 7, 8), (4, 3000),
                                   (3, 2401), (2, 2048)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fourier_transforms_of_many_signals_match_numpy(shape: tuple[int, ...], dtype: str):
    z = complex_numbers(*shape).astype(dtype)
    x = np.ascontiguousarray(z.real)
    tolerance = 2e-6 if dtype == "complex64" else 1e-13
    for axis in range(len(shape)):
        assert_close(run(z, lambda g, t, a=axis: g.fast_fourier_transform(t, a)), np.fft.fft(z, axis=axis), tolerance)
        wanted = np.fft.rfft(x, axis=axis)
        assert_close(run(x, lambda g, t, a=axis: g.real_to_hermitean_fft(t, a)), wanted, tolerance)
    axes = (-2, -1)
    assert_close(run(z, lambda g, t: g.fast_fourier_transform(t, axes)), np.fft.fft2(z), tolerance)
    wanted = np.fft.rfft2(x)
    assert_close(run(x, lambda g, t: g.real_to_hermitean_fft(t, axes)), wanted, tolerance)
    odd = {"round_to_odd_hermitean": shape[-1] % 2 == 1}
    back = run(wanted.astype(dtype), lambda g, t: g.hermitean_to_real_fft(t, axes, inverse=True, scaling="size", **odd))
    assert_close(back, x, tolerance * 4)


def test_single_precision_fourier_error_is_small():
    """Test a million points; the error grows with the logarithm of the length."""
    z = complex_numbers(1 << 20).astype(np.complex64)
    found, wanted = run(z, lambda g, t: g.fast_fourier_transform(t, 0)), np.fft.fft(z.astype(np.complex128))
    error = np.sqrt(np.mean(np.abs(found - wanted) ** 2) / np.mean(np.abs(wanted) ** 2))
    assert error < 1e-6


def test_fourier_transform_over_four_axes_round_trips():
    z = complex_numbers(3, 4, 5, 6)
    axes = (0, 1, 2, 3)

    def both(g, t):
        there = g.fast_fourier_transform(t, axes, scaling="unitary")
        return g.fast_fourier_transform(there, axes, inverse=True, scaling="unitary")

    assert_close(run(z, both), z)
    assert_close(run(z, both, REFERENCE), z)


def test_fourier_results_are_bitwise_reproducible():
    z = complex_numbers(300, 60).astype(np.complex64)
    g = mg.Graph()
    t = g.placeholder(z.shape, z.dtype)
    y = g.fast_fourier_transform(t, (0, 1))
    first = g.run({t: z}, y).numpy().tobytes()
    assert all(g.run({t: z}, y).numpy().tobytes() == first for _ in range(5))


def test_training_learns_a_filter_in_frequency_domain():
    """Gradient descent on the spectrum of a filter, through real_to_hermitean and back, must find the original
    filter.
    """
    n, wanted = 32, np.zeros(32, np.float32)
    wanted[:3] = [0.5, 0.25, -0.25]
    x = RNG.standard_normal((8, n)).astype(np.float32)
    y = np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(wanted), n).astype(np.float32)
    g = mg.Graph()
    signal, target = g.placeholder(x.shape), g.placeholder(y.shape)
    spectrum = g.variable(np.zeros(n // 2 + 1, np.complex64))
    filtered = g.multiplication(g.real_to_hermitean_fft(signal, 1), spectrum)
    found = g.hermitean_to_real_fft(filtered, 1, inverse=True, scaling="size")
    loss = g.reduction_sum(g.square(found - target))
    step = g.apply_stochastic_gradient_descent(0.5 / n, spectrum, g.gradients(loss, [spectrum])[spectrum])
    for _ in range(200):
        g.run({signal: x, target: y}, [], [step])
    np.testing.assert_allclose(np.fft.irfft(g.variable_value(spectrum), n), wanted, atol=1e-3)


def test_invalid_fourier_arguments_raise():
    g = mg.Graph()
    z, x = g.placeholder((2, 3, 4, 5, 6), mg.complex64), g.placeholder((2, 0))
    for axes in ((), (0, 1, 2, 3, 4), (0, 0), (1, -4), 5, -6):
        with pytest.raises(mg.ShapeError, match="fast_fourier_transform"):
            g.fast_fourier_transform(z, axes)
    with pytest.raises(mg.GraphError, match="unitary"):
        g.fast_fourier_transform(z, 0, scaling="half")
    with pytest.raises(mg.DTypeError, match="use fast_fourier_transform"):
        g.real_to_hermitean_fft(z, 0)
    with pytest.raises(mg.DTypeError, match="complex_tensor"):
        g.hermitean_to_real_fft(x, 0)
    with pytest.raises(mg.DTypeError, match="cast it to float32"):
        g.fast_fourier_transform(g.placeholder((2,), mg.float16), 0)
    with pytest.raises(mg.ShapeError, match="must not be empty"):
        g.real_to_hermitean_fft(x, 1)
    with pytest.raises(mg.ShapeError, match="round_to_odd_hermitean"):
        g.hermitean_to_real_fft(g.placeholder((3, 1), mg.complex64), 1)
    assert g.hermitean_to_real_fft(g.placeholder((3, 1), mg.complex64), 1, round_to_odd_hermitean=True).shape == (3, 1)
    assert g.real_to_hermitean_fft(g.placeholder((-1, -1)), 1).shape == (-1, -1)
