"""What a model says of itself beside its computation: inputs, outputs, images, class labels."""

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
    """UnsupportedError for networks that keep a state from run to run, which programs alone do."""
    if model.description.state:
        names = ", ".join(repr(s.name) for s in model.description.state)
        raise UnsupportedError(
            f"[coreml] the model keeps states from run to run: {names}. Convert it with its states as inputs and "
            "outputs"
        )


def labels_of(classifier: Message) -> list[Any]:
    """A classifier's classes in the order of its scores."""
    held = classifier.which("ClassLabels")
    if held == "stringClassLabels":
        return list(classifier.stringClassLabels.vector)
    return classifier.int64ClassLabels.vector.tolist() if held == "int64ClassLabels" else []
