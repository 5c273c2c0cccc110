// Shared events and semaphores: counters protected by a mutex, with a condition variable. process.h describes how
// shutdown() ends waits on the runtime's threads.
#include "mpsgraph/runtime/shared_event.h"

#include <string>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/device_work.h"
#include "runtime/run_control.h"
#include "runtime/worker.h"

namespace mpsgraph::runtime {

namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

void DeviceFence::when_settled(std::function<void(Outcome)> then) {
  {
    std::lock_guard lock(mutex_);
    if (!settled_) return waiting_.push_back(std::move(then));
  }
  then(outcome_);
}

void DeviceFence::settle(Outcome outcome) {
  std::vector<std::function<void(Outcome)>> waiting;
  {
    std::lock_guard lock(mutex_);
    if (settled_) return;
    settled_ = true;
    outcome_ = std::move(outcome);
    waiting.swap(waiting_);
  }
  for (const auto& then : waiting) then(outcome_);
}

uint64_t SharedEvent::signaled_value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

void SharedEvent::signal(uint64_t value) {
  guard_.check("the shared event");
  profile_instant("signal event", "event");
  {
    std::lock_guard lock(mutex_);
    if (value <= value_) return;
    value_ = value;
    if (failure_ && value_ >= failed_value_) failure_ = nullptr;
    promises_.erase(promises_.begin(), promises_.upper_bound(value));
  }
  condition_.notify_all();
}

void SharedEvent::promise(uint64_t value, std::shared_ptr<DeviceFence> fence) {
  {
    std::lock_guard lock(mutex_);
    if (value <= value_) return;
    promises_.insert_or_assign(value, std::move(fence));
  }
  condition_.notify_all();
}

void SharedEvent::fail(uint64_t value, std::exception_ptr cause) {
  {
    std::lock_guard lock(mutex_);
    if (value <= value_ || (failure_ && value >= failed_value_)) return;
    failed_value_ = value;
    failure_ = std::move(cause);
    promises_.erase(value);
  }
  condition_.notify_all();
}

WaitResult SharedEvent::wait_until_known(std::unique_lock<std::mutex>& lock, uint64_t value, Timeout timeout,
                                         std::string_view waiter, bool promised_is_enough) {
  const auto known = [&] { return promised_is_enough ? known_now(value) : value_ >= value || failed(value); };
  const ProfileScope scope("wait for event", "event");
  const auto result = wait_until(lock, condition_, timeout, known);
  if (result == WaitResult::cancelled && run_is_cancelled()) throw_cancelled();
  if (result == WaitResult::cancelled)
    throw DeviceError(cat("[", waiter, "] the wait for event value ", value,
                          " was cancelled because its queue is closing; the event has value ", value_));
  if (result == WaitResult::ready && failed(value)) {
    const auto cause = failure_;
    lock.unlock();
    std::rethrow_exception(failure(value, waiter, cause));
  }
  return result;
}

bool SharedEvent::known_now(uint64_t value) const {
  return value_ >= value || failed(value) || promises_.lower_bound(value) != promises_.end();
}

bool SharedEvent::known(uint64_t value) const {
  std::lock_guard lock(mutex_);
  return known_now(value);
}

bool SharedEvent::wait_for(uint64_t value, Timeout timeout, std::string_view waiter) {
  guard_.check("the shared event");
  std::unique_lock lock(mutex_);
  return wait_until_known(lock, value, timeout, waiter, false) == WaitResult::ready;
}

std::shared_ptr<DeviceFence> SharedEvent::wait_or_promise(uint64_t value, Timeout timeout, std::string_view waiter) {
  guard_.check("the shared event");
  std::unique_lock lock(mutex_);
  if (wait_until_known(lock, value, timeout, waiter, true) == WaitResult::timed_out) {
    lock.unlock();
    throw_timeout(value, *timeout, waiter);
  }
  return value_ >= value ? nullptr : promises_.lower_bound(value)->second;
}

std::exception_ptr SharedEvent::failure(uint64_t value, std::string_view waiter, const std::exception_ptr& cause) {
  return std::make_exception_ptr(DeviceError(
      cat("[", waiter, "] event value ", value,
          " will not be signaled because the command buffer that was to signal it failed: ", message_of(cause))));
}

void SharedEvent::wait(uint64_t value, Timeout timeout, std::string_view waiter) {
  if (!wait_for(value, timeout, waiter)) throw_timeout(value, *timeout, waiter);
}

void SharedEvent::throw_timeout(uint64_t value, double timeout, std::string_view waiter) const {
  throw TimeoutError(cat("[", waiter, "] the event did not reach value ", value, " within ", timeout,
                         " s; it has value ", signaled_value(),
                         "; check that the signal is encoded and that its command buffer is committed"));
}

Semaphore::Semaphore(int64_t value) : value_(value) {
  if (value < 0) throw DeviceError(cat("[semaphore] the initial value must be at least 0, got ", value));
}

void Semaphore::signal() {
  guard_.check("the semaphore");
  {
    std::lock_guard lock(mutex_);
    ++value_;
  }
  condition_.notify_one();
}

bool Semaphore::wait_for(Timeout timeout) {
  guard_.check("the semaphore");
  std::unique_lock lock(mutex_);
  auto result = wait_until(lock, condition_, timeout, [&] { return value_ > 0; });
  if (result == WaitResult::cancelled)
    throw DeviceError("[semaphore] the wait was cancelled because the runtime is shutting down");
  if (result == WaitResult::ready) --value_;
  return result == WaitResult::ready;
}

void Semaphore::wait(Timeout timeout) {
  if (!wait_for(timeout)) throw_timeout(*timeout);
}

void Semaphore::throw_timeout(double timeout) {
  throw TimeoutError(cat("[semaphore] the semaphore was not signaled within ", timeout, " s"));
}

int64_t Semaphore::value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

}  // namespace mpsgraph::runtime
