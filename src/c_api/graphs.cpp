// Graphs of the C interface: reading them from packages and text, the names of their tensors, and their variables.
#include <algorithm>
#include <set>

#include "c_api/objects.h"
#include "mpsgraph/core/text.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;
using runtime::NDArray;

namespace mpsgraph::c_api {

GraphObject::GraphObject(runtime::PackageContents given, runtime::Device& device)
    : Object(its_kind), contents(std::move(given)), on_device(contents.graph, device) {}

GraphObject::~GraphObject() {
  for (const auto& [part, handle] : handles_) forget(handle);
}

void* GraphObject::handle_of(Tensor* tensor) {
  void*& handle = handles_[tensor];
  if (!handle) handle = give(std::make_shared<TensorObject>(weak_from_this(), tensor), Ownership::of_graph);
  return handle;
}

void* GraphObject::handle_of(Operation* operation) {
  void*& handle = handles_[operation];
  if (!handle) handle = give(std::make_shared<OperationObject>(weak_from_this(), operation), Ownership::of_graph);
  return handle;
}

runtime::NamedTensors GraphObject::named(mpsgraph_role role) const {
  if (role == MPSGRAPH_INPUT) return contents.inputs;
  if (role == MPSGRAPH_OUTPUT) return contents.outputs;
  if (role != MPSGRAPH_PARAMETER && role != MPSGRAPH_TRAINABLE)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the role must be one of enum mpsgraph_role, got ", role));
  // The parameters in `all` come first. The variables that have no name in the package are appended.
  runtime::NamedTensors all = contents.parameters;
  std::set<const Tensor*> there;
  std::set<std::string> taken;
  for (const auto& [name, tensor] : all) there.insert(tensor), taken.insert(name);
  for (Tensor* variable : contents.graph->variables()) {
    if (there.contains(variable)) continue;
    std::string name = variable->name();
    while (!taken.insert(name).second) name += '_';
    all.emplace_back(std::move(name), variable);
  }
  if (role == MPSGRAPH_TRAINABLE)
    std::erase_if(all, [&](const auto& item) {
      return std::ranges::find(contents.trainable, item.second) == contents.trainable.end();
    });
  return all;
}

Tensor* GraphObject::own(const TensorObject& tensor) const {
  if (graph_of(tensor).get() != this)
    throw GraphError(
        cat("tensor '", tensor.tensor->name(), "' must belong to this graph, but it belongs to another graph"));
  return tensor.tensor;
}

Operation* GraphObject::own(const OperationObject& operation) const {
  if (graph_of(operation).get() != this)
    throw GraphError(
        cat("operation '", operation.operation->name, "' must belong to this graph, but it belongs to another graph"));
  return operation.operation;
}

std::vector<Tensor*> GraphObject::tensors(const mpsgraph_tensor* handles, size_t count) const {
  std::vector<Tensor*> result;
  for (const auto& tensor : objects<TensorObject>(handles, count)) result.push_back(own(*tensor));
  return result;
}

std::vector<Operation*> GraphObject::operations(const mpsgraph_operation* handles, size_t count) const {
  std::vector<Operation*> result;
  for (const auto& operation : objects<OperationObject>(handles, count)) result.push_back(own(*operation));
  return result;
}

Tensor* tensor_named(const runtime::NamedTensors& named, std::string_view name) {
  const auto found = std::ranges::find(named, name, &std::pair<std::string, Tensor*>::first);
  if (found != named.end()) return found->second;
  std::string known;
  for (const auto& item : named) known += cat(known.empty() ? "" : ", ", "'", item.first, "'");
  throw GraphError(cat("'", name, "' does not exist; the names are: ", known.empty() ? "none" : known));
}

void save(GraphObject& graph, const char* path) {
  const std::lock_guard lock(graph.mutex);
  runtime::PackageContents contents = graph.contents;
  contents.parameters = graph.named(MPSGRAPH_PARAMETER);
  runtime::save_package(path, contents, &graph.on_device);
}

void load_state(GraphObject& graph, const char* path) {
  const runtime::PackageContents saved = runtime::load_package(path);
  const std::lock_guard lock(graph.mutex);
  const runtime::NamedTensors variables = graph.named(MPSGRAPH_PARAMETER);
  std::vector<std::pair<Tensor*, NDArray>> values;
  for (const auto& [name, tensor] : saved.parameters) {
    Tensor* variable = tensor_named(variables, name);
    if (variable->type != tensor->type)
      throw ShapeError(cat("variable '", name, "' in the package must have type ", to_string(variable->type), ", got ",
                           to_string(tensor->type), "; no variable was changed"));
    const ConstantPtr data = tensor->operation->attributes.data("value");
    NDArray value = NDArray::allocate(data->dtype(), data->dims());
    data->expand_into(value.data());
    values.emplace_back(variable, std::move(value));
  }
  graph.on_device.set_variables(values);
}

}  // namespace mpsgraph::c_api

namespace {

void give_graph(runtime::PackageContents contents, mpsgraph_device device, mpsgraph_graph* graph) {
  auto made = std::make_shared<GraphObject>(std::move(contents), device_or_default(device));
  *graph = static_cast<mpsgraph_graph>(give(std::move(made)));
}

Tensor* variable_of(const TensorObject& tensor) {
  if (!tensor.tensor->operation->is("variable"))
    throw GraphError(cat("'", tensor.tensor->name(), "' must be a variable, but it is the result of ",
                         tensor.tensor->operation->kind()));
  return tensor.tensor;
}

const std::pair<std::string, Tensor*>& item_at(const runtime::NamedTensors& named, size_t index) {
  if (index >= named.size())
    throw OutOfRangeError(
        cat("index ", index, " is out of range: the number of tensors with this role is ", named.size()));
  return named[index];
}

}  // namespace

