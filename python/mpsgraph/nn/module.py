"""Module, the base class of layers and models.

Calling a module with a tensor adds its operations to the tensor's graph. The first call builds the module, which
creates its variables in that graph; later calls, in training or inference mode, reuse them. One graph therefore holds
both the training and the inference form of a model.

Functions for code that works on whole models accompany the class: `unbuilt_copy` copies a model for use in another
graph, `mode_of` sets the mode temporarily, those of observation.py report calls, and those of parts.py answer questions
about the parts of a model. They are functions rather than methods so that they do not take names away from subclasses.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from html import escape
from typing import Any, ClassVar, TypeVar, overload

from .._checks import check_methods, checked, is_int
from .._core import DType, Tensor, bfloat16, float16, float32
from .._display import ShowsArguments, arguments_of, shown
from .._recomputation import recomputed
from .._tracking import Tracked, building, is_building
from ..errors import GraphError, ShapeError
from ..graph import Graph, variables_outputs_first
from ..ops._family import ints
from ..precision.mixed_precision import autocast_dtype, layer_scope
from .attributes import AssignedAttributes, assignments, names_in, noting_construction
from .initialisers import Initialiser, first_value
from .masks import pass_mask
from .moving import move
from .observation import Call, collect_loss, forward_observed, observed_calls
from .parts import Part, all_variables, graph_of, is_built, name_children
from .pickling import written, written_graph, written_variable
from .summary import Summary, summarize

Self = TypeVar("Self", bound="Module")
_DEEPEST = 8  # A container may contain itself.
_LAYERS = __name__.rsplit(".", 1)[0] + "."


_on_arrays: list[Callable[[Module, tuple[Any, ...], Mapping[str, Any]], Any]] = []


def run_on_arrays_with(run: Callable[[Module, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
    """Set the function that calls modules with arrays. eager.py, which imports this file, provides it."""
    _on_arrays[:] = [run]


@checked
class Module(Part, AssignedAttributes, Tracked, ShowsArguments):
    """Base class of layers and models.

    Subclasses define `forward`, and `build` if they have variables. Assign child modules to attributes, directly or in
    a list, tuple, or dict, to include their variables in the model.

    Attributes:
        training: Mode of the module: True for training, False for inference, or a bool tensor that selects at run time.
        precision: Precision for matrix products and convolutions, "float32", "bfloat16", or "float16"; None inherits
            the enclosing module's.
        passes_mask: Whether the output keeps the time steps, and therefore the mask, of the first input.
        frozen: Whether trainers leave the parameters of this module and its descendants unchanged.
        checkpointed: Whether the backward pass computes the activations of this module again; see nn.checkpoint.

    Raises:
        GraphError: If the module was built in one graph and is called with a tensor of another.

    Example:
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
        # Check the arguments of this package's layers only; custom layers decide for themselves.
        if cls.__module__.startswith(_LAYERS):
            check_methods(cls)
            if "__init__" in vars(cls):
                cls.__init__ = noting_construction(cls.__init__)  # type: ignore[method-assign]

    training: bool | Tensor = True
    """Mode: True for training, False for inference, or a one-element bool tensor that selects at run time."""
    precision: str | None = None
    """Precision for matrix products and convolutions, such as "float32"; None inherits the enclosing module's."""
    passes_mask = False
    """Whether the output keeps the time steps of the first input, and with them its mask (see nn.masks)."""
    checkpointed: bool = False
    """Whether the backward pass computes the activations of this module again; see nn.checkpoint."""
    _unwatched = frozenset(("_graph", "_path", "_waiting", "_parameters", "_buffers", "batches_tracked"))
    _input_size: ClassVar[int | None] = None
    """Position of the input size in PyTorch's constructor, for messages; None without one."""

    def __setattr__(self, name: str, value: Any) -> None:
        changed = assignments(self, name, value) if type(self).__module__.startswith(_LAYERS) else {name: value}
        if self._graph is not None and not is_building():
            for each, now in changed.items():
                self._require_changeable(each, now)
            if isinstance(value, Tensor) and value.operation.kind == "variable" and value.graph is not self._graph:
                raise GraphError(
                    f"{type(self).__name__}.{name} must be a variable of the graph in which the module was built, got "
                    f"'{value.name}' of another graph: create it with the module's graph, or set the values with "
                    "load_state_dict"
                )
            added = vars(self).get("_parameters", {})
            if name in added and isinstance(value, Tensor) and value.operation.kind == "variable":
                added[name] = value  # The module shares the variable of another one from now on.
        for each, now in changed.items():
            super().__setattr__(each, now)

    def _require_changeable(self, name: str, value: Any) -> None:
        """Raise GraphError if a built module has used an attribute to create its variables."""
        if name not in names_used_to_build(type(self)) or name not in vars(self):  # type: ignore[arg-type]
            return
        now = vars(self)[name]
        plain = isinstance(now, (bool, int, float, str, tuple)) and type(now) is type(value)
        if isinstance(now, (Module, Tensor)) or now is value or (plain and now == value):
            return
        raise GraphError(
            f"{type(self).__name__}.{name} cannot be changed, because the module has created its variables from it: "
            "create a new module, and replace this one with it"
        )

    @classmethod
    def _extra_advice(cls, given: Sequence[Any], taken: int) -> str:
        """Return advice for a constructor call with more numbers by position than it takes: PyTorch's input sizes."""
        sizes = all(is_int(each) or isinstance(each, (tuple, list)) for each in given)
        if cls._input_size is None or not given or not sizes:
            return ""
        rest = [each for i, each in enumerate(given[: taken + 1]) if i != cls._input_size]
        right = ", ".join(map(shown, rest))
        return f"the sizes of inputs are inferred from the first call, so write {cls.__name__}({right})"

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the module for an input. Subclasses must override this method.

        Args:
            x: Input tensor. Subclasses may take more inputs and keyword arguments.

        Returns:
            The output: a tensor, or a structure of tensors.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, x)")

    @overload
    def __call__(self, x: Tensor, *more: Any, **options: Any) -> Tensor: ...
    @overload
    def __call__(self, x: Any, *more: Any, **options: Any) -> Any: ...
    def __call__(self, x: Any, *more: Any, **options: Any) -> Any:
        """Apply the module to tensors, or run it on arrays.

        Tensors are symbols of a graph, to which the call adds operations. Arrays, numbers, and lists of numbers run at
        once, in inference mode, as with Trainer.predict: the first call for arrays of certain dtypes and shapes (except
        the size of their first axis) builds and compiles the operations, and later calls reuse them. float64 arrays are
        converted to float32 unless the module has float64 parameters.

        Args:
            x: First input: a tensor, an array, or a tuple, list, or dict of tensors or arrays.
            *more: Further arguments of `forward`.
            **options: Further arguments of `forward`.

        Returns:
            The output of `forward`; for arrays, with an NDArray in place of each tensor.

        Raises:
            GraphError: If the module was built in a graph other than that of x, or tensors are mixed with arrays.
            DTypeError: If an array is not numeric, or the layers do not accept its dtype.
            ShapeError: If the layers do not accept a shape.

        Example:
            >>> layer = mg.nn.Linear(2, weight_initialiser=mg.nn.initialisers.ones)
            >>> layer([[1.0, 2.0]]).tolist()
            [[3.0, 3.0]]
        """
        first = x if isinstance(x, Tensor) else _first_tensor(x)
        if first is None:
            return _on_arrays[0](self, (x, *more), options)
        with layer_scope(self.precision), building():
            self.ensure_built(first)
            with recomputed(graph_of(first)) if self.checkpointed else nullcontext():
                result = forward_observed(self, graph_of(first), (x, *more), options)
            if self.passes_mask:
                pass_mask(first, result)
        if self._waiting is not None:
            self.load_waiting()
        return result

    def ensure_built(self, x: Tensor) -> None:
        """Build the module if it has no variables yet, as the first step of a call does.

        Args:
            x: First input of the call.

        Raises:
            GraphError: If the module was built in a graph other than that of x.
        """
        if self._graph is None:
            name_children(self)
            self.build(x)
            self._graph = graph_of(x)
        elif self._graph is not x.graph:
            raise GraphError(
                f"{type(self).__name__} was built in another graph and cannot be called with this input: move it with "
                "module.move_to(graph), or use copy.deepcopy(module).move_to(graph) to keep the original where it is"
            )

    # --- variables ----------------------------------------------------------------------------------------------------

    def add_parameter(
        self,
        name: str,
        x: Tensor,
        shape: Sequence[int],
        initialiser: Initialiser,
        fans: tuple[float, float] | None = None,
        dtype: DType | None = None,
        *,
        outputs_first: bool = False,
    ) -> Tensor:
        """Create a trainable variable in x's graph, for use in `build`.

        Args:
            name: Name of the parameter within the module.
            x: Tensor whose graph receives the variable.
            shape: Shape of the parameter; all sizes must be known.
            initialiser: Initializer of the values, called with the shape, the graph's random generator, and the fans.
            fans: Number of inputs and outputs of one unit, for scaled initializers. Derived from the shape if None, the
                default.
            dtype: Element type. None, the default, means x's dtype, or float32 under mixed precision.
            outputs_first: Whether a matrix has shape (outputs, inputs), like those of recurrent layers and of
                embeddings, instead of (inputs, outputs). Muon's step depends on it. Defaults to False.

        Returns:
            The variable, which `build` should store as an attribute.

        Raises:
            ShapeError: If a size is dynamic or zero, or the rank exceeds 16.
        """
        variable = self._add("_parameters", name, x, shape, initialiser, fans, dtype)
        if outputs_first:
            variables_outputs_first(graph_of(x)).add(variable)
        return variable

    def add_buffer(
        self, name: str, x: Tensor, shape: Sequence[int], initialiser: Initialiser, dtype: DType | None = None
    ) -> Tensor:
        """Create a variable that is saved but not trained, such as a moving average.

        Args:
            name: Name of the buffer within the module.
            x: Tensor whose graph receives the variable.
            shape: Shape of the buffer; all sizes must be known.
            initialiser: Initializer of the values.
            dtype: Element type. None, the default, means x's dtype, or float32 under mixed precision.

        Returns:
            The variable, which `build` should store as an attribute.

        Raises:
            ShapeError: If a size is dynamic or zero, or the rank exceeds 16.
        """
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
            raise ShapeError(
                f"{where}: variable '{name}' needs at most 16 axes, all of known size above 0, got shape "
                f"{shown(tuple(shape))}"
            )
        held = vars(self).get(name)
        if self._graph is None and isinstance(held, Tensor) and held.operation.kind == "variable":
            if held.graph is graph:  # The attributes of a copy that is built again belong to the graph of the original.
                return self._held(where, name, held, shape)
        path = f"{self._path}.{name}" if self._path else name
        low = x.dtype in (bfloat16, float16) and autocast_dtype() is not None
        own = dtype or (float32 if low else x.dtype)
        value = first_value(initialiser, tuple(shape), graph.generator, fans, own)
        variable = graph.variable(value, own, path, trainable=where == "_parameters")
        vars(self).setdefault(where, {})[name] = variable
        return variable

    def _held(self, where: str, name: str, held: Tensor, shape: Sequence[int]) -> Tensor:
        """Register a variable that was assigned before the module is built, such as that of another layer."""
        label = f"{self._path or type(self).__name__}.{name}"
        if tuple(held.shape or ()) != tuple(shape):
            raise ShapeError(f"{label} must have shape {tuple(shape)}, got '{held.name}' of shape {held.shape}")
        vars(self).setdefault(where, {})[name] = held
        return held

    def children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the direct child modules with their names.

        Modules in lists, tuples, and dicts, including nested ones, count as children, under names such as "layers.0".

        Returns:
            An iterator over (name, module) pairs.
        """
        for name, value in vars(self).items():
            yield from _modules_in(name, value)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all its descendants with their dotted paths.

        Args:
            prefix: Path of this module itself. Defaults to "".

        Returns:
            An iterator over (path, module) pairs. A module used in several positions appears once for each.
        """
        yield prefix, self
        for name, child in self.children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    # --- added losses ------------------------------------------------------------------------------------------------

    def add_loss(self, loss: Tensor) -> None:
        """Add a term to the loss that a trainer minimizes, such as a weight or activity regularizer.

        Call this in `forward`. Code that calls the module without a trainer can collect the terms with `added_losses`.

        Args:
            loss: Tensor with one element.

        Raises:
            ShapeError: If loss does not have exactly one element.

        Example:
            >>> from mpsgraph.nn.observation import added_losses
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
            raise ShapeError(
                f"{type(self).__name__}.add_loss: loss must have exactly one element, got shape {loss.shape}"
            )
        collect_loss(loss)

    # --- mode ---------------------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool | Tensor = True) -> Self:
        """Set the mode of this module and its descendants for subsequent calls.

        Each child is set through its own `train` method, so a subclass can override `train` to keep layers in inference
        mode, such as batch normalization that must not learn.

        Args:
            mode: True for training, False for inference, or a bool tensor that selects at run time, such as the
                `isTraining` placeholder of Apple's samples. Defaults to True.

        Returns:
            The module itself.

        Example:
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
        """Switch to inference mode, in which dropout does nothing and batch normalization uses its moving averages.

        Returns:
            The module itself.
        """
        return self.train(False)

    def when_training(self, x: Tensor, then: Callable[[], Tensor], otherwise: Callable[[], Tensor]) -> Tensor:
        """Return one of two results, depending on the mode of the module.

        If the mode is a tensor, both branches become part of the graph and the choice is made at run time.

        Args:
            x: Tensor whose graph holds the result.
            then: Function that returns the result in training mode.
            otherwise: Function that returns the result in inference mode.

        Returns:
            The tensor returned by the selected function.
        """
        if isinstance(self.training, Tensor):
            return graph_of(x).if_(self.training, then, otherwise)[0]
        return then() if self.training else otherwise()

    # --- graphs -------------------------------------------------------------------------------------------------------

    def move_to(self: Self, graph: Graph) -> Self:
        """Move the variables of this module and its descendants to another graph, with their values.

        Trainers do this themselves: a model whose parts were built in one graph is trained in that graph, and parts
        from other graphs move there. Programs that used the module in its old graph raise an error from then on.

        Args:
            graph: The graph.

        Returns:
            The module itself.

        Example:
            >>> layer, g = mg.nn.Linear(2), mg.Graph()
            >>> before = layer([[1.0, 2.0]]).tolist()
            >>> g.run({}, layer.move_to(g)(g.constant([[1.0, 2.0]]))).tolist() == before
            True
        """
        move(self, graph)
        return self

    # --- copies and display -------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle and copy.deepcopy, from which a built module is restored in a new graph."""
        state: dict[str, Any] = {} if self._graph is None else {"_graph": written_graph(self._graph)}
        if any(is_built(module) for _, module in self.named_modules()):
            for variable in all_variables(
                self
            ).values():  # also those of descendants, so that all values are read together
                written_variable(variable)
        return state | {name: written(value) for name, value in vars(self).items() if name != "_graph"}

    def __copy__(self: Self) -> Self:
        twin: Self = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def summary(self, input_shape: Sequence[int], *more_shapes: Sequence[int], dtype: Any = "float32") -> Summary:
        """Summarize the layers: output shapes, parameter counts, and multiply-adds.

        The model is copied and called once in inference mode in a separate graph, so the model itself does not change.
        Multiply-adds are counted for matrix products, convolutions, attention, and recurrent layers. Dynamic sizes,
        such as the batch size, are taken as 1, so the counts are per sample.

        Args:
            input_shape: Shape of the first input, including the batch, such as (-1, 28, 28, 1).
            *more_shapes: Shapes of further inputs.
            dtype: Element type of all inputs, or a list with one for each. Defaults to "float32".

        Returns:
            A Summary, which prints as a table and displays as one in notebooks.

        Raises:
            GraphError: If the number of dtypes differs from the number of shapes.
            Error: If calling the model with such inputs fails; this is the call's own error.

        Example:
            >>> model = mg.nn.Sequential(mg.nn.Linear(32), mg.nn.ReLU(), mg.nn.Linear(10))
            >>> print(model.summary((-1, 784)))
            layer            output    parameters  multiply-adds
            Sequential()     (-1, 10)           0         25,408
              0: Linear(32)  (-1, 32)      25,120         25,088
              1: ReLU()      (-1, 32)           0              0
              2: Linear(10)  (-1, 10)         330            320
            25,450 parameters, all trainable; 25,408 multiply-adds
        """
        shapes = [ints(shape, f"summary: input_shape {i}") for i, shape in enumerate((input_shape, *more_shapes))]
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        if len(dtypes) != len(shapes):
            raise GraphError(
                f"summary: got {len(shapes)} input shapes but {len(dtypes)} dtypes: pass one dtype for all inputs, or "
                "one each"
            )
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
        """Return the arguments shown in the representation: those that differ from their defaults."""
        return ", ".join(arguments_of(self))


