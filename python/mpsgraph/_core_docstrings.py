"""What the classes that C++ defines say of themselves: docstrings with examples, where all others are written.

The bindings have a sentence for each; it comes first here, too. Nothing else of these classes is changed.
"""

from __future__ import annotations

from . import _core

_TEXTS: dict[str, str] = {}


def _explain(name: str, text: str) -> None:
    _TEXTS[name] = text


# --- graphs ----------------------------------------------------------------------------------------------------------

_explain(
    "Tensor",
    """One result of an operation: a symbol without a value.

    Python's operators, comparisons and numpy's basic indexing add operations to its graph; so do the graph's methods,
    which it reaches by `graph`. There is no value to ask for until a run: `bool(x)` and `float(x)` are errors.

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
    """One step of a graph.

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
    """,
)

_explain(
    "DType",
    """The type of a tensor's elements, e.g. mpsgraph.float32.

    Whatever takes one takes its name and numpy's dtype, too. All of them: bool_, int8 to int64, uint8 to uint64,
    float16, bfloat16, float32, float64, complex64 and complex128.

    >>> mg.float32 == mg.DType("float32") == mg.DType(np.float32)
    True
    >>> mg.bfloat16.itemsize, mg.bfloat16.is_float, mg.complex64.is_complex
    (2, True, True)
    """,
)

# --- arrays ----------------------------------------------------------------------------------------------------------

_explain(
    "NDArray",
    """Memory with an element type, a shape and strides, shared with numpy and DLPack.

    Runs give such arrays and take them, as they take numpy's.

    >>> g = mg.Graph()
    >>> result = g.run({}, g.constant([[1.0, 2.0]]) * 2.0)
    >>> result.shape, result.dtype, result.tolist()
    ((1, 2), float32, [[2.0, 4.0]])
    >>> result.numpy().sum().item(), np.from_dlpack(result).shape  # views of the same memory
    (6.0, (1, 2))
    """,
)

# --- devices and what runs on them -----------------------------------------------------------------------------------

_explain(
    "Device",
    """A backend of this process: Device("cpu"), and on a Mac Device("metal"), which is the default there.

    Device metal has been verified over a mock of Apple's frameworks, by compiling for macOS and against Apple's
    interfaces; it has not yet run on Apple hardware (docs/metal.md).

    >>> "cpu" in mg.Device.names()
    True
    >>> mg.Device("cpu").name
    'cpu'
    """,
)

_explain(
    "DeviceGraph",
    """A graph on one device: its variables' values and its executables.

    `graph.on(device)` gives it. Each device has values of its own.

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
    """Targets and target operations, compiled for one device and one type of each feed.

    A run takes arrays in the order of `feeds` and gives those of `targets`; nothing is looked up.

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
    """A run that has been started; `results` waits for it.

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
    """What shall happen around a run.

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
    """,
)

_explain(
    "CompilationDescriptor",
    """How to compile.

    Passes that shall not run, plain kernels for reference, and executables that `Graph.call` calls by name; `observe`
    sees the program behind each pass. Source: MPSGraphCompilationDescriptor.

    >>> g, passes = mg.Graph(), []
    >>> x = g.placeholder((2,), name="x")
    >>> how = mg.CompilationDescriptor(disabled_passes=["fuse_elementwise"], observe=lambda name, text: passes.append(name))
    >>> _ = g.compile({x: (2,)}, [x + 1.0], options=how)
    >>> "fold" in passes, "fuse_elementwise" in passes
    (True, False)
    """,
)

_explain(
    "SerializedExecutable",
    """An executable that Executable.serialize() wrote: on device metal an MPSGraphPackage.

    Errors: PackageError for what is missing or damaged; UnsupportedError on a device without such a form.

    >>> try:
    ...     mg.SerializedExecutable("net.mpsgraphpackage", "cpu")
    ... except mg.Error as error:
    ...     print(isinstance(error, (mg.UnsupportedError, mg.PackageError)))
    True
    """,
)

