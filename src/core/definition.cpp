// The registry of operations, validation and completion of attributes, and helpers for inference rules: access to known
// operand values, and errors that name the operation and where it was built.
#include "core/definition.h"

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <numeric>

#include "core/exact_numbers.h"
#include "core/known_values.h"

namespace mpsgraph {
namespace {

struct Registry {
  std::deque<OperationDefinition> definitions;  // a deque keeps addresses stable
  std::array<OperationDefinition*, Kind::count> by_kind = {};
};

Registry& storage() {
  static Registry registry;
  return registry;
}

std::string_view family_that_states;  // the family whose definitions are being registered

const Registry& registry() {
  static std::once_flag once;
  std::call_once(once, [] {
    Family::for_each([](std::string_view name, Family::Say state) {
      family_that_states = name;
      state();
    });
  });
  return storage();
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

std::string nearest_names(std::string_view wanted) {
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const OperationDefinition& definition : registry().definitions) {
    const std::string_view name = definition.name;
    const size_t distance = edit_distance(wanted, name);
    if (name.find(wanted) != name.npos || distance <= 2 + wanted.size() / 4) near.emplace_back(distance, name);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i)
    text += cat(i ? ", " : "; similar names: ", near[i].second);
  return text;
}

std::string allowed_attributes(const std::vector<AttributeSpec>& specs) {
  if (specs.empty()) return "the operation takes no attributes";
  std::string text = "the operation takes ";
  for (const AttributeSpec& spec : specs) {
    if (&spec != &specs.front()) text += ", ";
    text += cat(spec.name, " (", name(spec.kind), spec.default_value ? ")" : ", required)");
  }
  return text;
}

std::string described(const Tensor* tensor) { return cat("'", tensor->name(), "' of type ", tensor->type); }

const AttributeSpec& spec_of(const OperationDefinition& definition, std::string_view attribute) {
  return *std::find_if(definition.attributes.begin(), definition.attributes.end(),
                       [&](const AttributeSpec& spec) { return spec.name == attribute; });
}

// Wraps an inference function so that it also works if attributes are passed as integer tensors. Known values of these
// tensors are converted to attributes. If the values are unknown, the function calls `unvalued` instead of `infer`.
Infer with_tensor_attributes(Infer infer, Infer unvalued) {
  return [infer = std::move(infer), unvalued = std::move(unvalued)](const InferContext& context) {
    std::vector<Tensor*> inputs = context.inputs;
    Attributes attributes = context.attributes;
    if (settle_tensor_attributes(context.definition, inputs, attributes, context.where))
      return infer(InferContext(context.definition, inputs, attributes, context.blocks, context.where));
    return unvalued ? unvalued(context) : std::vector<TensorType>{{context.dtype(0), {}}};
  };
}

}  // namespace

AttributeSpec::AttributeSpec(std::string_view name, AttributeKind kind, std::optional<Attribute> default_value)
    : name(name), kind(kind), default_value(std::move(default_value)) {}
AttributeSpec::AttributeSpec(const AttributeSpec&) = default;
AttributeSpec::AttributeSpec(AttributeSpec&&) noexcept = default;
AttributeSpec& AttributeSpec::operator=(const AttributeSpec&) = default;
AttributeSpec& AttributeSpec::operator=(AttributeSpec&&) noexcept = default;
AttributeSpec::~AttributeSpec() = default;

AttributeSpec required(std::string_view name, AttributeKind kind) { return {name, kind, std::nullopt}; }

AttributeSpec optional(std::string_view name, Attribute default_value) {
  const auto kind = static_cast<AttributeKind>(default_value.index());
  return {name, kind, std::move(default_value)};
}

Attributes complete_attributes(const OperationDefinition& definition, Attributes given, std::string_view where) {
  if (definition.complete) return definition.complete(std::move(given), where);
  return complete_attributes(definition.name, definition.attributes, std::move(given), where);
}

Attributes complete_attributes(std::string_view operation, const std::vector<AttributeSpec>& specs, Attributes given,
                               std::string_view where) {
  const auto front = [&] { return cat("[", operation, "] "); };
  for (const auto& [key, value] : given.items()) {
    const auto known = [&key = key](const AttributeSpec& spec) { return spec.name == key; };
    if (std::none_of(specs.begin(), specs.end(), known)) {
      throw GraphError(cat(front(), "unknown attribute '", key, "': ", allowed_attributes(specs), where));
    }
  }
  for (const AttributeSpec& spec : specs) {
    const Attribute* value = given.find(spec.name);
    if (!value) {
      if (!spec.default_value) {
        throw GraphError(cat(front(), "requires attribute '", spec.name, "', ", name(spec.kind), ": ",
                             allowed_attributes(specs), where));
      }
      given.set(spec.name, *spec.default_value);
      continue;
    }
    const auto kind = static_cast<AttributeKind>(value->index());
    if (kind == AttributeKind::integer && spec.kind == AttributeKind::real) {
      const int64_t integer = std::get<int64_t>(*value);
      given.set(spec.name, keeps_integers(spec.name) ? exact_real(integer) : static_cast<double>(integer));
    } else if (kind == AttributeKind::data && spec.kind == AttributeKind::real && keeps_integers(spec.name)) {
      const ConstantPtr& exact = std::get<ConstantPtr>(*value);
      if (!exact || !is_integer(exact->dtype()) || exact->elements() != 1)
        throw GraphError(cat(front(), "attribute '", spec.name,
                             "' must be a real number, or a constant with one integer element", where));
    } else if (kind != spec.kind) {
      throw GraphError(
          cat(front(), "attribute '", spec.name, "' must be ", name(spec.kind), ", got ", name(kind), where));
    } else if (kind == AttributeKind::data && !std::get<ConstantPtr>(*value)) {
      throw GraphError(cat(front(), "attribute '", spec.name, "' must have data, got null", where));
    }
  }
  return given;
}

bool settle_tensor_attributes(const OperationDefinition& definition, std::vector<Tensor*>& inputs,
                              Attributes& attributes, const std::string& where) {
  const size_t count = definition.tensor_attributes.size(), others = static_cast<size_t>(definition.min_inputs);
  if (count == 0 || inputs.size() == others) return true;
  if (inputs.size() != others + count)
    throw GraphError(cat("[", definition.name, "] the number of operands must be ", others, ", or ", others + count,
                         " if ", definition.tensor_attributes.front(),
                         count > 1 ? " and the other tensor attributes are given as tensors" : " is given as a tensor",
                         ", got ", inputs.size(), where));
  Attributes settled = attributes;
  bool known = true;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& operand = *inputs[others + i];
    const std::string_view key = definition.tensor_attributes[i];
    const bool list = spec_of(definition, key).kind == AttributeKind::integers;
    if (!is_integer(operand.dtype()))
      throw DTypeError(cat("[", definition.name, "] ", key, " must be integers, got ", described(&operand),
                           "; cast it to int32 first", where));
    const Shape& shape = operand.shape();
    const bool fits = !shape.ranked() || (list ? shape.rank() == 1 : shape.rank() == 0 || compatible(shape, Shape{1}));
    if (!fits)
      throw ShapeError(cat("[", definition.name, "] ", key, " must be ", list ? "a list" : "one integer", ", got ",
                           described(&operand), where));
    const std::optional<Ints> value = constant_value(&operand);
    if (value && list) settled.set(key, *value);
    if (value && !list) settled.set(key, value->at(0));
    known &= value.has_value();
  }
  if (!known) return false;
  attributes = std::move(settled);
  inputs.resize(others);
  return true;
}

