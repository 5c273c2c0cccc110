// Graph construction: the checks of create(), implicit reads, blocks, control scopes, and names.
//
// Each step of create() takes time proportional to the operation's own size and the depth of blocks, never to the size
// of the graph.
#include "mpsgraph/core/graph.h"

#include <algorithm>

#include "core/definition.h"
#include "core/name_table.h"
#include "core/utf8.h"

namespace mpsgraph {
namespace {

std::string built_at(const Location& location) {
  return location.empty() ? std::string() : "; built at " + location.text();
}

bool is_variable(const Tensor* tensor) { return tensor->operation->is("variable"); }

void check_type(const TensorType& type, Kind kind, const std::string& where) {
  if (!type.shape.ranked()) return;
  const Dims& dims = type.shape.dims();
  if (dims.size() > static_cast<size_t>(max_rank)) {
    throw ShapeError(
        cat("[", kind, "] a tensor must have at most ", max_rank, " dimensions, got ", dims.size(), ": ", type, where));
  }
  for (int64_t d : dims) {
    if (d < -1)
      throw ShapeError(
          cat("[", kind, "] dimensions must be at least 0, or -1 if unknown, got ", d, " in ", type, where));
  }
  // Counts dimensions of size 0 or -1 as 1, so that the product of any subset of the dimensions cannot overflow either.
  int64_t bytes = static_cast<int64_t>(size_of(type.dtype));
  for (int64_t d : dims) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(d, 1), &bytes) || bytes > int64_t{1} << 62) {
      throw ShapeError(cat("[", kind, "] tensors must not be larger than 2^62 bytes, got ", type, where));
    }
  }
}

void check_arity(const OperationDefinition& definition, size_t inputs, size_t blocks, const std::string& where) {
  const auto [low, high] =
      std::pair(static_cast<size_t>(definition.min_inputs), static_cast<size_t>(definition.max_inputs));
  const bool unlimited = definition.max_inputs < 0;
  if (inputs < low || (!unlimited && inputs > high)) {
    const std::string expected = unlimited     ? cat("at least ", low)
                                 : low == high ? cat(low)
                                               : cat("from ", low, " to ", high);
    throw GraphError(cat("[", definition.name, "] the number of operands must be ", expected, ", got ", inputs, where));
  }
  if (blocks != static_cast<size_t>(definition.block_count)) {
    throw GraphError(
        cat("[", definition.name, "] the number of blocks must be ", definition.block_count, ", got ", blocks, where));
  }
}

// Stores the blocks passed to create() as abandoned blocks of the graph if create() fails, because callers hold
// pointers into them.
class BlockGuard {
 public:
  BlockGuard(Graph& graph, std::vector<std::unique_ptr<Block>>& blocks) : graph_(graph), blocks_(blocks) {}
  ~BlockGuard() {
    for (auto& block : blocks_) {
      if (block) graph_.abandon_block(std::move(block));
    }
  }

 private:
  Graph& graph_;
  std::vector<std::unique_ptr<Block>>& blocks_;
};

}  // namespace

Graph& Tensor::graph() const { return operation->graph(); }

std::string Tensor::name() const {
  return operation->outputs.size() > 1 ? cat(operation->name, ":", index) : operation->name;
}

Kind Operation::kind() const { return definition->name; }

Graph& Operation::graph() const { return *parent->graph; }

std::string Operation::where() const { return built_at(location); }

std::vector<Tensor*> Operation::captures() const {
  std::vector<Tensor*> found;
  std::unordered_set<const Tensor*> seen;
  const auto inside = [this](const Tensor* tensor) {
    for (const Block* b = tensor->operation->parent; b; b = b->parent) {
      if (b->owner == this) return true;
    }
    return false;
  };
  const auto use = [&](Tensor* tensor) {
    if (!inside(tensor) && seen.insert(tensor).second) found.push_back(tensor);
  };
  std::vector<const Block*> pending;
  for (const auto& block : blocks) pending.push_back(block.get());
  while (!pending.empty()) {
    const Block* block = pending.back();
    pending.pop_back();
    for (const auto& operation : block->operations) {
      for (Tensor* input : operation->inputs) use(input);
      for (const auto& inner : operation->blocks) pending.push_back(inner.get());
    }
    for (Tensor* result : block->results) use(result);
  }
  return found;
}

