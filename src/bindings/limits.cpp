// Limits for untrusted input (mpsgraph/core/limits.h). python/mpsgraph/_limits.py wraps them in a context manager.
#include "mpsgraph/core/limits.h"
#include "bindings/bindings.h"

namespace mpsgraph::bindings {

namespace {

std::vector<std::unique_ptr<LimitScope>>& scopes() {
  thread_local std::vector<std::unique_ptr<LimitScope>> all;
  return all;
}

}  // namespace

void define_limits(Module& module) {
  module.def(
      "enter_limits",
      [](int64_t nodes, int64_t depth, int64_t bytes, double seconds) {
        scopes().push_back(std::make_unique<LimitScope>(Limits{nodes, depth, bytes, seconds}));
      },
      py::arg("nodes"), py::arg("depth"), py::arg("bytes"), py::arg("seconds"),
      "Apply limits to the current thread, in addition to those that already apply. Negative values mean no limit.");
  module.def(
      "exit_limits",
      [] {
        if (!scopes().empty()) scopes().pop_back();
      },
      "Remove the limits that were applied last.");
  module.def(
      "count_input",
      [](int64_t nodes, uint64_t bytes, int64_t depth, const std::string& what) {
        count_nodes(nodes);
        if (bytes > 0) count_bytes(bytes, what);
        check_depth(depth);
      },
      py::arg("nodes") = 0, py::arg("bytes") = 0, py::arg("depth") = 0, py::arg("what") = "the input",
      "Count input towards the limits, and raise LimitError if it exceeds one.");
}

}  // namespace mpsgraph::bindings
