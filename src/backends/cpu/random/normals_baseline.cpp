// Normals of many words for every processor.
#define MPSGRAPH_ISA baseline
#include "backends/cpu/random/normals.inc"
