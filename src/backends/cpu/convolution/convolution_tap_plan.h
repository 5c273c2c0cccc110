// Tap plan of a convolution: pixels grouped into classes that see the same taps (convolution_taps.h).
#pragma once

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/convolution/convolution_tiles.h"

namespace mpsgraph::cpu {

// The source pixels that a convolution sums over for each result pixel of an image. The plan also describes the input
// gradient, whose source is the incoming gradient.
struct TapPlan {
  struct Pixel {
    int64_t from, to;  // offsets within an image: the source pixel that the first tap reads, and the result pixel
  };
  struct Class {
    // Ranges of steps (one per input channel of a tap) that are contiguous both in the source and in the panel.
    std::vector<TileRun> runs;
    std::vector<Pixel> pixels;
    int64_t first_output = 0;  // index of the pixels' first result channel, if the channels are divided into groups
  };
  struct Tap {
    int64_t panel;                    // index of the tap's first weight row in a panel
    // For each pixel that sees the tap, in all images: its row number, and the source offset that the tap reads.
    std::vector<int64_t> rows, from;
  };
  int64_t images, inputs, outputs;      // images; channels of the source and of the result
  int64_t from_image, to_image;         // elements per image of the source and of the result
  std::vector<int64_t> taps;            // taps that some pixel sees, in panel order
  std::vector<Class> classes;

  static TapPlan forward(const ConvolutionPlan& p);
  static TapPlan data_gradient(const ConvolutionPlan& p);
  // Return a plan for `groups` groups of channels, given the plan of one group. Each group has classes and taps of its
  // own: tap t of group g becomes tap g * taps_of_group + t.
  TapPlan repeated(int64_t groups, int64_t taps_of_group) const;

  int64_t steps() const { return static_cast<int64_t>(taps.size()) * inputs; }
  int64_t rows() const;  // number of result pixels in all images
  int64_t products() const;  // number of multiply-adds
  // Return the plan reorganized by tap, where each tap lists the pixels that see it. A row number identifies one pixel
  // of one image: rows are numbered class by class and, within a class, image by image.
  std::vector<Tap> by_tap() const;
};

// Call f(row - begin, first image, source offset, result offset) for rows [begin, end) of a class. Images are processed
// in groups of `group` consecutive images. A class with n pixels per image has n rows per group: row r stands for pixel
// r % n of each image of the group that begins at image r / n * group.
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
