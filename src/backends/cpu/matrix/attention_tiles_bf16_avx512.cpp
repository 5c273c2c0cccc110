// Attention in tiles of bfloat16 with the instructions that some AVX-512 processors have for it.
#define MPSGRAPH_ISA avx512_bf16
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_BF16_PRODUCTS
#include "backends/cpu/matrix/attention_tiles.inc"
