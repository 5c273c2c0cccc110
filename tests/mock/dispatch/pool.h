// The threads behind all queues, and the thread that keeps the time for dispatch_after.
#pragma once
#include <cstdint>
#include <functional>

namespace mock {

// Runs the job on a thread of the pool, on a new one if all are busy.
void submit(std::function<void()> job);

// Submits the job at this time of the steady clock (nanoseconds) or soon after.
void submit_at(uint64_t time, std::function<void()> job);

}  // namespace mock
