// Counters of framework operations, and the function that reads them.
#include "metal/counts.h"

namespace mock {

Counters& counters() {
  static Counters all;
  return all;
}

}  // namespace mock

mock_counts mock_take_counts(void) {
  auto& c = mock::counters();
  const auto take = [](std::atomic<uint64_t>& counter) { return counter.exchange(0); };
  return {take(c.command_buffers), take(c.hand_overs),     take(c.encodes),    take(c.host_waits),
          take(c.buffers),         take(c.shared_buffers), take(c.operations), take(c.compilations)};
}
