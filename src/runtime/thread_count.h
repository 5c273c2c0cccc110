// The number of threads that kernels are partitioned for. The number that the user sets is in
// mpsgraph/runtime/threads.h.
#pragma once

#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::runtime {

// Returns thread_count() as of the first call and the same value from then on: the largest number that can be set
// later.
int most_threads();

}  // namespace mpsgraph::runtime
