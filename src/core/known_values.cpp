// Evaluates small integer tensors with one short rule per kind of operation, applied in a post-order traversal without
// recursion.
//
// Rules receive operands whose elements may be unknown, and return the known elements of the result. If a rule cannot
// determine an element, e.g. because of an unexpected rank or an attribute missing in unverified text, the element is
// unknown, never wrong.
#include "core/known_values.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/definition.h"
#include "core/kind_table.h"
#include "core/ops/shape.h"

namespace mpsgraph {
namespace {

constexpr int64_t max_elements = 4096;  // limit for computed tensors, far above the 16 elements that a shape can have
constexpr size_t max_operations = 4096;  // limit on the operations visited per query

using Element = std::optional<int64_t>;
using Operands = std::vector<const KnownValues*>;
using Rule = std::function<KnownValues(const Operation&, int result, const Operands&)>;

// Result of a rule that cannot determine any element. The caller replaces it with as many unknown elements as the
// tensor has.
const KnownValues unknown;

Element wrap(DType dtype, Element x) {
  if (!x) return x;
  switch (dtype) {
    case DType::int8: return static_cast<int8_t>(*x);
    case DType::int16: return static_cast<int16_t>(*x);
    case DType::int32: return static_cast<int32_t>(*x);
    case DType::uint8: return static_cast<uint8_t>(*x);
    case DType::uint16: return static_cast<uint16_t>(*x);
    case DType::uint32: return static_cast<uint32_t>(*x);
    case DType::boolean: return *x != 0;
    default: return x;
  }
}

// Elements are stored as 64 bits: the bit pattern for uint64, and the value for all other integer types. Rules that
// compare or divide are written as generic lambdas, which receive uint64_t for uint64 operands and int64_t for all
// others. Rules that add or multiply always use uint64_t, for which overflow is defined to wrap.
template <class F, class... Elements>
int64_t apply(const F& f, const Operation& operation, Elements... elements) {
  if (operation.input(0)->dtype() == DType::uint64) return static_cast<int64_t>(f(static_cast<uint64_t>(elements)...));
  return static_cast<int64_t>(f(elements...));
}

KnownValues as_it_is(const Operation&, int, const Operands& x) { return *x[0]; }

template <class F>
Rule unary(F f) {
  return [f](const Operation& operation, int, const Operands& x) {
    KnownValues result(*x[0]);
    for (Element& e : result) {
      if (e) e = apply(f, operation, *e);
    }
    return result;
  };
}

// Applies f element by element. Each operand must have one element or as many elements as the result; other broadcasts
// are not supported.
template <class F>
KnownValues elementwise(const Operands& x, F f) {
  size_t count = 1;
  for (const KnownValues* operand : x) {
    if (operand->size() != 1) count = operand->size();
  }
  for (const KnownValues* operand : x) {
    if (operand->size() != 1 && operand->size() != count) return unknown;
  }
  KnownValues result(count);
  for (size_t i = 0; i < count; ++i) {
    result[i] = f([&](size_t operand) { return (*x[operand])[x[operand]->size() == 1 ? 0 : i]; });
  }
  return result;
}

template <class F>
Rule binary(F f) {
  return [f](const Operation& operation, int, const Operands& x) {
    return elementwise(x, [&](auto at) -> Element {
      const Element a = at(0), b = at(1);
      return a && b ? Element(apply(f, operation, *a, *b)) : std::nullopt;
    });
  };
}

// Division and remainder, with the rounding of C or of Python. The result is unknown if the divisor is 0 or the
// quotient overflows.
template <class F>
Rule division(F f) {
  return [f](const Operation& operation, int, const Operands& x) {
    const bool overflows = operation.input(0)->dtype() == DType::int64;
    return elementwise(x, [&](auto at) -> Element {
      const Element a = at(0), b = at(1);
      if (!a || !b || *b == 0 || (overflows && *b == -1 && *a == INT64_MIN)) return std::nullopt;
      return apply(f, operation, *a, *b);
    });
  };
}

template <class F>
Rule reduction(F f, std::optional<int64_t> of_nothing) {
  return [f, of_nothing](const Operation& operation, int, const Operands& x) {
    // Only reductions to a single element are supported.
    if (operation.output()->shape().elements() != 1) return unknown;
    Element result = of_nothing;
    bool first = !of_nothing;
    for (const Element& e : *x[0]) {
      result = first ? e : result && e ? Element(apply(f, operation, *result, *e)) : std::nullopt;
      first = false;
    }
    return KnownValues{result};
  };
}

bool is_vector(const Tensor* tensor) { return tensor->shape().ranked() && tensor->shape().rank() == 1; }

KnownValues concatenated(const Operation& operation, int, const Operands& x) {
  if (!is_vector(operation.output())) return unknown;
  if (const Attribute* interleave = operation.attributes.find("interleave")) {
    if (*interleave == Attribute(true)) return unknown;
  }
  KnownValues result;
  for (const KnownValues* part : x) result.insert(result.end(), part->begin(), part->end());
  return result;
}

KnownValues split_part(const Operation& operation, int result, const Operands& x) {
  if (!is_vector(operation.output(static_cast<size_t>(result)))) return unknown;
  const Ints& sizes = operation.attributes.integers("sizes");
  int64_t begin = 0;
  for (int i = 0; i < result; ++i) begin += sizes.at(static_cast<size_t>(i));
  const int64_t end = begin + sizes.at(static_cast<size_t>(result));
  if (begin < 0 || end < begin || end > static_cast<int64_t>(x[0]->size())) return unknown;
  return KnownValues(x[0]->begin() + begin, x[0]->begin() + end);
}

// One axis of a result: its number of elements, and the distance between neighboring elements in the operand.
struct Walk {
  int64_t count, step;
};

// Selects elements of x: starts at index `first` and steps along `axes`, of which the last one varies fastest.
KnownValues walked(const KnownValues& x, int64_t first, const std::vector<Walk>& axes) {
  std::vector<int64_t> places = {first};
  for (const Walk& axis : axes) {
    std::vector<int64_t> next;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < axis.count; ++i) next.push_back(place + i * axis.step);
    }
    places = std::move(next);
  }
  KnownValues result;
  for (const int64_t place : places) result.push_back(x.at(static_cast<size_t>(place)));
  return result;
}

