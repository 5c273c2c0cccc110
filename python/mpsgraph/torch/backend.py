"""Backend for torch.compile: Dynamo captures graphs, AOTAutograd differentiates them, and mpsgraph compiles them.

Operations without a translation run in PyTorch: the graph is split around them, and one warning names them. Graphs are
compiled for the shapes of their inputs. For a graph with dynamic sizes, two compilations usually determine the program
for further sizes (dynamic_sizes.py).
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .._core import Executable, ExecutableTemplate
from ..errors import Error
from ..graph import Graph
from ..ops.random import own_random_states
from ..random import philox_state
from . import importer
from .aten import function_of
from .dynamic_sizes import SymbolicShapes
from .partition import partition
from .recurrent import in_layers
from .sharing import Boxed, with_shared_views
from .tensors import run


@dataclass
class Explanation:
    """Number of calls of each operation that run in mpsgraph, and of those that fall back to PyTorch.

    Attributes:
        graphs: Number of compiled graphs; a forward and a backward pass count as two.
        translated: Number of calls per operation that run in mpsgraph.
        fallen: Number of calls per operation that fall back to PyTorch.
        reasons: Why operations fall back to PyTorch: a dict of reasons, keyed by operation.

    Example:
        >>> import torch
        >>> found = mg.torch.explain(torch.nn.Linear(2, 3), torch.ones(4, 2))
        >>> found.fallen.total()
        0
    """

    graphs: int = 0
    """Number of compiled graphs; a forward and a backward pass count as two."""
    translated: Counter[str] = field(default_factory=Counter)
    fallen: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why operations fall back to PyTorch: a dict of reasons, keyed by operation."""

    def __str__(self) -> str:
        here, there = self.translated.total(), self.fallen.total()
        lines = [f"{self.graphs} graphs: {here} calls run in mpsgraph, {there} in PyTorch"]
        lines += [f"  {name}: {count}, {self.reasons[name]}" for name, count in self.fallen.most_common()]
        return "\n".join(lines)


# The most sizes of a graph for which a compiled function is kept.
_MOST_SIZES = 256
_MOST_TEMPLATES = 8
_listeners: list[Explanation] = []
_warned: set[str] = set()


class _Translated(OperatorSupportBase):
    """Decides which calls mpsgraph can translate, by translating each call on its own in a scratch graph."""

    def __init__(self) -> None:
        self.reasons: dict[torch.fx.Node, str] = {}

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            source = node.args[0]
            return isinstance(source, torch.fx.Node) and self.is_node_supported(submodules, source)
        if node not in self.reasons:
            self.reasons[node] = _why_not(node)
        return not self.reasons[node]


def _why_not(node: torch.fx.Node) -> str:
    """Return the reason why a call cannot be translated, or "" if it can be translated."""
    if function_of(node.target) is None:
        return "mpsgraph does not support this operation"
    for place in (_elsewhere(n.meta.get("val")) for n in (node, *node.all_input_nodes)):
        if place:
            return f"its tensors are on {place}: move the module and its inputs to the CPU"
    if any(_depends_on_values(n.meta.get("val")) for n in (node, *node.all_input_nodes)):
        return "the size of one of its tensors is known only at run time"
    try:
        importer.scratch(node)
    except Error as error:
        return str(error).splitlines()[0]
    return ""


def _elsewhere(value: Any) -> str:
    """Return the device of the first tensor that is not on the CPU, or "" if all tensors are on the CPU."""
    tensors = (x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor))
    return next((str(x.device) for x in tensors if x.device.type != "cpu"), "")


def _depends_on_values(value: Any) -> bool:
    """Return whether a size is known only at run time."""
    return any(
        isinstance(size, torch.SymInt) and torch.fx.experimental.symbolic_shapes.free_unbacked_symbols(size)
        for x in torch.utils._pytree.tree_leaves(value)
        for size in _sizes(x)
    )


