// Depthwise convolutions with channels last, and their gradients with respect to the input.
//
// In the forward direction, each output row is split into one long range of pixels whose taps are all inside the image,
// and single pixels at the edges of the row. With strides of 1, the input gradient is itself a depthwise convolution.
// With larger strides, each of its pixels is summed by itself.
//
// Weights are reordered by tap: once if they are constant, otherwise on every run.
#include "backends/cpu/convolution/convolution_depthwise.h"

#include <algorithm>

#include "backends/cpu/convolution/convolution_depthwise_loops.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t most_depthwise_taps = 128;
// If the images have few rows, each row is split into pieces. These constants are the number of pieces per thread and
// the minimum number of pixels per piece.
constexpr int64_t pieces_for_a_thread = 4, least_piece = 24;

// Return the plan of the input gradient. For strides of 1, the input gradient is a convolution of the incoming gradient
// with the taps in reverse order.
ConvolutionPlan turned(ConvolutionPlan p) {
  std::swap(p.x, p.y);
  for (int axis = 0; axis < 3; ++axis) {
    ops::Window& w = p.windows[axis];
    w.begin = w.reach() - 1 - w.begin;
    w.input = p.x.size[axis], w.output = p.y.size[axis];
  }
  return p;
}
bool has_no_strides(const ConvolutionPlan& p) {
  return std::ranges::all_of(p.windows, [](const ops::Window& w) { return w.stride == 1; });
}

// Depthwise weights reordered to [tap][channel], with the taps in forward or reverse order.
class WeightsByTaps {
 public:
  WeightsByTaps(Lowering& lowering, const ConvolutionPlan& plan, bool turned)
      : weights_(lowering.input(1).slot), turned_(turned) {
    const size_t bytes = static_cast<size_t>(plan.taps() * plan.groups) * sizeof(float);
    if (const ConstantWeights constant = lowering.constant(1))
      packed_ = prepacked(
          constant,
          cat("depthwise, ", turned ? "turned, " : "", plan.taps(), " taps of ", plan.groups, " channels, ",
              to_string(std::vector(plan.kernel_step.begin(), plan.kernel_step.end())), " ", plan.weights.group_stride),
          bytes, [&](const std::byte* from, std::byte* to) {
            bring(plan, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
          });
    else
      scratch_ = lowering.scratch(bytes);
  }

  const float* of(Frame& frame, const ConvolutionPlan& plan) const {
    if (packed_) return reinterpret_cast<const float*>(packed_.get());
    bring(plan, frame.at<const float>(weights_), frame.at<float>(scratch_));
    return frame.at<const float>(scratch_);
  }
  bool are_packed() const { return packed_ != nullptr; }

 private:
  void bring(const ConvolutionPlan& plan, const float* from, float* to) const {
    for (int64_t tap = 0; tap < plan.taps(); ++tap) {
      const float* of_tap = from + plan.tap_offset(turned_ ? plan.taps() - 1 - tap : tap);
      for (int64_t c = 0; c < plan.groups; ++c) to[tap * plan.groups + c] = of_tap[c * plan.weights.group_stride];
    }
  }

  Slot weights_, scratch_ = -1;
  bool turned_;
  PackedPtr packed_;
};

class DepthwiseConvolution final : public Kernel {
 public:
  DepthwiseConvolution(Lowering& lowering, const ConvolutionPlan& plan, const ProductEpilogue& extras, bool turned)
      : p_(plan),
        extras_(extras),
        source_(lowering.input(0).slot),
        result_(lowering.output().slot),
        weights_(lowering, plan, turned) {
    const auto& [wz, wy, wx] = p_.windows;
    const bool square = wz.kernel == 1 && wy.kernel == 3 && wx.kernel == 3;
    if (!depthwise_functions().two_rows || !square || wy.stride != wy.dilation || wx.stride != wx.dilation) return;
    const int64_t first = wy.inside(0).first, last = wy.inside(wy.kernel - 1).last;
    if (last > first) before_pairs_ = first, pairs_ = (last - first) / 2;
  }

