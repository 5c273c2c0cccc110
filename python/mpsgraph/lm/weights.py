"""Names and layouts of weights in checkpoints: rules that pair tensors of a file with variables of a model.

A family (families/) is a list of rules. A rule reads one or more tensors into one or more variables, for example a
fused projection into three, and writes them back. Every tensor of a file must belong to a rule, and every rule must
find its tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from .._core import DType, Tensor, bfloat16
from .._display import shown
from .._dtypes import as_dtype
from ..errors import CheckpointError, DTypeError
from ..nn.module import Module
from ..nn.parts import all_variables, graph_of
from ..nn.state import Float8, Value, bits_of, value_of, wide_of

Arrays = list[np.ndarray]
Shapes = list[tuple[int, ...]]
_MOST = 20  # Maximum number of names in an error message.


@dataclass(frozen=True)
class Rule:
    """Tensors of a file that together form variables of the model.

    Attributes:
        theirs: Names of the tensors.
        ours: Paths of the variables.
        read: Function that returns the variables' values for the tensors and the variables' shapes.
        write: Inverse of read.
    """

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    read: Callable[[Arrays, Shapes], Arrays]
    write: Callable[[Arrays], Arrays]


def plain(theirs: str, ours: str) -> Rule:
    """Return the rule of a tensor that is a variable as it is."""
    return Rule((theirs,), (ours,), lambda a, _: a, lambda a: a)


def linear(theirs: str, *ours: str) -> Rule:
    """Return the rule of a matrix (outputs, inputs), of which the outputs are divided among the variables."""
    return Rule(
        (theirs,), ours, lambda a, shapes: _parted(a[0].T, shapes), lambda a: [np.concatenate([part.T for part in a])]
    )


def untransposed(theirs: str, *ours: str) -> Rule:
    """Return the rule of a matrix (inputs, outputs), or a vector, divided among the variables along its last axis."""
    return Rule((theirs,), ours, lambda a, shapes: _parted(a[0], shapes), lambda a: [np.concatenate(a, -1)])


def stacked(theirs: Sequence[str], ours: str) -> Rule:
    """Return the rule of matrices (outputs, inputs) that form one variable (matrices, inputs, outputs)."""
    return Rule(tuple(theirs), (ours,), lambda a, _: [np.stack([m.T for m in a])], lambda a: [m.T for m in a[0]])


def projection(theirs: str, *ours: str, bias: bool = False) -> list[Rule]:
    """Return the rules of a linear layer with weight (outputs, inputs), divided among the layers."""
    rules = [linear(f"{theirs}.weight", *(f"{name}.weight" for name in ours))]
    return rules + ([untransposed(f"{theirs}.bias", *(f"{name}.bias" for name in ours))] if bias else [])


def norm(theirs: str, ours: str, bias: bool = False) -> list[Rule]:
    """Return the rules of a normalization."""
    rules = [plain(f"{theirs}.weight", f"{ours}.gamma")]
    return rules + ([plain(f"{theirs}.bias", f"{ours}.beta")] if bias else [])


def _parted(array: np.ndarray, shapes: Shapes) -> Arrays:
    sizes = [shape[-1] for shape in shapes]
    if sum(sizes) != array.shape[-1]:
        return [array] * len(shapes)  # The check of shapes reports the mismatch.
    return np.split(array, np.cumsum(sizes)[:-1], -1)


@dataclass
class Names:
    """What a family's files contain besides the rules.

    Attributes:
        prefix: Prefix of all names that files of the model without its head lack.
        heads: Prefixes of names to which `prefix` is not added.
        copies: Names of tensors that may repeat another one, keyed by that tensor's name.
        constants: Patterns of tensors that hold no parameters, with a function that returns whether a tensor is as
            expected.
        renamed: Older parts of names, with the parts that replace them.
    """

    prefix: str = ""
    heads: tuple[str, ...] = ()
    copies: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Callable[[np.ndarray], bool]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


def renamed_state(
    state: Mapping[str, Any], rules: Sequence[Rule], names: Names, ignored: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the tensors of a file under the names of the rules, without those that match a pattern to ignore."""
    known = {name for rule in rules for name in rule.theirs}
    found = {}
    for name, value in state.items():
        new = name
        for old, part in names.renamed.items():
            new = re.sub(old, part, new)
        if new not in known and names.prefix and not new.startswith((names.prefix, *names.heads)):
            new = names.prefix + new
        if any(fnmatchcase(either, pattern) for either in (name, new) for pattern in ignored):
            continue
        if new in found:
            raise CheckpointError(f"the checkpoint contains the tensor '{new}' twice, also as '{name}'")
        found[new] = value
    return found


def dtype_of(state: Mapping[str, Any]) -> DType:
    """Return the narrowest dtype to which all floating-point tensors convert exactly."""
    kinds = {_dtype_name(value) for value in state.values()}
    floats = {kind for kind in kinds if kind.startswith(("float", "bfloat"))}
    if "float64" in floats:
        return as_dtype("float64")
    if floats <= {"bfloat16"} and floats:
        return as_dtype("bfloat16")
    return as_dtype("float16" if floats <= {"float16"} and floats else "float32")


