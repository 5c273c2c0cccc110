// Compiler pass fold: replaces operations on constants with constants.
//
//   %c = constant() {value=float32[] 0x40000000} : float32[]
//   %d = square_root(%c) : float32[]      ->      %d = constant() {value=float32[] 0x3fb504f3} : float32[]
// Values are computed by the backend's kernels through the registered evaluator, because the compiler has no kernels.
// Operations with large results are kept, unless the result is smaller than the operands.
//
// A folded constant is cached as long as it is in use, so that programs for several sizes share one transposed or
// scaled weight, and kernels pack it only once.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "compiler/passes.h"
#include "compiler/recipes.h"
#include "core/definition.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::compiler {
namespace {

constexpr int64_t max_result_elements = 4096;
constexpr int64_t max_operand_elements = 1 << 16;

std::atomic<Evaluator> evaluator = nullptr;

template <class T>
ConstantPtr integers_as(const TensorType& type, const Ints& values) {
  std::vector<T> narrow(values.begin(), values.end());
  return ConstantData::copy(type.dtype, type.shape.dims(), narrow.data());
}

const ConstantPtr& value_of(const Tensor* tensor) { return tensor->operation->attributes.data("value"); }

// Evaluates an operation on these constants, in a graph built for this purpose.
std::vector<ConstantPtr> evaluate(const OperationDefinition& definition, const Attributes& attributes,
                                  const std::vector<ConstantPtr>& values, std::vector<TensorType> types) {
  Evaluator evaluate_one = evaluator.load();
  if (!evaluate_one) return {};
  Graph scratch;
  std::vector<Tensor*> inputs;
  for (const ConstantPtr& value : values) inputs.push_back(scratch.add("constant", {}, {{"value", value}}));
  return evaluate_one(*scratch.create_unchecked(scratch.root(), definition, inputs, attributes, {}, std::move(types)));
}

// If the elements of each operand are all equal, only one element of the result is evaluated, whatever the result's
// size.
ConstantPtr folded_splat(const OperationDefinition& definition, const Attributes& attributes,
                         const std::vector<ConstantPtr>& values, const TensorType& type) {
  std::vector<ConstantPtr> elements;
  for (const ConstantPtr& value : values) elements.push_back(ConstantData::splat(value->dtype(), {}, value->bytes()));
  auto result = evaluate(definition, attributes, elements, {{type.dtype, Shape(Dims{})}});
  return result.empty() ? nullptr : ConstantData::splat(type.dtype, type.shape.dims(), result[0]->bytes());
}

using ConstantOperands = std::vector<ConstantPtr>;

class Remembered {
 public:
  ConstantPtr find(Kind kind, const ConstantOperands& operands, const Attributes& attributes) {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = made_.equal_range(operands.front().get());
    for (auto it = first; it != last; ++it)
      if (it->second.is(kind, operands, attributes)) return it->second.result.lock();
    return nullptr;
  }

  void enter(Kind kind, const ConstantOperands& operands, const Attributes& attributes, const ConstantPtr& result) {
    const std::lock_guard lock(mutex_);
    if (made_.size() >= most_) {
      std::erase_if(made_, [](const auto& item) { return item.second.result.expired(); });
      most_ = std::max<size_t>(1024, 2 * made_.size());
    }
    made_.emplace(operands.front().get(), Made{kind, {operands.begin(), operands.end()}, attributes, result});
  }

 private:
  struct Made {
    Kind kind;
    // Weak references reveal that an operand has been freed. A comparison of addresses would not reveal this, because a
    // new object may have the address of the freed one.
    std::vector<std::weak_ptr<const ConstantData>> operands;
    Attributes attributes;
    std::weak_ptr<const ConstantData> result;

    bool is(Kind other, const ConstantOperands& given, const Attributes& others) const {
      if (kind != other || operands.size() != given.size() || result.expired()) return false;
      for (size_t i = 0; i < given.size(); ++i)
        if (operands[i].lock() != given[i]) return false;
      return attributes == others;
    }
  };

  std::mutex mutex_;
  std::unordered_multimap<const ConstantData*, Made> made_;
  size_t most_ = 1024;
};

Remembered& remembered() {
  static Remembered* const one = new Remembered;  // never destroyed, so that it outlives everything destroyed at exit
  return *one;
}

}  // namespace

void register_evaluator(Evaluator function) { evaluator = function; }

