// State shared by all executables of one graph on one device: the values of variables, and the gate that controls
// access to them.
//
// Runs that assign variables exclude all other runs of the graph, so that no run sees a partial update; runs that only
// read execute concurrently. Compilation excludes runs too, because a backend may move a variable to a different memory
// layout during compilation.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpsgraph/runtime/device.h"
#include "runtime/backend.h"
#include "runtime/gate.h"
#include "runtime/size_templates.h"

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
  SizeTemplates templates;

  void check_variable(const Tensor* variable) const;  // throws GraphError unless the tensor is a variable of this graph
  // The storage of one of the graph's variables, created from its initial value at first use. The gate must be held
  // exclusively, because the backend may place the storage in memory that also holds variables that current runs use.
  std::shared_ptr<VariableStorage> storage(Tensor* variable);
  std::vector<std::shared_ptr<VariableStorage>> storages(const std::vector<Tensor*>& variables);
  // Whether the variable has been given storage. If not, no compiled executable reads it, and it has its initial value.
  bool has_storage(Tensor* variable);
  void add(const std::shared_ptr<Executable>& executable);
  // Must be called, with the gate held exclusively, after anything that may have moved a variable to a different memory
  // layout. Stale programs are recompiled before their next run, or immediately if they have runs in flight.
  void refresh();
  // Registers that executables of this graph will call executables of `other` while holding this graph's gate. Returns
  // false and changes nothing if that would create a cycle of gates, which could deadlock runs.
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
