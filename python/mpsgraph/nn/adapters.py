"""LoRA: a projection with low-rank adapters, of which several can be held, selected, and weighted.

The wrapper is transparent: the projection keeps its path in the model, so its weights load and save as before, and the
parameters of an adapter are found under `adapters.NAME` below that path. `mpsgraph.lm.add_adapters` wraps the
projections of a model by pattern.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Any, TypeVar

import numpy as np

from .._checks import BelowOne, Named, Positive, Size
from .._core import DType, Tensor, float32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import GraphError, UnsupportedError
from ..precision.mixed_precision import autocast_dtype
from .initialisers import Initialiser, Uniform, zeros
from .layers import Dropout, Linear, size_of
from .module import Module
from .parts import built_graph, graph_of, is_built, name_children, own_variables
from .quantized import QuantizedLinear, unpack
from .state import bits_of, value_of, wide_of

DEFAULT = "default"
"""Name of an adapter if none is passed, as in PEFT."""
Self = TypeVar("Self", bound="Adapted")


def is_projection(module: Module) -> bool:
    """Return whether adapters can be put around a module: a Linear or a QuantizedLinear."""
    return isinstance(module, (Linear, QuantizedLinear))


def projection_sizes(layer: Module) -> tuple[int, int]:
    """Return the number of inputs and outputs of a projection that has been called."""
    if isinstance(layer, QuantizedLinear):
        outputs, groups = layer.scales.shape or ()
        return groups * layer.group_size, outputs
    inputs, outputs = own_variables(layer)["weight"].shape or ()
    return inputs, outputs


def projection_dtype(layer: Module) -> DType:
    """Return the floating-point dtype of a projection that has been called."""
    return layer.scales.dtype if isinstance(layer, QuantizedLinear) else own_variables(layer)["weight"].dtype


def projection_weight(layer: Module) -> Tensor:
    """Return the weight (inputs, outputs) of a projection that has been called, dequantized if it is quantized."""
    if isinstance(layer, QuantizedLinear):
        g = graph_of(layer.weight)
        return g.transpose(g.dequantize_packed(layer.weight, layer.scales, layer.biases, bits=layer.bits), (1, 0))
    return own_variables(layer)["weight"]


def projection_values(layer: Module) -> np.ndarray:
    """Return the value of `projection_weight`, in float32 unless it is float64."""
    names = ("weight", "scales", "biases") if isinstance(layer, QuantizedLinear) else ("weight",)
    variables = [own_variables(layer)[name] for name in names]
    held = [value_of(value) for value in graph_of(variables[0]).variable_values(variables)]
    weight, *more = [wide_of(value.array) if value.dtype.name == "bfloat16" else value.array for value in held]
    if isinstance(layer, QuantizedLinear):
        groups = unpack(weight, layer.bits).reshape(*more[0].shape, layer.group_size).astype(np.float32)
        weight = (groups * _wide(more[0])[..., None] + _wide(more[1])[..., None]).reshape(len(weight), -1).T
    return _wide(weight)


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == np.float64 else array.astype(np.float32)


class _Values:
    """Initializer that returns given values."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __call__(self, shape: Any, generator: Any = None, fans: Any = None) -> np.ndarray:
        return self.values


