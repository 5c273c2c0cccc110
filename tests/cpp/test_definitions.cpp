// Creates every defined operation with random and extreme operands and attributes.
//
// Each must be accepted or rejected with an mpsgraph error, without overflows or out-of-bounds accesses, which
// sanitizers would report. The verifier then checks inferred types and gradients. Values are not tested here.
#include <random>

#include "check.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/text.h"

using namespace mpsgraph;

namespace {

// Draws random shapes, dtypes, numbers, and attributes.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {
    for (const OperationDefinition* definition : all_definitions())
      for (const AttributeSpec& spec : definition->attributes)
        if (spec.kind == AttributeKind::string && spec.default_value)
          words_.push_back(std::get<std::string>(*spec.default_value));
  }

  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  template <class T, size_t count>
  T one_of(const T (&values)[count]) {
    return values[below(count)];
  }

  int64_t number() {
    constexpr int64_t extremes[] = {INT64_MIN,
                                    INT64_MIN + 1,
                                    -(int64_t{1} << 62),
                                    -17,
                                    -2,
                                    -1,
                                    0,
                                    1,
                                    2,
                                    3,
                                    16,
                                    17,
                                    int64_t{1} << 31,
                                    (int64_t{1} << 31) - 1,
                                    int64_t{1} << 60,
                                    int64_t{1} << 62,
                                    INT64_MAX};
    return below(3) ? static_cast<int64_t>(below(4)) : one_of(extremes);
  }
  Ints numbers(size_t count) {
    Ints values(count);
    for (int64_t& value : values) value = number();
    return values;
  }
  Shape shape(size_t rank) {
    constexpr int64_t sizes[] = {-1, 0, 1, 2, 3, 8, int64_t{1} << 40};
    Dims dims(rank);
    for (int64_t& dim : dims) dim = one_of(sizes);
    return below(8) ? Shape(std::move(dims)) : Shape();
  }
  DType dtype() {
    constexpr DType others[] = {DType::float16, DType::float64, DType::int32,    DType::int64,
                                DType::uint8,   DType::boolean, DType::complex64};
    return below(4) ? DType::float32 : one_of(others);
  }
  // Draw a value close to what the operation expects, so that some pass the first check.
  Attribute attribute(const AttributeSpec& spec) {
    if (spec.default_value && below(2)) {
      if (const Ints* usual = std::get_if<Ints>(&*spec.default_value)) return numbers(usual->size());
      return *spec.default_value;
    }
    switch (spec.kind) {
      case AttributeKind::boolean: return below(2) == 1;
      case AttributeKind::integer: return number();
      case AttributeKind::real: return below(2) ? 1.0 : std::numeric_limits<double>::infinity();
      case AttributeKind::string: return words_[below(words_.size())];
      case AttributeKind::integers: return numbers(below(9));
      case AttributeKind::dtype: return dtype();
      case AttributeKind::data: return ConstantData::of_ints(numbers(below(4)));
      case AttributeKind::type: return TensorType{dtype(), shape(below(5))};
      case AttributeKind::types: return Types(below(3), TensorType{dtype(), shape(below(5))});
    }
    return int64_t{0};
  }

 private:
  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

// Add an operation of this kind to the graph; return false if it was rejected.
bool ask(Draw& draw, Graph& graph, const OperationDefinition& definition) {
  Builder b(graph);
  constexpr size_t usual_ranks[] = {0, 1, 2, 3, 4, 4, 4, 5, 5, 6};
  const size_t rank = draw.one_of(usual_ranks);
  const Shape shape = draw.shape(rank);
  const DType dtype = draw.dtype();
  const size_t least = static_cast<size_t>(definition.min_inputs);
  const size_t most = definition.max_inputs < 0 ? least + 2 : static_cast<size_t>(definition.max_inputs);
  std::vector<Tensor*> inputs(least + draw.below(most - least + 1));
  try {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i > 0 && draw.below(3) == 0) {
        inputs[i] = b.ints(draw.numbers(draw.below(6)));
        continue;
      }
      const Shape own = draw.below(2) ? shape : draw.shape(draw.below(2) ? rank : draw.one_of(usual_ranks));
      inputs[i] = graph.add("placeholder", {}, {{"type", TensorType{draw.below(8) ? dtype : draw.dtype(), own}}});
    }
    Attributes attributes;
    for (const AttributeSpec& spec : definition.attributes)
      if (!spec.default_value || draw.below(3) == 0) attributes.set(spec.name, draw.attribute(spec));
    const Operation* made = graph.create(definition.name, inputs, attributes);
    if (made->outputs.empty() || !is_float(made->output(0)->dtype())) return true;
    std::vector<Tensor*> by;
    for (Tensor* input : inputs)
      if (is_float(input->dtype())) by.push_back(input);
    if (!by.empty()) gradients(made->output(0), by);
  } catch (const Error&) {
    return false;
  } catch (const std::exception& error) {
    check::fail(__FILE__, __LINE__,
                cat(definition.name, " threw an error that is not an mpsgraph::Error: ", error.what()));
  }
  return true;
}

}  // namespace

TEST(extreme_operands_and_attributes_are_typed_or_rejected) {
  Draw draw(4);
  size_t asked = 0, typed = 0;
  for (const OperationDefinition* definition : all_definitions()) {
    if (definition->block_count > 0 || definition->takes_variables || definition->root_only) continue;
    if (definition->name == "argument") continue;  // only created with blocks
    Graph graph;
    for (int i = 0; i < 1000; ++i, ++asked) typed += ask(draw, graph, *definition);
    verify(graph);
  }
  std::printf("%zu of %zu operations were accepted\n", typed, asked);
  CHECK(typed > asked / 50);
}