bool Block::encloses(const Block* other) const {
  for (; other; other = other->parent) {
    if (other == this) return true;
  }
  return false;
}

Graph::Graph() : root_(std::make_unique<Block>()), current_(root_.get()), names_(std::make_unique<NameTable>()) {
  root_->graph = this;
}

Graph::~Graph() = default;

Operation* Graph::create(Kind kind, std::vector<Tensor*> inputs, Attributes attributes, std::string_view name,
                         std::vector<std::unique_ptr<Block>> blocks) {
  const BlockGuard guard(*this, blocks);
  const OperationDefinition& definition = definition_of(kind);
  const std::string where = built_at(location_);
  check_arity(definition, inputs.size(), blocks.size(), where);
  for (const auto& block : blocks) {
    if (!block || block->graph != this || block->parent != current_) {
      throw GraphError(cat("[", kind, "] blocks must be built in the block that will hold the operation, ",
                           "with begin_block and finish_block", where));
    }
  }
  for (Tensor*& input : inputs) {
    if (input) input = resolve(input);
    check_operand(input, kind);
    if (input->type.history && definition.family != "control_flow") {
      throw GraphError(cat("[", kind, "] operands must be tensors, got '", input->name(), "', the ", input->type,
                           " that a loop keeps for its derivative", where));
    }
  }
  attributes = complete_attributes(definition, std::move(attributes), where);
  settle_tensor_attributes(definition, inputs, attributes, where);
  // An operand that is a variable has the type of the variable's value. Inference can therefore run before a read of
  // the variable is added, so that the graph is unchanged if inference throws.
  std::vector<TensorType> types = definition.infer(InferContext(definition, inputs, attributes, blocks, where));
  for (const TensorType& type : types) check_type(type, kind, where);
  std::unordered_map<Tensor*, Tensor*> reads;
  for (size_t i = definition.takes_variables ? 1 : 0; i < inputs.size(); ++i) {
    if (!is_variable(inputs[i])) continue;
    Tensor*& value = reads[inputs[i]];
    if (!value) value = value_of(inputs[i]);
    inputs[i] = value;
  }
  return append_here(definition, std::move(inputs), std::move(attributes), name, std::move(types), std::move(blocks));
}

Tensor* Graph::add(Kind kind, std::vector<Tensor*> inputs, Attributes attributes, std::string_view name) {
  return create(kind, std::move(inputs), std::move(attributes), name)->output();
}

void Graph::check_operand(const Tensor* tensor, std::string_view user) const {
  const std::string where = built_at(location_);
  if (!tensor) throw GraphError(cat("[", user, "] operands must not be null, but an operand is missing", where));
  if (&tensor->graph() != this) {
    throw GraphError(cat("[", user, "] '", tensor->name(), "' belongs to another graph; build it in this one", where));
  }
  const Block* home = tensor->operation->parent;
  if (home->encloses(current_)) return;
  for (const Block* b = home; b; b = b->parent) {
    if (b->abandoned) {
      throw GraphError(cat("[", user, "] '", tensor->name(),
                           "' no longer exists, because it was created in a block that failed to build", where));
    }
  }
  throw GraphError(cat("[", user, "] '", tensor->name(), "' is defined in a block of control flow and exists only ",
                       "there; return it as a result of that block", where));
}

Tensor* Graph::value_of(Tensor* tensor) {
  if (!is_variable(tensor)) return tensor;
  return append_here(definition_of("read"), {tensor}, {}, {}, {tensor->type}, {})->output();
}

