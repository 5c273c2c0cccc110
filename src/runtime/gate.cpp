// A ticket lock: threads enter in order of arrival. The thread whose turn it is waits until the runs that hold a pass
// no longer exclude it.
#include "runtime/gate.h"

#include "mpsgraph/core/errors.h"
#include "runtime/run_control.h"

namespace mpsgraph::runtime {

Gate::Pass& Gate::Pass::operator=(Pass&& other) noexcept {
  if (this != &other) {
    reset();
    gate_ = std::move(other.gate_);
    exclusive_ = other.exclusive_;
  }
  return *this;
}

void Gate::Pass::reset() {
  if (const auto gate = std::exchange(gate_, nullptr)) gate->leave(exclusive_);
}

bool Gate::admits(bool exclusive, const void* owner) const {
  if (within_ == 0) return true;
  if (owner && owner == owner_) return true;
  return !exclusive && within_exclusively_ == 0;
}

Gate::Pass Gate::admit(bool exclusive, const void* owner) {
  owner_ = within_ == 0 || owner == owner_ ? owner : nullptr;
  ++within_;
  within_exclusively_ += exclusive;
  exclusive_entries_ += exclusive;
  return {shared_from_this(), exclusive};
}

// A thread that runs a program of the graph must not wait for another run of the graph, because that run would in turn
// wait for the thread's own run.
bool Gate::is_inner(bool exclusive) const {
  for (const RunState* run = this_run(); run; run = run->outer) {
    if (run->gate != this) continue;
    if (exclusive || run->exclusive)
      throw DeviceError(
          "[run] this graph cannot be run, compiled, or have its variables accessed from within its own run, for "
          "example by a python_operation, if the run or the access within it changes variables; use a separate graph");
    return true;
  }
  return false;
}

Gate::Pass Gate::enter(bool exclusive, const void* owner) {
  const bool inner = is_inner(exclusive);
  std::unique_lock lock(mutex_);
  if (inner) return admit(exclusive, owner);
  const uint64_t ticket = next_ticket_++;
  condition_.wait(lock, [&] { return serving_ == ticket && admits(exclusive, owner); });
  Pass pass = admit(exclusive, owner);
  ++serving_;
  lock.unlock();
  condition_.notify_all();  // the next thread may be admitted concurrently
  return pass;
}

Gate::Pass Gate::try_enter(bool exclusive, const void* owner) {
  std::lock_guard lock(mutex_);
  if (serving_ != next_ticket_ || !admits(exclusive, owner)) return {};
  ++next_ticket_;
  ++serving_;
  return admit(exclusive, owner);
}

void Gate::leave(bool exclusive) {
  {
    std::lock_guard lock(mutex_);
    --within_;
    within_exclusively_ -= exclusive;
  }
  condition_.notify_all();
}

}  // namespace mpsgraph::runtime
