"""
The C++ core of mpsgraph. Use the package mpsgraph.
"""
from __future__ import annotations
import builtins
import collections.abc
import numpy
import numpy.typing
import typing
import typing_extensions
__all__: list[str] = ['Autocast', 'Block', 'CacheStatistics', 'Callee', 'CheckError', 'CheckpointError', 'CommandBuffer', 'CommandQueue', 'CompilationDescriptor', 'ConstantData', 'DType', 'DTypeError', 'Device', 'DeviceError', 'DeviceGraph', 'Error', 'Exchange', 'Executable', 'Execution', 'ExecutionDescriptor', 'FilterNode', 'Graph', 'GraphError', 'ImageNode', 'Matrix', 'NDArray', 'NNAdam', 'NNDataSource', 'NNGraphCore', 'NNOptimizer', 'NNParameterState', 'NNRMSProp', 'NNSGD', 'NNStoredWeights', 'NNTrainableConvolution', 'NNTrainableNormalization', 'Operation', 'Origins', 'OutOfRangeError', 'PackageContents', 'PackageError', 'Probe', 'Profile', 'RNNMatrixTrainingState', 'RecurrentDescriptor', 'RecurrentInferenceLayer', 'RecurrentTrainingLayer', 'Semaphore', 'SerializedExecutable', 'ShapeError', 'SharedEvent', 'SharedSum', 'StateNode', 'Tensor', 'TensorExchange', 'TimeoutError', 'UnsupportedError', 'Vector', 'amend_custom_operation', 'apple_gradients', 'asarray', 'bfloat16', 'bool_', 'buffer_statistics', 'complex128', 'complex64', 'copy_count', 'custom_operation_description', 'definitions', 'device_limits', 'encode_images_to_matrix', 'encode_matrix_to_images', 'expanded', 'float16', 'float32', 'float64', 'from_dlpack', 'get_num_threads', 'gradients', 'history_depth', 'int16', 'int32', 'int64', 'int8', 'known_values', 'library_version', 'load_custom_library', 'memory_statistics', 'name_this_thread', 'nn_count_copy', 'nn_node_definitions', 'optimize_for_inference', 'parse', 'philox', 'prepare_package', 'print_graph', 'probes', 'profile_session', 'quantized', 'register_custom_operation', 'rnn_matrix_ids', 'save_package', 'set_buffer_cache_limit', 'set_num_threads', 'shutdown', 'start_profile', 'stop_profile', 'tensors_to_quantize', 'uint16', 'uint32', 'uint64', 'uint8', 'verify']
class Error(Exception):
    """
    Every error that mpsgraph raises on purpose. Each is also of the built-in class that one would expect.

    >>> try:
    ...     mg.Graph().constant([1.0]) + mg.Graph().constant([1.0])
    ... except mg.Error as error:
    ...     print(type(error).__name__, isinstance(error, ValueError))
    GraphError True
    """
class CheckError(Error, AssertionError):
    """
    A check of a run that did not hold, or with check_finite a number that is none.

    >>> try:
    ...     g = mg.Graph()
    ...     g.run({}, g.check(g.constant([1.0, -1.0]) > 0, 'must be positive', on=g.constant(1.0)))
    ... except mg.CheckError as error:
    ...     print(type(error).__name__)
    CheckError
    """
class CheckpointError(Error, ValueError):
    """
    A damaged or foreign checkpoint.

    >>> try:
    ...     mg.checkpoint.load("no such file")
    ... except mg.CheckpointError as error:
    ...     print(type(error).__name__)
    CheckpointError
    """
class DTypeError(Error, TypeError):
    """
    Element types that do not match or are not supported there.

    >>> try:
    ...     g = mg.Graph()
    ...     g.constant([1.0]) + g.constant([1], dtype="int32")
    ... except mg.DTypeError as error:
    ...     print(type(error).__name__)
    DTypeError
    """
class DeviceError(Error, RuntimeError):
    """
    The run itself: memory, queues, command buffers, fork.

    >>> try:
    ...     mg.Device("no such device")
    ... except mg.DeviceError as error:
    ...     print(type(error).__name__)
    DeviceError
    """
class GraphError(Error, ValueError):
    """
    Structure: foreign tensors, feeds, names, attributes, text that does not parse.

    >>> try:
    ...     mg.parse("no graph")
    ... except mg.GraphError as error:
    ...     print(type(error).__name__)
    GraphError
    """
class PackageError(Error, ValueError):
    """
    A damaged or foreign package, or one that cannot be written.

    >>> try:
    ...     mg.load("no such folder")
    ... except mg.PackageError as error:
    ...     print(type(error).__name__)
    PackageError
    """
class ShapeError(Error, ValueError):
    """
    Ranks, dimensions, sizes, axes that do not fit.

    >>> try:
    ...     g = mg.Graph()
    ...     g.constant([1.0, 2.0]) + g.constant([1.0, 2.0, 3.0])
    ... except mg.ShapeError as error:
    ...     print(type(error).__name__)
    ShapeError
    """
class OutOfRangeError(Error, IndexError):
    """
    Indices, class numbers, lengths outside of what they count.

    >>> try:
    ...     x, labels = np.ones((1, 2), np.float32), np.int32([7])
    ...     mg.Trainer(mg.nn.Linear(3)).train_step(x, labels).wait()
    ... except mg.OutOfRangeError as error:
    ...     print(type(error).__name__)
    OutOfRangeError
    """
class UnsupportedError(Error, NotImplementedError):
    """
    Valid, but this device cannot do it.

    >>> try:
    ...     g = mg.Graph()
    ...     x = g.placeholder((2,))
    ...     g.compile({x: (2,)}, [x + 1.0], device="cpu").serialize("net.mpsgraphpackage")
    ... except mg.UnsupportedError as error:
    ...     print(type(error).__name__)
    UnsupportedError
    """
class TimeoutError(DeviceError, builtins.TimeoutError):
    """
    An event or a command buffer that did not come in time.

    >>> try:
    ...     mg.SharedEvent().wait(1, timeout=0.01)
    ... except mg.TimeoutError as error:
    ...     print(type(error).__name__)
    TimeoutError
    """
