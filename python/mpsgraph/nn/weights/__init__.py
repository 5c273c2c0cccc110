"""Weights from other programs: import and export of PyTorch state dicts, and safetensors files.

`pytorch_parameters.py` describes the parameters of each layer in PyTorch, `flatten_order.py` finds features that are
flattened images, and `names.py` renames the entries of a state. The public functions are in `pytorch.py` and
`files.py`.
"""

from .files import load_safetensors
from .pytorch import load_torch, to_torch

__all__ = ["load_safetensors", "load_torch", "to_torch"]
