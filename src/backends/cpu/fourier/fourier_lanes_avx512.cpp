// Fourier transforms for AVX-512; the build sets the compiler flags of this file.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/fourier/fourier_lanes.inc"
