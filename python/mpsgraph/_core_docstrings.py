"""Docstrings, with examples, for the classes that are defined in C++.

The bindings have a one-sentence docstring for each class, which this file replaces. The docstrings of methods and
properties stay as the bindings define them.
"""

from __future__ import annotations

import re
from typing import Any

from . import _core

_TEXTS: dict[str, str] = {}


def _explain(name: str, text: str) -> None:
    _TEXTS[name] = text


# --- graphs ----------------------------------------------------------------------------------------------------------

_explain(
    "Tensor",
    """A symbolic result of an operation, which has a value only during a run.

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
    """,
)

_explain(
    "Operation",
    """An operation of a graph.

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
    """,
)

_explain(
    "DType",
    """The element type of a tensor, for example mpsgraph.float32.

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
    """,
)

# --- arrays ----------------------------------------------------------------------------------------------------------

_explain(
    "NDArray",
    """An array of memory with an element type, a shape, and strides, which numpy and DLPack can share.

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
    """,
)

# --- devices and executables ------------------------------------------------------------------------------------------

_explain(
    "Device",
    """A device that runs graphs: Device("cpu") or, on a Mac, Device("metal"), which is the default on a Mac.

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
    """,
)

_explain(
    "DeviceGraph",
    """A graph on one device, with its own values of the variables and its own executables.

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
    """,
)

_explain(
    "Executable",
    """A program that is compiled from targets and target operations for one device and one type of each feed.

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
    """,
)

_explain(
    "Execution",
    """A run that has been started; `results` waits for it to finish.

    `Graph.run_async` and `Executable.run_async` return executions.

    Example:
        >>> g = mg.Graph()
        >>> x = g.placeholder((2,), name="x")
        >>> y = x * 3.0
        >>> started = g.run_async({x: np.float32([1, 2])}, y)
        >>> started.results.tolist(), started.done
        ([3.0, 6.0], True)
    """,
)

_explain(
    "ExecutionDescriptor",
    """Options of an asynchronous run: handlers, events to wait for and to signal, and whether the call waits.

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
    """,
)

_explain(
    "CompilationDescriptor",
    """Options of a compilation, such as compiler passes to skip and executables that the graph calls.

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
    """,
)

_explain(
    "SerializedExecutable",
    """An executable read from a file that Executable.serialize() wrote; on the Metal device, an MPSGraphPackage.

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
    """,
)

_explain(
    "CacheStatistics",
    """Statistics of an executable cache: counters, and the number and size of the stored executables.

    Example:
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1,), name="x")
        >>> y = x + 1.0
        >>> for n in (1, 2, 1):
        ...     _ = g.run({x: np.zeros(n, np.float32)}, y)
        >>> g.on().cache.compiles, g.on().cache.hits
        (2, 1)
    """,
)

# --- queues and events -----------------------------------------------------------------------------------------------

_explain(
    "CommandQueue",
    """A queue that runs command buffers in order, concurrently with other queues.

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
    """,
)

_explain(
    "CommandBuffer",
    """A sequence of runs, waits, and signals that is committed to its queue once.

    `CommandQueue.command_buffer` returns command buffers.

    Example:
        >>> order = []
        >>> buffer = mg.CommandQueue().command_buffer()
        >>> buffer.add_completed_handler(lambda buffer: order.append(buffer.status))
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> order, buffer.done
        (['completed'], True)
    """,
)

_explain(
    "SharedEvent",
    """A monotonically increasing number that queues and the host use to order their work.

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
    """,
)

_explain(
    "Semaphore",
    """A counter that limits the number of steps in flight.

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
    """,
)

# --- nodes of the legacy MPSNNGraph API -------------------------------------------------------------------------------

_explain(
    "ImageNode",
    """A node for a batch of images: an input of the graph, or the result of a filter.

    Args:
        handle: Name of the node among the inputs of the graph. Defaults to None.

    Source: MPSNNImageNode.

    Example:
        >>> nn = mg.nngraph
        >>> image = nn.ImageNode("images")
        >>> nn.NNGraph(None, nn.NeuronReLUNode(image).result_image)(np.float32([[[[-1, 2]]]])).numpy().ravel().tolist()
        [0.0, 2.0]
    """,
)

_explain(
    "StateNode",
    """A node for state that a filter passes to its gradient filter (its result_state), or that is fed with each batch.

    Args:
        handle: Name of the node among the source states of the graph. Defaults to None.

    Source: MPSNNStateNode.

    Example:
        >>> nn = mg.nngraph
        >>> dropout = nn.DropoutNode(nn.ImageNode("x"))
        >>> isinstance(dropout.result_state, nn.StateNode)
        True
    """,
)

_explain(
    "FilterNode",
    """Base class of all filter nodes, which are image filters and the gradient filters of image filters.

    Filters are created through the derived classes.

    Source: MPSNNFilterNode.

    Example:
        >>> nn = mg.nngraph
        >>> relu = nn.NeuronReLUNode(nn.ImageNode("x"))
        >>> slope = relu.gradient_filter(nn.ImageNode("gradient"))
        >>> isinstance(relu, nn.FilterNode), slope.is_gradient, slope.forward.kind
        (True, True, 'neuron_relu')
    """,
)

_explain(
    "RNNMatrixTrainingState",
    """The values that one step of a forward sequence stores for the computation of gradients.

    `RNNMatrixTrainingLayer.encode_forward_sequence` appends one state for each step to its argument training_states.

    Source: MPSRNNMatrixTrainingState.

    Example:
        >>> mg.nngraph.RNNMatrixTrainingState.step.__doc__
        'Index of the time step, starting at 0.'
    """,
)

# --- errors ----------------------------------------------------------------------------------------------------------


