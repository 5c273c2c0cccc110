// The table of matmul kernels, in the order in which they are tried, and the matrix-vector kernels.
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/accelerate_product.h"
#include "backends/cpu/matrix/bfloat16_product.h"
#include "backends/cpu/matrix/integer_product.h"
#include "backends/cpu/matrix/matrix.h"
#include "backends/cpu/matrix/packed_product.h"
#include "backends/cpu/matrix/skinny_product.h"
#include "backends/cpu/matrix/tiled_product.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// The operands of a matmul and its epilogue.
struct Product {
  Operand a, b, result;
  bool transpose_a, transpose_b;
  ProductEpilogue extras;

  explicit Product(const Lowering& lowering)
      : a(lowering.input(0)),
        b(lowering.input(1)),
        result(lowering.output()),
        transpose_a(flag(lowering, "transpose_a")),
        transpose_b(flag(lowering, "transpose_b")),
        extras(epilogue_of(lowering)) {}
  bool is_empty() const { return result.elements() == 0 || a.elements() == 0; }
  bool has_epilogue() const { return extras.bias >= 0 || extras.residual >= 0 || extras.relu; }

 private:
  static bool flag(const Lowering& lowering, std::string_view name) {
    return lowering.attributes().has(name) && lowering.attributes().boolean(name);
  }
};

// The reason why kernels of non-empty float32 matrices decline, or an empty string.
std::string not_float(const Product& p) {
  if (p.a.dtype != DType::float32) return cat("computes only float32, not ", p.a.dtype);
  return p.is_empty() ? "an operand is empty" : "";
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

Offer complex(Lowering& lowering) {
  if (!is_complex(lowering.output().dtype)) return decline("computes only complex numbers");
  return complex_product(lowering);
}

Offer integers(Lowering& lowering) {
  if (is_inexact(lowering.output().dtype)) return decline("computes only integers");
  return integer_product(lowering);
}

Offer in_float32(Lowering& lowering) {
  const DType dtype = lowering.output().dtype;
  if (wide_float(dtype) == dtype) return decline("converts only float16 and bfloat16");
  return widened_kernel(lowering, dtype, DType::float32, make_kernel);
}

Offer matrix_vector(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a || p.extras.residual >= 0) return decline("transposes no left operand and adds no residual");
  const bool column = !p.transpose_b && p.b.elements() == p.a.dims.back() &&
                      p.result.elements() * p.a.dims.back() == p.a.elements() && !p.has_epilogue();
  if (column) return rows_times_vector(p.a, p.b, p.result);
  const int64_t steps = p.b.elements() / p.result.elements();
  const bool row = p.transpose_b && p.a.elements() == steps && p.b.dims.back() == steps &&
                   p.b.elements() == steps * p.result.elements();
  if (row) return rows_times_vector(p.b, p.a, p.result, p.extras.bias, p.extras.relu);
  return decline("neither operand is a vector");
}

Offer vector_matrix(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a || p.transpose_b || p.extras.residual >= 0)
    return decline("transposes no operand and adds no residual");
  if (p.a.elements() != p.a.dims.back() || p.b.dims.back() != p.result.elements())
    return decline("the left operand is not a single row");
  return row_times_matrix(lowering, p.a, p.b, p.result, p.extras.bias, p.extras.relu);
}

Offer skinny(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a || (p.transpose_b && p.has_epilogue()))
    return decline("transposes no left operand, and the right one only without an epilogue");
  auto kernel =
      p.transpose_b ? skinny_product_transposed(lowering, p.a, p.b) : skinny_product(lowering, p.a, p.b, p.extras);
  if (!kernel) return decline("computes only a few rows times a matrix of medium size");
  return kernel;
}

#if defined(__APPLE__)
Offer accelerate(Lowering& lowering) {
  const Product p(lowering);
  if (!accelerate_sgemm()) return decline("Accelerate cannot be loaded");
  if (thread_count() == 1) return decline("decides by itself how many threads to use");
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (!suits_library(lowering)) return decline("pays off only for large matrices");
  return library_product(lowering, p.extras, accelerate_sgemm());
}
#endif

Offer tiled(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a) return decline("transposes no left operand");
  auto kernel = tiled_product(lowering, p.transpose_b, p.extras);
  if (!kernel) return decline("packs only small right operands");
  return kernel;
}

Offer packed(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_float(p); !reason.empty()) return decline(reason);
  if (!packing_pays(lowering)) return decline("packs only operands with many rows and columns");
  return packed_product(lowering, p.extras);
}

Offer blocks(Lowering& lowering) {
  const Product p(lowering);
  const DType dtype = p.result.dtype;
  const bool plain = lowering.reference_only(), extended = p.transpose_a || p.transpose_b || p.has_epilogue();
  if (dtype != DType::float32 && dtype != DType::float64 && !plain)
    return decline(cat("computes only float32 and float64, not ", dtype));
  if (!extended) return blocked_product(lowering);
  if (plain) return decline("plain loops transpose no operand and add no epilogue");
  return packed_product(lowering, p.extras);
}

std::vector<Candidate> candidates() {
  return {{"matrix_vector", matrix_vector},
          {"vector_matrix", vector_matrix},
          {"skinny", skinny},
#if defined(__APPLE__)
          {"accelerate", accelerate},
#endif
          {"packed", packed},
          {"tiled", tiled},
          {"bfloat16", bfloat16_product},
          {"in_float32", in_float32},
          {"integers", integers},
          {"complex", complex},
          {"blocks", blocks}};
}

}  // namespace

const Kernels product_candidates_kernels("product_candidates", [] {
  define_candidates("matrix_multiplication", candidates());
  define_candidates("fused_matrix_multiplication", candidates());
});

}  // namespace mpsgraph::cpu
