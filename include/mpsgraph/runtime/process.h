// What the runtime knows of its process: whether it was forked, and how its threads end.
//
// Threads do not survive a fork, so objects that need them remember the process they were made in and refuse to work
// in its children. shutdown() ends all threads; it runs at exit by itself, and the Python module calls it earlier.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// Member of everything that is useless in a forked child.
class MPSGRAPH_API ForkGuard {
 public:
  ForkGuard();
  bool forked() const;
  void check(std::string_view what) const;  // DeviceError: "<what> was created before fork ..."

 private:
  uint64_t generation_;
};

// Refuses new work, lets all work in flight and all handlers finish, and joins every thread. Waits that only work not
// yet committed could end are cancelled. Idempotent; does nothing in a forked child.
MPSGRAPH_API void shutdown();
MPSGRAPH_API bool shutting_down();

// Seconds; none: for ever.
using Timeout = std::optional<double>;

}  // namespace mpsgraph::runtime
