"""Graph: operations by name, derivatives, text, and running: from feeds to targets on a device.

The operations are the families of mpsgraph.ops; the rest is here. A graph is built by one thread; once built it may run
from many. What a run needs is compiled at its first use for these types of feeds and kept in a bounded cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from . import _core
from ._checks import Count, Size, checked, refuse
from ._core import (
    CacheStatistics,
    CommandBuffer,
    CommandQueue,
    CompilationDescriptor,
    Device,
    DeviceGraph,
    Executable,
    Execution,
    ExecutionDescriptor,
    NDArray,
    Operation,
    Tensor,
)
from ._display import shown
from ._dtypes import as_dtype
from .errors import GraphError
from .ops._family import user_location
from .ops.activation import Activation
from .ops.arithmetic import UnaryArithmetic
from .ops.arithmetic_binary import BinaryArithmetic
from .ops.arithmetic_complex import ComplexArithmetic
from .ops.call import Call
from .ops.control_flow import ControlFlow
from .ops.convolution import Convolution
from .ops.convolution_depthwise import DepthwiseConvolution
from .ops.convolution_transposed import TransposedConvolution
from .ops.cumulative import Cumulative
from .ops.debugging import Debugging
from .ops.fourier_transform import FourierTransform
from .ops.gather import Gather
from .ops.linear_algebra import LinearAlgebra
from .ops.loss import Loss
from .ops.matrix import Matrix
from .ops.matrix_inverse import MatrixInverse
from .ops.memory import Memory
from .ops.non_maximum_suppression import NonMaximumSuppression
from .ops.normalization import Normalization
from .ops.optimizer import Optimizer
from .ops.pooling import Pooling
from .ops.pooling_indices import PoolingWithIndices
from .ops.pooling_tiles import Pooling4D
from .ops.quantization import Quantization
from .ops.random import Random
from .ops.recurrent import Recurrent
from .ops.reduction import Reduction
from .ops.resize import Resize
from .ops.sample_grid import SampleGrid
from .ops.scatter_nd import ScatterND
from .ops.shape import Shape
from .ops.shape_blocks import ShapeBlocks
from .ops.shape_slicing import ShapeSlicing
from .ops.sort import Sort
from .ops.sparse import Sparse
from .ops.stencil import Stencil
from .ops.top_k import TopK
from .pictures.dot import to_dot
from .pictures.drawing import draw
from .pictures.nodes import nodes_of
from .pictures.tables import graph_table

Feeds: TypeAlias = Mapping[Tensor, Any]
Targets: TypeAlias = Tensor | Sequence[Tensor]
Results: TypeAlias = dict[Tensor, NDArray]


class Graph(
    Memory,
    UnaryArithmetic,
    BinaryArithmetic,
    ComplexArithmetic,
    Activation,
    Reduction,
    Matrix,
    Convolution,
    DepthwiseConvolution,
    TransposedConvolution,
    Pooling,
    PoolingWithIndices,
    Pooling4D,
    Sparse,
    Stencil,
    Normalization,
    Loss,
    Shape,
    ShapeSlicing,
    ShapeBlocks,
    FourierTransform,
    Gather,
    ScatterND,
    Cumulative,
    Sort,
    TopK,
    Resize,
    SampleGrid,
    LinearAlgebra,
    MatrixInverse,
    NonMaximumSuppression,
    ControlFlow,
    Call,
    Debugging,
    Quantization,
    Random,
    Recurrent,
    Optimizer,
):
    """A graph of operations that is built once and run often.

    Args: seed, of random tensors without a state of their own and of `generator`; text, a printed graph to begin with,
    or a package's contents.

    >>> g = mg.Graph()
    >>> x = g.placeholder((-1, 2), name="x")
    >>> y = g.reduction_sum(x * x, axes=1)
    >>> g.run({x: np.array([[3, 4]], np.float32)}, y).tolist()
    [[25.0]]
    """

    @checked
    def __init__(self, seed: int = 0, *, text: str | _core.PackageContents | None = None) -> None:
        if text is None:
            super().__init__()
        else:
            super().__init__(text)
        self.seed = seed
        self._trainable: list[Tensor] = [] if text is None else [v for v in self.variables if v.dtype.is_float]
        self._random_count = 0 if text is None else len(self.variables)
        self._own_states: list[Tensor] = []  # of random operations, in the order of their making
        self._repeated_states: list[Tensor] = []
        self._generator: np.random.Generator | None = None
        self._on_devices: dict[str | None, DeviceGraph] = {}
        self._guest: Any = None  # a runner of training/engine.py that has the variables' values meanwhile

    @property
    def generator(self) -> np.random.Generator:
        """The numpy generator of first values, seeded by the graph's seed (a negative one by its two's complement)."""
        if self._generator is None:
            self._generator = np.random.default_rng(self.seed % 2**64)
        return self._generator

    # --- derivatives and text --------------------------------------------------------------------------------------

    @checked
    def gradients(
        self,
        of: Tensor,
        with_respect_to: Tensor | Sequence[Tensor],
        start: Tensor | None = None,
        unconnected: Literal["zeros", "error"] = "zeros",
    ) -> dict[Tensor, Tensor]:
        """The derivatives of one tensor with respect to others, as new operations of the graph.

        Args: of, a scalar, or of any shape, then of its sum; with_respect_to, tensors of this graph, such as
        `trainable_variables`; start, the gradient that arrives at `of`, ones by default; unconnected, "zeros" or
        "error" for a tensor that `of` does not depend on. Result: a dict by tensor; gradients can be differentiated
        again. Errors: GraphError. Source: MPSGraph gradientForPrimaryTensor:withTensors:name:.

        >>> g = mg.Graph()
        >>> x = g.constant([3.0])
        >>> g.run({}, g.gradients(x * x, [x])[x]).tolist()
        [6.0]
        """
        tensors = [with_respect_to] if isinstance(with_respect_to, Tensor) else list(with_respect_to)
        self.set_location(user_location())
        return dict(zip(tensors, _core.gradients(of, tensors, start, unconnected), strict=True))

    def verify(self) -> None:
        """Checks the graph against its grammar. GraphError that names the first operation that is wrong."""
        _core.verify(self)

    def __str__(self) -> str:
        """The readable textual form, from which `mg.parse` makes an equal graph.

        >>> g = mg.Graph()
        >>> _ = g.placeholder((2,), name="x") + 1
        >>> str(mg.parse(str(g))) == str(g)
        True
        """
        return _core.print_graph(self)

    def __repr__(self) -> str:
        return f"<Graph of {self.operation_count} operations>"

    def _repr_html_(self) -> str:
        """Placeholders, variables and kinds of operations, for notebooks."""
        return graph_table(self)

    @checked
    def to_dot(self, targets: Sequence[Tensor | Operation] | None = None, *, limit: Size = 1000) -> str:
        """The graph in Graphviz's language, for `dot -Tsvg` and web pages.

        Args: targets, tensors and operations of which only what they need is shown, by default all; limit, of
        operations. Result: text. Errors: GraphError for a larger graph, and for targets of another.

        >>> g = mg.Graph()
        >>> x = g.placeholder((2,), name="x")
        >>> "n0 -> n1" in g.to_dot([g.square(x)])
        True
        """
        return to_dot(nodes_of(self, targets, limit))

    @checked
    def draw(
        self,
        path: str | os.PathLike[str] | None = None,
        targets: Sequence[Tensor | Operation] | None = None,
        *,
        axes: Any = None,
        limit: Size = 300,
    ) -> Any:
        """A picture of the graph, drawn by matplotlib: operations in rows, from what is fed down to the results.

        Args: path of a file to write, whose ending says what it is: .png, .svg, .pdf; targets and limit as to_dot;
        axes of matplotlib, by default those of a new figure. Result: the axes. Errors: GraphError as to_dot,
        ImportError without matplotlib (`pip install mpsgraph[train]`).
        """
        return draw(nodes_of(self, targets, limit), path, axes)

    # --- copies ------------------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle and copy.deepcopy: another graph of the same operations, over the values of its variables.

        >>> import copy
        >>> g = mg.Graph()
        >>> v = g.variable([1.0], name="v")
        >>> twin = copy.deepcopy(g)
        >>> _ = g.run({}, [], [g.assign(v, v + 1)])
        >>> g.variable_value(v).tolist(), twin.variable_value(twin.find("v").outputs[0]).tolist()
        ([2.0], [1.0])
        """
        known = self._on_devices
        device = None if None in known or not known else next(iter(known.values())).device
        values = {v.name: self.variable_value(v, device=device) for v in self.variables} if known else {}
        return _graph_again, (str(self), self.seed, [v.name for v in self._trainable], self._random_count, values)

    # --- running ---------------------------------------------------------------------------------------------------

    def on(self, device: Device | str | None = None) -> DeviceGraph:
        """The graph on a device: its variables' values there and its executables. None: the default device."""
        if device is not None and not isinstance(device, (str, Device)):
            refuse("device", Device | str | None, device)
        if self._guest is not None:
            self._guest.give_back()
        key = device.name if isinstance(device, Device) else device
        if key not in self._on_devices:
            made = DeviceGraph(self, device)
            self._on_devices[key] = self._on_devices.setdefault(made.device.name, made)
        return self._on_devices[key]

    @overload
    def run(
        self,
        feeds: Feeds | None,
        targets: Tensor,
        target_operations: Sequence[Operation] = (),
        *,
        device: Device | str | None = None,
        results: Any = None,
        queue: CommandQueue | None = None,
        copy: bool | None = None,
        check_finite: bool = False,
    ) -> NDArray: ...

    @overload
    def run(
        self,
        feeds: Feeds | None,
        targets: Sequence[Tensor] = (),
        target_operations: Sequence[Operation] = (),
        *,
        device: Device | str | None = None,
        results: Any = None,
        queue: CommandQueue | None = None,
        copy: bool | None = None,
        check_finite: bool = False,
    ) -> Results: ...

    def run(
        self,
        feeds: Feeds | None = None,
        targets: Targets = (),
        target_operations: Sequence[Operation] = (),
        *,
        device: Device | str | None = None,
        results: Any = None,
        queue: CommandQueue | None = None,
        copy: bool | None = None,
        check_finite: bool = False,
    ) -> NDArray | Results:
        """Runs what the targets and target operations need, and waits.

        On x86, arithmetic takes numbers too small for a full mantissa (below 2^-126 in float32) for zero.

        Args:
            feeds: arrays by placeholder, or batches of images, matrices and vectors, as `tensor_data` takes them.
                C-contiguous ones of the right dtype are shared, not copied.
            targets: a tensor, or several. target_operations: such as assigns, that shall run too.
            device: None for the default one. queue: None for the device's own.
            results: the like to write into, by target (or one for a single target): contiguous and writable.
            copy: what happens to feeds that cannot be shared: None, they are copied and counted; False, ShapeError.
            check_finite: whether the run ends with CheckError at the first operation that makes a NaN or an infinity,
                which the error names with the line that built it. Slow. Variables stay as they were, as for `check`.
        Result: the NDArray of a single target, else a dict by target. Errors: GraphError for missing, unknown or
        foreign feeds; ShapeError, DTypeError; DeviceError. Source: MPSGraph runWithMTLCommandQueue:feeds:targetTensors:
        targetOperations: and runWithMTLCommandQueue:feeds:targetOperations:resultsDictionary:.

        >>> g = mg.Graph()
        >>> x = g.placeholder((2,))
        >>> g.run({x: np.float32([1, 2])}, [x * 2])
        {<Tensor multiplication: float32[2]>: NDArray([2., 4.], float32(2))}
        """
        if queue is not None or copy is not None or check_finite is not False:
            _check_options("run", queue, None, copy, check_finite)
        wanted, written = _listed(targets, results)
        options = _CHECKED if check_finite else None
        arrays = self.on(device).run(_by_placeholder(feeds), wanted, target_operations, written, queue, copy, options)
        return arrays[0] if isinstance(targets, Tensor) else dict(zip(wanted, arrays, strict=True))

    def run_async(
        self,
        feeds: Feeds | None = None,
        targets: Targets = (),
        target_operations: Sequence[Operation] = (),
        *,
        device: Device | str | None = None,
        results: Any = None,
        descriptor: ExecutionDescriptor | None = None,
        queue: CommandQueue | None = None,
        copy: bool | None = None,
        check_finite: bool = False,
    ) -> Execution:
        """Starts a run and returns at once; the arrays that are fed must stay unchanged until it is done.

        Args: as run; descriptor, handlers and events around the run. Result: an Execution. Errors: as run; those of the
        run itself come with the Execution. Source: MPSGraph
        runAsyncWithMTLCommandQueue:feeds:targetTensors:targetOperations:executionDescriptor:.

        >>> g = mg.Graph()
        >>> g.run_async({}, g.constant(2.0) * 3).results.item()
        6.0
        """
        _check_options("run_async", queue, descriptor, copy, check_finite)
        wanted, written = _listed(targets, results)
        keyed_by = targets if isinstance(targets, Tensor) else wanted
        return self.on(device).run_async(
            _by_placeholder(feeds), wanted, target_operations, written, descriptor, queue, copy,
            _CHECKED if check_finite else None, keyed_by=keyed_by,
        )  # fmt: skip

    def encode(
        self,
        command_buffer: CommandBuffer,
        feeds: Feeds | None = None,
        targets: Targets = (),
        target_operations: Sequence[Operation] = (),
        *,
        results: Any = None,
        descriptor: ExecutionDescriptor | None = None,
        copy: bool | None = None,
        check_finite: bool = False,
    ) -> Any:
        """Adds a run to a command buffer, which the caller commits.

        Args: command_buffer, of a queue on the device that shall run it; the rest as run_async. Result: as run, written
        once the command buffer has completed. Errors: as run; DeviceError for a committed command buffer.
        Source: MPSGraph encodeToCommandBuffer:feeds:targetTensors:targetOperations:executionDescriptor:.

        >>> g = mg.Graph()
        >>> buffer = mg.CommandQueue().command_buffer()
        >>> y = g.encode(buffer, {}, g.constant(2.0) * 3)
        >>> buffer.commit(); buffer.wait_until_completed()
        >>> y.item()
        6.0
        """
        if not isinstance(command_buffer, CommandBuffer):
            refuse("[encode] command_buffer", CommandBuffer, command_buffer)
        _check_options("encode", None, descriptor, copy, check_finite)
        wanted, written = _listed(targets, results)
        on = self.on(command_buffer.queue.device)
        options = _CHECKED if check_finite else None
        fed = _by_placeholder(feeds)
        return _keyed(
            targets, on.encode(command_buffer, fed, wanted, target_operations, written, descriptor, copy, options)
        )

    @checked
    def compile(
        self,
        feeds: Mapping[Tensor, Any],
        targets: Targets = (),
        target_operations: Sequence[Operation] = (),
        *,
        device: Device | str | None = None,
        options: CompilationDescriptor | None = None,
        check_finite: bool = False,
    ) -> Executable:
        """Compiles for given types of feeds, without running.

        Args: feeds, for each placeholder a shape, a pair (shape, dtype), or anything with a shape and a dtype; the rest
        and check_finite as run; options, passes to leave out and the like. Result: an Executable, run with inputs in
        the order of its `feeds`. Errors: as run, and UnsupportedError for a shape that depends on values.
        Source: MPSGraph compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:.

        >>> g = mg.Graph()
        >>> x = g.placeholder((-1,))
        >>> executable = g.compile({x: (3,)}, [x * 2])
        >>> [array.tolist() for array in executable.run([np.float32([1, 2, 3])])]
        [[2.0, 4.0, 6.0]]
        """
        types = {}
        for tensor, value in feeds.items():
            if not isinstance(tensor, Tensor):
                raise GraphError(f"[compile] feeds are types by placeholder, got {shown(tensor)}: {shown(value)}")
            types[tensor] = _type_of(tensor, value)
        if check_finite:
            options = _with_check_finite(options)
        return self.on(device).compile(types, _listed(targets, None)[0], target_operations, options)

    def variable_value(self, variable: Tensor, *, device: Device | str | None = None) -> np.ndarray:
        """A copy of a variable's value, after all runs that were started before. Errors: GraphError.

        >>> g = mg.Graph()
        >>> g.variable_value(g.variable([1.0, 2.0])).tolist()
        [1.0, 2.0]
        """
        return self.on(device).variable_value(variable).numpy()

    def set_variable(self, variable: Tensor, value: Any, *, device: Device | str | None = None) -> None:
        """Gives a variable a value of its own shape and dtype. Errors: ShapeError, DTypeError, GraphError.

        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> g.set_variable(v, np.float32([5]))
        >>> g.variable_value(v).tolist()
        [5.0]
        """
        self.on(device).set_variable(variable, value)

    @property
    def cache(self) -> CacheStatistics:
        """Counters of the executables on the default device: hits, misses, compiles, evictions, seconds, bytes.

        >>> g = mg.Graph()
        >>> y = g.constant(1.0) + 1
        >>> _ = g.run({}, y), g.run({}, y)
        >>> g.cache.compiles, g.cache.hits
        (1, 1)
        """
        return self.on().cache

    @checked
    def set_cache_limits(self, count: Count, bytes: Count) -> None:
        """How many executables, of how many bytes together, are kept; the least recently used go first."""
        self.on().set_cache_limits(count, bytes)

    def clear_cache(self) -> None:
        """Forgets all executables; variables keep their values."""
        self.on().clear_cache()


