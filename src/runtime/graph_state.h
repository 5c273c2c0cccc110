// What all executables of one graph on one device share: the variables' values, and who may use them when.
//
// Runs that assign variables exclude all other runs of the graph, so that none sees half an update; runs that only read
// go side by side. Compiling excludes runs too, because a backend may then move a variable to another layout.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpsgraph/runtime/device.h"
#include "runtime/backend.h"
#include "runtime/gate.h"

namespace mpsgraph::runtime {

class Executable;

class GraphState {
 public:
  GraphState(std::shared_ptr<Graph> graph, Device& device) : graph(std::move(graph)), device(device) {}

  const std::shared_ptr<Graph> graph;
  Device& device;
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::atomic<uint64_t> compiles{0};
  std::atomic<uint64_t> compile_nanoseconds{0};

  void check_variable(const Tensor* variable) const;  // GraphError when it is none of this graph
  // The storage of one of the graph's variables; made from its initial value at first use. With the gate held
  // exclusively, because it may be put beside others that runs use.
  std::shared_ptr<VariableStorage> storage(Tensor* variable);
  bool has_storage(Tensor* variable);  // else nothing was compiled that reads it: it has its first value
  void add(const std::shared_ptr<Executable>& executable);
  // Call with the gate held exclusively after anything that may have moved a variable: programs that no longer fit
  // are compiled anew before their next run, those with runs in flight at once.
  void refresh();
  // Executables of this graph are going to call those of `other`, within this one's gate: false, and nothing changes,
  // if that would make a circle of gates, in which runs could wait for one another.
  bool may_call(const std::shared_ptr<GraphState>& other);

 private:
  bool reaches(const GraphState& other) const;
  std::vector<std::weak_ptr<GraphState>> called_;  // guarded by one mutex for all graphs
  std::mutex mutex_;
  std::shared_ptr<VariableHome> home_;
  std::unordered_map<Tensor*, std::shared_ptr<VariableStorage>> storages_;
  std::vector<std::weak_ptr<Executable>> executables_;
};

}  // namespace mpsgraph::runtime
