// Limits for untrusted graphs and files.
//
//   const LimitScope scope({.nodes = 100'000, .bytes = int64_t{4} << 30, .seconds = 10});
//   const PackageContents contents = load_package(path);  // throws LimitError if the package exceeds a limit
//
// The limits apply to everything that the current thread parses, loads, or builds during the lifetime of the scope.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "mpsgraph/export.h"

namespace mpsgraph {

// The largest values that input may reach. Negative values mean no limit.
struct Limits {
  int64_t nodes = -1;   // number of operations in graphs
  int64_t depth = -1;   // how deeply control-flow blocks, functions, and JSON are nested
  int64_t bytes = -1;   // number of bytes in files and constants
  double seconds = -1;  // seconds since the beginning of the scope
};

// For readers of input. Each function throws LimitError if the input exceeds a limit of the current thread.
MPSGRAPH_API void count_nodes(int64_t count = 1);  // also checks the time
MPSGRAPH_API void count_bytes(uint64_t bytes, std::string_view what);
MPSGRAPH_API void check_depth(int64_t depth);
MPSGRAPH_API void check_time();

// Applies limits to the current thread. Scopes nest: the limits of all scopes apply.
class MPSGRAPH_API LimitScope {
 public:
  explicit LimitScope(const Limits& limits);
  ~LimitScope();
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  friend void count_nodes(int64_t count);
  friend void count_bytes(uint64_t bytes, std::string_view what);
  friend void check_depth(int64_t depth);
  friend void check_time();

  const Limits limits_;
  int64_t nodes_ = 0;
  uint64_t bytes_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  LimitScope* const outer_;
};

}  // namespace mpsgraph