def _dtype_name(value: Any) -> str:
    if isinstance(value, Float8):
        return "float16"
    return str(value.dtype.name) if isinstance(value, Value) else str(value_of(value).dtype.name)


def load_weights(
    model: Module,
    state: Mapping[str, Any],
    rules: Sequence[Rule],
    names: Names,
    *,
    cast: bool,
    ignored: Sequence[str] = (),
) -> None:
    """Set the variables of a model to the tensors of a checkpoint.

    Args:
        model: Model whose variables exist.
        state: Tensors, keyed by name.
        rules: Rules of the family.
        names: What else files of the family contain.
        cast: Whether to round tensors to the dtype of the variables.
        ignored: Patterns of names of tensors to skip, at the caller's request.

    Raises:
        CheckpointError: If tensors are missing or left over, or their shapes do not fit.
        DTypeError: If a tensor would have to be rounded and cast is False.
    """
    state = renamed_state(state, rules, names, ignored)
    variables = all_variables(model)
    wanted = {name for rule in rules for name in rule.theirs}
    if missing := sorted(wanted - state.keys()):
        raise CheckpointError(f"the checkpoint lacks {_listed(missing)}")
    _check_rest({name: value for name, value in state.items() if name not in wanted}, state, names)
    if lost := sorted(variables.keys() - {path for rule in rules for path in rule.ours}):
        raise CheckpointError(f"the family has no rule for the variables {_listed(lost)}")
    values: dict[Tensor, np.ndarray] = {}
    wrong = []
    for rule in rules:
        given = [value_of(state[name]) for name in rule.theirs]
        targets = [variables[path] for path in rule.ours]
        shapes: Shapes = [tuple(target.shape or ()) for target in targets]
        for target, value, shape in zip(targets, _read(rule, given, shapes), shapes, strict=True):
            if value is None or value.shape != shape:
                sizes = ", ".join(f"{n} {v.array.shape}" for n, v in zip(rule.theirs[:1], given[:1], strict=True))
                wrong.append(f"{sizes} does not fit {shape} of {rule.ours[0]}")
                continue
            values[target] = _converted(rule.theirs[0], value, given[0].dtype, target.dtype, cast)
    if wrong:
        raise CheckpointError(f"shapes in the checkpoint differ from config.json: {_listed(wrong, '; ')}")
    graph_of(next(iter(values))).set_variables(values)


def _read(rule: Rule, given: list[Value], shapes: Shapes) -> list[Any]:
    try:
        return list(rule.read([value.array for value in given], shapes))
    except ValueError:
        return [None] * len(shapes)


def _converted(name: str, array: np.ndarray, dtype: DType, wanted: DType, cast: bool) -> np.ndarray:
    """Convert an array, or the bits of a bfloat16 array, to the dtype of a variable."""
    if dtype == wanted:
        return np.ascontiguousarray(array)
    if not dtype.is_float:
        raise DTypeError(f"'{name}' must be floating-point, got {dtype}")
    exact = wanted.itemsize > dtype.itemsize
    if not (exact or cast):
        raise DTypeError(f"'{name}' is {dtype}, but the model is {wanted}: pass dtype=\"{wanted}\" to round it")
    wide = wide_of(array) if dtype == bfloat16 else array
    return bits_of(wide) if wanted == bfloat16 else np.ascontiguousarray(wide, wanted.numpy)


def _check_rest(rest: Mapping[str, Any], state: Mapping[str, Any], names: Names) -> None:
    """Check tensors that are not parameters: repeated ones and constants."""
    left = []
    for name, value in rest.items():
        check = next((test for pattern, test in names.constants.items() if re.fullmatch(pattern, name)), None)
        original = next((of for of, copy in names.copies.items() if copy == name), None)
        if check is not None:
            if not check(_numbers(value)):
                raise CheckpointError(f"'{name}' is not the constant that this family computes itself")
        elif original is not None and original in state:
            if not np.array_equal(_numbers(value), _numbers(state[original])):
                raise CheckpointError(
                    f"'{name}' differs from '{original}' although config.json ties them (tie_word_embeddings)"
                )
        else:
            left.append(name)
    if left:
        raise CheckpointError(
            f"the checkpoint has tensors that the model does not use: {_listed(sorted(left))}; to skip them, pass "
            f"ignore={shown(sorted(left)[:3])}"
        )


def _numbers(given: Any) -> np.ndarray:
    value = value_of(given)
    return wide_of(value.array) if value.dtype == bfloat16 else value.array


def written(model: Module, rules: Sequence[Rule]) -> dict[str, Value]:
    """Return the tensors of a checkpoint for the current values of a model's variables."""
    variables = all_variables(model)
    paths = [path for rule in rules for path in rule.ours]
    copies = graph_of(variables[paths[0]]).variable_values([variables[path] for path in paths])
    held = dict(zip(paths, copies, strict=True))
    found = {}
    for rule in rules:
        given = [value_of(held[path]) for path in rule.ours]
        for name, array in zip(rule.theirs, rule.write([value.array for value in given]), strict=True):
            found[name] = Value(np.ascontiguousarray(array), given[0].dtype)
    return found


def _listed(words: Sequence[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return separator.join(words[:_MOST]) + more
