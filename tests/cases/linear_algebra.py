"""Cases of the linear_algebra family: triangles, diagonals, and bands of square and rectangular matrices, in
batches.
"""

import numpy as np
from harness.case import ANY, Case, apart


def band_part(x, num_lower, num_upper):
    """Compute band_part element by element."""
    result = x.copy()
    for at in np.ndindex(*x.shape):
        i, j = at[-2:]
        if not ((num_lower < 0 or i - j <= num_lower) and (num_upper < 0 or j - i <= num_upper)):
            result[at] = 0
    return result


def case(label, x, lower, upper, batch=(0,)):
    how = {"num_lower": lower, "num_upper": upper}
    return Case("band_part", [x], band_part, how, label=label, dtypes=ANY, exact=True, batch=batch)


SQUARE, WIDE, TALL = apart(4, 4, seed=210), apart(2, 3, 5, seed=211), apart(5, 3, seed=212)
CASES = [
    case("lower", SQUARE, -1, 0, ()),
    case("upper", SQUARE, 0, -1, ()),
    case("diagonal", WIDE, 0, 0),
    case("band", WIDE, 1, 2),
    case("all", WIDE, -1, -1),
    case("far", TALL, 1 << 40, 1, ()),
    case("tall", TALL, 2, 0, ()),
    case("nothing", np.zeros((2, 0, 3)), 0, 0),
    Case("band_part", [SQUARE, np.array(1, np.int32), np.array(-1, np.int32)], band_part, label="tensors", dtypes=ANY,
         exact=True, batch=()),
]  # fmt: skip
