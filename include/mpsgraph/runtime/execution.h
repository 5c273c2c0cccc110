// ExecutionDescriptor specifies what happens before and after a run. Execution is a run that has been started.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_buffer.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::runtime {

// Handlers, event waits and event signals around a run.
struct MPSGRAPH_API ExecutionDescriptor {
  // Handlers receive the results in the order of the targets, and the error of the run or null. Only in the completed
  // handler do all results exist with their final contents.
  using Handler = std::function<void(const std::vector<NDArray>& results, std::exception_ptr error)>;
  enum class Stage { scheduled, completed };
  struct Wait {
    std::shared_ptr<SharedEvent> event;
    uint64_t value;
    Timeout timeout;
  };
  struct Signal {
    std::shared_ptr<SharedEvent> event;
    uint64_t value;
    Stage stage;
  };

  bool wait_until_completed = false;
  Handler scheduled_handler, completed_handler;
  std::vector<Wait> waits;
  std::vector<Signal> signals;

  void wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value);  // fails after the event's default timeout
  void wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value, Timeout timeout);
  void signal_event(std::shared_ptr<SharedEvent> event, uint64_t value, Stage stage = Stage::completed);
};

// A run that has been started. It gives access to the results once the run is done.
class MPSGRAPH_API Execution {
 public:
  Execution(std::shared_ptr<CommandBuffer> buffer, std::shared_ptr<const std::vector<NDArray>> results)
      : buffer_(std::move(buffer)), results_(std::move(results)) {}

  void wait(Timeout timeout = {}) { buffer_->wait_until_completed(timeout); }
  void cancel() { buffer_->cancel(); }  // the run ends with CancelledError, unless it ends first
  bool wait_for(Timeout timeout) { return buffer_->wait_for(timeout); }
  const std::shared_ptr<CommandBuffer>& command_buffer() const { return buffer_; }
  bool done() const { return buffer_->done(); }
  std::exception_ptr error() const { return buffer_->error(); }
  const std::vector<NDArray>& results() {  // waits, and throws the error of the run if it failed
    wait();
    return *results_;
  }
  // Returns the results without waiting. Their contents might not have been written yet; if a shape depends on values,
  // even the array might not exist yet.
  const std::vector<NDArray>& pending_results() const { return *results_; }

 private:
  std::shared_ptr<CommandBuffer> buffer_;
  std::shared_ptr<const std::vector<NDArray>> results_;
};

}  // namespace mpsgraph::runtime
