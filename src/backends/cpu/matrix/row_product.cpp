// GEMV kernels. They read the matrix in place, once. Its elements are widened in registers, and the sums are rounded
// once, at the end.
#include "backends/cpu/matrix/row_product.h"

#include <algorithm>

#include "backends/cpu/matrix/row_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// The loops for a matrix of this dtype, or null if there are none.
const RowLoops* loops_for(DType dtype) {
  const RowTiles& tiles = row_tiles();
  switch (dtype) {
    case DType::float32: return &tiles.floats;
    case DType::float16: return &tiles.halves;
    case DType::bfloat16: return &tiles.bfloats;
    case DType::int8: return &tiles.signed_bytes;
    case DType::uint8: return &tiles.unsigned_bytes;
    default: return nullptr;
  }
}

// The vector as float32, in `wide` unless it has that type.
template <class T>
const float* widened(const T* x, float* wide, int64_t n) {
  if constexpr (std::is_same_v<T, float>) return x;
  for (int64_t i = 0; i < n; ++i) wide[i] = static_cast<float>(x[i]);
  return wide;
}

template <class T>
struct Finish {
  Slot bias;
  bool relu;

  T operator()(Frame& f, float total, int64_t i) const {
    if (bias >= 0) total += static_cast<float>(f.at<T>(bias)[i]);
    return T(relu && total < 0 ? 0.0f : total);  // NaN is not below 0, so it stays NaN
  }
};

template <class T>
Slot scratch(Lowering& lowering, int64_t elements) {
  return std::is_same_v<T, float> ? -1 : lowering.scratch(static_cast<size_t>(elements) * sizeof(float));
}

// The dtype of a matrix that is widened to that of the vector, for descriptions.
std::string of_type(const Operand& matrix, const Operand& result) {
  return matrix.dtype == result.dtype ? "" : cat(" with a matrix of ", matrix.dtype);
}

float* at_or_null(Frame& f, Slot slot) { return slot < 0 ? nullptr : f.at<float>(slot); }

// Zero points or scales, one for each of n elements of the result.
class Numbers {
 public:
  Numbers(Lowering& lowering, const std::optional<Operand>& given, int64_t n) : n_(n) {
    if (!given) return;
    given_ = given->slot;
    if (given->elements() < n) repeated_ = lowering.scratch(static_cast<size_t>(n) * sizeof(float));
  }
  const float* in(Frame& f) const {
    if (given_ < 0 || repeated_ < 0) return at_or_null(f, given_);
    std::fill_n(f.at<float>(repeated_), n_, *f.at<float>(given_));
    return f.at<float>(repeated_);
  }

 private:
  Slot given_ = -1, repeated_ = -1;
  int64_t n_;
};

template <class T>
std::unique_ptr<Kernel> rows_times(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                   const Operand& result, Finish<T> finish, const QuantizedMatrix& quantized) {
  constexpr int64_t piece = 64;  // rows whose sums are kept until the epilogue
  const int64_t n = matrix.dims.back(), bytes = n * static_cast<int64_t>(size_of(matrix.dtype));
  return kernel(
      [=, loops = loops_for(matrix.dtype), a = matrix.slot, x = vector.slot, y = result.slot, rows = result.elements(),
       wide = scratch<T>(lowering, n), zeros = Numbers(lowering, quantized.zero, result.elements()),
       scales = Numbers(lowering, quantized.scale, result.elements())](Frame& f) {
        const float* by = widened(f.at<T>(x), at_or_null(f, wide), n);
        const RowParameters parameters{zeros.in(f), scales.in(f)};
        parallel_for(rows, grain_for(bytes), [&](int64_t begin, int64_t end) {
          float sums[piece];
          for (int64_t row = begin; row < end; row += piece) {
            const int64_t count = std::min(piece, end - row);
            loops->dots(sums, f.at<std::byte>(a) + row * bytes, parameters.from(row), by, count, n);
            for (int64_t i = 0; i < count; ++i) f.at<T>(y)[row + i] = finish(f, sums[i], row + i);
          }
        });
      },
      cat("matrix-vector product", of_type(matrix, result)));
}

