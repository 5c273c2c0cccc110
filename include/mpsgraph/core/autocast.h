// Mixed precision while a graph is built: which operands of which operations are cast, and to what.
//
// An Autocast stands before Graph::create and adds casts, which are ordinary operations: derivatives, passes, files and
// backends need to know nothing of it. Variables keep their own type and are cast where they are used. The rules are a
// table by kind of operation (autocast.cpp); docs/mixed_precision.md is that table for people.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

enum class AutocastRule {
  low,  // operands in the low type
  float32,  // operands of less precision in float32, and so the result
  source,  // computed in float32; the result in the type that the first operand came in
  widest,  // operands in the widest of their types; variables and numbers follow the others
  variable,  // what is assigned takes the variable's type
  none,  // as they come
};
MPSGRAPH_API std::string_view name(AutocastRule rule);
MPSGRAPH_API AutocastRule autocast_rule(const OperationDefinition& definition);

// Builds operations of a graph with their operands cast by the rules.
class MPSGRAPH_API Autocast {
 public:
  Autocast(Graph& graph, DType low) : graph_(graph), low_(low) {}

  // As Graph::create. Under the rule `source` what comes back is the cast of the result.
  Operation* create(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes = {},
                    std::string_view name = {}, std::vector<std::unique_ptr<Block>> blocks = {});
  Tensor* add(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes = {},
              std::string_view name = {}) {
    return create(kind, std::move(inputs), std::move(attributes), name)->output();
  }

  const Graph& graph() const { return graph_; }

 private:
  Tensor* cast(Tensor* tensor, DType dtype);

  Graph& graph_;
  const DType low_;
  std::unordered_map<const Tensor*, std::vector<Tensor*>> casts_;  // one cast of a tensor serves all who want it
};

}  // namespace mpsgraph
