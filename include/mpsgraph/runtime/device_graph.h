// DeviceGraph: a Graph on one Device, together with the values of the variables on that device and a cache of
// executables.
//
// Operations may be added to the graph between calls, but not during a call, because compilation reads the graph.
// Otherwise, the functions may be called from several threads.
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

// Statistics of a graph's cache of executables.
struct CacheStatistics {
  size_t count = 0, bytes = 0;               // currently in the cache
  size_t count_limit = 0, byte_limit = 0;
  uint64_t hits = 0, misses = 0, evictions = 0;
  // cache misses, and recompilations that were needed because a variable moved
  uint64_t compiles = 0;
  double seconds = 0;                        // time spent compiling
};

// The identities and types of a compilation, encoded as numbers. Two keys are equal exactly if the same executable can
// serve both compilations.
using CacheKey = std::vector<uint64_t>;
class ExecutableCache;

// A graph on a device, with the values of its variables and a cache of executables.
class MPSGRAPH_API DeviceGraph {
 public:
  explicit DeviceGraph(std::shared_ptr<Graph> graph, Device& device = Device::default_device());
  ~DeviceGraph();

  const std::shared_ptr<Graph>& graph() const;
  Device& device() const;

  // Compiles targets and target operations for the given types of the feeds, or returns the cached executable of an
  // equal compilation. If `observe` is set in the options, the compilation bypasses the cache.
  std::shared_ptr<Executable> compile(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                                      const std::vector<Operation*>& target_operations = {},
                                      const compiler::Options& options = {});
  // Returns the executable for these arrays and reorders `arrays` to match its feeds. The order in which feeds are
  // given therefore does not matter.
  std::shared_ptr<Executable> executable_for(const std::vector<Tensor*>& feeds, std::vector<NDArray>& arrays,
                                             const std::vector<Tensor*>& targets,
                                             const std::vector<Operation*>& target_operations,
                                             const compiler::Options& options = {});
  // Compiles for the types of the given arrays, or uses the cache, and runs. `results` are as in Executable::run().
  std::vector<NDArray> run(const std::vector<std::pair<Tensor*, NDArray>>& feeds, const std::vector<Tensor*>& targets,
                           const std::vector<Operation*>& target_operations = {}, std::vector<NDArray> results = {});

  // Access to variables, which is ordered after everything committed to the device's default queue. Throws GraphError
  // if the tensor is not a variable of this graph.
  NDArray variable_value(Tensor* variable);                    // returns a copy
  // Like variable_value(), but returns the variable's memory without a copy if the variable cannot have changed.
  ConstantPtr constant_value(Tensor* variable);
  void set_variable(Tensor* variable, const NDArray& value);   // same dtype and shape, any strides
  // Access to several variables at one point in time. On the Metal device, all of them are copied by one program.
  std::vector<NDArray> variable_values(const std::vector<Tensor*>& variables);  // copies, in the order of `variables`
  std::vector<ConstantPtr> constant_values(const std::vector<Tensor*>& variables);
  // Sets all variables, or none if an error is thrown for a variable or a value. No variable may occur twice.
  void set_variables(const std::vector<std::pair<Tensor*, NDArray>>& values);

  // Counts runs that assign variables, accesses to variables by the functions above, and compilations. While the count
  // does not change, no variable changes.
  uint64_t exclusive_accesses() const;

  // Sets the limits of the cache. When a limit is exceeded, the least recently used executables are evicted first.
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
  // Ensures that two threads with the same cache miss compile only once.
  std::mutex compile_mutex_;
};

}  // namespace mpsgraph::runtime
