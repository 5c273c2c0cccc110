// What an application makes the frameworks do, counted for tests of how much a step costs.
#pragma once

#include <atomic>
#include <cstdint>

extern "C" {
struct mock_counts {
  uint64_t command_buffers;  // committed
  uint64_t hand_overs;       // of these by MPSGraph itself, at random, while it encodes
  uint64_t encodes;          // of graphs, executables, kernels and copies of the device
  uint64_t host_waits;       // for a command buffer
  uint64_t buffers;          // made, over memory of their own
  uint64_t shared_buffers;   // made, over memory of others
  uint64_t operations;       // added to MPSGraphs
  uint64_t compilations;     // of MPSGraphExecutables
};
struct mock_counts mock_take_counts(void);  // since the last time
}

namespace mock {

struct Counters {
  std::atomic<uint64_t> command_buffers{0}, hand_overs{0}, encodes{0}, host_waits{0}, buffers{0}, shared_buffers{0},
      operations{0}, compilations{0};
};
Counters& counters();

}  // namespace mock
