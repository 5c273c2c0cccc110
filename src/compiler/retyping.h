// Types of a specialized graph for other feeds, computed in place.
//
// trace() specializes a graph and keeps every copied operation, including the shape arithmetic that specialize() folds
// and removes. retype() then infers the types again for other feeds, but only of operations whose operands changed. It
// copies nothing, so it takes a small part of the time of specialize().
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

class Retyping {
 public:
  struct Step {
    const Operation* source;
    std::vector<Tensor*> inputs;  // including operands that became attributes of the copy
    Operation* copy;
    Tensor* constant;  // the constant that replaces the copy's result; null if there is none
  };
  struct Trace {
    std::unique_ptr<Graph> graph;
    std::vector<Tensor*> feeds;
    std::vector<Step> steps;  // in execution order
    std::vector<const Tensor*> deciding;  // constants that chose the branch of an `if`
    bool complete = true;  // whether the steps determine all types
  };

  explicit Retyping(Trace trace) : trace_(std::move(trace)) {}

  // Infers the types for these feeds. Returns false if the specialized graph has a different structure for these feeds,
  // or if they are invalid; the types are then undefined until the next call.
  bool retype(const std::vector<TensorType>& feeds);
  const Graph& graph() const { return *trace_.graph; }

 private:
  enum class Change { none, types, value };
  bool retype(Step& step, bool all, std::vector<bool>& changed) const;

  Trace trace_;
  bool valid_ = true;  // whether the types are those of some feeds
};

// Null if the types depend on values of the feeds.
std::unique_ptr<Retyping> trace(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                                const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations);

// The value of an operation whose inputs are all constants, computed by the registered evaluator; null if it has other
// inputs or cannot be computed.
ConstantPtr computed_from_constants(const Operation& operation);

}  // namespace mpsgraph::compiler
