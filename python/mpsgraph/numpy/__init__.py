"""The Python array API standard, 2025.12, over arrays and tensors; usually `import mpsgraph.numpy as mnp`.

Every function accepts arrays (`NDArray`) and tensors of a graph. On arrays it runs a compiled program, which is kept
for the types of the arrays. On tensors it adds operations to their graph. The extensions are `linalg` and `fft`, and
`special` has special functions.

Python numbers, lists, and numpy arrays are accepted in place of arrays. The default dtypes are float32, int32, and
complex64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._core import NDArray as ndarray
from .._core import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .._core import bool_ as bool
from ._creation import *  # noqa: F403
from ._creation import __all__ as _creation_names
from ._elementwise import *  # noqa: F403
from ._elementwise import __all__ as _elementwise_names
from ._manipulation import *  # noqa: F403
from ._manipulation import __all__ as _manipulation_names
from ._operation import clear_programs
from ._products import einsum
from ._promotion import (
    FloatLimits,
    IntegerLimits,
    NamespaceInfo,
    __array_namespace_info__,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from ._searching import *  # noqa: F403
from ._searching import __all__ as _searching_names
from ._statistics import *  # noqa: F403
from ._statistics import __all__ as _statistics_names
from .linalg import matmul, tensordot, vecdot

if TYPE_CHECKING:
    from . import fft, linalg, special

__array_api_version__ = "2025.12"
"""Version of the Python array API standard that the namespace implements."""

e = math.e
"""The base of natural logarithms, 2.718281828459045."""

inf = math.inf
"""Positive infinity."""

nan = math.nan
"""Not a number."""

newaxis = None
"""An index that inserts an axis of size 1, an alias of None."""

pi = math.pi
"""The ratio of a circle's circumference to its diameter, 3.141592653589793."""

_MODULES = ("fft", "linalg", "special")


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name not in _MODULES:
        from .._names import numpy_hint

        raise AttributeError(f"module 'mpsgraph.numpy' has no attribute '{name}'{numpy_hint(name, __all__)}")
    from importlib import import_module

    return import_module(f"mpsgraph.numpy.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    *_creation_names,
    *_elementwise_names,
    *_manipulation_names,
    *_searching_names,
    *_statistics_names,
    "FloatLimits",
    "IntegerLimits",
    "NamespaceInfo",
    "__array_api_version__",
    "__array_namespace_info__",
    "bfloat16",
    "bool",
    "can_cast",
    "clear_programs",
    "complex64",
    "complex128",
    "e",
    "einsum",
    "fft",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "linalg",
    "matmul",
    "nan",
    "ndarray",
    "newaxis",
    "pi",
    "result_type",
    "special",
    "tensordot",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "vecdot",
]
