// SharedEvent: a number that only grows, by which queues and the host order their work. Semaphore: a counter that
// limits how many steps are in flight.
//
// Every wait can end in a TimeoutError, so that a signal that never comes is an error and not a hang.
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

class MPSGRAPH_API SharedEvent {
 public:
  explicit SharedEvent(Timeout default_timeout = 60.0) : default_timeout_(default_timeout) {}

  uint64_t signaled_value() const;
  Timeout default_timeout() const { return default_timeout_; }
  // Raises the value; a value that has been passed already changes nothing.
  void signal(uint64_t value);
  // The work that was to signal `value` failed: whoever waits for it gets a DeviceError that says why.
  void fail(uint64_t value, std::exception_ptr cause);
  // Returns when the value is reached. TimeoutError when it is not in time, DeviceError when it failed or the runtime
  // shuts down. `waiter` names who waits in the message.
  void wait(uint64_t value, Timeout timeout, std::string_view waiter = "shared event");
  void wait(uint64_t value) { wait(value, default_timeout_); }
  // false instead of TimeoutError.
  bool wait_for(uint64_t value, Timeout timeout, std::string_view waiter = "shared event");
  [[noreturn]] void throw_timeout(uint64_t value, double timeout, std::string_view waiter = "shared event") const;

  // Work that signals `value` when it reaches `fence` has been submitted to a device: it will come, or fail.
  void promise(uint64_t value, std::shared_ptr<DeviceFence> fence);
  // Like wait(), and returns when the value is promised too: then with the fence that the device has to wait for.
  std::shared_ptr<DeviceFence> wait_or_promise(uint64_t value, Timeout timeout, std::string_view waiter);
  bool known(uint64_t value) const;  // wait_or_promise() would return, or throw, at once
  // The DeviceError for waiters of a value whose signaller failed.
  static std::exception_ptr failure(uint64_t value, std::string_view waiter, const std::exception_ptr& cause);

 private:
  WaitResult wait_until_known(std::unique_lock<std::mutex>& lock, uint64_t value, Timeout timeout,
                              std::string_view waiter, bool promised_is_enough);
  bool known_now(uint64_t value) const;  // these two with mutex_ held
  bool failed(uint64_t value) const { return failure_ && value_ < value && value >= failed_value_; }

  const ForkGuard guard_;
  const Timeout default_timeout_;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  uint64_t value_ = 0;
  uint64_t failed_value_ = 0;
  std::exception_ptr failure_;
  std::map<uint64_t, std::shared_ptr<DeviceFence>> promises_;  // by value, all above value_
};

class MPSGRAPH_API Semaphore {
 public:
  explicit Semaphore(int64_t value);  // DeviceError when negative

  void signal();
  void wait(Timeout timeout = {});    // TimeoutError
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
