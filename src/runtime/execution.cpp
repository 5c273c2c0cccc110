// Builder methods of ExecutionDescriptor.
#include "mpsgraph/runtime/execution.h"

namespace mpsgraph::runtime {

void ExecutionDescriptor::wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value) {
  const Timeout timeout = event->default_timeout();
  wait_for_event(std::move(event), value, timeout);
}

void ExecutionDescriptor::wait_for_event(std::shared_ptr<SharedEvent> event, uint64_t value, Timeout timeout) {
  waits.push_back({std::move(event), value, timeout});
}

void ExecutionDescriptor::signal_event(std::shared_ptr<SharedEvent> event, uint64_t value, Stage stage) {
  signals.push_back({std::move(event), value, stage});
}

}  // namespace mpsgraph::runtime
