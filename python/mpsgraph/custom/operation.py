"""Custom operations with compiled kernels: custom_operation and load_custom_operations."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .. import _core
from .._checks import checked
from .._core import DType, Operation, Tensor
from .._display import shown
from .._dtypes import as_dtype
from ..errors import DTypeError, GraphError
from ..graph import Graph
from ..ops._family import TensorLike, add_operation, operands_of
from ..precision.mixed_precision import autocast_dtype
from .compiling import compiled
from .description import KINDS, AttributeSpec, Description
from .sites import CustomGradient, TensorType, derivative, inference, thread_count

DTypes: TypeAlias = Any  # DTypeLike | Sequence[DTypeLike] | Sequence[Sequence[DTypeLike]]; checked by dtype_lists
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)
_VERSION = re.compile(r"[\w.+-]+", re.ASCII)


@checked
class CustomOperation:
    """Custom operation: a function from tensors to tensors that adds an operation to their graph.

    Create one with `custom_operation`, `python_operation`, or `load_custom_operations`, not with the constructor.

    Args:
        name: Name of the operation.
        key: Identifier of the operation's code.
        infer: Python function that infers the result types, or None (the default).
        library: Path of the compiled library, or None (the default).

    Attributes:
        name: Name that identifies the operation in graphs and packages.
        key: Identifier of the operation's code in graphs and packages.
        library: Path of the library that C and C++ programs can load, or None if there is none.

    Example:
        >>> shifted = mg.python_operation("shifted", lambda x, by: x + np.float32(by), attributes={"by": 1.0})
        >>> g = mg.Graph()
        >>> y = shifted(g.constant([1.0, 2.0]), by=0.5, name="y")
        >>> y.name, g.run({}, y).tolist(), shifted.library
        ('y', [1.5, 2.5], None)
    """

    def __init__(self, name: str, key: str, infer: Callable[..., Any] | None = None, library: Path | None = None):
        self.name, self.key, self.library = name, key, library
        self._infer = None if infer is None else inference(name, infer)
        known = _core.custom_operation_description(name, key)
        self._attributes: list[AttributeSpec] = known["attributes"]

    def __repr__(self) -> str:
        return f"<CustomOperation {self.name} ({self.key})>"

    def __call__(
        self, *operands: TensorLike, name: str | None = None, graph: Graph | None = None, **attributes: Any
    ) -> Any:
        """Add the operation to the graph of its operands.

        Args:
            *operands: Tensors and numbers.
            name: Name of the new operation in the graph. Defaults to the name of this operation.
            graph: Graph to add to, for an operation without tensor operands. None (the default) means the operands'
                graph.
            **attributes: Values of the operation's attributes, by name.

        Returns:
            The result tensor, a tuple of tensors if there are several results, or the Operation if there are none.

        Raises:
            GraphError: If there is neither a tensor operand nor a graph, or an attribute is unknown or missing.
            DTypeError: If the operation does not accept the dtype of an operand.
            ShapeError: If the type inference function rejects the shapes of the operands.

        Gradient: computed by the gradient passed when the operation was created; without it, the operation is not
        differentiable.
        """
        at = graph
        for operand in operands:
            if isinstance(operand, Tensor):
                at = at or operand.graph  # type: ignore[assignment]
        if at is None:
            raise GraphError(
                f"[{self.name}] none of the operands is a tensor; pass graph=... to select the graph to add to"
            )
        made = self._create(at, operands_of(at, self.name, operands), attributes, name)
        outputs = made.outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or made

    def _create(
        self, graph: Graph, operands: Sequence[Tensor], attributes: Mapping[str, Any], name: str | None
    ) -> Operation:
        for taken in ("operation", "key", "effect", "types"):
            if taken in attributes:
                raise GraphError(f"[{self.name}] has no attribute '{taken}'")
        stated = {**attributes, "operation": self.name, "key": self.key}
        # The node stores the inferred types for programs that do not have the Python function.
        if self._infer is not None:
            values = {key: default for key, _, default in self._attributes if default is not None} | dict(attributes)
            if all(key in values for key, _, _ in self._attributes) and len(values) == len(self._attributes):
                stated["types"] = self._infer([_type_of(operand) for operand in operands], values)
        return add_operation(graph, "custom", operands, stated, name or self.name.rpartition(".")[2])

    def _as_gradient(self) -> Callable[[CustomGradient], Any]:
        """Return a gradient function that calls this operation with the incoming gradients followed by the operands."""
        names = [key for key, _, _ in self._attributes]

        def gradient(g: CustomGradient) -> Any:
            attributes = {key: value for key, value in g.attributes.items() if key in names}
            return self(*g.incoming, *g.operands, **attributes)

        return gradient


def _type_of(tensor: Tensor) -> TensorType:
    """Return the type of a tensor as a custom operation receives it: under autocast, half precision becomes float32."""
    dtype, shape = tensor.type
    is_half = dtype.is_float and dtype.itemsize == 2
    return TensorType(_core.float32 if is_half and autocast_dtype() is not None else dtype, shape)


@checked
def custom_operation(
    name: str,
    *,
    cpu: str | os.PathLike[str] | None = None,
    metal: str | os.PathLike[str] | None = None,
    infer: Callable[..., Any] | str | None = None,
    gradient: Callable[..., Any] | CustomOperation | None = None,
    attributes: Mapping[str, Any] | None = None,
    dtypes: DTypes = ("float32",),
    effect: bool = False,
    threads: Callable[..., Any] | None = None,
    function: str | None = None,
    flags: Sequence[str] = (),
    version: str | None = None,
    guard: bool = False,
) -> CustomOperation:
    """Create an operation with a kernel in C++ for the CPU device, in Metal for the Metal device, or both.

    The C++ source is compiled immediately with the system's compiler and cached in `mg.custom.cache_directory()`. It
    must define `void name(mpsgraph::custom::Call& call)`. The header mpsgraph/custom_operation.h is included
    automatically.

    Args:
        name: Letters, digits, and underscores; parts may be separated by dots. An existing operation with the same name
            and code is replaced.
        cpu: C++ source, or a pathlib.Path of a source file. None (the default) means that the CPU device rejects the
            operation.
        metal: Metal source, or a pathlib.Path of a source file. None (the default) means that the Metal device rejects
            the operation.
        infer: Function that computes the result types from the operands' TensorTypes and, as keyword arguments, the
            attributes. It returns a TensorType, or a list of TensorTypes for several results. The function is called
            when the operation is created, with -1 for unknown sizes, and again with the sizes of a run. Alternatively,
            infer is the name of a function `void f(mpsgraph::custom::Inference& inference)` in the cpu source, which
            also works in programs without Python. None (the default) means one result with the type of the first
            operand.
        gradient: Function that takes a CustomGradient and returns a tensor or None for each operand; or another custom
            operation, which is called with the incoming gradients followed by the operands. None (the default) means
            that the operation is not differentiable.
        attributes: Dict from attribute names to default values (bool, int, float, str, or tuple of ints), or to types
            for attributes without a default. None (the default) means no attributes.
        dtypes: dtypes that the kernels accept: a list for all operands, or a list of lists, one for each operand.
            Defaults to ("float32",).
        effect: Whether the operation has side effects, so that equal operations are never merged. Defaults to False.
        threads: Function with the same arguments as infer that returns the Metal grid size as one to three integers.
            None (the default) means one thread for each element of the first result.
        function: Name of the kernel function in both sources. Defaults to the last part of name.
        flags: Additional compiler flags, such as "-march=native".
        version: Identifier that packages use to recognize the code. None (the default) means a digest of both sources.
        guard: Whether the kernel runs on copies with guard zones, to report writes outside its buffers. The environment
            variable MPSGRAPH_GUARD_CUSTOM=1 enables this for all custom operations. Defaults to False.

    Returns:
        A CustomOperation, which is called with tensors and attributes.

    Raises:
        GraphError: If a name, an attribute, or another argument is invalid, or the source does not compile; the error
            then contains the compiler's output.
        DTypeError: If dtypes is empty or contains an unknown dtype.
        UnsupportedError: If there is no C++ compiler.
        DeviceError: If the cache directory is not writable. A run raises it if the kernel fails.

    Gradient: given by the argument gradient.
    Source: the custom operations of PyTorch and TensorFlow on Metal (WWDC22, WWDC23).

    Example:
        >>> source = '''
        ... void cube(mpsgraph::custom::Call& call) {
        ...   const auto x = call.operand<float>(0);
        ...   const auto y = call.result<float>(0);
        ...   for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
        ... }'''
        >>> cube = mg.custom_operation("cube", cpu=source, gradient=lambda g: 3 * g.operands[0] ** 2 * g.incoming[0])
        >>> g = mg.Graph()
        >>> x = g.placeholder((2,))
        >>> y = cube(x)
        >>> [v.tolist() for v in g.run({x: np.float32([1, 2])}, [y, g.gradients(y, [x])[x]]).values()]
        [[1.0, 8.0], [3.0, 12.0]]
    """
    front = f"custom_operation '{name}':"
    if not _NAME.fullmatch(name):
        raise GraphError(
            "custom_operation: name must consist of letters, digits and underscores, optionally in parts separated by "
            f"dots, got {shown(name)}"
        )
    in_source = function or name.rpartition(".")[2]
    if not _FUNCTION.fullmatch(in_source):
        raise GraphError(f"{front} function must be a valid C++ function name, got {shown(function)}")
    if version is not None and not _VERSION.fullmatch(version):
        raise GraphError(
            f"{front} version may only contain letters, digits, '.', '+', '-' and '_', got {shown(version)}"
        )
    if isinstance(infer, str) and (cpu is None or not _FUNCTION.fullmatch(infer)):
        raise GraphError(
            f"{front} infer must be a Python function or the name of a function in cpu, got {shown(infer)}"
        )
    if cpu is None and metal is None:
        raise GraphError(f"{front} there is no source; pass cpu=..., metal=... or both")
    cpu_text, folder, cpu_name = _source(front, cpu, in_source + ".cpp")
    metal_text, _, _ = _source(front, metal, "")
    sources = "\0".join((cpu_text or "", metal_text or "", in_source, infer if isinstance(infer, str) else ""))
    description = Description(
        name=name,
        key=version or hashlib.sha256(sources.encode()).hexdigest()[:16],
        function=in_source,
        attributes=attribute_specs(front, attributes or {}),
        dtypes=dtype_lists(front, dtypes),
        operands=-1,
        effect=effect,
        infer=infer if isinstance(infer, str) else "",
        infers_elsewhere=callable(infer),
        metal=metal_text,
        gradient=gradient.name if isinstance(gradient, CustomOperation) else "",
    )
    if _lists(dtypes):
        description.operands = len(description.dtypes)
    asked = inference(name, infer) if callable(infer) else None
    derived = _derivative(name, gradient)
    counted = None if threads is None else thread_count(name, threads)
    library = None
    if cpu_text is None:
        _core.register_custom_operation(
            *(name, description.key, description.attributes, description.dtypes, description.operands, effect),
            *(asked, derived, counted, metal_text, in_source.rpartition("::")[2], None),
        )
    else:
        text = f'#include "mpsgraph/custom_operation.h"\n#line 1 "{cpu_name}"\n{cpu_text}\n{description.text()}'
        library = compiled(name, text, list(flags), folder)
        _core.load_custom_library(str(library))
        _core.amend_custom_operation(name, description.key, asked, derived, counted, guard)
    return CustomOperation(name, description.key, infer if callable(infer) else None, library)


@checked
def load_custom_operations(
    path: str | os.PathLike[str],
    gradients: Mapping[str, Callable[..., Any]] | None = None,
    *,
    guard: bool = False,
) -> dict[str, CustomOperation]:
    """Load a shared library of custom operations.

    The library must export mpsgraph_custom_operations(), declared in mpsgraph/custom_operation.h. The library stays
    loaded.

    Args:
        path: Path of the library.
        gradients: Dict from operation names to gradient functions, which take a CustomGradient, for operations whose
            derivative is a composition of other operations. None (the default) means no gradients.
        guard: Whether kernels run on copies with guard zones, to report writes outside their buffers. Defaults to
            False.

    Returns:
        A dict from names to CustomOperations.

    Raises:
        GraphError: If the file does not exist or is not a library of custom operations, or gradients contains an
            unknown name.

    Example:
        >>> source = "void nothing(mpsgraph::custom::Call& call) { call.result<float>(0)[0] = 0; }"
        >>> compiled = mg.custom_operation("nothing", cpu=source, infer=lambda: mg.TensorType(mg.float32, ()))
        >>> mg.load_custom_operations(compiled.library)["nothing"].key == compiled.key
        True
    """
    library = Path(os.fspath(path))
    if not library.is_file():
        raise GraphError(f"load_custom_operations: file not found: {shown(str(library))}")
    made = {name: CustomOperation(name, key, None, library) for name, key in _core.load_custom_library(str(library))}
    for name in gradients or {}:
        if name not in made:
            raise GraphError(
                f"load_custom_operations: gradients has an entry for {shown(name)}, but the operations in {library} "
                f"are {sorted(made)}"
            )
    for name, operation in made.items():
        derived = _derivative(name, (gradients or {}).get(name))
        _core.amend_custom_operation(name, operation.key, None, derived, None, guard)
    return made


def _derivative(name: str, gradient: Callable[..., Any] | CustomOperation | None) -> Callable[..., Any] | None:
    if gradient is None:
        return None
    return derivative(name, gradient._as_gradient() if isinstance(gradient, CustomOperation) else gradient)


def _source(front: str, given: str | os.PathLike[str] | None, called: str) -> tuple[str | None, Path | None, str]:
    """Return the source text, the directory of the source file or None, and the name that compiler messages show."""
    if given is None or isinstance(given, str):
        return given, None, called
    path = Path(given)
    try:
        return path.read_text(), path.resolve().parent, path.as_posix().replace('"', "")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"{front} cannot read the source file {path}: {error}") from None


def attribute_specs(front: str, attributes: Mapping[str, Any]) -> list[AttributeSpec]:
    """Return (name, kind, default) of each attribute. The default is None if the attribute requires a value."""
    specs: list[AttributeSpec] = []
    for name, value in attributes.items():
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in ("name", "graph"):
            raise GraphError(
                f"{front} the key {shown(name)} in attributes is not allowed; use an ASCII identifier other than "
                "'name' and 'graph'"
            )
        kind = KINDS.get(value if isinstance(value, type) else type(value))
        is_list = isinstance(value, (tuple, list))
        if kind is None or (is_list and any(type(one) is not int for one in value)):
            raise GraphError(
                f"{front} attribute {name} must be a bool, int, float, str or tuple of ints (the default value), or "
                f"one of these types, got {shown(value)}"
            )
        specs.append((name, kind, None if isinstance(value, type) else list(value) if is_list else value))
    return specs


def _lists(dtypes: DTypes) -> bool:
    return isinstance(dtypes, Sequence) and any(isinstance(one, (list, tuple)) for one in dtypes)


def dtype_lists(front: str, dtypes: DTypes) -> list[list[DType]]:
    """Return the accepted dtypes of each operand, or one list for all operands."""
    several: Any = [dtypes] if isinstance(dtypes, str) or not isinstance(dtypes, Sequence) else dtypes
    lists = [[one] if isinstance(one, str) or not isinstance(one, Sequence) else one for one in several]
    lists = lists if _lists(dtypes) else [several]
    try:
        made = [[as_dtype(one) for one in taken] for taken in lists]
    except DTypeError as error:
        raise DTypeError(f"{front} dtypes: {error}") from None
    if not made or not all(made):
        raise DTypeError(f"{front} dtypes must not be empty; list the dtypes that the kernels accept")
    return made
