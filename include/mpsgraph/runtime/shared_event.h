// SharedEvent: a number that only increases, for ordering the work of queues and the host. Semaphore: a counter that
// limits the number of steps in flight.
//
// Every wait can time out with a TimeoutError, so that a missing signal causes an error instead of a hang.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/process.h"

namespace mpsgraph::runtime {

class DeviceFence;
enum class WaitResult : int;

// A monotonically increasing number that queues and the host signal and wait for.
class MPSGRAPH_API SharedEvent {
 public:
  explicit SharedEvent(Timeout default_timeout = 60.0) : default_timeout_(default_timeout) {}

  uint64_t signaled_value() const;
  Timeout default_timeout() const { return default_timeout_; }
  // Raises the event's value to `value`; does nothing if the event has already reached it.
  void signal(uint64_t value);
  // Reports that the work that should have signaled `value` failed. Every wait for this value throws a DeviceError with
  // the reason.
  void fail(uint64_t value, std::exception_ptr cause);
  // Waits until the value is reached. Throws TimeoutError if it is not reached in time, and DeviceError if the
  // signaling work failed or the runtime is shutting down. `waiter` names the waiting function in error messages.
  void wait(uint64_t value, Timeout timeout, std::string_view waiter = "shared event");
  void wait(uint64_t value) { wait(value, default_timeout_); }
  // Like wait(), but returns false instead of throwing TimeoutError.
  bool wait_for(uint64_t value, Timeout timeout, std::string_view waiter = "shared event");
  [[noreturn]] void throw_timeout(uint64_t value, double timeout, std::string_view waiter = "shared event") const;

  // Reports that work was submitted to a device and will signal `value` when it reaches `fence`. The promised value
  // will either be signaled or fail.
  void promise(uint64_t value, std::shared_ptr<DeviceFence> fence);
  // Like wait(), but also returns once the value is promised. In that case, returns the fence for which the device must
  // wait; otherwise returns null.
  std::shared_ptr<DeviceFence> wait_or_promise(uint64_t value, Timeout timeout, std::string_view waiter);
  bool known(uint64_t value) const;  // whether wait_or_promise() would return or throw immediately
  // Returns the DeviceError for waits for a value whose signaling work failed.
  static std::exception_ptr failure(uint64_t value, std::string_view waiter, const std::exception_ptr& cause);

 private:
  WaitResult wait_until_known(std::unique_lock<std::mutex>& lock, uint64_t value, Timeout timeout,
                              std::string_view waiter, bool promised_is_enough);
  bool known_now(uint64_t value) const;  // callers of this function and the next one must hold mutex_
  bool failed(uint64_t value) const { return failure_ && value_ < value && value >= failed_value_; }

  const ForkGuard guard_;
  const Timeout default_timeout_;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  uint64_t value_ = 0;
  uint64_t failed_value_ = 0;
  std::exception_ptr failure_;
  // fences by promised value; all of these values are above value_
  std::map<uint64_t, std::shared_ptr<DeviceFence>> promises_;
};

// A counting semaphore: wait() decrements the value once it is positive, and signal() increments it.
class MPSGRAPH_API Semaphore {
 public:
  explicit Semaphore(int64_t value);  // throws DeviceError if `value` is negative

  void signal();
  void wait(Timeout timeout = {});    // throws TimeoutError if the value does not become positive in time
  bool wait_for(Timeout timeout);
  [[noreturn]] static void throw_timeout(double timeout);
  int64_t value() const;

 private:
  const ForkGuard guard_;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  int64_t value_;
};

}  // namespace mpsgraph::runtime
