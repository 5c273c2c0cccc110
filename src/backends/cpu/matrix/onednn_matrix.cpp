// Chooses the kernel of a matmul: GEMV, one of our skinny or tiled kernels, or oneDNN.
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/matrix/onednn_product.h"
#include "backends/cpu/matrix/packed_product.h"
#include "backends/cpu/matrix/skinny_product.h"
#include "backends/cpu/matrix/tiled_product.h"
#include "backends/cpu/onednn_kernel.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// Return the plain kernel, for cases that oneDNN does not support.
std::unique_ptr<Kernel> plain_product(Lowering& lowering) {
  return find_kernel("matrix_multiplication", Precedence::plain)(lowering);
}

bool flag(const Lowering& lowering, std::string_view name) {
  return lowering.attributes().has(name) && lowering.attributes().boolean(name);
}

// GEMV: multiply the rows of a matrix, in place, by a vector. The time is bound by reading the matrix.
std::unique_ptr<Kernel> rows_times_vector(const Operand& matrix, const Operand& vector, const Operand& result,
                                          Slot bias = -1, bool relu = false) {
  return kernel(
      [=, a = matrix.slot, x = vector.slot, y = result.slot, rows = result.elements(),
       n = matrix.dims.back()](Frame& f) {
        const auto dot = float_functions().dot;
        parallel_for(rows, grain_for(n * 4), [&](int64_t begin, int64_t end) {
          float* to = f.at<float>(y);
          for (int64_t row = begin; row < end; ++row) to[row] = dot(f.at<float>(a) + row * n, f.at<float>(x), n);
          if (bias >= 0)
            for (int64_t row = begin; row < end; ++row) to[row] += f.at<float>(bias)[row];
          if (relu)
            // NaN is not below 0, so it stays NaN
            for (int64_t row = begin; row < end; ++row) to[row] = to[row] < 0 ? 0 : to[row];
        });
      },
      "matrix-vector product");
}

// GEMV with a row vector on the left, bound by reading the matrix. Threads divide the columns. If there are few
// columns, threads divide the matrix rows instead, so that each reads them sequentially, and their partial sums are
// added at the end. The ranges of rows depend only on sizes, so the result does not depend on the thread count.
std::unique_ptr<Kernel> row_times_matrix(Lowering& lowering, const Operand& row, const Operand& matrix,
                                         const Operand& result, Slot bias, bool relu) {
  constexpr int64_t wide = 1024, piece_bytes = 65536, most_pieces = 16;
  const int64_t n = result.elements(), k = row.elements();
  const int64_t pieces = n >= wide ? 1 : std::clamp<int64_t>(k * n * 4 / piece_bytes, 1, most_pieces);
  const Slot sums = pieces > 1 ? lowering.scratch(static_cast<size_t>(pieces * n) * sizeof(float)) : result.slot;
  return kernel(
      [=, a = row.slot, b = matrix.slot, y = result.slot](Frame& f) {
        const auto weighted_sum = float_functions().weighted_sum;
        const float *x = f.at<float>(a), *rows = f.at<float>(b);
        float *to = f.at<float>(y), *sum = f.at<float>(sums);
        if (pieces > 1)
          parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t first = k * i / pieces, last = k * (i + 1) / pieces;
              weighted_sum(sum + i * n, x + first, rows + first * n, n, last - first, n);
            }
          });
        else
          parallel_for((n + 15) / 16, grain_for(k * 64), [&](int64_t begin, int64_t end) {
            weighted_sum(sum + begin * 16, x, rows + begin * 16, n, k, std::min(end * 16, n) - begin * 16);
          });
        if (pieces == 1 && bias < 0 && !relu) return;
        for (int64_t i = 0; i < n; ++i) {
          float total = sum[i];
          for (int64_t piece = 1; piece < pieces; ++piece) total += sum[piece * n + i];
          if (bias >= 0) total += f.at<float>(bias)[i];
          to[i] = relu && total < 0 ? 0 : total;  // NaN is not below 0, so it stays NaN
        }
      },
      "vector-matrix product");
}