Operation* Graph::append_here(const OperationDefinition& definition, std::vector<Tensor*> inputs, Attributes attributes,
                              std::string_view name, std::vector<TensorType> output_types,
                              std::vector<std::unique_ptr<Block>> blocks) {
  Block& home = definition.root_only ? *root_ : *current_;
  Operation* operation = append(home, definition, std::move(inputs), std::move(attributes),
                                unique_name(name, definition.name), std::move(output_types), std::move(blocks));
  operation->location = location_;
  if (!control_scopes_.empty() && !definition.root_only)
    operation->control_dependencies = control_scopes_.back().operations;
  return operation;
}

Operation* Graph::append(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                         Attributes attributes, std::string name, std::vector<TensorType> output_types,
                         std::vector<std::unique_ptr<Block>> blocks) {
  auto operation = std::make_unique<Operation>();
  operation->definition = &definition;
  operation->name = std::move(name);
  operation->id = next_id_;
  operation->inputs = std::move(inputs);
  operation->attributes = std::move(attributes);
  operation->blocks = std::move(blocks);
  operation->parent = &block;
  for (TensorType& type : output_types) append_output(operation.get(), std::move(type));
  for (auto& inner : operation->blocks) {
    inner->owner = operation.get();
    inner->parent = &block;
  }
  Operation* const made = block.operations.emplace_back(std::move(operation)).get();
  try {
    if (!names_->add(made)) throw GraphError(cat("[", definition.name, "] the name '", made->name, "' is taken"));
  } catch (...) {  // also for lack of memory: each operation of a block must have its name in the table
    block.operations.pop_back();
    throw;
  }
  ++next_id_;
  return made;
}

Tensor* Graph::append_output(Operation* operation, TensorType type) {
  const int index = static_cast<int>(operation->outputs.size());
  return operation->outputs.emplace_back(std::make_unique<Tensor>(Tensor{operation, index, std::move(type)})).get();
}

std::string Graph::unique_name(std::string_view wanted, Kind kind) const {
  std::string base(wanted.empty() ? kind.name() : wanted);
  if (!is_utf8(base)) throw GraphError(cat("[", kind, "] the name of an operation must be valid UTF-8"));
  if (!names_->find(base)) return base;
  int64_t& counter = name_counters_[base];
  std::string candidate;
  do {
    candidate = base + '_' + std::to_string(++counter);
  } while (names_->find(candidate));
  return candidate;
}

Operation* Graph::find(std::string_view name) const { return names_->find(name); }

std::unique_ptr<Block> Graph::detached_block(Block* parent, const std::vector<TensorType>& argument_types) {
  for (const TensorType& type : argument_types) check_type(type, "argument", built_at(location_));
  auto block = std::make_unique<Block>();
  block->graph = this;
  block->parent = parent;
  const OperationDefinition& argument = definition_of("argument");
  for (const TensorType& type : argument_types) {
    Operation* operation = append(*block, argument, {}, {{"type", type}}, unique_name({}, argument.name), {type}, {});
    operation->location = location_;
    block->arguments.push_back(operation->output());
  }
  return block;
}

Block* Graph::begin_block(const std::vector<TensorType>& argument_types) {
  current_ = building_.emplace_back(detached_block(current_, argument_types)).get();
  return current_;
}

std::unique_ptr<Block> Graph::finish_block(Block* block, std::vector<Tensor*> results) {
  if (block != current_ || building_.empty())
    throw GraphError("[finish_block] only the innermost block under construction can be finished");
  if (!control_scopes_.empty() && control_scopes_.back().block == block) {
    throw GraphError("[finish_block] a control scope opened in the block is still open; end it first");
  }
  for (Tensor*& result : results) {
    if (result) result = resolve(result);
    check_operand(result, "finish_block");
  }
  for (Tensor*& result : results) result = value_of(result);
  block->results = std::move(results);
  current_ = block->parent;
  std::unique_ptr<Block> finished = std::move(building_.back());
  building_.pop_back();
  return finished;
}

