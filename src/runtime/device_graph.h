// DeviceGraph: a Graph on one Device. It owns the variables' values there and the cache of executables.
//
// The graph may grow between calls, but not during one: compiling reads it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/executable_cache.h"

namespace mpsgraph::runtime {

class DeviceGraph {
 public:
  explicit DeviceGraph(std::shared_ptr<Graph> graph, Device& device = Device::default_device());

  const std::shared_ptr<Graph>& graph() const { return state_->graph; }
  Device& device() const { return state_->device; }

  // From the cache when the same was compiled before. An `observe` in the options always compiles.
  std::shared_ptr<Executable> compile(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                                      const std::vector<Operation*>& target_operations = {},
                                      const compiler::Options& options = {});
  // The executable for these arrays, with `arrays` sorted into the order of its feeds. The order in which feeds are
  // named makes no difference here.
  std::shared_ptr<Executable> executable_for(const std::vector<Tensor*>& feeds, std::vector<NDArray>& arrays,
                                             const std::vector<Tensor*>& targets,
                                             const std::vector<Operation*>& target_operations,
                                             const compiler::Options& options = {});
  std::vector<NDArray> run(const std::vector<std::pair<Tensor*, NDArray>>& feeds, const std::vector<Tensor*>& targets,
                           const std::vector<Operation*>& target_operations = {}, std::vector<NDArray> results = {});

  // In order with what has been committed to the device's default queue.
  NDArray variable_value(Tensor* variable);                    // a copy
  void set_variable(Tensor* variable, const NDArray& value);   // same dtype and shape, any strides

  void set_cache_limits(size_t count, size_t bytes) { cache_.set_limits(count, bytes); }
  void clear_cache() { cache_.clear(); }
  CacheStatistics cache_statistics() const;

 private:
  std::shared_ptr<Executable> compile_new(CacheKey key, std::vector<Feed> feeds, const std::vector<Tensor*>& targets,
                                          const std::vector<Operation*>& target_operations,
                                          const compiler::Options& options);
  void run_exclusively(std::string_view label, std::function<void()> work);
  const std::shared_ptr<GraphState> state_;
  ExecutableCache cache_;
  std::mutex compile_mutex_;                                   // two threads that miss the same key compile it once
};

}  // namespace mpsgraph::runtime
