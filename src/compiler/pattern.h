// Patterns describe how a tensor is computed: by which kinds of operations, from which operands. Rules (rule.h) and
// fusions match them instead of comparing kinds and operands one by one.
//
//   op("addition", x, op("negative", y))    matches a + (-b) and (-b) + a, and captures a as x and b as y
//   op("multiplication", x, x)              matches a product of a tensor and itself
//   op("power", x, 2)                       matches a power whose exponent is 2
//   op({"ceil", "floor"}).as(x)             matches ceil or floor of anything, and captures the result as x
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

// The names of captured tensors.
enum class Capture : uint8_t { x, y, z, any };  // `any` captures nothing
struct Captured : std::array<const Tensor*, static_cast<size_t>(Capture::any)> {  // null if not captured
  const Tensor*& operator[](Capture name) { return array::operator[](static_cast<size_t>(name)); }
  const Tensor* operator[](Capture name) const { return array::operator[](static_cast<size_t>(name)); }
};

class Pattern {
 public:
  Pattern(Capture capture) : capture_(capture) {}      // any tensor
  Pattern(double number) : number_(number) {}          // a constant whose elements all equal the number
  Pattern(Kinds kinds, std::vector<Pattern> operands)  // a result of one of these kinds; any operands if there are none
      : kinds_(kinds), operands_(std::move(operands)) {}

  Pattern as(Capture capture) const;  // the same pattern, which also captures the tensor itself

  const std::vector<Kind>& kinds() const { return kinds_; }
  // Whether the pattern describes the tensor. Matching captures tensors; a name that is captured twice must stand for
  // the same tensor. The operands of commutative operations match in both orders.
  bool matches(const Tensor* tensor, Captured& captured) const;
  // Whether the pattern's operands describe the inputs of an operation. For commutative operations, the caller can try
  // the other order with `swapped`.
  bool matches_inputs(std::span<Tensor* const> inputs, bool swapped, Captured& captured) const;

 private:
  std::vector<Kind> kinds_;
  std::vector<Pattern> operands_;
  std::optional<double> number_;
  Capture capture_ = Capture::any;
};

template <std::convertible_to<Pattern>... Operands>
Pattern op(Kind kind, Operands... operands) {
  return {Kinds{kind}, std::vector<Pattern>{Pattern(operands)...}};
}
template <std::convertible_to<Pattern>... Operands>
Pattern op(Kinds kinds, Operands... operands) {
  return {kinds, std::vector<Pattern>{Pattern(operands)...}};
}

// Whether the operation has two operands whose order does not matter, not even for NaN.
bool commutes(const Operation& operation);

// The value shared by all elements of a constant; nullopt if the tensor is not such a constant.
std::optional<double> number_of(const Tensor* tensor);

}  // namespace mpsgraph::compiler
