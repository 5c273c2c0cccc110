// The loops of layer normalization, once per instruction set: over rows of float32, some of them together.
//
// Halves come as float32: layer_normalization.cpp turns rows before and after. What is computed stands in
// src/core/ops/fused_layer_normalization.cpp.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

constexpr int64_t rows_together = 4;  // of the gradient

// Some rows at most rows_together, each of n elements: where they lie, and one mean and variance for each.
struct LayerRows {
  int64_t n;
  float epsilon;
  const float *x[rows_together], *g[rows_together], *residual[rows_together];  // residuals are null where there is none
  float* dx[rows_together];
  const float *mean, *variance;
};

struct LayerNormalization {
  // y = (x - mean) / sqrt(variance + epsilon) * gamma + beta of one row; gamma and beta may be null.
  void (*forward)(const float* x, int64_t n, const float* gamma, const float* beta, float epsilon, float* y,
                  float* mean, float* variance);
  // dx of `count` rows, plus their residuals. What they give to the gradients of gamma and beta is added to for_gamma
  // and for_beta, which are null where nobody wants them; gamma may be null.
  void (*backward)(const LayerRows& rows, int64_t count, const float* gamma, float* for_gamma, float* for_beta);
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
