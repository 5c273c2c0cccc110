"""Cases of the fourier_transform family: lengths of every kind, axes of every stride, both directions, all scalings.

The numpy versions are matrix products with the DFT matrix; test_fourier.py checks them against numpy.fft.
"""

import functools

import numpy as np
from harness.case import COMPLEX, Case, values

REAL = ("float32", "float64")


@functools.cache
def matrix(n, inverse):
    """Return the DFT matrix exp(∓ 2 π i j k / n)."""
    turns = np.outer(np.arange(n), np.arange(n)) % n / n
    return np.exp((2j if inverse else -2j) * np.pi * turns)


def listed(axes, rank):
    return sorted(a % rank for a in ([axes] if isinstance(axes, int) else axes))


def transformed(x, axes, inverse=False, scaling="none"):
    axes = listed(axes, x.ndim)
    size = np.prod([x.shape[a] for a in axes])
    for axis in axes:
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix(x.shape[axis], inverse), -1, axis)
    return x * {"none": 1, "size": 1 / size, "unitary": size**-0.5}[scaling]


def halved(x, axes, inverse=False, scaling="none"):
    last = listed(axes, x.ndim)[-1]
    return np.take(transformed(x, axes, inverse, scaling), np.arange(x.shape[last] // 2 + 1), last)


def whole(x, axes, inverse=False, scaling="none", round_to_odd_hermitean=False):
    """Add the missing half of a Hermitian tensor and transform it back to real numbers.

    The added elements are mirrored along all transformed axes.
    """
    axes = listed(axes, x.ndim)
    *others, last = axes
    n = 2 * (x.shape[last] - 1) + round_to_odd_hermitean
    x = transformed(x, others, inverse) if others else x
    x = np.moveaxis(x, last, -1).copy()
    x[..., 0].imag = 0
    if n % 2 == 0:
        x[..., -1].imag = 0
    mirrored = x[..., 1 : n - x.shape[-1] + 1][..., ::-1].conj()
    full = np.moveaxis(np.concatenate([x, mirrored], -1), -1, last)
    size = np.prod([full.shape[a] for a in axes])
    return transformed(full, last, inverse).real * {"none": 1, "size": 1 / size, "unitary": size**-0.5}[scaling]


def case(operation, shape, axes, label, seed=200, **options):
    oracle = {"fast_fourier_transform": transformed, "real_to_hermitean_fft": halved, "hermitean_to_real_fft": whole}
    how = {k: options.pop(k) for k in ("inverse", "scaling", "round_to_odd_hermitean") if k in options}
    dtypes = REAL if operation == "real_to_hermitean_fft" else COMPLEX
    options = {"dtypes": dtypes, "tolerance": 4, "batch": ()} | options
    return Case(
        operation, [values(*shape, seed=seed)], oracle[operation], {"axes": axes, **how}, label=label, **options
    )


SHORT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 37]
LONG = [256, 300, 341, 400, 509]
SHAPES = {
    "rows": ((3, 6), 1), "columns": ((6, 3), 0), "middle": ((2, 5, 3), 1), "negative": ((2, 4, 3), -2),
    "plane": ((4, 6), (0, 1)), "plane_reversed": ((4, 6), (-1, 0)), "corners": ((3, 2, 4), [0, 2]),
    "four": ((2, 3, 2, 4), (0, 1, 2, 3)), "batched": ((2, 2, 3, 4), (2, 3)),
    "far": ((3, 1, 2, 2, 2), 0), "far_corners": ((3, 2, 1, 2, 2), (0, 4)),
}  # fmt: skip
MANY = {  # enough signals for all vector lanes and threads, plus a remainder
    "many_rows": ((37, 12), 1), "many_odd_rows": ((35, 15), 1), "many_columns": ((10, 37), 0),
    "wide_columns": ((2, 8, 70), 1), "long_columns": ((300, 20), 0), "long_narrow": ((2, 300, 3), 1),
    "large_plane": ((40, 36), (0, 1)), "prime_columns": ((37, 18), 0), "many_long_rows": ((5, 576), 1),
}  # fmt: skip
HOW = {
    "inverse": {"inverse": True}, "size": {"scaling": "size"}, "unitary": {"scaling": "unitary"},
    "inverse_size": {"inverse": True, "scaling": "size"}, "inverse_unitary": {"inverse": True, "scaling": "unitary"},
}  # fmt: skip


def points(operation, n):
    """Convert the length of a signal to the length of its stored half."""
    return n // 2 + 1 if operation == "hermitean_to_real_fft" else n


def parity(operation, n):
    return {"round_to_odd_hermitean": n % 2 == 1} if operation == "hermitean_to_real_fft" else {}


CASES = []
for operation in ("fast_fourier_transform", "real_to_hermitean_fft", "hermitean_to_real_fft"):
    for n in SHORT:
        CASES.append(case(operation, (2, points(operation, n)), 1, f"n{n}", batch=(0,), **parity(operation, n)))
    for n in LONG:
        CASES.append(
            case(
                operation, (1, points(operation, n)), -1, f"n{n}", gradient=False, tolerance=40, **parity(operation, n)
            )
        )
    for label, (shape, axes) in SHAPES.items():
        CASES.append(case(operation, shape, axes, label))
        if operation == "hermitean_to_real_fft":
            CASES.append(case(operation, shape, axes, f"{label}_odd", round_to_odd_hermitean=True))
    for label, (shape, axes) in MANY.items():
        CASES.append(case(operation, shape, axes, label, gradient=False, tolerance=40))
    for label, how in HOW.items():
        CASES.append(case(operation, (2, 6), (0, 1), label, **how))
        CASES.append(case(operation, (40, 9), 1, f"{label}_many", gradient=False, **how))
        CASES.append(case(operation, (2, 320), 1, f"{label}_long", gradient=False, tolerance=40, **how))
    CASES.append(case(operation, (0, 4), 1, "nothing"))

CASES += [
    case("fast_fourier_transform", (3, 4), (0, 1), "real", dtypes=REAL),
    case("fast_fourier_transform", (3, 4), 1, "real_inverse", dtypes=REAL, inverse=True, scaling="size"),
    case("fast_fourier_transform", (2, 0), 1, "no_points"),
]


def given(operation, axes, **flags):
    """Build a case in which the axes are fed."""
    x = values(3, 4, 5, seed=210)
    oracle = {"fast_fourier_transform": transformed, "real_to_hermitean_fft": halved, "hermitean_to_real_fft": whole}

    def build(g, x, axes):
        return getattr(g, operation)(x, axes, **flags)

    return Case(
        operation, [x, np.array(axes, np.int32)], lambda x, axes: oracle[operation](x, [int(a) for a in axes], **flags),
        build=build, label="fed_axes", dtypes=REAL if operation == "real_to_hermitean_fft" else COMPLEX, batch=(),
        tolerance=4, late=operation != "fast_fourier_transform",
    )  # fmt: skip


CASES += [
    given("fast_fourier_transform", [0, 2], scaling="unitary"),
    given("real_to_hermitean_fft", [1, 2]),
    given("hermitean_to_real_fft", [-1, 0], inverse=True, round_to_odd_hermitean=True),
]