mpsgraph_status mpsgraph_graph_create(mpsgraph_device device, mpsgraph_graph* graph) {
  return guarded([&] {
    required(graph, "graph");
    give_graph({std::make_shared<Graph>(), {}, {}, {}, {}}, device, graph);
  });
}

mpsgraph_status mpsgraph_graph_open(const char* path, mpsgraph_device device, mpsgraph_graph* graph) {
  return guarded([&] {
    required(graph, "graph");
    give_graph(runtime::load_package(required(path, "path")), device, graph);
  });
}

mpsgraph_status mpsgraph_graph_from_text(const char* text, size_t length, mpsgraph_device device,
                                         mpsgraph_graph* graph) {
  return guarded([&] {
    required(graph, "graph");
    runtime::PackageContents contents{parse(std::string_view(required(text, "text"), length)), {}, {}, {}, {}};
    for (Tensor* placeholder : contents.graph->placeholders())
      contents.inputs.emplace_back(placeholder->name(), placeholder);
    contents.trainable = contents.graph->variables();
    give_graph(std::move(contents), device, graph);
  });
}

mpsgraph_status mpsgraph_graph_text(mpsgraph_graph graph, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    write_text(print(*held->contents.graph), buffer, capacity, length);
  });
}

mpsgraph_status mpsgraph_graph_save(mpsgraph_graph graph, const char* path) {
  return guarded([&] {
    required(path, "path");
    const auto held = object<GraphObject>(graph);
    save(*held, path);
  });
}

mpsgraph_status mpsgraph_graph_load_state(mpsgraph_graph graph, const char* path) {
  return guarded([&] {
    required(path, "path");
    const auto held = object<GraphObject>(graph);
    load_state(*held, path);
  });
}

mpsgraph_status mpsgraph_graph_tensor_count(mpsgraph_graph graph, mpsgraph_role role, size_t* count) {
  return guarded([&] {
    required(count, "count");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    *count = held->named(role).size();
  });
}

mpsgraph_status mpsgraph_graph_tensor_at(mpsgraph_graph graph, mpsgraph_role role, size_t index,
                                         mpsgraph_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    *tensor = static_cast<mpsgraph_tensor>(held->handle_of(item_at(held->named(role), index).second));
  });
}

mpsgraph_status mpsgraph_graph_name_at(mpsgraph_graph graph, mpsgraph_role role, size_t index, char* buffer,
                                       size_t capacity, size_t* length) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    write_text(item_at(held->named(role), index).first, buffer, capacity, length);
  });
}

mpsgraph_status mpsgraph_graph_find(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                    mpsgraph_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    required(name, "name");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    *tensor = static_cast<mpsgraph_tensor>(held->handle_of(tensor_named(held->named(role), name)));
  });
}

mpsgraph_status mpsgraph_graph_find_operation(mpsgraph_graph graph, const char* name, mpsgraph_operation* operation) {
  return guarded([&] {
    required(operation, "operation");
    required(name, "name");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    Operation* found = held->contents.graph->find(name);
    if (!found) throw GraphError(cat("the graph has no operation '", name, "'"));
    *operation = static_cast<mpsgraph_operation>(held->handle_of(found));
  });
}

mpsgraph_status mpsgraph_graph_set_name(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                        mpsgraph_tensor tensor) {
  return guarded([&] {
    required(name, "name");
    const auto held = object<GraphObject>(graph);
    const auto named = object<TensorObject>(tensor);
    const std::lock_guard lock(held->mutex);
    Tensor* own = held->own(*named);
    if (role != MPSGRAPH_INPUT && role != MPSGRAPH_OUTPUT)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    "the role must be MPSGRAPH_INPUT or MPSGRAPH_OUTPUT; variables keep the names that they were "
                    "created with");
    if (role == MPSGRAPH_INPUT && !own->operation->is("placeholder"))
      throw GraphError(
          cat("an input must be a placeholder, but '", own->name(), "' is the result of ", own->operation->kind()));
    auto& list = role == MPSGRAPH_INPUT ? held->contents.inputs : held->contents.outputs;
    const auto found = std::ranges::find(list, std::string_view(name), &std::pair<std::string, Tensor*>::first);
    if (found != list.end())
      found->second = own;
    else
      list.emplace_back(name, own);
  });
}

mpsgraph_status mpsgraph_tensor_type(mpsgraph_tensor tensor, mpsgraph_type* type) {
  return guarded([&] {
    required(type, "type");
    const auto held = object<TensorObject>(tensor);
    const auto graph = graph_of(*held);
    *type = from_type(held->tensor->type);
  });
}

mpsgraph_status mpsgraph_tensor_name(mpsgraph_tensor tensor, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] {
    const auto held = object<TensorObject>(tensor);
    const auto graph = graph_of(*held);
    write_text(held->tensor->name(), buffer, capacity, length);
  });
}

mpsgraph_status mpsgraph_variable_read(mpsgraph_tensor variable, mpsgraph_array* value) {
  return guarded([&] {
    required(value, "value");
    const auto held = object<TensorObject>(variable);
    const auto graph = graph_of(*held);
    NDArray copy = graph->on_device.variable_value(variable_of(*held));
    *value = static_cast<mpsgraph_array>(give(std::make_shared<ArrayObject>(std::move(copy))));
  });
}

mpsgraph_status mpsgraph_variable_write(mpsgraph_tensor variable, mpsgraph_array value) {
  return guarded([&] {
    const auto held = object<TensorObject>(variable);
    const auto graph = graph_of(*held);
    const auto array = object<ArrayObject>(value);
    graph->on_device.set_variable(variable_of(*held), array->array);
  });
}
