// Copies graphs with replacements, and computes which operations of a program are needed.
//
// Each operation takes time proportional to its own size, so rewriting is linear in the size of the graph.
#include "compiler/rewrite.h"

#include <algorithm>

#include "core/definition.h"

namespace mpsgraph::compiler {

Rewriter::Rewriter(const Graph& source, std::vector<bool> live, Visit visit)
    : graph_(std::make_unique<Graph>()),
      live_(std::move(live)),
      visit_(std::move(visit)),
      tensors_(source),
      operations_(static_cast<size_t>(source.operation_count())),
      is_made_(operations_.size()) {}

Graph& Rewriter::catch_up() {
  if (!untouched_) return *graph_;
  untouched_ = false;
  for (const Operation* operation : left_) clone(*operation);
  left_.clear();
  if (visited_) graph_->set_location(visited_->location);
  return *graph_;
}

const Tensor* Rewriter::seen(const Tensor* source) const { return untouched_ ? source : substitute(source); }

Tensor* Rewriter::now(const Tensor* source) {
  catch_up();
  return substitute(source);
}

Tensor* Rewriter::substitute(const Tensor* source) const {
  if (Tensor* tensor = tensors_[source]) return tensor;
  throw GraphError(cat("[", source->operation->kind(), "] '", source->name(), "' is used before it is defined"));
}

std::vector<Tensor*> Rewriter::now(const std::vector<Tensor*>& sources) {
  std::vector<Tensor*> result;
  result.reserve(sources.size());
  for (const Tensor* source : sources) result.push_back(now(source));
  return result;
}

Operation* Rewriter::now(const Operation* source) {
  catch_up();
  if (Operation* operation = operations_[source->id]) return operation;
  return now(source->output())->operation;
}

void Rewriter::stand_for(const Operation& source, Operation* operation) {
  catch_up();
  is_made_[source.id] = true;
  operations_[source.id] = operation;
  const size_t count = std::min(source.outputs.size(), operation->outputs.size());
  for (size_t i = 0; i < count; ++i) tensors_[source.output(i)] = operation->output(i);
}

void Rewriter::stand_for(const Tensor& source, Tensor* tensor) {
  catch_up();
  is_made_[source.operation->id] = true;
  tensors_[&source] = tensor;
}

std::string_view Rewriter::free_name(const std::string& wanted) const {
  return graph_->find(wanted) ? std::string_view() : wanted;
}

Operation* Rewriter::append(const Operation& source, std::vector<Tensor*> inputs, std::vector<TensorType> types,
                            std::vector<std::unique_ptr<Block>> blocks) {
  catch_up();
  Operation* copy =
      graph_->create_unchecked(graph_->current_block(), *source.definition, std::move(inputs), source.attributes,
                               free_name(source.name), std::move(types), std::move(blocks));
  copy->location = source.location;
  for (const Operation* before : source.control_dependencies) {
    // A control dependency on an operation that was replaced with an existing tensor is dropped. This is safe because
    // operations with effects keep their order in any case.
    if (operations_[before->id]) copy->control_dependencies.push_back(operations_[before->id]);
  }
  stand_for(source, copy);
  return copy;
}

Operation* Rewriter::clone(const Operation& source) {
  catch_up();
  std::vector<TensorType> types;
  types.reserve(source.outputs.size());
  for (const auto& output : source.outputs) types.push_back(output->type);
  std::vector<std::unique_ptr<Block>> blocks;
  for (const auto& block : source.blocks) {
    std::vector<TensorType> arguments;
    for (const Tensor* argument : block->arguments) arguments.push_back(argument->type);
    blocks.push_back(copy_block(*block, arguments));
  }
  return append(source, now(source.inputs), std::move(types), std::move(blocks));
}

Operation* Rewriter::create(const Operation& source, Kind kind, std::vector<Tensor*> inputs, Attributes attributes) {
  catch_up();
  return graph_->create(kind, std::move(inputs), std::move(attributes), free_name(source.name));
}

Tensor* Rewriter::constant(const Operation& source, ConstantPtr value) {
  return create(source, "constant", {}, {{"value", std::move(value)}})->output();
}

void Rewriter::copy_operations(const Block& source) {
  for (const auto& operation : source.operations) {
    copy_operation(*operation);
    if (stopped_) return;
  }
}

void Rewriter::copy_operation(const Operation& operation) {
  if (!live_[operation.id] || is_made_[operation.id]) return;
  visited_ = &operation;
  if (!untouched_) graph_->set_location(operation.location);
  Replacement replacement = visit_(*this, operation);
  if (stopped_) return;
  if (!replacement && untouched_ && operation.blocks.empty()) {  // blocks may contain something to replace
    left_.push_back(&operation);
    return;
  }
  catch_up();
  if (!replacement) {
    clone(operation);
    return;
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    const Tensor* before = operation.output(i);
    const bool fixed = before->type.shape.known() && !changes_types_;
    if (i >= replacement->size() || (fixed && (*replacement)[i]->type != before->type)) {
      throw GraphError(cat("[", operation.kind(), "] '", before->name(), "' must be rewritten to type ", before->type,
                           ", got ", i < replacement->size() ? cat((*replacement)[i]->type) : std::string("nothing")));
    }
  }
  if (operation.outputs.empty() && !operations_[operation.id]) {
    throw GraphError(cat("[", operation.kind(), "] '", operation.name,
                         "' has no results and was rewritten without a replacement operation"));
  }
  is_made_[operation.id] = true;
  for (size_t i = 0; i < operation.outputs.size(); ++i) tensors_[operation.output(i)] = (*replacement)[i];
}

std::unique_ptr<Block> Rewriter::copy_block(const Block& source, const std::vector<TensorType>& argument_types) {
  Block* block = catch_up().begin_block(argument_types);
  for (size_t i = 0; i < source.arguments.size(); ++i) {
    stand_for(*source.arguments[i]->operation, block->arguments[i]->operation);
  }
  try {
    copy_operations(source);
  } catch (...) {
    graph_->abandon_block(block);
    throw;
  }
  if (stopped_) return graph_->abandon_block(block), nullptr;
  return graph_->finish_block(block, now(source.results));
}

namespace {

bool any_within(const Block& block, const std::function<bool(const Operation&)>& wanted) {
  for (const auto& operation : block.operations) {
    if (wanted(*operation)) return true;
    for (const auto& inner : operation->blocks) {
      if (any_within(*inner, wanted)) return true;
    }
  }
  return false;
}

// Finds the operations of a block for which `wanted` returns true, or whose blocks contain such an operation. The
// result is indexed by operation id. Returns whether any operation was found.
bool find_wanted(const Block& block, bool (*wanted)(const Operation&), std::vector<bool>& found) {
  bool any = false;
  for (const auto& operation : block.operations) {
    bool is_found = wanted(*operation);
    for (const auto& inner : operation->blocks) is_found |= find_wanted(*inner, wanted, found);
    found[operation->id] = is_found;
    any |= is_found;
  }
  return any;
}

bool has_effect(const Operation& operation) { return is_effect(operation); }
// Whether the operation runs whenever its block runs, although no result needs it.
bool speaks(const Operation& operation) {
  return operation.is({"print", "check"}) || (operation.is("custom") && is_effect(operation));
}

// Marks the operations in `stack`, and all operations on which these depend, in `reached`. If a marked operation has
// blocks, the operations inside them that are marked in `within` are also marked in `reached`. If `effects` is given,
// control dependencies are followed only to operations with effects.
void reach(std::vector<const Operation*> stack, std::vector<bool>& reached, const std::vector<bool>& within,
           const std::vector<bool>* effects) {
  auto push = [&](const Operation* operation) {
    if (reached[operation->id]) return;
    reached[operation->id] = true;
    stack.push_back(operation);
  };
  for (const Operation* root : stack) reached[root->id] = true;
  while (!stack.empty()) {
    const Operation& operation = *stack.back();
    stack.pop_back();
    for (const Tensor* input : operation.inputs) push(input->operation);
    for (const Operation* before : operation.control_dependencies) {
      if (!effects || (*effects)[before->id]) push(before);
    }
    for (const auto& block : operation.blocks) {
      for (const Tensor* argument : block->arguments) push(argument->operation);
      for (const Tensor* result : block->results) push(result->operation);
      for (const auto& inner : block->operations) {
        if (within[inner->id]) push(inner.get());
      }
    }
  }
}

void sweep(Graph& graph, Block& block, const std::vector<bool>& live) {
  for (const auto& operation : block.operations) {
    if (!live[operation->id]) continue;
    std::erase_if(operation->control_dependencies, [&](const Operation* before) { return !live[before->id]; });
    for (const auto& inner : operation->blocks) sweep(graph, *inner, live);
  }
  graph.remove_operations(block, [&](const Operation& operation) { return !live[operation.id]; });
}

}  // namespace

std::vector<bool> needed_by(const Graph& graph, const std::vector<const Operation*>& roots) {
  std::vector<bool> needed(static_cast<size_t>(graph.operation_count()), false), within(needed);
  find_wanted(graph.root(), speaks, within);
  reach(roots, needed, within, nullptr);
  return needed;
}

std::vector<bool> live_operations(const Program& program) {
  std::vector<const Operation*> roots(program.target_operations.begin(), program.target_operations.end());
  for (const auto* tensors : {&program.feeds, &program.targets, &program.variables}) {
    for (const Tensor* tensor : *tensors) roots.push_back(tensor->operation);
  }
  std::vector<bool> live(static_cast<size_t>(program.graph->operation_count()), false), effects(live);
  find_wanted(program.graph->root(), has_effect, effects);
  for (const auto& operation : program.graph->root().operations) {
    if (effects[operation->id]) roots.push_back(operation.get());
  }
  reach(roots, live, effects, &effects);
  return live;
}

std::vector<Tensor*> results_of(const Operation& operation) {
  std::vector<Tensor*> results;
  for (const auto& output : operation.outputs) results.push_back(output.get());
  return results;
}

bool any_operation(const Program& program, const std::function<bool(const Operation&)>& wanted) {
  return any_within(program.graph->root(), wanted);
}

void sweep(Graph& graph, const std::vector<bool>& live) {
  if (std::ranges::find(live, false) != live.end()) sweep(graph, graph.root(), live);
}

void sweep(Program& program) { sweep(*program.graph, live_operations(program)); }

void rewrite(Program& program, const Rewriter::Visit& visit) {
  Rewriter rewriter(*program.graph, std::vector<bool>(static_cast<size_t>(program.graph->operation_count()), true),
                    visit);
  rewriter.copy_operations(program.graph->root());
  if (rewriter.is_untouched()) return sweep(program);
  program.feeds = rewriter.now(program.feeds);
  program.targets = rewriter.now(program.targets);
  program.variables = rewriter.now(program.variables);
  for (Operation*& operation : program.target_operations) operation = rewriter.now(operation);
  program.graph = rewriter.take_graph();
  sweep(program);
}

}  // namespace mpsgraph::compiler
