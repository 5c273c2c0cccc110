"""Compare the extensions linalg and fft with numpy in float64 and float32, on real and complex arrays."""

from __future__ import annotations

from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest

rng = np.random.default_rng(3)
KINDS = [np.float32, np.float64, np.complex64, np.complex128]


def matrices(kind: Any, *shape: int) -> np.ndarray:
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.issubdtype(kind, np.complexfloating) else 0)
    return np.asarray(x).astype(kind)


def close(found: Any, expected: Any, kind: Any) -> None:
    tolerance = 1e-4 if np.finfo(kind).bits == 32 else 1e-10
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("kind", KINDS)
def test_solvers_and_determinants_match_numpy(kind: Any):
    a, b = matrices(kind, 2, 3, 4, 4), matrices(kind, 2, 3, 4, 2)
    close(mnp.linalg.solve(a, b), np.linalg.solve(a, b), kind)
    close(mnp.linalg.solve(a[0, 0], b[0, 0, :, 0]), np.linalg.solve(a[0, 0], b[0, 0, :, 0]), kind)
    close(mnp.linalg.inv(a), np.linalg.inv(a), kind)
    close(mnp.linalg.det(a), np.linalg.det(a), kind)
    sign, logarithm = mnp.linalg.slogdet(a)
    expected = np.linalg.slogdet(a)
    close(sign, expected.sign, kind)
    close(logarithm, expected.logabsdet, kind)
    close(mnp.linalg.matrix_power(a, -3), np.linalg.matrix_power(a, -3), kind)
    close(mnp.linalg.matrix_power(a, 5) / 100, np.linalg.matrix_power(a, 5) / 100, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_hermitian_eigenvalues_match_numpy(kind: Any, size: int):
    a = matrices(kind, 3, size, size)
    a = (a + adjoint(a)) * 1e3
    values, vectors = mnp.linalg.eigh(np.tril(a))
    close(values.numpy() / 1e3, np.linalg.eigvalsh(a) / 1e3, kind)
    v = vectors.numpy()
    close(a @ v / 1e3, v * values.numpy()[:, None, :] / 1e3, kind)
    close(adjoint(v) @ v, np.broadcast_to(np.eye(size), v.shape), kind)
    close(mnp.linalg.eigvalsh(a).numpy() / 1e3, values.numpy() / 1e3, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (6, 6)])
def test_singular_values_match_numpy(kind: Any, shape: tuple[int, int]):
    a = matrices(kind, 2, *shape)
    for full in (False, True):
        u, s, v = (x.numpy() for x in mnp.linalg.svd(a, full_matrices=full))
        k = min(shape)
        assert u.shape == (2, shape[0], shape[0] if full else k) and v.shape == (2, shape[1] if full else k, shape[1])
        close(s, np.linalg.svd(a, compute_uv=False), kind)
        close((u[..., :k] * s[:, None, :]) @ v[:, :k], a, kind)
        close(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (2, u.shape[-1], u.shape[-1])), kind)
        close(v @ adjoint(v), np.broadcast_to(np.eye(v.shape[-2]), (2, v.shape[-2], v.shape[-2])), kind)
    close(mnp.linalg.pinv(a), np.linalg.pinv(a), kind)
    rank_one = a[..., :1] @ a[..., :1, :]
    np.testing.assert_array_equal(mnp.linalg.matrix_rank(rank_one), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_factorizations_match_numpy(kind: Any):
    a = matrices(kind, 2, 4, 4)
    positive = a @ adjoint(a) + 4 * np.eye(4, dtype=kind)
    close(mnp.linalg.cholesky(positive), np.linalg.cholesky(positive), kind)
    close(mnp.linalg.cholesky(positive, upper=True), adjoint(np.linalg.cholesky(positive)), kind)
    for shape in ((2, 5, 3), (2, 3, 5)):
        b = matrices(kind, *shape)
        for mode in ("reduced", "complete"):
            q, r = (x.numpy() for x in mnp.linalg.qr(b, mode=mode))
            assert q.shape == np.linalg.qr(b, mode=mode).Q.shape
            close(q @ r, b, kind)
            close(np.tril(r, -1), 0 * r, kind)


@pytest.mark.parametrize("kind", [np.float32, np.complex128])
def test_general_eigenvalues_match_numpy(kind: Any):
    a = matrices(kind, 2, 5, 5)
    values, vectors = (x.numpy() for x in mnp.linalg.eig(a))
    for found, expected in zip(values, np.linalg.eigvals(a), strict=True):
        close(np.abs(found[:, None] - expected).min(0), np.zeros(5), kind)
    close(a @ vectors, vectors * values[:, None, :], kind)
    assert mnp.linalg.eigvals(a).dtype.is_complex


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms_match_numpy(order: Any):
    a = matrices(np.float64, 2, 4, 3)
    expected = np.linalg.norm(a, ord=order, axis=(-2, -1), keepdims=True)
    close(mnp.linalg.matrix_norm(a, ord=order, keepdims=True), expected, np.float64)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, np.inf, -np.inf])
def test_vector_norms_match_numpy(order: float):
    a = matrices(np.float64, 3, 4)
    close(mnp.linalg.vector_norm(a, ord=order, axis=1), np.linalg.norm(a, ord=order, axis=1), np.float64)