std::vector<Walk> as_stored(const Dims& sizes) {
  std::vector<Walk> axes(sizes.size());
  int64_t step = 1;
  for (size_t axis = sizes.size(); axis-- > 0; step *= sizes[axis]) axes[axis] = {sizes[axis], step};
  return axes;
}

KnownValues sliced(const Operation& operation, int, const Operands& x) {
  const Attributes& a = operation.attributes;
  std::vector<Walk> axes = as_stored(operation.input(0)->shape().dims());
  for (std::string_view key : {"starts", "ends", "strides"}) {
    if (a.integers(key).size() != axes.size()) return unknown;
  }
  int64_t first = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (a.integers("strides")[i] == 0) return unknown;
    const std::optional<ops::SliceRange> range = ops::slice_range(a, static_cast<int>(i), axes[i].count);
    if (!range) return unknown;
    first += range->start * axes[i].step;
    axes[i] = {range->count, range->stride * axes[i].step};
  }
  return walked(*x[0], first, axes);
}

KnownValues transposed(const Operation& operation, int, const Operands& x) {
  const std::vector<Walk> from = as_stored(operation.input(0)->shape().dims());
  std::vector<Walk> axes;
  for (const int64_t axis : operation.attributes.integers("permutation"))
    axes.push_back(from.at(static_cast<size_t>(axis)));
  return walked(*x[0], 0, axes);
}

KnownValues sliced_from(const Operation& operation, int, const Operands& x) {
  if (!is_vector(operation.input(0)) || x.size() != 2 || x[1]->size() != 1 || !(*x[1])[0]) return unknown;
  const int64_t stride = ops::window_strides(operation.attributes, 1)[0], size = operation.output()->shape()[0];
  const auto start = ops::window_start(*(*x[1])[0], size, stride, static_cast<int64_t>(x[0]->size()));
  if (!start) return unknown;
  KnownValues result;
  for (int64_t i = 0; i < size; ++i) result.push_back((*x[0])[static_cast<size_t>(*start + i * stride)]);
  return result;
}

