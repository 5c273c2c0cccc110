// Gradient of depthwise convolutions with respect to their weights, channels last.
//
// The gradient of each weight is a sum of products of two pixels: a pixel of the incoming gradient, and the source
// pixel that the weight's tap reads at that position. Vectors run along the channels. Pixels whose taps all lie inside
// the source row are summed for several taps at a time, and the others tap by tap. The pixels are divided among partial
// sums whose number depends only on the shape, so the result does not depend on which threads compute them.
#include <algorithm>

#include "backends/cpu/convolution/convolution_depthwise.h"
#include "backends/cpu/convolution/convolution_depthwise_loops.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t most_pairs = 64;  // pixel pairs per block
constexpr int64_t most_parts = 16;
constexpr int64_t products_of_a_part = 1 << 18;  // about 50 microseconds; smaller parts are not worth sharing

class DepthwiseWeightsGradient final : public Kernel {
 public:
  DepthwiseWeightsGradient(Lowering& lowering, const ConvolutionPlan& plan)
      : p_(plan),
        rows_(p_.y.n * p_.y.size[0] * p_.y.size[1]),
        rows_at_once_(std::clamp<int64_t>(most_pairs / p_.y.size[2], 1, rows_)),
        incoming_(lowering.input(0).slot),
        source_(lowering.input(1).slot),
        result_(lowering.output().slot) {
    const int64_t products = p_.y.n * p_.y.pixels() * p_.taps() * p_.groups;
    const int64_t blocks = (rows_ + rows_at_once_ - 1) / rows_at_once_;
    const ops::Window& width = p_.windows[2];
    inner_begin_ = width.inside(0).first;
    inner_end_ = std::max(inner_begin_, width.inside(p_.kernel[2] - 1).last);
    parts_ = std::clamp<int64_t>(products / products_of_a_part, 1, std::min(most_parts, blocks));
    sums_ = lowering.scratch(static_cast<size_t>(parts_ * p_.taps() * p_.groups) * sizeof(float));
  }

