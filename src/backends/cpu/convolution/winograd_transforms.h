// The linear maps of Winograd's minimal filtering, over vectors of channels, for each vector set.
//
// A tile of m x m results of a kernel of r x r taps takes t x t products a channel, t = m + r - 1, instead of m² r²:
//   results = Aᵀ [(G weights Gᵀ) ⊙ (Bᵀ source B)] A
// (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, arXiv:1509.09308). Both gradients are of
// the same form; that of the weights is Gᵀ [(A incoming Aᵀ) ⊙ (Bᵀ source B)] G, summed over tiles.
#pragma once

#include <cstdint>

#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

struct WinogradTransforms {
  // Of the vectors that lie at from[i], for `channels` of them; to[point * point_stride] of the first channel. Panels
  // of a tile's columns lie panel_stride apart.
  using Spread = void (*)(const float* const* from, int64_t channels, float* to, int64_t point_stride,
                          int64_t panel_stride);
  // Of t x t points to to[i], where that is not null. Bit i of `of_zeros`: a sum of nothing but zeros goes there.
  using Collect = void (*)(const float* from, int64_t point_stride, int64_t channels, float* const* to,
                           uint32_t of_zeros, const TileEpilogue<float>& epilogue);
  // Of the t x t pixels that lie at at[i]. Bit i of the answer: not all channels of this one are zero. Where each
  // window of r x r pixels has such a pixel, all bits may be set.
  using NotZero = uint64_t (*)(const float* const* at, const float* zeros, int64_t channels);
  int results, taps;  // of one axis: m and r
  Spread source, incoming, weights;  // t x t by B, m x m by A, r x r by G
  Collect result, weights_gradient;  // to m x m by A, to r x r by G
  NotZero not_zero;

  int points() const { return results + taps - 1; }
  int all_points() const { return points() * points(); }
};

constexpr int most_winograd_points = 7;  // of one axis

// Those of the processor's vectors; null: there are none for such a tile.
const WinogradTransforms* winograd_transforms(int results, int taps);

namespace avx2 {
const WinogradTransforms* winograd_transforms(int results, int taps);
}
namespace avx512 {
const WinogradTransforms* winograd_transforms(int results, int taps);
}

}  // namespace mpsgraph::cpu
