// Loop structure of pooling: a plan shared by all pooling kernels, and the taps of its windows.
//
// A pooling operand is treated as planes, each with up to four windowed axes over contiguous lanes. NHWC has one plane
// per image, with the channels as lanes. NCHW has one plane per image and channel, with a single lane. A position is an
// index of the result along the windowed axes. With several lanes, the inner loops run over the lanes of one position;
// with a single lane, they run over a row of positions for one tap.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/pooling/pooling_float.h"
#include "backends/cpu/wide_kernels.h"
#include "core/ops/pooling.h"

namespace mpsgraph::cpu {

struct PoolingPlan {
  int64_t planes = 1, lanes = 1;
  std::array<ops::Window, 4> windows{};  // axes from slowest to fastest; an unused axis has one position and one tap
  std::array<int64_t, 4> source_step{}, result_step{};  // strides of these axes, in elements
  int64_t source = 1, result = 1;  // elements per plane
  std::array<std::vector<ops::PoolingTaps>, 4> inside;  // taps inside the source, indexed by axis and position
  // disjoint: no element is in two windows; covering: every element is in a window
  bool disjoint = true, covering = true;

  // Throw UnsupportedError if the elements of a plane cannot be counted in 32 bits.
  PoolingPlan(const Lowering& lowering, const ops::Pooling& pooling, const Dims& source_dims, const Dims& result_dims);
  PoolingPlan(const Lowering& lowering, const Dims& source_dims, const Dims& result_dims)
      : PoolingPlan(lowering, ops::Pooling(lowering.attributes()), source_dims, result_dims) {}
  int64_t row() const { return windows[3].output; }  // returns the number of positions per row
  // returns the number of rows of positions per plane
  int64_t rows() const { return windows[0].output * windows[1].output * windows[2].output; }
  // Return whether a row of a window has many more taps than a row of the result has positions. In this case, the inner
  // loops run over the taps.
  bool few_long_windows() const { return windows[3].dilation == 1 && windows[3].kernel >= 4 * windows[3].output; }
  int64_t taps() const { return windows[0].kernel * windows[1].kernel * windows[2].kernel * windows[3].kernel; }
};

// Coordinates of a row of positions on the first three axes.
using RowPosition = std::array<int64_t, 3>;
inline RowPosition row_position(const PoolingPlan& p, int64_t row) {
  const int64_t n1 = p.windows[1].output, n2 = p.windows[2].output;
  return {row / (n1 * n2), row / n2 % n1, row % n2};
}

// Call f(tap, offset) for each combination of taps over the first three axes that lies inside the source. `tap` is the
// number, within the window, of the combination's first tap along axis 3. `offset` is the position in the plane of the
// element with index 0 along axis 3.
template <class F>
void for_outer_taps(const PoolingPlan& p, const RowPosition& at, const F& f) {
  std::array<const ops::PoolingTaps*, 3> in;
  std::array<int64_t, 3> start;
  for (int a : {0, 1, 2}) {
    in[a] = &p.inside[a][static_cast<size_t>(at[a])];
    start[a] = p.windows[a].at(at[a], 0);
  }
  for (int64_t i = in[0]->first; i < in[0]->first + in[0]->count; ++i)
    for (int64_t j = in[1]->first; j < in[1]->first + in[1]->count; ++j)
      for (int64_t k = in[2]->first; k < in[2]->first + in[2]->count; ++k) {
        const int64_t tap = ((i * p.windows[1].kernel + j) * p.windows[2].kernel + k) * p.windows[3].kernel;
        f(tap, (start[0] + i * p.windows[0].dilation) * p.source_step[0] +
                   (start[1] + j * p.windows[1].dilation) * p.source_step[1] +
                   (start[2] + k * p.windows[2].dilation) * p.source_step[2]);
      }
}

// Call f(tap, element of the plane) for the taps of one window that lie inside the source, in order.
template <class F>
void for_taps(const PoolingPlan& p, const RowPosition& at, int64_t position, const F& f) {
  const ops::PoolingTaps& in = p.inside[3][static_cast<size_t>(position)];
  const int64_t step = p.windows[3].dilation * p.source_step[3];
  for_outer_taps(p, at, [&](int64_t tap, int64_t element) {
    element += p.windows[3].at(position, in.first) * p.source_step[3];
    for (int64_t i = 0; i < in.count; ++i) f(tap + in.first + i, element + i * step);
  });
}

// The offsets of the elements that the taps of one window read, relative to lane 0 of the plane; for pooling_float.h.
struct FewTaps {
  int64_t offsets[FloatPooling::max_taps];
  int64_t taps = 0;
  FewTaps(const PoolingPlan& p, const RowPosition& row, int64_t position) {
    for_taps(p, row, position, [&](int64_t, int64_t element) { offsets[taps++] = element; });
  }
};
inline bool few_taps(const PoolingPlan& p) { return p.taps() <= FloatPooling::max_taps; }

// For plans with a single lane, call f(tap, first, last, element) for each tap of the windows of a row of positions.
// [first, last) is the range of positions within [begin, end) at which the tap lies inside the source, and `element` is
// the element that the tap reads at position `first`.
template <class F>
void for_row_taps(const PoolingPlan& p, const RowPosition& at, int64_t begin, int64_t end, const F& f) {
  const ops::Window& w = p.windows[3];
  for_outer_taps(p, at, [&](int64_t tap, int64_t element) {
    for (int64_t i = 0; i < w.kernel; ++i) {
      const auto inside = w.inside(i);
      const int64_t first = std::max(begin, inside.first), last = std::min(end, inside.last);
      if (first < last) f(tap + i, first, last, element + w.at(first, i));
    }
  });
}

constexpr int64_t pooling_tile = 128;  // maximum number of lanes or positions whose values are kept on the stack

// Partition of gradient loops: threads divide the planes, and also blocks of lanes if there are fewer planes than
// threads.
struct PoolingBlocks {
  int64_t blocks, parts;
  explicit PoolingBlocks(const PoolingPlan& p);
};
// Return the memory in which gradients are accumulated: for half precision, a float buffer of one plane per thread,
// otherwise the output itself.
template <class T>
Slot gradient_scratch(Lowering& lowering, const PoolingPlan& p, const PoolingBlocks& b) {
  return is_half_type<T> ? lowering.scratch(static_cast<size_t>(b.parts * p.source) * sizeof(float))
                         : lowering.output().slot;
}

// Call f(plane, first lane, last lane, to) for all blocks. `to` holds the accumulated values of a whole plane. It is
// cleared first if `clear` is set, because f then adds to it.
template <class T, class F>
void for_gradient_blocks(const PoolingPlan& p, const PoolingBlocks& b, T* gradient, [[maybe_unused]] Value<T>* scratch,
                         bool clear, const F& f) {
  const int64_t units = p.planes * b.blocks;
  const int64_t pieces = b.parts > 1 && b.parts == thread_count() ? b.parts * items_per_thread : b.parts;
  parallel_items(pieces, [&](int64_t piece, int64_t member) {
    for (int64_t unit = units * piece / pieces; unit < units * (piece + 1) / pieces; ++unit) {
      poll_run();
      const int64_t plane = unit / b.blocks, block = unit % b.blocks;
      const int64_t begin = p.lanes * block / b.blocks, end = p.lanes * (block + 1) / b.blocks;
      T* result = gradient + plane * p.source;
      Value<T>* to;
      if constexpr (is_half_type<T>)
        to = scratch + member * p.source;
      else
        to = result;
      if (clear && b.blocks == 1)
        std::fill(to, to + p.source, Value<T>(0));
      else if (clear)
        for (int64_t i = 0; i < p.source; i += p.lanes) std::fill(to + i + begin, to + i + end, Value<T>(0));
      f(plane, begin, end, to);
      if constexpr (is_half_type<T>)
        for (int64_t i = 0; i < p.source; i += p.lanes)
          for (int64_t c = begin; c < end; ++c) result[i + c] = T(to[i + c]);
    }
  });
}

}  // namespace mpsgraph::cpu
