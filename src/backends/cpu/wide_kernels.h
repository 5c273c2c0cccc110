// Kernels for half precision and short integers that compute in a wider type: the operands are converted into scratch
// memory, the kernel for the wide type reads the converted operands, and its results are converted back.
//
// These kernels implement operations that are rarely applied to narrow types and whose loops would compute in the wide
// type anyway. The results are the same, and there is one fewer loop to compile for each narrow type.
#pragma once

#include <memory>

#include "backends/cpu/dispatch.h"

namespace mpsgraph::cpu {

// Return the type in which a kernel computes: float32 for half precision, 32-bit integers for shorter integers, and
// `dtype` itself for all other types.
DType wide_float(DType dtype);
DType wide_integer(DType dtype);

// Build a kernel with `lower`, to which operands of type `narrow` appear as operands of type `wide`. Integer results
// wrap when they are converted back.
std::unique_ptr<Kernel> widened_kernel(Lowering& lowering, DType narrow, DType wide, Lower lower);

// Call f with the float type `dtype`, from within the kernel factory `lower`. For half precision, call `lower` again
// with float32 operands instead.
template <class F>
std::unique_ptr<Kernel> dispatch_wide(Lowering& lowering, DType dtype, Lower lower, const F& f) {
  if (const DType wide = wide_float(dtype); wide != dtype) return widened_kernel(lowering, dtype, wide, lower);
  if (dtype == DType::float32) return f(Type<float>{});
  if (dtype == DType::float64) return f(Type<double>{});
  unsupported(lowering, dtype);
}

}  // namespace mpsgraph::cpu
