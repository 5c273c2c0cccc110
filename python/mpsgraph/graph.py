"""The graph class, with methods for operations, gradients, textual form, compilation, and runs.

The operations are inherited from the classes in mpsgraph.ops: most from `Derived`, whose methods come from the schema
of operations. Everything else is defined here. A graph is built by one
thread; once built, several threads may run it. Targets are compiled on their first run with given types of feeds, and
executables are kept in a bounded cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, overload

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
from ._fetched import by_target, remember_targets
from .errors import GraphError
from .ops._family import user_location
from .ops.call import Call
from .ops.control_flow import ControlFlow
from .ops.convolution_columns import ConvolutionColumns
from .ops.debugging import Debugging
from .ops.derived import Derived
from .ops.fourier_transform import FourierTransform
from .ops.matrix import Matrix
from .ops.memory import Memory
from .ops.non_maximum_suppression import NonMaximumSuppression
from .ops.normalization import Normalization
from .ops.optimizer import Optimizer
from .ops.quantization import Quantization
from .ops.random import Random
from .ops.recurrent import Recurrent
from .ops.resize import Resize
from .ops.sample_grid import SampleGrid
from .ops.scatter_nd import ScatterND
from .ops.shape import Shape
from .ops.shape_slicing import ShapeSlicing
from .ops.sparse import Sparse
from .ops.stencil import Stencil
from .pictures.dot import to_dot
from .pictures.drawing import draw
from .pictures.nodes import nodes_of
from .pictures.tables import graph_table

Feeds: TypeAlias = Mapping[Tensor, Any]
Targets: TypeAlias = Tensor | Sequence[Tensor]
Results: TypeAlias = dict[Tensor, NDArray]


class Graph(
    Memory,
    Matrix,
    ConvolutionColumns,
    Sparse,
    Stencil,
    Normalization,
    Shape,
    ShapeSlicing,
    FourierTransform,
    ScatterND,
    Resize,
    SampleGrid,
    NonMaximumSuppression,
    ControlFlow,
    Call,
    Debugging,
    Quantization,
    Random,
    Recurrent,
    Optimizer,
    Derived,
):
    """A graph of operations that is built once and run often.

    Args:
        seed: Seed of `generator` and of random tensors without an explicit state. Defaults to 0.
        text: A printed graph, or the contents of a package, to start from. Defaults to None.

    Raises:
        GraphError: If text is not a valid graph.

    Example:
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 2), name="x")
        >>> y = g.reduction_sum(x * x, axes=1)
        >>> g.run({x: np.array([[3, 4]], np.float32)}, y).tolist()
        [[25.0]]
    """

    _promotes = False  # Whether operators of tensors promote dtypes, as those of arrays do.

    @checked
    def __init__(self, seed: int = 0, *, text: str | _core.PackageContents | None = None) -> None:
        if text is None:
            super().__init__()
        else:
            super().__init__(text)
        self.seed = seed
        self._trainable: list[Tensor] = [] if text is None else [v for v in self.variables if v.dtype.is_float]
        self._random_count = 0 if text is None else len(self.variables)
        self._own_states: list[Tensor] = []  # States of random operations, in order of creation.
        self._outputs_first: set[Tensor] = set()  # Variables of shape (outputs, inputs), for optimizers of matrices.
        self._repeated_states: list[Tensor] = []
        self._generator: np.random.Generator | None = None
        self._on_devices: dict[str | None, DeviceGraph] = {}
        self._custom_gradients: list[Any] = []  # Records of mpsgraph._custom_gradients.
        self._parsed = text is not None
        self._guest: Guest | None = None  # Object that holds the values of the variables, if not the graph.

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError, which names the method that users of numpy or PyTorch mean."""
        hint = ""
        if not name.startswith("_"):
            from ._names import graph_hint

            hint = graph_hint(name, dir(type(self)))
        raise AttributeError(f"'Graph' object has no attribute '{name}'{hint}")

    @property
    def generator(self) -> np.random.Generator:
        """The numpy generator that draws initial values. Its seed is the graph's (two's complement if negative)."""
        if self._generator is None:
            self._generator = np.random.default_rng(self.seed % 2**64)
        return self._generator

    # --- gradients and textual form -----------------------------------------------------------------------------------

    @checked
    def gradients(
        self,
        of: Tensor,
        with_respect_to: Tensor | Sequence[Tensor],
        start: Tensor | None = None,
        unconnected: Literal["zeros", "error"] = "zeros",
    ) -> dict[Tensor, Tensor]:
        """Build the gradients of one tensor with respect to others, as new operations of the graph.

        Args:
            of: Tensor to differentiate. For a tensor that is not a scalar, the sum of its elements is differentiated.
            with_respect_to: A tensor of this graph, or a sequence of tensors, such as `trainable_variables`.
            start: Gradient with respect to `of`. None, the default, means ones.
            unconnected: Result for a tensor that `of` does not depend on: "zeros" (the default) or "error".

        Returns:
            A dict from tensors to gradients, which can be differentiated again.

        Raises:
            GraphError: If a tensor belongs to another graph, or if `of` does not depend on a tensor and unconnected is
                "error".

        Source: MPSGraph gradientForPrimaryTensor:withTensors:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([3.0])
            >>> g.run({}, g.gradients(x * x, [x])[x]).tolist()
            [6.0]
        """
        tensors = [with_respect_to] if isinstance(with_respect_to, Tensor) else list(with_respect_to)
        self.set_location(user_location())
        if self._custom_gradients or self._parsed:
            from . import _custom_gradients as custom_gradients

            reachable = [r for r in self._custom_gradients if r.results[0].operation.id <= of.operation.id]
            if self._parsed:
                custom_gradients.check_parsed(self, of, reachable)
            if reachable:
                found = custom_gradients.gradients(reachable, of, tensors, start, unconnected)
                return dict(zip(tensors, found, strict=True))
        return dict(zip(tensors, _core.gradients(of, tensors, start, unconnected), strict=True))

    def verify(self) -> None:
        """Check the graph against the rules of its operations.

        Raises:
            GraphError: If an operation is invalid; the error names the first invalid operation.
        """
        _core.verify(self)

    def __str__(self) -> str:
        """Return the textual form of the graph, from which `mg.parse` creates an equal graph.

        Example:
            >>> g = mg.Graph()
            >>> _ = g.placeholder((2,), name="x") + 1
            >>> str(mg.parse(str(g))) == str(g)
            True
        """
        return _core.print_graph(self)

    def __repr__(self) -> str:
        return f"<Graph of {self.operation_count} operations>"

    def _repr_html_(self) -> str:
        """Return a table of placeholders, variables, and kinds of operations, for notebooks."""
        return graph_table(self)

    @checked
    def to_dot(self, targets: Sequence[Tensor | Operation] | None = None, *, limit: Size = 1000) -> str:
        """Return the graph in the DOT language of Graphviz, for `dot -Tsvg` and web pages.

        Args:
            targets: Tensors and operations to include, with everything they depend on. None, the default, includes the
                whole graph.
            limit: Maximum number of operations. Defaults to 1000.

        Returns:
            The text of a digraph.

        Raises:
            GraphError: If there are more operations than limit, or a target belongs to another graph.

        Example:
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
        """Draw the graph with matplotlib: operations in rows, from placeholders down to the results.

        Args:
            path: File to write, with the extension .png, .svg, or .pdf. Defaults to None, which writes no file.
            targets: Tensors and operations to include, with everything they depend on. None, the default, includes the
                whole graph.
            axes: matplotlib axes to draw on. None, the default, creates a new figure.
            limit: Maximum number of operations. Defaults to 300.

        Returns:
            The matplotlib axes.

        Raises:
            GraphError: If there are more operations than limit, or a target belongs to another graph.
            ImportError: If matplotlib is not installed (`pip install mpsgraph[train]`).
        """
        return draw(nodes_of(self, targets, limit), path, axes)

    # --- copies ------------------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Support pickle and copy.deepcopy: the copy has the same operations and the current values of the variables.

        Example:
            >>> import copy
            >>> g = mg.Graph()
            >>> v = g.variable([1.0], name="v")
            >>> twin = copy.deepcopy(g)
            >>> _ = g.run({}, [], [g.assign(v, v + 1)])
            >>> g.variable_value(v).tolist(), twin.variable_value(twin.find("v").outputs[0]).tolist()
            ([2.0], [1.0])
        """
        device = device_with_values(self)
        variables = self.variables if self._on_devices else []
        values = dict(zip((v.name for v in variables), self.variable_values(variables, device=device), strict=True))
        return _graph_again, (str(self), self.seed, [v.name for v in self._trainable], self._random_count, values)

    # --- running ---------------------------------------------------------------------------------------------------

    def on(self, device: Device | str | None = None) -> DeviceGraph:
        """Return an object that runs the graph on a device and holds the values of variables and the executables on
        that device.

        Args:
            device: The device or its name. None, the default, means the default device.

        Returns:
            A DeviceGraph, the same one for every call with the same device.

        Raises:
            DeviceError: If this build has no such device.
        """
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
        timeout: float | None = None,
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
        timeout: float | None = None,
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
        timeout: float | None = None,
    ) -> NDArray | Results:
        """Run the operations on which the targets and target operations depend, and wait for the results.

        On x86, arithmetic flushes subnormal numbers (below 2^-126 in float32) to zero.

        Args:
            feeds: Dict from placeholders to arrays, or to batches of images, matrices, or vectors as tensor_data
                accepts them. C-contiguous arrays of the right dtype are shared, not copied.
            targets: A tensor or a sequence of tensors to compute. Defaults to no tensors.
            target_operations: Operations to run in addition, such as assignments. Defaults to no operations.
            device: The device or its name. None, the default, means the default device.
            results: Dict from targets to contiguous, writable arrays to write to, or one array for a single target.
                None, the default, allocates arrays.
            queue: Command queue to run on. None, the default, means the device's own queue.
            copy: Handling of feeds that cannot be shared: None, the default, copies them and counts the copies; False
                raises ShapeError.
            check_finite: Whether the run ends with a CheckError at the first operation that produces NaN or an
                infinity. The error names the operation and the line that built it, and variables keep their values, as
                for `check`. The checks are slow. Defaults to False.
            timeout: Maximum number of seconds that the run may take. A run that takes longer is cancelled, and
                variables keep their values, as after Ctrl-C. None, the default, means no limit.

        Returns:
            The NDArray of a single target, or a dict from targets to NDArrays.

        Raises:
            GraphError: If a feed is missing, unknown, or belongs to another graph.
            ShapeError: If the shape of a feed does not match, or copy is False and a feed cannot be shared.
            DTypeError: If the dtype of a feed does not match.
            CheckError: If a check fails, or check_finite is True and an operation produces NaN or an infinity.
            TimeoutError: If the run does not end within the timeout.
            DeviceError: If the run fails.

        Source: MPSGraph runWithMTLCommandQueue:feeds:targetTensors:targetOperations: and
        runWithMTLCommandQueue:feeds:targetOperations:resultsDictionary:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((2,))
            >>> g.run({x: np.float32([1, 2])}, [x * 2])
            {<Tensor multiplication: float32[2]>: NDArray([2., 4.], float32(2))}
        """
        if queue is not None or copy is not None or check_finite is not False:
            _check_options("run", queue, None, copy, check_finite)
        wanted, written = _listed(targets, results)
        options = _CHECKED if check_finite else None
        arrays = self.on(device).run(
            _by_placeholder(feeds), wanted, target_operations, written, queue, copy, options, timeout
        )
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
        """Start a run and return immediately.

        Arrays that are fed must not change until the run is done.

        Args:
            feeds: Dict from placeholders to arrays, or to batches of images, matrices, or vectors as tensor_data
                accepts them. C-contiguous arrays of the right dtype are shared, not copied.
            targets: A tensor or a sequence of tensors to compute. Defaults to no tensors.
            target_operations: Operations to run in addition, such as assignments. Defaults to no operations.
            device: The device or its name. None, the default, means the default device.
            results: Dict from targets to contiguous, writable arrays to write to, or one array for a single target.
                None, the default, allocates arrays.
            descriptor: Handlers and events of the run; handlers receive results that targets index, as in
                `results[loss]`. Defaults to None.
            queue: Command queue to run on. None, the default, means the device's own queue.
            copy: Handling of feeds that cannot be shared: None, the default, copies them and counts the copies; False
                raises ShapeError.
            check_finite: Whether the run ends with a CheckError at the first operation that produces NaN or an
                infinity. The error names the operation and the line that built it, and variables keep their values, as
                for `check`. This is slow. Defaults to False.

        Returns:
            An Execution, which raises the errors of the run itself when it is waited for. `execution[tensor]` is the
            array of a target, without waiting for its contents, for runs on other queues that wait for an event.

        Raises:
            GraphError: If a feed is missing, unknown, or belongs to another graph.
            ShapeError: If the shape of a feed does not match, or copy is False and a feed cannot be shared.
            DTypeError: If the dtype of a feed does not match.

        Source: MPSGraph runAsyncWithMTLCommandQueue:feeds:targetTensors:targetOperations:executionDescriptor:.

        Example:
            >>> g = mg.Graph()
            >>> g.run_async({}, g.constant(2.0) * 3).results.item()
            6.0
        """
        _check_options("run_async", queue, descriptor, copy, check_finite)
        wanted, written = _listed(targets, results)
        keyed_by = targets if isinstance(targets, Tensor) else wanted
        with by_target(descriptor, wanted):
            started = self.on(device).run_async(
                _by_placeholder(feeds), wanted, target_operations, written, descriptor, queue, copy,
                _CHECKED if check_finite else None, keyed_by=keyed_by,
            )  # fmt: skip
        return remember_targets(started, wanted)

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
        """Add a run to a command buffer, which the caller commits.

        Args:
            command_buffer: Command buffer of a queue on the device to run on.
            feeds: Dict from placeholders to arrays, or to batches of images, matrices, or vectors as tensor_data
                accepts them. C-contiguous arrays of the right dtype are shared, not copied.
            targets: A tensor or a sequence of tensors to compute. Defaults to no tensors.
            target_operations: Operations to run in addition, such as assignments. Defaults to no operations.
            results: Dict from targets to contiguous, writable arrays to write to, or one array for a single target.
                None, the default, allocates arrays.
            descriptor: Handlers and events of the run. Defaults to None.
            copy: Handling of feeds that cannot be shared: None, the default, copies them and counts the copies; False
                raises ShapeError.
            check_finite: Whether the run ends with a CheckError at the first operation that produces NaN or an
                infinity. The error names the operation and the line that built it, and variables keep their values, as
                for `check`. This is slow. Defaults to False.

        Returns:
            The NDArray of a single target, or a dict from targets to NDArrays, which are written when the command
            buffer has completed.

        Raises:
            GraphError: If a feed is missing, unknown, or belongs to another graph.
            ShapeError: If the shape of a feed does not match, or copy is False and a feed cannot be shared.
            DTypeError: If the dtype of a feed does not match.
            DeviceError: If the command buffer has already been committed.

        Source: MPSGraph encodeToCommandBuffer:feeds:targetTensors:targetOperations:executionDescriptor:.

        Example:
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
        with by_target(descriptor, wanted):
            made = on.encode(command_buffer, fed, wanted, target_operations, written, descriptor, copy, options)
        return _keyed(targets, made)

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
        """Compile targets and target operations for given types of feeds, without running them.

        Args:
            feeds: For each placeholder a shape, a pair (shape, dtype), or any object with a shape and a dtype.
            targets: A tensor or a sequence of tensors to compute. Defaults to none.
            target_operations: Operations to run in addition, such as assignments. Defaults to none.
            device: The device or its name. None, the default, means the default device.
            options: Options of the compilation, such as passes to skip. Defaults to None.
            check_finite: Whether runs end with a CheckError at the first operation that produces NaN or an infinity.
                Defaults to False.

        Returns:
            An Executable, which is run with inputs in the order of its `feeds`.

        Raises:
            GraphError: If a feed is missing, unknown, or belongs to another graph.
            ShapeError: If the shape of a feed does not match.
            DTypeError: If the dtype of a feed does not match.
            UnsupportedError: If a shape depends on the values of tensors, or the device does not support an operation.

        Source: MPSGraph compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.placeholder((-1,))
            >>> executable = g.compile({x: (3,)}, [x * 2])
            >>> [array.tolist() for array in executable.run([np.float32([1, 2, 3])])]
            [[2.0, 4.0, 6.0]]
        """
        types = {}
        for tensor, value in feeds.items():
            if not isinstance(tensor, Tensor):
                raise GraphError(
                    "[compile] feeds must map placeholders to types, got an entry from "
                    f"{shown(tensor)} to {shown(value)}"
                )
            types[tensor] = _type_of(tensor, value)
        if check_finite:
            options = _with_check_finite(options)
        return self.on(device).compile(types, _listed(targets, None)[0], target_operations, options)

    def variable_value(self, variable: Tensor, *, device: Device | str | None = None) -> np.ndarray:
        """Return a copy of a variable's value, after waiting for all runs that have been started.

        Args:
            variable: A variable of this graph.
            device: The device or its name. None, the default, means the default device.

        Returns:
            A numpy array.

        Raises:
            GraphError: If variable is not a variable of this graph.

        Example:
            >>> g = mg.Graph()
            >>> g.variable_value(g.variable([1.0, 2.0])).tolist()
            [1.0, 2.0]
        """
        return self.on(device).variable_value(variable).numpy()

    def variable_values(self, variables: Iterable[Tensor], *, device: Device | str | None = None) -> list[np.ndarray]:
        """Return copies of the values of several variables at one point in time, after waiting for all runs that have
        been started.

        On the Metal device, one program copies all of them, so this is much faster than one `variable_value` each.

        Args:
            variables: Variables of this graph.
            device: The device or its name. None, the default, means the default device.

        Returns:
            A list of numpy arrays, in the order of variables.

        Raises:
            GraphError: If an element is not a variable of this graph.

        Example:
            >>> g = mg.Graph()
            >>> v, w = g.variable([1.0, 2.0]), g.variable([3.0])
            >>> [value.tolist() for value in g.variable_values([v, w])]
            [[1.0, 2.0], [3.0]]
        """
        if not isinstance(variables, Iterable):
            raise GraphError(f"[variable_values] variables must be a sequence of variables, got {shown(variables)}")
        return [value.numpy() for value in self.on(device).variable_values(list(variables))]

    def set_variable(self, variable: Tensor, value: Any, *, device: Device | str | None = None) -> None:
        """Set the value of a variable.

        Args:
            variable: A variable of this graph.
            value: Array with the shape and dtype of the variable.
            device: The device or its name. None, the default, means the default device.

        Raises:
            ShapeError: If the shapes differ.
            DTypeError: If the dtypes differ.
            GraphError: If variable is not a variable of this graph.

        Example:
            >>> g = mg.Graph()
            >>> v = g.variable([1.0])
            >>> g.set_variable(v, np.float32([5]))
            >>> g.variable_value(v).tolist()
            [5.0]
        """
        self.on(device).set_variable(variable, value)

    def set_variables(self, values: Mapping[Tensor, Any], *, device: Device | str | None = None) -> None:
        """Set the values of several variables. Nothing changes unless all values fit.

        On the Metal device, one program copies all of them, so this is much faster than one `set_variable` each.

        Args:
            values: Dict of arrays, keyed by variable, with the shapes and dtypes of the variables.
            device: The device or its name. None, the default, means the default device.

        Raises:
            ShapeError: If a shape differs.
            DTypeError: If a dtype differs.
            GraphError: If a key is not a variable of this graph.

        Example:
            >>> g = mg.Graph()
            >>> v, w = g.variable([1.0]), g.variable([2.0])
            >>> g.set_variables({v: np.float32([5]), w: np.float32([6])})
            >>> [value.tolist() for value in g.variable_values([v, w])]
            [[5.0], [6.0]]
        """
        if not isinstance(values, Mapping):
            raise GraphError(f"[set_variables] values must be a dict from variables to arrays, got {shown(values)}")
        self.on(device).set_variables(dict(values))

    @property
    def cache(self) -> CacheStatistics:
        """Counters of the executable cache of the default device: hits, misses, compiles, evictions, seconds, and
        bytes.

        Example:
            >>> g = mg.Graph()
            >>> y = g.constant(1.0) + 1
            >>> _ = g.run({}, y), g.run({}, y)
            >>> g.cache.compiles, g.cache.hits
            (1, 1)
        """
        return self.on().cache

    @checked
    def set_cache_limits(self, count: Count, bytes: Count) -> None:
        """Set the limits of the executable cache of the default device, which evicts the least recently used
        executables.

        Args:
            count: Maximum number of executables.
            bytes: Maximum total number of bytes of all executables.

        Raises:
            GraphError: If a limit is negative or not an int.
        """
        self.on().set_cache_limits(count, bytes)

    def clear_cache(self) -> None:
        """Remove all executables from the cache of the default device. Variables keep their values."""
        self.on().clear_cache()


# --- parts of graphs for other modules of the package -----------------------------------------------------------------


class Guest(Protocol):
    """Protocol of an object that currently holds the values of a graph's variables; see mpsgraph.training.engine."""

    def give_back(self) -> None:
        """Copy the values of the variables back to the graph."""


