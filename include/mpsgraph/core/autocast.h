// Autocast: mixed precision during graph construction. Its rules determine which operands of which operations are cast,
// and to which dtype.
//
// An Autocast is used in place of Graph::create and inserts casts, which are ordinary operations. Gradients, compiler
// passes, files, and backends therefore need no knowledge of autocast. Variables keep their own dtype and are cast
// where they are used. The rules for each kind of operation are a table in autocast.cpp, which docs/mixed_precision.md
// documents.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

enum class AutocastRule {
  low,  // cast operands to the low dtype
  float32,  // cast operands of lower precision to float32, which is also the result's dtype
  source,  // compute in float32 and cast the result to the original dtype of the first operand
  // cast operands to the widest of their dtypes; variables and numbers are cast to the dtype of the other operands
  widest,
  variable,  // cast the assigned value to the variable's dtype
  none,  // leave operands unchanged
};
MPSGRAPH_API std::string_view name(AutocastRule rule);
MPSGRAPH_API AutocastRule autocast_rule(const OperationDefinition& definition);

// Adds operations to a graph and casts their operands according to the rules.
class MPSGRAPH_API Autocast {
 public:
  Autocast(Graph& graph, DType low) : graph_(graph), low_(low) {}

  // Like Graph::create. Under the rule `source`, the returned operation is the cast of the result.
  Operation* create(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}, std::string_view name = {},
                    std::vector<std::unique_ptr<Block>> blocks = {});
  Tensor* add(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}, std::string_view name = {}) {
    return create(kind, std::move(inputs), std::move(attributes), name)->output();
  }

  const Graph& graph() const { return graph_; }

 private:
  Tensor* cast(Tensor* tensor, DType dtype);

  Graph& graph_;
  const DType low_;
  std::unordered_map<const Tensor*, std::vector<Tensor*>> casts_;  // each tensor is cast at most once per dtype
};

}  // namespace mpsgraph
