// Tiled attention in bfloat16, for AVX-512 processors with bfloat16 dot products.
#define MPSGRAPH_ISA avx512_bf16
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_BF16_PRODUCTS
#include "backends/cpu/matrix/attention_tiles.inc"
