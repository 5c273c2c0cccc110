// The table of matmul kernels, in the order in which they are tried, and the matrix-vector kernels.
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/accelerate_product.h"
#include "backends/cpu/matrix/bfloat16_product.h"
#include "backends/cpu/matrix/integer_product.h"
#include "backends/cpu/matrix/matrix.h"
#include "backends/cpu/matrix/packed_product.h"
#include "backends/cpu/matrix/row_product.h"
#include "backends/cpu/matrix/skinny_product.h"
#include "backends/cpu/matrix/tiled_product.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// The operands of a matmul and its epilogue.
struct Product {
  Operand a, b, result;
  bool transpose_a, transpose_b;
  ProductEpilogue extras;
  QuantizedMatrix quantized;  // b

  explicit Product(const Lowering& lowering)
      : a(lowering.input(0)),
        b(lowering.input(1)),
        result(lowering.output()),
        transpose_a(flag(lowering, "transpose_a")),
        transpose_b(flag(lowering, "transpose_b")),
        extras(epilogue_of(lowering)) {
    size_t next = 2 + (extras.bias >= 0) + (extras.residual >= 0);
    if (flag(lowering, "has_zero")) quantized.zero = lowering.input(next++);
    if (flag(lowering, "has_scale")) quantized.scale = lowering.input(next);
  }
  bool is_empty() const { return result.elements() == 0 || a.elements() == 0; }
  bool has_epilogue() const { return extras.bias >= 0 || extras.residual >= 0 || extras.relu; }

 private:
  static bool flag(const Lowering& lowering, std::string_view name) {
    return lowering.attributes().has(name) && lowering.attributes().boolean(name);
  }
};

// The reason why kernels of operands of one dtype decline, or an empty string. The compiler only leaves the conversion
// of a narrower matrix to kernels if it is multiplied by a single row.
std::string mixed(const Product& p) {
  return p.a.dtype == p.b.dtype ? "" : cat("computes no product of ", p.a.dtype, " and ", p.b.dtype);
}

// The reason why kernels of non-empty float32 matrices decline, or an empty string.
std::string not_float(const Product& p) {
  if (std::string reason = mixed(p); !reason.empty()) return reason;
  if (p.a.dtype != DType::float32) return cat("computes only float32, not ", p.a.dtype);
  return p.is_empty() ? "an operand is empty" : "";
}

// The reason why matrix-vector kernels decline, or an empty string.
std::string not_narrow_float(const Product& p) {
  const DType dtype = p.a.dtype;
  if (!reads_rows_of(p.b.dtype)) return cat("reads no matrix of ", p.b.dtype);
  if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16)
    return cat("computes only float32, float16, and bfloat16, not ", dtype);
  return p.is_empty() ? "an operand is empty" : "";
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
  if (std::string reason = mixed(Product(lowering)); !reason.empty()) return decline(reason);
  const DType dtype = lowering.output().dtype;
  if (wide_float(dtype) == dtype) return decline("converts only float16 and bfloat16");
  return widened_kernel(lowering, dtype, DType::float32, make_kernel);
}

Offer matrix_vector(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_narrow_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a || p.extras.residual >= 0) return decline("transposes no left operand and adds no residual");
  const bool column = mixed(p).empty() && !p.transpose_b && p.b.elements() == p.a.dims.back() &&
                      p.result.elements() * p.a.dims.back() == p.a.elements() && !p.has_epilogue();
  if (column) return rows_times_vector(lowering, p.a, p.b, p.result);
  const int64_t steps = p.b.elements() / p.result.elements();
  const bool row = p.transpose_b && p.a.elements() == steps && p.b.dims.back() == steps &&
                   p.b.elements() == steps * p.result.elements();
  if (row) return rows_times_vector(lowering, p.b, p.a, p.result, p.extras.bias, p.extras.relu, p.quantized);
  return decline("neither operand is a vector");
}

Offer vector_matrix(Lowering& lowering) {
  const Product p(lowering);
  if (const std::string reason = not_narrow_float(p); !reason.empty()) return decline(reason);
  if (p.transpose_a || p.transpose_b || p.extras.residual >= 0)
    return decline("transposes no operand and adds no residual");
  if (p.a.elements() != p.a.dims.back() || p.b.dims.back() != p.result.elements())
    return decline("the left operand is not a single row");
  return row_times_matrix(lowering, p.a, p.b, p.result, p.extras.bias, p.extras.relu, p.quantized);
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
  if (std::string reason = mixed(p); !reason.empty()) return decline(reason);
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
