// Operation family quantization: conversion between floats and small integers, by scale and zero point or by a lookup
// table.
//
//   quantize:   result = saturate(round(x / scale) + zero_point)     ties to even
//   dequantize: result = (x - zero_point) * scale
//   dequantize_lookup_table: result = table[..., x], or vectors of the table placed along an axis
//
// Scale and zero point are a single number, one number per index of an axis, or a tensor whose sizes divide those of x.
// In the last case each element applies to a block of x (a "group"). Tables can have groups too. The formulas are
// computed in float32, also for half-precision tensors. There is no 4-bit dtype: such numbers are stored in int8 or
// uint8, one per byte.
#include <algorithm>

#include "core/known_values.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Inputs = std::vector<Tensor*>;

// ---- scales and the elements they apply to ----

// Checks the shape of a parameter (scale or zero point) against x. A scalar applies to all elements, and a vector has
// one element per index of `axis`. If the attribute `grouped` is set, the parameter has the rank of x, and each of its
// elements applies to a block of x.
void require_parameter(const InferContext& c, size_t i, const Shape& x, std::string_view role) {
  const Shape& shape = c.shape(i);
  if (!shape.ranked() || shape.rank() == 0 || !x.ranked()) return;
  if (c.attributes.boolean("grouped")) {
    bool divides = shape.rank() == x.rank();
    for (int a = 0; divides && a < x.rank(); ++a)
      divides = shape[a] < 0 || x[a] < 0 || (shape[a] == 0 ? x[a] == 0 : x[a] % shape[a] == 0);
    if (!divides)
      c.shape_error(cat(role, " with groups must have the rank of tensor ", x,
                        " and sizes that divide the tensor's sizes, got ", shape));
    return;
  }
  const int axis = c.axis(c.attributes.integer("axis"), x.rank());
  if (shape.rank() != 1 || (shape[0] >= 0 && x[axis] >= 0 && shape[0] != x[axis]))
    c.shape_error(cat(role, " must be a scalar or have one element per index (", x[axis], ") of axis ", axis, " of ", x,
                      ", got shape ", shape));
}

// The shape of x with each grouped axis split in two, so that a parameter broadcasts: for x [d0, d1] and a parameter
// [g0, 1], x becomes [g0, d0 / g0, d1].
struct ParameterBlocks {
  Dims blocks;  // dimensions of x after the split
  Dims parameter;  // dimensions of the parameter after the split; 1 where one element applies to several elements of x
  ParameterBlocks(const Dims& x, const Dims& groups) {
    for (size_t a = 0; a < x.size(); ++a) {
      if (groups[a] != 1 && groups[a] != x[a]) {
        blocks.push_back(groups[a]), parameter.push_back(groups[a]);
        blocks.push_back(x[a] / groups[a]), parameter.push_back(1);
      } else {
        blocks.push_back(x[a]), parameter.push_back(groups[a]);
      }
    }
    if (blocks.size() > static_cast<size_t>(max_rank))
      throw ShapeError(cat("splitting ", to_string(x), " into groups ", to_string(groups), " needs ", blocks.size(),
                           " dimensions, but the maximum rank is ", max_rank, ": reshape it to fewer axes first"));
  }
};
ParameterBlocks parameter_blocks(const Attributes& attributes, const Dims& x, const Dims& parameter) {
  if (attributes.boolean("grouped") && !parameter.empty()) return {x, parameter};
  Dims groups(x.size(), 1);
  if (!parameter.empty()) groups[wrap_axis(attributes.integer("axis"), static_cast<int>(x.size()))] = parameter[0];
  return {x, groups};
}

