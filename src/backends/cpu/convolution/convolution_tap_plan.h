// Tap plan of a convolution: pixels grouped into classes that see the same taps (convolution_taps.h).
#pragma once

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

// For each pixel of one image, the pixels of another image that a convolution sums over. The plan also describes the
// input gradient, whose pixels sum over those of the incoming gradient.
struct TapPlan {
  struct Pixel {
    int64_t from, to;  // image offsets: what the first tap reads, and the result
  };
  struct Class {
    std::vector<TileRun> runs;  // steps contiguous in both operands form one run
    std::vector<Pixel> pixels;
  };
  struct Tap {
    int64_t panel;                    // first step of its weights
    std::vector<int64_t> rows, from;  // pixels of all images that see it, and what they read
  };
  int64_t images, inputs, outputs;      // channels of the source and of the result
  int64_t from_image, to_image;         // elements per image
  std::vector<int64_t> taps;            // taps that some pixel sees, in panel order
  std::vector<Class> classes;

  static TapPlan forward(const ConvolutionPlan& p);
  static TapPlan data_gradient(const ConvolutionPlan& p);

  int64_t steps() const { return static_cast<int64_t>(taps.size()) * inputs; }
  int64_t rows() const;  // pixels of all images
  int64_t products() const;  // multiply-adds
  // The plan reorganized tap by tap, each with the pixels that see it. Rows are numbered class by class, image by
  // image.
  std::vector<Tap> by_tap() const;
};

// Call f(row - begin, first image, source offset, result offset) for rows [begin, end) of a class. Rows run image by
// image, with `group` images taken together: row r is pixel r % pixels of the images starting at r / pixels * group.
template <class F>
void for_each_row(const TapPlan& plan, const TapPlan::Class& c, int64_t begin, int64_t end, int64_t group, const F& f) {
  const auto pixels = static_cast<int64_t>(c.pixels.size());
  int64_t image = begin / pixels * group, pixel = begin % pixels;
  for (int64_t row = begin; row < end; ++row) {
    f(row - begin, image, image * plan.from_image + c.pixels[pixel].from, image * plan.to_image + c.pixels[pixel].to);
    if (++pixel == pixels) pixel = 0, image += group;
  }
}

}  // namespace mpsgraph::cpu
