// The tables of kernels for convolutions and their gradients, in the order in which they are tried.
#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/convolution/convolution_depthwise.h"
#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/convolution/convolution_taps.h"
#include "backends/cpu/convolution/convolution_winograd.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/product_epilogue.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

// With fewer source channels, the input gradient does not use one matmul per tap, because the panel of a tap would be
// mostly empty.
constexpr int64_t few_channels = 8;

// A convolution or one of its gradients, as all candidates see it.
struct Convolution {
  ConvolutionPart part;
  Operand weights;  // or their gradient
  ConvolutionPlan plan;
  ProductEpilogue extras;

  explicit Convolution(const Lowering& lowering) : Convolution(lowering, part_of(lowering.operation())) {}
  bool is(ConvolutionPart wanted) const { return part == wanted; }

 private:
  Convolution(const Lowering& lowering, ConvolutionPart part)
      : part(part),
        weights(part == ConvolutionPart::weights_gradient ? lowering.output() : lowering.input(1)),
        plan(plan_of(lowering, part)),
        extras(epilogue_of(lowering)) {}

  static ConvolutionPart part_of(const Operation& operation) {
    for (const ConvolutionKinds& kinds : convolution_kinds) {
      if (operation.is(kinds.data_gradient)) return ConvolutionPart::data_gradient;
      if (operation.is(kinds.weights_gradient)) return ConvolutionPart::weights_gradient;
    }
    return ConvolutionPart::forward;
  }
  static ConvolutionPlan plan_of(const Lowering& lowering, ConvolutionPart part) {
    const Dims first = lowering.input(0).dims, second = lowering.input(1).dims, result = lowering.output().dims;
    const ops::Convolution c(lowering.attributes());
    switch (part) {
      case ConvolutionPart::forward: return {c, first, second, result};
      case ConvolutionPart::data_gradient: return {c, result, second, first};
      case ConvolutionPart::weights_gradient: return {c, second, result, first};
    }
    __builtin_unreachable();
  }
};

Offer depthwise(Lowering& lowering) {
  const Convolution c(lowering);
  if (c.weights.dtype != DType::float32) return decline(cat("computes only float32, not ", c.weights.dtype));
  auto kernel = c.is(ConvolutionPart::forward)         ? depthwise_convolution(lowering, c.plan, c.extras)
                : c.is(ConvolutionPart::data_gradient) ? depthwise_data_gradient(lowering, c.plan)
                                                       : depthwise_weights_gradient(lowering, c.plan);
  if (!kernel) return decline("is not depthwise with channels last, or has many taps");
  return kernel;
}

Offer planes(Lowering& lowering) {
  const Convolution c(lowering);
  if (!c.is(ConvolutionPart::forward)) return decline("computes no gradients");
  if (c.weights.dtype != DType::float32) return decline(cat("computes only float32, not ", c.weights.dtype));
  auto kernel = depthwise_planes(lowering, c.plan, c.extras);
  if (!kernel) return decline("is not depthwise with channels first and adjacent taps");
  return kernel;
}

// The reason why kernels that compute one matmul per filter tap decline, or an empty string.
std::string not_by_taps(const Convolution& c) {
  if (runs_by_taps(c.plan, c.weights.dtype)) return "";
  return "needs channels last, one group, and float32, or bfloat16 with even numbers of channels";
}

TapPlan taps_of(const Convolution& c) {
  return c.is(ConvolutionPart::data_gradient) ? TapPlan::data_gradient(c.plan) : TapPlan::forward(c.plan);
}

bool has_few_channels(const Convolution& c) {
  return c.is(ConvolutionPart::data_gradient) && c.plan.inputs < few_channels;
}

Offer winograd(Lowering& lowering) {
  const Convolution c(lowering);
  if (const std::string reason = not_by_taps(c); !reason.empty()) return decline(reason);
  if (c.weights.dtype != DType::float32) return decline(cat("computes only float32, not ", c.weights.dtype));
  if (has_few_channels(c)) return decline("the source has few channels");
  TapPlan plan = taps_of(c);
  std::optional<WinogradPlan> tiles = winograd_plan(c.plan, plan, c.part);
  if (!tiles) return decline("is not square, or would not be faster than matmuls per tap");
  TapWeights weights(c.plan, plan, c.is(ConvolutionPart::data_gradient));
  if (c.is(ConvolutionPart::weights_gradient))
    return winograd_weights_gradient(lowering, std::move(*tiles), std::move(weights));
  return winograd_product(lowering, std::move(*tiles), std::move(weights), c.extras);
}