@contextmanager
def mode_of(module: Module, training: bool) -> Iterator[None]:
    """Set the mode of a module within a `with` block, then restore the mode of each of its parts.

    Parts that are in inference mode although the whole model is in training mode stay in inference mode.
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


def _first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor in a tuple, list, or dict, or None."""
    if isinstance(value, Tensor):
        return value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for item in items if (found := _first_tensor(item)) is not None), None)


@cache
def names_used_to_build(kind: type[Module]) -> frozenset[str]:
    """Return the names of the attributes that the `build` method of a class uses, directly or through other methods."""
    found: set[str] = set()
    left = ["build"]
    while left:
        name = left.pop()
        for owner in kind.__mro__:
            function = inspect.unwrap(vars(owner).get(name, None)) if owner not in (Module, Part) else None
            left += [inner for inner in names_in(function) if inner not in found]
            found.update(names_in(function))
    return frozenset(found)


def _modules_in(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Module]]:
    """Yield the modules in an attribute of a module, with their names."""
    if isinstance(value, Module):
        yield name, value
    elif depth < _DEEPEST and isinstance(value, (list, tuple, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, (Module, list, tuple, dict)):
                yield from _modules_in(f"{name}.{key}", item, depth + 1)


def unbuilt_copy(module: Module) -> Module:
    """Copy a module and its descendants without their variables, so that the copy can be built in another graph.

    A module used in several positions stays one shared module in the copy. Attributes other than modules are shared
    with the original.
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
        if isinstance(value, (list, tuple)) and any(_modules_in("", value)):
            return type(value)(copied(item) for item in value)
        if isinstance(value, dict) and any(_modules_in("", value)):
            return {key: copied(item) for key, item in value.items()}
        return value

    return copied(module)  # type: ignore[no-any-return]
