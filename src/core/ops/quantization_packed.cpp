// Operation family quantization, second part: weights packed at a few bits per element.
//
//   dequantize_packed:   result[..., i] = scale[..., i / group] * q[..., i] + bias[..., i / group]
//
// The words of a row hold the bits of its elements q without gaps: element i begins at bit i * bits, counted from the
// lowest bit of the first word. Each row has one scale and one bias per group of consecutive elements. The formula is
// computed in float32 for all result dtypes. This is the affine form of MLX and GPTQ, and of the block formats of GGUF.
#include <numeric>

#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Inputs = std::vector<Tensor*>;

// Checks operands words, scale, and bias, which begin at index `first`, and returns the shape of the weights.
Shape packed_shape(const InferContext& c, size_t first) {
  const int64_t bits = c.attributes.integer("bits");
  if (bits < 2 || bits > 8 || bits == 7) c.graph_error(cat("bits must be 2, 3, 4, 5, 6, or 8, got ", bits));
  if (c.dtype(first) != DType::uint32)
    c.dtype_error(cat("words must be uint32, got ", c.dtype(first), "; reinterpret or cast them first"));
  for (const size_t i : {first + 1, first + 2})
    if (!is_float(c.dtype(i)) || c.dtype(i) == DType::float64)
      c.dtype_error(cat(i == first + 1 ? "scale" : "bias", " must be float32, float16, or bfloat16, got ", c.dtype(i)));
  c.require_same_dtype(first + 1, first + 3);
  const Shape &words = c.shape(first), &scale = c.shape(first + 1), &bias = c.shape(first + 2);
  if (!compatible(scale, bias))
    c.shape_error(cat("scale and bias must have the same shape, got ", scale, " and ", bias));
  if (!words.ranked() || !scale.ranked()) return {};
  const int rank = words.rank();
  bool fits = rank >= 1 && scale.rank() == rank;
  for (int a = 0; fits && a + 1 < rank; ++a) fits = words[a] < 0 || scale[a] < 0 || words[a] == scale[a];
  if (!fits)
    c.shape_error(cat("scale must have the shape of words, except for the last axis, got ", scale, " and ", words));
  Dims dims = words.dims();
  const int64_t count = words[rank - 1], groups = scale[rank - 1];
  if (count < 0) return Shape(dims);
  dims.back() = count * 32 / bits;
  const bool whole = count * 32 % bits == 0;
  if (!whole ||
      (groups >= 0 && (groups == 0 ? count != 0 : dims.back() % groups != 0 || dims.back() / groups % 32 != 0)))
    c.shape_error(cat("rows of ", count, " words must hold ", groups < 0 ? "" : cat(groups, " "),
                      "groups of a multiple of 32 elements of ", bits, " bits"));
  return Shape(dims);
}

std::vector<TensorType> infer_dequantize_packed(const InferContext& c) {
  const DType dtype = c.attributes.dtype("dtype");
  if (!is_float(dtype) || dtype == DType::float64)
    c.dtype_error(cat("the result's dtype must be float32, float16, or bfloat16, got ", dtype));
  return {{dtype, packed_shape(c, 0)}};
}

Tensor* row_of(Builder& b, const Ints& values) { return b.cast(b.ints(values), DType::uint32); }

