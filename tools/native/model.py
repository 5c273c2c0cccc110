"""The operations as the generators for C++ and Swift see them: operands, options, results, and documentation.

`operations()` reads the schema that the C++ definitions export (mpsgraph.ops.schema). Operations whose Python methods
convert their arguments have no signature in the schema; `SIGNATURES` has theirs, in the language of
`OperationDefinition::parameters` (src/core/definition.h). `COMPOSED` lists the kinds that get no generated function.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpsgraph
from mpsgraph.ops._documentation import docstring, sections
from mpsgraph.ops.schema import Parameter, Schema, schemas

_RNN = "input_weight: optional, bias: optional, initial_state: optional"
_LSTM = f"{_RNN}, initial_cell: optional, mask: optional, peephole: optional"
_GRU = f"{_RNN}, mask: optional, secondary_bias: optional"
_LSTM_OPTIONS = (
    "reverse, bidirectional, forget_gate_last, input_gate_activation, forget_gate_activation, cell_gate_activation, "
    "output_gate_activation, activation"
)
_GRU_OPTIONS = (
    "reverse, bidirectional, reset_gate_first, reset_after, flip_z, update_gate_activation, reset_gate_activation, "
    "output_gate_activation"
)
_BACKWARD = "source, recurrent_weight, source_gradient, training_state"
_ADAM = "values, momentum, velocity, gradient, maximum_velocity: optional -> list[Tensor]"
_RESIZE = "*, scale: optional, offset: optional, center_result = 1, align_corners, layout"
_COLUMNS = "kernel: required, *, strides: sizes, dilations: sizes, padding, data_layout"
_MASKS = "*, start_mask, end_mask, squeeze_mask"
SIGNATURES = {
    "adam": "learning_rate: number, beta1: number, beta2: number, epsilon: number, beta1_power: number, "
    f"beta2_power: number, {_ADAM}",
    "adam_with_current_learning_rate": "current_learning_rate: number, beta1: number, beta2: number, epsilon: number, "
    f"{_ADAM}",
    "assign": "variable, value: number -> Operation",
    "check": "condition, message: required -> Operation",
    "col_to_im": f"source, output_shape: shape, {_COLUMNS}",
    "dequantize": "x, scale, zero_point: optional, *, dtype, axis, grouped",
    "dequantize_lookup_table": "x, table, *, axis, vectors",
    "dequantize_packed": "words, scale, bias, *, bits, dtype",
    "fast_fourier_transform": "x, axes: required, *, inverse, scaling",
    "gru": f"source, recurrent_weight, *, {_GRU}, {_GRU_OPTIONS}, training -> list[Tensor]",
    "gru_gradients": f"{_BACKWARD}, state, *, {_GRU}, state_gradient: optional, {_GRU_OPTIONS} -> list[Tensor]",
    "hamming_distance": "primary, secondary, dtype",
    "hermitean_to_real_fft": "x, axes: required, *, inverse, scaling, round_to_odd_hermitean",
    "im_to_col": f"source, {_COLUMNS}",
    "integer_matrix_multiplication": "primary, secondary, primary_zero_point: optional, secondary_zero_point: optional",
    "lstm": f"source, recurrent_weight, *, {_LSTM}, {_LSTM_OPTIONS}, produce_cell, training -> list[Tensor]",
    "lstm_gradients": f"{_BACKWARD}, cell, *, {_LSTM}, state_gradient: optional, cell_gradient: optional, "
    f"{_LSTM_OPTIONS} -> list[Tensor]",
    "normalization": "x, mean, variance, gamma: optional, beta: optional, epsilon",
    "normalization_gradient": "incoming, source, mean, variance, gamma: optional, gamma_gradient: optional, "
    "beta_gradient: optional, axes: axes, epsilon",
    "pad": "x, left: required, right: required, *, mode, value",
    "pad_gradient": "incoming, input_shape: shape, left: required, right: required, *, mode",
    "print": "tensor, *, message, summarize",
    "quantize": "x, scale, zero_point: optional, *, dtype, axis, grouped",
    "random": "shape: shape, state, *, distribution, dtype, min, max, min_integer, max_integer, mean, "
    "standard_deviation, lower, upper, sampling_method, advance -> tuple[Tensor, Tensor]",
    "real_to_hermitean_fft": "x, axes: required, *, inverse, scaling",
    "resize_bilinear": f"images, size: shape, {_RESIZE}",
    "resize_bilinear_gradient": f"incoming, input_shape: shape, {_RESIZE}",
    "resize_nearest": f"images, size: shape, {_RESIZE}, nearest_rounding_mode",
    "resize_nearest_gradient": f"incoming, input_shape: shape, {_RESIZE}, nearest_rounding_mode",
    "reverse": "x, axes: required",
    "sample_grid": "source, coordinates, *, layout, normalize_coordinates, relative_coordinates, align_corners, "
    "padding_mode, sampling_mode, constant_value, nearest_rounding_mode",
    "scaled_dot_product_attention": "query, key, value, scale: required, *, mask: optional, state: optional, causal, "
    "dropout",
    "scatter": "data, updates, indices, axis: required, *, mode, out_of_range",
    "scatter_along_axis": "axis: required, data, updates, indices, *, mode, out_of_range",
    "scatter_nd": "data, updates, indices, batch_dimensions, *, mode, out_of_range",
    "single_gate_rnn": f"source, recurrent_weight, *, {_RNN}, mask: optional, activation, reverse, bidirectional, "
    "training -> list[Tensor]",
    "single_gate_rnn_gradients": f"{_BACKWARD}, *, {_RNN}, mask: optional, state_gradient: optional, activation, "
    "reverse, bidirectional -> list[Tensor]",
    "slice": f"x, starts: required, ends: required, strides: required, {_MASKS}",
    "slice_gradient": f"incoming, input_shape: shape, starts: required, ends: required, strides: required, {_MASKS}",
    "slice_update_data": f"data, update, starts: required, ends: required, strides: required, {_MASKS}",
    "sparse_tensor": "values, index0, index1, shape: required, *, storage",
    "split": "x, sizes: required, axis = 0 -> list[Tensor]",
    "squeeze": "x, axes",
    "stencil": "source, weights, *, reduction_mode, strides: sizes, dilations: sizes, padding: padding, "
    "boundary_mode, padding_constant",
}
"""Signatures of the operations whose Python methods convert their arguments."""

COMPOSED = {
    "call": "built from a list of types",
    "constant": "Graph.constant",
    "custom": "the attributes of a custom operation are not known here",
    "for": "control flow",
    "if": "control flow",
    "non_maximum_suppression": "composed of several operations (tensors.hpp in C++)",
    "non_zero_indices": "composed of several operations (tensors.hpp in C++)",
    "placeholder": "Graph.placeholder",
    "variable": "Graph.variable",
    "while": "control flow",
}
"""Public kinds without a generated function: why, or the function written by hand."""

DOCUMENTED = {
    ("assign", "variable"): "Variable to set.",
    ("assign", "value"): "New value, with the dtype and shape of the variable.",
    ("quantize", "scale"): "Size of a step, a tensor of rank 0, of rank 1 along axis, or of rank 2 if grouped.",
    ("quantize", "axis"): "Axis along which scale and zero_point of rank 1 vary.",
    ("quantize", "grouped"): "Whether scale and zero_point have the rank of x.",
    ("dequantize", "axis"): "Axis along which scale and zero_point of rank 1 vary.",
    ("dequantize", "grouped"): "Whether scale and zero_point have the rank of x.",
    ("dequantize_lookup_table", "vectors"): "Whether entries of the table are vectors along axis.",
    ("hamming_distance", "dtype"): "Integer dtype of the result.",
    ("print", "message"): "Text that precedes the value.",
    ("random", "state"): "State to draw from, int32[7], such as from random_philox_state.",
    ("random", "min"): "Lower bound of uniform numbers.",
    ("random", "max"): "Upper bound of uniform numbers.",
    ("random", "lower"): "Lower bound of truncated normal numbers, in standard deviations from the mean.",
    ("random", "upper"): "Upper bound of truncated normal numbers, in standard deviations from the mean.",
    ("scatter", "data"): "Tensor whose elements are updated, with the dtype of updates.",
    ("scatter_along_axis", "data"): "Tensor whose elements are updated, with the dtype of updates.",
    ("scatter_nd", "data"): "Tensor whose elements are updated, with the dtype of updates.",
    ("slice", "ends"): "Index after the last element along each axis.",
    ("slice_gradient", "ends"): "The ends given to slice.",
    ("slice_update_data", "ends"): "Index after the last element along each axis.",
    ("split", "sizes"): "Size of each part along axis.",
    ("squeeze", "axes"): "Axes to remove. An empty list, the default, means all axes of size 1.",
    ("reverse", "axes"): "Axes to reverse.",
    ("stencil", "padding"): "A style, or four pairs (before, after). Defaults to none.",
    **{("sample_grid", name): about for name, about in {
        "nearest_rounding_mode": "Rounding of positions between two elements with sampling mode nearest.",
    }.items()},
}  # fmt: skip
"""Descriptions of arguments that the Python method lacks or that work differently."""

SUMMARIES = {"assign": "Set a variable to a value when the graph runs."}

FLAGS = {
    ("adam", "maximum_velocity"): "amsgrad",
    ("adam_with_current_learning_rate", "maximum_velocity"): "amsgrad",
}
"""Attributes that are true if an optional operand is given, other than has_<operand>."""

BEFORE = {
    ("adam", "maximum_velocity"): "gradient",
    ("adam_with_current_learning_rate", "maximum_velocity"): "gradient",
}
"""Operands that the operation expects before another one, although callers pass them later."""

_LAYOUTS = ["NHWC", "NCHW", "NDHWC", "NCDHW", "HWC", "CHW", "HW"]
_ACTIVATIONS = ["none", "relu", "tanh", "sigmoid", "hard_sigmoid"]
_FLATTENS = [f"{where}_flatten_{axes}d" for where in ("global", "local") for axes in (1, 2, 3, 4)]
_BORDERS = ["constant", "zero", "reflect", "symmetric", "clamp_to_edge", "periodic", "anti_periodic"]
ENUMERATIONS = {
    "PaddingStyle": ["TF_VALID", "TF_SAME", "ONNX_SAME_LOWER", "EXPLICIT"],
    "DataLayout": _LAYOUTS,
    "WeightsLayout": ["HWIO", "OIHW", "DHWIO", "OIDHW"],
    "Activation": _ACTIVATIONS,
    "BorderMode": _BORDERS,
    "FourierScaling": ["none", "size", "unitary"],
    "OutOfRange": ["zeros", "clip", "error", "drop"],
    "PoolingIndices": _FLATTENS,
    "RandomAdvance": ["tensorflow", "blocks"],
    "RandomDistribution": ["uniform", "normal", "truncated_normal"],
    "RandomSampling": ["box_muller", "inverse_cdf"],
    "Reduction": ["none", "sum", "mean"],
    "RoundingMode": ["round_prefer_ceil", "round_prefer_floor", "ceil", "floor", "round_to_even", "round_to_odd"],
    "SamplingMode": ["bilinear", "nearest"],
    "ScatterMode": ["add", "sub", "mul", "div", "min", "max", "set"],
    "SparseStorage": ["COO", "CSC", "CSR"],
    "StencilReduction": ["sum", "product", "minimum", "maximum", "arg_minimum", "arg_maximum"],
}
"""Values of the attributes that are names, by their type in C++ and Swift."""

_ENUMERATED = {
    "data_layout": "DataLayout",
    "layout": "DataLayout",
    "weights_layout": "WeightsLayout",
    "boundary_mode": "BorderMode",
    "padding_mode": "BorderMode",
    "scaling": "FourierScaling",
    "out_of_range": "OutOfRange",
    "return_indices_mode": "PoolingIndices",
    "advance": "RandomAdvance",
    "distribution": "RandomDistribution",
    "sampling_method": "RandomSampling",
    "reduction": "Reduction",
    "nearest_rounding_mode": "RoundingMode",
    "sampling_mode": "SamplingMode",
    "storage": "SparseStorage",
    "reduction_mode": "StencilReduction",
}


@dataclass(frozen=True)
class Argument:
    """An argument of a generated function.

    Attributes:
        name: Name in the schema.
        kind: For operands "tensor", "number" (a tensor or a number), "mask", "shape" (ints or a tensor), "tensors", or
            "optional"; for attributes "integer", "real", "boolean", "string", "dtype", "integers", "enumeration",
            "axes" (none means all), "sizes" (an int is repeated), "padding" (a style or amounts), "window", or
            "strides" (none means the window, or 1 for windows over four axes).
        default: Default value, or None if the argument is required.
        is_option: Whether the argument belongs to the options, which callers pass by name.
        about: Description, one sentence or more.
        may_be_tensor: Whether an attribute can also be an integer tensor.
        enumeration: Type of an attribute that is a name, from ENUMERATIONS.
        count: Number of ints of "sizes", "window", and "strides", and of axes of "padding".
        flag: Attribute that is true if this optional operand is given, or "".
    """

    name: str
    kind: str
    default: Any
    is_option: bool
    about: str
    may_be_tensor: bool = False
    enumeration: str = ""
    count: int = 0
    flag: str = ""

    @property
    def is_operand(self) -> bool:
        return self.kind in ("tensor", "number", "mask", "shape", "tensors", "optional")


@dataclass(frozen=True)
class Operation:
    """A kind of operation.

    Attributes:
        kind: Name of the kind.
        family: Family, the subject under which files list the operation.
        summary: What the operation computes, in one paragraph or more.
        returns: Description of the results.
        result: "tensor", "tensors", "pair", or "operation" (no result).
        arguments: Arguments in the order in which callers pass them.
        operands: The operands in the order of the operation's inputs. Tensors in place of attributes follow them.
    """

    kind: str
    family: str
    summary: str
    returns: str
    result: str
    arguments: list[Argument]
    operands: list[Argument]

    @property
    def attributes(self) -> list[Argument]:
        return [a for a in self.arguments if not a.is_operand]


def operations() -> list[Operation]:
    """Return all operations with a generated function, by family and kind."""
    found = []
    for schema in schemas().values():
        if schema.definition["internal"] or schema.name in COMPOSED:
            continue
        if not schema.parameters:
            if schema.name not in SIGNATURES:
                raise SystemExit(
                    f"{schema.name} has no signature in its definition: add one to SIGNATURES or COMPOSED in {__file__}"
                )
            signature = {"parameters": SIGNATURES[schema.name], "documentation": _python_documentation(schema)}
            schema = Schema(schema.definition | signature)
        found.append(_operation(schema))
    return sorted(found, key=lambda each: (each.family, each.kind))


def _operation(schema: Schema) -> Operation:
    text = schema.documentation if schema.name in SIGNATURES else docstring(schema)
    summary, own = sections(re.sub(r"\n\n(?=(Args|Returns|Raises|Gradient|Source|Example):)", "\n", text))
    summary = SUMMARIES.get(schema.name, summary)
    described = {
        name: " ".join(about.split())
        for name, about in re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", own.get("Args", ""), re.M | re.S)
    }
    arguments = [
        _argument(schema, parameter, described.get(parameter.name, ""))
        for parameter in schema.parameters
        if parameter.name != "name"
    ]
    operands = [each for each in arguments if each.is_operand]
    for each in list(operands):
        before = BEFORE.get((schema.name, each.name))
        if before:
            operands.remove(each)
            operands.insert([o.name for o in operands].index(before), each)
    results = {"Tensor": "tensor", "list[Tensor]": "tensors", "tuple[Tensor, Tensor]": "pair", "Operation": "operation"}
    returns = " ".join(own.get("Returns", "").split())
    return Operation(schema.name, schema.family, summary, returns, results[schema.result], arguments, operands)


_KINDS = {
    "an integer": "integer",
    "a real number": "real",
    "a boolean": "boolean",
    "a string": "string",
    "a dtype": "dtype",
    "a list of integers": "integers",
}


def _argument(schema: Schema, parameter: Parameter, about: str) -> Argument:
    name = parameter.name
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    about = DOCUMENTED.get((schema.name, name), about)
    if not about:
        raise SystemExit(f"{schema.name}: describe the argument {name} in DOCUMENTED in {__file__}")
    if parameter.is_operand:
        flag = FLAGS.get((schema.name, name), f"has_{name}" if f"has_{name}" in schema.definition["attributes"] else "")
        return Argument(name, parameter.kind, default, parameter.by_name, about, flag=flag)
    of, declared = schema.attribute(parameter)
    kind, enumeration, count = _KINDS[of], "", 0
    if parameter.kind in ("axes", "sizes", "padding", "window", "strides"):
        kind = parameter.kind
        if kind != "axes":
            counts = schema.definition["attributes"]
            count = len(counts["dilations" if kind != "padding" else "padding"][1]) // (2 if kind == "padding" else 1)
    elif kind == "string":
        enumeration = _enumeration(schema, name)
        kind = "enumeration" if enumeration else kind
    elif kind == "boolean" and default is not None:
        default = bool(default)
    if kind == "enumeration" and default is not None and default not in ("", *ENUMERATIONS[enumeration]):
        raise SystemExit(f"{schema.name}: {name} = {default!r} is not in {enumeration}")
    return Argument(name, kind, default, parameter.by_name, about, name in schema.tensor_attributes, enumeration, count)


def _enumeration(schema: Schema, name: str) -> str:
    if name == "mode":
        return "ScatterMode" if schema.family == "scatter_nd" else "BorderMode"
    return "Activation" if name.endswith("activation") else _ENUMERATED.get(name, "")


def _python_documentation(schema: Schema) -> str:
    method = getattr(mpsgraph.Graph, schema.__name__)
    return inspect.getdoc(method) or ""


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, paragraph by paragraph, wrapped at a width."""
    for paragraph in text.strip().split("\n"):
        yield from textwrap.wrap(paragraph, width) or [""]
