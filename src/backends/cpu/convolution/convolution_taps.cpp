// Selects which convolutions run as one matmul per filter tap, and lowers them.
//
// The kernels are in convolution_tap_kernels.h, the taps that each pixel sees in convolution_tap_plan.h, and the inner
// loops in convolution_tiles.h. If bfloat16 is multiplied in pairs, a pair consists of two channels or, in the weight
// gradient, of the same pixel of two images.
#include "backends/cpu/convolution/convolution_taps.h"

#include "backends/cpu/amx.h"
#include "backends/cpu/convolution/convolution_depthwise.h"
#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/convolution/convolution_winograd.h"
#include "backends/cpu/environment.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
template <>
const ConvolutionTiles<float, float>* convolution_tiles() {
#if defined(__x86_64__)
  if (instruction_set() == "AVX-512") return &avx512::convolution_tiles();
  if (instruction_set() == "AVX2") return &avx2::convolution_tiles();
#endif
  return nullptr;
}

namespace {

std::string_view wanted_products() {
  constexpr const char* variable = "MPSGRAPH_BFLOAT16_PRODUCTS";
  static const std::string_view wish =
      has_amx() ? asked_for(variable, {"registers", "pairs", "float32"}) : asked_for(variable, {"pairs", "float32"});
  return wish;
}

bool has_bfloat16() {
#if defined(__x86_64__)
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16");
  return there;
#else
  return false;
#endif
}

bool multiplies_in_registers() {
  const bool wanted = wanted_products().empty() || wanted_products() == "registers";
  return wanted && has_bfloat16() && has_amx();
}

}  // namespace

template <>
const ConvolutionTiles<BFloat16, BFloat16>* convolution_tiles() {
#if defined(__x86_64__)
  if (multiplies_in_registers()) return &amx_bf16::register_tiles();
  if (has_bfloat16()) return &avx512_bf16::convolution_tiles();
#endif
  return nullptr;
}

template <>
const ConvolutionTiles<BFloat16, float>* convolution_tiles() {
#if defined(__x86_64__)
  if (has_bfloat16()) return &avx512_bf16_widened::convolution_tiles();
  if (instruction_set() == "AVX-512") return &avx512_rounding::convolution_tiles();
#endif
  return nullptr;
}

// Return whether to multiply pairs of bfloat16 directly instead of widening them to float32. On Intel processors, the
// vector instruction for pairs takes four times as long as a float32 multiply-add (measured on a fifth-generation
// Xeon), so multiplying pairs has half the throughput. Multiplying pairs pays off only if the matmul is bound by
// reading the weights, which are half as large in bfloat16. On other processors, and in AMX registers, multiplying
// pairs is always faster.
bool multiplies_pairs(bool waits_for_weights) {
  const std::string_view wish = wanted_products();
  if (!has_bfloat16() || wish == "float32") return false;
#if defined(__x86_64__)
  return waits_for_weights || wish == "pairs" || multiplies_in_registers() || !__builtin_cpu_is("intel");
#else
  return wish == "pairs";
#endif
}

bool runs_by_taps(const ConvolutionPlan& p, DType dtype) {
  if (p.groups != 1 || p.x.sc != 1 || p.y.sc != 1 || p.empty()) return false;
  if (dtype == DType::float32) return convolution_tiles<float, float>();
  return dtype == DType::bfloat16 && convolution_tiles<BFloat16, float>() && p.inputs % 2 == 0 && p.outputs % 2 == 0;
}

