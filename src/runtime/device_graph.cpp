// Cache keys of executables, and access to variables outside of runs.
#include "mpsgraph/runtime/device_graph.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "mpsgraph/runtime/profiler.h"
#include "runtime/executable_cache.h"
#include "runtime/graph_state.h"

namespace mpsgraph::runtime {

namespace {

void append(CacheKey& key, const void* address) { key.push_back(reinterpret_cast<uintptr_t>(address)); }

void append(CacheKey& key, const Tensor* feed, DType dtype, const Dims& dims) {
  append(key, feed);
  key.push_back(static_cast<uint64_t>(dtype) << 8 | dims.size());
  key.insert(key.end(), dims.begin(), dims.end());
}

// Appends every part of a request except the feeds to a cache key. Each list is preceded by its length, so that
// different requests have different keys.
void append(CacheKey& key, const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations,
            const compiler::Options& options) {
  key.push_back(targets.size());
  for (auto* target : targets) append(key, target);
  key.push_back(target_operations.size());
  for (auto* operation : target_operations) append(key, operation);
  key.push_back(options.reference_kernels);
  key.push_back(options.check_finite);
  for (auto& pass : options.disabled_passes) {
    key.push_back(pass.size());
    key.insert(key.end(), pass.begin(), pass.end());
  }
  key.push_back(options.callables.size());
  // The key holds the address of each callable. The address stays valid, because an executable keeps its callables
  // alive.
  for (auto& [symbol, callable] : options.callables) {
    append(key, callable.get());
    key.push_back(symbol.size());
    key.insert(key.end(), symbol.begin(), symbol.end());
  }
}

}  // namespace

DeviceGraph::DeviceGraph(std::shared_ptr<Graph> graph, Device& device)
    : state_(std::make_shared<GraphState>(std::move(graph), device)), cache_(std::make_unique<ExecutableCache>()) {
  device.check_usable();
}

DeviceGraph::~DeviceGraph() = default;

const std::shared_ptr<Graph>& DeviceGraph::graph() const { return state_->graph; }
Device& DeviceGraph::device() const { return state_->device; }
void DeviceGraph::set_cache_limits(size_t count, size_t bytes) { cache_->set_limits(count, bytes); }
void DeviceGraph::clear_cache() {
  cache_->clear();
  state_->templates.clear();
}

std::shared_ptr<Executable> DeviceGraph::compile(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                                                 const std::vector<Operation*>& target_operations,
                                                 const compiler::Options& options) {
  CacheKey key{feeds.size()};
  for (auto& [tensor, type] : feeds) {
    append(key, tensor, type.dtype, type.shape.ranked() ? type.shape.dims() : Dims{-2});
  }
  append(key, targets, target_operations, options);
  if (!options.observe)
    if (auto executable = cache_->find(key)) return executable;
  return compile_new(std::move(key), feeds, targets, target_operations, options);
}

std::shared_ptr<Executable> DeviceGraph::executable_for(const std::vector<Tensor*>& feeds, std::vector<NDArray>& arrays,
                                                        const std::vector<Tensor*>& targets,
                                                        const std::vector<Operation*>& target_operations,
                                                        const compiler::Options& options) {
  if (feeds.size() != arrays.size())
    throw GraphError(
        cat("[run] there must be one array per feed, got ", arrays.size(), " array(s) for ", feeds.size(), " feed(s)"));
  std::vector<size_t> order(feeds.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds[i]) throw GraphError("[run] a feed is null");
    if (!arrays[i].valid()) throw GraphError(cat("[run] no array was given for feed ", feeds[i]->name()));
  }
  const auto before = [&](size_t a, size_t b) { return feeds[a]->operation->id < feeds[b]->operation->id; };
  if (!std::ranges::is_sorted(order, before)) {
    std::ranges::stable_sort(order, before);
    std::vector<NDArray> sorted;
    for (size_t i : order) sorted.push_back(std::move(arrays[i]));
    arrays = std::move(sorted);
  }
  CacheKey key;
  key.reserve(8 + feeds.size() * 6 + targets.size() + target_operations.size());
  key.push_back(feeds.size());
  for (size_t i = 0; i < order.size(); ++i) append(key, feeds[order[i]], arrays[i].dtype(), arrays[i].dims());
  append(key, targets, target_operations, options);
  if (!options.observe)
    if (auto executable = cache_->find(key)) return executable;
  std::vector<Feed> typed;
  for (size_t i = 0; i < order.size(); ++i) typed.emplace_back(feeds[order[i]], arrays[i].type());
  return compile_new(std::move(key), std::move(typed), targets, target_operations, options);
}

std::shared_ptr<Executable> DeviceGraph::compile_new(CacheKey key, std::vector<Feed> feeds,
                                                     const std::vector<Tensor*>& targets,
                                                     const std::vector<Operation*>& target_operations,
                                                     const compiler::Options& options) {
  state_->device.check_usable();
  std::lock_guard lock(compile_mutex_);
  if (!options.observe)  // Another thread may have compiled the same request in the meantime.
    if (auto executable = cache_->find(key, false)) return executable;
  auto executable = Executable::create(state_, std::move(feeds), targets, target_operations, options);
  cache_->insert(std::move(key), executable);
  return executable;
}

