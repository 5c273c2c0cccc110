// The epilogue of kernels that cannot apply it themselves: another pass over their result.
#include "backends/cpu/product_epilogue.h"

#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

class WithEpilogue final : public Kernel {
 public:
  WithEpilogue(std::unique_ptr<Kernel> kernel, const ProductEpilogue& epilogue, const Operand& result, int64_t channels,
               int64_t inner)
      : kernel_(std::move(kernel)),
        epilogue_(epilogue),
        result_(result.slot),
        channels_(channels),
        inner_(inner),
        rows_(result.elements() / inner) {}

  void run(Frame& frame) const override {
    kernel_->run(frame);
    // A row has `inner_` elements of one channel. With channels last, these are single elements, so all channels of a
    // pixel are one run.
    const int64_t run = inner_ == 1 ? channels_ : 1;
    parallel_for(rows_ / run, grain_for(run * inner_ * 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) apply(frame, i * run, run);
    });
  }
  std::unique_ptr<KernelState> make_state() const override {
    kernel_->index = index;  // the inner kernel uses the state of this kernel
    return kernel_->make_state();
  }
  std::string description() const override { return cat(kernel_->description(), ", then its epilogue"); }

 private:
  void apply(Frame& frame, int64_t row, int64_t count) const {
    const int64_t n = count * inner_;
    float* y = frame.at<float>(result_) + row * inner_;
    if (epilogue_.bias >= 0) {
      const float* bias = frame.at<const float>(epilogue_.bias) + row % channels_;
      if (inner_ == 1)
        for (int64_t i = 0; i < n; ++i) y[i] += bias[i];
      else
        for (int64_t i = 0; i < n; ++i) y[i] += *bias;
    }
    if (epilogue_.residual >= 0) {
      const float* residual = frame.at<const float>(epilogue_.residual) + row * inner_;
      for (int64_t i = 0; i < n; ++i) y[i] += residual[i];
    }
    if (epilogue_.relu)
      for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0 ? 0 : y[i];  // NaN is not below 0, so it stays NaN
  }

  std::unique_ptr<Kernel> kernel_;
  ProductEpilogue epilogue_;
  Slot result_;
  int64_t channels_, inner_, rows_;
};

}  // namespace

std::unique_ptr<Kernel> with_epilogue(std::unique_ptr<Kernel> kernel, const ProductEpilogue& epilogue,
                                      const Operand& result, int64_t channels, int64_t inner) {
  if (epilogue.bias < 0 && epilogue.residual < 0 && !epilogue.relu) return kernel;
  return std::make_unique<WithEpilogue>(std::move(kernel), epilogue, result, channels, inner);
}

}  // namespace mpsgraph::cpu
