// Custom operations, kinds of operations, and operations by name.
#pragma once

#include "mpsgraph/application/operands.hpp"

namespace mpsgraph::application {

// Custom operations (see custom_operation.h), which graphs and packages contain as operations of kind "custom". Load or
// register them before you open a package that needs them. register_custom_operation() copies the description, but not
// the memory that it points to.
inline void load_custom_operations(const std::string& library) { check(mpsgraph_custom_load(library.c_str())); }
inline void register_custom_operation(const mpsgraph_custom_operation& operation) {
  check(mpsgraph_custom_register(&operation));
}
// Adds a custom operation by its name. `attributes` has the attributes that it declares.
inline Operation custom(const char* operation, List<Tensor> inputs, Attributes attributes = {},
                        const char* name = nullptr) {
  if (inputs.empty()) throw Failure(MPSGRAPH_GRAPH_ERROR, "[custom] at least one input is required");
  return inputs.front().graph().create("custom", inputs, attributes.set("operation", operation), name);
}
// Adds a call of another graph's executable. It has one result of each type.
inline std::vector<Tensor> call(const Graph& graph, const char* symbol, List<Tensor> inputs, List<mpsgraph_type> types,
                                const char* name = nullptr) {
  return graph.create("call", inputs, Attributes().set("symbol", symbol).set("types", types), name).outputs();
}

// Returns all kinds of operations, and the description of one kind as JSON, as mpsgraph_operation_description() does.
inline std::vector<std::string> operation_kinds() {
  size_t count;
  check(mpsgraph_operation_kind_count(&count));
  std::vector<std::string> kinds;
  for (size_t i = 0; i < count; ++i)
    kinds.push_back(text_of([&](char* buffer, size_t capacity, size_t* length) {
      return mpsgraph_operation_kind_at(i, buffer, capacity, length);
    }));
  return kinds;
}
inline std::string operation_description(const char* kind) {
  return text_of([&](char* buffer, size_t capacity, size_t* length) {
    return mpsgraph_operation_description(kind, buffer, capacity, length);
  });
}

}  // namespace mpsgraph::application