Tensor* GradientContext::add_alike(Kind kind, std::vector<Tensor*> inputs, Attributes attributes) const {
  const std::vector<std::string_view>& own = operation.definition->tensor_attributes;
  const auto first = static_cast<size_t>(operation.definition->min_inputs);
  for (std::string_view key : definition_of(kind).tensor_attributes) {
    const auto found = std::find(own.begin(), own.end(), key);
    if (found == own.end() || operation.inputs.size() == first) continue;
    inputs.push_back(operation.inputs[first + static_cast<size_t>(found - own.begin())]);
  }
  return graph().add(kind, std::move(inputs), std::move(attributes));
}

bool is_effect(const Operation& operation) {
  const OperationDefinition& definition = *operation.definition;
  return definition.has_effect ||
         (!definition.effect_attribute.empty() && operation.attributes.boolean(definition.effect_attribute));
}

std::string_view name(DTypeClass dtypes) {
  constexpr std::string_view names[] = {"any",    "ordered",  "algebraic", "numbers",  "analytic",
                                        "floats", "integers", "booleans",  "complexes"};
  return names[static_cast<size_t>(dtypes)];
}

void define(OperationDefinition definition) {
  Registry& all = storage();
  definition.family = family_that_states;
  if (!definition.tensor_attributes.empty()) {
    definition.max_inputs = definition.min_inputs + static_cast<int>(definition.tensor_attributes.size());
    definition.infer = with_tensor_attributes(std::move(definition.infer), std::move(definition.infer_unvalued));
  }
  OperationDefinition*& entry = all.by_kind.at(definition.name.index());
  if (entry) throw GraphError(cat("operation '", definition.name, "' is defined twice"));
  entry = &all.definitions.emplace_back(std::move(definition));
}

