"""Model metadata shared by the importers: inputs, outputs, images, and class labels."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from ._wire import Message

KINDS = {
    "int64Type": "a number", "doubleType": "a number", "stringType": "a string", "imageType": "an image",
    "multiArrayType": "an array", "dictionaryType": "a dictionary", "sequenceType": "a sequence",
    "stateType": "a state",
}  # fmt: skip


def require_no_state(model: Message) -> None:
    """Raise UnsupportedError if a neural network has states, which only ML Programs support."""
    if model.description.state:
        names = ", ".join(repr(s.name) for s in model.description.state)
        raise UnsupportedError(
            f"[coreml] a neural network with states ({names}) is not supported: convert the model with the states as "
            "inputs and outputs"
        )


def labels_of(classifier: Message) -> list[Any]:
    """Return a classifier's labels in the order of its scores."""
    held = classifier.which("ClassLabels")
    if held == "stringClassLabels":
        return list(classifier.stringClassLabels.vector)
    return classifier.int64ClassLabels.vector.tolist() if held == "int64ClassLabels" else []
