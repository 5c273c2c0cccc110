// The table of filter definitions, and errors that name a filter.
#include "nngraph/definition.h"

#include <deque>
#include <mutex>

namespace mpsgraph::nngraph {
namespace {

std::deque<NodeDefinition>& table() {
  static std::deque<NodeDefinition> definitions;
  return definitions;
}
std::string_view entering;

void fill_table() {
  static std::once_flag once;
  std::call_once(once, [] {
    NodeFamily::for_each([](std::string_view family, void (*say)()) {
      entering = family;
      say();
    });
  });
}

}  // namespace

void define_node(NodeDefinition definition) {
  definition.family = entering;
  table().push_back(std::move(definition));
}

std::vector<const NodeDefinition*> all_node_definitions() {
  fill_table();
  std::vector<const NodeDefinition*> result;
  for (const NodeDefinition& definition : table()) result.push_back(&definition);
  return result;
}

const NodeDefinition& node_definition(std::string_view name) {
  std::string names;
  for (const NodeDefinition* definition : all_node_definitions()) {
    if (definition->name == name) return *definition;
    names += cat(names.empty() ? "" : ", ", definition->name);
  }
  throw GraphError(cat("unknown filter '", std::string(name), "'; must be one of ", names));
}

Tensor* Lowering::parameter(std::string_view name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? nullptr : found->second;
}

void Lowering::shape_error(const std::string& message) const {
  throw ShapeError(cat("[", node.title(), "] ", message, node.where()));
}

void Lowering::graph_error(const std::string& message) const {
  throw GraphError(cat("[", node.title(), "] ", message, node.where()));
}

}  // namespace mpsgraph::nngraph
