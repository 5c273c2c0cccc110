"""Save graphs, models, and trainers as packages for other processes and languages, and load packages.

model.py writes models and training/package.py writes trainers; the format is implemented by the core.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from . import _core
from ._checks import Size, checked
from ._core import Device, Tensor
from ._display import shown
from .errors import GraphError, PackageError
from .graph import Graph
from .model import Model, graph_of, save_model

_TO_SAVE = (
    "pass a graph, a model, or a trainer; to save the weights of a module, use "
    "mg.checkpoint.save(path, module.state_dict())"
)


@checked
def save(
    path: str | os.PathLike[str],
    graph: Annotated[Any, _TO_SAVE],
    inputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    outputs: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    *,
    locations: bool = False,
    updates: Size | None = None,
    leave_out: Collection[str] = (),
) -> None:
    """Write a package: the operations that the outputs depend on, with the current values of the variables.

    `mpsgraph.load` opens packages, as do the C and C++ libraries. An existing package at the path is replaced; any
    other existing file raises an error. The package of a trainer holds its training step, its evaluation, and its
    state; training resumed from it gives bit-identical results (docs/packages.md).

    Args:
        path: Directory to write, by convention with the extension .mpsgraph.
        graph: A graph, a model, or a trainer. Models and trainers have their own inputs and outputs.
        inputs: Placeholders of a graph, as a dict keyed by name, or as a sequence, whose placeholders keep their own
            names. None, the default, means all placeholders.
        outputs: Outputs of a graph, as a dict keyed by name, or as a sequence, whose tensors keep their own names.
            Required for a graph.
        locations: Whether to store the source location of each operation, such as "model.py:41", for error messages.
            Defaults to False.
        updates: For a trainer, the number of updates for which learning rates are stored if the schedule has no end.
            Defaults to 100,000.
        leave_out: For a trainer, names of parts to omit because a package cannot hold them, such as metrics that
            accumulate. Defaults to no parts.

    Raises:
        GraphError: If a tensor does not belong to the graph, an argument does not apply, or a trainer has not trained
            yet.
        UnsupportedError: If a package cannot hold a part of the graph.
        PackageError: If the package cannot be written.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "double.mpsgraph")
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1,), name="x")
        >>> mg.save(path, g, [x], {"y": x * g.variable(2.0)})
        >>> mg.load(path).run({"x": np.float32([1, 2])})["y"].tolist()
        [2.0, 4.0]
    """
    if isinstance(graph, (Graph, Model)) and not hasattr(graph, "train_step"):
        if updates is not None or len(leave_out):
            raise GraphError("[save] updates and leave_out apply only to trainers: omit them for a graph or a model")
        return save_model(path, graph, inputs, outputs, locations)
    from .training.package import save as save_trainer
    from .training.trainable_model import TrainableModel
    from .training.trainer import Trainer

    if not isinstance(graph, (Trainer, TrainableModel)):
        raise GraphError(f"save: graph must be a graph, a model, or a trainer, got {shown(graph)}: {_TO_SAVE}")
    if inputs is not None or outputs is not None:
        raise GraphError(
            "[save] inputs and outputs do not apply to a trainer, which has its own: omit them, or save the trainer's "
            "graph"
        )
    if isinstance(graph, TrainableModel):
        if updates is not None or len(leave_out):
            raise GraphError(
                "[save] updates and leave_out do not apply to a loaded package, whose contents are already fixed"
            )
        return graph.save(path, locations=locations)
    return save_trainer(graph, path, updates, leave_out, locations)


@checked
def load(path: str | os.PathLike[str], *, verify: bool = True, seed: int = 0) -> Model:
    """Load a model from a package; the package of a trainer becomes a `TrainableModel`, which can resume training.

    Weights are memory-mapped, so that pages are read from the file when they are used. Variables that a program changes
    are read into memory when that program is compiled.

    Args:
        path: Directory of the package.
        verify: Whether to compare checksums, which reads the whole package once. Defaults to True.
        seed: Seed of the graph. Defaults to 0.

    Returns:
        A Model, or a TrainableModel for the package of a trainer.

    Raises:
        PackageError: If the package is missing, truncated, modified, or in a newer format, or is not a package. For
            other kinds of files, the message names the function that reads them.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "double.mpsgraph")
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1,), name="x")
        >>> mg.Model(g, {"x": x}, {"y": x * 2}).save(path)
        >>> mg.load(path)(np.float32([1, 2])).tolist()
        [2.0, 4.0]
    """
    _require_directory(os.fspath(path))
    contents = _core.PackageContents(os.fspath(path), verify)
    graph = graph_of(contents, seed)
    if not contents.training(graph):
        return Model(graph, contents.inputs(graph), contents.outputs(graph), contents.parameters(graph))
    from .training.trainable_model import TrainableModel

    return TrainableModel(graph, contents)


_READERS = {
    ".safetensors": (
        "mg.nn.load_safetensors(model, path) for weights of other programs, trainer.load(path) for the checkpoint of a "
        "trainer, or mg.checkpoint.load(path) for other tensors that mpsgraph saved"
    ),
    ".onnx": "mg.onnx.load(path)",
    ".mlmodel": "mg.coreml.load(path)",
    ".mlpackage": "mg.coreml.load(path)",
    ".pt": "mg.nn.load_torch(model, torch.load(path))",
    ".pth": "mg.nn.load_torch(model, torch.load(path))",
    ".bin": "mg.nn.load_torch(model, torch.load(path))",
    ".npy": "numpy.load(path)",
    ".npz": "numpy.load(path)",
}
"""Expressions that read other kinds of files, keyed by extension."""


def _require_directory(path: str) -> None:
    """Raise PackageError if a path cannot be a package: it does not exist, is a file, or has a different format."""
    reader = _READERS.get(os.path.splitext(path)[1].lower())
    advice = "" if reader is None else f"; to read a {os.path.splitext(path)[1]} file, use {reader}"
    if not os.path.exists(path):
        raise PackageError(f"{path} does not exist{advice}")
    if not os.path.isdir(path):
        raise PackageError(f"{path} is a file, but a package is a directory{advice}")
    if reader is not None and not os.path.exists(os.path.join(path, "package.json")):
        raise PackageError(f"{path} is not a package: it has no package.json{advice}")


class Preparation(NamedTuple):
    """The result of `mpsgraph.prepare`.

    Attributes:
        file: The file that was written.
        made_for: Engine and processor for which the file was prepared.
        constants: Number of prepared constants.
        bytes: Size of the prepared constants.

    Example:
        >>> from mpsgraph.packages import Preparation
        >>> Preparation("net.mpsgraph/prepared/cpu-0.safetensors", "a processor", constants=53, bytes=1 << 20).constants
        53
    """

    file: Path
    made_for: str
    constants: int
    bytes: int


@checked
def prepare(
    path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] = (),
    *,
    device: Device | str | None = None,
) -> Preparation:
    """Store a package's weights in the preprocessed form that kernels use, for faster starts on this machine.

    The package is compiled for inputs of the given shapes. The preprocessed constants that the kernels create, such as
    weights in the order in which kernels read them, are written to a file in the package's directory `prepared`.
    Processes that load the package with the same release of mpsgraph on the same kind of processor map this file
    instead of preprocessing the weights; other processes ignore the file. There is one file for each kind of processor:
    a second call on the same kind replaces it, and saving the package removes all of them. Only constants are prepared;
    `Model.optimize_for_inference` turns variables into constants.

    Args:
        path: Directory of the package.
        shapes: Dict from input names to shapes, or a list of such dicts, one for each combination of shapes that will
            be used. Inputs with a static shape may be omitted. Defaults to no shapes.
        device: The device or its name. None, the default, means the default device.

    Returns:
        A Preparation, which describes the file that was written.

    Raises:
        PackageError: If path is not a package, or the file cannot be written.
        GraphError: If a name in shapes is not an input.
        ShapeError: If a shape does not match its input.
        UnsupportedError: If there is nothing to prepare, as on the Metal device, which has MPSGraphPackages for this
            purpose (`Executable.serialize`).

    Source: docs/packages.md.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "net.mpsgraph")
        >>> g = mg.Graph()
        >>> x = g.placeholder((-1, 16, 16, 64), name="x")
        >>> weights = g.variable(np.full((3, 3, 64, 64), 0.01, np.float32))
        >>> model = mg.Model(g, {"x": x}, {"y": g.convolution2d(x, weights, padding="TF_SAME")})
        >>> model.optimize_for_inference().save(path)
        >>> mg.prepare(path, {"x": (1, 16, 16, 64)}, device="cpu").constants
        1
    """
    model = load(path)
    ways = [shapes] if isinstance(shapes, Mapping) else list(shapes) or [{}]
    types = []
    for way in ways:
        unknown = [name for name in way if name not in model.inputs]
        if unknown:
            known = ", ".join(map(repr, model.inputs))
            raise GraphError(f"[prepare] the model has no input {unknown[0]!r}: its inputs are {known}")
        types.append({name: (str(model.inputs[name].dtype), tuple(shape)) for name, shape in way.items()})
    del model
    file, made_for, constants, count = _core.prepare_package(os.fspath(path), types, device)
    return Preparation(Path(file), made_for, constants, count)