class LowRank(Module):
    """The parameters of one adapter of a projection, and its contribution to the output.

    LoRA adds scale * (x @ down) @ up. DoRA also rescales each output so that the norm of its column in the changed
    weight equals a learned magnitude; the norm itself is treated as a constant in the gradient, as in its paper.

    Args:
        rank: Number of columns of down.
        alpha: Numerator of the scale alpha / rank.
        dropout: Probability of dropping an input in training mode. Defaults to 0.
        dora: Whether the adapter learns the norms of the outputs. Defaults to False.
        rank_stabilized: Whether the scale is alpha / sqrt(rank). Defaults to False.
        dtype: Element type of the parameters. None, the default, means float32, or float64 if the input is float64.

    Attributes:
        down: (inputs, rank).
        up: (rank, outputs), initially zero.
        magnitude: (outputs,), if dora is True; initially the norms of the columns of the weight.
    """

    down: Tensor
    up: Tensor
    magnitude: Tensor

    def __init__(
        self,
        rank: Size,
        alpha: float,
        *,
        dropout: BelowOne = 0.0,
        dora: bool = False,
        rank_stabilized: bool = False,
        dtype: DTypeLike | None = None,
    ) -> None:
        self.rank, self.alpha, self.dora, self.rank_stabilized = rank, float(alpha), dora, rank_stabilized
        self.dropout = Dropout(dropout)
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self._outputs = 0
        self._magnitude: Initialiser = zeros

    @property
    def scale(self) -> float:
        """Factor of the low-rank product."""
        return self.alpha / (math.sqrt(self.rank) if self.rank_stabilized else self.rank)

    def prepare(self, layer: Module) -> None:
        """Take the sizes and, for DoRA, the initial magnitudes from a projection that has been called."""
        self._outputs = projection_sizes(layer)[1]
        if self.dora:
            self._magnitude = _Values(np.linalg.norm(projection_values(layer), axis=0))

    def build(self, x: Tensor) -> None:
        inputs = size_of(x, -1, None, "LoRA")
        dtype = self.dtype or (float32 if x.dtype.itemsize == 2 else x.dtype)
        bound = 1 / math.sqrt(inputs)
        self.down = self.add_parameter("down", x, (inputs, self.rank), Uniform(-bound, bound), dtype=dtype)
        self.up = self.add_parameter("up", x, (self.rank, self._outputs), zeros, dtype=dtype)
        if self.dora:
            self.magnitude = self.add_parameter("magnitude", x, (self._outputs,), self._magnitude, dtype=dtype)
            self._magnitude = zeros

    def forward(self, x: Tensor, layer: Module, y: Tensor) -> Tensor:  # type: ignore[override]
        """Return the change of the output.

        Args:
            x: Input of the projection, (..., inputs).
            layer: The projection.
            y: Its output, (..., outputs).

        Returns:
            A tensor with the shape and dtype of y.
        """
        g, dropped = graph_of(x), self.dropout(x) if self.dropout.rate else x
        wide = dropped
        if autocast_dtype() is None and x.dtype != self.down.dtype:
            wide = g.cast(dropped, self.down.dtype)
        change = (wide @ self.down) @ self.up * self.scale
        if self.dora:
            bias = own_variables(layer).get("bias")
            base = y if dropped is x else layer(dropped)
            base = g.cast(base if bias is None else base - bias, change.dtype)
            factor = g.cast(self.magnitude / self._norm(layer), change.dtype)
            change = (factor - 1) * base + factor * change
        return change if change.dtype == y.dtype else g.cast(change, y.dtype)

    def _norm(self, layer: Module) -> Tensor:
        """Return the norms (outputs,) of the columns of the changed weight, through which no gradient flows."""
        g, dtype = graph_of(self.down), self.down.dtype
        weight = projection_weight(layer)
        weight = weight if weight.dtype == dtype else g.cast(weight, dtype)
        whole = weight + self.down @ self.up * self.scale
        norm = g.square_root(g.reduction_sum(g.square(whole), 0))
        detached: Tensor = g.reshape(norm, (-1,)).detach()
        return detached

    def merged(self, weight: np.ndarray) -> np.ndarray:
        """Return the change of a weight (inputs, outputs) in float64 that has the effect of the adapter."""
        names = ("down", "up", *(["magnitude"] if self.dora else []))
        held = graph_of(self.down).variable_values([getattr(self, name) for name in names])
        values = [value_of(value) for value in held]
        arrays = [wide_of(v.array) if v.dtype.name == "bfloat16" else v.array for v in values]
        down, up, *rest = [array.astype(np.float64) for array in arrays]
        weight = weight.astype(np.float64)
        whole = weight + self.scale * (down @ up)
        if self.dora:
            whole = whole * (rest[0] / np.linalg.norm(whole, axis=0))
        return np.asarray(whole - weight)


