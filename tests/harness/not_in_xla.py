"""Cases of tests/cases that do not go out to XLA, each with its reason: by case id or operation, where * is any text.

What is here must raise an error of the package: tests/jax_and_xla/test_export_cases.py holds it to that.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from .case import Case

DEPENDS_ON_VALUES = "the shape of its result depends on values, which XLA cannot have"
FED = "its axes or sizes are fed, and decide what is computed: a program is made before there are values"

EXCLUDED: dict[str, str] = {
    "non_zero_indices": DEPENDS_ON_VALUES,
    "non_maximum_suppression": "the list of boxes that its Python face makes is as long as values say",
    "*-tensor_*": FED,
    "space_to_batch-tensors": FED,
    "batch_to_space-tensors": FED,
    "slice*-tensors_*": FED,
    "coordinate_along_axis-tensors": FED,
    "top_k*-tensors": FED,
    "bottom_k*-tensors": FED,
    "*-size_tensor": FED,
    "*-fed_axes": FED,
    "scaled_dot_product_attention-no_keys": "its composition takes the largest of no scores; devices have a kernel",
}


def reason(case: Case) -> str | None:
    """Why a case is left out; None for those that go out."""
    names = case.id, case.operation
    return next((why for name, why in EXCLUDED.items() if any(fnmatchcase(n, name) for n in names)), None)