def test_other_products_match_numpy():
    a, b = matrices(np.float32, 4, 3), matrices(np.float32, 4, 3)
    close(mnp.linalg.cross(a, b), np.cross(a, b), np.float32)
    close(mnp.linalg.outer(a[0], b[1]), np.outer(a[0], b[1]), np.float32)
    close(mnp.linalg.diagonal(a, offset=-1), np.diagonal(a, -1), np.float32)
    close(mnp.linalg.trace(a, offset=1), np.trace(a, 1), np.float32)
    assert mnp.linalg.matmul(np.arange(6).reshape(2, 3), np.arange(3)).tolist() == [5, 14]


A, B = matrices(np.float64, 4, 4), matrices(np.float64, 4, 4)
LOSSES = {
    "cholesky": lambda a: (mnp.linalg.cholesky(a @ a.T + 4 * mnp.eye(4)) * B).sum(),
    "det": lambda a: mnp.linalg.det(a),
    "eigvals": lambda a: mnp.real(mnp.linalg.eigvals(a) ** 2).prod(),
    "eigh": lambda a: (mnp.linalg.eigh(a + a.T).eigenvectors ** 2 * B).sum() + (mnp.linalg.eigvalsh(a) * B[0]).sum(),
    "inv": lambda a: (mnp.linalg.inv(a) * B).sum(),
    "nuclear norm": lambda a: mnp.linalg.matrix_norm(a[:, :3], ord="nuc"),
    "pinv": lambda a: (mnp.linalg.pinv(a[:3]) * B[:, :3]).sum(),
    "qr": lambda a: (mnp.linalg.qr(a[:, :3]).Q ** 2 * B[:, :3]).sum(),
    "slogdet": lambda a: mnp.linalg.slogdet(a).logabsdet,
    "solve": lambda a: (mnp.linalg.solve(a, B) * B).sum(),
    "svd": lambda a: (mnp.linalg.svd(a[:3]).U ** 2 * B[:3, :3]).sum() + (mnp.linalg.svdvals(a) * B[0]).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_linear_algebra_match_central_differences(name: str):
    loss, direction, step = LOSSES[name], matrices(np.float64, 4, 4), 1e-6
    slope = (mg.grad(loss)(A).numpy() * direction).sum()
    sides = [loss(mnp.asarray(A + s * direction)).item() for s in (step, -step)]
    assert slope == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_gradients_of_complex_decompositions_match_central_differences():
    a, direction, step = matrices(np.complex128, 4, 4), matrices(np.complex128, 4, 4), 1e-6
    for loss in (
        lambda a: (mnp.abs(mnp.linalg.svd(a).U[:, :1] @ mnp.linalg.svd(a).Vh[:1]) * B).sum(),
        lambda a: (mnp.abs(mnp.linalg.eigh(a + mnp.conj(a.T)).eigenvectors) ** 2 * B).sum(),
        lambda a: mnp.real(mnp.linalg.eigvals(a) ** 3).sum(),
    ):
        slope = (np.conj(mg.grad(loss)(a).numpy()) * direction).sum().real
        sides = [loss(mnp.asarray(a + s * direction)).item() for s in (step, -step)]
        assert slope == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5)


def test_gradient_of_equal_singular_values_is_finite():
    assert mg.grad(lambda a: mnp.linalg.svdvals(a).sum())(np.eye(3)).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_along_one_axis_match_numpy(name: str, norm: str):
    kind = np.float64 if name in ("rfft", "ihfft") else np.complex128
    x = matrices(kind, 3, 8)
    for count in (None, 5, 12):
        expected = getattr(np.fft, name)(x, n=count, axis=0 if count == 5 else -1, norm=norm)
        close(getattr(mnp.fft, name)(x, n=count, axis=0 if count == 5 else -1, norm=norm), expected, np.float64)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_along_several_axes_match_numpy(name: str):
    x = matrices(np.float64 if name == "rfftn" else np.complex128, 3, 4, 2, 3, 4)
    close(getattr(mnp.fft, name)(x), getattr(np.fft, name)(x), np.float64)
    expected = getattr(np.fft, name)(x, s=(3, 6), axes=(1, 0))
    close(getattr(mnp.fft, name)(x, s=(3, 6), axes=(1, 0)), expected, np.float64)


def test_frequencies_and_shifts_match_numpy():
    for n in (4, 5):
        close(mnp.fft.fftfreq(n, d=0.5), np.fft.fftfreq(n, 0.5), np.float32)
        close(mnp.fft.rfftfreq(n), np.fft.rfftfreq(n), np.float32)
        x = np.arange(n * n).reshape(n, n)
        np.testing.assert_array_equal(mnp.fft.fftshift(x), np.fft.fftshift(x))
        np.testing.assert_array_equal(mnp.fft.ifftshift(x, axes=1), np.fft.ifftshift(x, axes=1))


def test_unsuitable_shapes_raise():
    with pytest.raises(mg.ShapeError, match="square"):
        mnp.linalg.inv(np.ones((2, 3), np.float32))
    with pytest.raises(mg.ShapeError, match="inner sizes"):
        mnp.matmul(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    with pytest.raises(mg.DTypeError, match="real array"):
        mnp.fft.rfft(np.ones(3, np.complex64))
    with pytest.raises(mg.GraphError, match="norm must be"):
        mnp.fft.fft(np.ones(3, np.complex64), norm="none")


@pytest.mark.parametrize("order", [5e-80, -5e-80, 1e60, 0.5, -1.5])
def test_vector_norms_of_extreme_orders_match_numpy(order: float):
    for x in (np.float32([3, 4]), np.float32([0.5]), np.float32([0, 0])):
        with np.errstate(all="ignore"):
            expected = np.linalg.norm(x, ord=order)
        np.testing.assert_allclose(mnp.linalg.vector_norm(x, ord=order), expected, rtol=1e-6)
