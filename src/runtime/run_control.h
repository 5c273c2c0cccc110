// Cancellation of runs: the flag that a running command buffer polls, and the old values of variables, which a
// cancelled run restores.
//
// Executing a command buffer sets the state below for the executing thread. Devices poll the flag between kernels and
// between the parts of long kernels, and throw CancelledError when it is set.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

namespace mpsgraph::runtime {

class CommandQueue;
class Gate;

// The old values of the variables that a run has overwritten. If a value is too large to keep, the run can no longer be
// cancelled.
class Undo {
 public:
  explicit Undo(size_t limit) : limit_(limit) {}  // `limit`: maximum number of bytes to keep
  // Keeps a value that the run will overwrite, unless it is kept already. `copy` copies the value and returns a
  // function that restores it. Returns false if there is not enough memory or the copy would exceed the limit, which
  // does not apply if `required` is set.
  bool save(const void* variable, size_t bytes, bool required, const std::function<std::function<void()>()>& copy);
  bool declined() const { return declined_; }
  void restore();

 private:
  struct Saved {
    const void* variable;
    std::function<void()> restore;
  };
  size_t limit_;
  bool declined_ = false;
  std::vector<Saved> saved_;
};

// What the current thread is executing. Runs nest when a custom operation or a handler runs another graph.
struct RunState {
  const CommandQueue* queue = nullptr;  // queue of the command buffer that this thread executes
  const std::atomic<bool>* cancelled = nullptr;  // set to cancel that command buffer
  Undo* undo = nullptr;  // of the run that this thread executes
  const Gate* gate = nullptr;  // of the graph whose program this thread runs
  bool exclusive = false;  // whether that program changes variables
  RunState* outer = nullptr;
};
RunState*& this_run();  // null on threads that execute nothing

// Makes `state` the current state during its lifetime.
class RunScope {
 public:
  explicit RunScope(RunState& state) : before_(this_run()) {
    state.outer = before_;
    this_run() = &state;
  }
  ~RunScope() { this_run() = before_; }
  RunScope(const RunScope&) = delete;

 private:
  RunState* before_;
};

bool run_is_cancelled();  // whether the command buffer that this thread executes was cancelled
[[noreturn]] void throw_cancelled();
bool executes_for(const CommandQueue* queue);  // whether this thread is executing a command buffer of the queue

}  // namespace mpsgraph::runtime