KnownValues gathered(const Operation& operation, int, const Operands& x) {
  if (!is_vector(operation.input(0)) || operation.attributes.integer("batch_dimensions") != 0) return unknown;
  KnownValues result;
  for (const Element& index : *x[1]) {
    const bool inside = index && *index >= 0 && *index < static_cast<int64_t>(x[0]->size());
    result.push_back(inside ? (*x[0])[static_cast<size_t>(*index)] : std::nullopt);
  }
  return result;
}

KnownValues selected(const Operation&, int, const Operands& x) {
  return elementwise(x, [](auto at) -> Element {
    const Element predicate = at(0);
    return predicate ? at(*predicate ? 1 : 2) : std::nullopt;
  });
}

KnownValues clamped(const Operation& operation, int, const Operands& x) {
  const auto within = [](auto value, auto low, auto high) { return std::min(std::max(value, low), high); };
  return elementwise(x, [&](auto at) -> Element {
    const Element value = at(0), low = at(1), high = at(2);
    return value && low && high ? Element(apply(within, operation, *value, *low, *high)) : std::nullopt;
  });
}

KnownValues broadcast(const Operation& operation, int, const Operands& x) {
  const int64_t count = operation.output()->shape().elements();
  if (x[0]->size() == 1) return KnownValues(static_cast<size_t>(count), x[0]->front());
  return static_cast<int64_t>(x[0]->size()) == count ? *x[0] : unknown;
}

KnownValues stacked(const Operation& operation, int, const Operands& x) {
  return is_vector(operation.output()) ? concatenated(operation, 0, x) : unknown;
}

const KindTable<Rule>& rules() {
  static const KindTable<Rule> table = {
      {"identity", as_it_is},
      {"optimization_barrier", as_it_is},
      {"cast", as_it_is},
      {"reshape", as_it_is},
      {"squeeze", as_it_is},
      {"expand_dims", as_it_is},
      {"flatten2d", as_it_is},
      {"concat", concatenated},
      {"stack", stacked},
      {"split", split_part},
      {"slice", sliced},
      {"transpose", transposed},
      {"dynamic_slice", sliced_from},
      {"gather", gathered},
      {"broadcast_to", broadcast},
      {"select", selected},
      {"clamp", clamped},
      {"negative", unary([](uint64_t x) { return 0 - x; })},
      {"absolute", unary([](auto x) { return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); })},
      {"square", unary([](uint64_t x) { return x * x; })},
      {"sign", unary([](auto x) { return int{x > 0} - int{x < 0}; })},
      {"not", unary([](auto x) { return x == 0; })},
      {"addition", binary([](uint64_t a, uint64_t b) { return a + b; })},
      {"subtraction", binary([](uint64_t a, uint64_t b) { return a - b; })},
      {"multiplication", binary([](uint64_t a, uint64_t b) { return a * b; })},
      {"minimum", binary([](auto a, auto b) { return std::min(a, b); })},
      {"maximum", binary([](auto a, auto b) { return std::max(a, b); })},
      {"division", division([](auto a, auto b) { return a / b; })},
      {"modulo", division([](auto a, auto b) { return a % b; })},
      {"floor_modulo", division([](auto a, auto b) {
         const auto rest = a % b;
         return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;  // opposite signs, so the sum cannot overflow
       })},
      {"equal", binary([](auto a, auto b) { return a == b; })},
      {"not_equal", binary([](auto a, auto b) { return a != b; })},
      {"less_than", binary([](auto a, auto b) { return a < b; })},
      {"less_than_or_equal_to", binary([](auto a, auto b) { return a <= b; })},
      {"greater_than", binary([](auto a, auto b) { return a > b; })},
      {"greater_than_or_equal_to", binary([](auto a, auto b) { return a >= b; })},
      {"logical_and", binary([](auto a, auto b) { return a && b; })},
      {"logical_or", binary([](auto a, auto b) { return a || b; })},
      {"reduction_sum", reduction([](uint64_t a, uint64_t b) { return a + b; }, 0)},
      {"reduction_product", reduction([](uint64_t a, uint64_t b) { return a * b; }, 1)},
      {"reduction_minimum", reduction([](auto a, auto b) { return std::min(a, b); }, std::nullopt)},
      {"reduction_maximum", reduction([](auto a, auto b) { return std::max(a, b); }, std::nullopt)},
      {"reduction_and", reduction([](auto a, auto b) { return a && b; }, 1)},
      {"reduction_or", reduction([](auto a, auto b) { return a || b; }, 0)},
  };
  return table;
}

