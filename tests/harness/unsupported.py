"""What device metal cannot do, by kind of operation or by the id of a case (and an element type behind it), and why.

Tests expect UnsupportedError.
"""

from cases import control_flow, random

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DIVIDING_SCATTERS = [
    *("scatter-div", "scatter-div_zeros", "scatter_nd-div_batched", "scatter_nd-div_slices"),
    *(f"scatter_along_axis-{label}" for label in ("div", "div_neutral", "tensor_axis_div")),
]

WIDE = "asks for float64, which no graphics processor of Apple's has"
UNCOUNTED = "keeps values of every iteration, and how many there are is known only when it runs"

REASONS: dict[str, str] = {
    **{f"cast-{dtype}": f"no graphics processor of Apple's has {dtype}" for dtype in ("float64", "complex128")},
    **{case.id: WIDE for case in random.CASES if "float64" in case.id},
    "one_hot-one": WIDE,
    **{f"{case}-{t}": "MPSGraph states no division of integers there" for case in DIVIDING_SCATTERS for t in INTEGERS},
}

# What its derivative cannot do, by the id of a case. The same loops with constant bounds are cases, too.
GRADIENTS: dict[str, str] = {
    case.id: UNCOUNTED
    for case in control_flow.CASES
    if case.operation == "for" and "constant" not in case.id and case.float_inputs()
}
GRADIENTS["while-both_blocks"] = UNCOUNTED
