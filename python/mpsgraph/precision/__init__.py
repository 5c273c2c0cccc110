"""Precision: in which element types a model computes.

mixed_precision.py has the scopes and the policy, which operations and layers look at while a graph is built: it stands
below them. layer_precision.py measures layers and chooses for each, and stands above them; it is imported by itself.
"""
