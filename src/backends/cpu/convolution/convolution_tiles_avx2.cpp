// float32 convolution micro-kernels with AVX2.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#define MPSGRAPH_ELEMENT float
#define MPSGRAPH_FACTOR float
#include "backends/cpu/convolution/convolution_tiles.inc"