  void run(Frame& frame) const override {
    parallel_phases(parts_ > 1 ? thread_count() : 1, {parts_, p_.taps()}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          sum_part(frame, i);
        else
          finish_tap(frame, i);
    });
  }
  std::string description() const override { return cat("depthwise, pixels in ", parts_, " parts"); }

 private:
  float* sums_of(Frame& frame, int64_t part) const { return frame.at<float>(sums_) + part * p_.taps() * p_.groups; }

  void sum_part(Frame& frame, int64_t part) const {
    float* sums = sums_of(frame, part);
    std::fill_n(sums, p_.taps() * p_.groups, 0.f);
    const int64_t end = rows_ * (part + 1) / parts_;
    for (int64_t row = rows_ * part / parts_; row < end; row += rows_at_once_) {
      const int64_t last = std::min(end, row + rows_at_once_);
      if (inner_end_ > inner_begin_)
        for (int64_t r = row; r < last; ++r) add_inner(frame, r, sums);
      if (inner_end_ - inner_begin_ < p_.y.size[2])
        for (int64_t tap = 0; tap < p_.taps(); ++tap) add_border(frame, row, last, tap, sums + tap * p_.groups);
    }
  }

  struct Row {
    int64_t image, depth, y;
    const float* incoming;
  };
  Row row_at(const Frame& frame, int64_t row) const {
    const int64_t oy = row % p_.y.size[1], od = row / p_.y.size[1] % p_.y.size[0],
                  image = row / p_.y.size[1] / p_.y.size[0];
    return {image, od, oy, frame.at<const float>(incoming_) + image * p_.y.sn + od * p_.y.step[0] + oy * p_.y.step[1]};
  }

  // The source row that the taps (kd, ky) read for a result row, or null if it lies in the padding.
  const float* source_row(const Frame& frame, const Row& row, int64_t kd, int64_t ky) const {
    const int64_t id = p_.windows[0].at(row.depth, kd), iy = p_.windows[1].at(row.y, ky);
    if (iy < 0 || iy >= p_.windows[1].input || id < 0 || id >= p_.windows[0].input) return nullptr;
    return frame.at<const float>(source_) + row.image * p_.x.sn + id * p_.x.step[0] + iy * p_.x.step[1];
  }

  // Add the pixels of a result row for which no tap reads padding to the left or to the right.
  void add_inner(const Frame& frame, int64_t row, float* sums) const {
    constexpr int64_t most = 16;
    const float* rows[most];
    float* to[most];
    const Row here = row_at(frame, row);
    const ops::Window& width = p_.windows[2];
    const int64_t first = width.at(inner_begin_, 0) * p_.x.step[2], tap_step = width.dilation * p_.x.step[2],
                  pixel_step = width.stride * p_.x.step[2];
    int64_t count = 0;
    const auto add = [&] {
      depthwise_functions().gradient_strip({rows, to, count, p_.kernel[2], tap_step, inner_end_ - inner_begin_,
                                            pixel_step, p_.groups, here.incoming + inner_begin_ * p_.y.step[2],
                                            p_.y.step[2]});
      count = 0;
    };
    for (int64_t i = 0; i < p_.kernel[0] * p_.kernel[1]; ++i) {
      const float* source = source_row(frame, here, i / p_.kernel[1], i % p_.kernel[1]);
      if (!source) continue;
      if (count == most) add();
      rows[count] = source + first;
      to[count++] = sums + i * p_.kernel[2] * p_.groups;
    }
    if (count > 0) add();
  }

  // For one tap, add the other pixels of the result rows [begin, end).
  void add_border(const Frame& frame, int64_t begin, int64_t end, int64_t tap, float* sums) const {
    const int64_t kx = tap % p_.kernel[2], ky = tap / p_.kernel[2] % p_.kernel[1],
                  kd = tap / p_.kernel[2] / p_.kernel[1];
    const ops::Window& width = p_.windows[2];
    const float *seen[most_pairs], *incoming[most_pairs];
    int64_t pairs = 0;
    const auto add = [&] {
      depthwise_functions().pixel({seen, incoming, pairs, p_.groups, sums, sums});
      pairs = 0;
    };
    for (int64_t row = begin; row < end; ++row) {
      const Row here = row_at(frame, row);
      const float* source = source_row(frame, here, kd, ky);
      if (!source) continue;
      for (int64_t ox = 0; ox < p_.y.size[2]; ++ox) {
        if (ox == inner_begin_ && inner_end_ > ox) ox = inner_end_;
        if (ox >= p_.y.size[2]) break;
        const int64_t ix = width.at(ox, kx);
        if (ix < 0 || ix >= width.input) continue;
        if (pairs == most_pairs) add();
        seen[pairs] = source + ix * p_.x.step[2];
        incoming[pairs++] = here.incoming + ox * p_.y.step[2];
      }
    }
    if (pairs > 0) add();
  }

  void finish_tap(Frame& frame, int64_t tap) const {
    float* result = frame.at<float>(result_);
    float* first = sums_of(frame, 0) + tap * p_.groups;
    for (int64_t part = 1; part < parts_; ++part) {
      const float* other = sums_of(frame, part) + tap * p_.groups;
      for (int64_t c = 0; c < p_.groups; ++c) first[c] += other[c];
    }
    for (int64_t c = 0; c < p_.groups; ++c) result[p_.tap_offset(tap) + c * p_.weights.group_stride] = first[c];
  }

  ConvolutionPlan p_;
  int64_t rows_, rows_at_once_, parts_ = 1;
  int64_t inner_begin_ = 0, inner_end_ = 0;  // the columns of the result for which no tap reads padding
  Slot incoming_, source_, result_, sums_ = -1;
};

}  // namespace

std::unique_ptr<Kernel> depthwise_weights_gradient(Lowering& lowering, const ConvolutionPlan& p) {
  if (!is_depthwise(p) || p.empty()) return nullptr;
  return std::make_unique<DepthwiseWeightsGradient>(lowering, p);
}

}  // namespace mpsgraph::cpu
