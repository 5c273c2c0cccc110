// Executables of the C interface: synchronous runs, and asynchronous runs with a completion function.
#include "c_api/objects.h"
#include "mpsgraph/runtime/executable.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;
using runtime::NDArray;

namespace mpsgraph::c_api {

std::vector<NDArray> inputs_of(const mpsgraph_array* inputs, size_t count, const runtime::Executable& runs) {
  if (count != runs.feeds().size())
    throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                  cat("the number of inputs must be ", runs.feeds().size(), ", got ", count));
  std::vector<NDArray> result;
  for (const auto& array : objects<ArrayObject>(inputs, count)) result.push_back(array->array);
  return result;
}

std::vector<NDArray> results_of(const mpsgraph_array* results, size_t count, size_t there) {
  if (count != there)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the number of results must be ", there, ", got ", count));
  require_items(results, count, "results");
  std::vector<NDArray> made;
  for (size_t i = 0; i < count; ++i) made.push_back(results[i] ? object<ArrayObject>(results[i])->array : NDArray());
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j)
      if (made[i].valid() && made[j].valid() && overlap(made[i], made[j]))
        throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                      cat("results must not overlap, but results ", j, " and ", i, " share memory"));
  return made;
}

void give_results(const std::vector<NDArray>& arrays, mpsgraph_array* results) {
  std::vector<void*> made(arrays.size(), nullptr);
  try {
    for (size_t i = 0; i < arrays.size(); ++i)
      if (!results[i]) made[i] = give(std::make_shared<ArrayObject>(arrays[i]));
  } catch (...) {
    for (void* handle : made)
      if (handle) forget(handle);
    throw;
  }
  for (size_t i = 0; i < arrays.size(); ++i)
    if (made[i]) results[i] = static_cast<mpsgraph_array>(made[i]);
}

}  // namespace mpsgraph::c_api

namespace {

struct ExecutionObject : Object {
  static constexpr HandleKind its_kind = HandleKind::execution;
  explicit ExecutionObject(std::shared_ptr<ExecutableObject> of) : Object(its_kind), of(std::move(of)) {}
  const std::shared_ptr<ExecutableObject> of;
  std::shared_ptr<runtime::Execution> execution;
};

void compile(const std::shared_ptr<GraphObject>& graph, const std::vector<Tensor*>& feeds, const mpsgraph_type* types,
             const std::vector<Tensor*>& targets, const std::vector<Operation*>& operations,
             mpsgraph_executable* executable) {
  std::vector<runtime::Feed> typed;
  for (size_t i = 0; i < feeds.size(); ++i) typed.emplace_back(feeds[i], types ? to_type(types + i) : feeds[i]->type);
  auto compiled = graph->on_device.compile(typed, targets, operations);
  auto made = std::make_shared<ExecutableObject>(graph, std::move(compiled));
  *executable = static_cast<mpsgraph_executable>(give(std::move(made)));
}

void complete(mpsgraph_completion completion, void* context, const std::vector<NDArray>& arrays,
              const std::exception_ptr& error) noexcept {
  std::vector<mpsgraph_array> results;
  std::string message;
  mpsgraph_status status = MPSGRAPH_OK;
  try {
    if (error) {
      status = status_of(error, message);
    } else {
      results.resize(arrays.size());
      give_results(arrays, results.data());
    }
  } catch (...) {
    results.clear();
    status = MPSGRAPH_OUT_OF_MEMORY;
  }
  completion(context, status, message.c_str(), results.data(), results.size());
  for (const mpsgraph_array result : results) mpsgraph_release(result);
}

}  // namespace

mpsgraph_status mpsgraph_graph_compile(mpsgraph_graph graph, const mpsgraph_type* types, size_t type_count,
                                       mpsgraph_executable* executable) {
  return guarded([&] {
    required(executable, "executable");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    std::vector<Tensor*> feeds, targets;
    for (const auto& [name, tensor] : held->contents.inputs) feeds.push_back(tensor);
    for (const auto& [name, tensor] : held->contents.outputs) targets.push_back(tensor);
    if (targets.empty())
      throw GraphError("the graph must have at least one named output; name one with mpsgraph_graph_set_name");
    if (type_count != (types ? feeds.size() : 0))
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    cat("the number of types must be ", feeds.size(), " (one per input), got ", type_count));
    compile(held, feeds, types, targets, {}, executable);
  });
}

