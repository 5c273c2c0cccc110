// Rewriter: copies a graph operation by operation, and lets a visitor replace operations.
//
// A visitor sees each live operation in order, after the operations it depends on have been copied or replaced. The
// visitor returns nullopt to have the operation copied, or the tensors that replace the operation's results. These can
// be new tensors, created with a Builder on graph(), or existing tensors of the new graph. rewrite() applies a visitor
// to a whole Program and removes operations that have become unused. Most passes change nothing in most graphs, so
// nothing is copied until a visitor asks for a tensor of the new graph: a visitor first inspects the source with
// seen(), and uses the rest of the Rewriter only when it replaces something.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program.h"
#include "compiler/tables.h"

namespace mpsgraph::compiler {

class Rewriter {
 public:
  using Replacement = std::optional<std::vector<Tensor*>>;
  using Visit = std::function<Replacement(Rewriter&, const Operation& source)>;

  // `live` is indexed by operation id. Operations whose entry is false are neither visited nor copied.
  Rewriter(const Graph& source, std::vector<bool> live, Visit visit);

  Graph& graph() { return catch_up(); }  // the new graph; operations are added to its current block
  std::unique_ptr<Graph> take_graph() { return catch_up(), std::move(graph_); }
  void stop() { stopped_ = true; }  // copy nothing further, not even the operation being visited
  void change_types() { changes_types_ = true; }  // allow replacements of other types
  bool is_untouched() const { return untouched_; }  // whether nothing has been replaced so far

  // The replacement of a source tensor, which may only be inspected. Until an operation has been copied, this is the
  // source tensor itself.
  const Tensor* seen(const Tensor* source) const;

  // The tensor or operation of the new graph that currently replaces the given tensor or operation of the source graph.
  // An operation is replaced by the operation that computes the replacement of its first result.
  Tensor* now(const Tensor* source);
  std::vector<Tensor*> now(const std::vector<Tensor*>& sources);
  Operation* now(const Operation* source);
  bool has(const Operation& source) { return catch_up(), is_made_[source.id]; }
  void stand_for(const Operation& source, Operation* operation);
  void stand_for(const Tensor& source, Tensor* tensor);  // replaces one result of an operation that has several

  // Copies an operation with its inputs and blocks mapped; name, location, and control dependencies are kept.
  Operation* clone(const Operation& source);
  // Adds an operation of the same kind and with the same attributes as the source, but different inputs, types, and
  // blocks.
  Operation* append(const Operation& source, std::vector<Tensor*> inputs, std::vector<TensorType> types,
                    std::vector<std::unique_ptr<Block>> blocks = {});
  // Adds a new operation with inferred types, named like the source if that name is free.
  Operation* create(const Operation& source, Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {});
  Tensor* constant(const Operation& source, ConstantPtr value);

  // Copies operations of a block into the current block. copy_block creates new arguments; it returns null if the
  // visitor has called stop().
  void copy_operations(const Block& source);
  void copy_operation(const Operation& operation);
  std::unique_ptr<Block> copy_block(const Block& source, const std::vector<TensorType>& argument_types);

 private:
  Graph& catch_up();  // copies all operations that have been left uncopied so far
  Tensor* substitute(const Tensor* source) const;
  std::string_view free_name(const std::string& wanted) const;

  std::unique_ptr<Graph> graph_;
  std::vector<bool> live_;
  Visit visit_;
  TensorTable<Tensor*> tensors_;  // replacements of the results
  // Replacements of operations that were copied or replaced as a whole, and whether an operation or a result of it was
  // replaced, both indexed by source operation id.
  std::vector<Operation*> operations_;
  std::vector<bool> is_made_;
  bool untouched_ = true;  // nothing has been copied yet
  bool stopped_ = false;
  bool changes_types_ = false;
  std::vector<const Operation*> left_;  // operations left uncopied, which must be copied once something changes
  const Operation* visited_ = nullptr;  // the operation being visited
};

// Rebuilds the program: copies whatever the visitor does not replace, and removes whatever is no longer needed.
// specialize(), sweep(), and rewrite() leave only needed operations; if there are others, the visitor sees them too.
void rewrite(Program& program, const Rewriter::Visit& visit);
// Remove operations in place: those that are needed for neither results nor effects, or those that `live`, which is
// indexed by operation id, does not mark.
void sweep(Program& program);
void sweep(Graph& graph, const std::vector<bool>& live);

std::vector<Tensor*> results_of(const Operation& operation);

// Whether any block contains an operation for which `wanted` returns true. Searching costs a fraction of rewriting.
bool any_operation(const Program& program, const std::function<bool(const Operation&)>& wanted);

// Returns, for each operation id, whether a root needs the operation through inputs, blocks, or control dependencies. A
// print, a check, or a custom operation with effects is also needed if it is in a needed block.
std::vector<bool> needed_by(const Graph& graph, const std::vector<const Operation*>& roots);
// Returns, for each operation id, whether the program's results or effects need the operation.
std::vector<bool> live_operations(const Program& program);

}  // namespace mpsgraph::compiler
