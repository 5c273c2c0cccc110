// A helper that builds an operation's definition from its operand count, attributes, inference, and derivative. Rarely
// used properties (decompositions, flags) are set on the result before define().
#pragma once

#include <utility>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

struct Arity {
  int least, most;
  Arity(int exactly) : least(exactly), most(exactly) {}
  Arity(int least, int most) : least(least), most(most) {}
};
inline constexpr int any_number = -1;

inline OperationDefinition primitive(Kind name, Arity arity, std::vector<AttributeSpec> attributes, Infer infer,
                                     Gradient gradient) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = arity.least;
  d.max_inputs = arity.most;
  d.attributes = std::move(attributes);
  d.infer = std::move(infer);
  d.gradient = std::move(gradient);
  return d;
}

}  // namespace mpsgraph::ops
