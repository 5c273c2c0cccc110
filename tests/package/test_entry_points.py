"""Every public function and method, with one argument after the other replaced by what nobody should give it.

What comes is a result that the annotation allows, or an error of ours: of one line, not long, that names the parameter,
the function or the operation. Never an error from inside, a crash, or a silent acceptance. A part of the values is
tried here, another for each parameter; all of them with MPSGRAPH_ENTRY_POINTS=all.
"""

from __future__ import annotations

import inspect
import os
import re
import zlib
from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness.entry_points import EntryPoint, entry_points, observe, observe_examples, outcome, wrong_values

ALL = os.environ.get("MPSGRAPH_ENTRY_POINTS") == "all"
SHARE = 1 if ALL else 5
LONGEST = 520  # characters: those that list all losses, or all element types, are the longest
POINTS = entry_points()

SCHEDULES = (
    *("ConstantRate", "StepRate", "ExponentialRate", "CosineRate", "WarmUp"),
    *("CosineRestartsRate", "OneCycleRate", "PolynomialRate", "ScaledRate"),
)
TRAINERS = "is what a trainer calls, with what it has checked"
# What is called by nobody, or is checked elsewhere.
UNSEEN = {
    "StepResult": "is what train_step gives",
    "CustomOperation": "is what custom_operation gives",
    "nn.Module.forward": "is for subclasses to write",
    "mixed_precision.in_float32": "a decorator of the package's own losses",
    "mixed_precision.rounded_once": "likewise, of its activations",
    "StepResult.wait": "looks at its time only when there is something to wait for",
    "nn.initialisers.first_value": "is what layers call",
    "onnx.DeferredModel": "is what onnx.load gives",
    "onnx.DeferredModel.bind": "onnx/test_models has models that are built when they run",
    "onnx.DeferredModel.run": "likewise",
    "onnx.DeferredModel.__call__": "likewise",
    "profiler.Kernel": "is what a profile holds",
    "profiler.Record": "likewise",
    "mixed_precision.layer_scope": "is what modules call",
    **dict.fromkeys((f"optim.{name}.__call__" for name in SCHEDULES), "is called in every step with the step's number"),
    "optim.LossScaling.scale_learning_rate": TRAINERS,
    "optim.ParameterGroups.scale_learning_rate": TRAINERS,
    "optim.ParameterGroups.step": TRAINERS,
    "TrainableModel": "is what load gives of a trainer's package",
    "optim.Muon.freezes": TRAINERS,
    "optim.Muon.rates": TRAINERS,
    "optim.Muon.with_options": "as Optimizer.with_options, which is called",
    "optim.Muon.scale_learning_rate": TRAINERS,
    "Trainer.forward": "is for steps of one's own, with the graph's tensors",
    "Trainer.results": "likewise",
    "Trainer.training_step": "likewise",
    "nn.Generator.stream": "gives what generate gives, step by step, of the same checked arguments",
    "nn.RotaryPositions.added": "is what attention calls",
    "nn.metrics.Accumulated": "is for subclasses to build",
    "nn.metrics.Accumulated.reset": "is for subclasses to write",
    "nn.metrics.Accumulated.result": "is for subclasses to write",
    "Graph.draw": "draws a picture; core/test_drawing",
    "History.plot": "needs a picture's axes",
    "profiler.Profile.plot": "needs a picture's axes",
    "onnx.known_operators": "takes nothing",
    "coreml.export": "needs coremltools; coreml/ exports where it is",
    **dict.fromkeys((f"coreml.known_{kind}" for kind in ("layers", "operations")), "takes nothing"),
    "coreml.exported_operations": "likewise",
    "data.read_mnist": "takes a directory, as read_cifar10",
}


