// The loops of depthwise convolutions, once per instruction set: with channels last vectors run along the channels of a
// pixel, with planes of channels along the pixels of a row.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

// Of a pixel: to[c] = before[c], if there is any, + sum over taps of rows[t][c] * weights[t][c].
struct DepthwisePixel {
  const float* const* rows;
  const float* const* weights;
  int64_t taps, channels;
  const float* before;
  float* to;
};

// Of pixels side by side that see the same taps: rows of taps, and in a row taps that are evenly spaced. Steps are in
// elements; a tap's weights are `channels` behind those of the tap before. Sums get bias and residual, where there are
// any, and relu. Of two rows of results at once the second one's taps see what the first one's next rows of taps see,
// so that `rows` has one more.
struct DepthwiseStrip {
  const float* const* rows;  // what the first tap of each row sees of the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, tap_step, pixels, pixel_step, channels;
  const float *bias, *residual;
  bool relu;
  float* to;
  int64_t to_step;
  bool past;  // the caches, where channels fill vectors and `to` begins at one; a fence has to follow
  const float* next;  // what the same pixels see that is read from memory next, to prefetch; null: nothing
  int64_t results = 1, to_row = 0, next_row = 0;  // rows of results; from one to the next, of them and of `next`
};

// Of a row of a channel's plane: pixels side by side, of which each tap of a row sees neighbours, those behind what the
// tap before sees. As many elements as a vector has may be read behind what the last pixel sees.
struct DepthwiseRow {
  const float* const* rows;  // what the first tap of each row of taps sees of the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, pixels;
  float bias;
  bool relu;
  float* to;
};

// Rows of a plane with zeros around them: `before` in front of each, and behind its `count` elements as many as fill
// `pitch`, the distance of the copies. Up to a vector is written behind the last of them.
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
  bool two_rows;  // of results at once are of use, with three rows of three neighbours
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

// For this processor.
const DepthwiseFunctions& depthwise_functions();

}  // namespace mpsgraph::cpu
