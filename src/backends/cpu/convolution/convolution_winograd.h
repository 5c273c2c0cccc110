// Convolutions with fewer multiply-adds, in tiles, by Winograd's minimal filtering (winograd_transforms.h).
//
// For each pair of channels, a tile of m x m results takes t x t multiplications, where t = m + r - 1, instead of the
// m² r² of a direct r x r filter: 49 instead of 225 for 3 x 3 results with 5 x 5 taps. With a stride of s, the source
// is split into s² images of every s-th pixel, called phases, and the weights into as many filters; phases act like
// additional channels. For the gradient with respect to the input, the result is split into phases instead. Results of
// a tile that lie outside the image are computed and discarded. In 3-D, each slice of the result is an image, and the
// source slices that it reads through the taps of the first axis also act like additional channels.
//
// The transforms round, so errors are up to four times larger than those of per-tap matmuls, and an infinity turns its
// entire tile into NaN.
#pragma once

#include <optional>

#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/convolution/winograd_transforms.h"

namespace mpsgraph::cpu {

struct WinogradTile {
  int64_t image, slice, y, x;
};

// Geometry of the source images that tiles read, or of the result images that tiles write.
struct WinogradSide {
  int64_t size;  // pixels of a tile along each axis
  int64_t phases;  // phases along each axis
  int64_t channels;
  int64_t image;  // elements per image
  int64_t depth_taps;  // source slices that one result slice reads; 1 for the result itself
  std::vector<int64_t> slices;  // element offsets indexed by [result slice][depth tap]; -1 for slices outside the image
  // per axis, element offsets indexed by [tile][phase][pixel]; -1 for pixels outside the image
  std::array<std::vector<int64_t>, 2> offsets;

  int64_t phases_of_slice() const { return phases * phases; }
  int64_t all_phases() const { return depth_taps * phases_of_slice(); }
  // Find the addresses of a tile's size x size pixels in one phase.
  template <class T>
  void find(const WinogradTile& tile, int64_t phase, T* images, T* outside, T** at) const {
    const int64_t slice = slices[tile.slice * depth_taps + phase / phases_of_slice()],
                  of_slice = phase % phases_of_slice();
    const int64_t* rows = offsets[0].data() + (tile.y * phases + of_slice / phases) * size;
    const int64_t* columns = offsets[1].data() + (tile.x * phases + of_slice % phases) * size;
    T* from = images + tile.image * image + slice;
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        *at++ = slice < 0 || rows[i] < 0 || columns[j] < 0 ? outside : from + rows[i] + columns[j];
  }
};

struct WinogradPlan {
  const WinogradTransforms* transforms;
  int64_t images, slices;  // number of images, and slices of the result per image
  std::array<int64_t, 2> tiles;  // tiles per slice, along height and width
  WinogradSide source, result;
  int64_t kernel_rows, row_taps;

  int64_t tiles_of_slice() const { return tiles[0] * tiles[1]; }
  int64_t all_tiles() const { return images * slices * tiles_of_slice(); }
  int64_t inputs() const { return source.all_phases() * source.channels; }
  int64_t outputs() const { return result.all_phases() * result.channels; }
  int64_t points_of_weights() const { return transforms->all_points() * inputs() * outputs(); }
  int64_t products() const { return all_tiles() * points_of_weights(); }  // multiply-adds of the pointwise products
  // There is a small filter for each pair of a source phase and a result phase. Return the number, in the order of
  // TapPlan, of the tap at (i, j) of this filter. Within each slice, either the source or the result has only one
  // phase.
  int64_t tap(int64_t of_source, int64_t of_result, int i, int j) const {
    const int64_t phases = std::max(source.phases, result.phases);
    const int64_t phase = source.phases > 1 ? of_source % source.phases_of_slice() : of_result;
    return (of_source / source.phases_of_slice() * kernel_rows + i * phases + phase / phases) * row_taps + j * phases +
           phase % phases;
  }
  // Call f(i - begin, tile) for each i in [begin, end), where the tiles of all images are numbered consecutively.
  template <class F>
  void for_each_tile(int64_t begin, int64_t end, const F& f) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t slice = i / tiles_of_slice(), place = i % tiles_of_slice();
      f(i - begin, WinogradTile{slice / slices, slice % slices, place / tiles[1], place % tiles[1]});
    }
  }
  std::string text() const;
};

enum class ConvolutionPart { forward, data_gradient, weights_gradient };

// Return a Winograd plan for this convolution or one of its gradients. Return nullopt if Winograd does not support it,
// or is not expected to be faster than the per-tap matmuls of `taps`.
std::optional<WinogradPlan> winograd_plan(const ConvolutionPlan& p, const TapPlan& taps, ConvolutionPart part);

// Build the float32 kernel for result = source (operand 0) x weights (operand 1).
std::unique_ptr<Kernel> winograd_product(Lowering& lowering, WinogradPlan plan, TapWeights weights,
                                         const ProductEpilogue& extras);

// Build the float32 weight gradient from the source (operand 1) and the incoming gradient (operand 0).
std::unique_ptr<Kernel> winograd_weights_gradient(Lowering& lowering, WinogradPlan plan, TapWeights weights);

}  // namespace mpsgraph::cpu