// Build a packed matmul for operands whose rows are a multiple of 2 KB apart and which oneDNN would read in place. Rows
// 4 KB apart share a single set of the L1 cache. With AVX-512, the packed kernel is faster only if rows are a multiple
// of 4 KB and at least 8 KB apart, so that each row is on its own page. In addition, the result must have fewer than
// 1,024 rows or, if the rows of the left operand are far apart, fewer than 1,024 columns.
std::unique_ptr<Kernel> product_with_far_rows(Lowering& lowering, const Operand& a, const Operand& b, bool transposed,
                                              const ProductEpilogue& extras) {
  if (a.dims.size() != 2 || b.dims.size() != 2 || a.dtype != DType::float32) return nullptr;
  constexpr int64_t far = 512, least_steps = 16;
  const int64_t rows = lowering.output().dims[0], columns = b.dims[1], steps = b.dims[0];
  if (steps < least_steps || onednn_packs(rows, columns, steps, transposed)) return nullptr;
  const int64_t apart = transposed ? rows : columns, others = transposed ? columns : rows;
  const bool has_avx512 = onednn_multiplies_bfloat16(), one_set = apart % (2 * far) == 0;
  if (has_avx512 ? !one_set || apart < 4 * far : apart % far != 0) return nullptr;
  // minimum value of `others` for which packing pays off
  const int64_t least = has_avx512 ? 256 : !one_set ? 64 : transposed ? 48 : 8;
  if (others < least || (has_avx512 && others >= 2 * far)) return nullptr;
  return packed_product(lowering, a, b, transposed, extras);
}

// Return one of our matmul kernels if it is faster than oneDNN, otherwise null. `plain` means that there is no
// epilogue.
std::unique_ptr<Kernel> product_of_ours(Lowering& lowering, const Operand& a, const Operand& b,
                                        const ProductEpilogue& extras, bool plain) {
  const bool transpose_a = flag(lowering, "transpose_a"), transpose_b = flag(lowering, "transpose_b");
  if (!transpose_a && !transpose_b)
    if (auto few = skinny_product(lowering, a, b, extras)) return few;
  if (!transpose_a && transpose_b && plain)
    if (auto few = skinny_product_transposed(lowering, a, b)) return few;
  if (!transpose_a)
    if (auto tiled = tiled_product(lowering, transpose_b, extras)) return tiled;
  return transpose_b ? nullptr : product_with_far_rows(lowering, a, b, transpose_a, extras);
}

std::unique_ptr<Kernel> lower_product(Lowering& lowering) {
  const DType dtype = lowering.output().dtype;
  if (multiplies_in_float32(dtype) && !lowering.reference_only())
    return widened_kernel(lowering, dtype, DType::float32, lower_product);
  const bool fused = lowering.operation().is("fused_matrix_multiplication");
  const Operand a = lowering.input(0), b = lowering.input(1), result = lowering.output();
  const size_t rank = result.dims.size();
  const bool usable =
      !lowering.reference_only() && onednn_type(a.dtype) && result.elements() > 0 && a.elements() > 0 && rank <= 12;
  if (!fused && !usable) return plain_product(lowering);
  const bool vector = b.elements() == a.dims.back() && result.elements() * a.dims.back() == a.elements();
  if (!fused && vector && a.dtype == DType::float32 && !flag(lowering, "transpose_a"))
    return rows_times_vector(a, b, result);
  const Epilogue epilogue(lowering.operation());
  // Size of the inner dimension. Valid only if the operands are a single row and a transposed matrix; the next
  // condition checks this.
  const int64_t k = result.elements() > 0 ? b.elements() / result.elements() : 0;
  if (fused && a.dtype == DType::float32 && flag(lowering, "transpose_b") && !flag(lowering, "transpose_a") &&
      !epilogue.has_residual && a.elements() == k && b.dims.back() == k && b.elements() == k * result.elements())
    return rows_times_vector(b, a, result, epilogue.has_bias ? epilogue.bias(lowering).slot : -1, epilogue.relu);
  const bool one_row = a.elements() == a.dims.back() && b.dims.back() == result.elements();
  if (usable && one_row && a.dtype == DType::float32 && !flag(lowering, "transpose_a") &&
      !flag(lowering, "transpose_b") && !epilogue.has_residual)
    return row_times_matrix(lowering, a, b, result, epilogue.has_bias ? epilogue.bias(lowering).slot : -1,
                            epilogue.relu);
  if (usable) {
    const ProductEpilogue extras{epilogue.has_bias ? epilogue.bias(lowering).slot : -1,
                                 epilogue.has_residual ? epilogue.residual(lowering).slot : -1, epilogue.relu};
    const bool none = !epilogue.has_bias && !epilogue.has_residual && !epilogue.relu;
    if (auto own = product_of_ours(lowering, a, b, extras, none)) return own;
  }
  if (auto product = onednn_product(lowering, epilogue, fused)) return product;
  if (fused) refuse(lowering);
  return plain_product(lowering);
}

}  // namespace

const Kernels onednn_matrix_kernels("onednn_matrix", [] {
  define_kernel("matrix_multiplication", lower_product, Precedence::library);
  define_kernel("fused_matrix_multiplication", lower_product, Precedence::library);
});

}  // namespace mpsgraph::cpu
