// Depthwise convolutions with channels last whose taps lie apart.
//
// oneDNN's kernels for them give way to its general ones where taps lie far apart, and from dilations of 16 on to
// products of matrices of one column. Here a pixel is one pass over its channels, whatever the dilation. Weights are
// brought into the order of taps in each run: they are few.
#include "backends/cpu/convolution/convolution_depthwise.h"

#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t most_depthwise_taps = 128;
constexpr int64_t least_dilation = 2;

// Forward a pixel is one of the result and looks at the source's; backwards one of the source's gradient, and looks at
// the incoming ones whose taps saw it.
class DepthwiseConvolution final : public Kernel {
 public:
  DepthwiseConvolution(Lowering& lowering, const ConvolutionPlan& plan, const ProductExtras& extras, bool backwards)
      : p_(plan),
        from_(backwards ? plan.y : plan.x),
        to_(backwards ? plan.x : plan.y),
        backwards_(backwards),
        extras_(extras),
        source_(lowering.input(0).slot),
        weights_(lowering.input(1).slot),
        result_(lowering.output().slot),
        by_taps_(lowering.scratch(static_cast<size_t>(plan.taps() * plan.groups) * sizeof(float))) {}

  void run(Frame& frame) const override {
    const float* weights = frame.at<const float>(weights_);
    float* by_taps = frame.at<float>(by_taps_);
    for (int64_t tap = 0; tap < p_.taps(); ++tap)
      for (int64_t c = 0; c < p_.groups; ++c)
        by_taps[tap * p_.groups + c] = weights[p_.tap_offset(tap) + c * p_.weights.group_stride];
    const int64_t cost = p_.taps() * p_.groups;
    parallel_for(to_.n * to_.pixels(), grain_for(cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pixel(frame, i);
    });
  }
  std::string description() const override { return "depthwise, a pixel at a time"; }

 private:
  // Which pixel a tap of a pixel looks at along an axis; -1: none.
  int64_t seen(int axis, int64_t at, int64_t tap) const {
    const ops::Window& w = p_.windows[static_cast<size_t>(axis)];
    if (!backwards_) {
      const int64_t place = w.at(at, tap);
      return place < w.input ? std::max<int64_t>(place, -1) : -1;
    }
    const int64_t distance = at - w.at(0, tap);
    const int64_t place = distance / w.stride;
    return distance >= 0 && distance % w.stride == 0 && place < p_.y.size[static_cast<size_t>(axis)] ? place : -1;
  }

  void pixel(const Frame& frame, int64_t i) const {
    const int64_t image = i / to_.pixels(), place = i % to_.pixels();
    const int64_t x = place % to_.size[2], y = place / to_.size[2] % to_.size[1], z = place / to_.size[2] / to_.size[1];
    const float* source = frame.at<const float>(source_) + image * from_.sn;
    const float* weights = frame.at<const float>(by_taps_);
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
          rows[taps] = source + from_z * from_.step[0] + from_y * from_.step[1] + from_x * from_.step[2];
          of_taps[taps++] = weights + ((kz * p_.kernel[1] + ky) * p_.kernel[2] + kx) * p_.groups;
        }
      }
    }
    const int64_t at = image * to_.sn + z * to_.step[0] + y * to_.step[1] + x * to_.step[2];
    depthwise_function()({rows, of_taps, taps, p_.groups,
                          extras_.bias >= 0 ? frame.at<const float>(extras_.bias) : nullptr,
                          extras_.residual >= 0 ? frame.at<const float>(extras_.residual) + at : nullptr, extras_.relu,
                          frame.at<float>(result_) + at});
  }

  ConvolutionPlan p_;
  ConvolutionImage from_, to_;
  bool backwards_;
  ProductExtras extras_;
  Slot source_, weights_, result_, by_taps_;
};

}  // namespace

DepthwiseFunction depthwise_function() {
  static const DepthwiseFunction function = [] {
#if defined(__x86_64__)
    if (instruction_set() == "AVX-512") return avx512::depthwise_pixel;
    if (instruction_set() == "AVX2") return avx2::depthwise_pixel;
#endif
    return baseline::depthwise_pixel;
  }();
  return function;
}

bool is_depthwise(const ConvolutionPlan& p) {
  return p.groups > 1 && p.inputs == 1 && p.outputs == 1 && p.x.sc == 1 && p.y.sc == 1;
}

bool taps_lie_apart(const ConvolutionPlan& p) {
  if (!is_depthwise(p) || p.empty() || p.taps() > most_depthwise_taps) return false;
  int64_t dilation = 1;
  for (int axis = 0; axis < 3; ++axis)
    if (p.kernel[axis] > 1) dilation = std::max(dilation, p.windows[axis].dilation);
  return dilation >= least_dilation;
}

std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& p,
                                              const ProductExtras& extras) {
  if (!taps_lie_apart(p)) return nullptr;
  return std::make_unique<DepthwiseConvolution>(lowering, p, extras, false);
}

std::unique_ptr<Kernel> depthwise_data_gradient(Lowering& lowering, const ConvolutionPlan& p) {
  if (!taps_lie_apart(p)) return nullptr;
  return std::make_unique<DepthwiseConvolution>(lowering, p, ProductExtras(), true);
}

}  // namespace mpsgraph::cpu
