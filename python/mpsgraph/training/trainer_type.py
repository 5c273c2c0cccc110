"""Type alias of Trainer for modules that trainer.py imports, which cannot import the class itself."""

from typing import Any, TypeAlias

Trainer: TypeAlias = Any
"""An mpsgraph.Trainer."""