ConstantPtr computed(Kind kind, const std::vector<ConstantPtr>& operands, const Attributes& attributes) {
  Evaluator evaluate_one = evaluator.load();
  if (!evaluate_one) return nullptr;
  if (!operands.empty())
    if (ConstantPtr known = remembered().find(kind, operands, attributes)) return known;
  Graph scratch;
  std::vector<Tensor*> inputs;
  for (const ConstantPtr& operand : operands) inputs.push_back(scratch.add("constant", {}, {{"value", operand}}));
  auto results = evaluate_one(*scratch.create(kind, std::move(inputs), attributes));
  if (results.empty()) return nullptr;
  if (!operands.empty()) remembered().enter(kind, operands, attributes, results[0]);
  return results[0];
}

ConstantPtr reshaped(const ConstantPtr& value, const Dims& dims) {
  if (value->is_splat()) return ConstantData::splat(value->dtype(), dims, value->bytes());
  return ConstantData::borrow(value->dtype(), dims, value->bytes(), std::make_shared<ConstantPtr>(value));
}

ConstantPtr integer_constant(const TensorType& type, const Ints& values) {
  switch (type.dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::boolean: return integers_as<int8_t>(type, values);
    case DType::int16:
    case DType::uint16: return integers_as<int16_t>(type, values);
    case DType::int32:
    case DType::uint32: return integers_as<int32_t>(type, values);
    case DType::int64:
    case DType::uint64: return integers_as<int64_t>(type, values);
    default: throw DTypeError(cat("integers can only be stored as an integer dtype or bool, got ", type.dtype));
  }
}

std::vector<ConstantPtr> folded_values(const OperationDefinition& definition, const Attributes& attributes,
                                       const std::vector<ConstantPtr>& operands, const std::vector<TensorType>& types) {
  const Dims& dims = types[0].shape.dims();
  const ConstantPtr& first = operands[0];
  const Kind kind = definition.name;
  if (kind == Kind("reshape") || kind == Kind("expand_dims") || kind == Kind("squeeze") || kind == Kind("flatten2d"))
    return {reshaped(first, dims)};
  if (kind == Kind("broadcast_to") && first->elements() == 1)
    return {reshaped(ConstantData::splat(first->dtype(), {}, first->bytes()), dims)};
  const auto single = [](const ConstantPtr& value) { return value->is_splat() || value->elements() == 1; };
  int64_t elements = 0;
  for (const TensorType& type : types) elements += type.shape.elements();
  if (definition.elementwise && elements > 0 && std::ranges::all_of(operands, single)) {
    if (ConstantPtr value = folded_splat(definition, attributes, operands, types[0])) return {std::move(value)};
  }
  // Operations on tensors without elements are folded whatever the size of the result, because not every device
  // supports such tensors.
  int64_t operand_elements = 0;
  for (const ConstantPtr& operand : operands) operand_elements += operand->elements();
  const bool of_nothing = std::ranges::any_of(operands, [](const auto& v) { return v->elements() == 0; });
  const bool large = elements > std::max(max_result_elements, operand_elements);
  if ((large && !of_nothing) || operand_elements > max_operand_elements) return {};
  return evaluate(definition, attributes, operands, types);
}

Rewriter::Replacement folded(Rewriter& rewriter, const Operation& source) {
  if (source.inputs.empty() || !source.blocks.empty() || is_effect(source) || source.outputs.empty()) return {};
  // Kernels do not handle out_of_range; pass indices must first express it as separate operations.
  if (source.attributes.has("out_of_range") && !ops::takes_any(source.attributes)) return {};
  std::vector<ConstantPtr> values;
  for (const Tensor* operand : source.inputs) {
    const Tensor* input = rewriter.seen(operand);
    if (!input->operation->is("constant")) return {};
    values.push_back(value_of(input));
  }
  std::vector<TensorType> types;
  for (const auto& output : source.outputs) types.push_back(output->type);
  const std::vector<ConstantPtr> found = folded_values(*source.definition, source.attributes, values, types);
  if (found.size() != source.outputs.size()) return {};
  std::vector<Tensor*> results;
  for (size_t i = 0; i < found.size(); ++i) {
    Recipes::note(found[i], {source.definition, source.attributes, values, types, i});
    results.push_back(rewriter.constant(source, found[i]));
  }
  return results;
}

void fold(Program& program) {
  const auto candidate = [](const Operation& op) {
    const auto constant = [](const Tensor* input) { return input->operation->is("constant"); };
    return !op.inputs.empty() && std::ranges::all_of(op.inputs, constant);
  };
  if (any_operation(program, candidate)) rewrite(program, folded);
}

}  // namespace mpsgraph::compiler
