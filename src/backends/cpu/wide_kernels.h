// Kernels for halves and short integers by way of wider numbers: the operands are converted into scratch memory, a
// kernel for the wide type computes there, and its results are converted back.
//
// For operations that are seldom run on narrow types, and whose loops compute in the wide type anyway, so that the
// results are the same: a loop less to compile for each narrow type.
#pragma once

#include <memory>

#include "backends/cpu/dispatch.h"

namespace mpsgraph::cpu {

// What halves compute in, and what integers of less than 32 bits do; any other type itself.
DType wide_float(DType dtype);
DType wide_integer(DType dtype);

// Are products and convolutions of these halves computed in float32? Few processors have float16's arithmetic, and
// oneDNN takes bfloat16 only from AVX-512 on.
bool multiplies_in_float32(DType dtype);

// `lower` sees operands of type `narrow` as ones of type `wide`. Integers wrap.
std::unique_ptr<Kernel> widened_kernel(Lowering& lowering, DType narrow, DType wide, Lower lower);

// As dispatch_float within `lower`, which for halves is run once more with wide operands.
template <class F>
std::unique_ptr<Kernel> dispatch_wide(Lowering& lowering, DType dtype, Lower lower, const F& f) {
  if (const DType wide = wide_float(dtype); wide != dtype) return widened_kernel(lowering, dtype, wide, lower);
  if (dtype == DType::float32) return f(Type<float>{});
  if (dtype == DType::float64) return f(Type<double>{});
  unsupported(lowering, dtype);
}

}  // namespace mpsgraph::cpu
