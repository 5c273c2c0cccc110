// Convolutions with fewer multiply-adds: in tiles, by Winograd's minimal filtering (winograd_transforms.h).
//
// A tile of m x m results is computed from t x t sums of products, t = m + r - 1, where r x r taps one by one would
// take m² r²: 49 instead of 225 for 3 x 3 results of 5 x 5 taps. With a stride of s, the source is s² images of every
// s-th pixel, its phases, and the weights are as many kernels; phases are like further channels. For the derivative
// with respect to the source it is the result that has phases. What tiles lie beyond the image is computed and not
// used.
//
// Transforms round, so that errors are up to four times as large as those of products by taps,
// and an infinity makes NaN of its whole tile.
#pragma once

#include <optional>

#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/convolution/winograd_transforms.h"

namespace mpsgraph::cpu {

// Pixels of an image that tiles read, or write.
struct WinogradSide {
  int64_t size;  // of a tile, on either axis
  int64_t phases;  // on either axis
  int64_t channels;
  int64_t image;  // elements
  std::array<std::vector<int64_t>, 2> offsets;  // of an axis: [tile][phase][pixel], in elements; -1: outside

  int64_t all_phases() const { return phases * phases; }
  // Where the size x size pixels of a tile in a phase lie.
  template <class T>
  void find(int64_t y, int64_t x, int64_t phase, T* image, T* outside, T** at) const {
    const int64_t* rows = offsets[0].data() + (y * phases + phase / phases) * size;
    const int64_t* columns = offsets[1].data() + (x * phases + phase % phases) * size;
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) *at++ = rows[i] < 0 || columns[j] < 0 ? outside : image + rows[i] + columns[j];
  }
};

struct WinogradPlan {
  const WinogradTransforms* transforms;
  int64_t images;
  std::array<int64_t, 2> tiles;  // of an image
  WinogradSide source, result;
  int64_t row_taps;  // of the kernel's rows

  int64_t tiles_of_image() const { return tiles[0] * tiles[1]; }
  int64_t all_tiles() const { return images * tiles_of_image(); }
  int64_t inputs() const { return source.all_phases() * source.channels; }
  int64_t outputs() const { return result.all_phases() * result.channels; }
  int64_t points_of_weights() const { return transforms->all_points() * inputs() * outputs(); }
  int64_t products() const { return all_tiles() * points_of_weights(); }  // multiply-adds of the sums
  // The taps of a phase, in the order of TapPlan: taps x taps of them.
  int64_t tap(int64_t phase, int64_t phases, int i, int j) const {
    return (i * phases + phase / phases) * row_taps + j * phases + phase % phases;
  }
  // f(tile, pointer to its image's beginning in a side, y, x) for tiles [begin, end) of all images.
  template <class F>
  void for_each_tile(int64_t begin, int64_t end, const F& f) const {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t place = tile % tiles_of_image();
      f(tile - begin, tile / tiles_of_image(), place / tiles[1], place % tiles[1]);
    }
  }
  std::string text() const;
};

enum class ConvolutionPart { forward, data_gradient, weights_gradient };

// How this convolution, or one of its gradients, runs in tiles, if it can, and takes less time so than the products of
// `taps`, which is its plan by taps.
std::optional<WinogradPlan> winograd_plan(const ConvolutionPlan& p, const TapPlan& taps, ConvolutionPart part);

// Result = source x weights, operands 0 and 1, float32.
std::unique_ptr<Kernel> winograd_product(Lowering& lowering, WinogradPlan plan, TapWeights weights,
                                         const ProductExtras& extras);

// Result, the weights' gradient, of the source, operand 1, and the incoming gradient, operand 0, float32.
std::unique_ptr<Kernel> winograd_weights_gradient(Lowering& lowering, WinogradPlan plan, TapWeights weights);

}  // namespace mpsgraph::cpu
