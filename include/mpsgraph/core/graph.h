// Graph, Block, Operation, Tensor: the one representation that users build, derivatives extend,
// passes rewrite and backends lower.
//
// A Graph is append-only: operations stand in creation order, and that order is a valid execution
// order. Reads and assigns of a variable happen in that order too: a read sees the assigns created
// before it and run with it, and no later one. Operations own blocks for control flow (if, while, for) and for
// fused element-wise kernels; operations in a block may use any tensor of an enclosing block.
// A Graph is built by one thread at a time; once built it is only read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

class Graph;
class Block;
class Operation;
struct OperationDefinition;

// One result of an operation. Its address is its identity and lives as long as its graph.
struct MPSGRAPH_API Tensor {
  Operation* operation = nullptr;
  int index = 0;  // which result
  TensorType type;

  Graph& graph() const;
  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  std::string name() const;  // the operation's, with ":i" when it has several results
};

// Where an operation was built: "model.py:41", or empty. Operations of one place share the text.
class Location {
 public:
  Location() = default;
  Location(const char* text) : Location(std::string(text)) {}
  Location(std::string text) : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}

  bool empty() const { return !text_; }
  const std::string& text() const {
    static const std::string nowhere;
    return text_ ? *text_ : nowhere;
  }

 private:
  std::shared_ptr<const std::string> text_;
};

class MPSGRAPH_API Operation {
 public:
  const OperationDefinition* definition = nullptr;
  std::string name;                              // unique in its graph
  int64_t id = 0;                                // creation number, unique in its graph
  std::vector<Tensor*> inputs;
  std::vector<std::unique_ptr<Tensor>> outputs;
  Attributes attributes;
  std::vector<Operation*> control_dependencies;  // these run before this one
  std::vector<std::unique_ptr<Block>> blocks;
  Block* parent = nullptr;
  Location location;

  std::string_view kind() const;                 // the definition's name, e.g. "addition"
  bool is(std::string_view kind_name) const { return kind() == kind_name; }
  Tensor* input(size_t i) const { return inputs[i]; }
  Tensor* output(size_t i = 0) const { return outputs[i].get(); }
  Graph& graph() const;
  std::string where() const;                     // "; built at model.py:41", or ""
  std::vector<Tensor*> captures() const;         // tensors from outside that its blocks use, in order of first use
};

// A list of operations with results. Arguments are operations of kind "argument".
class MPSGRAPH_API Block {
 public:
  Graph* graph = nullptr;
  Block* parent = nullptr;                       // enclosing block; null for a graph's root
  Operation* owner = nullptr;                    // null for a root, or while it is being built
  bool abandoned = false;                        // its builder threw; kept only for handles into it
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Tensor*> arguments;
  std::vector<Tensor*> results;

  bool encloses(const Block* other) const;       // other is this block or lies within it
};

class MPSGRAPH_API Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Checks arity, attributes, graph membership and scope, infers the result types, appends to the
  // current block. Throws a typed error and changes nothing when something is wrong. `name` may be
  // empty; a taken name gets a suffix.
  Operation* create(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes = {},
                    std::string_view name = {}, std::vector<std::unique_ptr<Block>> blocks = {});
  // The single result of create().
  Tensor* add(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes = {},
              std::string_view name = {});

  // Blocks under construction nest. finish_block checks that the results are visible in the block (and
  // reads variables among them) and hands it over for create(); abandon_block drops it after an error,
  // with the blocks begun in it. Abandoned operations lose their names and stay only for handles.
  Block* begin_block(const std::vector<TensorType>& argument_types = {});
  std::unique_ptr<Block> finish_block(Block* block, std::vector<Tensor*> results);
  void abandon_block(Block* block) noexcept;
  void abandon_block(std::unique_ptr<Block> finished) noexcept;

  // While a scope is open, each operation that is created in it runs after `operations`; placeholders,
  // variables and block arguments compute nothing and do not.
  void begin_control_dependencies(const std::vector<Operation*>& operations);
  void end_control_dependencies() noexcept;

  // Called for each new operation to fill Operation::location; may be empty.
  void set_location(Location location) { location_ = std::move(location); }
  const Location& location() const { return location_; }

  Block& root() { return *root_; }
  const Block& root() const { return *root_; }
  Block& current_block() { return *current_; }
  Operation* find(std::string_view name) const;  // null when there is none
  int64_t operation_count() const { return next_id_; }
  std::vector<Tensor*> placeholders() const;     // in creation order
  std::vector<Tensor*> variables() const;

  // Appends a result to an operation, e.g. the values that the backward pass of an `if` needs.
  Tensor* append_output(Operation* operation, TensorType type);
  // Appends to a given block with exactly this name and type, without inference: for the parser
  // and for passes. Checks nothing but names; verify() does the rest.
  Operation* create_unchecked(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                              Attributes attributes, std::string_view name, std::vector<TensorType> output_types,
                              std::vector<std::unique_ptr<Block>> blocks = {});
  std::unique_ptr<Block> detached_block(Block* parent, const std::vector<TensorType>& argument_types);
  // Destroys the operations of a block for which `dead` says true, and frees their names: for passes.
  void remove_operations(Block& block, const std::function<bool(const Operation&)>& dead);

  // Derivatives of a branch are built in another block, where the branch's own tensors do not exist:
  // until the matching end, an operand that lies in `hidden` is replaced by what `substitute` gives.
  using Substitute = std::function<Tensor*(Tensor*)>;
  void begin_substitution(const Block& hidden, Substitute substitute);
  void end_substitution() noexcept;
  Tensor* resolve(Tensor* tensor) const;         // itself, or what stands in for it here

 private:
  struct ControlScope {
    const Block* block;                          // it was opened in
    std::vector<Operation*> operations;          // with those of the scopes around it, each once
  };

  std::string unique_name(std::string_view wanted, std::string_view kind) const;
  void forget_names(const Block& block) noexcept;
  Operation* append(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                    Attributes attributes, std::string name, std::vector<TensorType> output_types,
                    std::vector<std::unique_ptr<Block>> blocks);
  Operation* append_here(const OperationDefinition& definition, std::vector<Tensor*> inputs, Attributes attributes,
                         std::string_view name, std::vector<TensorType> output_types,
                         std::vector<std::unique_ptr<Block>> blocks);
  void check_operand(const Tensor* tensor, std::string_view user) const;
  Tensor* value_of(Tensor* tensor);              // a read of it when it is a variable

  std::unique_ptr<Block> root_;
  Block* current_ = nullptr;
  int64_t next_id_ = 0;
  Location location_;
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  std::unordered_map<std::string, Operation*, NameHash, std::equal_to<>> by_name_;
  mutable std::unordered_map<std::string, int64_t> name_counters_;  // where the search for a free suffix goes on
  std::vector<std::unique_ptr<Block>> building_;   // begun, not finished
  std::vector<std::unique_ptr<Block>> abandoned_;
  std::vector<ControlScope> control_scopes_;
  std::vector<std::pair<const Block*, Substitute>> substitutions_;
};

}  // namespace mpsgraph
