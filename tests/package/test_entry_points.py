"""Fuzz every public function and method with invalid arguments, one argument at a time.

Each call must either return a result that the annotation allows or raise one of the package's own errors. The message
must be a single line of limited length that names the parameter, the function, or the operation. Internal errors,
crashes, and silently accepted values fail the test. By default each parameter is tried with a different subset of the
values; set MPSGRAPH_ENTRY_POINTS=all to try all of them.
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
LONGEST = 520  # Maximum message length in characters. The longest messages list all losses or all dtypes.
POINTS = entry_points()

SCHEDULES = (
    *("ConstantRate", "StepRate", "ExponentialRate", "CosineRate", "WarmUp"),
    *("CosineRestartsRate", "OneCycleRate", "PolynomialRate", "ScaledRate"),
)
TRAINERS = "called by Trainer with checked arguments"
# Entry points that users do not call directly or that other tests cover.
UNSEEN = {
    "StepResult": "returned by train_step",
    "CustomOperation": "returned by custom_operation",
    "nn.Module.forward": "implemented by subclasses",
    "mixed_precision.in_float32": "decorator of the package's losses",
    "mixed_precision.rounded_once": "decorator of the package's activations",
    "nn.LoRA.add": "a second call finds the name of the adapter taken",
    "StepResult.wait": "checks its timeout only while the step is running",
    "nn.initialisers.first_value": "called by layers",
    "onnx.DeferredModel": "returned by onnx.load",
    "onnx.DeferredModel.bind": "tested in onnx/test_models",
    "onnx.DeferredModel.run": "tested in onnx/test_models",
    "onnx.DeferredModel.__call__": "tested in onnx/test_models",
    "profiler.Kernel": "contained in profiles",
    "profiler.Record": "contained in profiles",
    "mixed_precision.layer_scope": "called by modules",
    **dict.fromkeys((f"optim.{name}.__call__" for name in SCHEDULES), "called by trainers with the step number"),
    "optim.LossScaling.scale_learning_rate": TRAINERS,
    "optim.ParameterGroups.scale_learning_rate": TRAINERS,
    "optim.ParameterGroups.step": TRAINERS,
    "TrainableModel": "returned by load for a trainer's package",
    "optim.Muon.freezes": TRAINERS,
    "optim.Muon.rates": TRAINERS,
    "optim.Muon.with_options": "same as Optimizer.with_options, which is covered",
    "optim.Muon.scale_learning_rate": TRAINERS,
    "Trainer.forward": "takes graph tensors, in custom training steps",
    "Trainer.results": "takes graph tensors, in custom training steps",
    "Trainer.training_step": "takes graph tensors, in custom training steps",
    "nn.Generator.stream": "checks its arguments as generate does",
    "nn.RotaryPositions.added": "called by attention layers",
    "nn.metrics.Accumulated": "base class",
    "nn.metrics.Accumulated.reset": "implemented by subclasses",
    "nn.metrics.Accumulated.result": "implemented by subclasses",
    "Graph.draw": "tested in core/test_drawing",
    "History.plot": "needs Matplotlib axes",
    "profiler.Profile.plot": "needs Matplotlib axes",
    "onnx.known_operators": "takes no arguments",
    "coreml.export": "needs coremltools; tested in coreml/",
    **dict.fromkeys((f"coreml.known_{kind}" for kind in ("layers", "operations")), "takes no arguments"),
    "coreml.exported_operations": "takes no arguments",
    "data.read_mnist": "takes a directory, like read_cifar10, which is covered",
}


def more_calls(folder: Path) -> None:
    """Call the entry points that the docstring examples do not use."""
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
    nn.Sequential().append(nn.ReLU()).extend([nn.ReLU()]).insert(0, nn.ReLU()).pop(0)
    trainer = mg.Trainer(model)
    trainer.train_step(inputs, labels).wait(60.0)
    trainer.fit((inputs, labels), epochs=1, batch_size=4, progress=False)
    trainer.save(folder / "trainer"), trainer.load(folder / "trainer")
    mg.save(folder / "trained", trainer)
    opened = mg.load(folder / "trained")
    opened.train_step(inputs, labels).wait(60.0), opened.fit(inputs, labels, epochs=1, progress=False)
    opened.evaluate(inputs, labels), opened.predict(inputs), opened.stop("enough")
    opened.set_weights(opened.weights()), opened.save(folder / "again")
    model.parameters(), model.freeze().unfreeze(), model.buffers(), model.load_state_dict(model.state_dict())
    trainer.builder.model().save(folder / "model")
    trainer.history.append_validation(1, {"loss": 1.0})
    batches = mg.data.batches((inputs, labels), 4)
    batches.fits(batches), batches.load_state_dict(batches.state_dict())
    (folder / "idx").write_bytes(b"\0\0\x08\x01\0\0\0\x02ab")
    mg.data.read_idx(folder / "idx")
    outcome(lambda: mg.data.read_cifar10(folder))
    with mg.profiler.profile() as profile:
        run = trainer.graph.run_async({trainer.builder.program.inputs: inputs}, trainer.builder.program.prediction)
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
    """Return all entry points by name, with the valid arguments recorded for each."""
    folder = tmp_path_factory.mktemp("entry_points")
    observe_examples(POINTS)
    observe(POINTS, lambda: more_calls(folder))
    mg.mixed_precision.set_global_policy("float32")
    return {point.name: point for point in POINTS.values()}


def test_every_public_entry_point_has_recorded_arguments(points: dict[str, EntryPoint]):
    assert {name for name, point in points.items() if point.arguments is None} <= UNSEEN.keys() <= points.keys()
    assert len(points) > 500


# --- allowed values and messages --------------------------------------------------------------------------------------

ALIASES = {
    "TensorLike": "Tensor | bool | float | Sequence | ndarray",
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
    "which is not converted",
    "must have the shape of outputs",
    "already has its state in another graph",
    "has no input",
    "the arrays of a dataset",
)
"""Phrases that identify the wrong tensor, data or value better than the parameter name would."""
SIGNATURE = re.compile(r"missing \d+ required|unexpected keyword|positional arguments? but|takes \d+ positional")
"""Python's errors for a call with the wrong arguments, here a call of a function that was passed as an argument."""
OF_NUMPY = "maximum supported dimension for an ndarray"  # Raised when an initializer is called with 5,000 axes.


