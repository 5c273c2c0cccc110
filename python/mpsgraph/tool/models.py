"""What all commands share: a model from a file, arrays and shapes from the command line."""

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
    """The argument that names the model."""
    command.add_argument("model", type=Path, metavar="MODEL", help="a package, an ONNX file, or a Core ML model")


def add_cases(command: argparse.ArgumentParser) -> None:
    """The options that say of which sizes and values the inputs of other formats' models are."""
    command.add_argument(
        "--shape", type=pair, action="append", default=[], metavar="INPUT=N,N,...", help="of an input, -1: any size"
    )
    command.add_argument(
        "--value", type=pair, action="append", default=[], metavar="INPUT=N,N,...", help="of an input of integers"
    )


def opened(options: argparse.Namespace) -> Model:
    """The model that the command line names. Errors: those of load of mpsgraph, mpsgraph.onnx and mpsgraph.coreml."""
    if options.model.suffix == ".onnx":
        return from_onnx(options.model, options, trainable=False)
    if options.model.suffix in (".mlpackage", ".mlmodel"):
        return from_coreml(options.model, options, trainable=False)
    from ..packages import load

    return load(options.model)


def from_onnx(path: Path, options: argparse.Namespace, trainable: bool) -> Model:
    """A model from an ONNX file; UnsupportedError, with the options that help, where its inputs decide its graph."""
    from .. import onnx

    model = onnx.load(path, trainable=trainable, shapes=shapes(options), values=_values(options))
    if isinstance(model, onnx.DeferredModel):
        raise UnsupportedError(_what_is_missing(model))
    return model


def from_coreml(path: Path, options: argparse.Namespace, trainable: bool) -> Model:
    """A model of Core ML; UnsupportedError, with the options that help, where its inputs decide its graph."""
    from .. import coreml

    model = coreml.load(path, trainable=trainable, shapes=shapes(options), values=_values(options))
    if isinstance(model, coreml.DeferredModel):
        raise UnsupportedError(_what_is_missing(model))
    return model


def _values(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Those that were given, by input."""
    return {name: np.array(integers(text, f"--value {name}"), np.int64) for name, text in options.value}


def _what_is_missing(model: DeferredModel) -> str:
    """Which options would let the model be built."""
    values, shapes = model.deciding
    wanted = [*(f"--value {name}=N,N,..." for name in values), *(f"--shape {name}=N,N,..." for name in shapes)]
    return (
        "shapes inside this model depend on its inputs, so that there is no one graph for all of them: "
        f"give one case, with {' '.join(wanted)}"
    )


def shapes(options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Those that were given, by input."""
    return {name: tuple(integers(text, f"--shape {name}")) for name, text in options.shape}


def integers(text: str, what: str) -> list[int]:
    """The numbers of a list such as 1,3,224,224."""
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise Error(f"{what}: {shown(text)} is no list of whole numbers, such as 1,3,224,224") from None


def pair(text: str) -> tuple[str, str]:
    """A name, and what stands behind the = sign."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not NAME=...")
    return name, value


def array_from(path: Path) -> np.ndarray:
    """Of a .npy file; Error for any other, and for arrays of objects, which run code when they are read."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise Error(f"{path} is no array of numbers that numpy.save wrote: {error}") from None
    if not isinstance(array, np.ndarray):
        raise Error(f"{path} holds several arrays: give one .npy file an input")
    return array


def arrays_for(model: Model, given: Mapping[str, np.ndarray], options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One array an input: those that are given; for others random numbers of the model's types.

    ShapeError, which names the option, for an input with a size that nothing tells.
    """
    rng, asked = np.random.default_rng(seed), shapes(options)
    feeds: dict[str, Any] = dict(given)
    for name, tensor in model.inputs.items():
        if name in feeds:
            continue
        shape = asked.get(name, tensor.shape)
        if shape is None or any(size < 0 for size in shape):
            raise ShapeError(f"input '{name}' is {tensor.type}: say of which size, with --shape {name}=N,N,...")
        dtype = np.dtype(str(tensor.dtype)) if str(tensor.dtype) != "bfloat16" else np.dtype(np.float32)
        numbers = rng.standard_normal(shape) if dtype.kind in "fc" else np.ones(shape)
        feeds[name] = np.asarray(numbers).astype(dtype)
    return feeds
