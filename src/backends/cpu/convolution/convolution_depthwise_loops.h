// Inner loops of depthwise convolutions, compiled for each instruction set. With channels last, vectors run along the
// channels of a pixel; with channels first, along the pixels of a row.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// One pixel: to[c] = (before ? before[c] : 0) + sum over taps of rows[t][c] * weights[t][c].
struct DepthwisePixel {
  const float* const* rows;
  const float* const* weights;
  int64_t taps, channels;
  const float* before;
  float* to;
};

// Adjacent pixels that see the same taps: rows of taps, with evenly spaced taps within a row. Steps are in elements,
// and the weights of consecutive taps are `channels` apart. The epilogue adds bias and residual, if present, and
// applies ReLU. Two result rows can be computed together; the second row's taps then read the rows below those of the
// first, so `rows` has one more entry.
struct DepthwiseStrip {
  const float* const* rows;  // what the first tap of each row reads for the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, tap_step, pixels, pixel_step, channels;
  const float *bias, *residual;
  bool relu;
  float* to;
  int64_t to_step;
  bool past;  // use streaming stores; requires whole vectors of channels, an aligned `to`, and a fence
  const float* next;  // what these pixels read next from memory, to prefetch, or null
  int64_t results = 1, to_row = 0, next_row = 0;  // result rows, and distances between rows of `to` and `next`
};

// One row of a channel's plane: adjacent pixels, with adjacent taps in each row of taps. Up to one vector of elements
// may be read past what the last pixel needs.
struct DepthwiseRow {
  const float* const* rows;  // what the first tap of each row of taps reads for the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, pixels;
  float bias;
  bool relu;
  float* to;
};

// Copies rows of a plane with zero padding: `before` zeros precede each row, and zeros after its `count` elements fill
// up `pitch`, the distance between copied rows. Up to one vector may be written past the last row.
struct PaddedRows {
  const float* from;
  int64_t rows, step, count, before;
  float* to;
  int64_t pitch;
};

struct DepthwiseFunctions {
  void (*pixel)(const DepthwisePixel& pixel);
  void (*strip)(const DepthwiseStrip& strip);
  void (*row)(const DepthwiseRow& row);
  void (*pad)(const PaddedRows& rows);
  bool two_rows;  // supports pairs of result rows, for 3 x 3 adjacent taps
};
namespace baseline {
extern const DepthwiseFunctions depthwise_functions;
}
namespace avx2 {
extern const DepthwiseFunctions depthwise_functions;
}
namespace avx512 {
extern const DepthwiseFunctions depthwise_functions;
}

// Return the loops for this processor.
const DepthwiseFunctions& depthwise_functions();

}  // namespace mpsgraph::cpu
