"""How errors show what a user gave: one line, short, whatever it was.

Arrays by dtype, shape and their first numbers, lists by their first items and length, strings by their beginning,
modules by their class. Every message that quotes a value, here and in the compiled core, quotes it by `shown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

FEW, LONGEST = 3, 60
"""How many items of a list, and how many characters of anything, are shown."""


def shown(value: Any, depth: int = 0) -> str:
    """A value in one line of at most about 100 characters, for an error.

    >>> from mpsgraph._shown import shown
    >>> shown(np.arange(1000, dtype=np.int32))
    'ndarray([0, 1, 2, ...], int32 (1000,))'
    >>> shown(list(range(9))), shown("x" * 99)[-5:], shown(mg.nn.Linear(2))
    ('[0, 1, 2, ...] of length 9', "x...'", '<Linear>')
    """
    try:
        return _shown(value, depth)
    except Exception:  # a repr of somebody else's that fails must not hide what we have to say
        return f"<{type(value).__name__}>"


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(value) if len(value) <= LONGEST else repr(value[:LONGEST] + "...")
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    if hasattr(value, "named_modules") and not isinstance(value, type):  # ours, and PyTorch's
        return f"<{type(value).__name__}>"
    if type(value).__name__ in ("ndarray", "NDArray"):
        return _array(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        around = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        return _items(value, len(value), around[0], around[1], depth)
    if isinstance(value, Mapping):
        pairs = (f"{shown(key, depth + 1)}: {shown(item, depth + 1)}" for key, item in value.items())
        return _joined(pairs, len(value), "{", "}") if depth < 2 else "{...}"
    return _cut(repr(value))


def _array(array: Any) -> str:
    """dtype and shape, and the first numbers of what has numbers."""
    kind, described = type(array).__name__, f"{array.dtype} {tuple(array.shape)}"
    if array.ndim == 0 or array.dtype == object or "'" in str(array.dtype):
        return f"{kind}({_cut(str(array))}, {described})" if array.dtype != object else f"{kind}({described})"
    flat = array.reshape(-1)[:FEW] if hasattr(array, "reshape") else ()
    first = ", ".join(_cut(str(number)) for number in flat)
    size = 1
    for length in array.shape:
        size *= length
    more = ", ..." if size > FEW and first else "" if first or not size else "..."
    return f"{kind}([{first}{more}], {described})"


def _items(values: Iterable[Any], count: int, opening: str, closing: str, depth: int) -> str:
    if depth >= 2:
        return f"{opening}...{closing}" if count else opening + closing
    return _joined((shown(item, depth + 1) for item in values), count, opening, closing)


def _joined(items: Iterable[str], count: int, opening: str, closing: str) -> str:
    """The first of them, as long as they are short, and how many there are."""
    first: list[str] = []
    length = 0
    for item in islice(items, FEW):
        length += len(item)
        if first and length > LONGEST:
            break
        first.append(item)
    if len(first) == count:
        return f"{opening}{', '.join(first)}{',' if opening == '(' and count == 1 else ''}{closing}"
    return f"{opening}{', '.join(first)}, ...{closing} of length {count}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
