// How many threads the CPU device's kernels use together, those of all queues.
#pragma once

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// As set, else automatic: OMP_NUM_THREADS, or the processors that the process may use.
MPSGRAPH_API int thread_count();

// From the next loop on; 0: automatic. Kernels are cut into parts by the number of threads at the first compilation, so
// that the same program gives the same bits with fewer. DeviceError for a negative number, and for more than that.
MPSGRAPH_API void set_thread_count(int count);

}  // namespace mpsgraph::runtime
