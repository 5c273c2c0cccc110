"""mpsgraph.precision.mixed_precision by its public name, for type checkers; _former_names.py gives it to programs."""

from .precision.mixed_precision import *
