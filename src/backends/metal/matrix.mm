// Matrix multiplication, also of integers; Hamming distances between bit vectors; and attention.
//
// MPSGraph multiplies real matrices only. float32 represents integers up to 2^24 exactly, so integer products are
// summed in float32 in blocks that stay below that limit, and the blocks are added as integers. Integers of more than 8
// bits are split into bytes, and the products of byte pairs are shifted into place.
// Operands are padded with leading dimensions of size 1 to the same rank, so that MPSGraph only needs to broadcast
// these dimensions. MPSGraph's HammingDistance is not documented well enough to rely on, so distances are composed.
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

// Return operand i with leading dimensions of size 1.
Term operand(const Lowering& l, size_t i, size_t rank) {
  const Term x = Term::input(l, i);
  return l.dims(i).size() == rank ? x : x.reshape(with_rank(l.dims(i), rank));
}

// Before macOS 14.4, MPSGraph computes wrong matmuls if a dimension is above 32768, so these are rejected
// (pytorch/pytorch#116769).
void require_sound(const Lowering& l, const Term& a, const Term& b) {
  if (METAL_AVAILABLE(14.4, 17.4)) return;
  constexpr int64_t most = 32768;
  for (const Term& x : {a, b}) {
    const Dims dims = dims_of(x.tensor().shape);
    for (size_t axis = dims.size() < 2 ? 0 : dims.size() - 2; axis < dims.size(); ++axis)
      if (dims[axis] > most)
        l.unsupported(cat("before macOS 14.4, matmuls with a dimension above ", most, " have wrong results, got shape ",
                          mpsgraph::to_string(dims), "; update macOS, or use device=\"cpu\""));
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

// On M1 and M2, large results are wrong (pytorch/pytorch#122045, #109457). Apple's kernel for matrices overflows where
// (rows + 2 terms) columns reach 2^31 bytes (JuliaGPU/Metal.jl#381); MPSGraph's bound is unknown, so columns are
// computed in parts of half that size.
Term large_product(const Lowering& l, const Term& a, const Term& b) {
  constexpr int64_t most = int64_t{1} << 30;
  const Dims x = dims_of(a.tensor().shape), y = dims_of(b.tensor().shape);
  if (x.size() < 2 || y.size() < 2) return short_product(l, a, b);
  const int64_t columns = y.back(), bytes = a.tensor().dataType == MPSDataTypeFloat32 ? 4 : 2;
  const int64_t each = std::max<int64_t>(1, (most - 1) / ((x[x.size() - 2] + 2 * x.back()) * bytes));
  if (columns <= each) return short_product(l, a, b);
  NSMutableArray<MPSGraphTensor*>* parts = [NSMutableArray array];
  const auto last = static_cast<int64_t>(y.size()) - 1;
  for (int64_t start = 0; start < columns; start += each)
    [parts addObject:short_product(l, a, part_of(b, last, start, std::min(each, columns - start))).tensor()];
  return a.with([l.graph() concatTensors:parts dimension:last name:nil]);
}

// On M1 and M2, Apple's kernel reads out of bounds for sums of more than 32766 terms, on every macOS version
// (pytorch/pytorch#195163). Longer sums are split into partial products.
Term product(const Lowering& l, const Term& a, const Term& b) {
  constexpr int64_t most = 32766, each = 16384;
  const Dims x = dims_of(a.tensor().shape);
  if (x.empty() || x.back() <= most) return large_product(l, a, b);
  const auto last = static_cast<int64_t>(x.size()) - 1;
  std::optional<Term> total;
  for (int64_t start = 0; start < x.back(); start += each) {
    const int64_t length = std::min(each, x.back() - start);
    const Term some = large_product(l, part_of(a, last, start, length), part_of(b, last - 1, start, length));
    total = total ? *total + some : some;
  }
  return *total;
}

// --- integers --------------------------------------------------------------------------------------------------------

constexpr int64_t largest_byte = 255;

// Return the matmul of integers up to 255 in magnitude, stored as float32. The result is an integer tensor.
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

// Split x into bytes, lowest first, converted to float32.
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

// The product of byte i of a and byte j of b is shifted by 8 (i + j) bits; shifts beyond the dtype's width contribute
// nothing. Bytes are extracted in a dtype that holds 255. A right shift may shift in the sign, which the mask removes.
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

// Whether one matrix is multiplied with all rows of the other operand, as in a linear layer, and the batch dimensions
// can be merged into the rows. Merging needs two reshapes around the matmul, which MPSGraph's compiler mishandles since
// macOS 26 if several dimensions are 1 or there are more than four (pytorch/pytorch#187201).
bool merges_rows(const Dims& x, const Dims& matrix) {
  const auto ends = [](const Dims& dims, ptrdiff_t kept) { return dims.end() - kept; };
  return x.size() > 2 && x.size() <= 4 && matrix.size() <= x.size() &&
         std::all_of(matrix.begin(), ends(matrix, 2), [](int64_t n) { return n == 1; }) &&
         std::count(x.begin(), ends(x, 1), 1) <= 1;
}

// Products with one matrix get two dimensions. With more dimensions, a bias is added wrongly if the rows are single
// (pytorch/pytorch#188438) or if there are more than 65536 batches (#189495). Products of float16 and bfloat16 with
// more than two dimensions change from run to run on M5 (#180776) and abort on macOS 27 (#197796), so the remaining
// ones are computed in float32.
Term product_of_floats(const Lowering& l) {
  const Dims x = l.dims(0), matrix = l.dims(1);
  if (merges_rows(x, matrix)) {
    const int64_t rows = element_count(Dims(x.begin(), x.end() - 1));
    const Term a = Term::input(l, 0).reshape({rows, x.back()});
    const Term b = Term::input(l, 1);
    return product(l, a, matrix.size() == 2 ? b : b.reshape(Dims(matrix.end() - 2, matrix.end())))
        .reshape(l.result_dims());
  }
  const size_t rank = l.result_dims().size();
  const Term a = operand(l, 0, rank), b = operand(l, 1, rank);
  if (rank > 2 && size_of(l.dtype()) == 2)
    return product(l, a.cast(DType::float32), b.cast(DType::float32)).cast(l.dtype());
  return product(l, a, b);
}

GraphTensors lower_matrix_multiplication(Lowering& l) {
  if (!is_integer(l.dtype()) && !is_complex(l.dtype()) && l.dtype() != DType::boolean) return product_of_floats(l);
  const size_t rank = l.result_dims().size();
  const Term a = operand(l, 0, rank), b = operand(l, 1, rank);
  if (l.dtype() == DType::boolean) return product(l, a.cast(DType::float32), b.cast(DType::float32)) != 0;
  if (is_integer(l.dtype())) return product_of_integers(l, a, b);
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

// A query whose mask excludes all keys must return zeros, but a softmax over no keys is NaN. Therefore, opened()
// changes the mask so that such a query attends to all keys, and found() replaces the result of that query with zeros.
struct Mask {
  Mask(const Lowering& l, size_t rank) : added(operand(l, 3, rank)), blind(blind_rows(added, rank)) {}

  static Term blind_rows(const Term& mask, size_t rank) {
    const Ints keys{static_cast<int64_t>(rank) - 1};
    const Term x = mask.cast(DType::float32);  // extrema of bfloat16 are not reliable in MPSGraph
    return x.with([x.graph() reductionMaximumWithTensor:x.tensor() axes:numbers(keys)
                                                   name:nil]) == -std::numeric_limits<double>::infinity();
  }
  Term opened() const { return select(blind, 0.0, added); }
  Term found(const Term& result) const { return select(blind, 0.0, result); }

  Term added, blind;
};

// Attention is softmax(scale Q Kᵀ + M) V for queries Q, keys K, values V, and mask M. It is computed in float32 even
// for float16 and bfloat16, because scores are long sums.
//
// Attention is composed on every system so that MPSGraph does not recognize it. MPSGraph replaces the plain pattern
// with its own kernel, which leaked memory and returned NaN on macOS 15. MPSGraph optimizes an addition of zero away,
// so a tiny number is added; PyTorch adds 1e-20 for the same reason.
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

// The Hamming distance between vectors counts the bits that differ: the set bits in a[.., m, 1, k] xor b[.., 1, n, k],
// summed over k.
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
