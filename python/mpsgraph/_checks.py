"""Checks the arguments of public functions against their annotations.

`checked` wraps a function, or the public methods of a class. The annotations are the contract: an argument that has
none of the annotated types is rejected with a typed one-line error that says which call failed, what was expected, what
was received, and how to fix the call. Annotations also contain the bounds of numbers (`Size`, `Share`, and the other
aliases below), and a string in an annotation is advice that is added to the message. A check costs a few hundred
nanoseconds per call. Functions that run in every training step are therefore not wrapped and check their arguments
themselves.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import math
import operator
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import numpy as np

from ._annotations import annotations_of, show_plain_types
from ._argument_errors import refuse_extra, refuse_unknown
from ._core import DType, NDArray, Tensor
from ._display import shown
from .errors import DTypeError, Error, GraphError, ShapeError

T = TypeVar("T")
_EMPTY, _BY_NAME = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST, _OTHERS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_RESTS = ((inspect.CO_VARARGS, _REST), (inspect.CO_VARKEYWORDS, _OTHERS))
_SIZED = ("mpsgraph.ops.", "mpsgraph.nn.", "mpsgraph.data.", "mpsgraph.onnx", "mpsgraph.random")
Check: TypeAlias = Callable[[Any], bool]


class Bounds:
    """Range of an annotated number. NaN is never in range, and infinity is in range only if it is a bound."""

    def __init__(self, words: str, fits: Check) -> None:
        self.words, self.fits = words, fits


class Named:
    """Words that error messages use for an annotated type, such as "a device name"."""

    def __init__(self, words: str) -> None:
        self.words = words


Size: TypeAlias = Annotated[int, Bounds("of at least 1 (64-bit)", lambda v: 1 <= v < 2**63)]
Sizes: TypeAlias = Annotated[int | Sequence[int], Bounds("of at least 1 (64-bit)", lambda v: 1 <= v < 2**63)]
ManySizes: TypeAlias = Annotated[Sequence[int], Bounds("of at least 1 (64-bit)", lambda v: 1 <= v < 2**63)]
Count: TypeAlias = Annotated[int, Bounds("of at least 0 (64-bit)", lambda v: 0 <= v < 2**63)]
Finite: TypeAlias = Annotated[float, Bounds("that is finite", math.isfinite)]
Positive: TypeAlias = Annotated[float, Bounds("above 0", lambda v: 0 < v < math.inf)]
NotNegative: TypeAlias = Annotated[float, Bounds("of at least 0", lambda v: 0 <= v < math.inf)]
Share: TypeAlias = Annotated[float, Bounds("from 0 to 1", lambda v: 0 <= v <= 1)]
BelowOne: TypeAlias = Annotated[float, Bounds("from 0 (inclusive) to 1 (exclusive)", lambda v: 0 <= v < 1)]


def checked(subject: T) -> T:
    """Add argument checks to a function, or to the constructor and public methods of a class.

    A rejected argument raises DTypeError where a tensor, an array, or a dtype was expected; ShapeError where sizes,
    axes, or other ints of operations, layers, or data were expected; and GraphError otherwise.
    """
    if isinstance(subject, type):
        check_methods(subject)
        return subject
    return _guarded(subject)  # type: ignore[return-value, arg-type]


def check_methods(cls: type) -> None:
    """Add argument checks to the constructor and the public methods that the class itself defines."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType) and (name in ("__init__", "__call__") or not name.startswith("_")):
            setattr(cls, name, _guarded(value))


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its arguments are checked on each call. The checks are built on the first call."""
    contract: Contract | None = None
    show_plain_types(function)

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        nonlocal contract
        if contract is None:
            contract = Contract(function)
        count = len(args)
        if count > contract.positional and not contract.any_number:
            refuse_extra(contract, args, options)
        for i, parameter in contract.looked_at:
            if i >= count:
                break
            if type(args[i]) not in parameter.usual and not parameter.accepts(args[i]):
                contract.refuse(parameter, args[i], args)
        if contract.rest is not None:
            for value in args[contract.positional :]:
                if not contract.rest.accepts(value):
                    contract.refuse(contract.rest, value, args)
        for name, value in options.items():
            known = contract.named.get(name)
            if known is None and name not in contract.names and not contract.any_names:
                refuse_unknown(contract, name, args)
            if name in contract.by_position and contract.by_position.index(name) < count:
                refuse_extra(contract, args, options, name)
            if known is not None and type(value) not in known.usual and not known.accepts(value):
                contract.refuse(known, value, args)
        return function(*args, **options)

    return guarded


class Parameter:
    """A parameter of a checked function, with its name, the types that always match, and a check for values of other
    types.

    Analyzing an annotation takes longer than most first calls, so it is done as late as possible. The types that always
    match, `usual`, are determined when the first value arrives, if possible from the annotation's text alone. The check
    for other types is built when the first value of such a type arrives.
    """

    def __init__(self, name: str, annotation: Any, function: Callable[..., Any]) -> None:
        self.name = name
        self.usual: frozenset[type] = frozenset()
        self.takes_all = annotation is _EMPTY or annotation == "Any" or annotation == "object"
        self._annotation, self._function = annotation, function
        self._seen = self._takes_ints = False
        self._check: Check | None = None

    @property
    def hint(self) -> Any:
        """The annotation as an object."""
        return resolved(self._annotation, self._function)

    def accepts(self, value: Any) -> bool:
        """Return whether `value` matches the annotation. Called only for values whose type is not in `usual`."""
        if not self._seen:
            text = self._annotation if isinstance(self._annotation, str) else ""
            self.usual = _plain_types(text) or self._looked_up(_usual_types_of)
            self._takes_ints = not _WITH_INTS.isdisjoint(text.split(" | "))
            self._seen = True
            if type(value) in self.usual:
                return True
        if self._takes_ints and type(value) in (list, tuple) and all(type(item) is int for item in value):
            return True
        if self._check is None:
            self._check = self._looked_up(_check_of) or _anything
        return self._check(value)

    def _looked_up(self, what: Any) -> Any:
        try:
            return what(self.hint)
        except TypeError:  # The annotation contains an unhashable object.
            return what.__wrapped__(self.hint)


class Contract:
    """The arguments that a checked function accepts, as determined from its signature.

    Attributes:
        positional: Number of arguments that may be passed by position.
        looked_at: (position, parameter) pairs of the checked parameters that may be passed by position.
        named: Dict from names to checked parameters.
        rest: The parameter *args, or None if there is none or it accepts anything.
        any_number: Whether the function has a parameter *args.
        names: Names of all parameters.
        any_names: Whether the function has a parameter **kwargs.
        by_name: Names of the parameters that can only be passed by name.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        inner = inspect.unwrap(function) if hasattr(function, "__wrapped__") else function
        self.is_method = "." in function.__qualname__.rsplit("<locals>.")[-1]
        self.positional = 0
        self.looked_at: list[tuple[int, Parameter]] = []
        self.named: dict[str, Parameter] = {}
        self.rest: Parameter | None = None
        self.any_number = self.any_names = False
        self.names: set[str] = set()
        self.by_position: list[str] = []
        self.by_name: list[str] = []
        for name, kind, annotation in _parameters(inner):
            made = Parameter(name, annotation, inner)
            by_place = kind in _BY_PLACE
            self.any_number = self.any_number or kind is _REST
            self.any_names = self.any_names or kind is _OTHERS
            self.names.add(name)
            if by_place:
                self.by_position.append(name)
            elif kind is _BY_NAME:
                self.by_name.append(name)
            if not made.takes_all and kind is _REST:
                self.rest = made
            elif not made.takes_all and kind is not _OTHERS:
                if by_place:
                    self.looked_at.append((self.positional, made))
                self.named[name] = made
            self.positional += by_place

    def refuse(self, parameter: Parameter, value: Any, args: tuple[Any, ...]) -> NoReturn:
        """Raise the error for a rejected argument."""
        where, words = self.where(args), expected(parameter.hint)
        came = f"{where} {parameter.name} must be {words}, got {shown(value)}"
        raise error_class(parameter.hint, self.function.__module__)(came + _advice(parameter.hint, value))

    def where(self, args: tuple[Any, ...]) -> str:
        """Return the prefix of a message: `[softmax]` for an operation, `Linear:` for a constructor, `Trainer.fit:` for
        a method, `hinge:` for a function.
        """
        name = self.function.__name__
        if self.function.__module__.startswith("mpsgraph.ops."):
            return f"[{name}]"
        if not self.is_method:
            return f"{name}:"
        owner = type(args[0]).__name__
        return f"{owner}:" if name == "__init__" else f"{owner}.{name}:"


