"""Train neural networks with Apple's MPSGraph programming model, on any machine.

The package provides a symbolic graph with placeholders, variables, and control dependencies; gradients derived by the
graph; executables compiled once per input type; command buffers, semaphores, and shared events. All public names are
attributes of this module. Importing the module loads only numpy and the compiled core; nn, optim, data, Trainer, and
their dependencies are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _loader

_loader.load()

from . import _core_docstrings, random  # noqa: E402
from ._core import (  # noqa: E402
    CacheStatistics,
    CommandBuffer,
    CommandQueue,
    CompilationDescriptor,
    Device,
    DeviceGraph,
    DType,
    Executable,
    Execution,
    ExecutionDescriptor,
    NDArray,
    Operation,
    Semaphore,
    SerializedExecutable,
    SharedEvent,
    Tensor,
    asarray,
    bfloat16,
    bool_,
    complex64,
    complex128,
    copy_count,
    float16,
    float32,
    float64,
    from_dlpack,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    library_version,
    memory_statistics,
    set_num_threads,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._fetched import install as _install_fetching  # noqa: E402
from ._limits import limits  # noqa: E402
from ._methods import install as _install_methods  # noqa: E402
from ._pickling import install as _install_pickling  # noqa: E402
from ._tensor_data import tensor_data  # noqa: E402
from .errors import (  # noqa: E402
    CancelledError,
    CheckError,
    CheckpointError,
    DeviceError,
    DTypeError,
    Error,
    GraphError,
    LimitError,
    OutOfMemoryError,
    OutOfRangeError,
    PackageError,
    ShapeError,
    TimeoutError,
    UnsupportedError,
)
from .graph import Graph, parse  # noqa: E402
from .ops.pooling_descriptors import Pooling2DDescriptor, Pooling4DDescriptor  # noqa: E402
from .precision import mixed_precision  # noqa: E402
from .precision.mixed_precision import autocast  # noqa: E402
from .tensor import install as _install_operators  # noqa: E402

_install_operators()
_install_methods()
_install_pickling()
_install_fetching()
_core_docstrings.install()
__version__ = library_version()

if TYPE_CHECKING:
    from . import coreml, custom, data, distributed, lm, nn, nngraph, numpy, onnx, optim, profiler, training

    # jax is not in __all__, so that `from mpsgraph import *` requires neither JAX nor PyTorch.
    from . import jax as jax
    from . import torch as torch
    from .custom import CustomOperation, TensorType, custom_operation, load_custom_operations, python_operation
    from .model import Model
    from .packages import load, prepare, save
    from .training import checkpoint
    from .training.history import History
    from .training.step_result import StepResult
    from .training.trainable_model import TrainableModel
    from .training.trainer import Trainer
    from .transforms import custom_gradient, grad, jit, stop_gradient, value_and_grad, vmap

_LAZY = {
    "checkpoint": "training.checkpoint",
    "coreml": "coreml",
    "custom": "custom",
    "CustomOperation": "custom.operation",
    "custom_operation": "custom.operation",
    "data": "data",
    "distributed": "distributed",
    "jax": "jax",
    "lm": "lm",
    "nn": "nn",
    "nngraph": "nngraph",
    "numpy": "numpy",
    "onnx": "onnx",
    "optim": "optim",
    "History": "training.history",
    "Model": "model",
    "load": "packages",
    "prepare": "packages",
    "load_custom_operations": "custom.operation",
    "python_operation": "custom.python_kernels",
    "save": "packages",
    "StepResult": "training.step_result",
    "TensorType": "custom.sites",
    "custom_gradient": "transforms.derivatives",
    "grad": "transforms.derivatives",
    "jit": "transforms.tracing",
    "stop_gradient": "transforms.derivatives",
    "value_and_grad": "transforms.derivatives",
    "vmap": "transforms.batching",
    "profiler": "profiler",
    "torch": "torch",
    "TrainableModel": "training.trainable_model",
    "Trainer": "training.trainer",
    "training": "training",
}


def __getattr__(name: str) -> Any:
    """Import a module or class of the package on first use."""
    if name not in _LAZY:
        from ._names import module_hint

        hint = "" if name.startswith("_") else module_hint(name, __all__)
        raise AttributeError(f"module 'mpsgraph' has no attribute '{name}'{hint}")
    module = import_module(f"mpsgraph.{_LAZY[name]}")
    value = module if name == _LAZY[name].rpartition(".")[2] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CacheStatistics",
    "CancelledError",
    "CheckError",
    "CheckpointError",
    "CommandBuffer",
    "CommandQueue",
    "CompilationDescriptor",
    "CustomOperation",
    "DType",
    "DTypeError",
    "Device",
    "DeviceError",
    "DeviceGraph",
    "Error",
    "Executable",
    "Execution",
    "ExecutionDescriptor",
    "Graph",
    "GraphError",
    "History",
    "LimitError",
    "Model",
    "NDArray",
    "Operation",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PackageError",
    "Pooling2DDescriptor",
    "Pooling4DDescriptor",
    "Semaphore",
    "SerializedExecutable",
    "ShapeError",
    "SharedEvent",
    "StepResult",
    "Tensor",
    "TensorType",
    "TimeoutError",
    "TrainableModel",
    "Trainer",
    "UnsupportedError",
    "asarray",
    "autocast",
    "bfloat16",
    "bool_",
    "checkpoint",
    "complex64",
    "complex128",
    "copy_count",
    "coreml",
    "custom",
    "custom_gradient",
    "custom_operation",
    "data",
    "distributed",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "grad",
    "get_num_threads",
    "int8",
    "int16",
    "int32",
    "int64",
    "jit",
    "library_version",
    "limits",
    "lm",
    "load",
    "load_custom_operations",
    "memory_statistics",
    "mixed_precision",
    "nn",
    "nngraph",
    "numpy",
    "onnx",
    "optim",
    "parse",
    "prepare",
    "profiler",
    "python_operation",
    "random",
    "save",
    "set_num_threads",
    "stop_gradient",
    "tensor_data",
    "training",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vmap",
]
