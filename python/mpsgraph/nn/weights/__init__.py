"""Weights of other programs: PyTorch's state dictionaries, there and back, and safetensors files.

`forms.py` says what each layer's parameters are in PyTorch, `orders.py` which features are images laid flat, `names.py`
how names are changed, `pytorch.py` and `files.py` what people call.
"""

from .files import load_safetensors
from .pytorch import load_torch, to_torch

__all__ = ["load_safetensors", "load_torch", "to_torch"]
