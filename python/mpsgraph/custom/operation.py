"""custom_operation and load_custom_operations: a kernel of one's own as a function from tensors to tensors."""

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
from ..ops._family import TensorLike
from ..precision.mixed_precision import autocast_dtype
from .compiling import compiled
from .description import KINDS, AttributeSpec, Description
from .sites import CustomGradient, TensorType, derivative, inference, thread_count

DTypes: TypeAlias = Any  # DTypeLike | Sequence[DTypeLike] | Sequence[Sequence[DTypeLike]]: seen to by dtype_lists
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)
_VERSION = re.compile(r"[\w.+-]+", re.ASCII)


@checked
class CustomOperation:
    """An operation of one's own: called with tensors it adds itself to their graph.

    It is what `custom_operation`, `python_operation` and `load_custom_operations` give. `name` and `key` are what
    graphs and packages know it by; `library` is the file that a program in C or C++ can load, None without one.

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
        """Adds the operation to the operands' graph.

        Args: operands, tensors and numbers; name of the operation in the graph, by default its own; graph, for an
        operation without operands; attributes by their names. Result: a tensor, a tuple of them where inference says
        several, the Operation where it has none. Errors: GraphError, DTypeError, ShapeError. Gradient: its own, if it
        has one.
        """
        at = graph
        for operand in operands:
            if isinstance(operand, Tensor):
                at = at or operand.graph  # type: ignore[assignment]
        if at is None:
            raise GraphError(f"[{self.name}] has no tensor among its operands: say to which graph=… it belongs")
        made = self._create(at, at._operands(self.name, operands), attributes, name)
        outputs = made.outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or made

    def _create(
        self, graph: Graph, operands: Sequence[Tensor], attributes: Mapping[str, Any], name: str | None
    ) -> Operation:
        for taken in ("operation", "key", "effect", "types"):
            if taken in attributes:
                raise GraphError(f"[{self.name}] has no attribute {taken}")
        stated = {**attributes, "operation": self.name, "key": self.key}
        if self._infer is not None:  # for programs in which that function is not
            values = {key: default for key, _, default in self._attributes if default is not None} | dict(attributes)
            if all(key in values for key, _, _ in self._attributes) and len(values) == len(self._attributes):
                stated["types"] = self._infer([_type_of(operand) for operand in operands], values)
        return graph._operation("custom", operands, stated, name or self.name.rpartition(".")[2])

    def _as_gradient(self) -> Callable[[CustomGradient], Any]:
        """Of another operation: called with the incoming gradients and then the operands."""
        names = [key for key, _, _ in self._attributes]

        def gradient(g: CustomGradient) -> Any:
            attributes = {key: value for key, value in g.attributes.items() if key in names}
            return self(*g.incoming, *g.operands, **attributes)

        return gradient


def _type_of(tensor: Tensor) -> TensorType:
    """As the operation will see it: autocast gives custom operations float32."""
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
    """An operation of one's own, with a kernel in C++ for device cpu, in Metal's language for device metal, or both.

    Source in C++ is compiled at once by the system's compiler and kept (`mg.custom.cache_directory`); it defines
    `void name(mpsgraph::custom::Call& call)`, with mpsgraph/custom_operation.h in front of it.

    Args:
        name: letters, digits, underscores, and dots between parts. An operation of the same name and code is replaced.
        cpu, metal: source text, or the path of a file. What is not given, that device refuses.
        infer: a function of the operands' types and, by name, the attributes: a TensorType, or a list of several
            results'; or the name of a function `void f(mpsgraph::custom::Inference& inference)` in `cpu`, which
            programs without Python have, too. None: one result of the first operand's type. It is asked when the
            operation is made, with -1 for sizes that are not known, and again with the sizes of a run.
        gradient: a function of a CustomGradient that gives a tensor, or None, for each operand; or another custom
            operation, called with the incoming gradients and then the operands. None: not differentiable.
        attributes: default values by name (bool, int, float, str, tuple of ints), or the types of those that must be
            given.
        dtypes: what operands may be: a list for all, or a list of lists, one for each operand.
        effect: whether it does something beside its results; then it is never merged with its like.
        threads: a function of types and attributes as `infer`: one to three numbers of threads for `metal`. None: one
            for each element of the first result.
        function: the kernels' name in both sources, by default the last part of `name`.
        flags: of the compiler, behind ours, such as "-march=native".
        version: what packages compare to know the code. None: a digest of both sources.
        guard: whether the kernel runs on copies with margins, and an error says when it wrote beside them; as the
            environment variable MPSGRAPH_GUARD_CUSTOM=1 does for all.
    Result: a CustomOperation, called with tensors and attributes. Errors: GraphError for a name, an attribute or code
    that is not sound, with the compiler's message; UnsupportedError without a compiler; DeviceError where a run's
    kernel fails. Gradient: as given. Source: the custom operations of PyTorch and TensorFlow on Metal (WWDC22, WWDC23).

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
            f"custom_operation: a name is letters, digits and underscores, parts with dots, got {shown(name)}"
        )
    in_source = function or name.rpartition(".")[2]
    if not _FUNCTION.fullmatch(in_source):
        raise GraphError(f"{front} function must be a name in C++, got {shown(function)}")
    if version is not None and not _VERSION.fullmatch(version):
        raise GraphError(
            f"{front} version must be a word of letters, digits, '.', '+', '-' and '_', got {shown(version)}"
        )
    if isinstance(infer, str) and (cpu is None or not _FUNCTION.fullmatch(infer)):
        raise GraphError(f"{front} infer names no function in cpu: {shown(infer)}")
    if cpu is None and metal is None:
        raise GraphError(f"{front} has no code: give cpu=…, metal=… or both")
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
    """The operations of a shared library that exports mpsgraph_custom_operations() (mpsgraph/custom_operation.h).

    Args: path of the library, which stays loaded; gradients, functions of a CustomGradient by an operation's name, for
    those whose derivative is a composition; guard, as `custom_operation`. Result: CustomOperations by name. Errors:
    GraphError for a file that is no such library.

    >>> source = "void nothing(mpsgraph::custom::Call& call) { call.result<float>(0)[0] = 0; }"
    >>> compiled = mg.custom_operation("nothing", cpu=source, infer=lambda: mg.TensorType(mg.float32, ()))
    >>> mg.load_custom_operations(compiled.library)["nothing"].key == compiled.key
    True
    """
    library = Path(os.fspath(path))
    if not library.is_file():
        raise GraphError(f"load_custom_operations: there is no file {shown(str(library))}")
    made = {name: CustomOperation(name, key, None, library) for name, key in _core.load_custom_library(str(library))}
    for name in gradients or {}:
        if name not in made:
            raise GraphError(f"load_custom_operations: {library} has no operation {shown(name)}; it has {sorted(made)}")
    for name, operation in made.items():
        derived = _derivative(name, (gradients or {}).get(name))
        _core.amend_custom_operation(name, operation.key, None, derived, None, guard)
    return made


