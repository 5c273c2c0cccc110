// Specialisation: the part of a user's graph that one executable needs, with the fed types.
//
// One walk in creation order: each needed operation is copied and its types inferred again from what
// is known now. Shape arithmetic is folded on the way, so that everything that a shape depends on is a
// constant in the result. Errors name the placeholder or the operation, and where it was built.
#include <algorithm>
#include <unordered_map>

#include "compiler/passes.h"
#include "core/builder.h"
#include "core/definition.h"
#include "core/known_values.h"

namespace mpsgraph::compiler {
namespace {

constexpr int64_t max_folded_elements = 64;  // shapes and indices into them

class Specializer {
 public:
  Specializer(const Graph& source, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
              const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations)
      : source_(source),
        targets_(targets),
        target_operations_(target_operations),
        rewriter_(source, needed_by(source, roots()), [this](Rewriter&, const Operation& op) { return visit(op); }) {
    for (const auto& [placeholder, type] : feeds) feed(placeholder, type);
  }

  Program run() {
    rewriter_.copy_operations(source_.root());
    for (const Tensor* target : targets_) {
      Tensor* value = rewriter_.now(target);
      if (value->operation->is("variable")) value = rewriter_.graph().add("read", {value});
      program_.targets.push_back(value);
    }
    for (const Operation* operation : target_operations_)
      program_.target_operations.push_back(rewriter_.now(operation));
    program_.graph = rewriter_.take_graph();
    sweep(program_);
    require_known(program_.graph->root());
    return std::move(program_);
  }

 private:
  std::vector<const Operation*> roots() const {
    std::vector<const Operation*> result;
    auto add = [&](const Operation* operation, std::string_view role) {
      if (&operation->graph() != &source_)
        throw GraphError(cat(role, " '", operation->name, "' belongs to another graph"));
      if (operation->parent != &source_.root()) {
        throw GraphError(cat(role, " '", operation->name, "' lies within a block", operation->where(),
                             ": return its value from the block and use the control-flow operation's result"));
      }
      result.push_back(operation);
    };
    for (const Tensor* target : targets_) add(target->operation, "target");
    for (const Operation* operation : target_operations_) add(operation, "target operation");
    return result;
  }

  void feed(Tensor* placeholder, const TensorType& type) {
    const Operation& operation = *placeholder->operation;
    if (&placeholder->graph() != &source_)
      throw GraphError(cat("feed '", placeholder->name(), "' belongs to another graph"));
    if (!operation.is("placeholder")) {
      throw GraphError(cat("feed '", placeholder->name(), "' is the result of ", operation.kind(),
                           ": only placeholders can be fed"));
    }
    if (rewriter_.has(operation)) throw GraphError(cat("placeholder '", operation.name, "' is fed twice"));
    const TensorType& declared = placeholder->type;
    if (type.dtype != declared.dtype) {
      throw DTypeError(cat("[placeholder] '", operation.name, "' is declared ", declared, " and fed ", type,
                           ": convert the array to ", declared.dtype, " first", operation.where()));
    }
    if (!type.shape.known() || !compatible(type.shape, declared.shape)) {
      throw ShapeError(
          cat("[placeholder] '", operation.name, "' is declared ", declared, " and fed ", type, operation.where()));
    }
    Graph& graph = rewriter_.graph();
    Operation* copy =
        graph.create_unchecked(graph.root(), *operation.definition, {}, {{"type", type}}, operation.name, {type});
    copy->location = operation.location;
    rewriter_.stand_for(operation, copy);
    program_.feeds.push_back(copy->output());
  }

  // Copies with types inferred anew, and gives the results; control flow and shape arithmetic apart.
  Rewriter::Replacement visit(const Operation& op) {
    if (op.is("placeholder")) {
      throw GraphError(cat("placeholder '", op.name, "' ", op.output()->type, " is needed and not fed", op.where(),
                           ": add it to the feeds"));
    }
    std::vector<Tensor*> inputs = rewriter_.now(op.inputs);
    std::vector<std::unique_ptr<Block>> blocks;
    for (size_t i = 0; i < op.blocks.size(); ++i) {
      blocks.push_back(rewriter_.copy_block(*op.blocks[i], argument_types(op, i, inputs, blocks)));
    }
    if (op.is("if")) settle_undefined(*blocks[0], *blocks[1]);
    if (op.is("while") || op.is("for")) require_steady(op, inputs, blocks);
    std::vector<TensorType> types =
        op.definition->infer(InferContext(*op.definition, inputs, op.attributes, blocks, op.where()));
    Operation* copy = rewriter_.append(op, std::move(inputs), std::move(types), std::move(blocks));
    if (op.is("variable")) {
      program_.variables.push_back(copy->output());
      program_.source_variables.push_back(op.output());
    }
    if (Tensor* constant = known(op, *copy)) return std::vector<Tensor*>{constant};
    std::vector<Tensor*> results;
    for (const auto& output : copy->outputs) results.push_back(output.get());
    return results;
  }

