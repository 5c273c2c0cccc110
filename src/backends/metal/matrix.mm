// Matrix products, distances between vectors of bits, and attention.
//
// Operands get one rank by axes of length 1 in front, so that only broadcasting of these is asked of MPSGraph. The
// result of its HammingDistance is not stated well enough to rely on: distances are composed.
#include <algorithm>
#include <limits>
#include <optional>

#include "backends/metal/complex.h"

namespace mpsgraph::metal {
namespace {

Dims with_rank(Dims dims, size_t rank) {
  if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
  return dims;
}

// Operand i with axes of length 1 in front.
Term operand(const Lowering& l, size_t i, size_t rank) {
  const Term x = Term::input(l, i);
  return l.dims(i).size() == rank ? x : x.reshape(with_rank(l.dims(i), rank));
}

Term product(const Term& a, const Term& b) {
  return apply(a, b, [](MPSGraph* g, MPSGraphTensor* x, MPSGraphTensor* y) {
    return [g matrixMultiplicationWithPrimaryTensor:x secondaryTensor:y name:nil];
  });
}

GraphTensors lower_matrix_multiplication(Lowering& l) {
  const size_t rank = l.result_dims().size();
  const Term a = operand(l, 0, rank), b = operand(l, 1, rank);
  if (!is_complex(l.dtype())) return product(a, b);
  const Parts x = parts_of(l, a.tensor()), y = parts_of(l, b.tensor());
  return {complex_tensor(l, {product(x.re, y.re) - product(x.im, y.im), product(x.re, y.im) + product(x.im, y.re)})};
}

// --- attention -------------------------------------------------------------------------------------------------------

Term turned(const Term& x) {
  Ints permutation;
  for (size_t axis = 0; axis < x.tensor().shape.count; ++axis) permutation.push_back(static_cast<int64_t>(axis));
  std::swap(permutation.back(), permutation[permutation.size() - 2]);
  return x.with([x.graph() transposeTensor:x.tensor() permutation:numbers(permutation) name:nil]);
}

// Queries whose mask keeps all keys out find zeros, where a soft-max over nothing is NaN: they look at everything
// instead (`opened`), and what they find is replaced (`found`).
struct Mask {
  Mask(const Lowering& l, size_t rank) : added(operand(l, 3, rank)), blind(blind_rows(added, rank)) {}

  static Term blind_rows(const Term& mask, size_t rank) {
    const Ints keys{static_cast<int64_t>(rank) - 1};
    const Term x = mask.cast(DType::float32);  // extrema of bfloat16 are not to be relied on
    return x.with([x.graph() reductionMaximumWithTensor:x.tensor() axes:numbers(keys)
                                                   name:nil]) == -std::numeric_limits<double>::infinity();
  }
  Term opened() const { return select(blind, 0.0, added); }
  Term found(const Term& result) const { return select(blind, 0.0, result); }

  Term added, blind;
};

// softmax(scale Q Kᵀ + M) V, halves in single precision, as scores are many.
GraphTensors composed_attention(Lowering& l, size_t rank) {
  const bool half = size_of(l.dtype()) == 2;
  const auto wide = [&](const Term& x) { return half ? x.cast(DType::float32) : x; };
  const auto source = [&](size_t i) { return wide(operand(l, i, rank)); };
  Term scores = product(source(0) * l.attributes().real("scale"), turned(source(1)));
  const auto mask = l.count() == 4 ? std::optional<Mask>(std::in_place, l, rank) : std::nullopt;
  if (mask) scores = scores + wide(mask->opened());
  const Term weights = scores.with([l.graph() softMaxWithTensor:scores.tensor() axis:-1 name:nil]);
  const Term result = product(weights, source(2));
  const Term rounded = half ? result.cast(l.dtype()) : result;
  return mask ? mask->found(rounded) : rounded;
}

// MPSGraph's takes tensors of four axes: batch, heads, positions, features.
GraphTensors lower_attention(Lowering& l) {
  constexpr size_t rank = 4;
  bool fits = l.result_dims().size() <= rank;
  for (size_t i = 0; i < l.count(); ++i) {
    const Dims dims = with_rank(l.dims(i), rank), whole = with_rank(l.result_dims(), rank);
    fits = fits && dims.size() == rank && (i == 3 || std::equal(dims.begin(), dims.begin() + 2, whole.begin()));
  }
  if (!fits) return composed_attention(l, std::max(l.result_dims().size(), l.count() == 4 ? l.dims(3).size() : 0));
  if (METAL_AVAILABLE(15.0)) {
    const auto scale = static_cast<float>(l.attributes().real("scale"));
    const auto mask = l.count() == 4 ? std::optional<Mask>(std::in_place, l, rank) : std::nullopt;
    const Term query = operand(l, 0, rank);
    const Term result =
        query.with([l.graph() scaledDotProductAttentionWithQueryTensor:query.tensor()
                                                             keyTensor:operand(l, 1, rank).tensor()
                                                           valueTensor:operand(l, 2, rank).tensor()
                                                            maskTensor:mask ? mask->opened().tensor() : nil
                                                                 scale:scale
                                                                  name:l.name()]);
    return mask ? mask->found(result) : result;
  }
  return composed_attention(l, rank);
}

// --- distances -------------------------------------------------------------------------------------------------------

// Bits of [.., m, 1, k] xor [.., 1, n, k], summed over k.
GraphTensors lower_hamming_distance(Lowering& l) {
  const size_t rank = l.result_dims().size();
  const auto vectors = [&](size_t i, size_t other) {
    Dims dims = with_rank(l.dims(i), rank);
    dims.insert(dims.end() - static_cast<std::ptrdiff_t>(other), 1);
    return Term::input(l, i).reshape(dims);
  };
  const Term differ = apply(vectors(0, 1), vectors(1, 2), [](MPSGraph* g, MPSGraphTensor* x, MPSGraphTensor* y) {
    return [g bitwiseXORWithPrimaryTensor:x secondaryTensor:y name:nil];
  });
  const Term bits = differ.with([l.graph() bitwisePopulationCountWithTensor:differ.tensor() name:nil]);
  return sum(bits.cast(DType::int32), {static_cast<int64_t>(rank)})
      .reshape(l.result_dims())
      .cast(l.result_type().dtype);
}

}  // namespace

const Lowerings matrix_lowerings("matrix", [] {
  define_lowering("matrix_multiplication", lower_matrix_multiplication);
  define_lowering("scaled_dot_product_attention", lower_attention);
  define_lowering("hamming_distance", lower_hamming_distance);
});

}  // namespace mpsgraph::metal