def _graph_again(text: str, seed: int, trainable: list[str], random_count: int, values: dict[str, Any]) -> Graph:
    """What __reduce_ex__ has taken apart."""
    graph = Graph(seed, text=text)
    by_name = {v.name: v for v in graph.variables}
    graph._trainable, graph._random_count = [by_name[name] for name in trainable], random_count
    for name, value in values.items():
        graph.set_variable(by_name[name], value)
    return graph


@checked
def parse(text: str, seed: int = 0) -> Graph:
    """The graph of a printed form. All its floating-point variables are trainable. GraphError with line and column.

    >>> g = mg.parse("graph {\\n  %x = placeholder() {type=float32[2]} : float32[2]\\n}")
    >>> g.placeholders
    [<Tensor x: float32[2]>]
    """
    return Graph(seed, text=text)


_CHECKED = CompilationDescriptor(check_finite=True)


def _with_check_finite(options: CompilationDescriptor | None) -> CompilationDescriptor:
    """A copy that asks for it, too."""
    if options is None:
        return _CHECKED
    return CompilationDescriptor(
        options.disabled_passes, options.reference_kernels, options.observe, options.callables, True
    )


def _check_options(method: str, queue: Any, descriptor: Any, copy: Any, check_finite: Any) -> None:
    """GraphError for what a run's options cannot be."""
    if not isinstance(check_finite, bool):
        refuse(f"[{method}] check_finite", bool, check_finite)
    if queue is not None and not isinstance(queue, CommandQueue):
        refuse(f"[{method}] queue", CommandQueue | None, queue)
    if descriptor is not None and not isinstance(descriptor, ExecutionDescriptor):
        refuse(f"[{method}] descriptor", ExecutionDescriptor | None, descriptor)
    if copy is not None and not isinstance(copy, bool):
        refuse(f"[{method}] copy", bool | None, copy)


