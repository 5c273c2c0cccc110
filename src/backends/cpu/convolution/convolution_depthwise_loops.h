// Inner loops of depthwise convolutions, compiled for each instruction set. With channels last, a vector holds adjacent
// channels of a pixel; with channels first, it holds adjacent pixels of a row.
#pragma once

#include <cstdint>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Arguments for one pixel: to[c] = (before ? before[c] : 0) + the sum over taps t of rows[t][c] * weights[t][c], for
// each channel c.
struct DepthwisePixel {
  const float* const* rows;
  const float* const* weights;
  int64_t taps, channels;
  const float* before;
  float* to;
};

// Arguments for a strip of adjacent pixels that see the same taps. The taps form rows and are evenly spaced within a
// row. Steps are counted in elements, and the weights of consecutive taps are `channels` elements apart. The epilogue
// adds the bias and the residual, if present, and applies ReLU. Two result rows can be computed together. The second
// one then uses the entries of `rows` shifted by one, so `rows` has one additional entry.
struct DepthwiseStrip {
  const float* const* rows;  // for each row of taps, the source element that its first tap reads for the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, tap_step, pixels, pixel_step, channels;
  const float *bias, *residual;
  bool relu;
  float* to;
  int64_t to_step;
  bool past;  // use streaming stores; requires whole vectors of channels, an aligned `to`, and a fence afterwards
  const float* next;  // source row to prefetch for the next result rows; null if there is none
  // number of result rows computed together (1 or 2), and distances in elements between rows of `to` and between rows
  // of `next`
  int64_t results = 1, to_row = 0, next_row = 0;
};

// Arguments for the gradient of the weights, summed over a strip of adjacent pixels that all see the same taps:
// sums[t][c] += the sum over pixels p of incoming[p][c] * the source element that tap t reads for pixel p. Steps are
// counted in elements.
struct DepthwiseGradientStrip {
  const float* const* rows;  // for each row of taps, the source element that its first tap reads for the first pixel
  float* const* sums;  // for each row of taps, the sums of its first tap; those of the next tap are `channels` further
  int64_t tap_rows, taps_of_row, tap_step, pixels, pixel_step, channels;
  const float* incoming;
  int64_t incoming_step;
};

// Arguments for one result row in the plane of a channel. The taps are adjacent within each row of taps. Up to one
// vector of elements may be read past the last element that the pixels need.
struct DepthwiseRow {
  const float* const* rows;  // for each row of taps, the source element that its first tap reads for the first pixel
  const float* const* weights;
  int64_t tap_rows, taps_of_row, pixels;
  float bias;
  bool relu;
  float* to;
};

// Arguments for copying rows of a plane with zero padding. Each copied row consists of `before` zeros, `count`
// elements, and zeros up to `pitch`, the distance between copied rows. Up to one vector may be written past the last
// row.
struct PaddedRows {
  const float* from;
  int64_t rows, step, count, before;
  float* to;
  int64_t pitch;
};

struct DepthwiseFunctions {
  void (*pixel)(const DepthwisePixel& pixel);
  void (*strip)(const DepthwiseStrip& strip);
  void (*gradient_strip)(const DepthwiseGradientStrip& strip);
  void (*row)(const DepthwiseRow& row);
  void (*pad)(const PaddedRows& rows);
  bool two_rows;  // supports pairs of result rows, for 3 x 3 adjacent taps
};
MPSGRAPH_VECTOR_TABLE(DepthwiseFunctions, depthwise_functions);

}  // namespace mpsgraph::cpu
