"""mpsgraph.training.checkpoint by its public name, for type checkers; _former_names.py gives it to programs."""

from .training.checkpoint import *
