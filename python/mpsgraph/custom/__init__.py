"""Custom operations: kernels in C++ and Metal, or Python functions, that graphs use by name.

`custom_operation`, `python_operation`, and `load_custom_operations` are also available in `mpsgraph` itself; this
package adds the classes of their arguments and results. See docs/custom_operations.md.
"""

from .compiling import cache_directory
from .operation import CustomOperation, custom_operation, load_custom_operations
from .python_kernels import python_operation
from .sites import CustomGradient, TensorType

__all__ = [
    "CustomGradient",
    "CustomOperation",
    "TensorType",
    "cache_directory",
    "custom_operation",
    "load_custom_operations",
    "python_operation",
]
