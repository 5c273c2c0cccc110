"""The type of trainers in modules that Trainer imports, which cannot import its class."""

from typing import Any, TypeAlias

Trainer: TypeAlias = Any
"""An mpsgraph.Trainer."""