def more_calls(folder: Path) -> None:
    """What the examples do not call."""
    nn, g = mg.nn, mg.Graph()
    x = g.placeholder((-1, 4), name="x")
    arguments = {"Hardshrink": (0.5,), "Softshrink": (0.5,), "Threshold": (0.1, 2.0), "Hardtanh": (-1.0, 1.0)}
    for name in dir(nn):
        value = getattr(nn, name)
        if inspect.isclass(value) and "activations" in value.__module__ and not name.startswith("_"):
            value(*arguments.get(name, ()))(x)
    for name in ("ELU", "CELU", "LeakyReLU"):
        getattr(nn, name)(0.5)(x)
    nn.GELU("tanh"), nn.GLU(-1)(x), nn.ReLU6()(x), nn.Identity()(x)
    for name in dir(nn.initialisers):
        value = getattr(nn.initialisers, name)
        if inspect.isclass(value) and value.__module__ == nn.initialisers.__name__ and name not in ("Initialiser",):
            (value(0.5) if name == "Constant" else value())((3, 4), 0)
    g.verify(), g.print(), g.set_cache_limits(64, 2**30), g.clear_cache()
    labels, inputs = np.arange(8, dtype=np.int32) % 3, np.ones((8, 4), np.float32)
    model = nn.Sequential(nn.Linear(3))
    trainer = mg.Trainer(model)
    trainer.train_step(inputs, labels).wait(60.0)
    trainer.fit((inputs, labels), 1, batch_size=4, progress=False)
    trainer.save(folder / "trainer"), trainer.load(folder / "trainer")
    mg.save(folder / "trained", trainer)
    opened = mg.load(folder / "trained")
    opened.train_step(inputs, labels).wait(60.0), opened.fit(inputs, labels, 1, progress=False)
    opened.evaluate(inputs, labels), opened.predict(inputs), opened.stop("enough")
    opened.set_weights(opened.weights()), opened.save(folder / "again")
    model.parameters(), model.freeze().unfreeze(), model.buffers(), model.load_state_dict(model.state_dict())
    trainer._model().save(folder / "model")
    trainer.history.append_validation(1, {"loss": 1.0})
    batches = mg.data.batches((inputs, labels), 4)
    batches.fits(batches), batches.load_state_dict(batches.state_dict())
    (folder / "idx").write_bytes(b"\0\0\x08\x01\0\0\0\x02ab")
    mg.data.read_idx(folder / "idx")
    outcome(lambda: mg.data.read_cifar10(folder))
    with mg.profiler.profile() as profile:
        run = trainer.graph.run_async({trainer._inputs: inputs}, trainer._prediction)
        run.wait(60.0)
    profile.table("kind", 3, mg.profiler.Limits(1e9, 1e9)), profile.save_chrome_trace(folder / "trace")
    wide, data = mg.Trainer(nn.Linear(8)), np.ones((8, 64), np.float32)
    wide.predict(data)
    wide.quantize([data])
    load_onnx(folder / "model.onnx")


def load_onnx(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    mg.onnx.load(str(path), trainable=True, values={}, shapes={"x": (4,)})


@pytest.fixture(scope="session")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EntryPoint]:
    """By name, with arguments that each takes."""
    folder = tmp_path_factory.mktemp("entry_points")
    observe_examples(POINTS)
    observe(POINTS, lambda: more_calls(folder))
    mg.mixed_precision.set_global_policy("float32")
    return {point.name: point for point in POINTS.values()}


def test_every_entry_point_is_seen(points: dict[str, EntryPoint]):
    assert {name for name, point in points.items() if point.arguments is None} <= UNSEEN.keys() <= points.keys()
    assert len(points) > 500


# --- what may come ----------------------------------------------------------------------------------------------------

