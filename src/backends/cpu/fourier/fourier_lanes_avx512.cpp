// Fourier transforms for the avx512 instruction set; the build gives this file its flags.
#define MPSGRAPH_ISA avx512
#define MPSGRAPH_VECTOR_BYTES 64
#include "backends/cpu/fourier/fourier_lanes.inc"