namespace {

// with fewer source channels, the input gradient does not use one matmul per tap, because the panel of a tap would be
// mostly empty
constexpr int64_t few_channels = 8;

// Return the fallback for convolutions that do not run as one matmul per tap: oneDNN's kernel or im2col.
std::unique_ptr<Kernel> another(Lowering& lowering) {
  return find_kernel(lowering.operation().kind(), Precedence::library)(lowering);
}

bool usable(const Lowering& lowering, const ConvolutionPlan& p, const Operand& weights) {
  return !lowering.reference_only() && !weights.layout && runs_by_taps(p, weights.dtype);
}

// Return whether to widen the operands and compute in float32. Constant weights are then widened once.
bool is_widened(const Lowering& lowering) {
  return multiplies_in_float32(lowering.output().dtype) && !lowering.reference_only();
}
std::unique_ptr<Kernel> in_float32(Lowering& lowering, Lower lower) {
  return widened_kernel(lowering, lowering.output().dtype, DType::float32, lower);
}

ProductEpilogue extras_of(const Lowering& lowering) {
  if (!lowering.operation().is("fused_convolution2d")) return {};
  const Attributes& a = lowering.attributes();
  const bool bias = a.boolean("has_bias"), residual = a.boolean("has_residual");
  return {bias ? lowering.input(2).slot : -1, residual ? lowering.input(bias ? 3 : 2).slot : -1,
          a.string("activation") == "relu"};
}

std::unique_ptr<Kernel> product(Lowering& lowering, const ConvolutionPlan& p, TapPlan plan, ConvolutionPart part) {
  TapWeights weights(p, plan, part == ConvolutionPart::data_gradient);
  const ProductEpilogue extras = extras_of(lowering);
  const DType dtype = lowering.input(1).dtype;
  if (auto tiles = dtype == DType::float32 ? winograd_plan(p, plan, part) : std::nullopt)
    return winograd_product(lowering, std::move(*tiles), std::move(weights), extras);
  return tap_product(lowering, dtype, std::move(plan), std::move(weights), extras);
}

std::unique_ptr<Kernel> lower_taps(Lowering& lowering) {
  if (is_widened(lowering)) return in_float32(lowering, lower_taps);
  const Operand source = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), source.dims, weights.dims, result.dims);
  if (!lowering.reference_only() && !weights.layout && weights.dtype == DType::float32)
    for (const auto lower : {depthwise_convolution, depthwise_planes})
      if (auto depthwise = lower(lowering, p, extras_of(lowering))) return depthwise;
  if (!usable(lowering, p, weights)) return another(lowering);
  return product(lowering, p, TapPlan::forward(p), ConvolutionPart::forward);
}

std::unique_ptr<Kernel> lower_taps_data_gradient(Lowering& lowering) {
  if (is_widened(lowering)) return in_float32(lowering, lower_taps_data_gradient);
  const Operand incoming = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), result.dims, weights.dims, incoming.dims);
  if (!lowering.reference_only() && !weights.layout && weights.dtype == DType::float32)
    if (auto depthwise = depthwise_data_gradient(lowering, p)) return depthwise;
  if (!usable(lowering, p, weights)) return another(lowering);
  if (p.inputs < few_channels) {
    const int threads = threads_for(p.y.n * p.y.pixels() * p.taps() * p.inputs * p.outputs);
    // If windows overlap, each image is processed by a single thread, so there must be at least as many images as
    // threads.
    const bool enough = p.x.n >= threads || windows_lie_apart(p);
    const bool scatters = weights.dtype == DType::float32 && enough;
    return scatters ? tap_scatter(lowering, p, threads) : another(lowering);
  }
  return product(lowering, p, TapPlan::data_gradient(p), ConvolutionPart::data_gradient);
}

std::unique_ptr<Kernel> lower_taps_weights_gradient(Lowering& lowering) {
  if (is_widened(lowering)) return in_float32(lowering, lower_taps_weights_gradient);
  const Operand incoming = lowering.input(0), source = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), source.dims, result.dims, incoming.dims);
  if (!usable(lowering, p, result)) return another(lowering);
  TapPlan plan = TapPlan::forward(p);
  const bool complete = static_cast<int64_t>(plan.taps.size()) == p.taps();
  TapWeights weights(p, plan, false);
  if (auto tiles =
          result.dtype == DType::float32 ? winograd_plan(p, plan, ConvolutionPart::weights_gradient) : std::nullopt)
    return winograd_weights_gradient(lowering, std::move(*tiles), std::move(weights));
  return tap_weights_gradient(lowering, result.dtype, std::move(plan), std::move(weights), complete);
}

}  // namespace

const Kernels convolution_taps_kernels("convolution_taps", [] {
  for (const ConvolutionKinds& kinds : convolution_kinds) {
    define_kernel(kinds.forward, lower_taps, Precedence::own);
    define_kernel(kinds.data_gradient, lower_taps_data_gradient, Precedence::own);
    define_kernel(kinds.weights_gradient, lower_taps_weights_gradient, Precedence::own);
  }
  define_kernel("fused_convolution2d", lower_taps, Precedence::own);
});

}  // namespace mpsgraph::cpu
