"""Sequential, which applies modules one after another and behaves like a list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

from .._checks import is_int
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, OutOfRangeError
from .module import Module


class Sequential(Module):
    """Modules applied one after another.

    A Sequential is also a list of its layers: `model[0]` returns one, `model[:-1]` a Sequential that shares the layers
    and their variables, and `model[-1] = layer`, `del model[2]`, `append`, `extend`, and `insert` change the model. A
    trainer of the model builds its step again after such a change.

    Args:
        *layers: Modules, or plain functions that take and return a tensor.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(4), mg.nn.ReLU(), mg.nn.Linear(2))
        >>> g = mg.Graph()
        >>> model(g.placeholder((-1, 3))).shape
        (-1, 2)
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias', '2.weight', '2.bias']
        >>> model[-1] = mg.nn.Linear(7)
        >>> model(g.placeholder((-1, 3))).shape, model[:-1](g.placeholder((-1, 3))).shape
        ((-1, 7), (-1, 4))
    """

    def __init__(self, *layers: Module | Callable[[Tensor], Tensor]) -> None:
        self.layers: list[Any] = [_checked(layer) for layer in layers]

    def children(self) -> Iterator[tuple[str, Module]]:
        return ((str(i), layer) for i, layer in enumerate(self.layers) if isinstance(layer, Module))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Any:
        self._require_index(index)
        return Sequential(*self.layers[index]) if isinstance(index, slice) else self.layers[index]

    def __setitem__(self, index: int | slice, layer: Any) -> None:
        self._require_index(index)
        if isinstance(index, slice):
            self.layers[index] = [_checked(each) for each in layer]
        else:
            self.layers[index] = _checked(layer)

    def __delitem__(self, index: int | slice) -> None:
        self._require_index(index)
        del self.layers[index]

    def append(self, layer: Module | Callable[[Tensor], Tensor]) -> Sequential:
        """Add a layer at the end.

        Args:
            layer: Module, or function that takes and returns a tensor.

        Returns:
            The Sequential itself.
        """
        self.layers.append(_checked(layer))
        return self

    def extend(self, layers: Iterable[Module | Callable[[Tensor], Tensor]]) -> Sequential:
        """Add layers at the end.

        Args:
            layers: The layers, such as those of another Sequential.

        Returns:
            The Sequential itself.
        """
        self.layers.extend([_checked(layer) for layer in layers])
        return self

    def insert(self, index: int, layer: Module | Callable[[Tensor], Tensor]) -> Sequential:
        """Insert a layer before an index.

        Args:
            index: Index that the layer will have.
            layer: Module, or function that takes and returns a tensor.

        Returns:
            The Sequential itself.
        """
        last = len(self.layers)
        self.layers.insert(min(max(index, -last), last), _checked(layer))  # As for lists, without a largest int.
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove a layer and return it.

        Args:
            index: Index of the layer. Defaults to the last.

        Returns:
            The layer, with its variables.
        """
        self._require_index(index)
        return self.layers.pop(index)

    def _require_index(self, index: Any) -> None:
        if isinstance(index, slice):
            return
        if not is_int(index):
            raise GraphError(f"Sequential: an index must be an int or a slice, got {shown(index)}")
        if not -len(self.layers) <= index < len(self.layers):
            raise OutOfRangeError(f"Sequential: index {index} is out of range for {len(self.layers)} layers")


def _checked(layer: Any) -> Any:
    if isinstance(layer, type) or not callable(layer):
        made = f": pass an instance, {layer.__name__}(...)" if isinstance(layer, type) else ""
        raise GraphError(f"Sequential: layers must be modules or functions of a tensor, got {shown(layer)}{made}")
    return layer
