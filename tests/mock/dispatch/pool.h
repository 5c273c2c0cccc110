// The threads behind all queues, and the timer thread of dispatch_after.
#pragma once
#include <cstdint>
#include <functional>

namespace mock {

// Run the job on a pool thread, or on a new one if all are busy.
void submit(std::function<void()> job);

// Submit the job at or soon after the given time of the steady clock, in nanoseconds.
void submit_at(uint64_t time, std::function<void()> job);

}  // namespace mock