// The elements of rows of words, as uint32. A unit is the smallest number of whole words that holds whole elements.
Tensor* elements_of(Builder& b, Tensor* words, int64_t bits) {
  const int64_t period = bits / std::gcd(bits, int64_t{32}), count = 32 * period / bits;
  Dims units = words->shape().dims();
  const int64_t words_per_row = units.back();
  const auto axis = static_cast<int64_t>(units.size());
  Dims dims = units;
  dims.back() = words_per_row * 32 / bits;
  units.back() = words_per_row / period;
  units.push_back(period);
  Tensor* unit = b.reshape(words, units);
  Ints first, last, shift, rest, crosses;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits, word = bit / 32, end = (bit + bits - 1) / 32;
    first.push_back(word), last.push_back(end), shift.push_back(bit % 32);
    rest.push_back(end > word ? 32 - bit % 32 : 0), crosses.push_back(end > word);
  }
  const auto pick = [&](const Ints& at) {
    if (period == 1) return unit;
    return b.graph().add("gather", {unit, b.ints(at)}, {{"axis", axis}});
  };
  Tensor *lower = pick(first), *shifts = row_of(b, shift);
  Tensor* low = b.binary("bitwise_right_shift", lower, shifts);
  if (period > 1) {
    Tensor *upper = pick(last), *left = row_of(b, rest);
    Tensor* high = b.binary("bitwise_left_shift", upper, left);
    Tensor* used = row_of(b, crosses);
    low = b.binary("bitwise_or", low, b.mul(high, used));
  }
  Tensor* mask = b.cast(b.ints({(int64_t{1} << bits) - 1}), DType::uint32);
  return b.reshape(b.binary("bitwise_and", low, mask), dims);
}

Inputs dequantize_packed_parts(Builder& b, const Inputs& in, const Attributes& a) {
  const DType dtype = a.dtype("dtype");
  Tensor* elements = b.cast(elements_of(b, in[0], a.integer("bits")), DType::float32);
  const Dims dims = elements->shape().dims();
  Dims groups = in[1]->shape().dims();
  if (element_count(dims) == 0) return {b.cast(elements, dtype)};
  Dims grouped = groups;
  grouped.push_back(dims.back() / groups.back());
  groups.push_back(1);
  Tensor* scale = b.reshape(b.cast(in[1], DType::float32), groups);
  Tensor* bias = b.reshape(b.cast(in[2], DType::float32), groups);
  Tensor* result = b.add(b.mul(b.reshape(elements, grouped), scale), bias);
  return {b.cast(b.reshape(result, dims), dtype)};
}

// The result is linear in scale, with the elements as factors, and in bias, with factor 1. Packed words have no
// gradient.
void d_dequantize_packed(GradientContext& c) {
  Builder b(c.graph());
  const Attributes grouped{{"axis", int64_t{0}}, {"grouped", true}};
  const auto sum = [&](Tensor* x, size_t i) {
    Tensor* shape = b.shape_of(c.input(i));
    return b.cast(c.graph().add("sum_of_groups", {x, shape}, grouped), c.input(i)->dtype());
  };
  if (c.needs(1)) {
    Tensor *one = b.ones_like(c.input(1)), *zero = b.zeros_like(c.input(1));
    Tensor* elements = c.graph().add("dequantize_packed", {c.input(0), one, zero}, c.attributes());
    c.set(1, sum(b.mul(c.incoming(), elements), 1));
  }
  if (c.needs(2)) c.set(2, sum(c.incoming(), 2));
}

// x · W, or x · Wᵀ, with packed weights W, followed by an epilogue. The compiler's pass fuse creates this operation.
std::vector<TensorType> infer_quantized_product(const InferContext& c) {
  const Shape weights = packed_shape(c, 1);
  const bool transposed = c.attributes.boolean("transpose_b");
  Dims dims = c.shape(0).dims();
  if (weights.rank() != 2 || dims.empty() || dims.back() != weights[transposed ? 1 : 0])
    c.shape_error(cat("x ", c.shape(0), " cannot be multiplied by packed weights ", weights));
  dims.back() = weights[transposed ? 0 : 1];
  return {{c.dtype(0), Shape(dims)}};
}

}  // namespace

const Family quantization_packed_family("quantization", [] {
  const AttributeSpec bits = optional("bits", int64_t{4});
  OperationDefinition d = primitive("dequantize_packed", 3, {bits, optional("dtype", DType::float32)},
                                    infer_dequantize_packed, d_dequantize_packed);
  d.decompose = dequantize_packed_parts;
  define(std::move(d));
  OperationDefinition product =
      primitive("quantized_matrix_multiplication", {4, 6},
                {bits, optional("transpose_b", true), optional("has_bias", false), optional("has_residual", false),
                 optional("activation", std::string("none"))},
                infer_quantized_product, nullptr);
  product.internal = true;
  define(std::move(product));
});

}  // namespace mpsgraph::ops