  // The constant that stands for shape arithmetic whose operands are known.
  Tensor* known(const Operation& op, const Operation& copy) {
    if (copy.outputs.size() != 1 || !is_shape_arithmetic(op.kind()) || op.is("constant")) return nullptr;
    const TensorType& type = copy.output()->type;
    if (is_float(type.dtype) || !type.shape.known() || type.shape.elements() > max_folded_elements) return nullptr;
    auto constant = [](const Tensor* input) { return input->operation->is("constant"); };
    if (!op.is("shape_of") && !std::all_of(copy.inputs.begin(), copy.inputs.end(), constant)) return nullptr;
    auto values = constant_value(copy.output());
    return values ? rewriter_.constant(op, integer_constant(type, *values)) : nullptr;
  }

  // The types that a block's arguments start with.
  static std::vector<TensorType> argument_types(const Operation& op, size_t block, const std::vector<Tensor*>& inputs,
                                                const std::vector<std::unique_ptr<Block>>& done) {
    std::vector<TensorType> types;
    if (op.is("while")) {
      const std::vector<Tensor*>& from = block == 0 ? inputs : done[0]->results;
      for (size_t i = block; i < from.size(); ++i) types.push_back(from[i]->type);  // results follow the condition
    } else if (op.is("for")) {
      types.push_back(op.blocks[0]->arguments[0]->type);
      for (size_t i = 3; i < inputs.size(); ++i) types.push_back(inputs[i]->type);
    } else {
      for (const Tensor* argument : op.blocks[block]->arguments) types.push_back(argument->type);
    }
    return types;
  }

  // What a branch that is not taken gives has the type of what the other one gives.
  static void settle_undefined(Block& then, Block& otherwise) {
    auto settle = [](Tensor* nothing, const Tensor* other) {
      if (!nothing->operation->is("undefined")) return;
      nothing->type = other->type;
      nothing->operation->attributes.set("type", other->type);
    };
    for (size_t i = 0; i < then.results.size() && i < otherwise.results.size(); ++i) {
      settle(then.results[i], otherwise.results[i]);
      settle(otherwise.results[i], then.results[i]);
    }
  }

  static void require_steady(const Operation& op, const std::vector<Tensor*>& inputs,
                             const std::vector<std::unique_ptr<Block>>& blocks) {
    size_t skip = op.is("for") ? 3 : 0;
    const std::vector<Tensor*>& next = blocks.back()->results;
    for (size_t i = 0; i < next.size() && i + skip < inputs.size(); ++i) {
      if (next[i]->type == inputs[i + skip]->type) continue;
      throw UnsupportedError(cat("[", op.kind(), "] value ", i, " of '", op.name, "' is ", inputs[i + skip]->type,
                                 " at first and ", next[i]->type,
                                 " after an iteration: shapes must not change in a loop", op.where()));
    }
  }

  static void require_known(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) require_known(*inner);
      for (const auto& output : operation->outputs) {
        if (output->type.shape.known()) continue;
        throw UnsupportedError(
            cat("[", operation->kind(), "] the shape of '", output->name(), "', ", output->type,
                ", depends on values that are known only when it runs; make its shape operand a constant or "
                "compute it from shapes",
                operation->where()));
      }
    }
  }

  const Graph& source_;
  const std::vector<Tensor*>& targets_;
  const std::vector<Operation*>& target_operations_;
  Program program_;
  Rewriter rewriter_;
};

}  // namespace

Program specialize(const Graph& graph, const std::vector<std::pair<Tensor*, TensorType>>& feeds,
                   const std::vector<Tensor*>& targets, const std::vector<Operation*>& target_operations) {
  return Specializer(graph, feeds, targets, target_operations).run();
}

}  // namespace mpsgraph::compiler