def refuse(where: str, hint: Any, value: Any) -> NoReturn:
    """Raise the error that `checked` would raise, for functions that check their arguments themselves."""
    raise error_class(hint)(f"{where} must be {expected(hint)}, got {shown(value)}{_advice(hint, value)}")


_DTYPES = (
    *("float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
)


# --- annotations -----------------------------------------------------------------------------------------------------


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, kind, and annotation of each parameter of a function.

    The parameters are read from the code object if the function has one, because building an `inspect.Signature` takes
    longer than most first calls.
    """
    if not isinstance(function, FunctionType) or hasattr(function, "__signature__"):
        for name, parameter in inspect.signature(function).parameters.items():
            yield name, parameter.kind, parameter.annotation
        return
    code, annotations, by_place = function.__code__, annotations_of(function), function.__code__.co_argcount
    by_name = by_place + code.co_kwonlyargcount
    for i, name in enumerate(code.co_varnames[:by_name]):
        yield name, _BY_PLACE[1] if i < by_place else _BY_NAME, annotations.get(name, _EMPTY)
    rests = [kind for flag, kind in _RESTS if code.co_flags & flag]
    for name, kind in zip(code.co_varnames[by_name:], rests, strict=False):
        yield name, kind, annotations.get(name, _EMPTY)


# Dict from (module, text) of annotations to objects; cached, because most annotations occur in many places.
_RESOLVED: dict[tuple[str, str], Any] = {}
# Modules of classes that annotations may name without importing them, except for type checkers.
_HOMES = {
    "Graph": "graph",
    "History": "training.history",
    "Model": "model",
    "Module": "nn.module",
    "Optimizer": "optim.optimizers",
    "Trainer": "training.trainer",
}


def resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation as an object. Its text may contain names, subscripts, unions, literals, and `Named(...)`."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    key = function.__module__, annotation
    if key not in _RESOLVED:
        _RESOLVED[key] = _object_of(ast.parse(annotation, mode="eval").body, function.__globals__)
    return _RESOLVED[key]


def _object_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return what an expression of an annotation means in a module with the given names."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return _named(name, names)
        case ast.Attribute(value, name):
            return getattr(_object_of(value, names), name)
        case ast.BinOp(left, ast.BitOr(), right):
            return _object_of(left, names) | _object_of(right, names)
        case ast.Subscript(value, index):
            return _object_of(value, names)[_object_of(index, names)]
        case ast.Tuple(items):
            return tuple(_object_of(item, names) for item in items)
        case ast.List(items):
            return [_object_of(item, names) for item in items]
        case ast.Call(ast.Name("Named"), [words]):
            return Named(_object_of(words, names))
    raise TypeError(f"an annotation of a checked function cannot contain `{ast.unparse(node)}`")


def _named(name: str, names: Mapping[str, Any]) -> Any:
    """Return the object of a name in an annotation."""
    home = sys.modules.get(f"mpsgraph.{_HOMES[name]}") if name in _HOMES else None
    if home is not None:
        return getattr(home, name)
    return names[name] if name in names else getattr(builtins, name)


def _alternatives(hint: Any) -> list[Any]:
    """Return the members of a union, with nested unions flattened. Return other annotations as a list with one item."""
    if get_origin(hint) in (Union, UnionType):
        return [inner for part in get_args(hint) for inner in _alternatives(part)]
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) in (Union, UnionType):
        base, *extras = get_args(hint)
        return [Annotated[(part, *extras)] for part in _alternatives(base)]
    return [hint]


@functools.cache
def _check_of(hint: Any) -> Check | None:
    """Return a function that checks whether a value matches the annotation, or None if every value matches."""
    if {DType, str} <= set(_alternatives(hint)):
        optional = NoneType in _alternatives(hint)
        return lambda value: _is_dtype(value) or (optional and value is None)
    origins: tuple[Any, ...] = _CONTAINERS
    # Try the most frequent alternatives first.
    parts = sorted(_alternatives(hint), key=lambda part: get_origin(part) not in origins)
    checks = [check for part in parts if (check := _check_of_one(part)) is not None]
    if len(checks) < len(parts):
        return None
    if len(checks) == 1:
        return checks[0]

    def is_one_of_them(value: Any) -> bool:
        for check in checks:
            if check(value):
                return True
        return False

    return is_one_of_them


def _check_of_one(hint: Any) -> Check | None:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return None
    if isinstance(hint, TypeVar):
        return None if hint.__bound__ is None else _check_of(hint.__bound__)
    if origin is Annotated:
        bounds = [extra for extra in inner[1:] if isinstance(extra, Bounds)]
        return _bounded(inner[0], bounds[0]) if bounds else _check_of(inner[0])
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in inner
    if hint is None:
        return lambda value: value is None
    if hint in _SCALARS:
        return _SCALARS[hint]
    base = origin or hint
    if not isinstance(base, type):
        return None
    if base is np.ndarray:
        return lambda value: isinstance(value, (np.ndarray, NDArray))
    if _is_callable(hint):
        # Reject a class where an instance is expected.
        return lambda value: callable(value) and not isinstance(value, type)
    if base in _CONTAINERS or base in (list, tuple, dict, set):
        return _container(base, inner)
    if issubclass(base, os.PathLike):
        return lambda value: isinstance(value, os.PathLike)
    return lambda value: isinstance(value, base)


def _is_callable(hint: Any) -> bool:
    """Return whether the annotation describes functions: Callable, or a protocol such as Initialiser."""
    base = get_origin(hint) or hint
    return base is Callable or (getattr(base, "_is_protocol", False) and base not in _CONTAINERS)


def _anything(_: Any) -> bool:
    return True


def _is_dtype(value: Any) -> bool:
    try:
        DType(value)
    except DTypeError:
        return False
    return True


def is_int(value: Any) -> bool:
    """Return whether `value` is an integer but not a bool: a Python or numpy int, or an object with __index__."""
    if isinstance(value, (bool, np.bool_, Tensor)):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number but not a bool: a Python or numpy number, or an array of rank 0."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "fiu"
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


_SCALARS: dict[Any, Check] = {
    NoneType: lambda value: value is None,
    bool: lambda value: isinstance(value, (bool, np.bool_)),
    int: is_int,
    float: is_number,
    complex: lambda value: is_number(value) or isinstance(value, (complex, np.complexfloating)),
}
_CONTAINERS = (Sequence, Iterable, Collection, Mapping)


def _bounded(base: Any, bounds: Bounds) -> Check:
    """Return a check for a number, or a sequence of numbers, within bounds."""
    check = _check_of(base)

    def within(value: Any) -> bool:
        if check is not None and not check(value):
            return False
        return all(bounds.fits(item) for item in (value if isinstance(value, Iterable) else (value,)))

    return within


def _container(base: type, inner: tuple[Any, ...]) -> Check:
    """Return a check for a container. Items of lists, tuples, and arrays are checked; one-shot iterators are not
    consumed.
    """
    if issubclass(base, Mapping):
        key, item = [_check_of(part) or _anything for part in inner] or [_anything] * 2
        return lambda value: isinstance(value, Mapping) and all(key(k) and item(v) for k, v in value.items())
    fixed = base is tuple and bool(inner) and inner[-1] is not Ellipsis
    checks = [_check_of(part) for part in inner if part is not Ellipsis]
    loose = base is Iterable and checks in ([], [None])  # Iterable arguments accept any kind of data.
    usual = frozenset(_usual_types(inner[0])) if inner and not fixed else frozenset[type]()

    def fits(value: Any) -> bool:
        if type(value) in (list, tuple) and value and usual.issuperset(map(type, value)):
            return True
        if isinstance(value, (str, bytes, Tensor, Mapping)) and not (loose and isinstance(value, Mapping)):
            return False
        if not isinstance(value, Iterable) or (isinstance(value, (set, frozenset)) and not loose):
            return False
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return False
        if not isinstance(value, (list, tuple, np.ndarray)):
            return True
        if fixed:
            return len(value) == len(checks) and all(c is None or c(v) for c, v in zip(checks, value, strict=True))
        check = checks[0] if checks else None
        return check is None or all(check(item) for item in value)

    return fits


_PLAIN: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "None": (NoneType,),
    "Sequence[int]": (),
    "TensorLike": (Tensor, bool, int, float, complex, np.generic, np.ndarray, NDArray),
    "ShapeLike": (Tensor,),
    "AttributeLike": (Tensor, int),
    "Axes": (int, NoneType),
    "DTypeLike": (DType,),
}
"""Types that need no further check, keyed by an annotation name that means the same in every module."""
# Annotations that also match a list or tuple of ints.
_WITH_INTS = {"Sequence[int]", "ShapeLike", "AttributeLike", "Axes"}


@functools.cache
def _plain_types(annotation: str) -> frozenset[type] | None:
    """Return the result of `_usual_types_of` for an annotation that consists of names in _PLAIN, or None for other
    annotations.
    """
    names = set(annotation.split(" | "))
    return frozenset(kind for name in names for kind in _PLAIN[name]) if names <= _PLAIN.keys() else None


@functools.cache
def _usual_types_of(hint: Any) -> frozenset[type]:
    """Return the types whose values match the annotation without a further check.

    The result is cached, because most annotations occur many times.
    """
    return frozenset(_usual_types(hint))


def _usual_types(hint: Any) -> Iterator[type]:
    parts = _alternatives(hint)
    for part in [DType] if {DType, str} <= set(parts) else parts:
        if part is None or part is NoneType:
            yield NoneType
        elif part is float:
            yield from (float, int)
        elif part is complex:
            yield from (complex, float, int)
        elif isinstance(part, type) and get_origin(part) is None and part not in _CONTAINERS:
            if part not in (list, tuple, dict, set, object) and not getattr(part, "_is_protocol", False):
                yield part


# --- descriptions of types in messages --------------------------------------------------------------------------------

_WORDS: dict[Any, str] = {
    NoneType: "None",
    None: "None",
    bool: "True or False",
    int: "an int",
    float: "a number",
    complex: "a number",
    str: "a string",
    bytes: "bytes",
    Tensor: "a tensor",
    np.ndarray: "an array",
    np.generic: "a number",
    NDArray: "an NDArray",
    type: "a type",
    Path: "a path",
    os.PathLike: "a path",
}
_MANY = {
    "ints": "sequences of ints",
    "an int": "ints",
    "a number": "numbers",
    "a tensor": "tensors",
    "a string": "strings",
    "an array": "arrays",
}


def expected(hint: Any) -> str:
    """Describe an annotation in words: "an int or ints", "a tensor or None"."""
    parts = _alternatives(hint)
    if DType in parts:
        words = ["a dtype such as 'float32'"] + (["None"] if NoneType in parts or None in parts else [])
        return " or ".join(words)
    if Tensor in parts and np.generic in parts:
        parts = [Tensor, float] + [part for part in parts if part in (None, NoneType)]
    words = list(dict.fromkeys(_words(part) for part in parts))
    if "None" in words:
        words = [word for word in words if word != "None"] + ["None"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _words(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for extra in inner[1:]:
            if isinstance(extra, Named):
                return extra.words
        return " ".join([expected(inner[0]), *(extra.words for extra in inner[1:] if isinstance(extra, Bounds))])
    if origin is Literal:
        return " or ".join(repr(value) for value in inner)
    if isinstance(hint, TypeVar):
        return expected(hint.__bound__)
    if hint in _WORDS:
        return _WORDS[hint]
    base = origin or hint
    if base in _WORDS:
        return _WORDS[base]
    name = getattr(base, "__name__", str(base))
    if base is Callable:
        return "a function"
    if isinstance(base, type) and issubclass(base, Mapping):
        key, item = [expected(part) if part is not Any else "" for part in inner] or ["", ""]
        of = f" of {_MANY.get(item, item)}" if item else ""
        return f"a dict{of}" + (f" by {'name' if key == 'a string' else key.removeprefix('a ')}" if key else "")
    if base in _CONTAINERS or base in (list, tuple, set):
        items = [part for part in inner if part is not Ellipsis]
        if not items or items[0] is Any:
            return "a sequence" if base is not Iterable else "an iterable"
        if base is tuple and inner[-1] is not Ellipsis:
            return f"a tuple of {len(inner)}"
        one = expected(items[0])
        return _MANY.get(one, f"a sequence in which each item is {one}")
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def error_class(hint: Any, module: str = "mpsgraph.ops.") -> type[Error]:
    """Return the class of the error for a value that does not match an annotation in `module`."""
    names = {_core_of(part) for part in _alternatives(hint)}
    if DType in names or (Tensor in names and names & {float, np.generic}):
        return DTypeError
    if int in names and float not in names:
        return ShapeError if module.startswith(_SIZED) else GraphError
    return DTypeError if names & {Tensor, np.ndarray, NDArray} else GraphError


def _core_of(hint: Any) -> Any:
    """Return the innermost type of an annotation, such as int for Sequence[int] and for a bounded int."""
    while get_origin(hint) is not None:
        inner = get_args(hint)
        if get_origin(hint) is np.ndarray:
            return np.ndarray
        if get_origin(hint) is not Annotated and not (
            isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Iterable)
        ):
            return hint
        if isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
            return Mapping
        hint = _alternatives(inner[0])[0] if inner else None
    return hint


def _advice(hint: Any, value: Any) -> str:
    """Return advice on how to fix a rejected argument, or an empty string if there is none."""
    names = {_core_of(part) for part in _alternatives(hint)}
    for part in _alternatives(hint):
        for own in get_args(part)[1:] if get_origin(part) is Annotated else ():
            if isinstance(own, str) and not isinstance(value, (int, float)):
                return f": {own}"
    if Tensor in names and isinstance(value, (np.ndarray, NDArray, list, tuple)):
        return ": convert it to a tensor with g.constant(array)"
    if np.ndarray in names and isinstance(value, (list, tuple)):
        return ": convert it with np.asarray(..., dtype)"
    if isinstance(value, Tensor) and Tensor not in names:
        return ": a tensor has no value until the graph runs"
    if DType in names and isinstance(value, str):
        return f": the dtypes are {', '.join(_DTYPES)}"
    if isinstance(value, type) and any(_is_callable(part) for part in _alternatives(hint)):
        return f": pass an instance, {value.__name__}(...)"
    if isinstance(value, str) and names & {int, float} and str not in names:
        return ": pass the number without quotes"
    return ""
