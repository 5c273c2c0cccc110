// Graph, Block, Operation, and Tensor: the single representation that users build, differentiation extends, compiler
// passes rewrite, and backends lower.
//
// Operations are appended in creation order, which is a valid execution order. This also applies to reads and
// assignments of variables: a read sees the assignments that were created before it and belong to the same run, but no
// assignments created after it. Operations own blocks for control flow (if, while, for) and for fused element-wise
// kernels. Operations in a block may use any tensor of an enclosing block.
//
// Two threads must not add to the same graph at the same time. Several threads may read a graph that is no longer
// modified, and may build different graphs.
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
#include "mpsgraph/core/kind.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

class Graph;
class Block;
class Operation;
struct OperationDefinition;

// One result of an operation. Tensors are identified by their address, which is valid as long as the graph exists.
struct MPSGRAPH_API Tensor {
  Operation* operation = nullptr;
  int index = 0;  // index among the operation's results
  TensorType type;

  Graph& graph() const;
  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  std::string name() const;  // the operation's name, with ":i" appended if it has several results
};

// The place where an operation was built, such as "model.py:41", or empty. Copies of a Location share the text.
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

// One operation of a graph: its kind, operands, attributes and results.
class MPSGRAPH_API Operation {
 public:
  const OperationDefinition* definition = nullptr;
  std::string name;  // unique within the graph
  int64_t id = 0;  // creation number, unique within the graph
  std::vector<Tensor*> inputs;
  std::vector<std::unique_ptr<Tensor>> outputs;
  Attributes attributes;
  std::vector<Operation*> control_dependencies;  // operations that run before this one
  std::vector<std::unique_ptr<Block>> blocks;
  Block* parent = nullptr;
  Location location;

  Kind kind() const;
  bool is(Kind other) const { return kind() == other; }
  bool is(Kinds others) const { return std::ranges::find(others, kind()) != others.end(); }
  Tensor* input(size_t i) const { return inputs[i]; }
  Tensor* output(size_t i = 0) const { return outputs[i].get(); }
  Graph& graph() const;
  std::string where() const;  // "; built at model.py:41", or "" if the location is unknown
  std::vector<Tensor*> captures() const;  // outside tensors that its blocks use, in order of first use
};

// A list of operations with results. The arguments of a block are operations of kind "argument".
class MPSGRAPH_API Block {
 public:
  Graph* graph = nullptr;
  Block* parent = nullptr;  // the enclosing block; null for the root of a graph
  Operation* owner = nullptr;  // null for the root, and while the block is being built
  bool abandoned = false;  // building the block failed; it is kept only because handles may refer to it
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Tensor*> arguments;
  std::vector<Tensor*> results;

  bool encloses(const Block* other) const;  // whether `other` is this block or is nested inside it
};

// A graph, which owns its operations and tensors.
class MPSGRAPH_API Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Creates an operation and appends it to the current block. Checks the number of operands, the attributes, and that
  // the operands belong to this graph and are in scope, and infers the result types. If anything is wrong, throws a
  // typed error and leaves the graph unchanged. `name` may be empty; a name that is taken gets a suffix.
  Operation* create(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}, std::string_view name = {},
                    std::vector<std::unique_ptr<Block>> blocks = {});
  // Creates an operation and returns its single result.
  Tensor* add(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}, std::string_view name = {});

  // Blocks can be built inside one another. begin_block() opens a block. finish_block() checks that the results are
  // visible in the block, inserts reads for results that are variables, and returns the block, which the caller passes
  // to create(). abandon_block() discards a block after an error, together with blocks begun inside it. The operations
  // of an abandoned block lose their names and are kept only because handles may refer to them.
  Block* begin_block(const std::vector<TensorType>& argument_types = {});
  std::unique_ptr<Block> finish_block(Block* block, std::vector<Tensor*> results);
  void abandon_block(Block* block) noexcept;
  void abandon_block(std::unique_ptr<Block> finished) noexcept;

  // Until the matching end_control_dependencies(), every new operation runs after `operations`. This does not apply to
  // placeholders, variables and block arguments, which compute nothing.
  void begin_control_dependencies(const std::vector<Operation*>& operations);
  void end_control_dependencies() noexcept;

  // The location given to each new operation; may be empty.
  void set_location(Location location) { location_ = std::move(location); }
  const Location& location() const { return location_; }

  Block& root() { return *root_; }
  const Block& root() const { return *root_; }
  Block& current_block() { return *current_; }
  Operation* find(std::string_view name) const;  // null if no operation has this name
  int64_t operation_count() const { return next_id_; }
  std::vector<Tensor*> placeholders() const;  // in creation order
  std::vector<Tensor*> variables() const;

  // Appends a result to an existing operation, such as a value that the gradient of an `if` needs.
  Tensor* append_output(Operation* operation, TensorType type);
  // Appends an operation with exactly this name and these types to a given block, without inference. The parser and
  // compiler passes use this function. create_unchecked() checks only that the name is free; verify() checks the rest.
  Operation* create_unchecked(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                              Attributes attributes, std::string_view name, std::vector<TensorType> output_types,
                              std::vector<std::unique_ptr<Block>> blocks = {});
  // Creates a block that no operation owns yet. The parser and compiler passes use this function.
  std::unique_ptr<Block> detached_block(Block* parent, const std::vector<TensorType>& argument_types);
  // Destroys the operations of a block for which `dead` returns true, and frees their names. Compiler passes use this
  // function.
  void remove_operations(Block& block, const std::function<bool(const Operation&)>& dead);

  // The gradient of a branch is built in a different block, where tensors of the branch do not exist. Until the
  // matching end_substitution(), every operand that lies in the block `hidden` is replaced with the result of
  // `substitute`.
  using Substitute = std::function<Tensor*(Tensor*)>;
  void begin_substitution(const Block& hidden, Substitute substitute);
  void end_substitution() noexcept;
  Tensor* resolve(Tensor* tensor) const;  // returns the tensor itself or its substitute

 private:
  struct ControlScope {
    const Block* block;  // the block in which the scope was opened
    // operations that new operations depend on, including those of enclosing scopes, without duplicates
    std::vector<Operation*> operations;
  };

  std::string unique_name(std::string_view wanted, Kind kind) const;
  void forget_names(const Block& block) noexcept;
  Operation* append(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                    Attributes attributes, std::string name, std::vector<TensorType> output_types,
                    std::vector<std::unique_ptr<Block>> blocks);
  Operation* append_here(const OperationDefinition& definition, std::vector<Tensor*> inputs, Attributes attributes,
                         std::string_view name, std::vector<TensorType> output_types,
                         std::vector<std::unique_ptr<Block>> blocks);
  void check_operand(const Tensor* tensor, std::string_view user) const;
  Tensor* value_of(Tensor* tensor);  // returns the tensor itself, or a read of the tensor if it is a variable

  std::unique_ptr<Block> root_;
  Block* current_ = nullptr;
  int64_t next_id_ = 0;
  Location location_;
  class NameTable;
  std::unique_ptr<NameTable> names_;
  mutable std::unordered_map<std::string, int64_t> name_counters_;  // the next suffix to try for each name
  std::vector<std::unique_ptr<Block>> building_;  // blocks that have been begun, but not finished
  std::vector<std::unique_ptr<Block>> abandoned_;
  std::vector<ControlScope> control_scopes_;
  std::vector<std::pair<const Block*, Substitute>> substitutions_;
};

}  // namespace mpsgraph
