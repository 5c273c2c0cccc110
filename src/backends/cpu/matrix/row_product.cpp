// GEMV kernels. They read the matrix where it lies, once. Half precision is widened in registers, and the sums are
// rounded once, at the end.
#include "backends/cpu/matrix/row_product.h"

#include <algorithm>

#include "backends/cpu/matrix/row_tiles.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

template <class T>
const RowLoops<T>& loops() {
  if constexpr (std::is_same_v<T, Half>)
    return row_tiles().halves;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return row_tiles().bfloats;
  else
    return row_tiles().floats;
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

float* at_or_null(Frame& f, Slot slot) { return slot < 0 ? nullptr : f.at<float>(slot); }

template <class T>
std::unique_ptr<Kernel> rows_times(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                   const Operand& result, Finish<T> finish) {
  const int64_t n = matrix.dims.back();
  return kernel(
      [=, a = matrix.slot, x = vector.slot, y = result.slot, rows = result.elements(),
       wide = scratch<T>(lowering, n)](Frame& f) {
        const auto dot = loops<T>().dot;
        const float* by = widened(f.at<T>(x), at_or_null(f, wide), n);
        parallel_for(rows, grain_for(n * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            f.at<T>(y)[row] = finish(f, dot(f.at<T>(a) + row * n, by, n), row);
        });
      },
      "matrix-vector product");
}

// Threads divide the rows of a large or narrow matrix, so that each reads adjacent memory, and their partial sums are
// added at the end. They divide the columns of other matrices. Both depend only on sizes, so the result does not depend
// on the number of threads.
template <class T>
std::unique_ptr<Kernel> row_times(Lowering& lowering, const Operand& row, const Operand& matrix, const Operand& result,
                                  Finish<T> finish) {
  constexpr int64_t wide_matrix = 1024, narrow_piece = 65536, wide_piece = 1 << 20, most_pieces = 16;
  const int64_t n = result.elements(), k = row.elements(), bytes = k * n * static_cast<int64_t>(sizeof(T));
  const int64_t pieces = std::clamp<int64_t>(bytes / (n < wide_matrix ? narrow_piece : wide_piece), 1,
                                             std::clamp<int64_t>(k / 16, 1, most_pieces));
  const bool in_place = std::is_same_v<T, float> && pieces == 1;
  const Slot sums = in_place ? result.slot : lowering.scratch(static_cast<size_t>(pieces * n) * sizeof(float));
  return kernel(
      [=, a = row.slot, b = matrix.slot, y = result.slot, wide = scratch<T>(lowering, k)](Frame& f) {
        const auto weighted_sum = loops<T>().weighted_sum;
        const float* x = widened(f.at<T>(a), at_or_null(f, wide), k);
        const T* rows = f.at<T>(b);
        float* sum = f.at<float>(sums);
        if (pieces > 1)
          parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t first = k * i / pieces, last = k * (i + 1) / pieces;
              weighted_sum(sum + i * n, x + first, rows + first * n, n, last - first, n);
            }
          });
        else
          parallel_for((n + 63) / 64, grain_for(k * 256), [&](int64_t begin, int64_t end) {
            weighted_sum(sum + begin * 64, x, rows + begin * 64, n, k, std::min(end * 64, n) - begin * 64);
          });
        if (in_place && finish.bias < 0 && !finish.relu) return;
        for (int64_t i = 0; i < n; ++i) {
          float total = sum[i];
          for (int64_t piece = 1; piece < pieces; ++piece) total += sum[piece * n + i];
          f.at<T>(y)[i] = finish(f, total, i);
        }
      },
      "vector-matrix product");
}

}  // namespace

std::unique_ptr<Kernel> rows_times_vector(Lowering& lowering, const Operand& matrix, const Operand& vector,
                                          const Operand& result, Slot bias, bool relu) {
  switch (result.dtype) {
    case DType::float16: return rows_times<Half>(lowering, matrix, vector, result, {bias, relu});
    case DType::bfloat16: return rows_times<BFloat16>(lowering, matrix, vector, result, {bias, relu});
    default: return rows_times<float>(lowering, matrix, vector, result, {bias, relu});
  }
}

std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu) {
  switch (result.dtype) {
    case DType::float16: return row_times<Half>(lowering, row, matrix, result, {bias, relu});
    case DType::bfloat16: return row_times<BFloat16>(lowering, row, matrix, result, {bias, relu});
    default: return row_times<float>(lowering, row, matrix, result, {bias, relu});
  }
}

}  // namespace mpsgraph::cpu
