// bfloat16 convolution micro-kernels that multiply in float32, for processors with AVX512_BF16.
#define MPSGRAPH_ISA avx512_bf16_widened
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_BF16_PRODUCTS
#define MPSGRAPH_ELEMENT BFloat16
#define MPSGRAPH_FACTOR float
#include "backends/cpu/convolution/convolution_tiles.inc"
