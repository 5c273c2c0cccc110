// Selects the inner loops of convolutions by taps (convolution_tiles.h) for this processor. If bfloat16 is multiplied
// in pairs, a pair consists of two channels or, in the weight gradient, of the same pixel of two images.
#include "backends/cpu/convolution/convolution_taps.h"

#include "backends/cpu/amx.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernel_table.h"

namespace mpsgraph::cpu {
template <>
const ConvolutionTiles<float, float>* convolution_tiles() {
#if defined(__x86_64__)
  if (instruction_set() == "AVX-512") return &avx512::convolution_tiles();
  if (instruction_set() == "AVX2") return &avx2::convolution_tiles();
#elif defined(__aarch64__)
  return &neon::convolution_tiles();
#endif
  return nullptr;
}

const ConvolutionTiles<float, float>* narrow_convolution_tiles() {
#if defined(__x86_64__)
  return instruction_set() != "baseline" ? &avx2::convolution_tiles() : nullptr;
#elif defined(__aarch64__)
  return &neon::two_vector_tiles();
#else
  return nullptr;
#endif
}

const ConvolutionTiles<float, float>& one_vector_tiles() {
#if defined(__x86_64__)
  return avx2::one_vector_tiles();
#else
  return *narrow_convolution_tiles();  // has more rows than one vector needs
#endif
}

namespace {

bool has_bfloat16() {
#if defined(__x86_64__)
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16");
  return there;
#else
  return instruction_set() == "NEON-bf16";
#endif
}

bool multiplies_in_registers() { return wanted("amx").value_or(true) && has_bfloat16() && has_amx(); }

}  // namespace

template <>
const ConvolutionTiles<BFloat16, BFloat16>* convolution_tiles() {
#if defined(__x86_64__)
  if (multiplies_in_registers()) return &amx_bf16::register_tiles();
  if (has_bfloat16()) return &avx512_bf16::convolution_tiles();
#elif defined(__aarch64__)
  if (has_bfloat16()) return &neon_bf16::convolution_tiles();
#endif
  return nullptr;
}

template <>
const ConvolutionTiles<BFloat16, float>* convolution_tiles() {
#if defined(__x86_64__)
  if (has_bfloat16()) return &avx512_bf16_widened::convolution_tiles();
  if (instruction_set() == "AVX-512") return &avx512_rounding::convolution_tiles();
#elif defined(__aarch64__)
  return &neon_widened::convolution_tiles();
#endif
  return nullptr;
}

// Return whether to multiply pairs of bfloat16 directly instead of widening them to float32. On Intel processors, the
// vector instruction for pairs takes four times as long as a float32 multiply-add (measured on a fifth-generation
// Xeon), so multiplying pairs has half the throughput. Multiplying pairs pays off only if the matmul is bound by
// reading the weights, which are half as large in bfloat16. On other processors, and in AMX registers, multiplying
// pairs is always faster.
bool multiplies_pairs(bool waits_for_weights) {
  if (!has_bfloat16()) return false;
  if (multiplies_in_registers()) return true;
#if defined(__x86_64__)
  const bool slow = __builtin_cpu_is("intel");
#else
  constexpr bool slow = false;
#endif
  return wanted("pairs").value_or(waits_for_weights || !slow);
}

bool runs_by_taps(const ConvolutionPlan& p, DType dtype) {
  if (p.groups != 1 || p.x.sc != 1 || p.y.sc != 1 || p.empty()) return false;
  if (dtype == DType::float32) return convolution_tiles<float, float>();
  return dtype == DType::bfloat16 && convolution_tiles<BFloat16, float>() && p.inputs % 2 == 0 && p.outputs % 2 == 0;
}

}  // namespace mpsgraph::cpu
