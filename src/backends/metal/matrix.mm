// Matrix products, also of integers, distances between vectors of bits, and attention.
//
// MPSGraph multiplies matrices of real numbers only. float32 holds whole numbers up to 2^24, so products of integers
// are summed in blocks that stay below that and added up as integers; those of more than 8 bits are cut into bytes, and
// what pairs of bytes give is put together again by shifts.
// Operands get one rank by axes of length 1 in front, so that only broadcasting of these is asked of MPSGraph. The
// result of its HammingDistance is not stated well enough to rely on: distances are composed.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

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

// Before macOS 14.4 products are wrong where a matrix is longer than 32768 (pytorch/pytorch#116769).
void require_sound(const Lowering& l, const Term& a, const Term& b) {
  if (METAL_AVAILABLE(14.4, 17.4)) return;
  constexpr int64_t most = 32768;
  for (const Term& x : {a, b}) {
    const Dims dims = dims_of(x.tensor().shape);
    for (size_t axis = dims.size() < 2 ? 0 : dims.size() - 2; axis < dims.size(); ++axis)
      if (dims[axis] > most)
        l.unsupported(cat("products of matrices of ", mpsgraph::to_string(dims), " are wrong before macOS 14.4, as ",
                          "sizes above ", most, " are; update the system, or use Device(\"cpu\")"));
  }
}

Term short_product(const Lowering& l, const Term& a, const Term& b) {
  require_sound(l, a, b);
  const Dims x = dims_of(a.tensor().shape), y = dims_of(b.tensor().shape);
  Dims result = x;
  for (size_t i = 0; i + 2 < result.size() && i < y.size(); ++i) result[i] = std::max(x[i], y[i]);
  if (!y.empty()) result.back() = y.back();
  require_size(a.tensor(), result);
  return a.with([l.graph() matrixMultiplicationWithPrimaryTensor:a.tensor() secondaryTensor:b.tensor() name:nil]);
}

Term part_of(const Term& x, int64_t axis, int64_t start, int64_t length) {
  return x.with([x.graph() sliceTensor:x.tensor()
                             dimension:static_cast<NSUInteger>(axis)
                                 start:static_cast<NSInteger>(start)
                                length:static_cast<NSInteger>(length)
                                  name:nil]);
}

// Apple's kernel reads past the end of more than 32766 terms on M1 and M2, whatever the system
// (pytorch/pytorch#195163): longer sums are made of products of parts.
Term product(const Lowering& l, const Term& a, const Term& b) {
  constexpr int64_t most = 32766, each = 16384;
  const Dims x = dims_of(a.tensor().shape);
  if (x.empty() || x.back() <= most) return short_product(l, a, b);
  const auto last = static_cast<int64_t>(x.size()) - 1;
  std::optional<Term> total;
  for (int64_t start = 0; start < x.back(); start += each) {
    const int64_t length = std::min(each, x.back() - start);
    const Term some = short_product(l, part_of(a, last, start, length), part_of(b, last - 1, start, length));
    total = total ? *total + some : some;
  }
  return *total;
}

// --- integers --------------------------------------------------------------------------------------------------------

constexpr int64_t largest_byte = 255;

// a b of real numbers that are whole, up to 255 in size, as integers.
Term product_of_bytes(const Lowering& l, const Term& a, const Term& b, DType sums) {
  const Dims dims = dims_of(a.tensor().shape);
  const int64_t terms = dims.back(), last = static_cast<int64_t>(dims.size()) - 1;
  constexpr int64_t block = (int64_t{1} << 24) / (largest_byte * largest_byte);
  const int64_t blocks = std::max<int64_t>((terms + block - 1) / block, 1);
  if (blocks == 1) return product(l, a, b).cast(sums);
  std::optional<Term> total;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t start = terms * i / blocks, length = terms * (i + 1) / blocks - start;
    const Term part = product(l, part_of(a, last, start, length), part_of(b, last - 1, start, length)).cast(sums);
    total.emplace(total ? *total + part : part);
  }
  return *total;
}

