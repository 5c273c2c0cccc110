// Counts what the current thread reads, and compares it with the limits of all scopes.
#include "mpsgraph/core/limits.h"

#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

thread_local LimitScope* innermost = nullptr;

}  // namespace

LimitScope::LimitScope(const Limits& limits) : limits_(limits), outer_(innermost) { innermost = this; }
LimitScope::~LimitScope() { innermost = outer_; }

void count_nodes(int64_t count) {
  for (LimitScope* scope = innermost; scope; scope = scope->outer_) {
    scope->nodes_ += count;
    if (scope->limits_.nodes >= 0 && scope->nodes_ > scope->limits_.nodes)
      throw LimitError(cat("the input has more than ", scope->limits_.nodes,
                           " operations, which is the limit; raise the limit `nodes` if you trust the input"));
  }
  check_time();
}

void count_bytes(uint64_t bytes, std::string_view what) {
  for (LimitScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->limits_.bytes < 0) continue;
    const auto limit = static_cast<uint64_t>(scope->limits_.bytes);
    if (bytes > limit || scope->bytes_ > limit - bytes)
      throw LimitError(cat(what, " has ", bytes, " bytes, so the input as a whole exceeds the limit of ", limit,
                           " bytes; raise the limit `bytes` if you trust the input"));
    scope->bytes_ += bytes;
  }
}

void check_depth(int64_t depth) {
  for (const LimitScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->limits_.depth >= 0 && depth > scope->limits_.depth)
      throw LimitError(cat("the input nests deeper than ", scope->limits_.depth,
                           " levels, which is the limit; raise the limit `depth` if you trust the input"));
}

void check_time() {
  for (const LimitScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->limits_.seconds < 0) continue;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - scope->begin_;
    if (elapsed.count() > scope->limits_.seconds)
      throw LimitError(cat("reading the input took longer than ", scope->limits_.seconds,
                           " s, which is the limit; raise the limit `time` if you trust the input"));
  }
}

}  // namespace mpsgraph
