"""The element types that a model computes in.

mixed_precision.py has the autocast scopes and the global policy, which operations and layers consult while a graph is
built, so it does not depend on them. layer_precision.py measures layers and selects a precision for each; it depends on
layers and is therefore imported separately.
"""
