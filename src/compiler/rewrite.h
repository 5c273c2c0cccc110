// Rewriter: copies a graph operation by operation, letting a visitor replace some of them.
//
// A visitor sees each live operation in order, after the operations it depends on have been copied or replaced. It
// returns nothing to have the operation copied, or the tensors that replace its results: new ones, made with a Builder
// on graph(), or tensors of the new graph that exist already. rewrite() does this to a whole Program and removes
// operations that have become unused. Most passes change nothing in most graphs, so nothing is copied until a visitor
// asks for a tensor of the new graph: a visitor first inspects the source with seen(), and uses the rest of the
// Rewriter only when it replaces something.
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

  // `live` is indexed by operation number; operations that are not live are skipped.
  Rewriter(const Graph& source, std::vector<bool> live, Visit visit);

  Graph& graph() { return catch_up(); }  // the new graph; operations are added to its current block
  std::unique_ptr<Graph> take_graph() { return catch_up(), std::move(graph_); }
  bool is_untouched() const { return untouched_; }  // whether the source has not been changed so far

  // The replacement of a source tensor, for inspection only: the tensor itself while nothing has been copied.
  const Tensor* seen(const Tensor* source) const;

  // The replacement of a source tensor or operation. The replacement of an operation is the one that computes its first
  // result now.
  Tensor* now(const Tensor* source);
  std::vector<Tensor*> now(const std::vector<Tensor*>& sources);
  Operation* now(const Operation* source);
  bool has(const Operation& source) { return catch_up(), is_made(source); }
  void stand_for(const Operation& source, Operation* operation);
  void stand_for(const Tensor& source, Tensor* tensor);  // one of several results

  // Copies an operation with its inputs and blocks mapped; name, location, and control dependencies are kept.
  Operation* clone(const Operation& source);
  // Adds an operation of the same kind and attributes with other inputs, types, and blocks.
  Operation* append(const Operation& source, std::vector<Tensor*> inputs, std::vector<TensorType> types,
                    std::vector<std::unique_ptr<Block>> blocks = {});
  // Adds a new operation with inference, named like the source if that name is free.
  Operation* create(const Operation& source, std::string_view kind, std::vector<Tensor*> inputs,
                    Attributes attributes = {});
  Tensor* constant(const Operation& source, ConstantPtr value);

  // Copies the operations of a block into the current block. copy_block creates new arguments.
  void copy_operations(const Block& source);
  std::unique_ptr<Block> copy_block(const Block& source, const std::vector<TensorType>& argument_types);

 private:
  Graph& catch_up();  // copies everything left untouched so far
  Tensor* substitute(const Tensor* source) const;
  bool is_made(const Operation& source) const { return !tensors_[source.id].empty() || operations_[source.id]; }
  std::string_view free_name(const std::string& wanted) const;

  std::unique_ptr<Graph> graph_;
  std::vector<bool> live_;
  Visit visit_;
  std::vector<std::vector<Tensor*>> tensors_;  // by source operation number
  std::vector<Operation*> operations_;  // the same, for operations without results
  bool untouched_ = true;  // nothing has been copied yet
  std::vector<const Operation*> left_;  // operations to copy once something changes
  const Operation* visited_ = nullptr;  // the operation being visited
};

// Rebuilds the program: copies whatever the visitor does not replace, and removes whatever is no longer needed.
void rewrite(Program& program, const Rewriter::Visit& visit);
// Removes, in place, operations that neither results nor effects need, or that are not `live`, by operation number.
void sweep(Program& program);
void sweep(Graph& graph, const std::vector<bool>& live);

// Whether any block contains such an operation. Searching costs a fraction of rewriting.
bool any_operation(const Program& program, const std::function<bool(const Operation&)>& wanted);

// By operation number: whether the roots need it through inputs, blocks, or control dependencies, or it is a print or
// check in a needed block.
std::vector<bool> needed_by(const Graph& graph, const std::vector<const Operation*>& roots);
// By operation number: whether the program's results or effects need it.
std::vector<bool> live_operations(const Program& program);

}  // namespace mpsgraph::compiler
