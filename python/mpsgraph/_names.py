"""Names that users of numpy and PyTorch look for, and what they are called here, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

# Python's operators, without underscores, and the functions of mpsgraph.numpy that they call.
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
# Names of numpy and PyTorch, and the methods of Graph that do the same.
GRAPH = {
    "abs": "absolute",
    "add": "addition",
    "all": "reduction_and",
    "amax": "reduction_maximum",
    "amin": "reduction_minimum",
    "any": "reduction_or",
    "argmax": "reduction_arg_maximum",
    "argmin": "reduction_arg_minimum",
    "argsort": "arg_sort",
    "astype": "cast",
    "avg_pool2d": "avg_pooling2d",
    "bmm": "matrix_multiplication",
    "cat": "concat",
    "clip": "clamp",
    "concatenate": "concat",
    "conj": "conjugate",
    "conv2d": "convolution2d",
    "conv3d": "convolution3d",
    "conv_transpose2d": "convolution_transpose2d",
    "cross_entropy": "softmax_cross_entropy",
    "cumprod": "cumulative_product",
    "cumsum": "cumulative_sum",
    "div": "division",
    "divide": "division",
    "dot": "matrix_multiplication",
    "exp": "exponent",
    "exp2": "exponent_base2",
    "fft": "fast_fourier_transform",
    "flip": "reverse",
    "full": "constant",
    "grad": "gradients",
    "greater": "greater_than",
    "imag": "imaginary_part",
    "inv": "matrix_inverse",
    "irfft": "hermitean_to_real_fft",
    "isfinite": "is_finite",
    "isinf": "is_infinite",
    "isnan": "is_nan",
    "less": "less_than",
    "log": "logarithm",
    "log10": "logarithm_base10",
    "log2": "logarithm_base2",
    "logical_not": "not_",
    "matmul": "matrix_multiplication",
    "max": "reduction_maximum",
    "max_pool2d": "max_pooling2d",
    "min": "reduction_minimum",
    "mm": "matrix_multiplication",
    "mod": "floor_modulo",
    "mul": "multiplication",
    "multiply": "multiplication",
    "neg": "negative",
    "nonzero": "non_zero_indices",
    "ones": "constant",
    "permute": "transpose",
    "permute_dims": "transpose",
    "pow": "power",
    "prod": "reduction_product",
    "real": "real_part",
    "remainder": "floor_modulo",
    "repeat": "tile",
    "rfft": "real_to_hermitean_fft",
    "rsqrt": "reciprocal_square_root",
    "sqrt": "square_root",
    "sub": "subtraction",
    "subtract": "subtraction",
    "sum": "reduction_sum",
    "swapaxes": "swap_axes",
    "take": "gather",
    "topk": "top_k",
    "trunc": "truncate",
    "unsqueeze": "expand_dims",
    "var": "variance",
    "where": "select",
    "zeros": "constant",
}
# Names of numpy, scipy, and PyTorch, and the functions of mpsgraph.numpy that do the same where the names differ.
NUMPY = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "array": "asarray",
    "average": "mean",
    "bitwise_not": "bitwise_invert",
    "bmm": "matmul",
    "bool_": "bool",
    "cat": "concat",
    "clamp": "clip",
    "concatenate": "concat",
    "conjugate": "conj",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "diag": "linalg.diagonal",
    "div": "divide",
    "dot": "matmul",
    "eq": "equal",
    "fmod": "remainder",
    "ge": "greater_equal",
    "gt": "greater",
    "in1d": "isin",
    "inner": "vecdot",
    "inverse": "linalg.inv",
    "invert": "bitwise_invert",
    "le": "less_equal",
    "left_shift": "bitwise_left_shift",
    "lt": "less",
    "mm": "matmul",
    "mod": "remainder",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "norm": "linalg.vector_norm",
    "permute": "permute_dims",
    "power": "pow",
    "product": "prod",
    "ravel": "reshape",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "sub": "subtract",
    "swapaxes": "permute_dims",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "unbind": "unstack",
    "unique": "unique_values",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "vstack": "concat",
}
# Names of methods of PyTorch's tensors and numpy's arrays, and what to write here instead.
METHODS = {
    "backward": "use `mg.grad`, `Graph.gradients`, or a Trainer",
    "clone": "arrays have `copy()`; tensors of a graph never change",
    "contiguous": "arrays have `contiguous()`; tensors of a graph have no strides",
    "copy": "arrays have `copy()`; tensors of a graph never change",
    "cpu": "arrays are in memory that all devices share; `numpy()` returns a numpy view",
    "cuda": "arrays are in memory that all devices share",
    "data": "use `detach()`",
    "dim": "use `ndim`",
    "double": 'use `astype("float64")`',
    "expand": "use `mpsgraph.numpy.broadcast_to(x, shape)`",
    "float": 'use `astype("float32")`',
    "grad": "use `mg.grad`, or `Graph.gradients`",
    "half": 'use `astype("float16")`',
    "int": 'use `astype("int32")`',
    "item": "tensors of a graph have no value until it runs: fetch it with `g.run(feeds, x)`",
    "long": 'use `astype("int64")`',
    "masked_fill": "use `mpsgraph.numpy.where(mask, value, x)`",
    "numel": "use `size`",
    "numpy": "tensors of a graph have no value until it runs: fetch it with `g.run(feeds, x)`",
    "permute": "use `transpose(axes)`",
    "ravel": "use `flatten()`",
    "requires_grad": "name the tensors in `mg.grad` or `Graph.gradients`",
    "to": "use `astype(dtype)`, or `to_device(device)`",
    "tolist": "tensors of a graph have no value until it runs: fetch it with `g.run(feeds, x)`",
    "type": "use `astype(dtype)`",
    "view": "use `reshape(shape)`",
}


# Names of PyTorch, Keras, and JAX in our modules, apart from names that differ only in upper case.
ELSEWHERE = {
    "mpsgraph": {
        "compile": "jit",
        "detach": "stop_gradient",
        "manual_seed": "random.seed",
        "no_grad": "stop_gradient",
        "set_seed": "random.seed",
        "value_and_gradient": "value_and_grad",
    },
    "mpsgraph.nn": {
        "AveragePooling1D": "AvgPool1d",
        "AveragePooling2D": "AvgPool2d",
        "AveragePooling3D": "AvgPool3d",
        **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormalization"), "BatchNorm"),
        "Conv1DTranspose": "ConvTranspose1d",
        "Conv2DTranspose": "ConvTranspose2d",
        "Conv3DTranspose": "ConvTranspose3d",
        "Dense": "Linear",
        **dict.fromkeys(("Dropout1d", "Dropout2d", "Dropout3d", "SpatialDropout2D"), "SpatialDropout"),
        "GroupNormalization": "GroupNorm",
        **dict.fromkeys(("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"), "InstanceNorm"),
        "LayerNormalization": "LayerNorm",
        "MaxPooling1D": "MaxPool1d",
        "MaxPooling2D": "MaxPool2d",
        "MaxPooling3D": "MaxPool3d",
        "Reshape": "Unflatten",
        "SimpleRNN": "RNN",
        "UpSampling2D": "Upsample",
        "ZeroPadding2D": "ZeroPad2d",
        "init": "initialisers",
        "initializers": "initialisers",
    },
    "mpsgraph.optim": {
        "CosineAnnealingLR": "CosineRate",
        "CosineAnnealingWarmRestarts": "CosineRestartsRate",
        "CosineDecay": "CosineRate",
        "ExponentialDecay": "ExponentialRate",
        "ExponentialLR": "ExponentialRate",
        "OneCycleLR": "OneCycleRate",
        "PolynomialLR": "PolynomialRate",
        "StepLR": "StepRate",
        "clip_grad_norm_": "ClipByNorm",
        "clip_grad_value_": "ClipByValue",
    },
}
# Names that have no counterpart in our modules, and what to write instead.
INSTEAD = {
    "mpsgraph.nn": {
        "Lambda": "Sequential accepts functions of a tensor",
        "ModuleDict": "a dict of modules that is assigned to an attribute is registered",
        "ModuleList": "a list of modules that is assigned to an attribute is registered",
        "Parameter": "use `add_parameter` in `build`, or assign a variable of the graph to an attribute",
        "functional": "use `mpsgraph.numpy` and the methods of Graph",
    },
    "mpsgraph.optim": {"lr_scheduler": "a learning rate may be a schedule, such as `optim.CosineRate`"},
}


def _close_matches(name: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Return the name that is most similar, or an empty string if none is similar."""
    import difflib  # Only for messages, because it would slow down the import of the package.

    found = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], 1, cutoff)
    return found[0] if found else ""