// Threads divide the rows of a large or narrow matrix, so that each reads adjacent memory, and their partial sums are
// added at the end. They divide the columns of other matrices. Both depend only on sizes, so the result does not depend
// on the number of threads.
template <class T>
std::unique_ptr<Kernel> row_times(Lowering& lowering, const Operand& row, const Operand& matrix, const Operand& result,
                                  Finish<T> finish, const QuantizedMatrix& quantized) {
  constexpr int64_t wide_matrix = 1024, narrow_piece = 65536, wide_piece = 1 << 20, most_pieces = 16;
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  const int64_t n = result.elements(), k = row.elements(), bytes = k * n * size;
  const int64_t pieces = std::clamp<int64_t>(bytes / (n < wide_matrix ? narrow_piece : wide_piece), 1,
                                             std::clamp<int64_t>(k / 16, 1, most_pieces));
  const bool in_place = std::is_same_v<T, float> && pieces == 1;
  const Slot sums = in_place ? result.slot : lowering.scratch(static_cast<size_t>(pieces * n) * sizeof(float));
  return kernel(
      [=, weighted_sum = loops_for(matrix.dtype)->weighted_sum, a = row.slot, b = matrix.slot, y = result.slot,
       wide = scratch<T>(lowering, k), zeros = Numbers(lowering, quantized.zero, n),
       scales = Numbers(lowering, quantized.scale, n)](Frame& f) {
        const float* x = widened(f.at<T>(a), at_or_null(f, wide), k);
        const RowParameters parameters{zeros.in(f), scales.in(f)};
        const std::byte* rows = f.at<std::byte>(b);
        float* sum = f.at<float>(sums);
        if (pieces > 1)
          parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t first = k * i / pieces, last = k * (i + 1) / pieces;
              weighted_sum(sum + i * n, x + first, rows + first * n * size, parameters, n, last - first, n);
            }
          });
        else
          parallel_for((n + 63) / 64, grain_for(k * 64 * size), [&](int64_t begin, int64_t end) {
            weighted_sum(sum + begin * 64, x, rows + begin * 64 * size, parameters.from(begin * 64), n, k,
                         std::min(end * 64, n) - begin * 64);
          });
        if (in_place && finish.bias < 0 && !finish.relu) return;
        for (int64_t i = 0; i < n; ++i) {
          float total = sum[i];
          for (int64_t piece = 1; piece < pieces; ++piece) total += sum[piece * n + i];
          f.at<T>(y)[i] = finish(f, total, i);
        }
      },
      cat("vector-matrix product", of_type(matrix, result)));
}

}  // namespace

bool reads_rows_of(DType dtype) { return loops_for(dtype) != nullptr; }

std::unique_ptr<Kernel> rows_times_vector(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                          const Operand& result, Slot bias, bool relu,
                                          const QuantizedMatrix& quantized) {
  switch (result.dtype) {
    case DType::float16: return rows_times<Half>(lowering, matrix, vector, result, {bias, relu}, quantized);
    case DType::bfloat16: return rows_times<BFloat16>(lowering, matrix, vector, result, {bias, relu}, quantized);
    default: return rows_times<float>(lowering, matrix, vector, result, {bias, relu}, quantized);
  }
}

std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu,
                                         const QuantizedMatrix& quantized) {
  switch (result.dtype) {
    case DType::float16: return row_times<Half>(lowering, row, matrix, result, {bias, relu}, quantized);
    case DType::bfloat16: return row_times<BFloat16>(lowering, row, matrix, result, {bias, relu}, quantized);
    default: return row_times<float>(lowering, row, matrix, result, {bias, relu}, quantized);
  }
}

}  // namespace mpsgraph::cpu