mpsgraph_status mpsgraph_executable_create(mpsgraph_graph graph, const mpsgraph_tensor* feeds,
                                           const mpsgraph_type* types, size_t feed_count,
                                           const mpsgraph_tensor* targets, size_t target_count,
                                           const mpsgraph_operation* target_operations, size_t target_operation_count,
                                           mpsgraph_executable* executable) {
  return guarded([&] {
    required(executable, "executable");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    compile(held, held->tensors(feeds, feed_count), types, held->tensors(targets, target_count),
            held->operations(target_operations, target_operation_count), executable);
  });
}

mpsgraph_status mpsgraph_executable_input_count(mpsgraph_executable executable, size_t* count) {
  return guarded([&] { *required(count, "count") = object<ExecutableObject>(executable)->executable->feeds().size(); });
}

mpsgraph_status mpsgraph_executable_output_count(mpsgraph_executable executable, size_t* count) {
  return guarded(
      [&] { *required(count, "count") = object<ExecutableObject>(executable)->executable->targets().size(); });
}

mpsgraph_status mpsgraph_executable_input_type(mpsgraph_executable executable, size_t index, mpsgraph_type* type) {
  return guarded([&] {
    required(type, "type");
    const auto held = object<ExecutableObject>(executable);
    const auto& feeds = held->executable->feeds();
    if (index >= feeds.size())
      throw OutOfRangeError(cat("input index ", index, " is out of range: the number of inputs is ", feeds.size()));
    *type = from_type(feeds[index].second);
  });
}

mpsgraph_status mpsgraph_executable_output_type(mpsgraph_executable executable, size_t index, mpsgraph_type* type) {
  return guarded([&] {
    required(type, "type");
    const auto held = object<ExecutableObject>(executable);
    const auto& types = held->executable->target_types();
    if (index >= types.size())
      throw OutOfRangeError(cat("output index ", index, " is out of range: the number of outputs is ", types.size()));
    *type = from_type(types[index]);
  });
}

mpsgraph_status mpsgraph_executable_run(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                        size_t input_count, mpsgraph_array* results, size_t result_count) {
  return mpsgraph_executable_run_for(executable, inputs, input_count, results, result_count, -1);
}

mpsgraph_status mpsgraph_executable_run_for(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                            size_t input_count, mpsgraph_array* results, size_t result_count,
                                            double seconds) {
  return guarded([&] {
    const auto held = object<ExecutableObject>(executable);
    auto fed = inputs_of(inputs, input_count, *held->executable);
    auto given = results_of(results, result_count, held->executable->targets().size());
    give_results(held->executable->run(std::move(fed), std::move(given), nullptr, to_timeout(seconds)), results);
  });
}

mpsgraph_status mpsgraph_executable_run_async(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                              size_t input_count, const mpsgraph_array* results, size_t result_count,
                                              mpsgraph_queue queue, mpsgraph_completion completion, void* context,
                                              mpsgraph_execution* execution) {
  return guarded([&] {
    required(execution, "execution");
    const auto held = object<ExecutableObject>(executable);
    auto fed = inputs_of(inputs, input_count, *held->executable);
    std::vector<NDArray> given;
    if (results || result_count > 0) given = results_of(results, result_count, held->executable->targets().size());
    std::shared_ptr<runtime::CommandQueue> where;
    if (queue) where = object<QueueObject>(queue)->queue;
    runtime::ExecutionDescriptor descriptor;
    if (completion)
      descriptor.completed_handler = [=](const std::vector<NDArray>& made, std::exception_ptr error) {
        complete(completion, context, made, error);
      };
    auto started = std::make_shared<ExecutionObject>(held);
    void* handle = give(started);  // created first, because nothing may fail once the completion function can be called
    try {
      started->execution = held->executable->run_async(std::move(fed), std::move(given), descriptor, where);
    } catch (...) {
      forget(handle);
      throw;
    }
    *execution = static_cast<mpsgraph_execution>(handle);
  });
}

mpsgraph_status mpsgraph_execution_wait(mpsgraph_execution execution, double seconds) {
  return guarded([&] { object<ExecutionObject>(execution)->execution->wait(to_timeout(seconds)); });
}

mpsgraph_status mpsgraph_execution_cancel(mpsgraph_execution execution) {
  return guarded([&] { object<ExecutionObject>(execution)->execution->cancel(); });
}

mpsgraph_status mpsgraph_execution_results(mpsgraph_execution execution, mpsgraph_array* results, size_t result_count) {
  return guarded([&] {
    const auto held = object<ExecutionObject>(execution);
    const size_t count = held->of->executable->targets().size();
    if (result_count != count)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    cat("the number of results must be ", count, ", got room for ", result_count));
    require_items(results, result_count, "results");
    std::vector<mpsgraph_array> made(count);
    give_results(held->execution->results(), made.data());
    std::copy(made.begin(), made.end(), results);
  });
}
