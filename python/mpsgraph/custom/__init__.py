"""Operations of one's own: kernels in C++ and Metal's language, or functions in Python, that graphs use by name.

People import `custom_operation`, `python_operation` and `load_custom_operations` from mpsgraph itself; here are the
classes that these give and take. docs/custom_operations.md teaches them.
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