def _public(module: str) -> list[str]:
    from importlib import import_module

    return list(import_module(module).__all__)


def _function(name: str) -> str:
    """Return the path of the function that a name stands for: of mpsgraph.numpy, or a layer. Or an empty string."""
    for part in ("numpy", "numpy.linalg", "numpy.fft", "numpy.special"):
        own = NUMPY.get(name, name) if part == "numpy" else name
        if own in _public(f"mpsgraph.{part}") or "." in own:
            return f"mpsgraph.{'numpy' if '.' in own else part}.{own}"
    return f"mpsgraph.{ELSEWHERE['mpsgraph'].get(name, name)}" if name in ("detach", "stop_gradient") else ""


def numpy_function(name: str) -> str:
    """Return what to write instead of a function of numpy on tensors."""
    return f"`{place}`" if (place := _function(name)) else "the functions of mpsgraph.numpy, or the methods of Graph"


def _layer(name: str) -> str:
    """Return the path of the layer that has a name, such as "gelu", in any case. Or an empty string."""
    return next((f"mpsgraph.nn.{layer}()" for layer in _public("mpsgraph.nn") if layer.lower() == name.lower()), "")


def _method(name: str) -> str:
    """Return the name of the method of Graph that a name stands for, or an empty string if there is none."""
    from importlib import import_module

    graph = import_module("mpsgraph.graph").Graph
    return GRAPH.get(name) or (name if not name.startswith("_") and name in dir(graph) else "")


