"""Cases of the reduction family: over all, some, the first, and the last axes; ties, NaN, empty inputs, and
long sums.
"""

import numpy as np
from harness.case import ALGEBRAIC, FLOATS, NUMBERS, Case, apart, values

CUBE = apart(2, 3, 4, seed=30)
FACTORS = values(2, 3, 4, seed=31, low=0.6, high=1.4) * np.sign(apart(2, 3, 4, seed=32))
TIES = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]])
WITH_NAN = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [-np.inf, 2.0, np.nan]])
BOOLS = np.array([[[True, True], [False, True]], [[True, True], [False, False]]])


def reduced(function, dtyped=False):
    def oracle(x, axes=None):
        axes = tuple(axes) if isinstance(axes, (list, tuple)) else axes
        return function(x, axis=axes, keepdims=True, **({"dtype": x.dtype} if dtyped else {}))

    return oracle


def ignoring_nan(function):
    """Reduce with fmin or fmax, which return NaN only if all elements are NaN."""
    return reduced(lambda x, axis, keepdims: function.reduce(x, axis=axis, keepdims=keepdims))


NUMERIC = {
    "reduction_sum": (reduced(np.sum, dtyped=True), CUBE),
    "reduction_product": (reduced(np.prod, dtyped=True), FACTORS),
    "reduction_maximum": (reduced(np.max), CUBE),
    "reduction_minimum": (reduced(np.min), CUBE),
    "reduction_maximum_propagate_nan": (reduced(np.max), CUBE),
    "reduction_minimum_propagate_nan": (reduced(np.min), CUBE),
}
AXES = {"all": None, "first": 0, "middle": 1, "last": -1, "outer": (0, 2), "inner": [1, 2], "each": (-1, 0, 1)}

CASES = []
for name, (oracle, x) in NUMERIC.items():
    extremum = "imum" in name
    dtypes = NUMBERS if extremum else ALGEBRAIC
    for label, axes in AXES.items():
        batched = (0,) if axes in (1, -1) or label == "inner" else ()
        CASES.append(
            Case(
                name, [x], oracle, {"axes": axes}, label=label, dtypes=dtypes, batch=batched, exact=extremum,
                tolerance=2,
            )
        )  # fmt: skip
    rows = values(67, 513, seed=33, low=0.0, high=1.0) if name != "reduction_product" else 1 + values(67, 513) / 500
    for label, axes in {"long_rows": 1, "long_columns": 0, "long": None}.items():
        CASES.append(
            Case(
                name, [rows], oracle, {"axes": axes}, label=label, gradient=False, exact=extremum, tolerance=20,
                dtypes=tuple(d for d in dtypes if d in ("float32", "float64", "complex64", "complex128")),
            )
        )  # fmt: skip
    CASES.append(Case(name, [np.array(2.5)], oracle, {"axes": None}, label="scalar", dtypes=dtypes, batch=()))
    CASES.append(Case(name, [values(0, 3)], oracle, {"axes": 1}, label="no_rows", dtypes=dtypes, batch=()))
    if extremum:
        spread = {"attributes": {"axes": 1}, "dtypes": FLOATS, "gradient": False, "exact": True}
        nan_oracle = oracle if name.endswith("nan") else ignoring_nan(np.fmax if "maximum" in name else np.fmin)
        CASES.append(Case(name, [WITH_NAN], nan_oracle, label="nan", **spread))
        CASES.append(Case(name, [TIES], oracle, label="ties", **spread))
    else:
        CASES.append(Case(name, [values(3, 0)], oracle, {"axes": 1}, label="nothing", dtypes=dtypes, batch=()))

for name, function in {"reduction_and": np.all, "reduction_or": np.any}.items():
    for label, axes in AXES.items():
        CASES.append(Case(name, [BOOLS], reduced(function), {"axes": axes}, label=label, dtypes=("bool",), batch=()))
    CASES.append(
        Case(name, [np.zeros((2, 0), bool)], reduced(function), {"axes": 1}, label="nothing", dtypes=("bool",))
    )


def arg(function):
    return lambda x, axis=-1: np.expand_dims(function(x, axis=axis), axis).astype(np.int32)


for name, function in {"reduction_arg_maximum": np.argmax, "reduction_arg_minimum": np.argmin}.items():
    for axis in (0, 1, -1):
        along = {"attributes": {"axis": axis}, "dtypes": NUMBERS, "batch": (0,) if axis else ()}
        CASES.append(Case(name, [CUBE], arg(function), label=f"axis_{axis}", **along))
    CASES.append(Case(name, [TIES], arg(function), {"axis": 1}, label="ties", dtypes=NUMBERS, batch=()))