  void run(Frame& frame) const override {
    const float* weights = weights_.of(frame, p_);
    const int64_t of_plane = p_.y.size[1] - pairs_, units = p_.y.n * p_.y.size[0] * of_plane, width = p_.y.size[2];
    const bool past = streaming(frame);
    const int64_t pieces =
        std::clamp<int64_t>(thread_count() * pieces_for_a_thread / units, 1, std::max<int64_t>(width / least_piece, 1));
    parallel_for(units * pieces, grain_for(width / pieces * p_.taps() * p_.groups), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t piece = i % pieces, unit = i / pieces;
        compute(frame, weights, unit / of_plane, rows_of(unit % of_plane),
                {width * piece / pieces, width * (piece + 1) / pieces}, past);
      }
      if (past) streaming_fence();
    });
  }
  std::string description() const override {
    return cat("depthwise, strips of pixels", weights_.are_packed() ? ", packed weights" : "");
  }

 private:
  // Return whether to use streaming stores. If source and result fit in the last-level cache, ordinary stores are
  // faster.
  bool streaming(const Frame& frame) const {
    const auto pixel = static_cast<size_t>(p_.y.step[2]) * sizeof(float);
    const size_t bytes = static_cast<size_t>(p_.y.n * p_.y.pixels()) * pixel;
    return p_.y.step[2] == p_.groups && pixel % cache_line == 0 && at_a_line(frame.at<float>(result_)) &&
           bytes >= streaming_threshold && 2 * bytes > outermost_cache();
  }

  struct Range {
    int64_t begin, end;
  };
  // Return the range of output rows of one work unit of a plane: two rows if all taps of both are inside the image,
  // otherwise one row.
  Range rows_of(int64_t unit) const {
    if (unit < before_pairs_) return {unit, unit + 1};
    const int64_t pair = unit - before_pairs_;
    if (pair >= pairs_) return {unit + pairs_, unit + pairs_ + 1};
    return {unit + pair, unit + pair + 2};
  }

  // Compute the output pixels in columns `pixels` and rows `lines` of a plane. If `past` is true, use streaming stores.
  void compute(const Frame& frame, const float* weights, int64_t plane, Range lines, Range pixels, bool past) const {
    // Not structured bindings, which clang's lambdas cannot capture with -fopenmp-simd.
    const auto &wz = p_.windows[0], &wy = p_.windows[1], &wx = p_.windows[2];
    const int64_t begin = pixels.begin, end = pixels.end;
    const int64_t y = lines.begin, results = lines.end - y, z = plane % p_.y.size[0], image = plane / p_.y.size[0];
    const float* source = frame.at<const float>(source_) + image * p_.x.sn;
    const int64_t at = image * p_.y.sn + z * p_.y.step[0] + y * p_.y.step[1];
    const float *rows[most_depthwise_taps], *of_rows[most_depthwise_taps];  // source rows of the taps, at column 0
    int64_t count = 0;
    for (int64_t kz = 0; kz < wz.kernel; ++kz)
      for (int64_t ky = 0; ky < wy.kernel; ++ky) {
        const int64_t from_z = wz.at(z, kz), from_y = wy.at(y, ky);
        if (from_z < 0 || from_z >= wz.input || from_y < 0 || from_y >= wy.input) continue;
        rows[count] = source + from_z * p_.x.step[0] + from_y * p_.x.step[1];
        of_rows[count++] = weights + (kz * wy.kernel + ky) * wx.kernel * p_.groups;
      }
    int64_t seen_rows = count;
    for (; seen_rows < count + results - 1; ++seen_rows)
      rows[seen_rows] = rows[seen_rows - 1] + wy.stride * p_.x.step[1];
    const int64_t inner = std::clamp(wx.inside(0).first, begin, end),
                  outer = std::clamp(wx.inside(wx.kernel - 1).last, inner, end);
    const int64_t below = wy.at(y, wy.kernel - 1) + (2 * results - 1) * wy.stride;
    const int64_t row_step = wy.stride * p_.x.step[1], next = past && count > 0 && below < wy.input ? row_step : 0;
    const auto strip = [&](int64_t first, int64_t last, int64_t first_tap, int64_t end_tap) {
      const float *seen[most_depthwise_taps], *by[most_depthwise_taps];
      for (int64_t r = 0; r < seen_rows; ++r) seen[r] = rows[r] + wx.at(first, first_tap) * p_.x.step[2];
      for (int64_t r = 0; r < count; ++r) by[r] = of_rows[r] + first_tap * p_.groups;
      const int64_t place = at + first * p_.y.step[2];
      DepthwiseStrip s{seen,
                       by,
                       count,
                       std::max<int64_t>(end_tap - first_tap, 0),
                       wx.dilation * p_.x.step[2],
                       last - first,
                       wx.stride * p_.x.step[2],
                       p_.groups,
                       extras_.bias >= 0 ? frame.at<const float>(extras_.bias) : nullptr,
                       extras_.residual >= 0 ? frame.at<const float>(extras_.residual) + place : nullptr,
                       extras_.relu,
                       frame.at<float>(result_) + place,
                       p_.y.step[2],
                       past,
                       next && last - first > 1 ? seen[seen_rows - 1] + next : nullptr};
      s.to_row = p_.y.step[1], s.next_row = next;
      if (first_tap == 0 && end_tap == wx.kernel) {
        s.results = results;
        return depthwise_functions().strip(s);
      }
      for (int64_t r = 0; r < results; ++r) {  // at the edges, compute one result row at a time
        depthwise_functions().strip(s);
        ++s.rows, s.to += s.to_row;
        if (s.residual) s.residual += s.to_row;
      }
    };
    // edge pixels are computed one by one, because a different set of taps lies inside the image for each of them
    const auto edge = [&](int64_t first, int64_t last) {
      for (int64_t x = first; x < last; ++x) {
        int64_t first_tap = 0, end_tap = wx.kernel;
        while (first_tap < end_tap && wx.at(x, first_tap) < 0) ++first_tap;
        while (end_tap > first_tap && wx.at(x, end_tap - 1) >= wx.input) --end_tap;
        strip(x, x + 1, first_tap, end_tap);
      }
    };
    edge(begin, inner);
    if (outer > inner) strip(inner, outer, 0, wx.kernel);
    edge(outer, end);
  }

  ConvolutionPlan p_;
  ProductEpilogue extras_;
  Slot source_, result_;
  WeightsByTaps weights_;
  // Two rows of a plane may be computed together, as a pair. These are the number of rows before the first pair, which
  // are computed one by one, and the number of pairs. Both are 0 if rows are not paired.
  int64_t before_pairs_ = 0, pairs_ = 0;
};

