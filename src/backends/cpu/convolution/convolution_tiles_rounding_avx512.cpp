// Tiles of convolutions in bfloat16 with products in float32, where the processor has no instruction that rounds to it.
#define MPSGRAPH_ISA avx512_rounding
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_ELEMENT BFloat16
#define MPSGRAPH_FACTOR float
#include "backends/cpu/convolution/convolution_tiles.inc"
