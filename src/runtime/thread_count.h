// The number of threads that kernels are partitioned for. mpsgraph/runtime/threads.h declares the number of threads
// that the user sets.
#pragma once

#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::runtime {

// Largest number of threads that a user can set: the value of thread_count() at the first call of this function.
int most_threads();

}  // namespace mpsgraph::runtime