// Computes the input gradient by gathering: each pixel of the input gradient sums over the output pixels whose taps
// read that pixel.
class DepthwiseDataGradient final : public Kernel {
 public:
  DepthwiseDataGradient(Lowering& lowering, const ConvolutionPlan& plan)
      : p_(plan), incoming_(lowering.input(0).slot), result_(lowering.output().slot), weights_(lowering, plan, false) {}

  void run(Frame& frame) const override {
    const float* weights = weights_.of(frame, p_);
    const int64_t cost = p_.taps() * p_.groups;
    parallel_for(p_.x.n * p_.x.pixels(), grain_for(cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pixel(frame, weights, i);
    });
  }
  std::string description() const override { return "depthwise, one pixel at a time"; }

 private:
  // Along one axis, return the index of the output element for which filter tap `tap` reads input index `at`. Return -1
  // if there is no such element.
  int64_t seen(int axis, int64_t at, int64_t tap) const {
    const ops::Window& w = p_.windows[static_cast<size_t>(axis)];
    const int64_t distance = at - w.at(0, tap), place = distance / w.stride;
    return distance >= 0 && distance % w.stride == 0 && place < p_.y.size[static_cast<size_t>(axis)] ? place : -1;
  }

  void pixel(const Frame& frame, const float* weights, int64_t i) const {
    const ConvolutionImage &from = p_.y, &to = p_.x;
    const int64_t image = i / to.pixels(), place = i % to.pixels();
    const int64_t x = place % to.size[2], y = place / to.size[2] % to.size[1], z = place / to.size[2] / to.size[1];
    const float* incoming = frame.at<const float>(incoming_) + image * from.sn;
    const float *rows[most_depthwise_taps], *of_taps[most_depthwise_taps];
    int64_t taps = 0;
    for (int64_t kz = 0; kz < p_.kernel[0]; ++kz) {
      const int64_t from_z = seen(0, z, kz);
      if (from_z < 0) continue;
      for (int64_t ky = 0; ky < p_.kernel[1]; ++ky) {
        const int64_t from_y = seen(1, y, ky);
        if (from_y < 0) continue;
        for (int64_t kx = 0; kx < p_.kernel[2]; ++kx) {
          const int64_t from_x = seen(2, x, kx);
          if (from_x < 0) continue;
          rows[taps] = incoming + from_z * from.step[0] + from_y * from.step[1] + from_x * from.step[2];
          of_taps[taps++] = weights + ((kz * p_.kernel[1] + ky) * p_.kernel[2] + kx) * p_.groups;
        }
      }
    }
    const int64_t at = image * to.sn + z * to.step[0] + y * to.step[1] + x * to.step[2];
    depthwise_functions().pixel({rows, of_taps, taps, p_.groups, nullptr, frame.at<float>(result_) + at});
  }

  ConvolutionPlan p_;
  Slot incoming_, result_;
  WeightsByTaps weights_;
};

}  // namespace

bool is_depthwise(const ConvolutionPlan& p) {
  return p.groups > 1 && p.inputs == 1 && p.outputs == 1 && p.x.sc == 1 && p.y.sc == 1;
}

std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& p,
                                              const ProductEpilogue& extras) {
  if (!is_depthwise(p) || p.empty() || p.taps() > most_depthwise_taps) return nullptr;
  return std::make_unique<DepthwiseConvolution>(lowering, p, extras, false);
}

std::unique_ptr<Kernel> depthwise_data_gradient(Lowering& lowering, const ConvolutionPlan& p) {
  if (!is_depthwise(p) || p.empty() || p.taps() > most_depthwise_taps) return nullptr;
  if (has_no_strides(p) && p.x.pixels() > 0)
    return std::make_unique<DepthwiseConvolution>(lowering, turned(p), ProductEpilogue{}, true);
  return std::make_unique<DepthwiseDataGradient>(lowering, p);
}

}  // namespace mpsgraph::cpu
