"""Packages: graphs, models and trainers, saved for other processes and languages, and opened again.

What is written of a model stands in `model.py`, of a trainer in `training/package.py`; the format is the core's.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from . import _core
from ._checks import Size, checked
from ._core import Tensor
from ._shown import shown
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