def graph_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of the message for an unknown attribute of Graph: the method that is meant, if one is."""
    if name in GRAPH:
        return f": `Graph.{name}` is `Graph.{GRAPH[name]}`, and mpsgraph.numpy has the functions of the array API"
    if place := _function(name) or _layer(name):
        return f": use `{place}`"
    return f": did you mean `Graph.{close}`?" if (close := _close_matches(name, known)) else ""


def numpy_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of the message for an unknown attribute of mpsgraph.numpy."""
    if place := _function(name):
        return f": `numpy.{name}` is `{place}`"
    if method := _method(name):
        return f": tensors of a graph have `Graph.{method}`"
    if layer := _layer(name):
        return f": use `{layer}`"
    return f": did you mean `mpsgraph.numpy.{close}`?" if (close := _close_matches(name, known)) else ""


def tensor_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of the message for an unknown attribute of a tensor or an array."""
    if name in METHODS:
        return f": {METHODS[name]}"
    if place := _function(name):
        return f": use `{place}`"
    if method := _method(name):
        return f": tensors of a graph have `Graph.{method}`"
    if layer := _layer(name):
        return f": use `{layer}`"
    return f": did you mean `{close}`?" if (close := _close_matches(name, known)) else ""


def module_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of the message for an unknown attribute of mpsgraph."""
    if name in ELSEWHERE["mpsgraph"]:
        return f": use `mpsgraph.{ELSEWHERE['mpsgraph'][name]}`"
    places = [_function(name), (method := _method(name)) and f"Graph.{method}"]
    places += [f"mpsgraph.{part}.{name}" for part in ("nn", "optim") if name in _public(f"mpsgraph.{part}")]
    if any(places):
        return f": use {', or '.join(f'`{place}`' for place in places if place)}"
    return f": did you mean `mpsgraph.{close}`?" if (close := _close_matches(name, known)) else ""


def no_attribute(module: str, name: str) -> NoReturn:
    """Raise AttributeError for an unknown name in mpsgraph.nn, mpsgraph.nn.losses, or mpsgraph.optim.

    The message suggests the class or function that the name means in PyTorch or Keras.

    Args:
        module: Name of the module.
        name: The unknown name.

    Raises:
        AttributeError: Always.

    Example:
        >>> mg.nn.Dense
        Traceback (most recent call last):
        AttributeError: module 'mpsgraph.nn' has no attribute 'Dense': use `mpsgraph.nn.Linear`
    """
    hint = ""
    if not name.startswith("_"):
        hint = INSTEAD.get(module, {}).get(name, "")
        known = _public(module)
        found = ELSEWHERE.get(module, {}).get(name) or next((k for k in known if k.lower() == name.lower()), "")
        if found:
            hint = f"use `{module}.{found}`"
        elif (module == "mpsgraph.nn.losses" or name.endswith("Loss")) and (loss := _loss(name)):
            hint = f"use `mpsgraph.nn.losses.{loss}`"
        elif not hint and (close := _close_matches(name, known)):
            hint = f"did you mean `{module}.{close}`?"
    raise AttributeError(f"module '{module}' has no attribute '{name}'{hint and ': '}{hint}")


def _loss(name: str) -> str:
    """Return the name of the function that computes a loss of PyTorch or Keras, or an empty string."""
    from importlib import import_module

    losses = import_module("mpsgraph.nn.losses")
    try:
        return getattr(losses.loss_named(name), "__name__", "")
    except ValueError:
        return ""
