// Rewriter: copies a graph operation by operation, letting a visitor replace some of them.
//
// A visitor sees each live operation in order, after the operations it depends on have been copied or replaced. It returns
// nothing to have the operation copied, or the tensors that replace its results: new ones, made with a Builder on graph(),
// or tensors of the new graph that exist already. rewrite() does this to a whole Program and removes what has become
// unused. Most passes change nothing in most graphs, so nothing is copied until a visitor asks for a tensor of the new
// graph: a visitor first looks at the source with seen(), and uses the rest of the Rewriter only when it replaces
// something.
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

  Graph& graph() { return catch_up(); }            // the new one; operations are added to its current block
  std::unique_ptr<Graph> take_graph() { return catch_up(), std::move(graph_); }
  bool is_untouched() const { return untouched_; }  // all of the source stays as it is

  // What stands for a tensor of the source, to be looked at only: itself while nothing has been copied.
  const Tensor* seen(const Tensor* source) const;

  // The replacement of a tensor, or of an operation, of the source. An operation that was replaced is
  // stood for by the one that makes its first result now.
  Tensor* now(const Tensor* source);
  std::vector<Tensor*> now(const std::vector<Tensor*>& sources);
  Operation* now(const Operation* source);
  bool has(const Operation& source) { return catch_up(), is_made(source); }
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
  Graph& catch_up();  // copies what was left as it is so far
  Tensor* substitute(const Tensor* source) const;
  bool is_made(const Operation& source) const { return !tensors_[source.id].empty() || operations_[source.id]; }
  std::string_view free_name(const std::string& wanted) const;

  std::unique_ptr<Graph> graph_;
  std::vector<bool> live_;
  Visit visit_;
  std::vector<std::vector<Tensor*>> tensors_;      // by source operation number
  std::vector<Operation*> operations_;             // likewise, where the operation has no results
  bool untouched_ = true;                          // nothing has been copied yet
  std::vector<const Operation*> left_;             // until then: what is to be copied
  const Operation* visited_ = nullptr;             // the one that the visitor sees
};

// Rebuilds the program: what the visitor does not replace is copied; what nothing needs any more is gone.
void rewrite(Program& program, const Rewriter::Visit& visit);
// Removes, in place, what neither results nor effects need; or what is not `live`, by operation number.
void sweep(Program& program);
void sweep(Graph& graph, const std::vector<bool>& live);

// Is there such an operation, in any block? Looking costs a fraction of rewriting.
bool any_operation(const Program& program, const std::function<bool(const Operation&)>& wanted);

// By operation number: what roots need by inputs, blocks and control dependencies, and what blocks print and check.
std::vector<bool> needed_by(const Graph& graph, const std::vector<const Operation*>& roots);
// By operation number: needed for the program's results and effects.
std::vector<bool> live_operations(const Program& program);

}  // namespace mpsgraph::compiler
