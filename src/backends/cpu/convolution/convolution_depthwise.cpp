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

DepthwiseFunction depthwise_function() {
#if defined(__x86_64__)
  if (instruction_set() == "AVX-512") return avx512::depthwise_pixel;
  if (instruction_set() == "AVX2") return avx2::depthwise_pixel;
#endif
  return baseline::depthwise_pixel;
}

class DepthwiseConvolution final : public Kernel {
 public:
  DepthwiseConvolution(Lowering& lowering, const ConvolutionPlan& plan, const ProductExtras& extras)
      : p_(plan),
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
    parallel_for(p_.y.n * p_.y.pixels(), grain_for(cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) pixel(frame, i);
    });
  }
  std::string description() const override { return "depthwise, a pixel at a time"; }

 private:
  void pixel(const Frame& frame, int64_t i) const {
    static const DepthwiseFunction function = depthwise_function();
    const auto& [depth, height, width] = p_.windows;
    const int64_t image = i / p_.y.pixels(), place = i % p_.y.pixels();
    const int64_t ox = place % p_.y.size[2], oy = place / p_.y.size[2] % p_.y.size[1],
                  od = place / p_.y.size[2] / p_.y.size[1];
    const float* source = frame.at<const float>(source_) + image * p_.x.sn;
    const float* weights = frame.at<const float>(by_taps_);
    const float *rows[most_depthwise_taps], *of_taps[most_depthwise_taps];
    const auto inside = [](int64_t at, const ops::Window& w) { return at >= 0 && at < w.input; };
    int64_t taps = 0;
    for (int64_t kd = 0; kd < p_.kernel[0]; ++kd) {
      const int64_t id = depth.at(od, kd);
      if (!inside(id, depth)) continue;
      for (int64_t ky = 0; ky < p_.kernel[1]; ++ky) {
        const int64_t iy = height.at(oy, ky);
        if (!inside(iy, height)) continue;
        for (int64_t kx = 0; kx < p_.kernel[2]; ++kx) {
          const int64_t ix = width.at(ox, kx);
          if (!inside(ix, width)) continue;
          rows[taps] = source + id * p_.x.step[0] + iy * p_.x.step[1] + ix * p_.x.step[2];
          of_taps[taps++] = weights + ((kd * p_.kernel[1] + ky) * p_.kernel[2] + kx) * p_.groups;
        }
      }
    }
    const int64_t at = image * p_.y.sn + od * p_.y.step[0] + oy * p_.y.step[1] + ox * p_.y.step[2];
    function({rows, of_taps, taps, p_.groups, extras_.bias >= 0 ? frame.at<const float>(extras_.bias) : nullptr,
              extras_.residual >= 0 ? frame.at<const float>(extras_.residual) + at : nullptr, extras_.relu,
              frame.at<float>(result_) + at});
  }

  ConvolutionPlan p_;
  ProductExtras extras_;
  Slot source_, weights_, result_, by_taps_;
};

}  // namespace

std::unique_ptr<Kernel> depthwise_convolution(Lowering& lowering, const ConvolutionPlan& p,
                                              const ProductExtras& extras) {
  const bool depthwise = p.groups > 1 && p.inputs == 1 && p.outputs == 1 && p.x.sc == 1 && p.y.sc == 1;
  if (!depthwise || p.empty() || p.taps() > most_depthwise_taps) return nullptr;
  int64_t dilation = 1;
  for (int axis = 0; axis < 3; ++axis)
    if (p.kernel[axis] > 1) dilation = std::max(dilation, p.windows[axis].dilation);
  if (dilation < least_dilation) return nullptr;
  return std::make_unique<DepthwiseConvolution>(lowering, p, extras);
}

}  // namespace mpsgraph::cpu
