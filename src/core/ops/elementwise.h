// Declarations shared by element-wise definitions: the classes of dtypes that operations accept, numpy broadcasting,
// and the structure of a definition. The operations are in arithmetic.cpp, arithmetic_complex.cpp, and activation.cpp.
#pragma once

#include <utility>
#include <vector>

#include "core/definition.h"

namespace mpsgraph::ops {

enum class Operands {
  any,
  ordered,  // all dtypes except complex ones
  algebraic,  // integer, float, and complex dtypes
  numbers,  // integer and float dtypes
  analytic,  // float and complex dtypes
  floats,
  integers,
  booleans
};

inline void require(const InferContext& c, size_t i, Operands wanted) {
  const DType d = c.dtype(i);
  const bool complex_refused = wanted == Operands::ordered || wanted == Operands::numbers || wanted == Operands::floats;
  if (complex_refused && is_complex(d)) {
    c.dtype_error(
        cat("operand must not be complex, got ", d, ": take its real_part, imaginary_part or absolute first"));
  }
  switch (wanted) {
    case Operands::any:
    case Operands::ordered: return;
    case Operands::floats: return c.require_float(i);
    case Operands::analytic: return c.require_inexact(i);
    case Operands::algebraic:
    case Operands::numbers:
      if (d == DType::boolean) c.dtype_error("operand must be numeric, got bool: cast it to float32 or int32 first");
      return;
    case Operands::integers:
      if (!is_integer(d)) c.dtype_error(cat("operand must be an integer tensor, got ", d, ": cast it to int32 first"));
      return;
    case Operands::booleans:
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

inline OperationDefinition elementwise(std::string_view name, int operands, Infer infer, Gradient gradient) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = operands;
  d.infer = std::move(infer);
  d.gradient_is_zero = !gradient;
  d.gradient = std::move(gradient);
  d.elementwise = true;
  return d;
}

}  // namespace mpsgraph::ops
