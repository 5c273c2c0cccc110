// The number of threads that kernels are partitioned for. mpsgraph/runtime/threads.h declares the number of threads
// that the user sets.
#pragma once

#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::runtime {

// Returns the value of thread_count() at the first call of this function, and the same value from then on. It is the
// largest number of threads that can be set later.
int most_threads();

}  // namespace mpsgraph::runtime
