// The loops of layer normalization, once per instruction set: over rows of T, float32 or float64, some at a time.
//
// Halves come as float32: layer_normalization.cpp turns rows before and after. What is computed stands in
// src/core/ops/fused_layer_normalization.cpp.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mpsgraph::cpu {

constexpr int64_t rows_together = 4;  // of the gradient

// Some rows at most rows_together, each of n elements: where they lie, and one mean and variance for each.
template <class T>
struct LayerRows {
  int64_t n;
  T epsilon;
  const T *x[rows_together], *g[rows_together], *residual[rows_together];  // residuals are null where there is none
  T* dx[rows_together];
  const T *mean, *variance;
};

template <class T>
struct LayerLoops {
  // y = (x - mean) / sqrt(variance + epsilon) * gamma + beta of one row; gamma and beta may be null.
  void (*forward)(const T* x, int64_t n, const T* gamma, const T* beta, T epsilon, T* y, T* mean, T* variance);
  // dx of `count` rows, plus their residuals. What they give to the gradients of gamma and beta is added to for_gamma
  // and for_beta, which are null where nobody wants them; gamma may be null.
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

namespace baseline {
extern const LayerNormalization layer_normalization;
}
namespace avx2 {
extern const LayerNormalization layer_normalization;
}
namespace avx512 {
extern const LayerNormalization layer_normalization;
}

}  // namespace mpsgraph::cpu
