// The number of threads that kernels are partitioned for. mpsgraph/runtime/threads.h declares the number of threads
// that the user sets.
#pragma once

#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::runtime {

// Largest number of threads that can be set: the value of thread_count() when this function is first called.
int most_threads();

}  // namespace mpsgraph::runtime
