// A convolution by its taps: pixels in classes that see the same of them (convolution_taps.h).
#pragma once

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/convolution/convolution_tiles.h"

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
  struct Tap {
    int64_t panel;                    // where its weights begin, in steps
    std::vector<int64_t> rows, from;  // which pixels of all images see it, and where they read
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
  // The other order: tap after tap, with the pixels that see it. Rows are counted class by class, image by image.
  std::vector<Tap> by_tap() const;
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

}  // namespace mpsgraph::cpu