def guest_of(graph: Graph) -> Guest | None:
    """Return the object that currently holds the values of the variables, or None for the graph itself."""
    return graph._guest


def set_guest(graph: Graph, guest: Guest | None) -> None:
    """Set the object that holds the values of the variables from now on."""
    graph._guest = guest


def holder_of_values(graph: Graph) -> DeviceGraph | None:
    """Return the DeviceGraph that holds the values of the variables, or None if the graph has not run on any device."""
    if graph._guest is not None:
        graph._guest.give_back()
    return graph._on_devices.get(None) or next(iter(graph._on_devices.values()), None)


def device_with_values(graph: Graph) -> Device | None:
    """Return the device with the current values: the default device, unless the graph has run only on others."""
    known = graph._on_devices
    return None if None in known or not known else next(iter(known.values())).device


def variables_outputs_first(graph: Graph) -> set[Tensor]:
    """Return the variables of shape (outputs, inputs). Modules add theirs, and optimizers of matrices read them."""
    return graph._outputs_first


def set_trainable(graph: Graph, variables: Iterable[Tensor]) -> None:
    """Set the trainable variables."""
    graph._trainable = list(variables)


def set_generator(graph: Graph, seed: int) -> None:
    """Draw further initial values from a new generator with a seed."""
    graph._generator = np.random.default_rng(seed % 2**64)