Offer taps(Lowering& lowering) {
  const Convolution c(lowering);
  if (const std::string reason = not_by_taps(c); !reason.empty()) return decline(reason);
  if (has_few_channels(c)) return decline("the source has few channels");
  TapPlan plan = taps_of(c);
  const bool complete = static_cast<int64_t>(plan.taps.size()) == c.plan.taps();
  TapWeights weights(c.plan, plan, c.is(ConvolutionPart::data_gradient));
  if (c.is(ConvolutionPart::weights_gradient))
    return tap_weights_gradient(lowering, c.weights.dtype, std::move(plan), std::move(weights), complete);
  return tap_product(lowering, c.weights.dtype, std::move(plan), std::move(weights), c.extras);
}

// Several groups whose channels do not fill a vector are computed as one matmul with a block-diagonal matrix.
Offer grouped_taps(Lowering& lowering) {
  const Convolution c(lowering);
  const ConvolutionTiles<float, float>* tiles = narrow_convolution_tiles();
  ConvolutionPlan p = c.plan;
  const bool back = c.is(ConvolutionPart::data_gradient);
  if (!tiles || c.weights.dtype != DType::float32 || p.groups == 1 || p.x.sc != 1 || p.y.sc != 1 || p.empty())
    return decline("needs groups, channels last, and float32");
  const bool is_product = !c.is(ConvolutionPart::weights_gradient);
  const int64_t columns = is_product ? tiles->columns / 2 : tiles->columns;  // one vector, or one tile
  int64_t merged = std::max<int64_t>(columns / (back ? p.inputs : p.outputs), 1);
  while (p.groups % merged != 0) --merged;
  const int64_t groups = p.groups / merged;
  p.groups = 1, p.inputs *= merged, p.outputs *= merged;
  TapPlan plan = (back ? TapPlan::data_gradient(p) : TapPlan::forward(p)).repeated(groups, p.taps());
  const bool complete = static_cast<int64_t>(plan.taps.size()) == groups * p.taps();
  TapWeights weights(p, plan, back, merged);
  if (!is_product) return tap_weights_gradient(lowering, DType::float32, std::move(plan), std::move(weights), complete);
  return tap_product(lowering, DType::float32, std::move(plan), std::move(weights), c.extras);
}

Offer scatter(Lowering& lowering) {
  const Convolution c(lowering);
  if (const std::string reason = not_by_taps(c); !reason.empty()) return decline(reason);
  if (!has_few_channels(c)) return decline("computes only gradients with respect to an input of few channels");
  if (c.weights.dtype != DType::float32) return decline(cat("computes only float32, not ", c.weights.dtype));
  const ConvolutionPlan& p = c.plan;
  const int threads = threads_for(p.y.n * p.y.pixels() * p.taps() * p.inputs * p.outputs);
  // If windows overlap, each image is processed by a single thread, so there must be at least as many images as
  // threads.
  if (p.x.n < threads && !windows_lie_apart(p))
    return decline("windows overlap, and there are fewer images than threads");
  return tap_scatter(lowering, p, threads);
}

Offer in_float32(Lowering& lowering) {
  const DType dtype = lowering.output().dtype;
  if (wide_float(dtype) == dtype) return decline("converts only float16 and bfloat16");
  return widened_kernel(lowering, dtype, DType::float32, make_kernel);
}

Offer patches(Lowering& lowering) {
  const Convolution c(lowering);
  std::unique_ptr<Kernel> kernel = c.is(ConvolutionPart::forward)         ? convolve(lowering, c.plan)
                                   : c.is(ConvolutionPart::data_gradient) ? convolve_back(lowering, c.plan)
                                                                          : convolve_weights(lowering, c.plan);
  const int64_t inner = c.plan.y.sc;  // elements between channels
  return with_epilogue(std::move(kernel), c.extras, lowering.output(), c.plan.y.c, inner);
}

std::vector<Candidate> candidates() {
  return {{"depthwise", depthwise}, {"depthwise_planes", planes},   {"winograd", winograd},     {"taps", taps},
          {"tap_scatter", scatter}, {"grouped_taps", grouped_taps}, {"in_float32", in_float32}, {"patches", patches}};
}

}  // namespace

const Kernels convolution_candidates_kernels("convolution_candidates", [] {
  for (const ConvolutionKinds& kinds : convolution_kinds)
    for (const Kind kind : {kinds.forward, kinds.data_gradient, kinds.weights_gradient})
      define_candidates(kind, candidates());
  define_candidates("fused_convolution2d", candidates());
});

}  // namespace mpsgraph::cpu
