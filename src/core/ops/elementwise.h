// Declarations shared by element-wise definitions: checks of dtypes, numpy broadcasting, and the structure of a
// definition. The operations are in arithmetic.cpp, arithmetic_binary.cpp, arithmetic_complex.cpp, and activation.cpp.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

inline void require(const InferContext& c, size_t i, DTypeClass wanted) {
  const DType d = c.dtype(i);
  const bool complex_refused =
      wanted == DTypeClass::ordered || wanted == DTypeClass::numbers || wanted == DTypeClass::floats;
  if (complex_refused && is_complex(d)) {
    c.dtype_error(
        cat("operand must not be complex, got ", d, ": take its real_part, imaginary_part or absolute first"));
  }
  switch (wanted) {
    case DTypeClass::any:
    case DTypeClass::ordered: return;
    case DTypeClass::floats: return c.require_float(i);
    case DTypeClass::analytic: return c.require_inexact(i);
    case DTypeClass::algebraic:
    case DTypeClass::numbers:
      if (d == DType::boolean) c.dtype_error("operand must be numeric, got bool: cast it to float32 or int32 first");
      return;
    case DTypeClass::integers:
      if (!is_integer(d)) c.dtype_error(cat("operand must be an integer tensor, got ", d, ": cast it to int32 first"));
      return;
    case DTypeClass::complexes:
      if (!is_complex(d))
        c.dtype_error(cat("operand must be complex, got ", d, ": a real tensor has no parts, use it directly"));
      return;
    case DTypeClass::booleans:
      if (d != DType::boolean)
        c.dtype_error(cat("operand must be bool, got ", d, ": compare it, e.g. not_equal(x, 0), or cast it to bool"));
      return;
  }
}

inline Shape broadcast_shapes(const InferContext& c) {
  Shape result = c.shape(0);
  for (size_t i = 1; i < c.count(); ++i) {
    auto merged = broadcast(result, c.shape(i));
    if (!merged) {
      c.shape_error(cat("operand shapes ", c.shape(0), " and ", c.shape(i),
                        " cannot be broadcast: dimensions, aligned from the last, must be equal or 1"));
    }
    result = *merged;
  }
  return result;
}

// Builds a definition whose operands are all of its `parameters`.
inline OperationDefinition elementwise(Kind name, std::string_view parameters, DTypeClass dtypes,
                                       std::string_view documentation, Infer infer, Gradient gradient) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = 1 + static_cast<int>(std::ranges::count(parameters, ','));
  d.parameters = parameters;
  d.dtypes = dtypes;
  d.documentation = documentation;
  d.infer = std::move(infer);
  d.gradient_is_zero = !gradient;
  d.gradient = std::move(gradient);
  d.elementwise = true;
  return d;
}

// Builds a definition whose operands all have the same dtype, which must be one of `dtypes`. The result has that dtype,
// or bool for predicates.
inline OperationDefinition pointwise(Kind name, std::string_view parameters, DTypeClass dtypes, bool predicate,
                                     std::string_view documentation, Gradient gradient) {
  const auto infer = [=](const InferContext& c) -> std::vector<TensorType> {
    require(c, 0, dtypes);
    c.require_same_dtype();
    return {{predicate ? DType::boolean : c.dtype(0), broadcast_shapes(c)}};
  };
  OperationDefinition d = elementwise(name, parameters, dtypes, documentation, infer, std::move(gradient));
  d.predicate = predicate;
  return d;
}

}  // namespace mpsgraph::ops
