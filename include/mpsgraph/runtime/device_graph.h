// DeviceGraph: a Graph on one Device. It owns the variables' values there and the cache of executables.
//
// The graph may grow between calls, but not during one: compiling reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::runtime {

struct CacheStatistics {
  size_t count = 0, bytes = 0;               // in the cache now
  size_t count_limit = 0, byte_limit = 0;
  uint64_t hits = 0, misses = 0, evictions = 0;
  uint64_t compiles = 0;                     // misses, and programs compiled again because a variable moved
  double seconds = 0;                        // spent compiling
};

// Identity and types spelled out as numbers: equal exactly when the same executable serves.
using CacheKey = std::vector<uint64_t>;
class ExecutableCache;

class MPSGRAPH_API DeviceGraph {
 public:
  explicit DeviceGraph(std::shared_ptr<Graph> graph, Device& device = Device::default_device());
  ~DeviceGraph();

  const std::shared_ptr<Graph>& graph() const;
  Device& device() const;

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
  ConstantPtr constant_value(Tensor* variable);                // the same; no copy where nobody can have changed it
  void set_variable(Tensor* variable, const NDArray& value);   // same dtype and shape, any strides

  void set_cache_limits(size_t count, size_t bytes);
  void clear_cache();
  CacheStatistics cache_statistics() const;

 private:
  std::shared_ptr<Executable> compile_new(CacheKey key, std::vector<Feed> feeds, const std::vector<Tensor*>& targets,
                                          const std::vector<Operation*>& target_operations,
                                          const compiler::Options& options);
  void run_exclusively(std::string_view label, std::function<void()> work);
  const std::shared_ptr<GraphState> state_;
  const std::unique_ptr<ExecutableCache> cache_;
  std::mutex compile_mutex_;                                   // two threads that miss the same key compile it once
};

}  // namespace mpsgraph::runtime
