// Counters of framework operations that an application causes, for tests of the overhead of a step.
#pragma once

#include <atomic>
#include <cstdint>

extern "C" {
struct mock_counts {
  uint64_t command_buffers;  // committed command buffers
  uint64_t hand_overs;       // of these, committed by MPSGraph itself, at random, while it encodes
  uint64_t encodes;          // encoded graphs, executables, kernels, and device copies
  uint64_t host_waits;       // waits of the CPU for a command buffer
  uint64_t buffers;          // buffers created with their own memory
  uint64_t shared_buffers;   // buffers created over the caller's memory
  uint64_t operations;       // operations added to MPSGraph objects
  uint64_t compilations;  // executables, and programs that an MPSGraph compiles because its cache does not have them
};
struct mock_counts mock_take_counts(void);  // the counts since the previous call
// Return how many operations of a kind, such as "dequantizeGroups", have been added to MPSGraph objects so far.
uint64_t mock_added_operations(const char* kind);
// Return the size of the initial data that MPSGraph objects keep for their variables. Shared memory counts once.
uint64_t mock_initial_variable_bytes(void);
}

namespace mock {

struct Counters {
  std::atomic<uint64_t> command_buffers{0}, hand_overs{0}, encodes{0}, host_waits{0}, buffers{0}, shared_buffers{0},
      operations{0}, compilations{0};
};
Counters& counters();
void count_operation(const char* kind);

}  // namespace mock
