// The fault that the environment chooses.
#include "faults.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "support.h"

namespace {

constexpr const char* names[] = {
    "wrong_tanh",         "exponent_of_float16",    "zero_weight_gradients", "changing_matmuls", "wrong_sums",
    "abort_in_inverse",   "crash_in_sort",          "exception_in_gather",   "hang_in_scatter",  "lost_assignments",
    "memory_leak",        "crash_at_exit",          "missing_selector",      "no_bfloat16",      "compiler_abort",
    "slow_compilation",   "validation_failure",     "unsignaled_events",     "gpu_timeouts",     "no_device",
    "wrong_pooling_node", "abort_of_large_tensors",
};

}  // namespace

int mock_is_broken(const char* fault) {
  static const std::string chosen = [] {
    const char* const given = std::getenv("MPSGRAPH_MOCK_BROKEN");
    const std::string name = given ? given : "";
    if (!name.empty() && std::find(std::begin(names), std::end(names), name) == std::end(names))
      mock::fatal("MPSGRAPH_MOCK_BROKEN must name a fault of foundation/faults.mm, got %s", given);
    return name;
  }();
  return chosen == fault;
}