DType computed_in(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

// Checks the operands scale and zero_point, which must have the same shape unless one is a scalar.
void require_parameters(const InferContext& c) {
  require_parameter(c, 1, c.shape(0), "scale");
  if (c.count() == 2) return;
  require_parameter(c, 2, c.shape(0), "zero_point");
  const Shape &scale = c.shape(1), &zero_point = c.shape(2);
  const bool both = scale.ranked() && zero_point.ranked() && scale.rank() > 0 && zero_point.rank() > 0;
  if (both && !compatible(scale, zero_point))
    c.shape_error(cat("scale and zero_point must have the same shape, unless one of them is a scalar, got ", scale,
                      " and ", zero_point));
}

// Applies a formula to x and its parameters, each reshaped so that every parameter element broadcasts to its block of
// x.
template <class Formula>
Tensor* blockwise(Builder& b, const Inputs& in, const Attributes& attributes, DType computed, const Formula& formula) {
  const Dims& x = in[0]->shape().dims();
  const bool per_tensor = in[1]->shape().rank() == 0;
  const ParameterBlocks cut = parameter_blocks(attributes, x, (per_tensor ? in.back() : in[1])->shape().dims());
  Inputs parameters;
  for (size_t i = 1; i < in.size(); ++i)
    parameters.push_back(b.cast(in[i]->shape().rank() == 0 ? in[i] : b.reshape(in[i], cut.parameter), computed));
  const bool whole = cut.blocks == x;
  Tensor* result = formula(b.cast(whole ? in[0] : b.reshape(in[0], cut.blocks), computed), parameters);
  return whole ? result : b.reshape(result, x);
}

// ---- sum_of_groups and its adjoint repeat_groups, from which the derivatives are built ----

std::vector<TensorType> infer_sum_of_groups(const InferContext& c) { return {{c.dtype(0), shape_operand(c, 1)}}; }

Attributes of_groups(const Attributes& attributes) {
  return {{"axis", attributes.integer("axis")}, {"grouped", attributes.boolean("grouped")}};
}

Dims known_dims(const Tensor* shape) {
  if (const std::optional<Ints> value = constant_value(shape)) return *value;
  throw UnsupportedError(cat("[quantization] the shape '", shape->name(),
                             "' is unknown when this operation is decomposed; use static shapes"));
}

Inputs sum_of_groups_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const Dims parameter = known_dims(in[1]);
  const ParameterBlocks cut = parameter_blocks(a, in[0]->shape().dims(), parameter);
  Ints summed;
  for (size_t i = 0; i < cut.blocks.size(); ++i)
    if (cut.parameter[i] == 1 && cut.blocks[i] != 1) summed.push_back(static_cast<int64_t>(i));
  Tensor* x = b.reshape(in[0], cut.blocks);
  return {b.reshape(summed.empty() ? x : b.sum(x, summed), parameter)};
}
void d_sum_of_groups(GradientContext& c) {
  if (!c.needs(0)) return;
  Tensor* shape = Builder(c.graph()).shape_of(c.input(0));
  c.set(0, c.graph().add("repeat_groups", {c.incoming(), shape}, c.attributes()));
}

Inputs repeat_groups_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const Dims x = known_dims(in[1]);
  const ParameterBlocks cut = parameter_blocks(a, x, in[0]->shape().dims());
  Tensor* blocks = b.ints(cut.blocks);
  return {b.reshape(b.broadcast_to(b.reshape(in[0], cut.parameter), blocks), x)};
}
void d_repeat_groups(GradientContext& c) {
  if (!c.needs(0)) return;
  Tensor* shape = Builder(c.graph()).shape_of(c.input(0));
  c.set(0, c.graph().add("sum_of_groups", {c.incoming(), shape}, c.attributes()));
}

// ---- quantize ----

void require_integer(const InferContext& c, DType dtype, std::string_view role) {
  if (!is_integer(dtype)) c.dtype_error(cat(role, " must be an integer dtype such as int8 or uint8, got ", dtype));
}