class DType:
    """
    The type of a tensor's elements, e.g. mpsgraph.float32.
    
        Whatever takes one takes its name and numpy's dtype, too. All of them: bool_, int8 to int64, uint8 to uint64,
        float16, bfloat16, float32, float64, complex64 and complex128.
    
        >>> mg.float32 == mg.DType("float32") == mg.DType(np.float32)
        True
        >>> mg.bfloat16.itemsize, mg.bfloat16.is_float, mg.complex64.is_complex
        (2, True, True)
        
    """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, dtype: typing.Any) -> None:
        """
        From a name, a numpy dtype, or another DType. DTypeError for anything else.
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
        Bytes of one element.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def numpy(self) -> numpy.dtype[typing.Any]:
        """
        numpy's dtype; for bfloat16 that of ml_dtypes, or uint16 where it is not installed.
        """
class NDArray:
    """
    Memory with an element type, a shape and strides, shared with numpy and DLPack.
    
        Runs give such arrays and take them, as they take numpy's.
    
        >>> g = mg.Graph()
        >>> result = g.run({}, g.constant([[1.0, 2.0]]) * 2.0)
        >>> result.shape, result.dtype, result.tolist()
        ((1, 2), float32, [[2.0, 4.0]])
        >>> result.numpy().sum().item(), np.from_dlpack(result).shape  # views of the same memory
        (6.0, (1, 2))
        
    """
    def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any:
        ...
    def __bool__(self) -> bool:
        ...
    def __complex__(self) -> typing.Any:
        ...
    def __dlpack__(self, *, stream: typing.Any = None, max_version: typing.Any = None, dl_device: typing.Any = None, copy: bool | None = None) -> typing_extensions.CapsuleType:
        ...
    def __dlpack_device__(self) -> tuple[int, int]:
        ...
    def __float__(self) -> float:
        ...
    def __getitem__(self, key: typing.Any) -> typing.Any:
        """
        As numpy(): a view, or a number.
        """
    def __init__(self, shape: typing.Any, dtype: typing.Any = 'float32') -> None:
        """
        Filled with zeros.
        """
    def __int__(self) -> int:
        ...
    def __len__(self) -> int:
        ...
    def __repr__(self) -> str:
        ...
    def __setitem__(self, key: typing.Any, value: typing.Any) -> None:
        ...
    def copy(self) -> NDArray:
        """
        Contiguous memory of its own.
        """
    def copy_from(self, source: typing.Any) -> None:
        """
        Overwrites the elements with those of an array of the same shape and dtype.
        """
    def item(self) -> typing.Any:
        """
        The only element as a Python number.
        """
    def numpy(self) -> numpy.ndarray:
        """
        A view of the same memory; never a copy.
        """
    def tolist(self) -> typing.Any:
        ...
    @property
    def contiguous(self) -> bool:
        """
        Row-major without gaps.
        """
    @property
    def dtype(self) -> DType:
        ...
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
        How many elements.
        """
    @property
    def strides(self) -> tuple[typing.Any, ...]:
        """
        In bytes, as numpy's.
        """
    @property
    def writable(self) -> bool:
        ...
