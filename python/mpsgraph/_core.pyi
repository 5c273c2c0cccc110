"""
The C++ core of mpsgraph. Import the package mpsgraph instead.
"""
from __future__ import annotations
import builtins
import collections.abc
import inspect
import numpy
import numpy.typing
import typing
import typing_extensions
__all__: list[str] = ['Autocast', 'Block', 'CacheStatistics', 'Callee', 'CancelledError', 'CheckError', 'CheckpointError', 'CommandBuffer', 'CommandQueue', 'CompilationDescriptor', 'ConstantData', 'DType', 'DTypeError', 'Device', 'DeviceError', 'DeviceGraph', 'Error', 'Exchange', 'Executable', 'ExecutableTemplate', 'Execution', 'ExecutionDescriptor', 'FilterNode', 'Graph', 'GraphError', 'ImageNode', 'LimitError', 'Matrix', 'NDArray', 'NNAdam', 'NNDataSource', 'NNGraphCore', 'NNOptimizer', 'NNParameterState', 'NNRMSProp', 'NNSGD', 'NNStoredWeights', 'NNTrainableConvolution', 'NNTrainableNormalization', 'Operation', 'Origins', 'OutOfMemoryError', 'OutOfRangeError', 'PackageContents', 'PackageError', 'Probe', 'Profile', 'RNNMatrixTrainingState', 'RecurrentDescriptor', 'RecurrentInferenceLayer', 'RecurrentTrainingLayer', 'Semaphore', 'SerializedExecutable', 'ShapeError', 'SharedEvent', 'SharedSum', 'StateNode', 'Tensor', 'TensorExchange', 'TimeoutError', 'UnsupportedError', 'Vector', 'amend_custom_operation', 'apple_gradients', 'asarray', 'bfloat16', 'bool_', 'buffer_statistics', 'build_information', 'compile_seconds', 'complex128', 'complex64', 'copy_count', 'count_input', 'custom_operation_description', 'definition', 'definitions', 'device_limits', 'documented_kinds', 'encode_images_to_matrix', 'encode_matrix_to_images', 'enter_limits', 'exit_limits', 'expanded', 'float16', 'float32', 'float64', 'from_dlpack', 'get_num_threads', 'gradients', 'history_depth', 'int16', 'int32', 'int64', 'int8', 'known_values', 'library_version', 'load_custom_library', 'memory_statistics', 'name_this_thread', 'nn_count_copy', 'nn_node_definitions', 'optimize_for_inference', 'parse', 'philox', 'prepare_package', 'print_graph', 'probes', 'profile_session', 'quantized', 'register_custom_operation', 'rnn_matrix_ids', 'save_package', 'set_buffer_cache_limit', 'set_num_threads', 'shutdown', 'start_profile', 'stop_profile', 'tensors_to_quantize', 'uint16', 'uint32', 'uint64', 'uint8', 'verify']
class Error(Exception):
    """
    Base class of the errors that mpsgraph raises. Each class also derives from the matching built-in exception.

    Example:
        >>> try:
        ...     mg.Graph().constant([1.0]) + mg.Graph().constant([1.0])
        ... except mg.Error as error:
        ...     print(type(error).__name__, isinstance(error, ValueError))
        GraphError True
    """
class CheckError(Error, AssertionError):
    """
    Raised when a check fails during a run, or with check_finite when an operation produces NaN or an infinity.

    Example:
        >>> try:
        ...     g = mg.Graph()
        ...     g.run({}, g.check(g.constant([1.0, -1.0]) > 0, 'must be positive', on=g.constant(1.0)))
        ... except mg.CheckError as error:
        ...     print(type(error).__name__)
        CheckError
    """
class CheckpointError(Error, ValueError):
    """
    Raised when a checkpoint is damaged or is not a checkpoint.

    Example:
        >>> try:
        ...     mg.checkpoint.load("no such file")
        ... except mg.CheckpointError as error:
        ...     print(type(error).__name__)
        CheckpointError
    """
class DTypeError(Error, TypeError):
    """
    Raised when element types do not match or are not supported.

    Example:
        >>> try:
        ...     g = mg.Graph()
        ...     g.constant([1.0]) + g.constant([1], dtype="int32")
        ... except mg.DTypeError as error:
        ...     print(type(error).__name__)
        DTypeError
    """
class DeviceError(Error, RuntimeError):
    """
    Raised when a device does not exist, or a run fails because of memory, queues, command buffers, or a fork.

    Example:
        >>> try:
        ...     mg.Device("no such device")
        ... except mg.DeviceError as error:
        ...     print(type(error).__name__)
        DeviceError
    """
class GraphError(Error, ValueError):
    """
    Raised for invalid graphs or arguments, such as tensors of another graph, wrong names, or unparsable text.

    Example:
        >>> try:
        ...     mg.parse("no graph")
        ... except mg.GraphError as error:
        ...     print(type(error).__name__)
        GraphError
    """
class LimitError(Error, ValueError):
    """
    Raised when a graph or a file exceeds a limit set with mpsgraph.limits.

    Example:
        >>> try:
        ...     with mg.limits(nodes=0):
        ...         mg.parse("graph { %x = constant(){value=float32[1] [0x3f800000]}: float32[1] }")
        ... except mg.LimitError as error:
        ...     print(type(error).__name__)
        LimitError
    """
class PackageError(Error, ValueError):
    """
    Raised when a package is damaged, is not a package, or cannot be written.

    Example:
        >>> try:
        ...     mg.load("no such folder")
        ... except mg.PackageError as error:
        ...     print(type(error).__name__)
        PackageError
    """
class ShapeError(Error, ValueError):
    """
    Raised when ranks, sizes, or axes do not match or are out of range.

    Example:
        >>> try:
        ...     g = mg.Graph()
        ...     g.constant([1.0, 2.0]) + g.constant([1.0, 2.0, 3.0])
        ... except mg.ShapeError as error:
        ...     print(type(error).__name__)
        ShapeError
    """
class CancelledError(DeviceError):
    """
    Raised when a run was cancelled; variables keep their values.

    Example:
        >>> try:
        ...     g = mg.Graph()
        ...     (y,) = g.for_(1_000_000_000, initial=[g.constant(0.0)], body=lambda i, x: [x + 1.0])
        ...     run = g.run_async({}, y)
        ...     run.cancel()
        ...     run.wait()
        ... except mg.CancelledError as error:
        ...     print(type(error).__name__)
        CancelledError
    """
class OutOfRangeError(Error, IndexError):
    """
    Raised when an index, a class number, or a length is out of range.

    Example:
        >>> try:
        ...     x, labels = np.ones((1, 2), np.float32), np.int32([7])
        ...     mg.Trainer(mg.nn.Linear(3)).train_step(x, labels).wait()
        ... except mg.OutOfRangeError as error:
        ...     print(type(error).__name__)
        OutOfRangeError
    """
class UnsupportedError(Error, NotImplementedError):
    """
    Raised when a device does not support an operation that is otherwise valid.

    Example:
        >>> try:
        ...     g = mg.Graph()
        ...     x = g.placeholder((2,))
        ...     g.compile({x: (2,)}, [x + 1.0], device="cpu").serialize("net.mpsgraphpackage")
        ... except mg.UnsupportedError as error:
        ...     print(type(error).__name__)
        UnsupportedError
    """
class OutOfMemoryError(DeviceError, MemoryError):
    """
    Raised when there is not enough memory.

    Example:
        >>> try:
        ...     mg.NDArray((1 << 45,))
        ... except mg.OutOfMemoryError as error:
        ...     print(type(error).__name__)
        OutOfMemoryError
    """
class TimeoutError(DeviceError, builtins.TimeoutError):
    """
    Raised when an event or a command buffer does not complete in time.

    Example:
        >>> try:
        ...     mg.SharedEvent().wait(1, timeout=0.01)
        ... except mg.TimeoutError as error:
        ...     print(type(error).__name__)
        TimeoutError
    """
class DType:
    """
    The element type of a tensor, for example mpsgraph.float32.
    
        Functions that take a DType also accept its name and a numpy dtype. The element types are bool_, int8 to int64,
        uint8 to uint64, float16, bfloat16, float32, float64, complex64, and complex128.
    
        Args:
            dtype: A name, a numpy dtype, or another DType.
    
        Raises:
            DTypeError: If dtype is not an element type.
    
        Example:
            >>> mg.float32 == mg.DType("float32") == mg.DType(np.float32)
            True
            >>> mg.bfloat16.itemsize, mg.bfloat16.is_float, mg.complex64.is_complex
            (2, True, True)
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, dtype: typing.Any) -> None:
        """
        Creates a DType from a name, a numpy dtype, or another DType. Raises DTypeError for anything else.
        """
    def __reduce__(self) -> tuple[type, tuple[str]]:
        ...
    def __repr__(self) -> str:
        ...
    @property
    def is_complex(self) -> bool:
        ...
    @property
    def is_float(self) -> bool:
        ...
    @property
    def is_integer(self) -> bool:
        ...
    @property
    def is_signed(self) -> bool:
        ...
    @property
    def itemsize(self) -> int:
        """
        Size of an element in bytes.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def numpy(self) -> numpy.dtype[typing.Any]:
        """
        The numpy dtype. For bfloat16, ml_dtypes.bfloat16, or uint16 if ml_dtypes is not installed.
        """