std::vector<TensorType> infer_quantize(const InferContext& c) {
  const DType dtype = c.attributes.dtype("dtype");
  c.require_float(0);
  c.require_same_dtype(0, 2);
  require_integer(c, dtype, "the result's dtype");
  if (c.count() > 2 && c.dtype(2) != dtype)
    c.dtype_error(cat("zero_point must have the result's dtype (", dtype, "), got ", c.dtype(2), "; cast it first"));
  require_parameters(c);
  return {{dtype, c.shape(0)}};
}

Inputs quantize_parts(Builder& b, const Inputs& in, const Attributes& a) {
  return {blockwise(b, in, a, computed_in(in[0]->dtype()), [&](Tensor* x, const Inputs& parameters) {
    Tensor* steps = b.unary("rint", b.div(x, parameters[0]));
    if (parameters.size() > 1) steps = b.add(steps, parameters[1]);
    return b.cast(steps, a.dtype("dtype"));  // this cast saturates
  })};
}

// ---- dequantize ----

std::vector<TensorType> infer_dequantize(const InferContext& c) {
  const DType dtype = c.attributes.dtype("dtype");
  require_integer(c, c.dtype(0), "the tensor");
  if (!is_float(dtype)) c.dtype_error(cat("the result's dtype must be floating-point, got ", dtype));
  if (c.dtype(1) != dtype)
    c.dtype_error(cat("scale must have the result's dtype (", dtype, "), got ", c.dtype(1), "; cast it first"));
  if (c.count() > 2 && c.dtype(2) != c.dtype(0))
    c.dtype_error(
        cat("zero_point must have the tensor's dtype (", c.dtype(0), "), got ", c.dtype(2), "; cast it first"));
  require_parameters(c);
  return {{dtype, c.shape(0)}};
}

Inputs dequantize_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const DType dtype = a.dtype("dtype");
  return {blockwise(b, in, a, computed_in(dtype), [&](Tensor* x, const Inputs& parameters) {
    Tensor* steps = parameters.size() > 1 ? b.sub(x, parameters[1]) : x;
    return b.cast(b.mul(steps, parameters[0]), dtype);
  })};
}

// Derivative of dequantize: the result is linear in the scale, with factor x - zero_point.
void d_dequantize(GradientContext& c) {
  if (!c.needs(1)) return;
  Builder b(c.graph());
  Inputs operands = c.operation.inputs;
  operands[1] = b.scalar_like(c.input(1), 1);
  Tensor* steps = c.graph().add("dequantize", operands, c.attributes());
  Tensor* shape = b.shape_of(c.input(1));
  c.set(1, c.graph().add("sum_of_groups", {b.mul(c.incoming(), steps), shape}, of_groups(c.attributes())));
}

// ---- lookup tables ----

// A lookup table. Its axes are first the axes of the groups (absent if one table is used for all elements), then the
// axis of entries, and, for a table of vectors, the axis of vector elements.
struct Table {
  Dims groups;
  int64_t entries, length = 1;
  Table(const Dims& x, const Dims& table, bool vectors)
      : groups(table.begin(), table.end() - (vectors ? 2 : 1)), entries(table[table.size() - (vectors ? 2 : 1)]) {
    if (vectors) length = table.back();
    if (groups.empty()) groups.assign(x.size(), 1);
  }
  int64_t count() const { return element_count(groups); }
};

Shape looked_up(const InferContext& c, const Shape& x, const Shape& table) {
  const bool vectors = c.attributes.boolean("vectors");
  const int own = vectors ? 2 : 1;
  if (table.ranked() && table.rank() < own)
    c.shape_error(cat(vectors ? "a table of vectors must have rank 2 or more" : "table must have rank 1 or more",
                      ", got ", table));
  if (!x.ranked() || !table.ranked()) return {};
  const int groups = table.rank() - own;
  bool fits = groups == 0 || groups == x.rank();
  for (int a = 0; fits && a < groups; ++a) fits = x[a] < 0 || table[a] < 0 || (table[a] > 0 && x[a] % table[a] == 0);
  if (!fits)
    c.shape_error(cat("before the axis of entries, table must have no axes, or as many axes as tensor ", x,
                      " with sizes that divide the tensor's sizes, got ", table));
  Dims dims = x.dims();
  if (!vectors) return Shape(dims);
  const int axis = c.axis(c.attributes.integer("axis"), x.rank());
  const int64_t length = table[table.rank() - 1];
  dims[axis] = dims[axis] < 0 || length < 0 ? -1 : dims[axis] * length;
  return Shape(dims);
}

