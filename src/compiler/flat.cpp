// Flattens graphs into lists, and builds graphs with other numbers.
#include "compiler/flat.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/passes.h"
#include "compiler/recipes.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

bool holds_numbers(const ConstantData& value) {
  return (is_integer(value.dtype()) || value.dtype() == DType::boolean) &&
         (value.is_splat() || value.elements() <= max_constant_numbers);
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5;
}

size_t numbers_of(const ConstantData& value) { return value.is_splat() ? 1 : static_cast<size_t>(value.elements()); }

class Flattening {
 public:
  Flattening(Flat& flat, const Graph& graph, const Recipes* recipes)
      : flat_(flat), numbering_(graph), recipes_(recipes) {
    flat_.starts.resize(static_cast<size_t>(graph.operation_count()));
  }

  void block(const Block& block) {
    word(block.operations.size());
    for (const Operation* operation : in_creation_order(block)) add(*operation);
    word(block.arguments.size());
    for (const Tensor* argument : block.arguments) tensor(argument);
    word(block.results.size());
    for (const Tensor* result : block.results) tensor(result);
  }

  void word(uint64_t value) { flat_.structure.push_back(value); }
  void tensor(const Tensor* tensor) { word(numbering_[tensor]); }
  void operation(const Operation* operation) { word(order_[static_cast<size_t>(operation->id)]); }

 private:
  void add(const Operation& operation) {
    flat_.starts[static_cast<size_t>(operation.id)] = {flat_.numbers.size(), flat_.constants.size()};
    if (order_.empty()) order_.resize(flat_.starts.size());
    order_[static_cast<size_t>(operation.id)] = ++operations_;
    word(static_cast<uint64_t>(operation.kind().index()));
    word(operation.inputs.size());
    for (const Tensor* input : operation.inputs) tensor(input);
    word(operation.control_dependencies.size());
    for (const Operation* before : operation.control_dependencies) word(order_[static_cast<size_t>(before->id)]);
    word(operation.outputs.size());
    for (const auto& output : operation.outputs) {
      numbering_[output.get()] = ++tensors_;
      type(output->type);
    }
    attributes(operation.attributes);
    word(operation.blocks.size());
    for (const auto& inner : operation.blocks) block(*inner);
  }

  void number(int64_t value) { flat_.numbers.push_back(value); }

  void dims(const Dims& dims) {
    word(dims.size());
    if (!dims.empty()) flat_.shapes.emplace_back(flat_.numbers.size(), flat_.numbers.size() + dims.size());
    for (const int64_t dim : dims) number(dim);
  }

  void type(const TensorType& type) {
    word(static_cast<uint64_t>(type.dtype) | static_cast<uint64_t>(type.history) << 8 |
         static_cast<uint64_t>(type.shape.ranked()) << 40);
    if (type.shape.ranked()) dims(type.shape.dims());
  }

  void attributes(const Attributes& attributes) {
    word(attributes.items().size());
    for (const auto& [key, value] : attributes.items()) {
      word(hash_of(key));
      word(value.index());
      std::visit([this](const auto& value) { held(value); }, value);
    }
  }
  void held(bool value) { word(value); }
  void held(int64_t value) { number(value); }
  void held(double value) { word(std::bit_cast<uint64_t>(value)); }
  void held(const std::string& value) { word(hash_of(value)); }
  void held(DType value) { word(static_cast<uint64_t>(value)); }
  void held(const TensorType& value) { type(value); }
  void held(const Ints& values) {
    word(values.size());
    for (const int64_t value : values) number(value);
  }
  void held(const Types& types) {
    word(types.size());
    for (const TensorType& each : types) type(each);
  }
  void held(const ConstantPtr& value) {
    word(static_cast<uint64_t>(value->dtype()) << 1 | static_cast<uint64_t>(value->is_splat()));
    dims(value->dims());
    if (!holds_numbers(*value)) {
      const Recipe* recipe = recipes_ ? recipes_->find(value) : nullptr;
      word(recipe != nullptr);
      return recipe ? computed(*recipe) : flat_.constants.push_back(value);
    }
    const size_t count = numbers_of(*value);
    word(count);
    for (size_t i = 0; i < count; i++) number(value->integer(static_cast<int64_t>(i)));
  }