void Graph::abandon_block(Block* block) noexcept {
  const auto first = std::find_if(building_.begin(), building_.end(), [&](const auto& b) { return b.get() == block; });
  if (first == building_.end()) return;
  current_ = block->parent;
  while (!control_scopes_.empty() && block->encloses(control_scopes_.back().block)) control_scopes_.pop_back();
  std::vector<std::unique_ptr<Block>> dropped(std::make_move_iterator(first), std::make_move_iterator(building_.end()));
  building_.erase(first, building_.end());
  for (auto& b : dropped) abandon_block(std::move(b));
}

void Graph::abandon_block(std::unique_ptr<Block> finished) noexcept {
  finished->abandoned = true;
  forget_names(*finished);
  abandoned_.push_back(std::move(finished));
}

void Graph::forget_names(const Block& block) noexcept {
  for (const auto& operation : block.operations) {
    names_->remove(operation.get());
    for (const auto& inner : operation->blocks) forget_names(*inner);
  }
}

void Graph::begin_control_dependencies(const std::vector<Operation*>& operations) {
  ControlScope scope{current_, control_scopes_.empty() ? std::vector<Operation*>() : control_scopes_.back().operations};
  std::unordered_set<const Operation*> seen(scope.operations.begin(), scope.operations.end());
  for (Operation* operation : operations) {
    const char* problem = !operation                    ? "an operation is missing"
                          : &operation->graph() != this ? "belongs to another graph"
                          : !operation->parent->encloses(current_)
                              ? "is inside a block of control flow, so operations outside cannot depend on it"
                              : nullptr;
    if (problem)
      throw GraphError(
          cat("[control_dependency] ", operation ? cat("'", operation->name, "' ") : "", problem, built_at(location_)));
    if (seen.insert(operation).second) scope.operations.push_back(operation);
  }
  control_scopes_.push_back(std::move(scope));
}

void Graph::end_control_dependencies() noexcept {
  if (!control_scopes_.empty() && control_scopes_.back().block == current_) control_scopes_.pop_back();
}

std::vector<Tensor*> Graph::placeholders() const {
  std::vector<Tensor*> found;
  for (const auto& operation : root_->operations) {
    if (operation->is("placeholder")) found.push_back(operation->output());
  }
  return found;
}

std::vector<Tensor*> Graph::variables() const {
  std::vector<Tensor*> found;
  for (const auto& operation : root_->operations) {
    if (operation->is("variable")) found.push_back(operation->output());
  }
  return found;
}

Operation* Graph::create_unchecked(Block& block, const OperationDefinition& definition, std::vector<Tensor*> inputs,
                                   Attributes attributes, std::string_view name, std::vector<TensorType> output_types,
                                   std::vector<std::unique_ptr<Block>> blocks) {
  return append(block, definition, std::move(inputs), std::move(attributes),
                name.empty() ? unique_name(name, definition.name) : std::string(name), std::move(output_types),
                std::move(blocks));
}

void Graph::remove_operations(Block& block, const std::function<bool(const Operation&)>& dead) {
  std::erase_if(block.operations, [&](const std::unique_ptr<Operation>& operation) {
    if (!dead(*operation)) return false;
    names_->remove(operation.get());
    for (const auto& inner : operation->blocks) forget_names(*inner);
    return true;
  });
}

void Graph::begin_substitution(const Block& hidden, Substitute substitute) {
  substitutions_.emplace_back(&hidden, std::move(substitute));
}

void Graph::end_substitution() noexcept { substitutions_.pop_back(); }

Tensor* Graph::resolve(Tensor* tensor) const {
  // Inside derivatives of nested branches, the substitute may again belong to a block that the current block cannot
  // access. Such a substitute is replaced in turn, until the tensor is accessible.
  while (!substitutions_.empty() && !tensor->operation->parent->encloses(current_)) {
    const auto found = std::find_if(substitutions_.begin(), substitutions_.end(),
                                    [&](const auto& s) { return s.first == tensor->operation->parent; });
    if (found == substitutions_.end()) break;
    // The function is copied before the call, because the call may add operations and thereby change the list that
    // holds the function.
    tensor = Substitute(found->second)(tensor);
  }
  return tensor;
}

}  // namespace mpsgraph