std::vector<TensorType> infer_lookup(const InferContext& c) {
  require_integer(c, c.dtype(0), "the dtype of the indices");
  return {{c.dtype(1), looked_up(c, c.shape(0), c.shape(1))}};
}

// For each element of x, the position of its table entry if the tables of all groups are concatenated along the axis of
// entries; -1 if the element, which is the index of the entry, is out of range.
Tensor* table_rows(Builder& b, Tensor* x, const Table& table) {
  const Dims& dims = x->shape().dims();
  const ParameterBlocks cut(dims, table.groups);
  Tensor* index = b.reshape(b.cast(x, DType::int64), cut.blocks);
  Tensor* below = b.binary("less_than", index, b.scalar_like(index, static_cast<double>(table.entries)));
  Tensor* valid = b.binary("logical_and", b.binary("greater_than_or_equal_to", index, b.scalar_like(index, 0)), below);
  Ints first;
  for (int64_t group = 0; group < table.count(); ++group) first.push_back(group * table.entries);
  index = b.add(index, b.reshape(b.ints(first), cut.parameter));
  return b.reshape(b.select(valid, index, b.scalar_like(index, -1)), dims);
}

Ints vectors_last(int rank, int axis) {  // permutes [.., axis, vector, ..] to [.., axis, .., vector]
  Ints permutation;
  for (int a = 0; a <= rank; ++a)
    if (a != axis + 1) permutation.push_back(a);
  permutation.push_back(axis + 1);
  return permutation;
}

Inputs lookup_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const bool vectors = a.boolean("vectors");
  const Dims& x = in[0]->shape().dims();
  const Table table(x, in[1]->shape().dims(), vectors);
  const int64_t rows = table.count() * table.entries;
  Tensor* entries = b.reshape(in[1], vectors ? Ints{rows, table.length} : Ints{rows});
  Tensor* picked = b.graph().add("gather", {entries, table_rows(b, in[0], table)}, {{"axis", int64_t{0}}});
  if (!vectors) return {picked};
  const int rank = static_cast<int>(x.size()), axis = wrap_axis(a.integer("axis"), rank);
  Ints permutation(rank + 1);
  const Ints back = vectors_last(rank, axis);
  for (int i = 0; i <= rank; ++i) permutation[back[i]] = i;
  Dims dims = x;
  dims[axis] *= table.length;
  return {b.reshape(b.transpose(picked, permutation), dims)};
}

void d_lookup(GradientContext& c) {
  if (!c.needs(1)) return;
  Tensor* shape = Builder(c.graph()).shape_of(c.input(1));
  c.set(1, c.graph().add("dequantize_lookup_table_gradient", {c.incoming(), c.input(0), shape}, c.attributes()));
}

std::vector<TensorType> infer_lookup_gradient(const InferContext& c) {
  const Shape table = shape_operand(c, 2), forward = looked_up(c, c.shape(1), table);
  if (!compatible(forward, c.shape(0)))
    c.shape_error(cat("incoming gradient must have the shape ", forward, " of the lookup's result, got ", c.shape(0),
                      ": indices ", c.shape(1), ", table ", table));
  return {{c.dtype(0), table}};
}

