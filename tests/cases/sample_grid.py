"""Cases of the sample_grid family: every padding and sampling mode and coordinate convention, both layouts, and distant
positions.

Most expected values are computed by the code below; those labeled "torch" are from torch.nn.functional.grid_sample of
torch 2.13.
"""

import itertools

import numpy as np
from harness.case import Case, apart, values

from cases.resize import ROUNDINGS

SOURCE = apart(2, 3, 4, 2, seed=200)
GRID = values(2, 3, 2, 2, seed=201, low=-1.3, high=1.3)
PIXELS = values(2, 3, 2, 2, seed=202, low=-1.2, high=4.3)
PADDINGS = ("constant", "zero", "reflect", "symmetric", "clamp_to_edge")


def shown(plane, y, x, padding, constant):
    """Return the element at a position of the padded plane, moving step by step toward the plane."""
    index = []
    for i, n in ((y, plane.shape[0]), (x, plane.shape[1])):
        if padding in ("constant", "zero") and not 0 <= i < n:
            return constant if padding == "constant" else 0.0
        while not 0 <= i < n:
            if padding == "clamp_to_edge" or n == 1:
                i = min(max(i, 0), n - 1)
            elif padding == "reflect":
                i = -i if i < 0 else 2 * (n - 1) - i
            else:
                i = -1 - i if i < 0 else 2 * n - 1 - i
        index.append(i)
    return plane[tuple(index)]


def place(p, i, source, result, normalised, relative, corners):
    if relative:
        units = ((result - 1) / 2 if corners else result / 2) if normalised else 1.0
        own = i + p * units
        if corners:
            return (own * (source - 1) / (result - 1)) if result > 1 else p * (source - 1) / 2 if normalised else 0.0
        return (own + 0.5) * source / result - 0.5
    if normalised:
        return (p + 1) / 2 * (source - 1) if corners else ((p + 1) * source - 1) / 2
    return p if corners else p - 0.5


def sampled(source, coordinates, layout="NHWC", normalize_coordinates=True, relative_coordinates=False,
            align_corners=False, padding_mode="constant", sampling_mode="bilinear", constant_value=0.0,
            nearest_rounding_mode=None):  # fmt: skip
    x = np.moveaxis(source, 1, -1) if layout == "NCHW" else source
    n, rows, columns = coordinates.shape[:3]
    result = np.zeros((n, rows, columns, x.shape[3]), source.dtype)
    flags = (normalize_coordinates, relative_coordinates, align_corners)
    for b, r, c, k in itertools.product(*map(range, result.shape)):
        px = place(coordinates[b, r, c, 0], c, x.shape[2], columns, *flags)
        py = place(coordinates[b, r, c, 1], r, x.shape[1], rows, *flags)
        at = lambda y, x_, b=b, k=k: shown(x[b, :, :, k], int(y), int(x_), padding_mode, constant_value)  # noqa: E731
        if nearest_rounding_mode or sampling_mode == "nearest":
            rounded = ROUNDINGS[nearest_rounding_mode or "round_prefer_ceil"]
            result[b, r, c, k] = at(rounded(py), rounded(px))
            continue
        left, top = np.floor(px), np.floor(py)
        fx, fy = px - left, py - top
        above = (1 - fx) * at(top, left) + fx * at(top, left + 1)
        below = (1 - fx) * at(top + 1, left) + fx * at(top + 1, left + 1)
        result[b, r, c, k] = (1 - fy) * above + fy * below
    return np.moveaxis(result, -1, 1) if layout == "NCHW" else result


def case(label, source=SOURCE, grid=GRID, **how):
    # Rounded half-precision coordinates move the samples noticeably, since neighbors differ by up to 6.
    return Case("sample_grid", [source, grid], sampled, how, label=label, batch=(), tolerance=12)