// x's bits, eight in a piece, the lowest first, as real numbers.
std::vector<Term> parts_in_bytes(const Term& x, DType dtype) {
  std::vector<Term> pieces;
  for (size_t low = 0; low < 8 * size_of(dtype); low += 8) {
    const Term shifted = low ? apply(x, x.constant(static_cast<double>(low)),
                                     [](MPSGraph* g, MPSGraphTensor* number, MPSGraphTensor* bits) {
                                       return [g bitwiseRightShiftWithPrimaryTensor:number
                                                                    secondaryTensor:bits
                                                                               name:nil];
                                     })
                             : x;
    const Term piece = apply(shifted, x.constant(largest_byte), [](MPSGraph* g, MPSGraphTensor* a, MPSGraphTensor* b) {
      return [g bitwiseANDWithPrimaryTensor:a secondaryTensor:b name:nil];
    });
    pieces.push_back(piece.cast(DType::float32));
  }
  return pieces;
}

// Pieces i of a and j of b count for 2^(8 (i + j)); from the type's width on, nothing is left of them. Bits are those
// of a type that holds 255, in which a shift to the right may bring in a sign that the mask takes away again.
Term product_of_integers(const Lowering& l, Term a, Term b) {
  const DType dtype = l.dtype(), sums = size_of(dtype) == 8 ? DType::int64 : DType::int32;
  if (dtype == DType::int8) a = a.cast(DType::int16), b = b.cast(DType::int16);
  const std::vector<Term> left = parts_in_bytes(a, dtype), right = parts_in_bytes(b, dtype);
  std::optional<Term> total;
  for (size_t place = 0; place < left.size(); ++place)
    for (size_t i = 0; i <= place; ++i) {
      Term part = product_of_bytes(l, left[i], right[place - i], sums);
      if (place > 0)
        part = apply(part, part.constant(static_cast<double>(8 * place)),
                     [](MPSGraph* g, MPSGraphTensor* number, MPSGraphTensor* bits) {
                       return [g bitwiseLeftShiftWithPrimaryTensor:number secondaryTensor:bits name:nil];
                     });
      total.emplace(total ? *total + part : part);
    }
  return total->cast(dtype);
}

GraphTensors lower_integer_product(Lowering& l) {
  const size_t rank = l.result_dims().size();
  const auto whole = [&](size_t i) {
    const Term x = operand(l, i, rank).cast(DType::float32);
    return l.count() > i + 2 ? x - operand(l, i + 2, rank).cast(DType::float32) : x;
  };
  return product_of_bytes(l, whole(0), whole(1), DType::int32);
}

GraphTensors lower_matrix_multiplication(Lowering& l) {
  const size_t rank = l.result_dims().size();
  const Term a = operand(l, 0, rank), b = operand(l, 1, rank);
  if (l.dtype() == DType::boolean) return product(l, a.cast(DType::float32), b.cast(DType::float32)) != 0;
  if (is_integer(l.dtype())) return product_of_integers(l, a, b);
  if (!is_complex(l.dtype())) return product(l, a, b);
  const Parts x = parts_of(l, a.tensor()), y = parts_of(l, b.tensor());
  return {complex_tensor(
      l, {product(l, x.re, y.re) - product(l, x.im, y.im), product(l, x.re, y.im) + product(l, x.im, y.re)})};
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
//
// Composed on every system, and so that MPSGraph does not take it for attention: its own kernel has leaked memory and
// given NaN on macOS 15, and it puts that in place of this very pattern. A sum with zero it sees through; PyTorch adds
// 1e-20 for the same reason.
GraphTensors lower_attention(Lowering& l) {
  const size_t rank = std::max(l.result_dims().size(), l.count() == 4 ? l.dims(3).size() : 0);
  const bool half = size_of(l.dtype()) == 2;
  const auto wide = [&](const Term& x) { return half ? x.cast(DType::float32) : x; };
  const auto source = [&](size_t i) { return wide(operand(l, i, rank)); };
  Term scores = product(l, source(0), turned(source(1))) + 1e-20;
  scores = scores * l.attributes().real("scale");
  const auto mask = l.count() == 4 ? std::optional<Mask>(std::in_place, l, rank) : std::nullopt;
  if (mask) scores = scores + wide(mask->opened());
  const Term weights = scores.with([l.graph() softMaxWithTensor:scores.tensor() axis:-1 name:nil]);
  const Term result = product(l, weights, source(2));
  const Term rounded = half ? result.cast(l.dtype()) : result;
  return mask ? mask->found(rounded) : rounded;
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
  define_lowering("integer_matrix_multiplication", lower_integer_product);
  define_lowering("scaled_dot_product_attention", lower_attention);
  define_lowering("hamming_distance", lower_hamming_distance);
});

}  // namespace mpsgraph::metal