def _by_placeholder(feeds: Feeds | None) -> dict[Tensor, Any]:
    if feeds is not None and not isinstance(feeds, Mapping):
        raise GraphError(f"[run] feeds are arrays by placeholder, got {shown(feeds)}")
    return dict(feeds or {})


def _listed(targets: Targets, results: Any) -> tuple[list[Tensor], list[Any] | None]:
    """Targets and the arrays to write into, as lists of one order."""
    if isinstance(targets, Tensor):
        return [targets], None if results is None else [
            results.get(targets) if isinstance(results, Mapping) else results
        ]
    if not isinstance(targets, Iterable):
        raise GraphError(f"[run] targets are tensors, got {shown(targets)}; operations are given as target_operations")
    wanted = list(targets)
    if results is None:
        return wanted, None
    if not isinstance(results, Mapping):
        raise GraphError(f"results are arrays by target, got {shown(results)}")
    unknown = [tensor for tensor in results if not any(tensor is target for target in wanted)]
    if unknown:
        raise GraphError(f"results are given for {shown(unknown)}, which are no targets")
    return wanted, [results.get(tensor) for tensor in wanted]


def _keyed(targets: Targets, arrays: list[NDArray]) -> Any:
    """What run returns: the array of a single target, else a dict by target."""
    return arrays[0] if isinstance(targets, Tensor) else dict(zip(targets, arrays, strict=True))


def _type_of(tensor: Tensor, value: Any) -> tuple[Any, tuple[int, ...]]:
    """(dtype, shape) of a feed that is described by a shape, (shape, dtype), or something that has both."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return as_dtype(value.dtype), tuple(value.shape)
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        return as_dtype(value[1]), tuple(value[0])
    if not isinstance(value, (tuple, list)):
        raise GraphError(
            f"[compile] feed {tensor.name} must be a shape, (shape, dtype) or an array, got {shown(value)}"
        )
    return tensor.dtype, tuple(value)
