// The state of the run that a thread executes, and the undo log of cancelled runs.
#include "runtime/run_control.h"

#include <algorithm>
#include <new>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {

RunState*& this_run() {
  thread_local RunState* state = nullptr;
  return state;
}

bool run_is_cancelled() {
  const RunState* run = this_run();
  return run && run->cancelled && run->cancelled->load(std::memory_order_relaxed);
}

void throw_cancelled() {
  throw CancelledError("[run] the run was cancelled; variables have the values from before the run");
}

bool executes_for(const CommandQueue* queue) {
  for (const RunState* run = this_run(); run; run = run->outer)
    if (run->queue == queue) return true;
  return false;
}

bool Undo::save(const void* variable, size_t bytes, bool required, const std::function<std::function<void()>()>& copy) {
  if (declined_) return false;
  if (std::ranges::find(saved_, variable, &Saved::variable) != saved_.end()) return true;
  declined_ = !required && bytes > limit_;
  if (declined_) return false;
  try {
    saved_.push_back({variable, copy()});
  } catch (const std::bad_alloc&) {
    declined_ = true;
    return false;
  }
  if (!required) limit_ -= bytes;
  return true;
}

void Undo::restore() {
  for (const Saved& saved : saved_) saved.restore();
  saved_.clear();
}

}  // namespace mpsgraph::runtime
