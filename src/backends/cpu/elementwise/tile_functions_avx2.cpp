// float32 tile functions for AVX2; the build sets the compiler flags of this file.
#define MPSGRAPH_ISA avx2
#define MPSGRAPH_VECTOR_BYTES 32
#include "backends/cpu/elementwise/tile_functions_float.inc"
