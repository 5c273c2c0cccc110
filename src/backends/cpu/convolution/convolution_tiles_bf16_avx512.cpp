// bfloat16 convolution micro-kernels for AVX-512 processors with bfloat16 dot products.
#define MPSGRAPH_ISA avx512_bf16
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_BF16_PRODUCTS
#define MPSGRAPH_ELEMENT BFloat16
#define MPSGRAPH_FACTOR BFloat16
#include "backends/cpu/convolution/convolution_tiles.inc"
