// Matmuls of float32 matrices with Apple's Accelerate, which uses the matrix units of Apple's processors. These units
// are several times as fast as NEON, and no other code may use them directly.
#pragma once

#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// cblas_sgemm, as every CBLAS declares it: order, transpositions, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

// Return Accelerate's function, or null on systems other than macOS and iOS.
Sgemm* accelerate_sgemm();

// Return whether a matmul is large enough for a call of the library to pay off, and its sizes fit in an int.
bool suits_library(const Lowering& lowering);
// Build a float32 matmul that calls `sgemm` for each product of a batch, and then applies the epilogue.
std::unique_ptr<Kernel> library_product(Lowering& lowering, const ProductEpilogue& extras, Sgemm* sgemm);

}  // namespace mpsgraph::cpu
