"""Formatting of arguments in error messages and in the repr of objects.

`shown` turns any value into one short line: an array becomes its dtype, shape, and first elements; a list its first
items and length; a string its beginning; and a module its class. Every message that quotes a value, in Python and in
the compiled core, uses this function. Classes whose repr is the call that created them derive from `ShowsArguments`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from .errors import ArgumentError

FEW, LONGEST = 3, 60
"""Maximum number of list items and maximum number of characters that are shown."""


def shown(value: Any, depth: int = 0) -> str:
    """Return a value as one line of at most about 100 characters, for an error message.

    Example:
        >>> from mpsgraph._display import shown
        >>> shown(np.arange(1000, dtype=np.int32))
        'ndarray([0, 1, 2, ...], int32 (1000,))'
        >>> shown(list(range(9))), shown("x" * 99)[-5:], shown(mg.nn.Linear(2))
        ('[0, 1, 2, ...] of length 9', "x...'", '<Linear>')
    """
    try:
        return _shown(value, depth)
    except Exception:  # The repr of a third-party object must not hide the actual error.
        return f"<{type(value).__name__}>"


def suggested(name: Any, names: Iterable[str]) -> str:
    """Return "did you mean ...? " for a name that resembles one of `names`, or an empty string if none is similar.

    Example:
        >>> from mpsgraph._display import suggested
        >>> suggested("Cross-Entropy", ["cross_entropy", "mse"])
        "did you mean 'cross_entropy'? "
    """
    from difflib import get_close_matches

    def plain(text: str) -> str:
        return "".join(letter for letter in text.lower() if letter.isalnum())

    if not isinstance(name, str):
        return ""
    known = {plain(each): each for each in names}
    close = get_close_matches(plain(name), known, 1, 0.6)
    return f"did you mean {known[close[0]]!r}? " if close else ""


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(value) if len(value) <= LONGEST else repr(value[:LONGEST] + "...")
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    # The value is a module of this package or of PyTorch.
    if hasattr(value, "named_modules") and not isinstance(value, type):
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
    """Return the dtype and shape of an array, and its first elements if they are numbers."""
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
    """Join the first items until the text becomes too long. If items are left out, append the total number of items."""
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


# --- constructor arguments in the repr of an object -------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """The arguments passed to a constructor."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class _ConstructorSignature:
    """Descriptor that presents the parameters of __init__ as the signature of a class, instead of those of __new__."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        if owner.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        return inspect.Signature(list(inspect.signature(owner.__init__).parameters.values())[1:])  # type: ignore[misc]


class ShowsArguments:
    """Base class whose repr shows the constructor's arguments that differ from their defaults.

    Arguments that are numbers, strings, or flags are shown with their current values.

    Example:
        >>> mg.optim.Adam(1e-3, beta1=0.8), mg.nn.Linear(10, bias=False), mg.nn.Dropout(0.5)
        (Adam(learning_rate=0.001, beta1=0.8), Linear(10, bias=False), Dropout())
    """

    __signature__ = _ConstructorSignature()
    _arguments: Given | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(arguments_of(self))})"


def _noting_arguments(cls: Any, *arguments: Any, **options: Any) -> Any:
    """Create an object and store the arguments of its constructor."""
    made = super(ShowsArguments, cls).__new__(cls)
    if arguments or options:
        if cls.__init__ is object.__init__:
            # object.__init__ accepts any arguments of a class that defines __new__.
            given = [*map(shown, arguments), *(f"{name}={shown(value)}" for name, value in options.items())]
            raise ArgumentError(f"{cls.__name__} takes no arguments, got {', '.join(given)}")
        vars(made)["_arguments"] = Given(arguments, options)
    return made


# The class statement does not contain it, because editors would show its parameters instead of those of __init__.
setattr(ShowsArguments, "__new__", _noting_arguments)  # noqa: B010


def given_to(made: ShowsArguments) -> Given:
    """Return the arguments that the constructor of an object was called with."""
    return made._arguments or Given((), {})


def arguments_of(made: ShowsArguments) -> Iterator[str]:
    """Yield arguments without a default as text, then name=value for arguments that differ from their default.

    Arguments that are or contain modules are skipped, because a module's repr shows them as submodules.
    """
    given = made._arguments
    if given is None:
        return
    # For a class, Python 3.11.2 returns the signature of __new__.
    signature = inspect.signature(made.__init__)  # type: ignore[misc]
    try:
        bound = signature.bind(*given.positional, **given.named)
    except TypeError:  # The arguments do not match the signature, because a subclass passes other arguments.
        return
    named = False
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        now = getattr(made, name, None) if isinstance(value, (bool, int, float, str)) else None
        if isinstance(now, type(value)):
            value = now
        if _holds_parts(value) or _same(value, parameter.default):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            pairs = value.items() if isinstance(value, dict) else [("", item) for item in value]
            yield from (f"{key}={_argument(item)}" if key else _argument(item) for key, item in pairs)
            continue
        named = named or parameter.default is not parameter.empty or parameter.kind == parameter.KEYWORD_ONLY
        yield f"{name}={_argument(value)}" if named else _argument(value)


def _holds_parts(value: Any) -> bool:
    """Return whether the value is a module, or a list, tuple, or dict that contains one."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
    return any(hasattr(item, "named_modules") for item in items)


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:  # A third-party __eq__ failed, or the value is a tensor, which has no truth value.
        return False


def _argument(value: Any) -> str:
    if isinstance(value, (FunctionType, type)):
        return value.__name__
    if isinstance(value, (list, tuple)) and len(value) <= 8 and all(isinstance(v, (int, float, str)) for v in value):
        return repr(value)
    return shown(value)