class Adapted(Module):
    """Base class of the wrappers that put adapters around a layer: `LoRA` and `FullCopies`.

    The layer keeps its path in the model; the adapter `name` is at `adapters.name` below that path.

    Attributes:
        layer: The wrapped layer, which is frozen.
        adapters: Modules with the parameters of the adapters, keyed by name.
        active: Weights of the adapters that are in use, keyed by name.
    """

    passes_mask = True

    def __init__(self, layer: Module) -> None:
        if isinstance(layer, Adapted):
            raise GraphError(
                f"{type(self).__name__}: the layer already has adapters, use its method add to give it another one"
            )
        self.layer = layer.freeze()
        self.training = layer.training
        self.adapters: dict[str, Module] = {}
        self.active: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped layer, such as its weight."""
        layer = vars(self).get("layer")
        if layer is None or name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(layer, name)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        yield from self.layer.named_modules(prefix)
        for name, adapter in self.adapters.items():
            yield from adapter.named_modules(f"{prefix}.adapters.{name}" if prefix else f"adapters.{name}")

    def _put(self, name: str, adapter: Module) -> None:
        """Add an adapter, and make it the only one in use."""
        if not name.isidentifier():
            raise GraphError(f"the name of an adapter must be an identifier, such as 'style', got {shown(name)}")
        if name in self.adapters:
            raise GraphError(f"there already is an adapter '{name}': remove it first, or pass another name")
        adapter.train(self.training)
        self.adapters = {**self.adapters, name: adapter}
        name_children(self)
        self.select({name: 1.0})

    def select(self, weights: dict[str, float]) -> None:
        """Set which adapters are in use; only their parameters train.

        Args:
            weights: Weights of the adapters, keyed by name. An empty dict switches all adapters off. Names that this
                layer does not have are ignored.
        """
        self.active = {name: float(weight) for name, weight in weights.items() if name in self.adapters}
        for name, adapter in self.adapters.items():
            adapter.requires_grad_(name in self.active)

    def remove(self, name: str) -> None:
        """Remove an adapter.

        Args:
            name: Its name.

        Raises:
            GraphError: If there is no adapter with this name.
        """
        if name not in self.adapters:
            raise GraphError(f"there is no adapter '{name}', only {', '.join(self.adapters) or 'none'}")
        self.adapters = {other: adapter for other, adapter in self.adapters.items() if other != name}
        self.select({other: weight for other, weight in self.active.items() if other != name})

    def describe(self) -> str:
        return ", ".join(f"{name}={self.active.get(name, 0)}" for name in self.adapters)


class LoRA(Adapted):
    """A projection with a low-rank adapter: layer(x) + scale * (x @ down) @ up.

    Only the adapter trains: the projection is frozen. It can hold several adapters, which `select` weights. A new
    adapter does not change the output, because `up` is zero.

    Args:
        layer: Linear layer, or a layer with quantized weights.
        rank: Rank of the adapter. Defaults to 8.
        alpha: Numerator of the scale alpha / rank. None, the default, means 2 * rank.
        dropout: Probability of dropping an input of the adapter in training mode. Defaults to 0.
        dora: Whether to learn the norms of the outputs as well (DoRA). Defaults to False.
        rank_stabilized: Whether the scale is alpha / sqrt(rank) (rsLoRA). Defaults to False.
        name: Name of the adapter. Defaults to "default".
        dtype: Element type of the adapter. None, the default, means float32, or float64 if the input is float64.

    Attributes:
        layer: The projection.
        adapters: Modules with the parameters down (inputs, rank), up (rank, outputs) and, with dora, magnitude
            (outputs,), keyed by the names of the adapters.
        active: Weights of the adapters that are in use, keyed by name.

    Raises:
        GraphError: If the layer already has adapters, or the name is not an identifier.
        UnsupportedError: If the layer is not a projection.

    Source: Hu et al., arXiv:2106.09685; Liu et al., arXiv:2402.09353 for dora; Kalajdzievski, arXiv:2312.03732 for
        rank_stabilized; the names and defaults of Hugging Face's PEFT.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.LoRA(mg.nn.Linear(4), rank=2), mg.nn.ReLU())
        >>> _ = model(mg.Graph().placeholder((-1, 3)))
        >>> [(path, tuple(v.shape)) for path, v in model.named_trainable_parameters()]
        [('0.adapters.default.down', (3, 2)), ('0.adapters.default.up', (2, 4))]
    """

    adapters: dict[str, LowRank]  # type: ignore[assignment]

    def __init__(
        self,
        layer: Annotated[Module, Named("a layer")],
        rank: Size = 8,
        *,
        alpha: Positive | None = None,
        dropout: BelowOne = 0.0,
        dora: bool = False,
        rank_stabilized: bool = False,
        name: str = DEFAULT,
        dtype: DTypeLike | None = None,
    ) -> None:
        if not isinstance(layer, Adapted) and not is_projection(layer):
            raise UnsupportedError(
                f"LoRA: adapters can be put around Linear layers and quantized ones, got {shown(layer)}"
            )
        super().__init__(layer)
        self.add(
            name, rank, alpha=alpha, dropout=dropout, dora=dora, rank_stabilized=rank_stabilized, dtype=dtype
        )  # fmt: skip

    def add(
        self,
        name: str,
        rank: Size = 8,
        *,
        alpha: Positive | None = None,
        dropout: BelowOne = 0.0,
        dora: bool = False,
        rank_stabilized: bool = False,
        dtype: DTypeLike | None = None,
    ) -> LowRank:
        """Add another adapter, and make it the only one in use.

        Args:
            name: Name of the adapter.
            rank: See the class.
            alpha: See the class.
            dropout: See the class.
            dora: See the class.
            rank_stabilized: See the class.
            dtype: See the class.

        Returns:
            The module with the parameters of the adapter.

        Raises:
            GraphError: If the name is not an identifier, or is taken.
        """
        adapter = LowRank(
            rank, 2 * rank if alpha is None else alpha, dropout=dropout, dora=dora,
            rank_stabilized=rank_stabilized, dtype=dtype,
        )  # fmt: skip
        self._put(name, adapter)
        if is_built(self.layer):
            self._build_adapter(adapter)
        return adapter

    def _build_adapter(self, adapter: LowRank, x: Tensor | None = None) -> None:
        """Create the parameters of an adapter of a projection that has been called."""
        if x is None:
            inputs, dtype = projection_sizes(self.layer)[0], projection_dtype(self.layer)
            x = graph_of(own_variables(self.layer)["weight"]).placeholder((-1, inputs), dtype)
        adapter.prepare(self.layer)
        adapter.ensure_built(x)

    def forward(self, x: Tensor) -> Tensor:
        y = result = self.layer(x)
        for name, adapter in self.adapters.items():
            if not is_built(adapter):
                self._build_adapter(adapter, x)
            if name in self.active:
                change, weight = adapter(x, self.layer, y), self.active[name]
                result = result + (change if weight == 1 else change * weight)
        return result

    def merged(self) -> Module:
        """Fold the adapters that are in use into the weight of the projection, and return the projection.

        Returns:
            The projection, without adapters and unfrozen. Its outputs equal those of this module up to rounding. A
            quantized projection becomes a Linear, because packed weights cannot represent the sum.
        """
        if self.active:
            before = projection_values(self.layer)
            whole = before.astype(np.float64)
            for name, weight in self.active.items():
                whole = whole + weight * self.adapters[name].merged(before)
            changed = {"weight": _in_dtype(whole, projection_dtype(self.layer))}
            if isinstance(self.layer, QuantizedLinear):
                return self._dense(changed).unfreeze()
            self.layer.load_state_dict(changed, strict=False)
        return self.layer.unfreeze()

    def _dense(self, state: dict[str, np.ndarray]) -> Linear:
        """Return a Linear with this weight and the bias of the quantized projection."""
        inputs, outputs = projection_sizes(self.layer)
        made = Linear(outputs, bias="bias" in own_variables(self.layer), in_features=inputs)
        g = graph_of(own_variables(self.layer)["weight"])
        made.ensure_built(g.placeholder((-1, inputs), projection_dtype(self.layer)))
        made.load_state_dict({**self.layer.state_dict(), **state}, strict=False)
        return made.train(self.layer.training)


class FullCopies(Adapted):
    """A layer of which each adapter has a copy that is trained in full, PEFT's modules_to_save.

    Args:
        layer: The layer, which must have been called.
        name: Name of the first adapter. Defaults to "default".

    Attributes:
        layer: The original layer.
        adapters: Copies of the layer, keyed by the names of the adapters.
        active: Weights of the adapters that are in use; only 1 has a meaning.

    Raises:
        GraphError: If the layer has not been called.
    """

    def __init__(self, layer: Annotated[Module, Named("a layer")], name: str = DEFAULT) -> None:
        super().__init__(layer)
        self.add(name)

    def __getattr__(self, name: str) -> Any:
        used = self._used() if "adapters" in vars(self) else None
        return super().__getattr__(name) if used is None or name.startswith("_") else getattr(used, name)

    def add(self, name: str) -> Module:
        """Add a copy of the layer for another adapter, and make it the only one in use.

        Args:
            name: Name of the adapter.

        Returns:
            The copy.

        Raises:
            GraphError: If the layer has not been called, or the name is taken or not an identifier.
        """
        if not is_built(self.layer):
            raise GraphError("a layer must be called before it can be copied: call the model with a tensor first")
        graph = built_graph(self.layer)
        assert graph is not None
        copy = deepcopy(self.layer).move_to(graph)
        self._put(name, copy)
        return copy

    def _used(self) -> Module | None:
        """Return the copy that is in use, or None."""
        return next((self.adapters[name] for name in self.active), None)

    def select(self, weights: dict[str, float]) -> None:
        chosen = {name: weight for name, weight in weights.items() if name in self.adapters}
        if len(chosen) > 1 or any(weight != 1 for weight in chosen.values()):
            raise UnsupportedError(
                "adapters that train layers in full cannot be mixed or weighted: select one of them with weight 1, "
                f"got {shown(chosen)}"
            )
        super().select(chosen)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        used = self._used()
        return (self.layer if used is None else used)(*inputs, **options)

    def merged(self) -> Module:
        """Return the copy that is in use, or the original layer, unfrozen."""
        return (self._used() or self.layer).unfreeze()


def _in_dtype(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Round numbers to a floating-point dtype; bfloat16 is returned as bits."""
    return bits_of(values) if dtype.name == "bfloat16" else values.astype(dtype.numpy)
