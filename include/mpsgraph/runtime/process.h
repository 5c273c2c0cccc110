// Process-wide state of the runtime: whether the process was forked, and how the runtime's threads end.
//
// Threads do not survive a fork. Objects that need threads therefore record the process that created them, and throw in
// forked children. shutdown() ends all threads. It is called automatically at exit; the Python module calls it earlier.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// A member of every object that cannot be used in a forked child.
class MPSGRAPH_API ForkGuard {
 public:
  ForkGuard();
  bool forked() const;
  // Throws DeviceError with the message "<what> was created before fork ..." in a forked child.
  void check(std::string_view what) const;

 private:
  uint64_t generation_;
};

// Rejects new work, completes all work in flight and all handlers, and joins every thread. Waits for work that has not
// been committed are canceled. Calls after the first one, and calls in a forked child, have no effect.
MPSGRAPH_API void shutdown();
MPSGRAPH_API bool shutting_down();

// in seconds; nullopt means to wait indefinitely
using Timeout = std::optional<double>;

}  // namespace mpsgraph::runtime
