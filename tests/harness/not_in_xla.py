"""Cases of tests/cases that cannot be exported to XLA, with reasons, by case id or operation. `*` matches any text.

Each of these cases must raise one of the package's errors, as tests/jax_and_xla/test_export_cases.py checks.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from .case import Case

DEPENDS_ON_VALUES = "the result shape depends on values, which XLA does not support"
FED = "its axes or sizes are inputs, but must be known when the function is traced"

EXCLUDED: dict[str, str] = {
    "non_zero_indices": DEPENDS_ON_VALUES,
    "non_maximum_suppression": "the length of the list of boxes that the Python method returns depends on values",
    "*-tensor_*": FED,
    "space_to_batch-tensors": FED,
    "batch_to_space-tensors": FED,
    "slice*-tensors_*": FED,
    "coordinate_along_axis-tensors": FED,
    "top_k*-tensors": FED,
    "bottom_k*-tensors": FED,
    "*-size_tensor": FED,
    "*-fed_axes": FED,
    "scaled_dot_product_attention-no_keys": "without a device kernel it takes the maximum of an empty array of scores",
}


def reason(case: Case) -> str | None:
    """Return why a case cannot be exported, or None if it can."""
    names = case.id, case.operation
    return next((why for name, why in EXCLUDED.items() if any(fnmatchcase(n, name) for n in names)), None)
