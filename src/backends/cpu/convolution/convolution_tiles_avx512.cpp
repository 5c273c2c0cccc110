// float32 convolution micro-kernels with AVX-512.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#define MPSGRAPH_ELEMENT float
#define MPSGRAPH_FACTOR float
#include "backends/cpu/convolution/convolution_tiles.inc"
