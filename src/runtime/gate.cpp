// A ticket lock: threads enter in order of arrival. The thread whose turn it is waits until the runs that hold a pass
// no longer exclude it.
#include "runtime/gate.h"

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
  ++serving_;
  return {shared_from_this(), exclusive};
}

Gate::Pass Gate::enter(bool exclusive, const void* owner) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  condition_.wait(lock, [&] { return serving_ == ticket && admits(exclusive, owner); });
  Pass pass = admit(exclusive, owner);
  lock.unlock();
  condition_.notify_all();  // the next thread may be admitted concurrently
  return pass;
}

Gate::Pass Gate::try_enter(bool exclusive, const void* owner) {
  std::lock_guard lock(mutex_);
  if (serving_ != next_ticket_ || !admits(exclusive, owner)) return {};
  ++next_ticket_;
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
