// bfloat16 convolution micro-kernels that multiply in float32, for processors without an instruction that rounds to
// bfloat16.
#define MPSGRAPH_ISA avx512_rounding
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_ELEMENT BFloat16
#define MPSGRAPH_FACTOR float
#include "backends/cpu/convolution/convolution_tiles.inc"