class ConstantData:
    """
    The value of a constant: immutable.
    """
    @staticmethod
    def drawn(draw: collections.abc.Callable[..., typing.Any]) -> ConstantData:
        """
        The array that a function gives, the same each time: its memory becomes the variable's, and it is drawn again for whoever asks later.
        """
    @staticmethod
    def splat(value: typing.Any, shape: typing.Any, dtype: typing.Any) -> ConstantData:
        """
        One number that stands for all elements.
        """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, value: typing.Any, dtype: typing.Any = None) -> None:
        """
        A copy of an array, or of uint16 bits for bfloat16.
        """
    def numpy(self) -> numpy.ndarray:
        """
        A copy.
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
    A loaded package, for one Graph to be made of.
    """
    def __init__(self, path: str, verify: bool = True) -> None:
        """
        PackageError for what is damaged.
        """
    def functions(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        (inputs, outputs, operations) by name.
        """
    def inputs(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        Placeholders by name, as tensors of the Graph that was made of this.
        """
    def outputs(self, graph: typing.Any) -> dict[str, typing.Any]:
        ...
    def parameters(self, graph: typing.Any) -> dict[str, typing.Any]:
        ...
    def trainable(self, graph: typing.Any) -> tuple[typing.Any, ...]:
        ...
    def training(self, graph: typing.Any) -> dict[str, typing.Any]:
        """
        How the functions make training steps; empty where none does.
        """
class Graph:
    """
    A symbolic graph: operations in the order they were made.
    """
    @typing.overload
    def __init__(self) -> None:
        ...
    @typing.overload
    def __init__(self, contents: PackageContents) -> None:
        """
        Of a package, once.
        """
    @typing.overload
    def __init__(self, text: str) -> None:
        """
        From its printed form. GraphError with line and column.
        """
    def abandon_block(self, block: Block) -> None:
        """
        Drops a block after an error.
        """
    def begin_block(self, argument_types: collections.abc.Sequence[tuple[typing.Any, ...]] = ()) -> Block:
        """
        Operations go to a new block from now on. Types are (dtype, shape).
        """
    def begin_control_dependencies(self, operations: collections.abc.Sequence[Operation]) -> None:
        """
        What is created from now on runs after these.
        """
    def create(self, kind: str, inputs: collections.abc.Sequence[Tensor], attributes: dict[str, typing.Any] = {}, name: str | None = None, blocks: collections.abc.Sequence[Block] = (), autocast: Autocast | None = None) -> Operation:
        """
        Appends an operation, operands cast by `autocast` if given; nothing changes when it raises.
        """
    def create_tensor(self, kind: str, inputs: collections.abc.Sequence[Tensor], attributes: dict[str, typing.Any] = {}, name: str | None = None, autocast: Autocast | None = None) -> Tensor:
        """
        As create(), of an operation without blocks: its first result.
        """
    def end_control_dependencies(self) -> None:
        ...
    def find(self, name: str) -> Operation | None:
        """
        The operation of that name, or None.
        """
    def finish_block(self, block: Block, results: collections.abc.Sequence[Tensor]) -> Block:
        """
        The block, ready for create().
        """
    def set_location(self, location: str) -> None:
        """
        Noted in the operations created from now on.
        """
    @property
    def operation_count(self) -> int:
        """
        How many were ever created, in blocks too.
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
    Casts operands of what is created through it; one for each graph and type.
    """
    def __init__(self, graph: Graph, low: DType) -> None:
        ...
class Block:
    """
    A list of operations with arguments and results, for control flow.
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
    One step of a graph.
    
        It has a kind, input tensors, attributes and output tensors, and remembers the line that built it. A run computes
        target operations as well as target tensors: assigns are such.
    
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
        Operations that run before this one.
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
        Creation number in its graph.
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
        Where it was built: "model.py:41".
        """
    @property
    def name(self) -> str:
        ...
    @property
    def outputs(self) -> list[Tensor]:
        ...
class Tensor:
    """
    One result of an operation: a symbol without a value.
    
        Python's operators, comparisons and numpy's basic indexing add operations to its graph; so do the graph's methods,
        which it reaches by `graph`. There is no value to ask for until a run: `bool(x)` and `float(x)` are errors.
    
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 3), name="x")
        >>> y = (2.0 * x + 1.0)[:, 0]
        >>> y.shape, y.dtype, y.graph is g
        ((-1,), float32, True)
        >>> g.run({x: np.ones((2, 3), np.float32)}, y).tolist()
        [3.0, 3.0]
        
    """
    __array_ufunc__ = None
    def __abs__(self) -> Tensor:
        ...
    def __add__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __and__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __array__(self, dtype: typing.Any = None, copy: typing.Any = None) -> typing.NoReturn:
        ...
    def __bool__(self) -> typing.NoReturn:
        ...
    def __eq__(self, other: typing.Any) -> typing.Any:
        ...
    def __float__(self) -> typing.NoReturn:
        ...
    def __floordiv__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __ge__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __getitem__(self, key: typing.Any) -> Tensor:
        """
        numpy's basic indexing: ints, slices, `...` and None. For index arrays there is `g.gather`.
        """
    def __gt__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __int__(self) -> typing.NoReturn:
        ...
    def __invert__(self) -> Tensor:
        ...
    def __iter__(self) -> typing.NoReturn:
        ...
    def __le__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __lshift__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __lt__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __matmul__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __mod__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __mul__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __ne__(self, other: typing.Any) -> typing.Any:
        ...
    def __neg__(self) -> Tensor:
        ...
    def __or__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __pos__(self) -> Tensor:
        ...
    def __pow__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __radd__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rand__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __reduce_ex__(self, protocol: typing.Any) -> typing.NoReturn:
        ...
    def __repr__(self) -> str:
        ...
    def __rfloordiv__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rlshift__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rmatmul__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rmod__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rmul__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __ror__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rpow__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rrshift__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rshift__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rsub__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rtruediv__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __rxor__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __sub__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __truediv__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    def __xor__(self, other: Tensor | bool | int | float | complex | numpy.generic) -> Tensor:
        ...
    @property
    def dtype(self) -> DType:
        ...
    @property
    def graph(self) -> Graph:
        ...
    @property
    def index(self) -> int:
        """
        Which result of its operation.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def operation(self) -> Operation:
        ...
    @property
    def shape(self) -> tuple[int, ...] | None:
        """
        Sizes, -1 where not known yet; None when not even the rank is known.
        """
    @property
    def type(self) -> tuple[typing.Any, ...]:
        """
        (dtype, shape)
        """
class Origins:
    """
    Which placeholders and arguments of blocks the operations of a graph depend on.
    """
    def __init__(self, graph: Graph) -> None:
        ...
    def of(self, operation: Operation) -> list[Operation]:
        """
        In the order of the graph.
        """
class Device:
    """
    A backend of this process: Device("cpu"), and on a Mac Device("metal"), which is the default there.
    
        Device metal has been verified over a mock of Apple's frameworks, by compiling for macOS and against Apple's
        interfaces; it has not yet run on Apple hardware (docs/metal.md).
    
        >>> "cpu" in mg.Device.names()
        True
        >>> mg.Device("cpu").name
        'cpu'
        
    """
    @staticmethod
    def default() -> Device:
        ...
    @staticmethod
    def names() -> list[str]:
        """
        The devices of this build.
        """
    def __eq__(self, arg0: typing.Any) -> bool:
        ...
    def __hash__(self) -> int:
        ...
    def __init__(self, name: str) -> None:
        """
        DeviceError when there is none.
        """
    def __repr__(self) -> str:
        ...
    @property
    def default_queue(self) -> CommandQueue:
        ...
    @property
    def description(self) -> str:
        """
        For people: processor, libraries, threads.
        """
    @property
    def name(self) -> str:
        ...
class SharedEvent:
    """
    A number that only grows, by which queues and the host order their work.
    
        Source: MTLSharedEvent.
    
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
    def __init__(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = 60.0) -> None:
        """
        `timeout`: seconds that waits take at most by default; None for no limit.
        """
    def signal(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Raises the value; one that was passed already changes nothing.
        """
    def wait(self, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Until the value is reached. TimeoutError; DeviceError when what was to signal it failed.
        """
    @property
    def signaled_value(self) -> int:
        ...
    @property
    def timeout(self) -> float | None:
        ...
class Semaphore:
    """
    A counter that limits how many steps are in flight.
    
        >>> semaphore = mg.Semaphore(2)
        >>> semaphore.wait()
        >>> semaphore.value
        1
        >>> semaphore.signal()
        >>> semaphore.value
        2
        
    """
    def __init__(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def signal(self) -> None:
        ...
    def wait(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Takes one, when there is one. TimeoutError.
        """
    @property
    def value(self) -> int:
        ...
class CommandQueue:
    """
    Runs command buffers in order, beside other queues.
    
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
    def __init__(self, device: typing.Any = None) -> None:
        ...
    def close(self) -> None:
        """
        Takes no more work, cancels event waits, finishes what was committed.
        """
    def command_buffer(self) -> CommandBuffer:
        ...
    @property
    def device(self) -> Device:
        ...
class CommandBuffer:
    """
    Work, waits and signals, committed once.
    
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
        handler(command_buffer), when its work is done or has failed.
        """
    def add_scheduled_handler(self, handler: collections.abc.Callable[..., typing.Any]) -> None:
        """
        handler(command_buffer), when the queue reaches it.
        """
    def commit(self) -> None:
        """
        DeviceError the second time.
        """
    def encode_signal_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def encode_wait_for_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        ...
    def wait_until_completed(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        Until work and handlers are done. Raises what they raised; TimeoutError.
        """
    @property
    def done(self) -> bool:
        ...
    @property
    def error(self) -> typing.Any:
        """
        An exception, or None.
        """
    @property
    def queue(self) -> CommandQueue:
        ...
    @property
    def status(self) -> str:
        """
        "not_enqueued", "committed", "scheduled", "completed" or "error".
        """
class Profile:
    """
    What was recorded; mpsgraph.profiler makes it readable.
    """
    def chrome_trace(self) -> str:
        """
        JSON in Chrome's trace event format.
        """
    def contents(self) -> tuple[typing.Any, ...]:
        ...
    @property
    def dropped(self) -> int:
        """
        Records that made room for newer ones.
        """
    @property
    def duration(self) -> int:
        """
        Nanoseconds.
        """
    @property
    def threads(self) -> dict[int, str]:
        """
        Names by number.
        """
class Callee:
    """
    What operations `call` by a symbol: an executable of another graph, or an end of an Exchange.
    """
class SharedSum:
    """
    The sum of the arrays of several processes of one machine, in memory that all of them map.
    """
    class Mark:
        """
        What a member has done in a round.
        
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
        How large the file must be.
        """
    def __init__(self, descriptor: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, elements: typing.SupportsInt | typing.SupportsIndex, members: typing.SupportsInt | typing.SupportsIndex, own: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Maps a file of `bytes` zeros, which may be closed afterwards; `own`: which member this process is.
        """
    def add(self) -> None:
        """
        Adds up this member's part, of float32 and float64.
        """
    def contribution(self) -> NDArray:
        """
        This member's memory.
        """
    def own_part(self) -> NDArray:
        """
        The same elements of the total.
        """
    def own_part_of(self, member: typing.SupportsInt | typing.SupportsIndex) -> NDArray:
        """
        Of a member's contribution, the elements that this one adds up.
        """
    def post(self) -> None:
        """
        This member's contribution is there: a round begins.
        """
    def reach(self, mark: SharedSum.Mark) -> None:
        """
        This member has done so much of the round.
        """
    def total(self) -> NDArray:
        """
        The sum's memory.
        """
    def wait(self, mark: SharedSum.Mark, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> bool:
        """
        Until all members have done so much of the round; False when the time is over.
        """
    def wait_for(self, member: typing.SupportsInt | typing.SupportsIndex, mark: SharedSum.Mark, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> bool:
        """
        The same, of one member.
        """
class Exchange:
    """
    Arrays that a run hands to another thread in its middle, and takes back further on.
    """
    def __init__(self) -> None:
        ...
    def add(self, name: str, types: collections.abc.Sequence[tuple[typing.Any, ...]]) -> int:
        """
        A new slot for arrays of these types, (dtype, shape) each and of one dtype; its number. `name` is what profiles call the work on it.
        """
    def close(self) -> None:
        """
        No more work: next() gives None, and runs raise DeviceError.
        """
    def done(self, slot: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        The work on it is done: whoever takes it goes on.
        """
    def fail(self, reason: str) -> None:
        """
        Runs that give or take, now or later, raise DeviceError with this reason.
        """
    def giver(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        Takes the slot's arrays and gives nothing; does not wait.
        """
    def memory(self, slot: typing.SupportsInt | typing.SupportsIndex) -> NDArray:
        """
        All elements of a slot, of rank 1. They are the worker's between next() and done().
        """
    def next(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> int | None:
        """
        The slot that was given next, for the thread that works on it; None when the time is over, or after close().
        """
    def share(self, slot: typing.SupportsInt | typing.SupportsIndex, sum: SharedSum) -> None:
        """
        From now on runs write to a contribution and read the total; what was given is posted. Between next() and done().
        """
    def taker(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        Gives the slot's arrays when the work on them is done, for which it waits.
        """
    def through(self, slot: typing.SupportsInt | typing.SupportsIndex) -> Callee:
        """
        The two at once: takes, waits, and gives.
        """
    @property
    def failed(self) -> bool:
        """
        Do runs raise what `fail` was given?
        """
    @property
    def statistics(self) -> dict[str, typing.Any]:
        """
        How many slots were given; seconds in all: of work on them, that takers waited, of copies; and what was copied.
        """
    @property
    def waiting(self) -> bool:
        """
        Does a run wait for other members of a sum?
        """
class ExecutionDescriptor:
    """
    What shall happen around a run.
    
        Handlers, events that it waits for and signals, and whether the call waits. Source: MPSGraphExecutionDescriptor.
    
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
    completed_handler: typing.Any
    scheduled_handler: typing.Any
    wait_until_completed: bool
    def __init__(self, wait_until_completed: bool = False, scheduled_handler: typing.Any = None, completed_handler: typing.Any = None) -> None:
        """
        Handlers are called with (results, error); error is None after success.
        """
    def signal_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, at: str = 'completed') -> None:
        ...
    def wait_for_event(self, event: SharedEvent, value: typing.SupportsInt | typing.SupportsIndex, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> None:
        """
        The run starts when the event has this value.
        """
class Execution:
    """
    A run that has been started; `results` waits for it.
    
        >>> g = mg.Graph()
        >>> x = g.placeholder((2,), name="x")
        >>> y = x * 3.0
        >>> started = g.run_async({x: np.float32([1, 2])}, y)
        >>> started.results.tolist(), started.done
        ([3.0, 6.0], True)
        
    """
    def __float__(self) -> float:
        """
        Waits; the first result, which must have one element, as a number.
        """
    def wait(self, timeout: typing.SupportsFloat | typing.SupportsIndex | None = None) -> Execution:
        """
        Waits, at most `timeout` seconds. Result: itself. Errors: TimeoutError, and whatever the run raised.
        """
    @property
    def command_buffer(self) -> CommandBuffer:
        """
        The committed command buffer behind it.
        """
    @property
    def done(self) -> bool:
        """
        Has it finished, well or not? Never waits.
        """
    @property
    def error(self) -> typing.Any:
        """
        What the run raised, if anything yet: an exception, or None.
        """
    @property
    def pending_results(self) -> list[NDArray]:
        """
        Does not wait: the arrays, in the order of the targets, may not be written yet, and are None while not even their shape is known.
        """
    @property
    def results(self) -> typing.Any:
        """
        As the run returns them: Graph.run's, the array of one target or a dict by target; an Executable's and a DeviceGraph's, a list in the order of the targets. Waits. Errors: whatever the run raised.
        """
class Executable(Callee):
    """
    Targets and target operations, compiled for one device and one type of each feed.
    
        A run takes arrays in the order of `feeds` and gives those of `targets`; nothing is looked up.
    
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
        The results, written when the command buffer has run.
        """
    def kernel_names(self) -> list[str]:
        """
        In execution order.
        """
    def plan(self) -> str:
        """
        For people: kernels, buffers, offsets.
        """
    def run(self, inputs: collections.abc.Sequence[typing.Any], results: collections.abc.Sequence[typing.Any] | None = None, queue: CommandQueue | None = None, copy: bool | None = None) -> list[NDArray]:
        """
        Inputs in the order of `feeds`, results in the order of `targets`.
        """
    def run_async(self, inputs: collections.abc.Sequence[typing.Any], results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, queue: CommandQueue | None = None, copy: bool | None = None) -> Execution:
        ...
    def serialize(self, path: str, platform: str = 'macOS', minimum_deployment_target: str = '') -> None:
        """
        On device metal: writes an MPSGraphPackage for applications, with variables frozen to their values now, and beside it PATH.json, which names its inputs and outputs. `platform`: "macOS", "iOS", "tvOS" or "visionOS"; `minimum_deployment_target`: of that system, e.g. "17.0". UnsupportedError on other devices and before macOS 14.0. Source: serializeToMPSGraphPackageAtURL:descriptor:.
        """
    @property
    def bytes(self) -> int:
        """
        Planned intermediates and constants.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def feed_types(self) -> list[tuple[typing.Any, ...]]:
        """
        (dtype, shape) of each feed.
        """
    @property
    def feeds(self) -> list[Tensor]:
        ...
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
    How to compile.
    
        Passes that shall not run, plain kernels for reference, and executables that `Graph.call` calls by name; `observe`
        sees the program behind each pass. Source: MPSGraphCompilationDescriptor.
    
        >>> g, passes = mg.Graph(), []
        >>> x = g.placeholder((2,), name="x")
        >>> how = mg.CompilationDescriptor(disabled_passes=["fuse_elementwise"], observe=lambda name, text: passes.append(name))
        >>> _ = g.compile({x: (2,)}, [x + 1.0], options=how)
        >>> "fold" in passes, "fuse_elementwise" in passes
        (True, False)
        
    """
    check_finite: bool
    observe: typing.Any
    reference_kernels: bool
    def __init__(self, disabled_passes: collections.abc.Sequence[str] = (), reference_kernels: bool = False, observe: typing.Any = None, callables: collections.abc.Mapping[str, Callee] = {}, check_finite: bool = False) -> None:
        """
        `observe(pass_name, text)` is called with the program after each pass; `callables` are executables of other graphs, or ends of an Exchange, by the symbol under which operations `call` them. `check_finite`: the run ends with CheckError at the first operation that makes a NaN or an infinity.
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
class CacheStatistics:
    """
    What an executable cache holds and has done.
    
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
        Spent compiling.
        """
class DeviceGraph:
    """
    A graph on one device: its variables' values and its executables.
    
        `graph.on(device)` gives it. Each device has values of its own.
    
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1,), name="x")
        >>> y = x + 1.0
        >>> here = g.on("cpu")
        >>> here.run({x: np.float32([1, 2])}, [y])[0].tolist()
        [2.0, 3.0]
        >>> here.cache.compiles
        1
        
    """
    def __init__(self, graph: Graph, device: typing.Any = None) -> None:
        ...
    def clear_cache(self) -> None:
        ...
    def compile(self, feeds: dict[Tensor, tuple[typing.Any, ...]], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), options: CompilationDescriptor | None = None) -> Executable:
        """
        From the cache when the same was asked for before. Feeds are placeholders with (dtype, shape).
        """
    def encode(self, command_buffer: CommandBuffer, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None) -> list[NDArray]:
        ...
    def run(self, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, queue: CommandQueue | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None) -> list[NDArray]:
        """
        Results in the order of the targets. copy: None copies feeds that cannot be shared, False refuses them.
        """
    def run_async(self, feeds: dict[Tensor, typing.Any], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = (), results: collections.abc.Sequence[typing.Any] | None = None, descriptor: ExecutionDescriptor | None = None, queue: CommandQueue | None = None, copy: bool | None = None, options: CompilationDescriptor | None = None, keyed_by: typing.Any = None) -> Execution:
        """
        keyed_by: the execution gives its results for these targets as Graph.run does; None: as a list.
        """
    def set_cache_limits(self, count: typing.SupportsInt | typing.SupportsIndex, bytes: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def set_variable(self, variable: Tensor, value: typing.Any) -> None:
        ...
    def variable_value(self, variable: Tensor) -> NDArray:
        """
        A copy, after what was committed to the device's default queue.
        """
    @property
    def cache(self) -> CacheStatistics:
        """
        The counters as they are now.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def graph(self) -> Graph:
        ...
class TensorExchange:
    """
    Runs executables over the tensors of another framework.
    """
    def __init__(self, types: tuple[typing.Any, ...], questions: collections.abc.Sequence[str], prepare: collections.abc.Callable[..., typing.Any], team: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex] | None = None) -> None:
        """
        `types`: of tensors, the first of which has `__dlpack_c_exchange_api__`; `questions`: names of methods, one of which says True where memory is not what it looks like; `prepare(tensor)` gives an array for what cannot be shared; `team`: addresses of GOMP_parallel and omp_get_max_threads, whose threads then help in short runs. UnsupportedError when the type has no such functions of version 1.
        """
    def run(self, executable: Executable, tensors: collections.abc.Sequence[typing.Any], places: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list[typing.Any]:
        """
        `places`: which tensor each feed takes. Result: new tensors in the order of the targets.
        """
class NNParameterState:
    """
    Parameters, their gradients or statistics, by name; of one batch or a source's.
    """
    def __init__(self, arrays: dict[str, typing.Any]) -> None:
        """
        Over the given float32 arrays, which are not copied.
        """
    def array(self, name: str) -> typing.Any:
        """
        The array of that name, perhaps not written yet; None when there is none.
        """
    def array_for(self, name: str, command_buffer: CommandBuffer) -> typing.Any:
        """
        The same, for work that is encoded to a command buffer: what its own queue is to write is there by then.
        """
    def read(self, name: str) -> typing.Any:
        """
        The same; DeviceError while the command buffer that writes it is not done.
        """
    @property
    def names(self) -> list[str]:
        ...
class NNOptimizer:
    """
    An optimizer of the older path.
    """
    def encode_arrays(self, command_buffer: CommandBuffer, gradients: collections.abc.Sequence[NDArray], values: collections.abc.Sequence[NDArray], moments: collections.abc.Sequence[collections.abc.Sequence[NDArray]], results: collections.abc.Sequence[NDArray]) -> None:
        ...
    @property
    def learning_rate(self) -> float:
        ...
    @learning_rate.setter
    def learning_rate(self, arg1: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
    @property
    def moments(self) -> list[str]:
        ...
    @property
    def time_step(self) -> int:
        ...
    @time_step.setter
    def time_step(self, arg1: typing.SupportsInt | typing.SupportsIndex) -> None:
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
    Where a filter's parameters come from.
    """
    def array(self, name: str) -> typing.Any:
        """
        A parameter as it was at the last load; None when there is none.
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
    A place for a batch of images: an input, or what a filter makes. Source: MPSNNImageNode.
    
        Args: handle, its name among the graph's inputs.
    
        >>> nn = mg.nngraph
        >>> image = nn.ImageNode("images")
        >>> nn.NNGraph(None, nn.NeuronReLUNode(image).result_image)(np.float32([[[[-1, 2]]]])).numpy().ravel().tolist()
        [0.0, 2.0]
        
    """
    export_from_graph: bool
    handle: str
    stop_gradient: bool
    synchronize_resource: bool
    def __init__(self, handle: str | None = None) -> None:
        """
        handle: its name among the graph's inputs.
        """
    def __repr__(self) -> str:
        ...
    @property
    def format(self) -> str:
        """
        How its numbers are stored: "none" (as the graph says), "float16" or "float32".
        """
    @format.setter
    def format(self, arg1: str) -> None:
        ...
class StateNode:
    """
    What a filter leaves for its gradient filter: its result_state; or a state that comes with each batch.
    
        Args: handle, its name among the graph's source states. Source: MPSNNStateNode.
    
        >>> nn = mg.nngraph
        >>> dropout = nn.DropoutNode(nn.ImageNode("x"))
        >>> isinstance(dropout.result_state, nn.StateNode)
        True
        
    """
    export_from_graph: bool
    handle: str
    synchronize_resource: bool
    def __init__(self, handle: str | None = None) -> None:
        """
        handle: its name among the graph's source states.
        """
    def __repr__(self) -> str:
        ...
class FilterNode:
    """
    A filter over images, or the gradient filter of one. Source: MPSNNFilterNode.
    
        All nodes are such; none is made by itself.
    
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
        Of a gradient filter: what it derives.
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
    def padding_policy(self, arg1: typing.Any) -> None:
        ...
    @property
    def result_image(self) -> ImageNode:
        ...
    @property
    def result_state(self) -> StateNode:
        """
        Where it leaves gradients of its parameters, or a dropout's mask; else None.
        """
    @property
    def source_state(self) -> StateNode:
        """
        A state that it reads; None for none.
        """
    @source_state.setter
    def source_state(self, arg1: StateNode) -> None:
        ...
    @property
    def sources(self) -> list[ImageNode]:
        ...
class NNGraphCore:
    """
    Nodes as something that runs.
    """
    format: str
    def __init__(self, device: typing.Any, result_images: collections.abc.Sequence[ImageNode], results_are_needed: collections.abc.Sequence[bool]) -> None:
        ...
    def encode_batch(self, command_buffer: CommandBuffer, source_images: collections.abc.Sequence[NDArray], labels: collections.abc.Sequence[tuple[NDArray, NDArray | None]]) -> tuple[list[typing.Any], list[typing.Any], list[typing.Any], list[NNParameterState]]:
        """
        (result images, intermediate images, losses) as arrays, and result states; written when the command buffer has run.
        """
    def model(self, types: collections.abc.Sequence[tuple[typing.Any, ...]]) -> PackageContents:
        """
        What the graph computes of images of these types (dtype, shape), with its parameters as constants.
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
    A question that only a run on the device answers.
    """
    def ask(self) -> str:
        """
        The answer. What the device refuses raises, or ends the process.
        """
    @property
    def meaning(self) -> str:
        """
        What each answer would change in the code.
        """
    @property
    def method(self) -> str:
        """
        How it is asked.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def question(self) -> str:
        ...
class SerializedExecutable:
    """
    An executable that Executable.serialize() wrote: on device metal an MPSGraphPackage.
    
        Errors: PackageError for what is missing or damaged; UnsupportedError on a device without such a form.
    
        >>> try:
        ...     mg.SerializedExecutable("net.mpsgraphpackage", "cpu")
        ... except mg.Error as error:
        ...     print(isinstance(error, (mg.UnsupportedError, mg.PackageError)))
        True
        
    """
    def __init__(self, path: str, device: typing.Any = None) -> None:
        """
        PackageError for what is missing or damaged; UnsupportedError on a device without such a form.
        """
    def run(self, inputs: collections.abc.Sequence[typing.Any]) -> list[NDArray]:
        """
        Inputs in the order of `feeds`, results in the order of `targets`.
        """
    @property
    def device(self) -> Device:
        ...
    @property
    def feeds(self) -> list[tuple[typing.Any, ...]]:
        """
        (name, (dtype, shape)) of each.
        """
    @property
    def targets(self) -> list[tuple[typing.Any, ...]]:
        """
        (name, (dtype, shape)) of each.
        """
class Matrix:
    """
    Rows and columns over memory; mpsgraph.nngraph.Matrix is its face.
    """
    @typing.overload
    def __init__(self, array: typing.Any) -> None:
        """
        Over an array [rows, columns] or [matrices, rows, columns].
        """
    @typing.overload
    def __init__(self, buffer: typing.Any, rows: typing.SupportsInt | typing.SupportsIndex, columns: typing.SupportsInt | typing.SupportsIndex, matrices: typing.SupportsInt | typing.SupportsIndex, row_bytes: typing.SupportsInt | typing.SupportsIndex, matrix_bytes: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, offset: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        A device for a buffer of zeros in its memory.
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
    Numbers over memory; mpsgraph.nngraph.Vector is its face.
    """
    @typing.overload
    def __init__(self, array: typing.Any) -> None:
        """
        Over an array [length] or [vectors, length].
        """
    @typing.overload
    def __init__(self, buffer: typing.Any, length: typing.SupportsInt | typing.SupportsIndex, vectors: typing.SupportsInt | typing.SupportsIndex, vector_bytes: typing.SupportsInt | typing.SupportsIndex, dtype: typing.Any, offset: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        A device for a buffer of zeros in its memory.
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
    A recurrent layer with its weights, as they were read.
    """
    backward: bool
    diagonal_memory: bool
    flip_output_gates: bool
    float32_weights: bool
    identity_input: bool
    def __init__(self, cell: typing.SupportsInt | typing.SupportsIndex, inputs: typing.SupportsInt | typing.SupportsIndex, outputs: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        cell: 0 single gate, 1 LSTM, 2 GRU.
        """
    def set_neuron(self, gate: typing.SupportsInt | typing.SupportsIndex, type: str, a: typing.SupportsFloat | typing.SupportsIndex, b: typing.SupportsFloat | typing.SupportsIndex, c: typing.SupportsFloat | typing.SupportsIndex) -> None:
        """
        gate -1: cell to output.
        """
    def set_weights(self, gate: typing.SupportsInt | typing.SupportsIndex, kind: typing.SupportsInt | typing.SupportsIndex, array: typing.Any) -> None:
        """
        kind: 0 input, 1 recurrent, 2 memory, 3 bias. Copies.
        """
    @property
    def p_norm(self) -> float:
        ...
    @p_norm.setter
    def p_norm(self, arg0: typing.SupportsFloat | typing.SupportsIndex) -> None:
        ...
class RNNMatrixTrainingState:
    """
    What a step of a forward sequence leaves for its gradient.
    
        `RNNMatrixTrainingLayer.encode_forward_sequence` gives one for each step. Source: MPSRNNMatrixTrainingState.
    
        >>> mg.nngraph.RNNMatrixTrainingState.step.__doc__
        'Counted from 0.'
        
    """
    @property
    def step(self) -> int:
        """
        Counted from 0.
        """
class RecurrentTrainingLayer:
    """
    mpsgraph.nngraph.RNNMatrixTrainingLayer is its face.
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
        Gradients of the type, or weights for None.
        """
    @property
    def compiled(self) -> int:
        """
        Executables that have been compiled.
        """
    @property
    def form_count(self) -> int:
        """
        Executables that are held.
        """
class RecurrentInferenceLayer:
    """
    mpsgraph.nngraph.RNNMatrixInferenceLayer and RNNImageInferenceLayer are its faces.
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
        0 none, 1 add, 2 concatenate.
        """
    @combine_mode.setter
    def combine_mode(self, arg1: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    @property
    def compiled(self) -> int:
        """
        Executables that have been compiled.
        """
    @property
    def form_count(self) -> int:
        """
        Executables that are held.
        """
    @property
    def layer_count(self) -> int:
        ...
def amend_custom_operation(name: str, key: str, infer: typing.Any, gradient: typing.Any, threads: typing.Any, guard: bool) -> None:
    """
    Functions in Python for one that is registered; None leaves what there is.
    """
def apple_gradients(device: typing.Any, feeds: collections.abc.Sequence[Tensor], arrays: collections.abc.Sequence[typing.Any], of: Tensor) -> list[typing.Any]:
    """
    d of / d feeds by the device's own differentiation; None where it gives none.
    """
def asarray(array: typing.Any, dtype: typing.Any = None, copy: bool | None = None) -> NDArray:
    """
    An NDArray of the same memory where that is possible. copy=False: or an error; copy=True: always a copy.
    
    >>> x = np.float32([1, 2])
    >>> shared, own = mg.asarray(x), mg.asarray(x, copy=True)
    >>> x[0] = 5
    >>> shared.tolist(), own.tolist()
    ([5.0, 2.0], [1.0, 2.0])
    """
def buffer_statistics() -> dict[str, typing.Any]:
    """
    Memory in use and in the cache of freed blocks, of the process and of all devices.
    """
def copy_count() -> int:
    """
    How many arrays were copied because they could not be shared.
    
    >>> before = mg.copy_count()
    >>> _ = mg.asarray([1.0, 2.0])
    >>> mg.copy_count() - before
    1
    """
def custom_operation_description(name: str, key: str = '') -> dict[str, typing.Any]:
    """
    What the registry knows of one; the newest where the key is empty.
    """
def definitions() -> list[dict[str, typing.Any]]:
    """
    What every kind of operation takes.
    """
def device_limits(device: str) -> tuple[typing.Any, ...]:
    """
    Measured when first asked for.
    """
def encode_images_to_matrix(command_buffer: CommandBuffer, device: typing.Any, images: typing.Any, matrix: Matrix, channels_first: bool, row: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    A row of the matrix for each image.
    """
def encode_matrix_to_images(command_buffer: CommandBuffer, device: typing.Any, images: typing.Any, matrix: Matrix, channels_first: bool, row: typing.SupportsInt | typing.SupportsIndex, column: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    A row of the matrix for each image.
    """
def expanded(graph: Graph, feeds: dict[Tensor, tuple[typing.Any, ...]], targets: collections.abc.Sequence[Tensor], target_operations: collections.abc.Sequence[Operation] = ()) -> dict[str, typing.Any]:
    """
    What targets need as a graph of its own, with known shapes and no composites; feeds are placeholders with (dtype, shape). Result: graph, feeds, targets, variables, and source_variables of the graph it is from. UnsupportedError where shapes depend on values.
    """
def from_dlpack(array: typing.Any) -> NDArray:
    """
    An NDArray of the same memory.
    
    >>> mg.from_dlpack(np.float32([1, 2])).tolist()
    [1.0, 2.0]
    """
def get_num_threads() -> int:
    """
    How many threads the CPU device's kernels use together. PyTorch's torch.get_num_threads.
    
    >>> mg.get_num_threads() >= 1
    True
    """
def gradients(of: Tensor, with_respect_to: collections.abc.Sequence[Tensor], start: Tensor | None = None, unconnected: str = 'zeros') -> list[Tensor]:
    """
    d(of)/d(each), added to the graph.
    """
def history_depth(tensor: Tensor) -> int:
    """
    How many loops around it keep its values for a derivative: 0 for a tensor.
    """
def known_values(tensor: Tensor) -> list[int | None] | None:
    """
    What is known of the elements of a small integer tensor before anything runs: None for those that are not.
    """
def library_version() -> str:
    """
    The library's version.
    
    >>> mg.library_version() == mg.__version__
    True
    """
def load_custom_library(path: str) -> list[tuple[str, str]]:
    """
    Loads a shared library of custom operations and registers them: their names and keys.
    """
def memory_statistics() -> dict[str, typing.Any]:
    """
    How much memory is in use, and the most that was since the process began, in bytes.
    
    A dict by device's name, of those that have been used, and "cpu", which has what is no other device's. Each has
    "arrays" (also variables and results), "arenas" (what programs compute in between) and "packed_weights" (constants of
    programs, packed as kernels read them), and their "total", each a dict of "current" and "peak"; and "cached", bytes of
    freed blocks that wait for the next array of their size. Memory that MPSGraph allocates by itself nobody can count.
    Arrays over other people's memory, such as fed numpy arrays, are not ours and not in it.
    
    >>> before = mg.memory_statistics()["cpu"]["arrays"]["current"]
    >>> kept = mg.asarray(np.zeros(1000, np.float32), copy=True)
    >>> mg.memory_statistics()["cpu"]["arrays"]["current"] >= before
    True
    """
def name_this_thread(name: str) -> None:
    """
    In profiles.
    """
def nn_count_copy() -> None:
    ...
def nn_node_definitions() -> list[dict[str, typing.Any]]:
    """
    The table of filters, family by family.
    """
def optimize_for_inference(graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], known: collections.abc.Sequence[tuple[typing.Any, ...]] = (), values: DeviceGraph | None = None) -> PackageContents:
    """
    Contents for a new Graph; `known` are (placeholder, value) pairs.
    """
def parse(text: str) -> Graph:
    ...
def philox(key: typing.SupportsInt | typing.SupportsIndex, counter_low: typing.SupportsInt | typing.SupportsIndex = 0, counter_high: typing.SupportsInt | typing.SupportsIndex = 0, blocks: typing.SupportsInt | typing.SupportsIndex = 1) -> numpy.typing.NDArray[numpy.uint32]:
    """
    Blocks of Philox 4x32-10, four words each: the source of all random numbers.
    """
def prepare_package(path: str, types: collections.abc.Sequence[dict[str, typing.Any]], device: typing.Any = None) -> tuple[typing.Any, ...]:
    """
    Adds what the device makes of the constants for inputs of these types, a dict by name for each way to call it. Result: (file, whom it fits, constants, bytes).
    """
def print_graph(graph: Graph, locations: bool = False, max_constant_elements: typing.SupportsInt | typing.SupportsIndex = -1) -> str:
    """
    The graph's textual form.
    """
def probes(device: typing.Any) -> list[Probe]:
    """
    The device's questions.
    """
def profile_session() -> int:
    """
    0 when no profile is being taken.
    """
def quantized(graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], tensors: collections.abc.Sequence[tuple[typing.Any, ...]], per_channel: bool) -> PackageContents:
    """
    Contents for a new Graph; `tensors` are (tensor, scale, zero_point, dtype).
    """
def register_custom_operation(name: str, key: str, attributes: collections.abc.Sequence[tuple[typing.Any, ...]], dtypes: collections.abc.Sequence[collections.abc.Sequence[typing.Any]], operands: typing.SupportsInt | typing.SupportsIndex, effect: bool, infer: typing.Any, gradient: typing.Any, threads: typing.Any, metal: str | None, function: str, kernel: typing.Any) -> None:
    """
    One without a library: its kernel is a function in Python, or Metal's.
    """
def rnn_matrix_ids() -> list[str]:
    ...
def save_package(path: str, graph: Graph, inputs: dict[str, typing.Any], outputs: dict[str, typing.Any], parameters: dict[str, typing.Any], trainable: collections.abc.Sequence[Tensor], values: DeviceGraph | None = None, locations: bool = False, functions: dict[str, typing.Any] = {}, training: dict[str, typing.Any] = {}) -> None:
    """
    Writes a package; `values` is the graph on the device whose variables' values are meant; functions and training as PackageContents gives them.
    """
def set_buffer_cache_limit(bytes: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    0: freed memory goes back at once.
    """
def set_num_threads(n: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Says how many threads the CPU device's kernels use together; 0: automatic.
    
    Automatic is OMP_NUM_THREADS, or as many as there are processors that the process may use. It holds from the next kernel
    on, for all queues, and changes no result: kernels are cut into parts at the first compilation, for the number that
    holds then. PyTorch's torch.set_num_threads.
    
    Raises DeviceError for a negative number, and for more threads than kernels have been cut for.
    
    >>> mg.set_num_threads(1)
    >>> mg.get_num_threads()
    1
    >>> mg.set_num_threads(0)
    """
def shutdown() -> None:
    """
    Finishes all work and ends the runtime's threads; called at exit. Idempotent.
    """
def start_profile(capacity: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    DeviceError when a profile is being taken already.
    """
def stop_profile() -> Profile:
    """
    DeviceError when none is being taken.
    """
def tensors_to_quantize(graph: Graph, outputs: collections.abc.Sequence[Tensor]) -> list[Tensor]:
    ...
def verify(graph: Graph) -> None:
    """
    GraphError when the graph is not well formed.
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