def gradient_records(graph: Graph) -> list[Any]:
    """Return the records of custom gradients; see mpsgraph._custom_gradients."""
    return graph._custom_gradients


def promotes(graph: Graph) -> bool:
    """Return whether operators of a graph's tensors promote dtypes, as those of arrays do."""
    return graph._promotes


def promote(graph: Graph) -> None:
    """Promote dtypes in operators of a graph's tensors."""
    graph._promotes = True


def _graph_again(text: str, seed: int, trainable: list[str], random_count: int, values: dict[str, Any]) -> Graph:
    """Recreate a graph from pickled state; `Graph.__reduce_ex__` names this function."""
    graph = Graph(seed, text=text)
    by_name = {v.name: v for v in graph.variables}
    graph._trainable, graph._random_count = [by_name[name] for name in trainable], random_count
    graph.set_variables({by_name[name]: value for name, value in values.items()})
    return graph


@checked
def parse(text: str, seed: int = 0) -> Graph:
    """Create a graph from its textual form, with all floating-point variables trainable.

    Args:
        text: Textual form of a graph, as `str(graph)` returns it.
        seed: Seed of the graph. Defaults to 0.

    Returns:
        A new graph.

    Raises:
        GraphError: If text is not a valid graph; the error contains the line and column.

    Example:
        >>> g = mg.parse("graph {\\n  %x = placeholder() {type=float32[2]} : float32[2]\\n}")
        >>> g.placeholders
        [<Tensor x: float32[2]>]
    """
    return Graph(seed, text=text)