def may_be_taken(annotation: str, tag: str) -> bool:
    """Return whether the annotation includes the type of the value that the tag stands for."""
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
    """Return what is wrong with the outcome of the call, or None if nothing is."""
    error = outcome(lambda: point.call(name, value))
    if error is None:
        return None if may_be_taken(annotation, tag) else f"accepts {tag} for {name}: {annotation}"
    text = str(error)
    if not isinstance(error, mg.Error):
        if (isinstance(error, TypeError) and SIGNATURE.search(text)) or OF_NUMPY in text:
            return None
        return f"{name} = {tag} raises {type(error).__name__}: {text[:200]}"
    # Messages quote these arguments in full.
    if "\n" in text or (len(text) > LONGEST and name not in ("path", "device")):
        return f"{name} = {tag} has a message of {len(text)} characters: {text[:200]}"
    owner = point.owner.__name__ if point.owner else point.function.__name__
    words = [name, name.rstrip("s"), point.function.__name__, owner, *WORDS]
    if name == "path":
        words.append(str(value))  # The file name is enough to identify the problem.
    if not re.search(r"\[\w+\]|^[\w.]+: |^\w+ needs", text) and not any(word in text for word in words):
        return f"{name} = {tag} raises a message that does not name the argument: {text[:200]}"
    return None


@pytest.mark.parametrize("name", sorted(point.name for point in POINTS.values() if point.name not in UNSEEN))
def test_invalid_arguments_of_entry_points_raise_clear_errors(
    points: dict[str, EntryPoint], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # Some of the values are paths.
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
