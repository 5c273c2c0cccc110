// Compiler pass prune: removes operations that are needed for neither a result nor an effect, and results of control
// flow that are not needed.
//
//   %a = exponent(%x)            (removed: nothing uses it)
//   %b = negative(%x)      ->    %b = negative(%x)
// Differentiation adds the values that it needs to the results of branches and recurrent layers and to the carried
// values of loops. A program without the derivative does not need them: a carried value that is only used to compute
// itself is removed, along with its computation in the body. Before that, if the predicate of an `if` is known, the
// pass replaces the `if` with the operations of the branch taken, so that later passes see them together with the
// surrounding operations.
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/rule.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

// Determines which tensors are needed. Each result of an operation is considered separately, whereas live_operations()
// in rewrite.h considers whole operations. All tensors that represent one carried value of a loop are needed together:
// the initial operand, the arguments and results of blocks, and the loop's result.
class Needs {
 public:
  explicit Needs(const Program& program) {
    const std::vector<bool> live = live_operations(program);
    for (const Tensor* target : program.targets) need(target);
    for (const Operation* operation : program.target_operations) run(*operation);
    find_effects(program.graph->root(), live);
    while (!pending_.empty()) {
      const Tensor* tensor = pending_.back();
      pending_.pop_back();
      trace(*tensor);
    }
  }

  bool operator()(const Tensor* tensor) const { return needed_.contains(tensor); }

 private:
  void need(const Tensor* tensor) {
    if (needed_.insert(tensor).second) pending_.push_back(tensor);
  }

  // Marks an operation that runs because of its results, its effect, or an effect in its blocks.
  void run(const Operation& operation) {
    if (!running_.insert(&operation).second) return;
    const size_t count = operation.is("for") ? 3 : operation.is("while") ? 0 : operation.inputs.size();
    for (size_t i = 0; i < count; ++i) need(operation.inputs[i]);
    if (operation.is("while")) need(operation.blocks[0]->results[0]);
    if (operation.parent->owner) run(*operation.parent->owner);
  }

  void find_effects(const Block& block, const std::vector<bool>& live) {
    for (const auto& operation : block.operations) {
      if (!live[operation->id]) continue;
      if (is_effect(*operation)) run(*operation);
      for (const auto& inner : operation->blocks) find_effects(*inner, live);
    }
  }

  void trace(const Tensor& tensor) {
    const Operation& operation = *tensor.operation;
    run(operation);
    const auto index = static_cast<size_t>(tensor.index);
    if (operation.is("argument")) {
      argument(tensor);
    } else if (operation.is("if")) {
      for (const auto& block : operation.blocks) need(block->results[index]);
    } else if (operation.is("for")) {
      carried(operation, index, 3, operation.blocks[0]->arguments[index + 1], operation.blocks[0]->results[index]);
    } else if (operation.is("while")) {
      need(operation.blocks[0]->results[index + 1]);
      need(operation.blocks[1]->arguments[index]);
    }
  }

  void argument(const Tensor& tensor) {
    const Block& block = *tensor.operation->parent;
    const Operation& owner = *block.owner;
    size_t index = 0;
    while (block.arguments[index] != &tensor) ++index;
    if (owner.is("for")) {
      if (index > 0) need(owner.output(index - 1));
    } else if (owner.is("while")) {
      if (&block == owner.blocks[0].get())
        carried(owner, index, 0, &tensor, owner.blocks[1]->results[index]);
      else
        need(owner.output(index));
    }
  }

  void carried(const Operation& loop, size_t index, size_t first, const Tensor* argument, const Tensor* next) {
    need(argument);
    need(next);
    if (first + index < loop.inputs.size()) need(loop.inputs[first + index]);
  }

  std::unordered_set<const Tensor*> needed_;
  std::unordered_set<const Operation*> running_;
  std::vector<const Tensor*> pending_;
};

template <class Items>
void erase_at(Items& items, size_t index) {
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(index));
}

void erase_output(Operation& operation, size_t index) {
  erase_at(operation.outputs, index);
  for (size_t i = index; i < operation.outputs.size(); ++i) operation.outputs[i]->index = static_cast<int>(i);
}

void erase_initial(Operation& loop, size_t operand) {
  if (operand < loop.inputs.size())
    erase_at(loop.inputs, operand);
  else
    loop.attributes.set("from_zero", loop.attributes.integer("from_zero") - 1);
}

void drop_results(Operation& operation, const Needs& needed) {
  for (size_t i = operation.outputs.size(); i-- > 0;) {
    if (needed(operation.output(i))) continue;
    if (operation.is("if")) {
      for (auto& block : operation.blocks) erase_at(block->results, i);
    } else if (operation.is("for")) {
      erase_initial(operation, 3 + i);
      erase_at(operation.blocks[0]->arguments, i + 1);
      erase_at(operation.blocks[0]->results, i);
    } else {
      erase_at(operation.blocks[0]->results, i + 1);
      erase_at(operation.blocks[1]->arguments, i);
    }
    erase_output(operation, i);
  }
  if (!operation.is("while")) return;
  Block &before = *operation.blocks[0], &after = *operation.blocks[1];
  for (size_t i = before.arguments.size(); i-- > 0;) {
    if (needed(before.arguments[i])) continue;
    erase_initial(operation, i);
    erase_at(before.arguments, i);
    erase_at(after.results, i);
  }
}

bool trains(const Operation& operation) {
  return operation.attributes.has("training") && operation.attributes.boolean("training");
}

// Removes the training state, the last result of a recurrent layer, if it is not needed. The second result of an lstm,
// the cell states, is then removed as well unless it is needed.
void drop_training_state(Operation& layer, const Needs& needed) {
  const size_t last = layer.outputs.size() - 1;
  if (needed(layer.output(last))) return;
  layer.attributes.set("training", false);
  erase_output(layer, last);
  if (!layer.is("lstm")) return;
  const bool cell = needed(layer.output(1));
  layer.attributes.set("produce_cell", cell);
  if (!cell) erase_output(layer, 1);
}

void drop_results(Block& block, const Needs& needed) {
  for (auto& operation : block.operations) {
    if (operation->is({"if", "for", "while"})) drop_results(*operation, needed);
    if (trains(*operation)) drop_training_state(*operation, needed);
    for (auto& inner : operation->blocks) drop_results(*inner, needed);
  }
}

// Replaces an `if` whose predicate is known with the branch taken, and folds the computations of predicates.
Rewriter::Replacement decided(Rewriter& r, const Operation& source) {
  const bool makes_flag =
      source.blocks.empty() && source.outputs.size() == 1 && source.output()->dtype() == DType::boolean;
  return makes_flag ? folded(r, source) : taken_branch(r, source);
}

}  // namespace

void prune(Program& program) {
  sweep(program);
  if (any_operation(program, [](const Operation& op) { return op.is("if"); })) rewrite(program, decided);
  const auto gives_results = [](const Operation& op) {
    return (!op.blocks.empty() && !op.outputs.empty()) || trains(op);
  };
  if (!any_operation(program, gives_results)) return;
  drop_results(program.graph->root(), Needs(program));
  sweep(program);
}

}  // namespace mpsgraph::compiler