_CHECKED = CompilationDescriptor(check_finite=True)


def _with_check_finite(options: CompilationDescriptor | None) -> CompilationDescriptor:
    """Return a copy of the options with check_finite set."""
    if options is None:
        return _CHECKED
    return CompilationDescriptor(
        options.disabled_passes, options.reference_kernels, options.observe, options.callables, True
    )


def _check_options(method: str, queue: Any, descriptor: Any, copy: Any, check_finite: Any) -> None:
    """Raise GraphError if an option of a run has the wrong type."""
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
        raise GraphError(f"[run] feeds must be a dict from placeholders to arrays, got {shown(feeds)}")
    return dict(feeds or {})


def _listed(targets: Targets, results: Any) -> tuple[list[Tensor], list[Any] | None]:
    """Return a list of the targets, and a list of the arrays for their results, or None if `results` is None."""
    if isinstance(targets, Tensor):
        return [targets], None if results is None else [
            results.get(targets) if isinstance(results, Mapping) else results
        ]
    if not isinstance(targets, Iterable):
        raise GraphError(
            f"[run] targets must be a tensor or a sequence of tensors, got {shown(targets)}: "
            "pass operations as target_operations"
        )
    wanted = list(targets)
    if results is None:
        return wanted, None
    if not isinstance(results, Mapping):
        raise GraphError(f"[run] results must be a dict from targets to arrays, got {shown(results)}")
    unknown = [tensor for tensor in results if not any(tensor is target for target in wanted)]
    if unknown:
        raise GraphError(f"[run] the keys of results must be targets of the run, got {shown(unknown)}")
    return wanted, [results.get(tensor) for tensor in wanted]


def _keyed(targets: Targets, arrays: list[NDArray]) -> Any:
    """Return results in the form that Graph.run returns: the array for a single target, or a dict keyed by target."""
    return arrays[0] if isinstance(targets, Tensor) else dict(zip(targets, arrays, strict=True))


def _type_of(tensor: Tensor, value: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the dtype and shape of a feed.

    The feed may be given as a shape, as a pair (shape, dtype), or as an object with the attributes shape and dtype.
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return as_dtype(value.dtype), tuple(value.shape)
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], (tuple, list)):
        return as_dtype(value[1]), tuple(value[0])
    if not isinstance(value, (tuple, list)):
        raise GraphError(
            f"[compile] feed {tensor.name} must be a shape, (shape, dtype), or an array, got {shown(value)}"
        )
    return tensor.dtype, tuple(value)