_explain(
    "CacheStatistics",
    """What an executable cache holds and has done.

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
    """Runs command buffers in order, beside other queues.

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
    """Work, waits and signals, committed once.

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
    """A number that only grows, by which queues and the host order their work.

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
    """,
)

_explain(
    "Semaphore",
    """A counter that limits how many steps are in flight.

    >>> semaphore = mg.Semaphore(2)
    >>> semaphore.wait()
    >>> semaphore.value
    1
    >>> semaphore.signal()
    >>> semaphore.value
    2
    """,
)

# --- nodes of the older path -----------------------------------------------------------------------------------------

_explain(
    "ImageNode",
    """A place for a batch of images: an input, or what a filter makes. Source: MPSNNImageNode.

    Args: handle, its name among the graph's inputs.

    >>> nn = mg.nngraph
    >>> image = nn.ImageNode("images")
    >>> nn.NNGraph(None, nn.NeuronReLUNode(image).result_image)(np.float32([[[[-1, 2]]]])).numpy().ravel().tolist()
    [0.0, 2.0]
    """,
)

_explain(
    "StateNode",
    """What a filter leaves for its gradient filter: its result_state; or a state that comes with each batch.

    Args: handle, its name among the graph's source states. Source: MPSNNStateNode.

    >>> nn = mg.nngraph
    >>> dropout = nn.DropoutNode(nn.ImageNode("x"))
    >>> isinstance(dropout.result_state, nn.StateNode)
    True
    """,
)

_explain(
    "FilterNode",
    """A filter over images, or the gradient filter of one. Source: MPSNNFilterNode.

    All nodes are such; none is made by itself.

    >>> nn = mg.nngraph
    >>> relu = nn.NeuronReLUNode(nn.ImageNode("x"))
    >>> slope = relu.gradient_filter(nn.ImageNode("gradient"))
    >>> isinstance(relu, nn.FilterNode), slope.is_gradient, slope.forward.kind
    (True, True, 'neuron_relu')
    """,
)

_explain(
    "RNNMatrixTrainingState",
    """What a step of a forward sequence leaves for its gradient.

    `RNNMatrixTrainingLayer.encode_forward_sequence` gives one for each step. Source: MPSRNNMatrixTrainingState.

    >>> mg.nngraph.RNNMatrixTrainingState.step.__doc__
    'Counted from 0.'
    """,
)

# --- errors ----------------------------------------------------------------------------------------------------------


def _explain_error(name: str, text: str, *lines: str) -> None:
    example = [">>> try:", *(f"...     {line}" for line in lines), f"... except mg.{name} as error:"]
    _explain(name, "\n    ".join([f"{text}\n", *example, "...     print(type(error).__name__)", f"{name}", ""]))


_explain(
    "Error",
    """Every error that mpsgraph raises on purpose. Each is also of the built-in class that one would expect.

    >>> try:
    ...     mg.Graph().constant([1.0]) + mg.Graph().constant([1.0])
    ... except mg.Error as error:
    ...     print(type(error).__name__, isinstance(error, ValueError))
    GraphError True
    """,
)
_explain_error(
    "ShapeError",
    "Ranks, dimensions, sizes, axes that do not fit.",
    "g = mg.Graph()",
    "g.constant([1.0, 2.0]) + g.constant([1.0, 2.0, 3.0])",
)
_explain_error(
    "OutOfRangeError",
    "Indices, class numbers, lengths outside of what they count.",
    "x, labels = np.ones((1, 2), np.float32), np.int32([7])",
    "mg.Trainer(mg.nn.Linear(3)).train_step(x, labels).wait()",
)
_explain_error(
    "CheckError",
    "A check of a run that did not hold, or with check_finite a number that is none.",
    "g = mg.Graph()",
    "g.run({}, g.check(g.constant([1.0, -1.0]) > 0, 'must be positive', on=g.constant(1.0)))",
)
_explain_error(
    "DTypeError",
    "Element types that do not match or are not supported there.",
    "g = mg.Graph()",
    'g.constant([1.0]) + g.constant([1], dtype="int32")',
)
_explain_error(
    "GraphError",
    "Structure: foreign tensors, feeds, names, attributes, text that does not parse.",
    'mg.parse("no graph")',
)
_explain_error(
    "UnsupportedError",
    "Valid, but this device cannot do it.",
    "g = mg.Graph()",
    "x = g.placeholder((2,))",
    'g.compile({x: (2,)}, [x + 1.0], device="cpu").serialize("net.mpsgraphpackage")',
)
_explain_error("DeviceError", "The run itself: memory, queues, command buffers, fork.", 'mg.Device("no such device")')
_explain_error(
    "TimeoutError",
    "An event or a command buffer that did not come in time.",
    "mg.SharedEvent().wait(1, timeout=0.01)",
)
_explain_error("CheckpointError", "A damaged or foreign checkpoint.", 'mg.checkpoint.load("no such file")')
_explain_error(
    "PackageError", "A damaged or foreign package, or one that cannot be written.", 'mg.load("no such folder")'
)


def install() -> None:
    """Gives the classes their docstrings."""
    for name, text in _TEXTS.items():
        getattr(_core, name).__doc__ = text