void describe(Kind kind, std::string_view parameters, DTypeClass dtypes, std::string documentation) {
  OperationDefinition* entry = storage().by_kind.at(kind.index());
  if (!entry) throw GraphError(cat("operation '", kind, "' is described before it is defined"));
  entry->parameters = parameters;
  entry->dtypes = dtypes;
  entry->documentation = std::move(documentation);
}

Kind kind_named(std::string_view name) {
  if (const std::optional<Kind> kind = Kind::find(name)) return *kind;
  throw GraphError(cat("unknown operation '", name, "'", nearest_names(name)));
}

const OperationDefinition& definition_of(Kind kind) { return *registry().by_kind.at(kind.index()); }

std::vector<const OperationDefinition*> all_definitions() {
  std::vector<const OperationDefinition*> all;
  for (const OperationDefinition& definition : registry().definitions) all.push_back(&definition);
  return all;
}

std::optional<Ints> InferContext::constant(size_t i) const { return constant_value(inputs[i]); }

Shape InferContext::shape_operand(size_t i) const {
  const std::optional<KnownValues> values = known_values(inputs[i]);
  if (!values || values->size() > static_cast<size_t>(max_rank)) return {};
  Dims dims;
  for (const auto& value : *values) dims.push_back(value.value_or(-1));
  return dims;
}

void InferContext::shape_error(const std::string& message) const {
  throw ShapeError(cat("[", definition.name, "] ", message, where));
}

void InferContext::dtype_error(const std::string& message) const {
  throw DTypeError(cat("[", definition.name, "] ", message, where));
}

void InferContext::graph_error(const std::string& message) const {
  throw GraphError(cat("[", definition.name, "] ", message, where));
}

void InferContext::require_same_dtype(size_t first, size_t end) const {
  for (size_t i = first + 1; i < std::min(count(), end); ++i) {
    if (dtype(i) == dtype(first)) continue;
    // The error suggests casting the narrower operand to the wider dtype, so that the cast loses no precision.
    const auto kind = [](DType d) { return is_complex(d) ? 2 : is_float(d) ? 1 : 0; };
    const int kind_first = kind(dtype(first)), kind_i = kind(dtype(i));
    const bool widen_first = kind_first == kind_i ? size_of(dtype(first)) < size_of(dtype(i)) : kind_first < kind_i;
    const size_t narrow = widen_first ? first : i, wide = widen_first ? i : first;
    dtype_error(cat("operands must have the same dtype, got ", described(inputs[first]), " and ", described(inputs[i]),
                    "; cast '", inputs[narrow]->name(), "' to ", dtype(wide), " first"));
  }
}

void InferContext::require_float(size_t i) const {
  if (!is_float(dtype(i))) {
    dtype_error(cat("operand ", i, " must be floating-point, got ", described(inputs[i]), "; cast '", inputs[i]->name(),
                    "' to float32 first"));
  }
}

void InferContext::require_inexact(size_t i) const {
  if (!is_inexact(dtype(i))) {
    dtype_error(cat("operand ", i, " must be floating-point or complex, got ", described(inputs[i]), "; cast '",
                    inputs[i]->name(), "' to float32 first"));
  }
}

void InferContext::require_rank(size_t i, int rank) const {
  if (shape(i).ranked() && shape(i).rank() != rank) {
    shape_error(cat("operand ", i, " must have rank ", rank, ", got ", described(inputs[i])));
  }
}

int InferContext::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    shape_error(rank == 0
                    ? cat("a tensor of rank 0 has no axes, got axis ", axis)
                    : cat("axis must be from ", -rank, " to ", rank - 1, " for rank ", rank, ", got axis ", axis));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace mpsgraph