class _Part(torch.nn.Module):
    """A part of a captured graph, compiled to an executable whose operands and results are PyTorch tensors."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__()
        g, given, types = Graph(), {}, {}
        self.places: list[int] = []
        feeds: dict[Any, int] = {}
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        for place, node in enumerate(inputs):
            given[node.name] = importer.placeholders(g, node.meta.get("val"))
            if isinstance(node.meta.get("val"), torch.Tensor):
                feeds[given[node.name]] = place
                types[given[node.name]] = (tuple(given[node.name].shape), given[node.name].dtype)
        (output,) = (node for node in module.graph.nodes if node.op == "output")
        self.single = not isinstance(output.args[0], (tuple, list))
        if self.single:
            output.args = ((output.args[0],),)
        found, _ = importer.build(g, module.graph, given, differentiated=False)
        # A result that is a feed, or that occurs twice, is copied so that each result has its own array.
        targets: list[Any] = []
        for x in found:
            targets.append(g.identity(x) if x in feeds or any(x is t for t in targets) else x)
        read = importer.read_by(targets)
        self.executable: Executable = g.compile({f: t for f, t in types.items() if f in read}, targets)
        self.graph = g
        self.places = [feeds[feed] for feed in self.executable.feeds]
        # States that the graph keeps for its random operations.
        self.states = [state for state in own_random_states(g) if state in read]

    def run(
        self, tensors: list[Any] | tuple[Any, ...], places: list[int], executable: Executable | None = None
    ) -> list[torch.Tensor]:
        """Run the executable, or one for other sizes, on some of the given tensors. PyTorch's generator determines the
        random numbers.
        """
        if self.states:
            # Each run draws one seed, so torch.manual_seed and saved generator states repeat a run's random numbers.
            seed = int(torch.empty((), dtype=torch.int64).random_())
            self.graph.set_variables({s: philox_state(seed, 0, number) for number, s in enumerate(self.states)})
        return run(executable or self.executable, tensors, places)

    def forward(self, *inputs: Any) -> Any:
        tensors = self.run(inputs, self.places)
        return tensors[0] if self.single else tuple(tensors)


class _Known(FakeTensorProp):
    """Shape propagation that also records the values of symbolic sizes, which not every version of PyTorch does.

    Views are propagated as reshapes: the strides at the time of the trace allowed views, but the strides predicted for
    other sizes may not.
    """

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            target = torch.ops.aten.reshape.default
        return super().call_function(target, args, kwargs)

    def run_node(self, node: torch.fx.Node) -> Any:
        result = super().run_node(node)
        if isinstance(result, (bool, int, float)):
            node.meta["val"] = result
        return result


class _Compiled:
    """Compiles a graph from AOTAutograd. A graph with dynamic sizes is compiled for each new set of input shapes."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.open = any(
            isinstance(size, torch.SymInt)
            for node in module.graph.nodes
            if node.op == "placeholder"
            for size in _sizes(node.meta.get("val"))
        )
        self.parts: dict[Any, Boxed] = {}
        self.shapes = SymbolicShapes(module) if self.open else None
        # The last complete compilation, with all shapes, and templates made from two successive ones, newest first.
        self.last: tuple[_Whole, list[list[int]]] | None = None
        self.templates: list[tuple[_Whole, ExecutableTemplate]] = []

    def function(self) -> Boxed:
        """Return the function that AOTAutograd calls with a list of arguments."""
        found: Boxed = (lambda given: self.for_sizes(given)) if self.open else _partitioned(self.module)
        found._boxed_call = True  # type: ignore[attr-defined]
        return found

    def for_sizes(self, given: list[Any]) -> Any:
        key = tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in given)
        if key not in self.parts:
            while len(self.parts) >= _MOST_SIZES:
                self.parts.pop(next(iter(self.parts)))
            self.parts[key] = self.resized(given) or self.compiled(given)
        return self.parts[key](given)

    def resized(self, given: list[Any]) -> Boxed | None:
        """Return the function for sizes for which two earlier compilations determine the program, or None."""
        if not self.templates or self.shapes is None:
            return None
        shapes = self.shapes.values(given)
        for whole, template in self.templates:
            if executable := template.executable(shapes):
                return whole.runner(executable, self.shapes.returned(given))
        return None

    def compiled(self, given: list[Any]) -> Boxed:
        """Return the function for the sizes of these inputs, translated and compiled completely."""
        copied = torch.fx.Graph()
        output = copied.graph_copy(self.module.graph, {})
        copied.output(output)
        module = torch.fx.GraphModule(self.module, copied)
        module.meta.update(self.module.meta)
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            _Known(module, mode).propagate(*given)
        function = _partitioned(module)
        if self.shapes is not None and self.shapes.known and isinstance(function, _Whole) and not function.part.states:
            now, before = (function, self.shapes.values(given)), self.last
            self.last = now
            if before is not None:
                executables = (before[0].part.executable, function.part.executable)
                template = ExecutableTemplate.make(*executables, before[1], now[1])
                if template is not None:
                    self.templates = [(before[0], template), *self.templates[: _MOST_TEMPLATES - 1]]
        return function


def _sizes(value: Any) -> list[Any]:
    return list(value.shape) if isinstance(value, torch.Tensor) else [value]


