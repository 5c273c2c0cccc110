// Fourier transforms for the avx2 instruction set; the build gives this file its flags.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/fourier/fourier_lanes.inc"
