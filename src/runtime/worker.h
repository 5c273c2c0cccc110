// The interface of the runtime's threads that shutdown() uses, and waits that shutdown() can end.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "mpsgraph/runtime/process.h"
#include "runtime/run_control.h"

namespace mpsgraph::runtime {

// A thread of the runtime, with the functions that shutdown() needs.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual bool quiet() = 0;         // whether the thread is idle, or blocked until another thread signals something
  virtual bool blocked() = 0;       // whether the thread is blocked
  virtual void cancel_waits() = 0;  // makes current waits of the thread fail with DeviceError
  virtual void finish() = 0;        // accepts no more work, completes the submitted work, and joins the thread
  virtual bool finished() = 0;      // whether the thread has left its loop and can be joined without waiting
};
void register_worker(std::shared_ptr<Worker> worker);
std::thread start_thread(std::function<void()> loop);  // throws OutOfMemoryError if the system refuses

// Marks the calling worker thread as blocked during its lifetime, so that shutdown() does not wait for it.
class BlockedScope {
 public:
  BlockedScope();
  ~BlockedScope();
};

// State shared by a worker thread of the runtime and the waits that it performs.
struct WorkerThreadState {
  std::atomic<int> blocked{0};
  std::atomic<bool> cancelled{false};
};
WorkerThreadState*& this_worker();  // null on threads that do not belong to the runtime

enum class WaitResult : int { ready, timed_out, cancelled };

// Waits on `condition` until ready() returns true. The caller holds `lock`, which is held again on return. On a thread
// of the runtime, the wait also ends when the thread's waits are cancelled. The wait polls the flag that cancels it, so
// that waiting threads need not be registered.
template <class Ready>
WaitResult wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition, Timeout timeout,
                      Ready ready) {
  using Clock = std::chrono::steady_clock;
  if (ready()) return WaitResult::ready;
  constexpr double longest = 1e9;  // longer timeouts would overflow the clock
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
    if (worker->cancelled || run_is_cancelled()) return WaitResult::cancelled;
    if (Clock::now() >= deadline) return WaitResult::timed_out;
  }
}

}  // namespace mpsgraph::runtime