  void computed(const Recipe& recipe) {
    word(static_cast<uint64_t>(recipe.definition->name.index()));
    word(recipe.result << 1 | static_cast<uint64_t>(recipe.power_of_two));
    held(recipe.types);
    attributes(recipe.attributes);
    word(recipe.operands.size());
    for (const ConstantPtr& operand : recipe.operands) held(operand);
  }

  Flat& flat_;
  TensorTable<uint64_t> numbering_;
  const Recipes* recipes_;
  std::vector<uint64_t> order_;
  uint64_t tensors_ = 0, operations_ = 0;
};

// Rebuilds the types and attributes of one operation from the lists, in the order in which Flattening wrote them.
class Rebuilding {
 public:
  Rebuilding(const Flat& flat, const Recipes* recipes, const std::vector<int64_t>& numbers,
             const std::vector<ConstantPtr>& constants, Flat::Start start)
      : flat_(flat), recipes_(recipes), numbers_(numbers), constants_(constants), at_(start) {}

  // Whether all constants could be computed and have as many elements as their dimensions require.
  bool fits() const { return fits_; }

  std::vector<TensorType> types(const Operation& operation) {
    std::vector<TensorType> types;
    for (const auto& output : operation.outputs) types.push_back(type(output->type));
    return types;
  }

  Attributes attributes(const Attributes& old) {
    Attributes result;
    for (const auto& [key, value] : old.items())
      result.set(key, std::visit([this](const auto& held) { return Attribute(rebuilt(held)); }, value));
    return result;
  }

  TensorType type(const TensorType& old) {
    return old.shape.ranked() ? TensorType{old.dtype, Shape(dims(old.shape.dims())), old.history} : old;
  }

 private:
  int64_t number() { return numbers_[at_.number++]; }
  Dims dims(const Dims& old) {
    Dims result(old.size());
    for (int64_t& dim : result) dim = number();
    return result;
  }
  template <class T>
  T rebuilt(const T& value) {  // bool, double, std::string, DType
    return value;
  }
  int64_t rebuilt(int64_t) { return number(); }
  TensorType rebuilt(const TensorType& old) { return type(old); }
  Ints rebuilt(const Ints& old) { return dims(old); }
  Types rebuilt(const Types& old) {
    Types result;
    for (const TensorType& each : old) result.push_back(type(each));
    return result;
  }
  ConstantPtr rebuilt(const ConstantPtr& old) {
    const Dims now = dims(old->dims());
    if (!holds_numbers(*old)) {
      const Recipe* recipe = recipes_ ? recipes_->find(old) : nullptr;
      const ConstantPtr value = recipe ? computed(*recipe, old) : constants_[at_.constant++];
      if (value->dims() == now) return value;
      fits_ = fits_ && (value->is_splat() || value->elements() == element_count(now));
      return fits_ ? reshaped(value, now) : value;
    }
    Ints values(numbers_of(*old));
    for (int64_t& value : values) value = number();
    if (!old->is_splat()) return integer_constant({old->dtype(), Shape(now)}, values);
    const ConstantPtr element = integer_constant({old->dtype(), Shape(Dims{})}, values);
    return ConstantData::splat(old->dtype(), now, element->bytes());
  }

  // The constant of a recipe, computed again if any of its numbers or constants differ.
  ConstantPtr computed(const Recipe& recipe, const ConstantPtr& old) {
    const Flat::Start begin = at_;
    std::vector<TensorType> types = rebuilt(recipe.types);
    Attributes given = attributes(recipe.attributes);
    std::vector<ConstantPtr> operands;
    for (const ConstantPtr& operand : recipe.operands) operands.push_back(rebuilt(operand));
    const auto same = [](const auto& now, const auto& before, size_t from, size_t to) {
      return std::equal(now.begin() + static_cast<ptrdiff_t>(from), now.begin() + static_cast<ptrdiff_t>(to),
                        before.begin() + static_cast<ptrdiff_t>(from));
    };
    if (same(numbers_, flat_.numbers, begin.number, at_.number) &&
        same(constants_, flat_.constants, begin.constant, at_.constant))
      return old;
    if (!fits_) return old;
    const auto results = folded_values(*recipe.definition, given, operands, types);
    fits_ = results.size() == types.size() && (!recipe.power_of_two || is_power_of_two(results[0]->scalar()));
    return fits_ ? results[recipe.result] : old;
  }

