// The variables of a graph on a device, and the executables to rebuild when a variable moves to a different memory
// layout.
#include "runtime/graph_state.h"

#include <algorithm>

#include "mpsgraph/runtime/executable.h"
#include "runtime/backend.h"

namespace mpsgraph::runtime {

void GraphState::check_variable(const Tensor* variable) const {
  if (!variable || !variable->operation->is("variable") || &variable->graph() != graph.get())
    throw GraphError(cat("[variable] must be a variable of this graph, got ", variable ? variable->name() : "null"));
}

std::shared_ptr<VariableStorage> GraphState::storage(Tensor* variable) {
  check_variable(variable);
  std::lock_guard lock(mutex_);
  auto& storage = storages_[variable];
  if (!home_) home_ = device.backend().make_variable_home();
  if (!storage) storage = device.backend().make_variable(variable->operation->attributes.data("value"), home_);
  return storage;
}

std::vector<std::shared_ptr<VariableStorage>> GraphState::storages(const std::vector<Tensor*>& variables) {
  std::vector<std::shared_ptr<VariableStorage>> result;
  for (Tensor* variable : variables) result.push_back(storage(variable));
  return result;
}

bool GraphState::has_storage(Tensor* variable) {
  std::lock_guard lock(mutex_);
  const auto found = storages_.find(variable);
  return found != storages_.end() && found->second;
}

void GraphState::add(const std::shared_ptr<Executable>& executable) {
  std::lock_guard lock(mutex_);
  std::erase_if(executables_, [](auto& other) { return other.expired(); });
  executables_.push_back(executable);
}

void GraphState::refresh() {
  std::vector<std::shared_ptr<Executable>> live;
  {
    std::lock_guard lock(mutex_);
    for (auto& weak : executables_)
      if (auto executable = weak.lock()) live.push_back(std::move(executable));
  }
  // Recompiling one executable may move a variable that another executable uses, so the check is repeated.
  // Usually, one or two rounds suffice; if not, the next run detects the remaining stale executables.
  for (int round = 0; round < 3; ++round) {
    bool built = false;
    for (auto& executable : live) {
      if (!executable->program_->stale()) continue;
      // The flag is set before in_flight_ is read; prepare() accesses the two in the opposite order.
      executable->needs_build_ = true;
      if (executable->in_flight_ == 0) continue;
      executable->build();
      built = true;
    }
    if (!built) return;
  }
}

bool GraphState::may_call(const std::shared_ptr<GraphState>& other) {
  static std::mutex all_graphs;
  std::lock_guard lock(all_graphs);
  if (other->reaches(*this)) return false;
  std::erase_if(called_, [&](const auto& known) { return known.expired() || known.lock() == other; });
  called_.push_back(other);
  return true;
}

bool GraphState::reaches(const GraphState& other) const {
  return this == &other || std::ranges::any_of(called_, [&](const std::weak_ptr<GraphState>& called) {
           const auto next = called.lock();
           return next && next->reaches(other);
         });
}

}  // namespace mpsgraph::runtime
