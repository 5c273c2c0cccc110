"""The schema of operations: what the C++ definitions state about each kind, and the Graph methods derived from it.

`schema` returns the schema of one kind, and `schemas` all of them. Code that needs facts about operations, such as
their operands, should take them from here instead of listing them:

    >>> from mpsgraph.ops.schema import elementwise, schema
    >>> [p.name for p in schema("atan2").operands]
    ['primary', 'secondary']
    >>> "exponent" in elementwise(1), "atan2" in elementwise(2)
    (True, True)
"""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from .. import _core
from .._argument_errors import refuse_extra, refuse_unknown
from .._checks import Contract
from .._checks import Parameter as Check
from .._core import Tensor
from .._dtypes import as_dtype
from . import _family
from ._family import (
    Family,
    add_operation,
    axes_attribute,
    ints,
    noted,
    operands_of,
    shape_operand,
    tensor_attributes,
)
from ._padding import Padding, padding_attributes
from .pooling_descriptors import Window, pooling_attributes

_ANNOTATED = {**vars(_family), "Padding": Padding, "Window": Window}
"""Names that annotations of parameters contain."""
_REQUIRED: Any = inspect.Parameter.empty
_OPERANDS = {
    "tensor": "Tensor",
    "mask": "Tensor",
    "number": "TensorLike",
    "shape": "ShapeLike",
    "tensors": "Sequence[Tensor]",
    "optional": "Tensor | None",
}
"""Annotations of operands, by the kinds of parameters that definition.h lists."""
_ATTRIBUTES = {
    "an integer": "int",
    "a real number": "float",
    "a boolean": "bool",
    "a string": "str",
    "a dtype": "DTypeLike",
    "a list of integers": "Sequence[int]",
}


_CONVERTED = ("attribute", "required", "axes", "sizes", "padding", "window", "strides")
"""Kinds of parameters that become attributes."""


class Parameter:
    """An argument of the method that builds an operation.

    Attributes:
        name: Name of the argument.
        kind: For operands, "tensor", "number" (a tensor or a number), "mask" (a bool tensor), "shape", "tensors" (any
            number of them), or "optional"; for attributes, "attribute", "required" (no default for callers), "axes"
            (None means all axes), "sizes" (an int is repeated), "padding" (a style or amounts), or "window" and
            "strides" (the window of a pooling operation); for the name of the operation, "name".
        annotation: Python type, as a string.
        default: Default value, or inspect.Parameter.empty if the argument is required.
        by_name: Whether the argument can only be passed by name.
    """

    __slots__ = ("annotation", "by_name", "default", "kind", "name")

    def __init__(self, name: str, kind: str, annotation: str, default: Any, by_name: bool) -> None:
        self.name, self.kind, self.annotation, self.default, self.by_name = name, kind, annotation, default, by_name

    @property
    def is_operand(self) -> bool:
        return self.kind in _OPERANDS


