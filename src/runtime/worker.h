// The runtime's threads, as shutdown() sees them, and waits that it can end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "mpsgraph/runtime/process.h"

namespace mpsgraph::runtime {

// A thread of the runtime, as shutdown() sees it.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual bool quiet() = 0;         // nothing to do, or blocked until another thread signals something
  virtual bool blocked() = 0;       // the latter
  virtual void cancel_waits() = 0;  // what is blocked fails with DeviceError
  virtual void finish() = 0;        // takes no more work, does what it has, joins
  virtual bool finished() = 0;      // the thread has left its loop and can be joined at once
};
void register_worker(std::shared_ptr<Worker> worker);

// Marks the calling worker thread as blocked while it lives, so that shutdown() does not wait for it.
class BlockedScope {
 public:
  BlockedScope();
  ~BlockedScope();
};

// What a worker thread shares with waits that happen on it.
struct WorkerThreadState {
  std::atomic<int> blocked{0};
  std::atomic<bool> cancelled{false};
};
WorkerThreadState*& this_worker();  // null on threads that are not the runtime's

enum class WaitResult : int { ready, timed_out, cancelled };

// Waits on `condition` until ready(). `lock` is held on entry and exit. On a runtime thread the wait ends when the
// thread's waits are cancelled; looking at a flag now and then spares every waiter a registration.
template <class Ready>
WaitResult wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition, Timeout timeout,
                      Ready ready) {
  using Clock = std::chrono::steady_clock;
  if (ready()) return WaitResult::ready;
  constexpr double longest = 1e9;  // beyond that the clock would overflow
  const bool forever = !timeout || *timeout > longest;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(forever ? longest : *timeout));
  WorkerThreadState* worker = this_worker();
  if (!worker) {
    if (forever) {
      condition.wait(lock, ready);
      return WaitResult::ready;
    }
    return condition.wait_until(lock, deadline, ready) ? WaitResult::ready : WaitResult::timed_out;
  }
  BlockedScope scope;
  for (;;) {
    auto slice = Clock::now() + std::chrono::milliseconds(20);
    if (condition.wait_until(lock, slice < deadline ? slice : deadline, ready)) return WaitResult::ready;
    if (worker->cancelled) return WaitResult::cancelled;
    if (Clock::now() >= deadline) return WaitResult::timed_out;
  }
}

}  // namespace mpsgraph::runtime
