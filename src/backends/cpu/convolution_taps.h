// Convolutions as sums of matrix products, one a tap, without unfolding: rows of pixels are found by pointers
// (Dukhan, "The Indirect Convolution Algorithm", arXiv:1907.02129), for channels last and one group.
//
// Pixels are sorted into classes that see the same taps, so that taps that only see padding cost nothing: of a 3x3
// kernel on 2x2 pixels 16 of 36 products are computed, on one pixel one of nine. A 1x1 kernel is one product, and one
// with a stride needs no copy of the pixels it takes.
#pragma once

#include <memory>

#include "backends/cpu/convolution.h"
#include "backends/cpu/convolution_tiles.h"
#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Which pixels of one image a convolution adds up for each pixel of another. The same for the derivative with respect
// to the source, whose pixels take those of the incoming gradient.
struct TapPlan {
  struct Pixel {
    int64_t from, to;  // elements from an image's beginning: what the first tap reads, and where the sum belongs
  };
  struct Class {
    std::vector<TileRun> runs;  // steps that follow each other in both memories are one run
    std::vector<Pixel> pixels;
  };
  int64_t images, inputs, outputs;      // channels that are summed over, and of the result
  int64_t from_image, to_image;         // elements of an image
  std::vector<int64_t> taps;            // those that some pixel sees, in the order of their panels' steps
  std::vector<Class> classes;

  static TapPlan forward(const ConvolutionPlan& p);
  static TapPlan data_gradient(const ConvolutionPlan& p);

  int64_t steps() const { return static_cast<int64_t>(taps.size()) * inputs; }
  int64_t rows() const;  // pixels of all images
  int64_t products() const;  // multiply-adds
};

// The rows of a class, image after image, taking `group` images together: row r is pixel r % pixels of the images from
// r / pixels * group on. Calls f(number of the row, first image, where it reads, where it belongs).
template <class F>
void for_each_row(const TapPlan& plan, const TapPlan::Class& c, int64_t begin, int64_t end, int64_t group, const F& f) {
  const auto pixels = static_cast<int64_t>(c.pixels.size());
  int64_t image = begin / pixels * group, pixel = begin % pixels;
  for (int64_t row = begin; row < end; ++row) {
    f(row - begin, image, image * plan.from_image + c.pixels[pixel].from, image * plan.to_image + c.pixels[pixel].to);
    if (++pixel == pixels) pixel = 0, image += group;
  }
}

// Should this convolution, or its gradient, run so? The answer is the same for all three.
bool runs_by_taps(const ConvolutionPlan& p, DType dtype);

// In front of the kernels that are there.
void register_convolution_taps();
void register_convolution_integers();  // of 8 bits, where the processor multiplies them
bool multiplies_integers();            // does it?

}  // namespace mpsgraph::cpu