class Schema:
    """What the C++ definition states about a kind of operation.

    A schema is also the function that a method of Graph wraps: inspect and the argument checks read its signature.

    Attributes:
        name: Kind of the operation.
        family: Name of the family and its files.
        dtypes: Class of dtypes that the first operand may have: "any", "ordered" (all but complex), "algebraic"
            (integer, float, complex), "numbers" (integer, float), "analytic" (float, complex), "floats", "integers",
            "booleans", or "complexes".
        parameters: Arguments of the Graph method, including `name`; empty if the method is written in Python.
        tensor_attributes: Names of the attributes that callers may pass as integer tensors instead.
        result: Return annotation of the Graph method: "Tensor", "list[Tensor]", or "tuple[Tensor, Tensor]".
        elementwise: Whether an element of the result depends only on the same element of each operand.
        is_bool: Whether the result is bool.
        documentation: Text of the C++ definition; see `_documentation.py`.
    """

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.name: str = definition["name"]
        self.family: str = definition["family"]
        self.dtypes: str = definition["dtypes"]
        self.elementwise: bool = definition["elementwise"]
        self.tensor_attributes: list[str] = definition["tensor_attributes"]
        self.documentation: str = definition["documentation"]
        self.is_bool: bool = definition["predicate"] or self.dtypes == "booleans"
        arguments, _, result = definition["parameters"].partition(" -> ")
        self.result = result or "Tensor"
        self.parameters = list(self._parsed(arguments)) if self.documentation else []
        # What inspect.signature and the argument checks read, as for a function.
        self.__name__ = method_name(self.name)
        self.__qualname__ = f"Graph.{self.__name__}"
        self.__module__ = f"{__package__}.derived"
        self.__globals__ = _ANNOTATED
        self.__annotations__: dict[str, str] = {}

    @functools.cached_property
    def operands(self) -> list[Parameter]:
        return [p for p in self.parameters if p.is_operand]

    @property
    def operand_count(self) -> int:
        return len(self.operands)

    @property
    def forward(self) -> str:
        """The operation of which this one is the gradient."""
        return re.sub("(_(data|weights|gamma|beta))?_gradient(_from_indices)?$", "", self.name)

    def _parsed(self, text: str) -> Iterator[Parameter]:
        parts = text.split(", ")
        by_name = False
        for part in parts if "name" in parts else [*parts, "name"]:
            if part == "*":
                by_name = True
                continue
            head, _, default = part.partition(" = ")
            name, _, kind = head.partition(": ")
            if name == "name":
                yield Parameter(name, "name", "str | None", None, by_name)
            elif name in self.definition["attributes"]:
                annotation, given = self._attribute(name, kind, default)
                yield Parameter(name, kind or "attribute", annotation, given, by_name)
            else:
                given = float(default) if default else None if kind == "optional" else _REQUIRED
                yield Parameter(name, kind or "tensor", _OPERANDS[kind or "tensor"], given, by_name)

    def _attribute(self, name: str, kind: str, default: str) -> tuple[str, Any]:
        """Return the annotation and the default value of an attribute."""
        attributes = self.definition["attributes"]
        of, given = attributes[name]
        if kind == "axes":
            return "Axes", None
        if kind == "sizes":
            return "int | Sequence[int]", given[0]
        if kind == "padding":
            return "Padding", attributes["padding_style"][1]
        if kind == "window":
            return "Window", _REQUIRED
        if kind == "strides":
            return "int | Sequence[int] | None", None
        if default:
            given = default if of == "a string" else int(default)
        elif given is None or kind == "required":
            given = _REQUIRED
        elif of == "a dtype":
            given = str(given)
        if name in self.tensor_attributes:
            return "int | Tensor" if of == "an integer" else "AttributeLike", given
        return _ATTRIBUTES[of], given

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        names = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        for p in self.parameters:
            where = inspect.Parameter.KEYWORD_ONLY if p.by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
            names.append(inspect.Parameter(p.name, where, default=p.default, annotation=p.annotation))
        return inspect.Signature(names, return_annotation=self.result)

    def __call__(self, graph: Family, *args: Any, **options: Any) -> Any:
        return self.build(graph, args, options)

    def build(self, graph: Family, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Check and convert the arguments of a call, and add the operation to the graph."""
        plan, kind = self._plan, self.name
        values = plan.bind(graph, args, options)
        for i, convert in () if plan.window else plan.conversions:
            values[i] = convert(values[i])
        attributes = {name: values[i] for name, i in plan.attributes} if plan.attributes else {}
        if plan.window:
            attributes = pooling_attributes(kind, plan.window, **attributes)
        elif plan.padding:
            attributes.update(padding_attributes(attributes["padding"], kind, plan.padding))
        operands = operands_of(graph, kind, values[: plan.tensors]) if plan.tensors else self._operands(graph, values)
        if self.tensor_attributes:
            more, known = tensor_attributes(
                graph, kind, **{name: attributes.pop(name) for name in self.tensor_attributes}
            )
            operands, attributes = operands + more, attributes | known
        if self.result == "Tensor":
            return graph.create_tensor(kind, operands, attributes, values[plan.name], noted(graph))
        outputs = add_operation(graph, kind, operands, attributes, values[plan.name]).outputs
        return list(outputs) if self.result == "list[Tensor]" else tuple(outputs)

    def _operands(self, graph: Family, values: list[Any]) -> list[Tensor]:
        """Return the operands as tensors. A mask does not determine the dtype of numbers."""
        masks: list[Tensor] = []
        found: list[Any] = []
        for parameter, value in zip(self.parameters, values, strict=True):
            kind = parameter.kind
            if kind == "tensors":
                found.extend(value)
            elif kind == "shape":
                found.append(shape_operand(graph, value, self.name))
            elif kind == "mask":
                masks.append(value)
            elif parameter.is_operand and not (kind == "optional" and value is None):
                found.append(value)
        return masks + operands_of(graph, self.name, found)

    @functools.cached_property
    def _plan(self) -> Plan:
        return Plan(self)

    def short_count(self) -> int:
        """Return the number of operands if a call can pass them alone, as tensors, or -1.

        All other arguments are then the defaults of the C++ definition.
        """
        for p in self.parameters:
            usual = p.kind in ("tensor", "number", "mask", "optional", "shape")
            if not usual and (p.default is _REQUIRED or p.kind == "attribute" and self._differs(p)):
                return -1
        return self.operand_count if self.result == "Tensor" else -1

    def _differs(self, parameter: Parameter) -> bool:
        return str(parameter.default) != str(self.attribute(parameter)[1])

    def attribute(self, parameter: Parameter) -> tuple[str, Any]:
        """Return the kind of a parameter's attribute, such as "an integer", and the default of the C++ definition."""
        found: tuple[str, Any] = self.definition["attributes"][parameter.name]
        return found


class Plan:
    """How the arguments of a method become operands and attributes, prepared when the method is first called.

    Attributes:
        conversions: (index, function) pairs of the arguments that need a conversion.
        attributes: (name, index) pairs of the arguments that are attributes.
        padding: Number of axes of the argument `padding`, or 0 without such an argument.
        window: Number of axes of a pooling window, or 0.
        tensors: Number of leading arguments that are all operands, or 0 if operands need a conversion.
        name: Index of the operation's name.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, parameters = schema, schema.parameters
        self.conversions = [(i, f) for i, p in enumerate(parameters) if (f := _conversion(schema, p)) is not None]
        self.attributes = [(p.name, i) for i, p in enumerate(parameters) if p.kind in _CONVERTED]
        self.padding = sum(len(schema.attribute(p)[1]) // 2 for p in parameters if p.kind == "padding")
        self.window = self.padding if any(p.kind == "window" for p in parameters) else 0
        plain = [p.kind in ("tensor", "number") for p in parameters]
        self.tensors = schema.operand_count if all(plain[: schema.operand_count]) else 0
        self._index = {p.name: i for i, p in enumerate(parameters)}
        self.name = self._index["name"]
        self._defaults = [p.default for p in parameters]
        self._required = max((i + 1 for i, p in enumerate(parameters) if p.default is _REQUIRED), default=0)
        self._checks = [Check(p.name, p.annotation, schema) for p in parameters]
        self._positional = sum(not p.by_name for p in parameters)

    @functools.cached_property
    def contract(self) -> Contract:
        """The signature, for error messages."""
        return Contract(self.schema)

    def bind(self, graph: Family, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """Return the value of each parameter. Raise a typed error if an argument is rejected."""
        checks, count = self._checks, len(args)
        if count > self._positional:
            refuse_extra(self.contract, (graph, *args), options)
        values = [*args, *self._defaults[count:]]
        for check, value in zip(checks, args, strict=False):
            if type(value) not in check.usual and not check.accepts(value):
                self.contract.refuse(check, value, (graph, *args))
        for name, value in options.items():
            i = self._index.get(name)
            if i is None:
                refuse_unknown(self.contract, name, (graph, *args))
            if i < count:
                refuse_extra(self.contract, (graph, *args), options, name)
            if type(value) not in checks[i].usual and not checks[i].accepts(value):
                self.contract.refuse(checks[i], value, (graph, *args))
            values[i] = value
        for i in range(count, self._required):
            if values[i] is _REQUIRED:
                self._refuse_missing(values)
        return values

    def _refuse_missing(self, values: list[Any]) -> NoReturn:
        missing = [p.name for p, value in zip(self.schema.parameters, values, strict=True) if value is _REQUIRED]
        many = f"{len(missing)} required positional argument{'s' * (len(missing) > 1)}"
        raise TypeError(f"{self.schema.__qualname__}() missing {many}: {' and '.join(map(repr, missing))}")


def _conversion(schema: Schema, parameter: Parameter) -> Callable[[Any], Any] | None:
    """Return the function that converts an argument to the type of its attribute, or None."""
    if parameter.kind == "axes":
        return lambda value: axes_attribute(value, schema.name)
    if parameter.kind == "padding" or parameter.name not in schema.definition["attributes"]:
        return None
    of, default = schema.attribute(parameter)
    if of == "a dtype":
        return as_dtype
    if of != "a list of integers":
        return None
    if parameter.name in schema.tensor_attributes:
        return lambda value: [value] if isinstance(value, (int, np.integer)) else value
    what, count = f"[{schema.name}] {parameter.name}", len(default) if parameter.kind == "sizes" else None
    return lambda value: ints(value, what, count)


@functools.cache
def schema(kind: str) -> Schema:
    """Return the schema of a kind of operation. Raise GraphError if the kind is unknown."""
    return Schema(_core.definition(kind))


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return the schema of every kind of operation, including internal ones, by name."""
    return {d["name"]: schema(d["name"]) for d in _core.definitions()}


def method_name(kind: str) -> str:
    """Return the name of the Graph method for a kind of operation: its name, plus an underscore after a keyword."""
    return kind + "_" if keyword.iskeyword(kind) else kind


@functools.cache
def elementwise(operands: int) -> frozenset[str]:
    """Return the names of the public element-wise operations with this number of operands."""
    return frozenset(
        name
        for name, schema in schemas().items()
        if schema.elementwise and schema.operand_count == operands and not schema.definition["internal"]
    )
