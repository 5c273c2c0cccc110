// Rewriter: copies a graph operation by operation, letting a visitor replace some of them.
//
// A visitor sees each live operation in order, in its block, after everything it depends on has its
// stand-in in the new graph. It returns nothing to have the operation copied, or the tensors that stand
// for its results from now on: made with a Builder on graph(), or already there. rewrite() does this
// to a whole Program and removes what has become unused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

class Rewriter {
 public:
  using Replacement = std::optional<std::vector<Tensor*>>;
  using Visit = std::function<Replacement(Rewriter&, const Operation& source)>;

  // `live` by operation number; others are skipped.
  Rewriter(const Graph& source, std::vector<bool> live, Visit visit);

  Graph& graph() const { return *graph_; }         // the new one; operations are added to its current block
  std::unique_ptr<Graph> take_graph() { return std::move(graph_); }

  // The replacement of a tensor, or of an operation, of the source. An operation that was replaced is
  // stood for by the one that makes its first result now.
  Tensor* now(const Tensor* source) const;
  std::vector<Tensor*> now(const std::vector<Tensor*>& sources) const;
  Operation* now(const Operation* source) const;
  bool has(const Operation& source) const { return !tensors_[source.id].empty() || operations_[source.id]; }
  void stand_for(const Operation& source, Operation* operation);
  void stand_for(const Tensor& source, Tensor* tensor);  // one result of several

  // Copies with inputs and blocks mapped; name, location and control dependencies are kept.
  Operation* clone(const Operation& source);
  // The same kind and attributes from other inputs, types and blocks.
  Operation* append(const Operation& source, std::vector<Tensor*> inputs, std::vector<TensorType> types,
                    std::vector<std::unique_ptr<Block>> blocks = {});
  // A new operation with inference, under the source's name if that is free.
  Operation* create(const Operation& source, std::string_view kind, std::vector<Tensor*> inputs,
                    Attributes attributes = {});
  Tensor* constant(const Operation& source, ConstantPtr value);

  // Copies the operations of a block into the current block; of the arguments, copy_block makes new ones.
  void copy_operations(const Block& source);
  std::unique_ptr<Block> copy_block(const Block& source, const std::vector<TensorType>& argument_types);

 private:
  std::string free_name(const std::string& wanted) const;

  std::unique_ptr<Graph> graph_;
  std::vector<bool> live_;
  Visit visit_;
  std::vector<std::vector<Tensor*>> tensors_;      // by source operation number
  std::vector<Operation*> operations_;             // likewise, where the operation has no results
};

// Rebuilds the program: what the visitor does not replace is copied; what nothing needs any more is gone.
void rewrite(Program& program, const Rewriter::Visit& visit);
// Removes, in place, what neither results nor effects need.
void sweep(Program& program);

// Is there such an operation, in any block? Looking costs a fraction of rewriting.
bool any_operation(const Program& program, const std::function<bool(const Operation&)>& wanted);

// By operation number: what roots need by inputs, blocks and control dependencies, and what blocks print and check.
std::vector<bool> needed_by(const Graph& graph, const std::vector<const Operation*>& roots);
// By operation number: needed for the program's results and effects.
std::vector<bool> live_operations(const Program& program);

}  // namespace mpsgraph::compiler
