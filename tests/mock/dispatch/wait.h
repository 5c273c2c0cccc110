// Waiting with a dispatch_time_t: nanoseconds of the steady clock, DISPATCH_TIME_NOW, or DISPATCH_TIME_FOREVER.
#pragma once
#include <dispatch/dispatch.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace mock {

// Return whether the condition became true in time.
template <class Condition>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, dispatch_time_t time,
                Condition condition) {
  if (time == DISPATCH_TIME_FOREVER) {
    changed.wait(lock, condition);
    return true;
  }
  if (time == DISPATCH_TIME_NOW) return condition();
  const std::chrono::steady_clock::time_point end{std::chrono::nanoseconds(time)};
  return changed.wait_until(lock, end, condition);
}

}  // namespace mock