def cases():
    for padding in PADDINGS:
        for corners in (False, True):
            suffix = "_corners" if corners else ""
            how = {"padding_mode": padding, "align_corners": corners}
            yield case(padding + suffix, constant_value=2.5, **how)
            planar = np.ascontiguousarray(np.moveaxis(SOURCE, -1, 1))
            yield case(f"{padding}_nchw{suffix}", planar, layout="NCHW", **how)
            yield case(f"{padding}_pixels{suffix}", grid=PIXELS, normalize_coordinates=False, **how)
            yield case(f"{padding}_relative{suffix}", grid=GRID / 3, relative_coordinates=True, **how)
            relative = {"normalize_coordinates": False, "relative_coordinates": True}
            yield case(f"{padding}_relative_pixels{suffix}", grid=PIXELS / 2, **relative, **how)
    halves = np.array([[[[0.5, 1.0], [1.5, 0.5]], [[2.5, 0.5], [-0.5, 1.5]]]])  # ties, which reveal the rounding mode
    exact = {"normalize_coordinates": False, "align_corners": True, "padding_mode": "clamp_to_edge"}
    for rounding in ROUNDINGS:
        for layout, x in (("NHWC", SOURCE[:1]), ("NCHW", np.ascontiguousarray(np.moveaxis(SOURCE[:1], -1, 1)))):
            yield Case("sample_grid", [x, halves.astype(np.float32)], sampled_in_type,
                       {"nearest_rounding_mode": rounding, "layout": layout, **exact}, build=in_type,
                       label=f"{rounding}_{layout}", batch=(), exact=True)  # fmt: skip
    yield Case("sample_grid", [SOURCE, GRID], sampled, {"sampling_mode": "nearest"}, label="nearest",
               dtypes=("float32", "float64"), batch=(), exact=True)  # fmt: skip
    far = np.array([[[[1e30, -1e30], [-7.7, 9.3]]]])
    for padding in ("zero", "clamp_to_edge"):
        yield Case("sample_grid", [SOURCE[:1], far], sampled_far, {"padding_mode": padding}, label=f"far_{padding}",
                   dtypes=("float32", "float64"), batch=(), gradient=False)  # fmt: skip
    yield case("from_one", apart(2, 1, 1, 3, seed=203), padding_mode="reflect")
    yield case("to_one", grid=GRID[:, :1, :1], relative_coordinates=True, align_corners=True)
    yield case("nothing", np.zeros((0, 3, 4, 2)), np.zeros((0, 2, 2, 2)))
    yield case("no_places", grid=np.zeros((2, 0, 3, 2)))
    yield case("no_source", np.zeros((2, 0, 4, 2)), constant_value=1.5)


def in_type(g, source, coordinates, **how):
    return g.sample_grid(source, g.cast(coordinates, source.dtype), **how)


def sampled_in_type(source, coordinates, **how):
    return sampled(source, coordinates.astype(np.float64), **how)


def sampled_far(source, coordinates, **how):
    return sampled(source, np.clip(coordinates, -1e3, 1e3), **how)


# --- expected values from PyTorch -------------------------------------------------------------------------------------
SMALL = np.array([[[[1.0, 2.0, -3.0], [4.0, 0.5, 6.0]]]])
PLACES = np.array([[[[-1.2, -0.7], [0.1, 0.3]], [[0.9, 1.1], [-0.5, 2.5]]]])
TORCH = {
    ("zero", False): [[0.16, 1.31], [1.56, 0.0]],
    ("zero", True): [[1.16, 1.2075], [5.1775, 0.5625]],
    ("clamp_to_edge", False): [[1.0, 1.31], [6.0, 3.125]],
    ("clamp_to_edge", True): [[1.45, 1.2075], [5.45, 2.25]],
    ("symmetric", False): [[1.0, 1.31], [6.0, 1.25]],  # reflection about the edges in torch
    ("reflect", True): [[1.515, 1.2075], [5.0525, 1.6875]],  # reflection about the centers
}


def from_torch():
    for (padding, corners), numbers in TORCH.items():
        how = {"layout": "NCHW", "padding_mode": padding, "align_corners": corners}
        oracle = lambda x, grid, numbers=numbers, **how: np.array([[numbers]])  # noqa: E731
        yield Case("sample_grid", [SMALL, PLACES], oracle, how, label=f"torch_{padding}_{corners}", batch=(),
                   gradient=padding != "symmetric",  # one of the positions is a turning point
                   dtypes=("float32", "float64"), tolerance=4)  # fmt: skip


CASES = [*cases(), *from_torch()]
