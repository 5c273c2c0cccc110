// Fourier transforms for AVX2; the build sets the compiler flags of this file.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/fourier/fourier_lanes.inc"
