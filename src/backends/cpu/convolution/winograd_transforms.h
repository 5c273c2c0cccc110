// The linear transforms of Winograd's minimal filtering on vectors of channels, compiled for each instruction set.
//
// For each channel, m x m results of an r x r filter take t x t products, where t = m + r - 1, instead of m² r²:
//   results = Aᵀ [(G weights Gᵀ) ⊙ (Bᵀ source B)] A
// (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, arXiv:1509.09308). ⊙ multiplies element by
// element. Both gradients have the same form; the weight gradient is Gᵀ [(A incoming Aᵀ) ⊙ (Bᵀ source B)] G, summed
// over tiles.
#pragma once

#include <cstdint>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

struct WinogradTransforms {
  // Transform the pixels at from[i], for `channels` channels, into points. Point p of the first channel is stored at
  // to[p * point_stride]. Consecutive panels of channels, each as wide as a GEMM tile, are panel_stride elements apart.
  using Spread = void (*)(const float* const* from, int64_t channels, float* to, int64_t point_stride,
                          int64_t panel_stride);
  // Transform t x t points into pixels at to[i], skipping null pointers. Bit i of `of_zeros` means that pixel i is a
  // sum of zeros only.
  using Collect = void (*)(const float* from, int64_t point_stride, int64_t channels, float* const* to,
                           uint32_t of_zeros, const TileEpilogue<float>& epilogue);
  // Return a bit mask of the t x t pixels at at[i], where bit i means that pixel i has a nonzero channel. The function
  // may set all bits without testing all pixels if every window of r x r pixels contains a nonzero pixel.
  using NotZero = uint64_t (*)(const float* const* at, const float* zeros, int64_t channels);
  int results, taps;  // results and filter taps per axis (m and r)
  // transforms of t x t source pixels with B, m x m incoming pixels with A, and r x r taps with G
  Spread source, incoming, weights;
  Collect result, weights_gradient;  // transforms to m x m results with A, and to r x r taps with G
  NotZero not_zero;

  int points() const { return results + taps - 1; }
  int all_points() const { return points() * points(); }
};

constexpr int most_winograd_points = 7;  // maximum points per axis

// Return the transforms for this processor, or null if there are none for this tile and filter size.
const WinogradTransforms* winograd_transforms(int results, int taps);

// The same for each instruction set.
using FindWinogradTransforms = const WinogradTransforms* (*)(int results, int taps);
MPSGRAPH_OPTIONAL_TABLE(FindWinogradTransforms, find_winograd_transforms);

}  // namespace mpsgraph::cpu