// The number of elements if the evaluator supports this tensor, otherwise nullopt.
std::optional<size_t> countable(const Tensor* tensor) {
  if (is_inexact(tensor->dtype()) || !tensor->shape().known()) return std::nullopt;
  const int64_t count = tensor->shape().elements();
  return count <= max_elements ? std::optional(static_cast<size_t>(count)) : std::nullopt;
}

bool can_follow(const Operation& operation) {
  return rules().contains(operation.kind()) &&
         static_cast<int>(operation.inputs.size()) >= operation.definition->min_inputs;
}

// The elements of a tensor that are known without evaluating operands: those of constants and of static shapes. For
// every other operation, all elements are unknown.
KnownValues leaf(const Tensor* tensor, size_t count) {
  const Operation& operation = *tensor->operation;
  KnownValues result(count);
  if (operation.is("constant")) {
    const Ints values = operation.attributes.data("value")->integers();
    result.assign(values.begin(), values.end());
  } else if (operation.is("shape_of") && operation.inputs.size() == 1) {
    const Shape& shape = operation.input(0)->shape();
    if (!shape.ranked() || shape.dims().size() != count) return result;
    for (size_t i = 0; i < count; ++i) {
      if (const int64_t d = shape.dims()[i]; d >= 0) result[i] = d;
    }
  }
  return result;
}

}  // namespace

bool is_shape_arithmetic(Kind kind) { return kind == "shape_of" || kind == "constant" || rules().contains(kind); }

std::optional<KnownValues> known_values(const Tensor* tensor) {
  const std::optional<size_t> length = countable(tensor);
  if (!length) return std::nullopt;
  if (!can_follow(*tensor->operation)) return leaf(tensor, *length);
  std::unordered_map<const Tensor*, KnownValues> known;
  std::vector<const Tensor*> stack = {tensor};
  size_t looked_at = 0;
  while (!stack.empty()) {
    const Tensor* t = stack.back();
    if (known.contains(t)) {
      stack.pop_back();
      continue;
    }
    const Operation& operation = *t->operation;
    const std::optional<size_t> count = countable(t);
    if (!count || !can_follow(operation)) {
      known[t] = count ? leaf(t, *count) : unknown;
      stack.pop_back();
      continue;
    }
    const size_t height = stack.size();
    for (const Tensor* input : operation.inputs) {
      if (!known.contains(input)) stack.push_back(input);
    }
    if (stack.size() > height) {
      if (++looked_at > max_operations) return KnownValues(*length);
      continue;
    }
    stack.pop_back();
    KnownValues result;
    try {
      // Rules require operands with a known number of elements.
      const bool all_countable = std::all_of(operation.inputs.begin(), operation.inputs.end(), countable);
      Operands operands;
      for (const Tensor* input : operation.inputs) operands.push_back(&known[input]);
      if (all_countable) result = (*rules().find(operation.kind()))(operation, t->index, operands);
    } catch (const std::exception&) {  // Text that verify() has not checked yet may lack an attribute.
      result.clear();
    }
    if (result.size() != *count) result.assign(*count, std::nullopt);
    for (Element& e : result) e = wrap(t->dtype(), e);
    known[t] = std::move(result);
  }
  return known[tensor];
}

std::optional<Ints> constant_value(const Tensor* tensor) {
  if (is_inexact(tensor->dtype())) return std::nullopt;
  if (tensor->operation->is("constant")) return tensor->operation->attributes.data("value")->integers();
  const std::optional<KnownValues> values = known_values(tensor);
  if (!values) return std::nullopt;
  Ints result;
  for (const Element& e : *values) {
    if (!e) return std::nullopt;
    result.push_back(*e);
  }
  return result;
}

}  // namespace mpsgraph
