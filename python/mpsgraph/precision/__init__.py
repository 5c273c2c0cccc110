"""Selection of the element types in which a model computes.

mixed_precision.py has the autocast scopes and the global policy. Operations and layers consult these while a graph is
built, so mixed_precision.py does not depend on operations or layers. layer_precision.py measures layers and selects a
precision for each; it depends on layers and is therefore imported separately.
"""
