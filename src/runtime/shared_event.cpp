// Counters under a mutex with a condition; see process.h for how waits on runtime threads end at shutdown.
#include "runtime/shared_event.h"

#include <string>

#include "core/errors.h"

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

uint64_t SharedEvent::signaled_value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

void SharedEvent::signal(uint64_t value) {
  guard_.check("the shared event");
  {
    std::lock_guard lock(mutex_);
    if (value <= value_) return;
    value_ = value;
    if (failure_ && value_ >= failed_value_) failure_ = nullptr;
  }
  condition_.notify_all();
}

void SharedEvent::fail(uint64_t value, std::exception_ptr cause) {
  {
    std::lock_guard lock(mutex_);
    if (value <= value_ || (failure_ && value >= failed_value_)) return;
    failed_value_ = value;
    failure_ = std::move(cause);
  }
  condition_.notify_all();
}

bool SharedEvent::wait_for(uint64_t value, Timeout timeout, std::string_view waiter) {
  guard_.check("the shared event");
  std::unique_lock lock(mutex_);
  auto failed = [&] { return failure_ && value >= failed_value_; };
  auto result = wait_until(lock, condition_, timeout, [&] { return value_ >= value || failed(); });
  if (result == WaitResult::cancelled)
    throw DeviceError(cat("[", waiter, "] waiting for event value ", value,
                          " was cancelled because its queue closes; "
                          "the event has value ",
                          value_));
  if (result == WaitResult::timed_out) return false;
  if (value_ < value) {
    auto cause = failure_;
    lock.unlock();
    throw DeviceError(cat("[", waiter, "] event value ", value,
                          " will not be signalled, because the command buffer "
                          "that was to signal it failed: ",
                          message_of(cause)));
  }
  return true;
}

void SharedEvent::wait(uint64_t value, Timeout timeout, std::string_view waiter) {
  if (!wait_for(value, timeout, waiter)) throw_timeout(value, *timeout, waiter);
}

void SharedEvent::throw_timeout(uint64_t value, double timeout, std::string_view waiter) const {
  throw TimeoutError(cat("[", waiter, "] event did not reach value ", value, " within ", timeout, " s; it has value ",
                         signaled_value(), "; is the signal encoded, and its command buffer committed?"));
}

Semaphore::Semaphore(int64_t value) : value_(value) {
  if (value < 0) throw DeviceError(cat("[semaphore] starts at ", value, "; it must be at least 0"));
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
    throw DeviceError("[semaphore] waiting was cancelled because the runtime shuts down");
  if (result == WaitResult::ready) --value_;
  return result == WaitResult::ready;
}

void Semaphore::wait(Timeout timeout) {
  if (!wait_for(timeout)) throw_timeout(*timeout);
}

void Semaphore::throw_timeout(double timeout) {
  throw TimeoutError(cat("[semaphore] was not signalled within ", timeout, " s"));
}

int64_t Semaphore::value() const {
  std::lock_guard lock(mutex_);
  return value_;
}

}  // namespace mpsgraph::runtime