  const Flat& flat_;
  const Recipes* recipes_;
  const std::vector<int64_t>& numbers_;
  const std::vector<ConstantPtr>& constants_;
  Flat::Start at_;
  bool fits_ = true;
};

}  // namespace

std::vector<const Operation*> in_creation_order(const Block& block) {
  std::vector<const Operation*> operations;
  for (const auto& operation : block.operations) operations.push_back(operation.get());
  if (!std::ranges::is_sorted(operations, {}, &Operation::id)) std::ranges::sort(operations, {}, &Operation::id);
  return operations;
}

Flat::Flat(const Graph& graph) { Flattening(*this, graph, nullptr).block(graph.root()); }

Flat::Flat(const std::vector<Dims>& shapes) {
  for (const Dims& dims : shapes) {
    structure.push_back(dims.size());
    this->shapes.emplace_back(numbers.size(), numbers.size() + dims.size());
    numbers.insert(numbers.end(), dims.begin(), dims.end());
  }
}

Flat::Flat(const Program& program) {
  Flattening flattening(*this, *program.graph, program.recipes.get());
  flattening.block(program.graph->root());
  for (const auto* tensors : {&program.feeds, &program.targets, &program.variables}) {
    flattening.word(tensors->size());
    for (const Tensor* tensor : *tensors) flattening.tensor(tensor);
  }
  for (const Operation* operation : program.target_operations) flattening.operation(operation);
  for (const Tensor* variable : program.source_variables) flattening.word(reinterpret_cast<uintptr_t>(variable));
}

bool same_elements(const ConstantData& a, const ConstantData& b) {
  if (&a == &b) return true;  // without accessing elements, which may have to be produced first
  if (a.dtype() != b.dtype() || a.is_splat() != b.is_splat() || a.stored_bytes() != b.stored_bytes()) return false;
  return a.bytes() == b.bytes() || std::memcmp(a.bytes(), b.bytes(), a.stored_bytes()) == 0;
}

std::optional<Program> resized(const Program& program, const Flat& flat, const std::vector<bool>& varies,
                               const std::vector<int64_t>& numbers, const std::vector<ConstantPtr>& constants) {
  bool fits = true;
  const auto rebuilding = [&](const Operation& operation) {
    return Rebuilding(flat, program.recipes.get(), numbers, constants, flat.starts[static_cast<size_t>(operation.id)]);
  };
  const auto visit = [&](Rewriter& rewriter, const Operation& source) -> Rewriter::Replacement {
    if (!varies[static_cast<size_t>(source.id)]) return std::nullopt;
    Rebuilding parts = rebuilding(source);
    std::vector<TensorType> types = parts.types(source);
    Attributes attributes = parts.attributes(source.attributes);
    fits = fits && parts.fits();
    std::vector<std::unique_ptr<Block>> blocks;
    for (const auto& block : source.blocks) {
      std::vector<TensorType> arguments;
      for (const Tensor* argument : block->arguments)
        arguments.push_back(rebuilding(*argument->operation).type(argument->type));
      blocks.push_back(rewriter.copy_block(*block, arguments));
    }
    Operation* copy = rewriter.append(source, rewriter.now(source.inputs), std::move(types), std::move(blocks));
    copy->attributes = std::move(attributes);
    return std::vector<Tensor*>(results_of(*copy));
  };
  Rewriter rewriter(*program.graph, std::vector<bool>(varies.size(), true), visit);
  rewriter.change_types();
  rewriter.graph();  // copies everything, also if nothing varies
  for (const Operation* operation : in_creation_order(program.graph->root())) rewriter.copy_operation(*operation);
  if (!fits) return std::nullopt;
  Program result;
  result.feeds = rewriter.now(program.feeds);
  result.targets = rewriter.now(program.targets);
  result.variables = rewriter.now(program.variables);
  for (const Operation* operation : program.target_operations)
    result.target_operations.push_back(rewriter.now(operation));
  result.source_variables = program.source_variables;
  result.computed = program.computed;
  result.target = program.target;
  result.optimized = true;
  result.graph = rewriter.take_graph();
  return result;
}

}  // namespace mpsgraph::compiler
