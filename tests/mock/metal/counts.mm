// Counters of framework operations, and the function that reads them.
#include "metal/counts.h"

#include <map>
#include <mutex>
#include <string>

namespace mock {

Counters& counters() {
  static Counters all;
  return all;
}

namespace {

struct Kinds {
  std::mutex mutex;
  std::map<std::string, uint64_t, std::less<>> added;
};
Kinds& kinds() {
  static Kinds all;
  return all;
}

}  // namespace

void count_operation(const char* kind) {
  ++counters().operations;
  std::lock_guard lock(kinds().mutex);
  ++kinds().added[kind];
}

}  // namespace mock

mock_counts mock_take_counts(void) {
  auto& c = mock::counters();
  const auto take = [](std::atomic<uint64_t>& counter) { return counter.exchange(0); };
  return {take(c.command_buffers), take(c.hand_overs),     take(c.encodes),    take(c.host_waits),
          take(c.buffers),         take(c.shared_buffers), take(c.operations), take(c.compilations)};
}

uint64_t mock_added_operations(const char* kind) {
  std::lock_guard lock(mock::kinds().mutex);
  const auto found = mock::kinds().added.find(kind);
  return found == mock::kinds().added.end() ? 0 : found->second;
}
