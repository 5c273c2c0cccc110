"""Packages: graphs, models and trainers, saved for other processes and languages, and opened again.

What is written of a model stands in `model.py`, of a trainer in `training/package.py`; the format is the core's.
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
from .errors import GraphError
from .graph import Graph
from .model import Model, graph_of, save_model

_TO_SAVE = (
    "mg.save writes graphs, models and trainers; the weights of a module are written by "
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
    """Writes a package: what the outputs depend on, with the values that variables have now.

    `mpsgraph.load`, and the library from C++ and C, open it. A package that is there is replaced, nothing else is.
    A trainer's package holds its training step, its evaluation and its state, and whoever opens it goes on training
    with the same bits (docs/packages.md).
    Args: path, of a directory, by habit ending in .mpsgraph; graph, or a model, or a trainer, which have their own
    inputs and outputs; inputs, placeholders by name, or under their own names, by default all; outputs, likewise,
    needed for a graph. locations, whether to write where in its source each operation was built, "model.py:41", which
    errors then name. Of a trainer: updates, for how many a schedule without an end has learning rates, by default
    100,000; leave_out, names of what it has and a package cannot, such as metrics that accumulate.
    Errors: GraphError for what does not belong to the graph, and for a trainer that has not trained; UnsupportedError
    for what a package cannot hold; PackageError when it cannot be written.

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
            raise GraphError("[save] updates and leave_out are for trainers")
        return save_model(path, graph, inputs, outputs, locations)
    from .training.package import save as save_trainer
    from .training.trainable_model import TrainableModel
    from .training.trainer import Trainer

    if not isinstance(graph, (Trainer, TrainableModel)):
        raise GraphError(f"save: graph is {shown(graph)}: {_TO_SAVE}")
    if inputs is not None or outputs is not None:
        raise GraphError("[save] a trainer has its own inputs and outputs: save its graph to choose others")
    if isinstance(graph, TrainableModel):
        if updates is not None or len(leave_out):
            raise GraphError("[save] an opened package has its learning rates, and nothing to leave out")
        return graph.save(path, locations=locations)
    return save_trainer(graph, path, updates, leave_out, locations)


@checked
def load(path: str | os.PathLike[str], *, verify: bool = True, seed: int = 0) -> Model:
    """A model from a package; of a trainer's package, a `TrainableModel`, which goes on training.

    Its weights are mapped: pages come from the file when they are used. Variables that a program changes are read into
    memory when it is compiled.
    Args: path; verify, compare checksums, which reads all of it once; seed, of the graph.
    Errors: PackageError for a package that is missing, truncated, altered, of a newer format or no package.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "double.mpsgraph")
    >>> g = mg.Graph()
    >>> x = g.placeholder((-1,), name="x")
    >>> mg.Model(g, {"x": x}, {"y": x * 2}).save(path)
    >>> mg.load(path)(np.float32([1, 2])).tolist()
    [2.0, 4.0]
    """
    contents = _core.PackageContents(os.fspath(path), verify)
    graph = graph_of(contents, seed)
    if not contents.training(graph):
        return Model(graph, contents.inputs(graph), contents.outputs(graph), contents.parameters(graph))
    from .training.trainable_model import TrainableModel

    return TrainableModel(graph, contents)


class Preparation(NamedTuple):
    """What `mpsgraph.prepare` wrote: the file, whom it fits (engine and processor), how many constants, their bytes.

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
    """Adds to a package what this machine makes of its weights before a first run, for faster starts.

    The package is compiled for inputs of these shapes, and what the kernels have made of constants, such as weights in
    the order in which they are read, goes into its folder `prepared`. Whoever loads the package with the same release
    on a processor of the same kind maps that instead of making it; on others it is passed over, and made as ever.
    There is a file for each kind of processor; a second call on the same kind replaces it, saving the package removes
    all. Only constants are prepared: `Model.optimize_for_inference` makes constants of variables.
    Args: path, of a package; shapes, of inputs by name, or a list of such, one for each way it will be called; inputs
    of known shape need none. device, the default one unless given.
    Result: a `Preparation`. Errors: PackageError for what is no package or cannot be written, GraphError for unknown
    names, ShapeError; UnsupportedError where there is nothing to prepare, as on device metal, whose own form ahead of
    time is an MPSGraphPackage (`Executable.serialize`). Source: docs/packages.md.

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
            raise GraphError(f"[prepare] there is no input {unknown[0]!r}; it has {', '.join(map(repr, model.inputs))}")
        types.append({name: (str(model.inputs[name].dtype), tuple(shape)) for name, shape in way.items()})
    del model
    file, made_for, constants, count = _core.prepare_package(os.fspath(path), types, device)
    return Preparation(Path(file), made_for, constants, count)
