// Checks that a graph is well formed, operation by operation in execution order.
//
// At each operation of this single walk, the set of visible operations contains exactly the ones that it may use: those
// before it in its block and in the enclosing blocks. This one check covers order, scopes, tensors of other graphs, and
// cycles.
#include <algorithm>
#include <unordered_set>

#include "core/definition.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() { block(graph_.root(), nullptr, nullptr); }

 private:
  template <class... Args>
  [[noreturn]] void fail(const Operation& operation, const Args&... message) const {
    throw GraphError(cat("'", operation.name, "' (", operation.definition ? operation.kind().name() : "no definition",
                         "): ", message..., operation.where()));
  }

  // `owner` is null for the root block.
  void block(const Block& block, const Operation* owner, const Block* parent) {
    const auto fail_block = [&](const auto&... message) {
      if (owner) fail(*owner, message...);
      throw GraphError(cat("the root block: ", message...));
    };
    if (block.graph != &graph_) fail_block("a block belongs to another graph");
    if (block.parent != parent || block.owner != owner) fail_block("a block is not linked to its parent and owner");
    if (!owner && !block.arguments.empty()) fail_block("has arguments");
    const std::unordered_set<const Tensor*> arguments(block.arguments.begin(), block.arguments.end());
    if (arguments.size() != block.arguments.size()) fail_block("a block has the same argument twice");
    for (const auto& held : block.operations) {
      if (held->parent != &block) fail(*held, "is not linked to its block");
      operation(*held);
      if (held->is("argument") && !arguments.contains(held->output())) fail(*held, "is not an argument of its block");
      visible_.insert(held.get());
    }
    for (const Tensor* argument : block.arguments)
      if (!argument || !visible_.contains(argument->operation) || argument->operation->parent != &block ||
          !argument->operation->is("argument"))
        fail_block("each argument of a block must be an argument operation in that block");
    for (const Tensor* result : block.results) {
      const std::string problem = problem_with(result);
      if (!problem.empty()) fail_block("a result of a block ", problem);
      if (result->operation->is("variable"))
        fail_block("a block returns the variable '", result->name(), "' itself instead of a read of it");
    }
    for (const auto& held : block.operations) visible_.erase(held.get());
  }

  // The reason why an operation cannot be used at this point of the graph, as text for an error message; empty if it
  // can be used.
  std::string problem_with(const Operation* used) const {
    if (!used) return "is missing";
    if (visible_.contains(used)) return {};
    if (!used->parent || used->parent->graph != &graph_) return cat("is '", used->name, "' of another graph");
    return cat("is '", used->name, "', which is not defined earlier in the same block or in an enclosing block");
  }

  std::string problem_with(const Tensor* used) const {
    if (!used || !used->operation) return "is missing";
    std::string problem = problem_with(used->operation);
    if (!problem.empty()) return problem;
    const auto& outputs = used->operation->outputs;
    const auto is_used = [&](const auto& output) { return output.get() == used; };
    return std::any_of(outputs.begin(), outputs.end(), is_used)
               ? ""
               : cat("is not a result of '", used->operation->name, "'");
  }

  void operation(const Operation& operation) {
    if (!operation.definition) fail(operation, "has no definition");
    const OperationDefinition& definition = *operation.definition;
    if (operation.name.empty() || graph_.find(operation.name) != &operation)
      fail(operation, "its name is empty or belongs to another operation");
    operands(operation, definition);
    dependencies(operation, definition);
    attributes(operation, definition);
    if (operation.blocks.size() != static_cast<size_t>(definition.block_count))
      fail(operation, "the number of blocks must be ", definition.block_count, ", got ", operation.blocks.size());
    for (const auto& inner : operation.blocks) block(*inner, &operation, operation.parent);
    results(operation, definition);
  }

  void operands(const Operation& operation, const OperationDefinition& definition) const {
    const size_t count = operation.inputs.size();
    if (count < static_cast<size_t>(definition.min_inputs) ||
        (definition.max_inputs >= 0 && count > static_cast<size_t>(definition.max_inputs)))
      fail(operation, "the number of operands must be ",
           definition.max_inputs < 0 ? cat("at least ", definition.min_inputs)
           : definition.max_inputs == definition.min_inputs
               ? cat(definition.min_inputs)
               : cat("from ", definition.min_inputs, " to ", definition.max_inputs),
           ", got ", count);
    for (size_t i = 0; i < count; ++i) {
      const std::string problem = problem_with(operation.inputs[i]);
      if (!problem.empty()) fail(operation, "operand ", i, " ", problem);
      const bool may_be_variable = definition.takes_variables && i == 0;
      if (operation.inputs[i]->operation->is("variable") && !may_be_variable)
        fail(operation, "operand ", i, " is the variable '", operation.inputs[i]->name(),
             "' itself instead of a read of it");
      if (operation.inputs[i]->type.history && definition.family != "control_flow")
        fail(operation, "operand ", i, " must be a tensor, got ", operation.inputs[i]->type);
    }
  }

  void dependencies(const Operation& operation, const OperationDefinition& definition) const {
    if (definition.root_only && (operation.parent != &graph_.root() || !operation.control_dependencies.empty()))
      fail(operation, "is only allowed in the root block and without control dependencies");
    for (const Operation* before : operation.control_dependencies) {
      const std::string problem = problem_with(before);
      if (!problem.empty()) fail(operation, "a control dependency ", problem);
    }
  }

  void attributes(const Operation& operation, const OperationDefinition& definition) const {
    try {
      if (complete_attributes(definition, operation.attributes, "") == operation.attributes) return;
    } catch (const Error& error) {
      fail(operation, error.what());
    }
    fail(operation, "some of its attributes are missing");
  }

  void results(const Operation& operation, const OperationDefinition& definition) const {
    std::vector<TensorType> inferred;
    try {
      inferred =
          definition.infer(InferContext(definition, operation.inputs, operation.attributes, operation.blocks, ""));
    } catch (const Error& error) {
      fail(operation, error.what());
    }
    if (inferred.size() != operation.outputs.size())
      fail(operation, "the number of results must be ", inferred.size(), ", got ", operation.outputs.size());
    const bool leaf = operation.inputs.empty() && operation.blocks.empty();
    for (size_t i = 0; i < inferred.size(); ++i) {
      const Tensor& output = *operation.outputs[i];
      if (output.operation != &operation || output.index != static_cast<int>(i))
        fail(operation, "result ", i, " is not linked to its operation");
      const bool agrees =
          leaf ? output.type == inferred[i]
               : output.type.dtype == inferred[i].dtype && compatible(output.type.shape, inferred[i].shape);
      if (!agrees) fail(operation, "result ", i, " must have type ", inferred[i], ", got ", output.type);
    }
  }

  const Graph& graph_;
  std::unordered_set<const Operation*> visible_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace mpsgraph