std::vector<NDArray> DeviceGraph::run(const std::vector<std::pair<Tensor*, NDArray>>& feeds,
                                      const std::vector<Tensor*>& targets,
                                      const std::vector<Operation*>& target_operations, std::vector<NDArray> results) {
  std::vector<Tensor*> tensors;
  std::vector<NDArray> arrays;
  for (auto& [tensor, array] : feeds) {
    tensors.push_back(tensor);
    arrays.push_back(array);
  }
  auto executable = executable_for(tensors, arrays, targets, target_operations);
  return executable->run(std::move(arrays), std::move(results));
}

NDArray DeviceGraph::variable_value(Tensor* variable) { return variable_values({variable})[0]; }

std::vector<NDArray> DeviceGraph::variable_values(const std::vector<Tensor*>& variables) {
  std::vector<Tensor*> once;  // the variables without repetitions
  std::vector<size_t> places;
  std::unordered_map<Tensor*, size_t> known;
  for (Tensor* variable : variables) {
    state_->check_variable(variable);
    const auto [found, is_new] = known.emplace(variable, once.size());
    if (is_new) once.push_back(variable);
    places.push_back(found->second);
  }
  if (once.empty()) return {};
  auto values = std::make_shared<std::vector<NDArray>>();
  run_exclusively("variable_value", [once, values, state = state_] {
    *values = state->device.backend().read_variables(state->storages(once));
  });
  std::vector<NDArray> result;
  std::vector<bool> taken(once.size());
  for (const size_t place : places) {
    result.push_back(taken[place] ? (*values)[place].copy_contiguous() : (*values)[place]);
    taken[place] = true;
  }
  return result;
}

uint64_t DeviceGraph::exclusive_accesses() const { return state_->gate->exclusive_entries(); }

ConstantPtr DeviceGraph::constant_value(Tensor* variable) { return constant_values({variable})[0]; }

std::vector<ConstantPtr> DeviceGraph::constant_values(const std::vector<Tensor*>& variables) {
  std::vector<Tensor*> changed;
  for (Tensor* variable : variables) {
    state_->check_variable(variable);
    if (state_->has_storage(variable)) changed.push_back(variable);
  }
  const std::vector<NDArray> copies = variable_values(changed);
  std::vector<ConstantPtr> values;
  size_t next = 0;
  for (Tensor* variable : variables) {
    if (next == changed.size() || changed[next] != variable) {
      values.push_back(variable->operation->attributes.data("value"));
      continue;
    }
    const auto array = std::make_shared<NDArray>(copies[next++]);
    values.push_back(ConstantData::borrow(array->dtype(), array->dims(), array->data(), array));
  }
  return values;
}

void DeviceGraph::set_variable(Tensor* variable, const NDArray& value) { set_variables({{variable, value}}); }

void DeviceGraph::set_variables(const std::vector<std::pair<Tensor*, NDArray>>& values) {
  std::vector<Tensor*> variables;
  std::vector<NDArray> arrays;
  std::unordered_set<const Tensor*> known;
  for (const auto& [variable, value] : values) {
    state_->check_variable(variable);
    if (!known.insert(variable).second)
      throw GraphError(cat("[set_variables] each variable must occur once, got ", variable->name(), " twice"));
    if (!value.valid()) throw GraphError(cat("[set_variable] no array was given for ", variable->name()));
    if (value.dtype() != variable->dtype())
      throw DTypeError(cat("[set_variable] the value of ", variable->name(), " must be ", name(variable->dtype()),
                           ", got ", name(value.dtype()), "; convert it to ", name(variable->dtype()), " first"));
    if (value.dims() != variable->shape().dims())
      throw ShapeError(cat("[set_variable] the value of ", variable->name(), " must have shape ", variable->shape(),
                           ", got ", to_string(value.dims())));
    variables.push_back(variable);
    arrays.push_back(value);
  }
  if (variables.empty()) return;
  run_exclusively("set_variable", [variables, arrays, state = state_] {
    state->device.backend().write_variables(state->storages(variables), arrays);
    state->refresh();
  });
}

void DeviceGraph::run_exclusively(std::string_view label, std::function<void()> work) {
  auto buffer = state_->device.default_queue()->command_buffer();
  buffer->encode(
      [work = std::move(work), state = state_] {
        auto pass = state->gate->exclusive();
        work();
      },
      std::string(label));
  buffer->commit();
  buffer->wait_until_completed();
}

CacheStatistics DeviceGraph::cache_statistics() const {
  CacheStatistics result = cache_->statistics();
  result.compiles = state_->compiles;
  result.seconds = static_cast<double>(state_->compile_nanoseconds) * 1e-9;
  return result;
}

}  // namespace mpsgraph::runtime
