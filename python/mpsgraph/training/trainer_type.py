"""The name under which what the trainer is made of takes it: its class would be an import in a circle."""

from typing import Any, TypeAlias

Trainer: TypeAlias = Any
"""A mpsgraph.Trainer."""
