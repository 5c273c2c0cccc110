// Depthwise convolutions with channels first; vectors run along a row of pixels.
//
// A band of rows of a channel is copied with zero padding on the left and right, so that the taps of every pixel can be
// read without bounds checks. Rows of taps outside the image are skipped. The copy stays in L1, and planes are read
// from memory in order.
#include <algorithm>

#include "backends/cpu/convolution/convolution_depthwise.h"
#include "backends/cpu/convolution/convolution_depthwise_loops.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t most_taps = 128;
constexpr int64_t widest_vector = 16;  // elements in the widest vector of any processor
constexpr int64_t band_elements = 6 << 10;  // 24 KB, which fits in a 32 KB L1 cache

class DepthwisePlanes final : public Kernel {
 public:
  DepthwisePlanes(Lowering& lowering, const ConvolutionPlan& plan, const ProductEpilogue& extras)
      : p_(plan),
        extras_(extras),
        source_(lowering.input(0).slot),
        weights_(lowering.input(1).slot),
        result_(lowering.output().slot),
        seen_(p_.y.size[2] + p_.windows[2].kernel - 1),
        pitch_((seen_ + 2 * widest_vector - 1) / widest_vector * widest_vector) {
    const ops::Window& y = p_.windows[1];
    rows_ = std::clamp<int64_t>((band_elements / pitch_ - y.kernel) / y.stride + 1, 1, p_.y.size[1]);
    bands_ = (p_.y.size[1] + rows_ - 1) / rows_;
    band_ = ((rows_ - 1) * y.stride + y.kernel) * pitch_ + widest_vector;
    bands_memory_ = lowering.scratch(static_cast<size_t>(band_ * thread_count()) * sizeof(float));
  }

  void run(Frame& frame) const override {
    const int64_t cost = rows_ * p_.y.size[2] * p_.taps();
    parallel_for(p_.y.n * p_.groups * bands_, grain_for(cost), [&](int64_t begin, int64_t end) {
      float* band = frame.at<float>(bands_memory_) + thread_number() * band_;
      for (int64_t i = begin; i < end; ++i) compute(frame, i / bands_, i % bands_ * rows_, band);
    });
  }
  std::string description() const override { return "depthwise, rows of planes"; }

 private:
  // Compute one band (a group of consecutive result rows) of a plane, starting at result row `first`.
  void compute(const Frame& frame, int64_t plane, int64_t first, float* band) const {
    const ops::Window &wy = p_.windows[1], &wx = p_.windows[2];
    const int64_t image = plane / p_.groups, channel = plane % p_.groups, end = std::min(first + rows_, p_.y.size[1]);
    const int64_t from = std::max<int64_t>(wy.at(first, 0), 0),
                  to = std::min(wy.at(end - 1, wy.kernel - 1) + 1, wy.input);
    const float* source = frame.at<const float>(source_) + image * p_.x.sn + channel * p_.x.sc;
    const int64_t count = std::clamp<int64_t>(seen_ - wx.begin, 0, wx.input);
    depthwise_functions().pad(
        {source + from * p_.x.step[1], to - from, p_.x.step[1], count, std::min(wx.begin, seen_), band, pitch_});

    float weights[most_taps];
    for (int64_t tap = 0; tap < p_.taps(); ++tap)
      weights[tap] = frame.at<const float>(weights_)[p_.tap_offset(tap) + channel * p_.weights.group_stride];
    for (int64_t y = first; y < end; ++y) {
      const float *rows[most_taps], *of_rows[most_taps];
      int64_t count = 0;
      for (int64_t ky = 0; ky < wy.kernel; ++ky) {
        const int64_t row = wy.at(y, ky);
        if (row < 0 || row >= wy.input) continue;
        rows[count] = band + (row - from) * pitch_;
        of_rows[count++] = weights + ky * wx.kernel;
      }
      const int64_t place = image * p_.y.sn + channel * p_.y.sc + y * p_.y.step[1];
      depthwise_functions().row({rows, of_rows, count, wx.kernel, p_.y.size[2],
                                 extras_.bias >= 0 ? frame.at<const float>(extras_.bias)[channel] : 0.f, extras_.relu,
                                 frame.at<float>(result_) + place});
    }
  }

  ConvolutionPlan p_;
  ProductEpilogue extras_;
  Slot source_, weights_, result_, bands_memory_;
  int64_t seen_, pitch_;  // elements of a padded row that pixels read; distance between padded rows in elements
  int64_t rows_, bands_, band_;  // result rows per band, bands per plane, elements per band
};

}  // namespace

std::unique_ptr<Kernel> depthwise_planes(Lowering& lowering, const ConvolutionPlan& p, const ProductEpilogue& extras) {
  const bool planes = p.groups > 1 && p.inputs == 1 && p.outputs == 1 && p.x.step[2] == 1 && p.y.step[2] == 1;
  if (!planes || p.empty() || p.taps() > most_taps || p.kernel[0] > 1 || p.x.size[0] > 1) return nullptr;
  if (p.windows[2].stride > 1 || p.windows[2].begin < 0 || p.windows[1].begin < 0) return nullptr;
  if (extras.residual >= 0) return nullptr;  // the compiler pass 'fuse' adds residuals only with channels last
  // dilated taps would skip most of a copied band
  if (p.windows[1].dilation > 1 || p.windows[2].dilation > 1) return nullptr;
  return std::make_unique<DepthwisePlanes>(lowering, p, extras);
}

}  // namespace mpsgraph::cpu
