// Inner loops of depthwise convolutions in 64-byte vectors.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/convolution/convolution_depthwise.inc"
