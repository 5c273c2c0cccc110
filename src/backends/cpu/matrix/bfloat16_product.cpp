// Presents matmuls to the convolution kernels.
#include "backends/cpu/matrix/bfloat16_product.h"

#include "backends/cpu/convolution/convolution_tap_kernels.h"

namespace mpsgraph::cpu {
namespace {

// A convolution of `rows` images of one pixel with one tap.
TapPlan one_tap(int64_t rows, int64_t inputs, int64_t outputs) {
  return {.images = rows,
          .inputs = inputs,
          .outputs = outputs,
          .from_image = inputs,
          .to_image = outputs,
          .taps = {0},
          .classes = {{.runs = {{0, 0, inputs}}, .pixels = {{0, 0}}}}};
}

// left^T x right: the gradient kernel expects the incoming gradient, which is the right operand, first.
struct Swapped final : LoweringView {
  using LoweringView::LoweringView;
  Operand input(size_t i) const override { return given.input(1 - i); }
};

bool flag(const Lowering& lowering, std::string_view name) {
  return lowering.attributes().has(name) && lowering.attributes().boolean(name);
}

}  // namespace

Offer bfloat16_product(Lowering& lowering) {
  const Operand a = lowering.input(0), b = lowering.input(1), result = lowering.output();
  for (const DType dtype : {result.dtype, b.dtype})
    if (dtype != DType::bfloat16) return decline(cat("computes only bfloat16, not ", dtype));
  if (!convolution_tiles<BFloat16, float>()) return decline("the processor has no vectors of 64 bytes");
  if (result.elements() == 0 || a.elements() == 0) return decline("an operand is empty");
  const bool transpose_a = flag(lowering, "transpose_a"), transpose_b = flag(lowering, "transpose_b");
  const ProductEpilogue extras = epilogue_of(lowering);
  const bool several = b.elements() != b.dims.back() * b.dims[b.dims.size() - 2];
  if (several || (transpose_a && a.dims.size() > 2)) return decline("computes no batches of matrices");
  if (transpose_a && (transpose_b || extras.bias >= 0 || extras.residual >= 0 || extras.relu))
    return decline("transposes the left operand only without an epilogue and if the right one is not transposed");
  const int64_t columns = result.dims.back(), inner = a.dims.back();
  if (inner % 2 != 0 || columns % 2 != 0) return decline("needs even numbers of columns");
  if (transpose_a) {
    Swapped swapped(lowering);
    return tap_weights_gradient(swapped, DType::bfloat16, one_tap(a.dims[0], inner, columns),
                                TapWeights(inner, columns, columns, 1), true);
  }
  TapWeights weights = transpose_b ? TapWeights(inner, columns, 1, inner) : TapWeights(inner, columns, columns, 1);
  return tap_product(lowering, DType::bfloat16, one_tap(a.elements() / inner, inner, columns), std::move(weights),
                     extras);
}

}  // namespace mpsgraph::cpu
