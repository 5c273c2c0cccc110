// Layer normalization loops, compiled for each instruction set, over several rows of T (float32 or float64) at a time.
//
// Half precision is passed as float32; layer_normalization.cpp converts the operands before and the results after these
// loops. The formulas are in src/core/ops/fused_layer_normalization.cpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

constexpr int64_t rows_together = 4;  // maximum number of rows that the gradient processes together

// Up to rows_together rows of n elements: the addresses of their data, and one mean and variance per row.
template <class T>
struct LayerRows {
  int64_t n;
  T epsilon;
  const T *x[rows_together], *g[rows_together], *residual[rows_together];  // entries of `residual` may be null
  T* dx[rows_together];
  const T *mean, *variance;
};

template <class T>
struct LayerLoops {
  // Compute y = (x - mean) / sqrt(variance + epsilon) * gamma + beta for one row; gamma and beta may be null.
  void (*forward)(const T* x, int64_t n, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* variance);
  // Compute dx of `count` rows, and add the residual of each row that has one. The contributions of these rows to the
  // gradients of gamma and beta are added to for_gamma and for_beta, which are null if not needed; gamma may be null.
  void (*backward)(const LayerRows<T>& rows, int64_t count, const T* gamma, T* for_gamma, T* for_beta);
};

struct LayerNormalization {
  LayerLoops<float> of_floats;
  LayerLoops<double> of_doubles;

  template <class T>
  const LayerLoops<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return of_floats;
    else
      return of_doubles;
  }
};

MPSGRAPH_VECTOR_TABLE(LayerNormalization, layer_normalization);

}  // namespace mpsgraph::cpu
