// MPSGRAPH_API marks the functions that the library exports. Under include/mpsgraph, these are the functions that
// applications may call; under src, the few functions that only the Python module calls. All other functions are
// hidden.
#pragma once

#define MPSGRAPH_API __attribute__((visibility("default")))