def _partitioned(module: torch.fx.GraphModule) -> Boxed:
    """Split a graph into parts that mpsgraph compiles and calls that stay in PyTorch.

    Returns a function that runs the parts and the calls in order.
    """
    for node in list(module.graph.nodes):  # Replace symbolic sizes whose values are known by now.
        known = node.meta.get("val")
        if node.op == "call_function" and isinstance(known, (bool, int, float)):
            for user in list(node.users):
                user.args, user.kwargs = torch.fx.node.map_arg(
                    (user.args, user.kwargs), lambda n, node=node, known=known: known if n is node else n
                )
            module.graph.erase_node(node)
    return with_shared_views(module, _in_mpsgraph)


def _in_mpsgraph(module: torch.fx.GraphModule) -> Boxed:
    """Split a graph without symbolic sizes into compiled parts and calls that stay in PyTorch."""
    support = _Translated()
    calls = [n for n in module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    fallen = Counter(str(n.target) for n in calls if not support.is_node_supported({}, n))
    for explanation in _listeners:
        explanation.graphs += 1
        explanation.fallen += fallen
        explanation.translated += Counter(str(n.target) for n in calls if support.is_node_supported({}, n))
        explanation.reasons |= {str(n.target): why for n, why in support.reasons.items() if why}
    new = fallen.keys() - _warned
    if new and not _listeners:
        _warned.update(fallen)
        shown = ", ".join(f"{name} ({count})" for name, count in sorted(fallen.items()))
        warnings.warn(
            f"{fallen.total()} of {len(calls)} calls in a compiled graph fall back to PyTorch: {shown}. "
            "For the reasons, call mpsgraph.torch.explain(model, *inputs)",
            stacklevel=2,
        )
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for node in fused.graph.nodes:
        if node.op == "call_module" and isinstance(fused.get_submodule(node.target), torch.fx.GraphModule):
            setattr(fused, node.target, _Part(fused.get_submodule(node.target)))
    fused.recompile()
    return _whole(fused) or _in_parts(fused)


def _in_parts(fused: torch.fx.GraphModule) -> Boxed:
    def run_parts(given: list[Any]) -> Any:
        inputs = tuple(given)
        given.clear()
        return fused(*inputs)

    return run_parts


class _Whole:
    """A function that runs a graph that is one compiled part.

    Args:
        part: The part.
        places: For each feed, the index of its tensor among the arguments.
        gives: For each result of the graph, a function that returns it, given the results of the part and the
            arguments. None if the results are those of the part.
    """

    def __init__(self, part: _Part, places: list[int], gives: list[Any] | None) -> None:
        self.part, self.places, self.gives = part, places, gives

    def __call__(self, given: list[Any]) -> Any:
        return self.run(given, self.part.executable)

    def run(self, given: list[Any], executable: Executable) -> Any:
        found = self.part.run(given, self.places, executable)
        arguments = list(given) if self.gives is not None else []
        given.clear()
        return found if self.gives is None else [give(found, arguments) for give in self.gives]

    def runner(self, executable: Executable, sizes: dict[int, int]) -> Boxed:
        """Return a function like this one that runs an executable for other sizes.

        Args:
            executable: The executable.
            sizes: The results that are sizes, keyed by their index.
        """
        if not sizes:
            return lambda given: self.run(given, executable)

        def run_with_sizes(given: list[Any]) -> list[Any]:
            found = list(self.run(given, executable))
            for place, size in sizes.items():
                found[place] = size
            return found

        return run_with_sizes


def _whole(fused: torch.fx.GraphModule) -> _Whole | None:
    """Return a function that runs the executable directly, or None unless the whole graph is one compiled part."""
    calls = [n for n in fused.graph.nodes if n.op not in ("placeholder", "output") and n.target is not operator.getitem]
    if len(calls) != 1 or calls[0].op != "call_module" or calls[0].kwargs:
        return None
    (call,), part = calls, fused.get_submodule(calls[0].target)
    inputs = [node for node in fused.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in fused.graph.nodes if node.op == "output")
    if not isinstance(part, _Part) or not isinstance(output.args[0], (tuple, list)):
        return None
    places = [inputs.index(call.args[place]) for place in part.places]
    results = {call: 0} if part.single else {user: user.args[1] for user in call.users}
    nodes = list(output.args[0])
    if [results.get(node) for node in nodes] == list(range(len(part.executable.targets))):
        return _Whole(part, places, None)

    def giving(node: Any) -> Callable[[list[Any], list[Any]], Any]:
        if not isinstance(node, torch.fx.Node):
            return lambda found, arguments: node
        at = results[node] if node in results else inputs.index(node)
        return (lambda found, arguments: found[at]) if node in results else (lambda found, arguments: arguments[at])

    return _Whole(part, places, [giving(node) for node in nodes])


def _compiled(module: torch.fx.GraphModule, inputs: Any) -> Boxed:
    return _Compiled(module).function()


def backend(module: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """Compile a captured graph; `torch.compile(model, backend="mpsgraph")` calls this function.

    Args:
        module: Graph module captured by Dynamo.
        inputs: Example inputs of the module.
        **options: Accepted for compatibility with torch.compile, and ignored.

    Returns:
        A function that runs the compiled graph.

    Source: PyTorch's custom backends.

    Example:
        >>> import torch
        >>> compiled = torch.compile(torch.nn.Linear(2, 3), backend=mg.torch.backend)
        >>> tuple(compiled(torch.ones(4, 2)).shape)
        (4, 3)
    """
    in_layers(module)
    compiler = aot_autograd(
        fw_compiler=_compiled,
        bw_compiler=_compiled,
        inference_compiler=_compiled,
        partition_fn=partition,
        decompositions=importer.decompositions(),
    )
    return compiler(module, inputs)  # type: ignore[no-any-return]


def register() -> None:
    """Make `torch.compile(model, backend="mpsgraph")` find this backend, also if the package is not installed.

    An installed package has an entry point with the same name, which PyTorch loads on first use.
    """
    if registry._COMPILER_FNS.get("mpsgraph") is not backend:
        registry._COMPILER_FNS.pop("mpsgraph", None)
        registry.register_backend(backend, name="mpsgraph")


def compile(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a PyTorch module or function to run in mpsgraph, forward and backward.

    This is torch.compile with the mpsgraph backend. It also captures recurrent networks, which Dynamo otherwise leaves
    to PyTorch, by setting torch._dynamo.config.allow_rnn during each call. Operations that mpsgraph does not support
    fall back to PyTorch one by one, with a single warning.

    Args:
        model: Module or function to compile.
        **options: Options of torch.compile, such as dynamic.

    Returns:
        The compiled module or function, as torch.compile returns it. Parameters, state_dict and the optimizer remain
        PyTorch's.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> double = mg.torch.compile(lambda x: x * 2)
        >>> double(torch.ones(2)).tolist()
        [2.0, 2.0]
    """
    compiled: Callable[..., Any] = torch.compile(model, backend=backend, **options)
    if isinstance(compiled, torch.nn.Module):
        if any(isinstance(part, torch.nn.RNNBase) for part in compiled.modules()):
            compiled.forward = _with_recurrent(compiled.forward)
        return compiled
    return _with_recurrent(compiled)


def _with_recurrent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that Dynamo also captures recurrent networks during its calls."""

    @functools.wraps(function)
    def called(*inputs: Any, **named: Any) -> Any:
        # torch._dynamo.config.patch() takes as long as running a small network, so the option is set directly.
        config: Any = torch._dynamo.config
        before, config.allow_rnn = config.allow_rnn, True
        try:
            return function(*inputs, **named)
        finally:
            config.allow_rnn = before

    return called


@contextmanager
def explaining() -> Iterator[Explanation]:
    """Record which calls run in mpsgraph and which fall back to PyTorch. No warnings about fallbacks are issued.

    Returns:
        A context manager that yields an Explanation. Each graph compiled inside the block is added to it.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> with mg.torch.explaining() as found:
        ...     _ = mg.torch.compile(lambda x: x + 1)(torch.ones(2))
        >>> found.graphs, found.fallen.total()
        (1, 0)
    """
    found = Explanation()
    _listeners.append(found)
    try:
        yield found
    finally:
        _listeners.remove(found)


def explain(model: Callable[..., Any], *inputs: Any) -> Explanation:
    """Compile a model for some inputs, forward and backward, and report which calls fall back to PyTorch.

    Args:
        model: Module or function.
        *inputs: Inputs of the model.

    Returns:
        An Explanation; print it for a summary.

    Example:
        >>> import pytest; torch = pytest.importorskip("torch")
        >>> print(mg.torch.explain(torch.nn.Linear(2, 1), torch.ones(3, 2)))
        2 graphs: 8 calls run in mpsgraph, 0 in PyTorch
    """
    torch._dynamo.reset()
    try:
        with explaining() as found:
            result = compile(model)(*inputs)
            first = next((x for x in torch.utils._pytree.tree_leaves(result) if _differentiable(x)), None)
            if first is not None:
                wanted = [p for p in getattr(model, "parameters", list)() if p.requires_grad]
                wanted += [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
                torch.autograd.grad(first.sum(), wanted, allow_unused=True)
    finally:
        torch._dynamo.reset()
    return found


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