class NDArray:
    """
    An array of memory with an element type, a shape, and strides, which numpy and DLPack can share.
    
        Runs return NDArrays, and accept both NDArrays and numpy arrays as feeds.
    
        Args:
            shape: Sizes of the axes. The elements are zero.
            dtype: Element type. Defaults to float32.
    
        Raises:
            ShapeError: If a size is negative or not an int.
            DTypeError: If dtype is not an element type.
    
        Example:
            >>> g = mg.Graph()
            >>> result = g.run({}, g.constant([[1.0, 2.0]]) * 2.0)
            >>> result.shape, result.dtype, result.tolist()
            ((1, 2), float32, [[2.0, 4.0]])
            >>> result.numpy().sum().item(), np.from_dlpack(result).shape  # views of the same memory
            (6.0, (1, 2))
        
    """
    __array_priority__: typing.ClassVar[int] = 1000
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __abs__(self) -> typing.Any:
        ...
    def __add__(self, other: typing.Any) -> typing.Any:
        ...
    def __and__(self, other: typing.Any) -> typing.Any:
        ...
    def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any:
        ...
    def __array_function__(self, function: typing.Any, types: typing.Any, arguments: typing.Any, named: typing.Any) -> typing.Any:
        """
        Run a function of numpy on numpy's views of arrays, and return its result, as for lists (NEP 18).
        """
    def __array_namespace__(self, *, api_version: str | None = None) -> typing.Any:
        """
        Return the module `mpsgraph.numpy`, an implementation of the Python array API standard.
        
        Args:
            api_version: Version of the standard, or None (the default).
        """
    def __bool__(self) -> bool:
        ...
    def __complex__(self) -> typing.Any:
        ...
    def __contains__(self, value: typing.Any) -> bool:
        ...
    def __dlpack__(self, *, stream: typing.Any = None, max_version: typing.Any = None, dl_device: typing.Any = None, copy: bool | None = None) -> typing_extensions.CapsuleType:
        ...
    def __dlpack_device__(self) -> tuple[int, int]:
        ...
    def __eq__(self, other: typing.Any) -> typing.Any:
        ...
    def __float__(self) -> float:
        ...
    def __floordiv__(self, other: typing.Any) -> typing.Any:
        ...
    def __format__(self, specification: str) -> str:
        """
        Format the element of an array of rank 0 as a Python number, and any other array as its repr.
        """
    def __ge__(self, other: typing.Any) -> typing.Any:
        ...
    def __getitem__(self, key: typing.Any) -> typing.Any:
        """
        Return a view for ints, slices, `...` and None, and a copy for index arrays and masks.
        
        Args:
            key: Ints, slices, `...`, None, and integer or bool arrays.
        """
    def __gt__(self, other: typing.Any) -> typing.Any:
        ...
    def __index__(self) -> int:
        ...
    def __init__(self, shape: typing.Any, dtype: typing.Any = 'float32') -> None:
        """
        Create an array of zeros.
        """
    def __int__(self) -> int:
        ...
    def __invert__(self) -> typing.Any:
        ...
    def __le__(self, other: typing.Any) -> typing.Any:
        ...
    def __len__(self) -> int:
        ...
    def __lshift__(self, other: typing.Any) -> typing.Any:
        ...
    def __lt__(self, other: typing.Any) -> typing.Any:
        ...
    def __matmul__(self, other: typing.Any) -> typing.Any:
        ...
    def __mod__(self, other: typing.Any) -> typing.Any:
        ...
    def __mul__(self, other: typing.Any) -> typing.Any:
        ...
    def __ne__(self, other: typing.Any) -> typing.Any:
        ...
    def __neg__(self) -> typing.Any:
        ...
    def __or__(self, other: typing.Any) -> typing.Any:
        ...
    def __pos__(self) -> typing.Any:
        ...
    def __pow__(self, other: typing.Any) -> typing.Any:
        ...
    def __radd__(self, other: typing.Any) -> typing.Any:
        ...
    def __rand__(self, other: typing.Any) -> typing.Any:
        ...
    def __repr__(self) -> str:
        ...
    def __rfloordiv__(self, other: typing.Any) -> typing.Any:
        ...
    def __rlshift__(self, other: typing.Any) -> typing.Any:
        ...
    def __rmatmul__(self, other: typing.Any) -> typing.Any:
        ...
    def __rmod__(self, other: typing.Any) -> typing.Any:
        ...
    def __rmul__(self, other: typing.Any) -> typing.Any:
        ...
    def __ror__(self, other: typing.Any) -> typing.Any:
        ...
    def __rpow__(self, other: typing.Any) -> typing.Any:
        ...
    def __rrshift__(self, other: typing.Any) -> typing.Any:
        ...
    def __rshift__(self, other: typing.Any) -> typing.Any:
        ...
    def __rsub__(self, other: typing.Any) -> typing.Any:
        ...
    def __rtruediv__(self, other: typing.Any) -> typing.Any:
        ...
    def __rxor__(self, other: typing.Any) -> typing.Any:
        ...
    def __setitem__(self, key: typing.Any, value: typing.Any) -> None:
        """
        Assign to the elements that a key selects.
        
        Args:
            key: Ints, slices, `...`, None, and integer or bool arrays.
            value: An array, or a number.
        """
    def __sub__(self, other: typing.Any) -> typing.Any:
        ...
    def __truediv__(self, other: typing.Any) -> typing.Any:
        ...
    def __xor__(self, other: typing.Any) -> typing.Any:
        ...
    def all(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Test whether all elements along axes are true; see `mpsgraph.numpy.all`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def any(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Test whether any element along axes is true; see `mpsgraph.numpy.any`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the index of the largest element; see `mpsgraph.numpy.argmax`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the index of the smallest element; see `mpsgraph.numpy.argmin`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argsort(self, axis: int = -1, *, descending: bool = False) -> typing.Any:
        """
        Return the indices that sort the elements; see `mpsgraph.numpy.argsort`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            descending: Whether the order is descending. Defaults to False.
        """
    def astype(self, dtype: typing.Any, *, copy: bool = True) -> typing.Any:
        """
        Convert to another dtype; see `mpsgraph.numpy.astype`.
        
        Args:
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            copy: Whether to copy an array that already has the dtype. Defaults to True.
        """
    def clip(self, min: typing.Any = None, max: typing.Any = None) -> typing.Any:
        """
        Limit each element to a range; see `mpsgraph.numpy.clip`.
        
        Args:
            min: Lower limit, or None (the default).
            max: Upper limit, or None (the default).
        """
    def conj(self) -> typing.Any:
        """
        Return the complex conjugate of each element; see `mpsgraph.numpy.conj`.
        """
    def copy(self) -> NDArray:
        """
        Return a contiguous copy.
        """
    def copy_from(self, source: typing.Any) -> None:
        """
        Copy the elements of another array into this one.
        
        Args:
            source: Array of the same shape and dtype.
        """
    def cumsum(self, axis: int | None = None, *, dtype: typing.Any = None) -> typing.Any:
        """
        Compute running sums along an axis; see `mpsgraph.numpy.cumulative_sum`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
        """
    def detach(self) -> typing.Any:
        """
        Return the same value, through which no gradient flows; see `mpsgraph.stop_gradient`.
        """
    def flatten(self) -> typing.Any:
        """
        Return the elements as an array of rank 1.
        """
    def item(self) -> typing.Any:
        """
        Return the only element as a Python number.
        """
    def max(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the largest elements along axes; see `mpsgraph.numpy.max`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def mean(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Compute the mean of elements along axes; see `mpsgraph.numpy.mean`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def min(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the smallest elements along axes; see `mpsgraph.numpy.min`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def numpy(self) -> numpy.ndarray:
        """
        Return a numpy view of the same memory, never a copy.
        """
    def prod(self, axis: typing.Any = None, *, dtype: typing.Any = None, keepdims: bool = False) -> typing.Any:
        """
        Compute the product of elements along axes; see `mpsgraph.numpy.prod`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def repeat(self, repeats: typing.Any, axis: int | None = None) -> typing.Any:
        """
        Repeat each element; see `mpsgraph.numpy.repeat`.
        
        Args:
            repeats: Number of repetitions, or an array with a number for each element.
            axis: The axis or axes. None means all, or the flattened array.
        """
    def reshape(self, *shape: typing.Any) -> typing.Any:
        """
        Return the elements in another shape, given as sizes or as one sequence; see `mpsgraph.numpy.reshape`.
        
        Args:
            *shape: Sizes of the result. One of them may be -1 and is then inferred.
        """
    def round(self) -> typing.Any:
        """
        Round each element to the nearest integer, and ties to even; see `mpsgraph.numpy.round`.
        """
    def sort(self, axis: int = -1, *, descending: bool = False) -> typing.Any:
        """
        Return the sorted elements; see `mpsgraph.numpy.sort`. The array itself does not change.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            descending: Whether the order is descending. Defaults to False.
        """
    def squeeze(self, axis: typing.Any = None) -> typing.Any:
        """
        Remove axes of size 1: the given ones, or all of them; see `mpsgraph.numpy.squeeze`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
        """
    def std(self, axis: typing.Any = None, *, correction: float = 0.0, keepdims: bool = False) -> typing.Any:
        """
        Compute the standard deviation of elements along axes; see `mpsgraph.numpy.std`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            correction: Number that is subtracted from the number of elements. Defaults to 0.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def sum(self, axis: typing.Any = None, *, dtype: typing.Any = None, keepdims: bool = False) -> typing.Any:
        """
        Compute the sum of elements along axes; see `mpsgraph.numpy.sum`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def take(self, indices: typing.Any, axis: int | None = None) -> typing.Any:
        """
        Return the elements at indices along an axis; see `mpsgraph.numpy.take`.
        
        Args:
            indices: Integer array or tensor.
            axis: The axis or axes. None means all, or the flattened array.
        """
    def to_device(self, device: typing.Any, *, stream: typing.Any = None) -> typing.Any:
        """
        Return the array itself, because devices share its memory. The device must be the default device.
        
        Args:
            device: The default device.
            stream: None.
        """
    def tolist(self) -> typing.Any:
        ...
    def transpose(self, *axes: typing.Any) -> typing.Any:
        """
        Permute the axes, given as ints or as one sequence, or reverse them; see `mpsgraph.numpy.permute_dims`.
        
        Args:
            *axes: For each axis of the result, the axis of the array. None means the reverse order.
        """
    def var(self, axis: typing.Any = None, *, correction: float = 0.0, keepdims: bool = False) -> typing.Any:
        """
        Compute the variance of elements along axes; see `mpsgraph.numpy.var`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            correction: Number that is subtracted from the number of elements. Defaults to 0.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    @property
    def T(self) -> typing.Any:
        """
        The matrix transpose. The rank must be 2.
        """
    @property
    def contiguous(self) -> bool:
        """
        Whether the elements are in row-major order without gaps.
        """
    @property
    def device(self) -> Device:
        """
        The device on which operations run eagerly: the default device. Arrays are in memory that all devices share.
        """
    @property
    def dtype(self) -> DType:
        ...
    @property
    def mT(self) -> typing.Any:
        """
        The array with the last two axes exchanged. The rank must be 2 or higher.
        """
    @property
    def nbytes(self) -> int:
        ...
    @property
    def ndim(self) -> int:
        ...
    @property
    def shape(self) -> tuple[typing.Any, ...]:
        ...
    @property
    def size(self) -> int:
        """
        The number of elements.
        """
    @property
    def strides(self) -> tuple[typing.Any, ...]:
        """
        The strides in bytes, as in numpy.
        """
    @property
    def writable(self) -> bool:
        ...
class ConstantData:
    """
    The immutable value of a constant.
    """
    @staticmethod
    def drawn(draw: collections.abc.Callable[..., typing.Any]) -> ConstantData:
        """
        Create a constant from a function that returns the same array each time. A variable takes over the array's memory, and the function is called again if the constant is needed later.
        """
    @staticmethod
    def splat(value: typing.Any, shape: typing.Any, dtype: typing.Any) -> ConstantData:
        """
        Create a constant whose elements all have the same value.
        """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, value: typing.Any, dtype: typing.Any = None) -> None:
        """
        Copy an array, or the uint16 bits of bfloat16 numbers.
        """
    def numpy(self) -> numpy.ndarray:
        """
        Return a copy as a numpy array.
        """
    @property
    def dtype(self) -> DType:
        ...
    @property
    def is_splat(self) -> bool:
        ...
    @property
    def shape(self) -> tuple[typing.Any, ...]:
        ...
class PackageContents:
    """
    The contents of a package, from which one Graph can be created.
    """
    def __init__(self, path: str, verify: bool = True) -> None:
        """
        Load a package. Raises PackageError if it is damaged.
        """
    def functions(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        Return a dict of (inputs, outputs, operations) keyed by function name.
        """
    def inputs(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        Return the inputs of the Graph that was created from these contents: a dict of placeholders keyed by name.
        """
    def outputs(self, graph: typing.Any) -> dict[str, typing.Any]:
        ...
    def parameters(self, graph: typing.Any) -> dict[str, typing.Any]:
        ...
    def trainable(self, graph: typing.Any) -> tuple[typing.Any, ...]:
        ...
    def training(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        Return a description of the training steps that the functions form, empty if there are none.
        """
class Graph:
    """
    A symbolic graph: operations in the order of their creation.
    """
    @typing.overload
    def __init__(self) -> None:
        ...
    @typing.overload
    def __init__(self, contents: PackageContents) -> None:
        """
        Create the graph of a package; the contents can be used only once.
        """
    @typing.overload
    def __init__(self, text: str) -> None:
        """
        Create a graph from its textual form. Raises GraphError with the line and column of an error.
        """
    def abandon_block(self, block: Block) -> None:
        """
        Discard a block after an error.
        """
    def begin_block(self, argument_types: collections.abc.Sequence[tuple[typing.Any, ...]] = ()) -> Block:
        """
        Begin a new block, to which subsequent operations are added. Argument types are (dtype, shape).
        """
    def begin_control_dependencies(self, operations: collections.abc.Sequence[Operation]) -> None:
        """
        Make operations that are created from now on run after the given operations.
        """
    def create(self, kind: str, inputs: collections.abc.Sequence[Tensor], attributes: dict[str, typing.Any] = {}, name: str | None = None, blocks: collections.abc.Sequence[Block] = (), autocast: Autocast | None = None) -> Operation:
        """
        Append an operation, with operands cast by `autocast` if given. The graph does not change if this raises.
        """
    def create_tensor(self, kind: str, inputs: collections.abc.Sequence[Tensor], attributes: dict[str, typing.Any] = {}, name: str | None = None, autocast: Autocast | None = None) -> Tensor:
        """
        Append an operation without blocks, as create() does, and return its first result.
        """
    def end_control_dependencies(self) -> None:
        ...
    def find(self, name: str) -> Operation | None:
        """
        Return the operation with the given name, or None.
        
        Args:
            name: Name of the operation.
        """
    def finish_block(self, block: Block, results: collections.abc.Sequence[Tensor]) -> Block:
        """
        Finish a block and return it, ready to be passed to create().
        """
    def set_location(self, location: str) -> None:
        """
        Set the source location that is recorded in subsequent operations.
        """
    @property
    def operation_count(self) -> int:
        """
        The number of operations created so far, including those in blocks.
        """
    @property
    def operations(self) -> list[Operation]:
        ...
    @property
    def placeholders(self) -> list[Tensor]:
        ...
    @property
    def variables(self) -> list[Tensor]:
        ...
class Autocast:
    """
    Casts the operands of the operations that are created with it. There is one Autocast for each graph and dtype.
    """
    def __init__(self, graph: Graph, low: DType) -> None:
        ...
class Block:
    """
    A sequence of operations with arguments and results, which a control-flow operation runs.
    """
    @property
    def arguments(self) -> list[Tensor]:
        ...
    @property
    def operations(self) -> list[Operation]:
        ...
    @property
    def results(self) -> list[Tensor]:
        ...
class Operation:
    """
    An operation of a graph.
    
        An operation has a kind, input tensors, attributes, and output tensors, and stores the source line that built it.
        A run computes target operations, such as assignments, as well as target tensors.
    
        Example:
            >>> g = mg.Graph()
            >>> v = g.variable([1.0, 2.0], name="v")
            >>> update = g.assign(v, v * 2.0)
            >>> update.kind, [tensor.name for tensor in update.inputs][0]
            ('assign', 'v')
            >>> _ = g.run({}, [], [update])
            >>> g.variable_value(v).tolist()
            [2.0, 4.0]
        
    """
    def __repr__(self) -> str:
        ...
    @property
    def attributes(self) -> dict[str, typing.Any]:
        ...
    @property
    def blocks(self) -> list[Block]:
        ...
    @property
    def control_dependencies(self) -> list[Operation]:
        """
        The operations that must run before this one.
        """
    @property
    def family(self) -> str:
        ...
    @property
    def graph(self) -> Graph:
        ...
    @property
    def id(self) -> int:
        """
        The number of the operation in its graph, in order of creation.
        """
    @property
    def inputs(self) -> list[Tensor]:
        ...
    @property
    def kind(self) -> str:
        ...
    @property
    def location(self) -> str:
        """
        The source location where it was built, for example "model.py:41".
        """
    @property
    def name(self) -> str:
        ...
    @property
    def outputs(self) -> list[Tensor]:
        ...
class Tensor:
    """
    A symbolic result of an operation, which has a value only during a run.
    
        Python's operators and comparisons, numpy's basic indexing, and the methods of the graph (available as `x.graph`)
        add operations to the graph. `bool(x)` and `float(x)` raise errors, because x has no value while the graph is
        built.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1, 3), name="x")
            >>> y = (2.0 * x + 1.0)[:, 0]
            >>> y.shape, y.dtype, y.graph is g
            ((-1,), float32, True)
            >>> g.run({x: np.ones((2, 3), np.float32)}, y).tolist()
            [3.0, 3.0]
        
    """
    def __abs__(self) -> Tensor:
        ...
    def __add__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __and__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __array__(self, dtype: typing.Any = None, copy: typing.Any = None) -> typing.NoReturn:
        ...
    def __array_namespace__(self, *, api_version: str | None = None) -> typing.Any:
        """
        Return the module `mpsgraph.numpy`, an implementation of the Python array API standard.
        
        Args:
            api_version: Version of the standard, or None (the default).
        """
    def __array_ufunc__(self, ufunc: typing.Any, method: str, *inputs: typing.Any, **options: typing.Any) -> typing.Any:
        """
        Apply the operators that numpy's arrays and scalars on the left delegate. Refuse numpy's other functions.
        """
    def __bool__(self) -> typing.NoReturn:
        ...
    def __eq__(self, other: typing.Any) -> typing.Any:
        ...
    def __float__(self) -> typing.NoReturn:
        ...
    def __floordiv__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __ge__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __getitem__(self, key: typing.Any) -> Tensor:
        """
        Apply numpy's indexing with ints, slices, `...`, None, integer arrays and tensors, and one mask.
        """
    def __gt__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __int__(self) -> typing.NoReturn:
        ...
    def __invert__(self) -> Tensor:
        ...
    def __iter__(self) -> typing.NoReturn:
        ...
    def __le__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __lshift__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __lt__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __matmul__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __mod__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __mul__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __ne__(self, other: typing.Any) -> typing.Any:
        ...
    def __neg__(self) -> Tensor:
        ...
    def __or__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __pos__(self) -> Tensor:
        ...
    def __pow__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __radd__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rand__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __reduce_ex__(self, protocol: typing.Any) -> typing.NoReturn:
        ...
    def __repr__(self) -> str:
        ...
    def __rfloordiv__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rlshift__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rmatmul__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rmod__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rmul__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __ror__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rpow__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rrshift__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rshift__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rsub__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rtruediv__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __rxor__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __sub__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __truediv__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def __xor__(self, other: Tensor | bool | int | float | complex | numpy.generic | numpy.ndarray | NDArray | collections.abc.Sequence[typing.Any]) -> Tensor:
        ...
    def all(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Test whether all elements along axes are true; see `mpsgraph.numpy.all`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def any(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Test whether any element along axes is true; see `mpsgraph.numpy.any`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the index of the largest element; see `mpsgraph.numpy.argmax`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the index of the smallest element; see `mpsgraph.numpy.argmin`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def argsort(self, axis: int = -1, *, descending: bool = False) -> typing.Any:
        """
        Return the indices that sort the elements; see `mpsgraph.numpy.argsort`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            descending: Whether the order is descending. Defaults to False.
        """
    def astype(self, dtype: typing.Any, *, copy: bool = True) -> typing.Any:
        """
        Convert to another dtype; see `mpsgraph.numpy.astype`.
        
        Args:
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            copy: Whether to copy an array that already has the dtype. Defaults to True.
        """
    def clip(self, min: typing.Any = None, max: typing.Any = None) -> typing.Any:
        """
        Limit each element to a range; see `mpsgraph.numpy.clip`.
        
        Args:
            min: Lower limit, or None (the default).
            max: Upper limit, or None (the default).
        """
    def conj(self) -> typing.Any:
        """
        Return the complex conjugate of each element; see `mpsgraph.numpy.conj`.
        """
    def cumsum(self, axis: int | None = None, *, dtype: typing.Any = None) -> typing.Any:
        """
        Compute running sums along an axis; see `mpsgraph.numpy.cumulative_sum`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
        """
    def detach(self) -> typing.Any:
        """
        Return the same value, through which no gradient flows; see `mpsgraph.stop_gradient`.
        """
    def flatten(self) -> typing.Any:
        """
        Return the elements as an array of rank 1.
        """
    def max(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the largest elements along axes; see `mpsgraph.numpy.max`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def mean(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Compute the mean of elements along axes; see `mpsgraph.numpy.mean`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def min(self, axis: typing.Any = None, *, keepdims: bool = False) -> typing.Any:
        """
        Return the smallest elements along axes; see `mpsgraph.numpy.min`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def prod(self, axis: typing.Any = None, *, dtype: typing.Any = None, keepdims: bool = False) -> typing.Any:
        """
        Compute the product of elements along axes; see `mpsgraph.numpy.prod`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def repeat(self, repeats: typing.Any, axis: int | None = None) -> typing.Any:
        """
        Repeat each element; see `mpsgraph.numpy.repeat`.
        
        Args:
            repeats: Number of repetitions, or an array with a number for each element.
            axis: The axis or axes. None means all, or the flattened array.
        """
    def reshape(self, *shape: typing.Any) -> typing.Any:
        """
        Return the elements in another shape, given as sizes or as one sequence; see `mpsgraph.numpy.reshape`.
        
        Args:
            *shape: Sizes of the result. One of them may be -1 and is then inferred.
        """
    def round(self) -> typing.Any:
        """
        Round each element to the nearest integer, and ties to even; see `mpsgraph.numpy.round`.
        """
    def sort(self, axis: int = -1, *, descending: bool = False) -> typing.Any:
        """
        Return the sorted elements; see `mpsgraph.numpy.sort`. The array itself does not change.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            descending: Whether the order is descending. Defaults to False.
        """
    def squeeze(self, axis: typing.Any = None) -> typing.Any:
        """
        Remove axes of size 1: the given ones, or all of them; see `mpsgraph.numpy.squeeze`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
        """
    def std(self, axis: typing.Any = None, *, correction: float = 0.0, keepdims: bool = False) -> typing.Any:
        """
        Compute the standard deviation of elements along axes; see `mpsgraph.numpy.std`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            correction: Number that is subtracted from the number of elements. Defaults to 0.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def sum(self, axis: typing.Any = None, *, dtype: typing.Any = None, keepdims: bool = False) -> typing.Any:
        """
        Compute the sum of elements along axes; see `mpsgraph.numpy.sum`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            dtype: dtype of the result. None means that of the array, and at least 32 bits for sums of integers.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    def take(self, indices: typing.Any, axis: int | None = None) -> typing.Any:
        """
        Return the elements at indices along an axis; see `mpsgraph.numpy.take`.
        
        Args:
            indices: Integer array or tensor.
            axis: The axis or axes. None means all, or the flattened array.
        """
    def to_device(self, device: typing.Any, *, stream: typing.Any = None) -> typing.Any:
        """
        Return the array itself, because devices share its memory. The device must be the default device.
        
        Args:
            device: The default device.
            stream: None.
        """
    def transpose(self, *axes: typing.Any) -> typing.Any:
        """
        Permute the axes, given as ints or as one sequence, or reverse them; see `mpsgraph.numpy.permute_dims`.
        
        Args:
            *axes: For each axis of the result, the axis of the array. None means the reverse order.
        """
    def var(self, axis: typing.Any = None, *, correction: float = 0.0, keepdims: bool = False) -> typing.Any:
        """
        Compute the variance of elements along axes; see `mpsgraph.numpy.var`.
        
        Args:
            axis: The axis or axes. None means all, or the flattened array.
            correction: Number that is subtracted from the number of elements. Defaults to 0.
            keepdims: Whether the reduced axes stay, with size 1. Defaults to False.
        """
    @property
    def T(self) -> typing.Any:
        """
        The matrix transpose. The rank must be 2.
        """
    @property
    def device(self) -> Device:
        """
        The device on which operations run eagerly: the default device. Arrays are in memory that all devices share.
        """
    @property
    def dtype(self) -> DType:
        ...
    @property
    def graph(self) -> Graph:
        ...
    @property
    def index(self) -> int:
        """
        The index among the results of its operation.
        """
    @property
    def mT(self) -> typing.Any:
        """
        The array with the last two axes exchanged. The rank must be 2 or higher.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def ndim(self) -> int:
        """
        The number of axes.
        """
    @property
    def operation(self) -> Operation:
        ...
    @property
    def shape(self) -> tuple[int, ...] | None:
        """
        The sizes of the axes, with -1 for dynamic dimensions; None if the rank is unknown.
        """
    @property
    def size(self) -> int | None:
        """
        The number of elements, or None if a size is unknown.
        """
    @property
    def type(self) -> tuple[typing.Any, ...]:
        """
        (dtype, shape)
        """
class Origins:
    """
    Finds the placeholders and block arguments that the operations of a graph depend on.
    """
    def __init__(self, graph: Graph) -> None:
        ...
    def of(self, operation: Operation) -> list[Operation]:
        """
        Return the placeholders and block arguments that an operation depends on, in the order of the graph.
        """
class Device:
    """
    A device that runs graphs: Device("cpu") or, on a Mac, Device("metal"), which is the default on a Mac.
    
        The Metal device has been tested against a mock of Apple's frameworks, and compiled for macOS and against Apple's
        interfaces; it has not yet run on Apple hardware (docs/metal.md).
    
        Args:
            name: Name of the device, one of Device.names().
    
        Raises:
            DeviceError: If this build has no such device.
    
        Example:
            >>> "cpu" in mg.Device.names()
            True
            >>> mg.Device("cpu").name
            'cpu'
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    @staticmethod
    def default() -> Device:
        ...
    @staticmethod
    def names() -> list[str]:
        """
        Return the names of the devices in this build.
        """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, name: str) -> None:
        """
        Return the device with the given name. Raises DeviceError if this build has no such device.
        """
    def __repr__(self) -> str:
        ...
    @property
    def default_queue(self) -> CommandQueue:
        ...
    @property
    def description(self) -> str:
        """
        Human-readable description: processor, libraries, and threads.
        """
    @property
    def name(self) -> str:
        ...
class SharedEvent:
    """
    A monotonically increasing number that queues and the host use to order their work.
    
        Args:
            timeout: Number of seconds after which waits time out by default; None for no limit. Defaults to 60.
    
        Source: MTLSharedEvent.
    
        Example:
            >>> event = mg.SharedEvent()
            >>> buffer = mg.CommandQueue().command_buffer()
            >>> buffer.encode_wait_for_event(event, 1)
            >>> buffer.commit()
            >>> buffer.done
            False
            >>> event.signal(1)
            >>> buffer.wait_until_completed()
            >>> event.signaled_value
            1
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __init__(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = 60.0) -> None:
        """
        Create an event. `timeout` is the number of seconds after which waits time out by default, None for no limit.
        """
    def signal(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Increase the value of the event; a value below the current one has no effect.
        
        Args:
            value: New value.
        """
    def wait(self, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Wait until the event reaches a value.
        
        Args:
            value: Value that the event must reach.
            timeout: Maximum number of seconds to wait. None, the default, means the event's own timeout.
        
        Raises:
            TimeoutError: If the value is not reached in time.
            DeviceError: If the work that should signal the event failed.
        """
    @property
    def signaled_value(self) -> int:
        ...
    @property
    def timeout(self) -> float | None:
        ...
class Semaphore:
    """
    A counter that limits the number of steps in flight.
    
        Args:
            value: Initial value of the counter.
    
        Example:
            >>> semaphore = mg.Semaphore(2)
            >>> semaphore.wait()
            >>> semaphore.value
            1
            >>> semaphore.signal()
            >>> semaphore.value
            2
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def signal(self) -> None:
        ...
    def wait(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Wait until the counter is positive, and decrement it.
        
        Args:
            timeout: Maximum number of seconds to wait. None, the default, means no limit.
        
        Raises:
            TimeoutError: If the counter does not become positive in time.
        """
    @property
    def value(self) -> int:
        ...
class CommandQueue:
    """
    A queue that runs command buffers in order, concurrently with other queues.
    
        Args:
            device: The device or its name. None, the default, means the default device.
    
        Raises:
            DeviceError: If this build has no such device.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((2,), name="x")
            >>> executable = g.compile({x: (2,)}, [x + 1.0])
            >>> queue = mg.CommandQueue()
            >>> buffer = queue.command_buffer()
            >>> (result,) = executable.encode(buffer, [np.float32([1, 2])])
            >>> buffer.commit()
            >>> buffer.wait_until_completed()
            >>> result.tolist()
            [2.0, 3.0]
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __init__(self, device: typing.Any = None) -> None:
        ...
    def close(self) -> None:
        """
        Accept no more work, cancel waits for events, and finish the committed work.
        """
    def command_buffer(self) -> CommandBuffer:
        ...
    @property
    def device(self) -> Device:
        ...
class CommandBuffer:
    """
    A sequence of runs, waits, and signals that is committed to its queue once.
    
        `CommandQueue.command_buffer` returns command buffers.
    
        Example:
            >>> order = []
            >>> buffer = mg.CommandQueue().command_buffer()
            >>> buffer.add_completed_handler(lambda buffer: order.append(buffer.status))
            >>> buffer.commit()
            >>> buffer.wait_until_completed()
            >>> order, buffer.done
            (['completed'], True)
        
    """
    def add_completed_handler(self, handler: collections.abc.Callable[..., typing.Any]) -> None:
        """
        Add a handler that is called when the work of the command buffer has completed or failed.
        
        Args:
            handler: Function that is called with the command buffer.
        """
    def add_scheduled_handler(self, handler: collections.abc.Callable[..., typing.Any]) -> None:
        """
        Add a handler that is called when the queue reaches the command buffer.
        
        Args:
            handler: Function that is called with the command buffer.
        """
    def commit(self) -> None:
        """
        Commit the command buffer to its queue. Raises DeviceError if it has already been committed.
        """
    def encode_signal_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def encode_wait_for_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        ...
    def wait_until_completed(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Wait until the work and the handlers have completed.
        
        Args:
            timeout: Maximum number of seconds to wait. None, the default, means no limit.
        
        Raises:
            TimeoutError: If they do not complete in time.
            Error: Any error that the work or a handler raised.
        """
    @property
    def done(self) -> bool:
        ...
    @property
    def error(self) -> typing.Any:
        """
        The exception that the work raised, or None.
        """
    @property
    def queue(self) -> CommandQueue:
        ...
    @property
    def status(self) -> str:
        """
        The status: "not_enqueued", "committed", "scheduled", "completed", or "error".
        """
class CacheStatistics:
    """
    Statistics of an executable cache: counters, and the number and size of the stored executables.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1,), name="x")
            >>> y = x + 1.0
            >>> for n in (1, 2, 1):
            ...     _ = g.run({x: np.zeros(n, np.float32)}, y)
            >>> g.on().cache.compiles, g.on().cache.hits
            (2, 1)
        
    """
    def __repr__(self) -> str:
        ...
    @property
    def byte_limit(self) -> int:
        ...
    @property
    def bytes(self) -> int:
        ...
    @property
    def compiles(self) -> int:
        ...
    @property
    def count(self) -> int:
        ...
    @property
    def count_limit(self) -> int:
        ...
    @property
    def evictions(self) -> int:
        ...
    @property
    def hits(self) -> int:
        ...
    @property
    def misses(self) -> int:
        ...
    @property
    def seconds(self) -> float:
        """
        Total time spent compiling, in seconds.
        """
class Profile:
    """
    A recorded profile. mpsgraph.profiler converts it to readable tables.
    """
    def chrome_trace(self) -> str:
        """
        Return the profile as JSON in Chrome's trace event format.
        """
    def contents(self) -> tuple[typing.Any, ...]:
        ...
    @property
    def dropped(self) -> int:
        """
        The number of records that were overwritten by newer ones.
        """
    @property
    def duration(self) -> int:
        """
        The duration of the profile in nanoseconds.
        """
    @property
    def threads(self) -> dict[int, str]:
        """
        The names of the threads, by index.
        """
class Callee:
    """
    The target of a `call` operation: an executable of another graph, or an end of an Exchange.
    """
class SharedSum:
    """
    The sum of arrays of several processes on one machine, in memory that all of them map.
    """
    class Mark:
        """
        A point that a member reaches in each round of a sum.
        
        Members:
        
          posted
        
          added
        
          spread
        """
        __members__: typing.ClassVar[dict[str, SharedSum.Mark]]
        added: typing.ClassVar[SharedSum.Mark]
        posted: typing.ClassVar[SharedSum.Mark]
        spread: typing.ClassVar[SharedSum.Mark]
        @typing.overload
        def __eq__(self, other: SharedSum.Mark) -> bool:
            ...
        @typing.overload
        def __eq__(self, other: typing.Any) -> bool:
            ...
        def __getstate__(self) -> int:
            ...
        def __hash__(self) -> int:
            ...
        def __index__(self) -> int:
            ...
        def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
            ...
        def __int__(self) -> int:
            ...
        @typing.overload
        def __ne__(self, other: SharedSum.Mark) -> bool:
            ...
        @typing.overload
        def __ne__(self, other: typing.Any) -> bool:
            ...
        def __repr__(self) -> str:
            ...
        def __setstate__(self, state: typing.SupportsInt | typing.SupportsIndex) -> None:
            ...
        def __str__(self) -> str:
            ...
        @property
        def name(self) -> str:
            ...
        @property
        def value(self) -> int:
            ...
    @staticmethod
    def bytes(dtype: typing.Any, elements: typing.SupportsInt | typing.SupportsIndex, members: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        Return the required size of the file.
        """
    def __init__(self, descriptor: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, elements: typing.SupportsInt | typing.SupportsIndex, members: typing.SupportsInt | typing.SupportsIndex, own: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Map a file of zeros, whose size `bytes` returns. The descriptor may be closed afterwards. `own` is the index of this process among the members.
        """
    def add(self) -> None:
        """
        Sum this member's part of the contributions, which must be float32 or float64.
        """
    def contribution(self) -> NDArray:
        """
        Return the memory of this member's contribution.
        """
    def own_part(self) -> NDArray:
        """
        Return the elements of the sum that this member computes.
        """
    def own_part_of(self, member: typing.SupportsInt | typing.SupportsIndex) -> NDArray:
        """
        Return the elements of a member's contribution that this member sums.
        """
    def post(self) -> None:
        """
        Begin a round: this member's contribution is complete.
        """
    def reach(self, mark: SharedSum.Mark) -> None:
        """
        Record how far this member has progressed in the round.
        """
    def total(self) -> NDArray:
        """
        Return the memory of the sum.
        """
    def wait(self, mark: SharedSum.Mark, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> bool:
        """
        Wait until all members have progressed to `mark`. Return False on timeout.
        """
    def wait_for(self, member: typing.SupportsInt | typing.SupportsIndex, mark: SharedSum.Mark, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> bool:
        """
        Wait until one member has progressed to `mark`. Return False on timeout.
        """
class Exchange:
    """
    Arrays that a run passes to another thread partway through and receives back later.
    """
    def __init__(self) -> None:
        ...
    def add(self, name: str, types: collections.abc.Sequence[tuple[typing.Any, ...]]) -> int:
        """
        Create a slot for arrays of these types, each (dtype, shape) and all of one dtype, and return its index. Profiles show the work on it as `name`.
        """
    def close(self) -> None:
        """
        Accept no more work: next() returns None, and runs raise DeviceError.
        """
    def done(self, slot: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Mark the work on a slot as done, which lets the run that waits for it continue.
        """
    def fail(self, reason: str) -> None:
        """
        Make all current and later runs that use the exchange raise DeviceError with this reason.
        """
    def giver(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        Return a callable that passes arrays to the slot and has no results; it does not wait.
        """
    def memory(self, slot: typing.SupportsInt | typing.SupportsIndex) -> NDArray:
        """
        Return all elements of a slot as an array of rank 1, which belongs to the worker between next() and done().
        """
    def next(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> int | None:
        """
        Return the next slot that received arrays, for the worker thread; None on timeout or after close().
        """
    def share(self, slot: typing.SupportsInt | typing.SupportsIndex, sum: SharedSum) -> None:
        """
        Make future runs write their arrays to this member's contribution to `sum` and read the total, and post the current arrays. Call it between next() and done().
        """
    def taker(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        Return a callable without operands that waits for the work on the slot and returns its arrays.
        """
    def through(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        Return a callable that passes arrays to the slot, waits for the work on them, and returns them.
        """
    @property
    def failed(self) -> bool:
        """
        Whether `fail` was called, so that runs raise its reason.
        """
    @property
    def statistics(self) -> dict[str, typing.Any]:
        """
        Counters: the number of times slots received arrays; the total seconds spent working on slots, waiting for slots, and copying; and the number of bytes copied.
        """
    @property
    def waiting(self) -> bool:
        """
        Whether a run is waiting for other members of a sum.
        """
class ExecutionDescriptor:
    """
    Options of an asynchronous run: handlers, events to wait for and to signal, and whether the call waits.
    
        Handlers are called with (results, error), where error is None after success. Results are a list of arrays in the
        order of the targets; in runs of a graph, targets index them, as in `results[loss]`.
    
        Args:
            wait_until_completed: Whether the call returns only when the run has completed. Defaults to False.
            scheduled_handler: Function that is called when the run has been scheduled. Defaults to None.
            completed_handler: Function that is called when the run has completed. Defaults to None.
    
        Source: MPSGraphExecutionDescriptor.
    
        Example:
            >>> g, seen = mg.Graph(), []
            >>> x = g.placeholder((2,), name="x")
            >>> executable = g.compile({x: (2,)}, [x + 1.0])
            >>> def done(results, error):
            ...     seen.append(results[0].tolist())
            >>> how = mg.ExecutionDescriptor(completed_handler=done)
            >>> _ = executable.run_async([np.float32([1, 2])], descriptor=how).wait()
            >>> seen
            [[2.0, 3.0]]
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    completed_handler: typing.Any
    scheduled_handler: typing.Any
    wait_until_completed: bool
    def __init__(self, wait_until_completed: bool = False, scheduled_handler: typing.Any = None, completed_handler: typing.Any = None) -> None:
        """
        Create a descriptor. Handlers are called with (results, error), where error is None if the run succeeded.
        """
    def signal_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, at: str = 'completed') -> None:
        ...
    def wait_for_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Delay the run until the event reaches a value.
        
        Args:
            event: Event to wait for.
            value: Value that the event must reach.
            timeout: Maximum number of seconds to wait. None, the default, means the event's own timeout.
        """
class Execution:
    """
    A run that has been started; `results` waits for it to finish.
    
        `Graph.run_async` and `Executable.run_async` return executions.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((2,), name="x")
            >>> y = x * 3.0
            >>> started = g.run_async({x: np.float32([1, 2])}, y)
            >>> started.results.tolist(), started.done
            ([3.0, 6.0], True)
        
    """
    def __float__(self) -> float:
        """
        Wait for the run and return the first result, which must have one element, as a number.
        """
    def __getitem__(self, target: Tensor) -> NDArray:
        """
        Return the array of a target of the run, without waiting.
        
            The array has its contents when the run has completed. Until then, it can be fed to runs that wait for the event
            that this run signals.
            
        """
    def cancel(self) -> None:
        """
        Cancel the run, without waiting for it to end.
        
        The run ends before its next kernel, or within a long kernel, unless it finishes first. Variables then have their values
        from before the run, and waiting for the run raises CancelledError.
        """
    def wait(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> Execution:
        """
        Wait until the run has finished.
        
        Args:
            timeout: Maximum number of seconds to wait. None, the default, means no limit.
        
        Returns:
            The execution itself.
        
        Raises:
            TimeoutError: If the run does not finish in time.
            Error: Any error that the run itself raised.
        """
    @property
    def command_buffer(self) -> CommandBuffer:
        """
        The committed command buffer of the run.
        """
    @property
    def done(self) -> bool:
        """
        Whether the run has finished, successfully or not. Does not wait.
        """
    @property
    def error(self) -> typing.Any:
        """
        The exception that the run has raised, or None.
        """
    @property
    def pending_results(self) -> list[NDArray]:
        """
        The result arrays in the order of the targets, without waiting. An array may not be written yet, and is None while its shape is unknown.
        """
    @property
    def results(self) -> typing.Any:
        """
        The results, after waiting for the run. Their form is that of the method that started it: for Graph.run_async, the array of a single target or a dict of arrays keyed by target; for an Executable or a DeviceGraph, a list in the order of the targets. Raises the error of the run, if any.
        """
class Executable(Callee):
    """
    A program that is compiled from targets and target operations for one device and one type of each feed.
    
        A run takes arrays in the order of `feeds` and returns arrays in the order of `targets`, without any lookup.
        `Graph.compile` returns executables.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1,), name="x")
            >>> executable = g.compile({x: (2,)}, [x * 3.0])
            >>> executable.run([np.float32([1, 2])])[0].tolist()
            [3.0, 6.0]
            >>> executable.feed_types
            [(float32, (2,))]
        
    """
    def encode(self, command_buffer: CommandBuffer, inputs: collections.abc.Sequence[typing.Any], results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, copy: bool | None = None) -> list[NDArray]:
        """
        Encode a run to a command buffer, which the caller commits.
        
        Args:
            command_buffer: Command buffer of a queue on the executable's device.
            inputs: Arrays in the order of `feeds`.
            results: Arrays to write to, in the order of `targets`. None, the default, allocates them.
            descriptor: Handlers and events of the run. Defaults to None.
            copy: Handling of inputs that cannot be shared: None, the default, copies them; False raises ShapeError.
        
        Returns:
            A list of NDArrays in the order of `targets`, which are written when the command buffer has completed.
        """
    def kernel_names(self) -> list[str]:
        """
        Return the names of the kernels, in execution order.
        """
    def plan(self) -> str:
        """
        Return a human-readable description of kernels, buffers, and offsets.
        """
    def run(self, inputs: collections.abc.Sequence[typing.Any], results: collections.abc.Sequence[typing.Any] | None = None, queue: CommandQueue | None = None, copy: bool | None = None, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> list[NDArray]:
        """
        Run the executable and wait for the results.
        
        Args:
            inputs: Arrays in the order of `feeds`.
            results: Arrays to write to, in the order of `targets`. None, the default, allocates them.
            queue: Command queue to run on. None, the default, means the device's own queue.
            copy: Handling of inputs that cannot be shared: None, the default, copies them; False raises ShapeError.
            timeout: Maximum number of seconds to wait. A run that takes longer is cancelled, and variables keep their values.
                None, the default, means no limit.
        
        Returns:
            A list of NDArrays in the order of `targets`.
        
        Raises:
            TimeoutError: If the run does not end in time.
        """
    def run_async(self, inputs: collections.abc.Sequence[typing.Any], results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, queue: CommandQueue | None = None, copy: bool | None = None) -> Execution:
        ...
    def serialize(self, path: str, platform: str = 'macOS', minimum_deployment_target: str = '') -> None:
        """
        Write an MPSGraphPackage for applications (device metal only).
        
        Variables are frozen to their current values. The file PATH.json next to the package names its inputs and outputs.
        
        Args:
            path: Path of the package.
            platform: "macOS" (the default), "iOS", "tvOS", or "visionOS".
            minimum_deployment_target: Oldest supported version of the platform, for example "17.0". Defaults to "".
        
        Raises:
            UnsupportedError: On other devices, and before macOS 14.0.
        
        Source: serializeToMPSGraphPackageAtURL:descriptor:.
        """
    @property
    def bytes(self) -> int:
        """
        Size of the planned intermediates and constants in bytes.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def feed_types(self) -> list[tuple[typing.Any, ...]]:
        """
        The (dtype, shape) of each feed.
        """
    @property
    def feeds(self) -> list[Tensor]:
        ...
    @property
    def own_bytes(self) -> int:
        """
        The bytes of memory that only this executable uses, such as constants.
        """
    @property
    def shared_bytes(self) -> int:
        """
        The bytes of intermediate values, in memory that executables share.
        """
    @property
    def target_operations(self) -> list[Operation]:
        ...
    @property
    def target_types(self) -> list[tuple[typing.Any, ...]]:
        ...
    @property
    def targets(self) -> list[Tensor]:
        ...
class CompilationDescriptor:
    """
    Options of a compilation, such as compiler passes to skip and executables that the graph calls.
    
        Args:
            disabled_passes: Names of optional compiler passes to skip. Defaults to no passes.
            reference_kernels: Whether to use the plain kernels that serve as a reference. Defaults to False.
            observe: Function that is called as observe(pass_name, text) with the program after each pass. Defaults to None.
            callables: Dict from symbols for Graph.call to executables of other graphs or ends of an Exchange. Defaults to
                none.
            check_finite: Whether runs end with a CheckError at the first operation that produces NaN or an infinity.
                Defaults to False.
    
        Source: MPSGraphCompilationDescriptor.
    
        Example:
            >>> g, passes = mg.Graph(), []
            >>> x = g.placeholder((2,), name="x")
            >>> options = mg.CompilationDescriptor(
            ...     disabled_passes=["fuse_elementwise"], observe=lambda name, text: passes.append(name)
            ... )
            >>> _ = g.compile({x: (2,)}, [x + 1.0], options=options)
            >>> "fold" in passes, "fuse_elementwise" in passes
            (True, False)
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    check_finite: bool
    observe: typing.Any
    reference_kernels: bool
    def __init__(self, disabled_passes: collections.abc.Sequence[str] = (), reference_kernels: bool = False, observe: typing.Any = None, callables: collections.abc.Mapping[str, Callee] = {}, check_finite: bool = False) -> None:
        """
        Create a descriptor. `observe(pass_name, text)` is called with the program after each pass. `callables` are executables of other graphs, or ends of an Exchange, by the symbol that `call` operations use. With `check_finite`, a run ends with CheckError at the first operation that produces NaN or an infinity.
        """
    @property
    def callables(self) -> dict[str, Callee]:
        ...
    @callables.setter
    def callables(self, arg0: collections.abc.Mapping[str, Callee]) -> None:
        ...
    @property
    def disabled_passes(self) -> list[str]:
        ...
    @disabled_passes.setter
    def disabled_passes(self, arg0: collections.abc.Sequence[str]) -> None:
        ...
class DeviceGraph:
    """
    A graph on one device, with its own values of the variables and its own executables.
    
        `graph.on(device)` returns it.
    
        Args:
            graph: The graph.
            device: The device or its name. None, the default, means the default device.
    
        Raises:
            DeviceError: If this build has no such device.
    
        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1,), name="x")
            >>> y = x + 1.0
            >>> here = g.on("cpu")
            >>> here.run({x: np.float32([1, 2])}, [y])[0].tolist()
            [2.0, 3.0]
            >>> here.cache.compiles
            1
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __init__(self, graph: Graph, device: typing.Any = None) -> None:
        ...
    def clear_cache(self) -> None:
        ...
    def compile(self, feeds: dict[Tensor, tuple[typing.Any, ...]], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), options: CompilationDescriptor | None = None) -> Executable:
        """
        Return an executable, from the cache if an equal one was compiled before.
        
        Args:
            feeds: A dict of types (dtype, shape), keyed by placeholder.
            targets: Tensors to compute.
            target_operations: Operations to run in addition. Defaults to none.
            options: Options of the compilation. Defaults to None.
        
        Returns:
            An Executable.
        """
    def encode(self, command_buffer: CommandBuffer, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None) -> list[NDArray]:
        ...
    def run(self, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, queue: CommandQueue | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> list[NDArray]:
        """
        Run targets and target operations, and wait for the results.
        
        Args:
            feeds: A dict of arrays, keyed by placeholder.
            targets: Tensors to compute.
            target_operations: Operations to run in addition. Defaults to none.
            results: Arrays to write to, in the order of targets. None, the default, allocates them.
            queue: Command queue to run on. None, the default, means the device's own queue.
            copy: Handling of feeds that cannot be shared: None, the default, copies them; False raises ShapeError.
            options: Options of the compilation. Defaults to None.
            timeout: Maximum number of seconds to wait. A run that takes longer is cancelled, and variables keep their values.
                None, the default, means no limit.
        
        Returns:
            A list of NDArrays in the order of targets.
        """
    def run_async(self, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, queue: CommandQueue | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None, keyed_by: typing.Any = None) -> Execution:
        """
        Start a run of targets and target operations, and return immediately.
        
        Args:
            feeds: A dict of arrays, keyed by placeholder.
            targets: Tensors to compute.
            target_operations: Operations to run in addition. Defaults to none.
            results: Arrays to write to, in the order of targets. None, the default, allocates them.
            descriptor: Handlers and events of the run. Defaults to None.
            queue: Command queue to run on. None, the default, means the device's own queue.
            copy: Handling of feeds that cannot be shared: None, the default, copies them; False raises ShapeError.
            options: Options of the compilation. Defaults to None.
            keyed_by: A tensor or a sequence of tensors: the execution then returns the array of that tensor, or a dict of
                arrays keyed by tensor. None, the default, means a list in the order of targets.
        
        Returns:
            An Execution.
        """
    def set_cache_limits(self, count: typing.SupportsInt | typing.SupportsIndex, bytes: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def set_variable(self, variable: Tensor, value: typing.Any) -> None:
        ...
    def set_variables(self, values: dict[Tensor, typing.Any]) -> None:
        """
        Set the values of variables, given as a dict of arrays keyed by variable. Nothing changes unless all values fit. The Metal device copies all of them in one program.
        """
    def variable_value(self, variable: Tensor) -> NDArray:
        """
        Return a copy of a variable's value, after all work that was committed to the device's default queue.
        """
    def variable_values(self, variables: collections.abc.Sequence[Tensor]) -> list[NDArray]:
        """
        Return copies of the values of variables, in their order, after all work that was committed to the device's default queue. The Metal device copies all of them in one program.
        """
    @property
    def cache(self) -> CacheStatistics:
        """
        The current counters of the executable cache.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def exclusive_accesses(self) -> int:
        """
        The number of runs that assigned variables, of accesses to variables from the host, and of compilations. While it does not change, no variable changes.
        """
    @property
    def graph(self) -> Graph:
        ...
class ExecutableTemplate:
    """
    Two executables of graphs that differ only in sizes, as a function of the sizes.
    """
    @staticmethod
    def make(first: Executable, second: Executable, first_shapes: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]], second_shapes: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]) -> ExecutableTemplate | None:
        """
        Relate the sizes in two executables to the shapes of the graphs from which they were built.
        
        Args:
            first: An executable.
            second: An executable of the same graph with other sizes.
            first_shapes: The shapes of all values of the first graph.
            second_shapes: The shapes of the same values of the second graph, in the same order.
        
        Returns:
            An ExecutableTemplate, or None if the executables differ in more than sizes that occur in the shapes.
        """
    def executable(self, shapes: collections.abc.Sequence[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]]) -> Executable | None:
        """
        Return an executable for other sizes, without running the passes of the compiler.
        
        Args:
            shapes: The shapes of all values for these sizes, in the same order.
        
        Returns:
            An Executable of the first graph, or None if the graph must be compiled completely for these sizes.
        """
class TensorExchange:
    """
    Runs executables on the tensors of another framework.
    """
    def __init__(self, types: tuple[typing.Any, ...], questions: collections.abc.Sequence[str], prepare: collections.abc.Callable[..., typing.Any], team: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex] | None = None) -> None:
        """
        Create an exchange. `types` are tensor types, the first of which has `__dlpack_c_exchange_api__`. `questions` are names of methods; if one of them returns True, the tensor's memory does not hold its plain values. `prepare(tensor)` returns an array for a tensor that cannot be shared. `team` holds the addresses of GOMP_parallel and omp_get_max_threads, whose threads then help with short runs. Raises UnsupportedError if the first type does not provide these functions in version 1.
        """
    def run(self, executable: Executable, tensors: collections.abc.Sequence[typing.Any], places: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list[typing.Any]:
        """
        Run an executable. `places` has the index of the tensor for each feed. Return new tensors in the order of the targets.
        """
class NNParameterState:
    """
    Named parameters, gradients, or statistics of a batch or of a data source.
    """
    def __init__(self, arrays: dict[str, typing.Any]) -> None:
        """
        Create a state over float32 arrays, which are not copied.
        """
    def array(self, name: str) -> typing.Any:
        """
        Return the array with this name, which may not be written yet; None if there is none.
        """
    def array_for(self, name: str, command_buffer: CommandBuffer) -> typing.Any:
        """
        Return the array with this name, or None, for use in a command buffer. Earlier work on the same queue may still have to write it.
        """
    def read(self, name: str) -> typing.Any:
        """
        Return the array with this name, or None. Raises DeviceError if the command buffer that writes it has not completed.
        """
    @property
    def names(self) -> list[str]:
        ...
class NNOptimizer:
    """
    An optimizer of the legacy MPSNNGraph API.
    """
    def encode_arrays(self, command_buffer: CommandBuffer, gradients: collections.abc.Sequence[NDArray], values: collections.abc.Sequence[NDArray], moments: collections.abc.Sequence[collections.abc.Sequence[NDArray]], results: collections.abc.Sequence[NDArray]) -> None:
        ...
    @property
    def learning_rate(self) -> float:
        ...
    @learning_rate.setter
    def learning_rate(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    @property
    def moments(self) -> list[str]:
        ...
    @property
    def time_step(self) -> int:
        ...
    @time_step.setter
    def time_step(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
class NNSGD(NNOptimizer):
    def __init__(self, learning_rate: typing.SupportsFloat | typing.SupportsIndex, momentum_scale: typing.SupportsFloat | typing.SupportsIndex, use_nesterov_momentum: bool, gradient_rescale: typing.SupportsFloat | typing.SupportsIndex, gradient_clip: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex] | None, regularization_type: str, regularization_scale: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    @property
    def momentum_scale(self) -> float:
        ...
    @property
    def use_nesterov_momentum(self) -> bool:
        ...
class NNRMSProp(NNOptimizer):
    def __init__(self, learning_rate: typing.SupportsFloat | typing.SupportsIndex, decay: typing.SupportsFloat | typing.SupportsIndex, epsilon: typing.SupportsFloat | typing.SupportsIndex, gradient_rescale: typing.SupportsFloat | typing.SupportsIndex, gradient_clip: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex] | None, regularization_type: str, regularization_scale: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    @property
    def decay(self) -> float:
        ...
    @property
    def epsilon(self) -> float:
        ...
class NNAdam(NNOptimizer):
    def __init__(self, learning_rate: typing.SupportsFloat | typing.SupportsIndex, beta1: typing.SupportsFloat | typing.SupportsIndex, beta2: typing.SupportsFloat | typing.SupportsIndex, epsilon: typing.SupportsFloat | typing.SupportsIndex, time_step: typing.SupportsInt | typing.SupportsIndex, amsgrad: bool, gradient_rescale: typing.SupportsFloat | typing.SupportsIndex, gradient_clip: tuple[typing.SupportsFloat | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex] | None, regularization_type: str, regularization_scale: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    @property
    def beta1(self) -> float:
        ...
    @property
    def beta2(self) -> float:
        ...
    @property
    def epsilon(self) -> float:
        ...
class NNDataSource:
    """
    The source of a filter's parameters.
    """
    def array(self, name: str) -> typing.Any:
        """
        Return a parameter as of the last load, or None if there is none with this name.
        """
    def load(self) -> bool:
        ...
    def purge(self) -> None:
        ...
    @property
    def label(self) -> str:
        ...
    @property
    def optimizer(self) -> NNOptimizer:
        ...
class NNTrainableConvolution(NNDataSource):
    def __init__(self, descriptor: typing.Any, weights: typing.Any, bias_terms: typing.Any, optimizer: NNOptimizer | None, label: str, kernel_weights_data_type: typing.Any) -> None:
        ...
class NNStoredWeights(NNDataSource):
    def __init__(self, path: str, descriptor: typing.Any, weights: str, bias_terms: str, layout: str, label: str, kernel_weights_data_type: typing.Any) -> None:
        ...
class NNTrainableNormalization(NNDataSource):
    def __init__(self, kind: str, number_of_feature_channels: typing.SupportsInt | typing.SupportsIndex, number_of_groups: typing.SupportsInt | typing.SupportsIndex, epsilon: typing.SupportsFloat | typing.SupportsIndex, arrays: dict[str, typing.Any], momentum: typing.SupportsFloat | typing.SupportsIndex, optimizer: NNOptimizer | None, label: str) -> None:
        ...
class ImageNode:
    """
    A node for a batch of images: an input of the graph, or the result of a filter.
    
        Args:
            handle: Name of the node among the inputs of the graph. Defaults to None.
    
        Source: MPSNNImageNode.
    
        Example:
            >>> nn = mg.nngraph
            >>> image = nn.ImageNode("images")
            >>> nn.NNGraph(None, nn.NeuronReLUNode(image).result_image)(np.float32([[[[-1, 2]]]])).numpy().ravel().tolist()
            [0.0, 2.0]
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    export_from_graph: bool
    handle: str
    stop_gradient: bool
    synchronize_resource: bool
    def __init__(self, handle: str | None = None) -> None:
        """
        Create an input node. `handle` is its name among the inputs of the graph.
        """
    def __repr__(self) -> str:
        ...
    @property
    def format(self) -> str:
        """
        Storage format of the image: "none" (the graph's format), "float16", or "float32".
        """
    @format.setter
    def format(self, arg0: str) -> None:
        ...
class StateNode:
    """
    A node for state that a filter passes to its gradient filter (its result_state), or that is fed with each batch.
    
        Args:
            handle: Name of the node among the source states of the graph. Defaults to None.
    
        Source: MPSNNStateNode.
    
        Example:
            >>> nn = mg.nngraph
            >>> dropout = nn.DropoutNode(nn.ImageNode("x"))
            >>> isinstance(dropout.result_state, nn.StateNode)
            True
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    export_from_graph: bool
    handle: str
    synchronize_resource: bool
    def __init__(self, handle: str | None = None) -> None:
        """
        Create a state that is fed. `handle` is its name among the source states of the graph.
        """
    def __repr__(self) -> str:
        ...
class FilterNode:
    """
    Base class of all filter nodes, which are image filters and the gradient filters of image filters.
    
        Filters are created through the derived classes.
    
        Source: MPSNNFilterNode.
    
        Example:
            >>> nn = mg.nngraph
            >>> relu = nn.NeuronReLUNode(nn.ImageNode("x"))
            >>> slope = relu.gradient_filter(nn.ImageNode("gradient"))
            >>> isinstance(relu, nn.FilterNode), slope.is_gradient, slope.forward.kind
            (True, True, 'neuron_relu')
        
    """
    label: str
    def __init__(self, kind: str, sources: collections.abc.Sequence[ImageNode], attributes: dict[str, typing.Any], data_source: typing.Any, label: str, location: str) -> None:
        ...
    def __repr__(self) -> str:
        ...
    def gradient_filter(self, source: ImageNode) -> FilterNode:
        ...
    def gradient_filters(self, source: ImageNode) -> list[FilterNode]:
        ...
    def training_graph(self, source_gradient: ImageNode | None = None, node_handler: collections.abc.Callable[[FilterNode, typing.Any, ImageNode, ImageNode], None] | None = None) -> list[FilterNode]:
        ...
    @property
    def forward(self) -> FilterNode:
        """
        For a gradient filter, the filter that it differentiates.
        """
    @property
    def is_gradient(self) -> bool:
        ...
    @property
    def kind(self) -> str:
        ...
    @property
    def location(self) -> str:
        ...
    @property
    def padding_policy(self) -> str:
        ...
    @padding_policy.setter
    def padding_policy(self, arg0: typing.Any) -> None:
        ...
    @property
    def result_image(self) -> ImageNode:
        ...
    @property
    def result_state(self) -> StateNode:
        """
        The state with the gradients of the filter's parameters, or the mask of a dropout; None for other filters.
        """
    @property
    def source_state(self) -> StateNode:
        """
        The state that the filter reads; None if it reads no state.
        """
    @source_state.setter
    def source_state(self, arg0: StateNode) -> None:
        ...
    @property
    def sources(self) -> list[ImageNode]:
        ...
class NNGraphCore:
    """
    A runnable graph of filter nodes.
    """
    format: str
    def __init__(self, device: typing.Any, result_images: collections.abc.Sequence[ImageNode], results_are_needed: collections.abc.Sequence[bool]) -> None:
        ...
    def encode_batch(self, command_buffer: CommandBuffer, source_images: collections.abc.Sequence[NDArray], labels: collections.abc.Sequence[tuple[NDArray, NDArray | None]]) -> tuple[list[typing.Any], list[typing.Any], list[typing.Any], list[NNParameterState]]:
        """
        Encode a run and return (result images, intermediate images, losses) as arrays, and the result states. The command buffer has written all of them when it has completed.
        """
    def model(self, types: collections.abc.Sequence[tuple[typing.Any, ...]]) -> PackageContents:
        """
        Return the computation for images of these types (dtype, shape) as a graph, with the parameters as constants.
        """
    def reload_from_data_sources(self) -> None:
        ...
    @property
    def device(self) -> Device:
        ...
    @property
    def filters(self) -> list[FilterNode]:
        ...
    @property
    def intermediate_image_handles(self) -> list[str]:
        ...
    @property
    def result_images(self) -> list[ImageNode]:
        ...
    @property
    def result_state_handles(self) -> list[str]:
        ...
    @property
    def source_image_handles(self) -> list[str]:
        ...
    @property
    def source_images(self) -> list[ImageNode]:
        ...
    @property
    def source_state_handles(self) -> list[str]:
        ...
class Probe:
    """
    A question about a device that only a run on it can answer.
    """
    def ask(self) -> str:
        """
        Return the answer. If the device rejects the run, this raises or terminates the process.
        """
    @property
    def meaning(self) -> str:
        """
        What each answer implies for the code.
        """
    @property
    def method(self) -> str:
        """
        How the probe determines the answer.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def question(self) -> str:
        ...
class SerializedExecutable:
    """
    An executable read from a file that Executable.serialize() wrote; on the Metal device, an MPSGraphPackage.
    
        Args:
            path: Path of the package.
            device: The device or its name. None, the default, means the default device.
    
        Raises:
            PackageError: If the package is missing or damaged.
            UnsupportedError: If the device has no serialized form.
    
        Example:
            >>> try:
            ...     mg.SerializedExecutable("net.mpsgraphpackage", "cpu")
            ... except mg.Error as error:
            ...     print(isinstance(error, (mg.UnsupportedError, mg.PackageError)))
            True
        
    """
    __signature__: typing.ClassVar[inspect.Signature]
    """
    Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__.
    """
    def __init__(self, path: str, device: typing.Any = None) -> None:
        """
        Load a serialized executable. Raises PackageError if the package is missing or damaged, and UnsupportedError if the device has no serialized form.
        """
    def run(self, inputs: collections.abc.Sequence[typing.Any]) -> list[NDArray]:
        """
        Run the executable and wait for the results.
        
        Args:
            inputs: Arrays in the order of `feeds`.
        
        Returns:
            A list of NDArrays in the order of `targets`.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def feeds(self) -> list[tuple[typing.Any, ...]]:
        """
        The (name, (dtype, shape)) of each feed.
        """
    @property
    def targets(self) -> list[tuple[typing.Any, ...]]:
        """
        The (name, (dtype, shape)) of each target.
        """
class Matrix:
    """
    A matrix over existing memory. mpsgraph.nngraph.Matrix wraps this class.
    """
    @typing.overload
    def __init__(self, array: typing.Any) -> None:
        """
        Create a matrix over an array of shape [rows, columns] or [matrices, rows, columns].
        """
    @typing.overload
    def __init__(self, buffer: typing.Any, rows: typing.SupportsInt | typing.SupportsIndex, columns: typing.SupportsInt | typing.SupportsIndex, matrices: typing.SupportsInt | typing.SupportsIndex, row_bytes: typing.SupportsInt | typing.SupportsIndex, matrix_bytes: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, offset: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Create a matrix over a buffer, or over new memory of zeros if buffer is a device.
        """
    @property
    def array(self) -> NDArray:
        ...
    @property
    def columns(self) -> int:
        ...
    @property
    def dtype(self) -> DType:
        ...
    @property
    def matrices(self) -> int:
        ...
    @property
    def matrix_bytes(self) -> int:
        ...
    @property
    def offset(self) -> int:
        ...
    @property
    def row_bytes(self) -> int:
        ...
    @property
    def rows(self) -> int:
        ...
class Vector:
    """
    A vector over existing memory. mpsgraph.nngraph.Vector wraps this class.
    """
    @typing.overload
    def __init__(self, array: typing.Any) -> None:
        """
        Create a vector over an array of shape [length] or [vectors, length].
        """
    @typing.overload
    def __init__(self, buffer: typing.Any, length: typing.SupportsInt | typing.SupportsIndex, vectors: typing.SupportsInt | typing.SupportsIndex, vector_bytes: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, offset: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Create a vector over a buffer, or over new memory of zeros if buffer is a device.
        """
    @property
    def array(self) -> NDArray:
        ...
    @property
    def dtype(self) -> DType:
        ...
    @property
    def length(self) -> int:
        ...
    @property
    def offset(self) -> int:
        ...
    @property
    def vector_bytes(self) -> int:
        ...
    @property
    def vectors(self) -> int:
        ...
class RecurrentDescriptor:
    """
    Description of a recurrent layer, with the weights read from its data source.
    """
    backward: bool
    diagonal_memory: bool
    flip_output_gates: bool
    float32_weights: bool
    identity_input: bool
    def __init__(self, cell: typing.SupportsInt | typing.SupportsIndex, inputs: typing.SupportsInt | typing.SupportsIndex, outputs: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Create a descriptor. `cell` is 0 for a single gate, 1 for LSTM, and 2 for GRU.
        """
    def set_neuron(self, gate: typing.SupportsInt | typing.SupportsIndex, type: str, a: typing.SupportsFloat | typing.SupportsIndex, b: typing.SupportsFloat | typing.SupportsIndex, c: typing.SupportsFloat | typing.SupportsIndex) -> None:
        """
        Set the activation of a gate; gate -1 is the activation from the cell to the output.
        """
    def set_weights(self, gate: typing.SupportsInt | typing.SupportsIndex, kind: typing.SupportsInt | typing.SupportsIndex, array: typing.Any) -> None:
        """
        Copy the weights of a gate. `kind` is 0 for input, 1 for recurrent, 2 for memory, and 3 for bias.
        """
    @property
    def p_norm(self) -> float:
        ...
    @p_norm.setter
    def p_norm(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
class RNNMatrixTrainingState:
    """
    The values that one step of a forward sequence stores for the computation of gradients.
    
        `RNNMatrixTrainingLayer.encode_forward_sequence` appends one state for each step to its argument training_states.
    
        Source: MPSRNNMatrixTrainingState.
    
        Example:
            >>> mg.nngraph.RNNMatrixTrainingState.step.__doc__
            'Index of the time step, starting at 0.'
        
    """
    @property
    def step(self) -> int:
        """
        Index of the time step, starting at 0.
        """
class RecurrentTrainingLayer:
    """
    A recurrent layer for training. mpsgraph.nngraph.RNNMatrixTrainingLayer wraps this class.
    """
    accumulate_weight_gradients: bool
    store_all_intermediate_states: bool
    def __init__(self, device: typing.Any, descriptor: RecurrentDescriptor) -> None:
        ...
    def encode_copy_weights(self, command_buffer: CommandBuffer, weights: typing.Any, matrix_id: typing.SupportsInt | typing.SupportsIndex, matrix: Matrix, copy_from_weights_to_matrix: bool, row: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def encode_forward(self, command_buffer: CommandBuffer, sources: typing.Any, source_offsets: typing.Any, destinations: typing.Any, destination_offsets: typing.Any, weights: typing.Any, input_state: collections.abc.Sequence[tuple[typing.Any, typing.Any]] | None, gives_states: bool) -> tuple[list[RNNMatrixTrainingState], list[tuple[typing.Any, ...]]]:
        ...
    def encode_gradient(self, command_buffer: CommandBuffer, forward_sources: typing.Any, forward_source_offsets: typing.Any, source_gradients: typing.Any, source_gradient_offsets: typing.Any, destination_gradients: typing.Any, destination_offsets: typing.Any, weight_gradients: typing.Any, training_states: collections.abc.Sequence[RNNMatrixTrainingState], weights: typing.Any, input_state: collections.abc.Sequence[tuple[typing.Any, typing.Any]] | None, gives_states: bool) -> typing.Any:
        ...
    def initial_weights(self) -> list[NDArray]:
        ...
    def zeros(self, dtype: typing.Any) -> list[NDArray]:
        """
        Create weight gradients of the given dtype, or weights if dtype is None.
        """
    @property
    def compiled(self) -> int:
        """
        Number of executables compiled so far.
        """
    @property
    def form_count(self) -> int:
        """
        Number of executables in the cache.
        """
class RecurrentInferenceLayer:
    """
    Recurrent layers for inference. mpsgraph.nngraph.RNNMatrixInferenceLayer and RNNImageInferenceLayer wrap this class.
    """
    store_all_intermediate_states: bool
    def __init__(self, name: str, device: typing.Any, descriptors: collections.abc.Sequence[RecurrentDescriptor], images: bool) -> None:
        ...
    def encode_bidirectional_sequence(self, command_buffer: CommandBuffer, sources: typing.Any, forward: typing.Any, backward: typing.Any, images: bool) -> None:
        ...
    def encode_sequence(self, command_buffer: CommandBuffer, sources: typing.Any, source_offsets: typing.Any, destinations: typing.Any, destination_offsets: typing.Any, input_state: collections.abc.Sequence[tuple[typing.Any, typing.Any]] | None, gives_states: bool, images: bool) -> list[list[tuple[typing.Any, ...]]]:
        ...
    @property
    def combine_mode(self) -> int:
        """
        How the directions of a bidirectional layer are combined: 0 for none, 1 for add, 2 for concatenate.
        """
    @combine_mode.setter
    def combine_mode(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def compiled(self) -> int:
        """
        Number of executables compiled so far.
        """
    @property
    def form_count(self) -> int:
        """
        Number of executables in the cache.
        """
    @property
    def layer_count(self) -> int:
        ...
def amend_custom_operation(name: str, key: str, infer: typing.Any, gradient: typing.Any, threads: typing.Any, guard: bool) -> None:
    """
    Set Python functions of a registered operation. A function that is None is not changed.
    """
def apple_gradients(device: typing.Any, feeds: collections.abc.Sequence[Tensor], arrays: collections.abc.Sequence[typing.Any], of: Tensor) -> list[typing.Any]:
    """
    Return the gradients of `of` with respect to feeds, computed by the framework's own differentiation. The entry of a feed without a gradient is None.
    """
def asarray(array: typing.Any, dtype: typing.Any = None, copy: bool | None = None) -> NDArray:
    """
    Convert an object to an NDArray, sharing its memory if possible.
    
    Args:
        array: An array of any library that numpy or DLPack can read, a number, or nested lists.
        dtype: Element type of the result. None, the default, keeps the element type of the array.
        copy: None, the default, copies only if the memory cannot be shared; False raises an error instead; True always
            copies.
    
    Returns:
        An NDArray.
    
    Raises:
        ShapeError: If copy is False and the memory cannot be shared, or the object is not an array.
        DTypeError: If a dtype is not supported, or the array has a different dtype and must be converted first.
    
    Example:
        >>> x = np.float32([1, 2])
        >>> shared, own = mg.asarray(x), mg.asarray(x, copy=True)
        >>> x[0] = 5
        >>> shared.tolist(), own.tolist()
        ([5.0, 2.0], [1.0, 2.0])
    """
def buffer_statistics() -> dict[str, typing.Any]:
    """
    Return the memory in use and in the cache of freed blocks, for the process and all devices.
    """
def build_information() -> str:
    """
    Return the compiler, the C++ library, and the oldest macOS for which this module was built.
    """
def compile_seconds() -> float:
    """
    Return the time in seconds that this process has spent compiling, for all graphs.
    """
def copy_count() -> int:
    """
    Return the number of arrays that were copied because their memory could not be shared.
    
    Returns:
        The number of copies since the process started.
    
    Example:
        >>> before = mg.copy_count()
        >>> _ = mg.asarray([1.0, 2.0])
        >>> mg.copy_count() - before
        1
    """
def count_input(nodes: typing.SupportsInt | typing.SupportsIndex = 0, bytes: typing.SupportsInt | typing.SupportsIndex = 0, depth: typing.SupportsInt | typing.SupportsIndex = 0, what: str = 'the input') -> None:
    """
    Count input towards the limits, and raise LimitError if it exceeds one.
    """
def custom_operation_description(name: str, key: str = '') -> dict[str, typing.Any]:
    """
    Return the registry's entry for an operation. If the key is empty, return the newest entry of this name.
    """
def definition(kind: str) -> dict[str, typing.Any]:
    """
    Return the definition of a kind of operation.
    """
def definitions() -> list[dict[str, typing.Any]]:
    """
    Return the definition of every kind of operation.
    """
def device_limits(device: str) -> tuple[typing.Any, ...]:
    """
    Return the peak throughput of a device, which is measured on the first call.
    """
def documented_kinds() -> list[str]:
    """
    Return the kinds of operations that have a documentation text.
    """
def encode_images_to_matrix(command_buffer: CommandBuffer, device: typing.Any, images: typing.Any, matrix: Matrix, channels_first: bool, row: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Encode copies between images and the rows of a matrix, one row for each image.
    """
def encode_matrix_to_images(command_buffer: CommandBuffer, device: typing.Any, images: typing.Any, matrix: Matrix, channels_first: bool, row: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Encode copies between images and the rows of a matrix, one row for each image.
    """
def enter_limits(nodes: typing.SupportsInt | typing.SupportsIndex, depth: typing.SupportsInt | typing.SupportsIndex, bytes: typing.SupportsInt | typing.SupportsIndex, seconds: typing.SupportsFloat | typing.SupportsIndex) -> None:
    """
    Apply limits to the current thread, in addition to those that already apply. Negative values mean no limit.
    """
def exit_limits() -> None:
    """
    Remove the limits that were applied last.
    """
def expanded(graph: Graph, feeds: dict[Tensor, tuple[typing.Any, ...]], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), *, keep_attention: bool = False) -> dict[str, typing.Any]:
    """
    Extract the operations that targets depend on into a new graph with static shapes and without composite operations, except softmax cross-entropy and, if keep_attention, half-precision attention without a mask. `feeds` are placeholders with (dtype, shape). Return the graph, its feeds, targets, and variables, and source_variables, the matching variables of the original graph. Raises UnsupportedError if shapes depend on values.
    """
def from_dlpack(array: typing.Any) -> NDArray:
    """
    Create an NDArray that shares the memory of an array through DLPack.
    
    Args:
        array: An object with a method __dlpack__.
    
    Returns:
        An NDArray over the same memory.
    
    Raises:
        DTypeError: If the object does not support DLPack, or its dtype is not supported.
        GraphError: If __dlpack__ does not return a DLPack capsule.
    
    Example:
        >>> mg.from_dlpack(np.float32([1, 2])).tolist()
        [1.0, 2.0]
    """
def get_num_threads() -> int:
    """
    Return the number of threads that the kernels of the CPU device share.
    
    It is the counterpart of PyTorch's torch.get_num_threads.
    
    Returns:
        The number of threads.
    
    Example:
        >>> mg.get_num_threads() >= 1
        True
    """
def gradients(of: Tensor, with_respect_to: collections.abc.Sequence[Tensor], start: Tensor | None = None, unconnected: str = 'zeros') -> list[Tensor]:
    """
    Add the gradients of `of` with respect to each tensor to the graph.
    """
def history_depth(tensor: Tensor) -> int:
    """
    Return the number of enclosing loops that keep the tensor's values for a gradient, 0 for an ordinary tensor.
    """
def known_values(tensor: Tensor) -> list[int | None] | None:
    """
    Return the elements of a small integer tensor that are known before a run, with None for each unknown element.
    """
def library_version() -> str:
    """
    Return the version of the library.
    
    Returns:
        The version as a string, such as "0.1.0".
    
    Example:
        >>> mg.library_version() == mg.__version__
        True
    """
def load_custom_library(path: str) -> list[tuple[str, str]]:
    """
    Load a shared library, register its custom operations, and return their names and keys.
    """
def memory_statistics() -> dict[str, typing.Any]:
    """
    Return the memory in use, and its peak since the process started, in bytes.
    
    Memory that MPSGraph allocates internally cannot be counted. Arrays over memory of other libraries, such as fed numpy
    arrays, are not included.
    
    Returns:
        A dict keyed by device name, with an entry for each device that has been used and for "cpu", which includes memory
        of no particular device. Each value is a dict with the keys "arrays" (including variables and results), "arenas"
        (intermediate values of programs), "packed_weights" (constants of programs, packed as kernels read them), and
        "total", the sum of these three. Each of the four is a dict with the keys "current" and "peak". The key "cached"
        gives the bytes of freed blocks that are kept for the next array of their size.
    
    Example:
        >>> before = mg.memory_statistics()["cpu"]["arrays"]["current"]
        >>> kept = mg.asarray(np.zeros(1000, np.float32), copy=True)
        >>> mg.memory_statistics()["cpu"]["arrays"]["current"] >= before
        True
    """
def name_this_thread(name: str) -> None:
    """
    Set the name of this thread in profiles.
    """
def nn_count_copy() -> None:
    ...
def nn_node_definitions() -> list[dict[str, typing.Any]]:
    """
    Return the table of filters, grouped by family.
    """
def optimize_for_inference(graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], known: collections.abc.Sequence[tuple[typing.Any, ...]] = (), values: DeviceGraph | None = None) -> PackageContents:
    """
    Return the contents of an optimized graph. `known` are (placeholder, value) pairs.
    """
def parse(text: str) -> Graph:
    ...
def philox(key: typing.SupportsInt | typing.SupportsIndex, counter_low: typing.SupportsInt | typing.SupportsIndex = 0, counter_high: typing.SupportsInt | typing.SupportsIndex = 0, blocks: typing.SupportsInt | typing.SupportsIndex = 1) -> numpy.typing.NDArray[numpy.uint32]:
    """
    Return blocks of Philox 4x32-10, four words each. All random numbers are derived from such blocks.
    """
def prepare_package(path: str, types: collections.abc.Sequence[dict[str, typing.Any]], device: typing.Any = None) -> tuple[typing.Any, ...]:
    """
    Add the device's preprocessed constants to a package. `types` is a sequence of dicts of types keyed by input name, one dict for each combination of input types. Return (file, engine and processor, number of constants, bytes).
    """
def print_graph(graph: Graph, locations: bool = False, max_constant_elements: typing.SupportsInt | typing.SupportsIndex = -1) -> str:
    """
    Return the textual form of a graph.
    """
def probes(device: typing.Any) -> list[Probe]:
    """
    Return the probes of a device.
    """
def profile_session() -> int:
    """
    Return the number of records, or 0 if no profile is running.
    """
def quantized(graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], tensors: collections.abc.Sequence[tuple[typing.Any, ...]], per_channel: bool) -> PackageContents:
    """
    Return the contents of a quantized graph. `tensors` are (tensor, scale, zero_point, dtype).
    """
def register_custom_operation(name: str, key: str, attributes: collections.abc.Sequence[tuple[typing.Any, ...]], dtypes: collections.abc.Sequence[collections.abc.Sequence[typing.Any]], operands: typing.SupportsInt | typing.SupportsIndex, effect: bool, infer: typing.Any, gradient: typing.Any, threads: typing.Any, metal: str | None, function: str, kernel: typing.Any) -> None:
    """
    Register an operation that needs no library, because its kernel is a Python function or a Metal kernel.
    """
def rnn_matrix_ids() -> list[str]:
    ...
def save_package(path: str, graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], trainable: collections.abc.Sequence[Tensor], values: DeviceGraph | None = None, locations: bool = False, functions: dict[str, typing.Any] = {}, training: dict[str, typing.Any] = {}) -> None:
    """
    Write a package. `values` is the DeviceGraph that holds the variables' values; `functions` and `training` have the form that PackageContents returns.
    """
def set_buffer_cache_limit(bytes: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Set the limit of the cache of freed blocks in bytes; 0 returns freed memory to the system immediately.
    """
def set_num_threads(n: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Set the number of threads that the kernels of the CPU device share.
    
    The setting applies from the next kernel on, for all queues, and does not change results: kernels are divided into
    parts at the first compilation, for the number of threads at that time. It is the counterpart of PyTorch's
    torch.set_num_threads.
    
    Args:
        n: Number of threads. 0 means automatic: OMP_NUM_THREADS, or the number of processors that the process may use.
    
    Raises:
        DeviceError: If n is negative, or greater than the number of threads that kernels have been divided for.
    
    Example:
        >>> mg.set_num_threads(1)
        >>> mg.get_num_threads()
        1
        >>> mg.set_num_threads(0)
    """
def shutdown() -> None:
    """
    Finish all work and end the runtime's threads. Idempotent, and called at exit.
    """
def start_profile(capacity: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Start a profile. Raises DeviceError if one is already running.
    """
def stop_profile() -> Profile:
    """
    Stop the profile and return it. Raises DeviceError if none is running.
    """
def tensors_to_quantize(graph: Graph, outputs: collections.abc.Sequence[Tensor]) -> list[Tensor]:
    ...
def verify(graph: Graph) -> None:
    """
    Raise GraphError if the graph is not well formed.
    """
bfloat16: DType
bool_: DType
complex128: DType
complex64: DType
float16: DType
float32: DType
float64: DType
int16: DType
int32: DType
int64: DType
int8: DType
uint16: DType
uint32: DType
uint64: DType
uint8: DType
