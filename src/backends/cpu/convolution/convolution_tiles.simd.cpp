// Tables of the convolution micro-kernels.
// Instruction sets: avx2, avx512, avx512_bf16, neon_bf16.
#include "backends/cpu/convolution/convolution_micro_kernels.h"

namespace mpsgraph::cpu {

#if defined(MPSGRAPH_BF16_PRODUCTS) && defined(__aarch64__)
const ConvolutionTiles<BFloat16, BFloat16>& neon_bf16::convolution_tiles() {
  return MicroKernels<BFloat16, BFloat16>::tiles;
}
#elif defined(MPSGRAPH_BF16_PRODUCTS)
const ConvolutionTiles<BFloat16, BFloat16>& avx512_bf16::convolution_tiles() {
  return MicroKernels<BFloat16, BFloat16>::tiles;
}
// Multiply bfloat16 in float32; the instructions round to bfloat16.
const ConvolutionTiles<BFloat16, float>& avx512_bf16_widened::convolution_tiles() {
  return avx512_bf16::MicroKernels<BFloat16, float>::tiles;
}
#else
const ConvolutionTiles<float, float>& MPSGRAPH_ISA::convolution_tiles() { return MicroKernels<float, float>::tiles; }
#if defined(__aarch64__)
const ConvolutionTiles<float, float>& neon::two_vector_tiles() { return MicroKernels<float, float, 2>::tiles; }
const ConvolutionTiles<BFloat16, float>& neon_widened::convolution_tiles() {
  return neon::MicroKernels<BFloat16, float>::tiles;
}
#elif MPSGRAPH_VECTOR_BYTES == 32
const ConvolutionTiles<float, float>& avx2::one_vector_tiles() {
  static constexpr auto tiles = MicroKernels<float, float>::narrow_tiles();
  return tiles;
}
#elif MPSGRAPH_VECTOR_BYTES == 64
const ConvolutionTiles<BFloat16, float>& avx512_rounding::convolution_tiles() {
  return avx512::MicroKernels<BFloat16, float>::tiles;
}
#endif
#endif

}  // namespace mpsgraph::cpu
