"""Families of checkpoints: how each translates its config.json, and the names of its weights.

A family is a page of mapping. The model itself is a `Decoder` or an `Encoder`.
"""

from __future__ import annotations

from ...errors import UnsupportedError
from . import bert, gemma, gpt2, llama, phi3
from .family import Family

FAMILIES: dict[str, Family] = {
    kind: family
    for family in (*llama.FAMILIES, *gemma.FAMILIES, *phi3.FAMILIES, *gpt2.FAMILIES, *bert.FAMILIES)
    for kind in family.types
}
"""Families by the model_type in config.json."""


def family_of(kind: object) -> Family:
    """Return the family of a model_type.

    Raises:
        UnsupportedError: If there is none.
    """
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnsupportedError(f"model_type {kind!r} is not supported; supported are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]