ALIASES = {
    "TensorLike": "Tensor | bool | float",
    "Axes": "int | Sequence | None",
    "AttributeLike": "Tensor | int | Sequence",
    "ShapeLike": "Tensor | Sequence",
    "Numbers": "Tensor | Sequence",
    "DTypeLike": "str | type",
    "Padding": "str | Sequence",
    "Schedule": "Callable",
    "Initialiser": "Callable",
    "Loss": "Callable",
    "Metric": "Callable",
    "Activation": "Callable",
    "Transform": "Callable",
    "Trainable": "bool | Callable | Iterable",
    "ModelLike": "str | bytes",
    "PathLike": "str",
    "Optional": "None",
    "Dataset": "Iterable",
    "Data": "Iterable",
    "Feeds": "Mapping",
    "Targets": "Tensor | Sequence",
    "Fans": "Sequence",
    "Sizes": "int | Sequence",
    "Size": "int",
    "Count": "int",
    "Epochs": "int",
    **dict.fromkeys(("Positive", "NotNegative", "Share", "BelowOne", "Finite"), "float"),
}
ALLOWED = {
    "text": "str",
    "long text": "str",
    "digits": "str",
    "bytes": "bytes",
    "none": "None",
    "bool": "bool",
    "half": "float complex",
    "nan": "float complex",
    "negative": "int float complex",
    "huge": "int float complex",
    "list": "Sequence Iterable list tuple",
    "long list": "Sequence Iterable list tuple",
    "texts": "Sequence Iterable list tuple",
    "dict": "Mapping dict Iterable",
    "set": "Iterable set",
    "array": "ndarray Sequence Iterable",
    "long array": "ndarray Sequence Iterable",
    "texts array": "ndarray Sequence Iterable",
    "layer": "Module Callable",
    "type": "type",
    "foreign tensor": "Tensor",
    "module": "",
    "object": "",
}
BOUNDED = ("Size", "Sizes", "Count", "Epochs", "Positive", "NotNegative", "Share", "BelowOne", "Finite")
WORDS = (
    "another graph",
    "no truth value",
    "pair of arrays",
    "feed ",
    "constant",
    "inputs are",
    "values are not converted",
    "must have one shape",
    "has its state in a graph already",
    "has no input",
    "a dataset is arrays",
)
"""What names a tensor, data or a value where the parameter's own name would say no more."""
SIGNATURE = re.compile(r"missing \d+ required|unexpected keyword|positional arguments? but|takes \d+ positional")
"""How Python says that a function, here one that was given, is called with other arguments than it has."""
OF_NUMPY = "maximum supported dimension for an ndarray"  # of an initialiser that is asked for 5,000 axes


def may_be_taken(annotation: str, tag: str) -> bool:
    """Does the annotation name a type that the value is of?"""
    names = re.findall(r"\w+", annotation)
    if not names or "Any" in names or "object" in names:
        return True
    if tag == "nan" and any(name in BOUNDED for name in names):
        return False
    if tag == "negative" and any(name in BOUNDED and name != "Finite" for name in names):
        return False
    expanded = " ".join(ALIASES.get(name, name) for name in names)
    expanded = " ".join(ALIASES.get(name, name) for name in re.findall(r"\w+", expanded))
    words = set(re.findall(r"\w+", expanded))
    return bool(words & set(ALLOWED[tag].split()))


def complaint(point: EntryPoint, name: str, annotation: str, tag: str, value: Any) -> str | None:
    """What is wrong with what came; None when nothing is."""
    error = outcome(lambda: point.call(name, value))
    if error is None:
        return None if may_be_taken(annotation, tag) else f"takes {tag} for {name}: {annotation}"
    text = str(error)
    if not isinstance(error, mg.Error):
        if (isinstance(error, TypeError) and SIGNATURE.search(text)) or OF_NUMPY in text:
            return None
        return f"{name} = {tag} raises {type(error).__name__}: {text[:200]}"
    if "\n" in text or (len(text) > LONGEST and name not in ("path", "device")):  # these are named in full
        return f"{name} = {tag} has a message of {len(text)} characters: {text[:200]}"
    owner = point.owner.__name__ if point.owner else point.function.__name__
    words = [name, name.rstrip("s"), point.function.__name__, owner, *WORDS]
    if name == "path":
        words.append(str(value))  # a file's name says enough
    if not re.search(r"\[\w+\]|^\w+: |^\w+ needs", text) and not any(word in text for word in words):
        return f"{name} = {tag} does not say where: {text[:200]}"
    return None


@pytest.mark.parametrize("name", sorted(point.name for point in POINTS.values() if point.name not in UNSEEN))
def test_wrong_arguments(points: dict[str, EntryPoint], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # some of the values are paths
    point, found = points[name], []
    for key, parameter in point.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        for tag, value in wrong_values().items():
            if zlib.crc32(f"{name} {key} {tag}".encode()) % SHARE == 0:
                annotation = str(parameter.annotation) if parameter.annotation is not parameter.empty else ""
                found.append(complaint(point, key, annotation, tag, value))
    mg.mixed_precision.set_global_policy("float32")
    assert not (problems := [text for text in found if text]), "\n".join(problems)