def _explain_error(name: str, text: str, *lines: str) -> None:
    example = [">>> try:", *(f"...     {line}" for line in lines), f"... except mg.{name} as error:"]
    example += ["...     print(type(error).__name__)", name]
    _explain(name, f"{text}\n\n    Example:\n" + "".join(f"        {line}\n" for line in example) + "    ")


_explain(
    "Error",
    """Base class of the errors that mpsgraph raises. Each class also derives from the matching built-in exception.

    Example:
        >>> try:
        ...     mg.Graph().constant([1.0]) + mg.Graph().constant([1.0])
        ... except mg.Error as error:
        ...     print(type(error).__name__, isinstance(error, ValueError))
        GraphError True
    """,
)
_explain_error(
    "ShapeError",
    "Raised when ranks, sizes, or axes do not match or are out of range.",
    "g = mg.Graph()",
    "g.constant([1.0, 2.0]) + g.constant([1.0, 2.0, 3.0])",
)
_explain_error(
    "OutOfRangeError",
    "Raised when an index, a class number, or a length is out of range.",
    "x, labels = np.ones((1, 2), np.float32), np.int32([7])",
    "mg.Trainer(mg.nn.Linear(3)).train_step(x, labels).wait()",
)
_explain_error(
    "CheckError",
    "Raised when a check fails during a run, or with check_finite when an operation produces NaN or an infinity.",
    "g = mg.Graph()",
    "g.run({}, g.check(g.constant([1.0, -1.0]) > 0, 'must be positive', on=g.constant(1.0)))",
)
_explain_error(
    "DTypeError",
    "Raised when element types do not match or are not supported.",
    "g = mg.Graph()",
    'g.constant([1.0]) + g.constant([1], dtype="int32")',
)
_explain_error(
    "GraphError",
    "Raised for invalid graphs or arguments, such as tensors of another graph, wrong names, or unparsable text.",
    'mg.parse("no graph")',
)
_explain_error(
    "UnsupportedError",
    "Raised when a device does not support an operation that is otherwise valid.",
    "g = mg.Graph()",
    "x = g.placeholder((2,))",
    'g.compile({x: (2,)}, [x + 1.0], device="cpu").serialize("net.mpsgraphpackage")',
)
_explain_error(
    "DeviceError",
    "Raised when a device does not exist, or a run fails because of memory, queues, command buffers, or a fork.",
    'mg.Device("no such device")',
)
_explain_error(
    "TimeoutError",
    "Raised when an event or a command buffer does not complete in time.",
    "mg.SharedEvent().wait(1, timeout=0.01)",
)
_explain_error(
    "CancelledError",
    "Raised when a run was cancelled; variables keep their values.",
    "g = mg.Graph()",
    "(y,) = g.for_(1_000_000_000, initial=[g.constant(0.0)], body=lambda i, x: [x + 1.0])",
    "run = g.run_async({}, y)",
    "run.cancel()",
    "run.wait()",
)
_explain_error(
    "OutOfMemoryError",
    "Raised when there is not enough memory.",
    "mg.NDArray((1 << 45,))",
)
_explain_error(
    "LimitError",
    "Raised when a graph or a file exceeds a limit set with mpsgraph.limits.",
    "with mg.limits(nodes=0):",
    '    mg.parse("graph { %x = constant(){value=float32[1] [0x3f800000]}: float32[1] }")',
)
_explain_error(
    "CheckpointError",
    "Raised when a checkpoint is damaged or is not a checkpoint.",
    'mg.checkpoint.load("no such file")',
)
_explain_error(
    "PackageError",
    "Raised when a package is damaged, is not a package, or cannot be written.",
    'mg.load("no such folder")',
)


class _Signature:
    """Descriptor that reads the signature of a class defined in C++ from the docstring that pybind11 gives __init__."""

    def __get__(self, instance: object, owner: type) -> Any:
        import ast
        from inspect import Parameter, Signature

        line = (owner.__init__.__doc__ or "").partition("\n")[0]  # type: ignore[misc]
        head, _, rest = line.partition("(self: ")
        if instance is not None or head != "__init__":
            raise AttributeError("__signature__")
        names = rest.partition(", ")[2].rpartition(") -> None")[0]
        for long, short in _SHORT:
            names = re.sub(long, short, names)
        given: Any = ast.parse(f"def made({names}): pass").body[0]
        taken, by_name = given.args.args, given.args.kwonlyargs
        kinds = [Parameter.POSITIONAL_OR_KEYWORD] * len(taken) + [Parameter.KEYWORD_ONLY] * len(by_name)
        defaults = [None] * (len(taken) - len(given.args.defaults)) + given.args.defaults + given.args.kw_defaults
        made = [
            Parameter(
                each.arg,
                kind,
                default=Parameter.empty if value is None else ast.literal_eval(value),
                annotation=Parameter.empty if each.annotation is None else ast.unparse(each.annotation),
            )
            for each, kind, value in zip([*taken, *by_name], kinds, defaults, strict=True)
        ]
        return Signature(made)


_SHORT = (
    (r"\b(mpsgraph\._core|collections\.abc|typing)\.", ""),
    (r"SupportsInt \| SupportsIndex", "int"),
    (r"SupportsFloat \| SupportsIndex", "float"),
    (r"<\w+\.(\w+): -?\d+>", r"'\1'"),
)
"""Patterns in pybind11's signatures, and what to show instead."""


def install() -> None:
    """Set the docstrings of the classes that are defined in C++, and the signatures of those that programs create."""
    for name, text in _TEXTS.items():
        cls = getattr(_core, name)
        cls.__doc__ = text
        if "__init__" in vars(cls) and "Args:" in text:
            cls.__signature__ = _Signature()
