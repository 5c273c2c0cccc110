"""Module: a part of a model that owns variables of a graph. Sequential: modules one after another.

Calling a module with a tensor adds its operations to the tensor's graph. The first call builds it, that is, makes its
variables there; later calls, in training or in inference mode, use the same ones. So one graph holds both the training
and the inference form of a model.

Beside the class stand functions for code that works on whole models: `mode_of` sets their mode for a while,
`observed_calls` watches their calls, `unbuilt_copy` copies them for another graph. As functions, not methods, they take
no names from the classes that people derive.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._checks import check_methods, checked
from .._core import DType, Tensor, bfloat16, float16, float32
from .._display import ShowsArguments, arguments_of, shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from ..precision.mixed_precision import autocast_dtype, layer_scope
from .initialisers import Initialiser, first_value
from .masks import pass_mask
from .pickling import written, written_graph
from .state import IncompatibleKeys, copied, fitting, slot_of
from .summary import Summary, summarize

if TYPE_CHECKING:
    from ..graph import Graph

Self = TypeVar("Self", bound="Module")
_LAYERS = __name__.rsplit(".", 1)[0] + "."


def graph_of(x: Tensor) -> Graph:
    """The graph that a tensor is of."""
    return x.graph  # type: ignore[return-value]


@checked
class Module(ShowsArguments):
    """The base of layers and models: write `forward`, and `build` when there are variables.

    >>> class Scale(mg.nn.Module):
    ...     def build(self, x):
    ...         self.factor = self.add_parameter("factor", x, x.shape[-1:], mg.nn.initialisers.ones)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> g = mg.Graph()
    >>> scale = Scale()
    >>> g.run({}, scale(g.constant([1.0, 2.0]))).tolist()
    [1.0, 2.0]
    >>> list(scale.state_dict())
    ['factor']
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(_LAYERS):  # whoever writes layers of his own chooses himself
            check_methods(cls)

    training: bool | Tensor = True
    """The mode: True or False, or a bool tensor of one element by which the graph chooses when it runs."""
    precision: str | None = None
    """What its products are computed in: "float32", "bfloat16" or "float16"; None: as what is around it."""
    passes_mask = False
    """Does the result have the steps of the first input, and so its mask (nn.masks)?"""
    frozen: bool = False
    """Do trainers leave this module's parameters, and those of all beneath it, as they are?"""
    _graph: Graph | None = None
    _path = ""
    _waiting: Callable[[Module], object] | None = None

    def build(self, x: Tensor) -> None:
        """Makes the variables, knowing the first input; called once. The default makes none."""

    def forward(self, x: Tensor) -> Tensor:
        """The module's result for an input."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, x)")

    def __call__(self, x: Tensor, *more: Any, **options: Any) -> Tensor:
        with layer_scope(self.precision):
            self.ensure_built(x)
            observed = _observers.open
            result = _told(self, x, more, options) if observed else self.forward(x, *more, **options)
            if self.passes_mask:
                pass_mask(x, result)
        if self._waiting is not None:
            self.load_waiting()
        return result

    def ensure_built(self, x: Tensor) -> None:
        """What a call does first: `build` if there are no variables yet. GraphError in another graph than theirs."""
        if self._graph is None:
            self._name_children()
            self.build(x)
            self._graph = graph_of(x)
        elif self._graph is not x.graph:
            raise GraphError(
                f"{type(self).__name__} has its variables in another graph: make a new model and use load_state_dict"
            )

    # --- variables -------------------------------------------------------------------------------------------------

    def add_parameter(
        self,
        name: str,
        x: Tensor,
        shape: Sequence[int],
        initialiser: Initialiser,
        fans: tuple[float, float] | None = None,
        dtype: DType | None = None,
    ) -> Tensor:
        """A trainable variable in x's graph, for `build` to keep as an attribute.

        It has x's dtype or another that is asked for; under mixed precision float32, whatever x is.
        """
        return self._add("_parameters", name, x, shape, initialiser, fans, dtype)

    def add_buffer(
        self, name: str, x: Tensor, shape: Sequence[int], initialiser: Initialiser, dtype: DType | None = None
    ) -> Tensor:
        """A variable that is saved but not trained, such as a moving average; its dtype is as add_parameter's."""
        return self._add("_buffers", name, x, shape, initialiser, None, dtype)

    def _add(
        self,
        where: str,
        name: str,
        x: Tensor,
        shape: Sequence[int],
        initialiser: Initialiser,
        fans: tuple[float, float] | None,
        dtype: DType | None = None,
    ) -> Tensor:
        graph = graph_of(x)
        if len(shape) > 16 or any(size < 1 for size in shape):
            where = self._path or type(self).__name__
            raise ShapeError(f"{where}: the size of '{name}' {shown(tuple(shape))} must be known")
        path = f"{self._path}.{name}" if self._path else name
        low = x.dtype in (bfloat16, float16) and autocast_dtype() is not None
        own = dtype or (float32 if low else x.dtype)
        value = first_value(initialiser, tuple(shape), graph.generator, fans, own)
        variable = graph.variable(value, own, path, trainable=where == "_parameters")
        vars(self).setdefault(where, {})[name] = variable
        return variable

    def children(self) -> Iterator[tuple[str, Module]]:
        """The modules among the attributes, also in lists and dictionaries, with their names."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                yield from ((f"{name}.{i}", item) for i, item in enumerate(value) if isinstance(item, Module))
            elif isinstance(value, dict):
                yield from ((f"{name}.{key}", item) for key, item in value.items() if isinstance(item, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all beneath it, with dotted paths."""
        yield prefix, self
        for name, child in self.children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Trainable variables with dotted paths; they exist after the first call."""
        return self._named("_parameters")

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Variables that are not trained, with dotted paths."""
        return self._named("_buffers")

    def parameters(self) -> list[Tensor]:
        """Trainable variables."""
        return [variable for _, variable in self.named_parameters()]

    def buffers(self) -> list[Tensor]:
        """Variables that are not trained."""
        return [variable for _, variable in self.named_buffers()]

    def _named(self, where: str) -> Iterator[tuple[str, Tensor]]:
        """Each variable once, by the first path that leads to it."""
        if not any(module._graph is not None for _, module in self.named_modules()):
            self._require_built()
        seen: set[Tensor] = set()
        for path, module in self.named_modules():
            for name, variable in vars(module).get(where, {}).items():
                if variable not in seen:
                    seen.add(variable)
                    yield (f"{path}.{name}" if path else name), variable

    def _require_built(self) -> Graph:
        if self._graph is None:
            raise GraphError(f"{type(self).__name__} has no variables yet: call it with a tensor first")
        return self._graph

    def _name_children(self) -> None:
        """Paths become the variables' names; the outermost module that is called gives them."""
        for path, module in self.named_modules(self._path):
            module._path = path

    # --- what trains -----------------------------------------------------------------------------------------------

    def freeze(self: Self) -> Self:
        """Trainers leave the parameters of this module and all beneath it as they are: PyTorch's requires_grad.

        It counts when a trainer builds its step, so before its first batch. Batch normalizations still follow the data
        with their moving averages in training mode; `eval` says that they shall not.

        >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.Linear(2))
        >>> _ = model[0].freeze(), model(mg.Graph().placeholder((-1, 3)))
        >>> [path for path, _ in model.named_trainable_parameters()]
        ['1.weight', '1.bias']
        """
        return self.requires_grad_(False)

    def unfreeze(self: Self) -> Self:
        """The opposite of freeze."""
        return self.requires_grad_(True)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """freeze and unfreeze by PyTorch's name."""
        for _, module in self.named_modules():
            module.frozen = not requires_grad
        return self

    def named_trainable_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters without those of frozen modules, with dotted paths. A part that stands in several places is
        frozen in all of them."""
        frozen = {variable for _, m in self.named_modules() if m.frozen for variable in own_parameters(m).values()}
        return ((path, variable) for path, variable in self.named_parameters() if variable not in frozen)

    def add_loss(self, loss: Tensor) -> None:
        """Adds a term to what a trainer minimises, for `forward` to call: a regularization of weights or activities.

        Args: loss, a tensor of one element. Whoever calls the module without a trainer gets the terms by
        `added_losses`. Errors: ShapeError.

        >>> from mpsgraph.nn.module import added_losses
        >>> class Sparse(mg.nn.Module):
        ...     def forward(self, x):
        ...         self.add_loss(1e-2 * mg.nn.losses.mean_of_all(abs(x)))
        ...         return x
        >>> with added_losses() as terms:
        ...     y = Sparse()(mg.Graph().constant([3.0, -1.0]))
        >>> [term.graph.run({}, term).item() for term in terms]
        [0.019999999552965164]
        """
        if loss.shape is None or any(size != 1 for size in loss.shape):
            raise ShapeError(f"{type(self).__name__}.add_loss: a loss has one element, got shape {loss.shape}")
        for terms in _losses.open:
            terms.append(loss)

    # --- values ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of the values of all parameters and buffers, by path."""
        graph = self._require_built()
        return {path: graph.variable_value(variable) for path, variable in self._variables()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys | None:
        """Gives parameters and buffers values. Nothing is changed before all of it is known to fit.

        Args: state, arrays by path, as of state_dict; strict, whether each name must be here and there. Result: the
        names that are missing and unexpected, which are none when strict. A module that was not called yet has no
        variables: it keeps copies of the values, gives None, and takes them at the end of its first call, which raises
        what does not fit. Errors: GraphError with all names that do not match, ShapeError and DTypeError, also when not
        strict. `mpsgraph.nn.load_torch` takes PyTorch's names and layouts, `load_safetensors` files.

        >>> layer = mg.nn.Linear(2)
        >>> layer.load_state_dict({"weight": np.eye(2, dtype=np.float32), "bias": np.float32([0, 1])})
        >>> g = mg.Graph()
        >>> g.run({}, layer(g.constant([[3.0, 5.0]]))).tolist()
        [[3.0, 6.0]]
        >>> layer.load_state_dict({"bias": np.float32([0, 2]), "scale": np.float32([1])}, strict=False)
        IncompatibleKeys(missing_keys=['weight'], unexpected_keys=['scale'])
        """
        if self._graph is None:
            self._waiting = partial(take_state, copied(state), strict=strict, cast=False)
            return None
        return take_state(state, self, strict=strict, cast=False)

    def load_waiting(self) -> None:
        """Takes the values that came before there were variables: what a call does last."""
        take, self._waiting = self._waiting, None
        if take is not None:
            take(self)

    def _variables(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.named_parameters()
        yield from self.named_buffers()

    # --- mode ------------------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool | Tensor = True) -> Self:
        """Sets the mode of this module and all beneath it, for the calls that follow.

        Each part is asked by its own `train`, so that one which overrides it may keep layers in inference mode: batch
        normalizations that are not to learn, for one. A bool tensor makes the graph choose when it runs, as Apple's
        samples do with a placeholder `isTraining`.

        >>> class Frozen(mg.nn.Sequential):
        ...     def train(self, mode=True):
        ...         return super().train(False)
        >>> model = mg.nn.Sequential(Frozen(mg.nn.BatchNorm()), mg.nn.Linear(2)).train()
        >>> model[0][0].training, model[1].training
        (False, True)
        """
        self.training = mode
        for _, child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Inference mode: dropout passes its input on, batch normalization uses its moving averages."""
        return self.train(False)

    def when_training(self, x: Tensor, then: Callable[[], Tensor], otherwise: Callable[[], Tensor]) -> Tensor:
        """One of two results by the mode, decided now or, with a tensor as the mode, in the graph."""
        if isinstance(self.training, Tensor):
            return graph_of(x).if_(self.training, then, otherwise)[0]
        return then() if self.training else otherwise()

    # --- copies and pictures ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy.deepcopy: a built module becomes one in a graph of its own, with the values it has."""
        state = {name: written(value) for name, value in vars(self).items() if name != "_graph"}
        return state if self._graph is None else {"_graph": written_graph(self._graph)} | state

    def __copy__(self: Self) -> Self:
        twin: Self = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def summary(self, input_shape: Sequence[int], *more_shapes: Sequence[int], dtype: Any = "float32") -> Summary:
        """A table of the layers: what each gives, its parameters, and the multiply-adds that it takes.

        The model is called once in a graph of its own, in inference mode; it stays as it is, built or not. Where sizes
        are -1, such as the batch's, multiply-adds are those of 1, so of a sample. Counted are matrix products,
        convolutions, attention and recurrent layers.
        Args: input_shape, with the batch: (-1, 28, 28, 1); more_shapes, of further inputs; dtype, of all of them or one
        for each. Result: a Summary, which prints as a table and shows as one in notebooks. Errors: as calling the
        model.

        >>> model = mg.nn.Sequential(mg.nn.Linear(32), mg.nn.ReLU(), mg.nn.Linear(10))
        >>> print(model.summary((-1, 784)))
        layer            output    parameters  multiply-adds
        Sequential()     (-1, 10)           0         25,408
          0: Linear(32)  (-1, 32)      25,120         25,088
          1: ReLU()      (-1, 32)           0              0
          2: Linear(10)  (-1, 10)         330            320
        25,450 parameters, all trainable; 25,408 multiply-adds
        """
        from ..graph import Graph

        shapes = [ints(shape, f"summary: input_shape {i}") for i, shape in enumerate((input_shape, *more_shapes))]
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        if len(dtypes) != len(shapes):
            raise GraphError(f"summary: {len(shapes)} input shapes and {len(dtypes)} dtypes; give one for each, or one")
        graph, model = Graph(), unbuilt_copy(self)
        calls: list[Call] = []
        inputs = [graph.placeholder(shape, kind) for shape, kind in zip(shapes, dtypes, strict=True)]
        with observed_calls(calls.append), mode_of(model, False):
            model(*inputs)
        return summarize(model, calls, {operation.id: operation for operation in graph.operations})

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        children = "".join(f"\n  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.children())
        return f"{type(self).__name__}({self.describe()}{children}{chr(10) if children else ''})"

    def describe(self) -> str:
        """The arguments to show in the representation: those that are no defaults."""
        return ", ".join(arguments_of(self))


@contextmanager
def mode_of(module: Module, training: bool) -> Iterator[None]:
    """Meanwhile a module is in a mode, set by its own `train`; behind it every part has the mode that it had.

    Parts that somebody has put into inference mode, while the whole was in training mode, stay there.
    """
    modules = {id(part): part for _, part in module.named_modules()}
    before = {number: part.training for number, part in modules.items()}
    try:
        module.train(training)
        if before[id(module)] is not False:
            for number, part in modules.items():
                if before[number] is False:
                    part.training = False
        yield
    finally:
        for number, part in modules.items():
            part.training = before[number]


# --- calls, seen from outside ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A call of a module: what its `forward` was given and gave, and which operations of the graph it added."""

    module: Module
    arguments: tuple[tuple[Any, ...], dict[str, Any]]  # by place, by name
    result: Any
    operations: range
    """Their numbers. The module's own variables are not among them; those of parts that are first called in it are."""


class _Losses(threading.local):
    """Who collects what modules add in this thread."""

    def __init__(self) -> None:
        self.open: list[list[Tensor]] = []


_losses = _Losses()


@contextmanager
def added_losses() -> Iterator[list[Tensor]]:
    """Meanwhile the losses that modules of this thread add by `add_loss` come into the list that it gives."""
    terms: list[Tensor] = []
    _losses.open.append(terms)
    try:
        yield terms
    finally:
        _losses.open = [kept for kept in _losses.open if kept is not terms]


class _Observers(threading.local):
    """Who watches the calls of this thread."""

    def __init__(self) -> None:
        self.open: list[Callable[[Call], None]] = []


_observers = _Observers()


@contextmanager
def observed_calls(observer: Callable[[Call], None]) -> Iterator[None]:
    """Meanwhile the observer is told of each call of a module in this thread, when its `forward` has returned.

    So inner calls come before the outer one that they are part of. Observers may be nested: all are told. What calls
    `forward` itself, and not the module, is not seen.

    >>> from mpsgraph.nn.module import observed_calls
    >>> model, seen = mg.nn.Sequential(mg.nn.Linear(2), mg.nn.ReLU()), []
    >>> with observed_calls(seen.append):
    ...     y = model(mg.Graph().placeholder((-1, 3)))
    >>> [(type(call.module).__name__, call.result.shape) for call in seen]
    [('Linear', (-1, 2)), ('ReLU', (-1, 2)), ('Sequential', (-1, 2))]
    """
    _observers.open.append(observer)
    try:
        yield
    finally:
        _observers.open.remove(observer)


def _told(module: Module, x: Tensor, more: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of `forward`, of which the observers are told."""
    before = x.graph.operation_count
    result = module.forward(x, *more, **options)
    call = Call(module, ((x, *more), options), result, range(before, x.graph.operation_count))
    for observer in list(_observers.open):
        observer(call)
    return result


# --- a module's state, for code beside it ----------------------------------------------------------------------------


def take_state(
    state: Mapping[str, Any], module: Module, *, strict: bool, cast: bool, where: str = "load_state_dict"
) -> IncompatibleKeys:
    """The values of a state by the module's own names, for a module that has its variables."""
    variables = dict(module._variables())
    slots = {path: slot_of(variable) for path, variable in variables.items()}
    values, keys = fitting(where, slots, state, strict=strict, cast=cast)
    for path, value in values.items():
        graph_of(variables[path]).set_variable(variables[path], value)
    return keys


def wait_for(module: Module, take: Callable[[Module], object]) -> None:
    """Lets a module that has no variables yet take values at the end of its first call. What waited before is left."""
    module._waiting = take


def is_built(module: Module) -> bool:
    """Does the module have its variables, as it has after its first call?"""
    return module._graph is not None


def adopt(module: Module, graph: Graph) -> None:
    """The module and what holds others beneath it count as built in a graph, though only parts of them were called.

    So a pair of networks that compete has parameters by path. A module with a `build` of its own is left to its call.
    """
    for _, part in module.named_modules():
        if part._graph is None and type(part).build is Module.build:
            part._graph = graph


def own_parameters(module: Module) -> dict[str, Tensor]:
    """The trainable variables that the module itself has added, without those of its parts, by their names in it."""
    return dict(vars(module).get("_parameters", {}))


def own_variables(module: Module) -> dict[str, Tensor]:
    """The same with its buffers."""
    return {**own_parameters(module), **vars(module).get("_buffers", {})}


def settings_of(module: Module) -> dict[str, Any]:
    """The module's own attributes that are numbers, strings, flags and tuples; its place in a model is none of them."""
    plain = (int, float, str, bool, tuple)
    return {name: value for name, value in vars(module).items() if isinstance(value, plain) and name != "_path"}


def unbuilt_copy(module: Module) -> Module:
    """The module and all beneath it without variables, to be built in another graph.

    Parts that stand in several places are one part in the copy, too; what is no module is shared with the original.
    """
    made: dict[int, Module] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, Module):
            if id(value) not in made:
                made[id(value)] = twin = copy.copy(value)
                state = {k: copied(v) for k, v in vars(value).items() if k not in ("_graph", "_parameters", "_buffers")}
                vars(twin).clear()
                vars(twin).update(state)
            return made[id(value)]
        if isinstance(value, (list, tuple)) and any(isinstance(item, Module) for item in value):
            return type(value)(copied(item) for item in value)
        if isinstance(value, dict) and any(isinstance(item, Module) for item in value.values()):
            return {key: copied(item) for key, item in value.items()}
        return value

    return copied(module)  # type: ignore[no-any-return]


class Sequential(Module):
    """Modules one after another; plain functions of a tensor may stand among them.

    >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.ReLU(), mg.nn.Linear(2))
    >>> g = mg.Graph()
    >>> model(g.placeholder((-1, 3))).shape
    (-1, 2)
    >>> [name for name, _ in model.named_parameters()]
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *layers: Module | Callable[[Tensor], Tensor]) -> None:
        self.layers = list(layers)

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((str(i), layer) for i, layer in enumerate(self.layers) if isinstance(layer, Module))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]
