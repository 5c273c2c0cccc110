// The objects that the handles of the C interface refer to.
#pragma once

#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "c_api/handles.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/device_graph.h"
#include "mpsgraph/runtime/execution.h"
#include "mpsgraph/runtime/package.h"

namespace mpsgraph::c_api {

struct DeviceObject : Object {
  static constexpr HandleKind its_kind = HandleKind::device;
  explicit DeviceObject(runtime::Device& device) : Object(its_kind), device(device) {}
  runtime::Device& device;
};

struct ArrayObject : Object {
  static constexpr HandleKind its_kind = HandleKind::array;
  explicit ArrayObject(runtime::NDArray array) : Object(its_kind), array(std::move(array)) {}
  const runtime::NDArray array;
};

// A graph on a device, with the names that the application uses. `mutex` protects building, compilation, and the names.
struct GraphObject : Object, std::enable_shared_from_this<GraphObject> {
  static constexpr HandleKind its_kind = HandleKind::graph;
  GraphObject(runtime::PackageContents contents, runtime::Device& device);
  ~GraphObject() override;

  void* handle_of(Tensor* tensor);  // This function and the ones below require the mutex to be held.
  void* handle_of(Operation* operation);
  runtime::NamedTensors named(mpsgraph_role role) const;
  Tensor* own(const struct TensorObject& tensor) const;  // throws GraphError if the tensor belongs to another graph
  Operation* own(const struct OperationObject& operation) const;
  std::vector<Tensor*> tensors(const mpsgraph_tensor* handles, size_t count) const;
  std::vector<Operation*> operations(const mpsgraph_operation* handles, size_t count) const;

  std::mutex mutex;
  runtime::PackageContents contents;
  runtime::DeviceGraph on_device;
  size_t control_scopes = 0;
  // Blocks under construction, outermost first. Each is stored with the size of `ended` at the time when it began.
  std::vector<std::pair<Block*, size_t>> begun;
  std::vector<std::unique_ptr<Block>> ended;     // finished blocks that no operation has used yet
  // Index in `ended` of the first block that was finished after the innermost block under construction began. That
  // block and the following ones are nested in the innermost block.
  size_t first_ended() const { return begun.empty() ? 0 : begun.back().second; }

 private:
  std::unordered_map<const void*, void*> handles_;
};

struct TensorObject : Object {
  static constexpr HandleKind its_kind = HandleKind::tensor;
  TensorObject(std::weak_ptr<GraphObject> graph, Tensor* tensor)
      : Object(its_kind), graph(std::move(graph)), tensor(tensor) {}
  const std::weak_ptr<GraphObject> graph;
  Tensor* const tensor;
};

struct OperationObject : Object {
  static constexpr HandleKind its_kind = HandleKind::operation;
  OperationObject(std::weak_ptr<GraphObject> graph, Operation* operation)
      : Object(its_kind), graph(std::move(graph)), operation(operation) {}
  const std::weak_ptr<GraphObject> graph;
  Operation* const operation;
};

// The graph of a tensor or an operation, kept alive as long as the caller needs it.
template <class Part>
std::shared_ptr<GraphObject> graph_of(const Part& part) {
  auto graph = part.graph.lock();
  if (!graph)
    throw Failure(MPSGRAPH_INVALID_HANDLE, cat("the graph of the ", name(part.kind), " was already released"));
  return graph;
}

struct ExecutableObject : Object {
  static constexpr HandleKind its_kind = HandleKind::executable;
  ExecutableObject(std::shared_ptr<GraphObject> graph, std::shared_ptr<runtime::Executable> executable)
      : Object(its_kind), graph(std::move(graph)), executable(std::move(executable)) {}
  const std::shared_ptr<GraphObject> graph;
  const std::shared_ptr<runtime::Executable> executable;
};

struct QueueObject : Object {
  static constexpr HandleKind its_kind = HandleKind::queue;
  explicit QueueObject(std::shared_ptr<runtime::CommandQueue> queue) : Object(its_kind), queue(std::move(queue)) {}
  const std::shared_ptr<runtime::CommandQueue> queue;
};

// The tensor with the given name. If there is none, throws a GraphError that lists the names.
Tensor* tensor_named(const runtime::NamedTensors& named, std::string_view name);
// save() writes a package with the graph's named tensors and the current values of all variables. load_state() sets the
// variables from such a package. If a variable has a different type in the package, no variable is changed.
void save(GraphObject& graph, const char* path);
void load_state(GraphObject& graph, const char* path);

// The device of a handle, or the default device if the handle is NULL.
inline runtime::Device& device_or_default(mpsgraph_device device) {
  return device ? object<DeviceObject>(device)->device : runtime::Device::default_device();
}

// Converts seconds to a timeout; a negative number means no timeout.
inline runtime::Timeout to_timeout(double seconds) {
  if (std::isnan(seconds)) throw Failure(MPSGRAPH_INVALID_ARGUMENT, "a timeout must be a number of seconds, got NaN");
  if (seconds < 0 || seconds > 1e9) return {};
  return seconds;
}

// The input arrays and result arrays of a call. A NULL result becomes an invalid array, which the run allocates.
std::vector<runtime::NDArray> inputs_of(const mpsgraph_array* inputs, size_t count, const runtime::Executable& runs);
std::vector<runtime::NDArray> results_of(const mpsgraph_array* results, size_t count, size_t there);
// Creates handles for the result arrays whose entry in `results` is NULL. If an error occurs, no handle is created.
void give_results(const std::vector<runtime::NDArray>& arrays, mpsgraph_array* results);

}  // namespace mpsgraph::c_api
