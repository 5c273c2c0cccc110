// The number of threads that kernels are cut for, beside the one that is set (mpsgraph/runtime/threads.h).
#pragma once

#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::runtime {

// thread_count() at the first call, from then on the same for the whole process: the most that can be set.
int most_threads();

}  // namespace mpsgraph::runtime