def _derivative(name: str, gradient: Callable[..., Any] | CustomOperation | None) -> Callable[..., Any] | None:
    if gradient is None:
        return None
    return derivative(name, gradient._as_gradient() if isinstance(gradient, CustomOperation) else gradient)


def _source(front: str, given: str | os.PathLike[str] | None, called: str) -> tuple[str | None, Path | None, str]:
    """The text of a source, the folder of its file, and what messages call it."""
    if given is None or isinstance(given, str):
        return given, None, called
    path = Path(given)
    try:
        return path.read_text(), path.resolve().parent, path.as_posix().replace('"', "")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"{front} {path} cannot be read: {error}") from None


def attribute_specs(front: str, attributes: Mapping[str, Any]) -> list[AttributeSpec]:
    """Names, kinds and defaults, None where an attribute must be given."""
    specs: list[AttributeSpec] = []
    for name, value in attributes.items():
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in ("name", "graph"):
            raise GraphError(f"{front} attributes has {shown(name)}, which cannot be the name of one")
        kind = KINDS.get(value if isinstance(value, type) else type(value))
        is_list = isinstance(value, (tuple, list))
        if kind is None or (is_list and any(type(one) is not int for one in value)):
            raise GraphError(
                f"{front} attribute {name} must be a bool, an int, a float, a str or a tuple of ints, or one of these "
                f"types, got {shown(value)}"
            )
        specs.append((name, kind, None if isinstance(value, type) else list(value) if is_list else value))
    return specs


def _lists(dtypes: DTypes) -> bool:
    return isinstance(dtypes, Sequence) and any(isinstance(one, (list, tuple)) for one in dtypes)


def dtype_lists(front: str, dtypes: DTypes) -> list[list[DType]]:
    """What each operand may be; one list for all where no lists were given."""
    several: Any = [dtypes] if isinstance(dtypes, str) or not isinstance(dtypes, Sequence) else dtypes
    lists = [[one] if isinstance(one, str) or not isinstance(one, Sequence) else one for one in several]
    lists = lists if _lists(dtypes) else [several]
    try:
        made = [[as_dtype(one) for one in taken] for taken in lists]
    except DTypeError as error:
        raise DTypeError(f"{front} dtypes has {error}") from None
    if not made or not all(made):
        raise DTypeError(f"{front} dtypes is empty: name the element types that the kernels take")
    return made