Inputs lookup_gradient_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const bool vectors = a.boolean("vectors");
  const Dims &x = in[1]->shape().dims(), shape = known_dims(in[2]);
  const Table table(x, shape, vectors);
  Tensor* incoming = in[0];
  if (vectors) {
    const int rank = static_cast<int>(x.size()), axis = wrap_axis(a.integer("axis"), rank);
    Dims dims = x;
    dims.insert(dims.begin() + axis + 1, table.length);
    incoming = b.transpose(b.reshape(incoming, dims), vectors_last(rank, axis));
  }
  const int64_t rows = table.count() * table.entries;
  Tensor* entries = b.ints(vectors ? Ints{rows, table.length} : Ints{rows});
  Tensor* sums =
      b.graph().add("gather_gradient", {incoming, table_rows(b, in[1], table), entries}, {{"axis", int64_t{0}}});
  return {b.reshape(sums, shape)};
}

void d_lookup_gradient(GradientContext& c) {
  if (c.needs(0)) c.set(0, c.graph().add("dequantize_lookup_table", {c.input(1), c.incoming()}, c.attributes()));
}

// ---- straight_through: returns the value of one operand and passes the gradient to another ----

std::vector<TensorType> infer_straight_through(const InferContext& c) {
  c.require_inexact(0);
  c.require_same_dtype();
  if (!compatible(c.shape(0), c.shape(1)))
    c.shape_error(cat("value and source must have the same shape, got ", c.shape(0), " and ", c.shape(1)));
  return {{c.dtype(0), merge(c.shape(0), c.shape(1))}};
}
void d_straight_through(GradientContext& c) { c.set(1, c.incoming()); }

void composite(Kind name, Arity arity, std::vector<AttributeSpec> attributes, Infer infer, Gradient gradient,
               Decompose decompose, bool internal = false) {
  OperationDefinition d = primitive(name, arity, std::move(attributes), std::move(infer), std::move(gradient));
  d.gradient_is_zero = !d.gradient;
  d.decompose = std::move(decompose);
  d.internal = internal;
  define(std::move(d));
}

}  // namespace

const Family quantization_family("quantization", [] {
  const AttributeSpec axis = optional("axis", int64_t{0}), grouped = optional("grouped", false);
  const AttributeSpec vectors = optional("vectors", false);
  composite("quantize", {2, 3}, {optional("dtype", DType::int8), axis, grouped}, infer_quantize, nullptr,
            quantize_parts);
  composite("dequantize", {2, 3}, {optional("dtype", DType::float32), axis, grouped}, infer_dequantize, d_dequantize,
            dequantize_parts);
  composite("dequantize_lookup_table", 2, {axis, vectors}, infer_lookup, d_lookup, lookup_parts);
  composite("straight_through", 2, {}, infer_straight_through, d_straight_through,
            [](Builder& b, const Inputs& in, const Attributes&) { return Inputs{b.unary("identity", in[0])}; });
  composite("sum_of_groups", 2, {axis, grouped}, infer_sum_of_groups, d_sum_of_groups, sum_of_groups_parts, true);
  composite("repeat_groups", 2, {axis, grouped}, infer_sum_of_groups, d_repeat_groups, repeat_groups_parts, true);
  composite("dequantize_lookup_table_gradient", 3, {axis, vectors}, infer_lookup_gradient, d_lookup_gradient,
            lookup_gradient_parts, true);

  describe("straight_through", "value, source", DTypeClass::floats, R"(
Return a value whose gradient goes to another tensor (the straight-through estimator).

result = value.

Args:
    value: Floating-point or complex tensor to return.
    source: Tensor with the shape and dtype of value that receives the gradient.
Returns: A tensor equal to value.
Raises:
    ShapeError: If the shapes differ.
    DTypeError: If the dtypes differ or are not floating-point or complex.
Gradient: the incoming gradient to source; none to value.
Source: this package, for training through rounding; Bengio et al., arXiv:1308.3432.
>>> x = g.constant([0.4, 1.7])
>>> y = g.straight_through(g.rint(x), x) * 3
>>> [g.run({}, t).tolist() for t in (y, g.gradients(y, [x])[x])]
[[0.0, 6.0], [3.0, 3.0]])");
});

}  // namespace mpsgraph::ops
