"""Arguments shared by all commands: models from files, and arrays and shapes from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._display import shown
from ..errors import Error, ShapeError, UnsupportedError
from ..model import Model

if TYPE_CHECKING:
    from ..interchange.deferred_build import DeferredModel


def add_model(command: argparse.ArgumentParser) -> None:
    """Add the argument that names the model."""
    command.add_argument("model", type=Path, metavar="MODEL", help="a package, an ONNX file, or a Core ML model")


def add_cases(command: argparse.ArgumentParser) -> None:
    """Add the options for shapes and values of the inputs of ONNX and Core ML models."""
    command.add_argument(
        "--shape",
        type=pair,
        action="append",
        default=[],
        metavar="INPUT=N,N,...",
        help="shape of an input; -1 means any size",
    )
    command.add_argument(
        "--value", type=pair, action="append", default=[], metavar="INPUT=N,N,...", help="value of an integer input"
    )


def opened(options: argparse.Namespace) -> Model:
    """Load the model named on the command line, as a package, an ONNX file, or a Core ML model."""
    if options.model.suffix == ".onnx":
        return from_onnx(options.model, options, trainable=False)
    if options.model.suffix in (".mlpackage", ".mlmodel"):
        return from_coreml(options.model, options, trainable=False)
    from ..packages import load

    return load(options.model)


def from_onnx(path: Path, options: argparse.Namespace, trainable: bool) -> Model:
    """Load an ONNX file. If its graph depends on input shapes or values, raise UnsupportedError with the missing
    options.
    """
    from .. import onnx

    model = onnx.load(path, trainable=trainable, shapes=shapes(options), values=_values(options))
    if isinstance(model, onnx.DeferredModel):
        raise UnsupportedError(_what_is_missing(model))
    return model


def from_coreml(path: Path, options: argparse.Namespace, trainable: bool) -> Model:
    """Load a Core ML model. If its graph depends on input shapes or values, raise UnsupportedError with the missing
    options.
    """
    from .. import coreml

    model = coreml.load(path, trainable=trainable, shapes=shapes(options), values=_values(options))
    if isinstance(model, coreml.DeferredModel):
        raise UnsupportedError(_what_is_missing(model))
    return model


def _values(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the arrays that the command line gives for inputs, keyed by input name."""
    return {name: np.array(integers(text, f"--value {name}"), np.int64) for name, text in options.value}


def _what_is_missing(model: DeferredModel) -> str:
    """Return a message that names the options required to build the model."""
    values, shapes = model.deciding
    wanted = [*(f"--value {name}=N,N,..." for name in values), *(f"--shape {name}=N,N,..." for name in shapes)]
    return (
        "the shapes in this model depend on its inputs, so it needs a separate graph for each case; "
        f"select one with {' '.join(wanted)}"
    )


def shapes(options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the command line gives for inputs, keyed by input name."""
    return {name: tuple(integers(text, f"--shape {name}")) for name, text in options.shape}


def integers(text: str, what: str) -> list[int]:
    """Parse a list of integers such as 1,3,224,224."""
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise Error(f"{what}: expected integers separated by commas, such as 1,3,224,224, got {shown(text)}") from None


def pair(text: str) -> tuple[str, str]:
    """Split a command-line value NAME=VALUE into the two strings."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {shown(text)}")
    return name, value


def array_from(path: Path) -> np.ndarray:
    """Read a .npy file; raise Error for other files, and for object arrays, which could run code when loaded."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise Error(f"{path} is not an array written by numpy.save: {error}") from None
    if not isinstance(array, np.ndarray):
        raise Error(f"{path} contains several arrays; pass one .npy file per input")
    return array


def arrays_for(model: Model, given: Mapping[str, np.ndarray], options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return one array per input: the given array, or random numbers if no array is given.

    Raise a ShapeError that names the missing option if the size of an input is unknown.
    """
    rng, asked = np.random.default_rng(seed), shapes(options)
    feeds: dict[str, Any] = dict(given)
    for name, tensor in model.inputs.items():
        if name in feeds:
            continue
        shape = asked.get(name, tensor.shape)
        if shape is None or any(size < 0 for size in shape):
            raise ShapeError(
                f"input '{name}' has the type {tensor.type}, in which a size is unknown; pass --shape {name}=N,N,..."
            )
        dtype = np.dtype(str(tensor.dtype)) if str(tensor.dtype) != "bfloat16" else np.dtype(np.float32)
        numbers = rng.standard_normal(shape) if dtype.kind in "fc" else np.ones(shape)
        feeds[name] = np.asarray(numbers).astype(dtype)
    return feeds
