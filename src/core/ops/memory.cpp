// Operation family memory: placeholders, constants, variables, reading and assigning variables, and the internal values
// of blocks.
//
// A variable's tensor represents the variable itself, not its value; `read` returns the value that the variable has
// when the read is executed.
#include "core/definition.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> stated_type(const InferContext& c) { return {c.attributes.type("type")}; }

std::vector<TensorType> value_type(const InferContext& c) {
  const ConstantData& value = *c.attributes.data("value");
  return {{value.dtype(), value.dims()}};
}

void require_variable(const InferContext& c) {
  const Operation& operation = *c.inputs[0]->operation;
  if (!operation.is("variable")) {
    c.graph_error(cat("operand 0 must be a variable, got '", c.inputs[0]->name(), "', a result of ", operation.kind()));
  }
}

std::vector<TensorType> infer_read(const InferContext& c) {
  require_variable(c);
  return {c.type(0)};
}

// Derivative of read: the variable gets the incoming gradient. gradients() then sums the gradients of all reads of a
// variable.
void d_read(GradientContext& g) { g.set(0, g.incoming()); }

std::vector<TensorType> infer_assign(const InferContext& c) {
  require_variable(c);
  const std::string_view variable = c.inputs[0]->operation->name;
  if (c.dtype(1) != c.dtype(0)) {
    c.dtype_error(cat("value must have the dtype ", c.dtype(0), " of variable '", variable, "', got '",
                      c.inputs[1]->name(), "' of ", c.dtype(1), "; cast the value to ", c.dtype(0), " first"));
  }
  if (!compatible(c.shape(1), c.shape(0))) {
    c.shape_error(cat("value must have the fixed shape ", c.shape(0), " of variable '", variable, "', got '",
                      c.inputs[1]->name(), "' of shape ", c.shape(1)));
  }
  return {};
}

// Returns operand 0 as it is. No pass removes the operation, moves it before its other operands, or merges operations
// that use its result with operations that use operand 0. gradients() passes the operands of recomputed operations
// through barriers that also take the incoming gradients.
std::vector<TensorType> infer_barrier(const InferContext& c) { return {c.type(0)}; }

void d_barrier(GradientContext& g) { g.set(0, g.incoming()); }

}  // namespace

const Family memory_family("memory", [] {
  define({.name = "placeholder",
          .attributes = {required("type", AttributeKind::type)},
          .infer = stated_type,
          .root_only = true});
  define({.name = "constant", .attributes = {required("value", AttributeKind::data)}, .infer = value_type});
  define({.name = "variable",
          .attributes = {required("value", AttributeKind::data)},
          .infer = value_type,
          .root_only = true});
  define({.name = "read",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_read,
          .gradient = d_read,
          .takes_variables = true});
  define({.name = "assign",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_assign,
          .has_effect = true,
          .takes_variables = true});
  // Mark the operations between them (core/recomputation.h). Programs do not contain these marks.
  for (const Kind mark : Kinds{"recomputation_begin", "recomputation_end"})
    define({.name = mark, .infer = [](const InferContext&) { return std::vector<TensorType>(); }, .internal = true});
  define({.name = "optimization_barrier",
          .min_inputs = 1,
          .max_inputs = -1,
          .infer = infer_barrier,
          .gradient = d_barrier,
          .internal = true});
  define({.name = "argument",
          .attributes = {required("type", AttributeKind::type)},
          .infer = stated_type,
          .internal = true});
  define({.name = "undefined",
          .attributes = {required("type", AttributeKind::type)},
          .infer = stated_type,
          .gradient_is_zero = true,
          .internal = true});

  describe("read", "variable", DTypeClass::any, R"(
Read the value of a variable at this point in the order of creation.

Args:
    variable: A variable of this graph.
Returns: A tensor with the shape and dtype of the variable.
Raises:
    GraphError: If variable is not a variable.
Gradient: the incoming gradient to the variable.
Source: MPSGraph readVariable:name:.
>>> v = g.variable([1.0])
>>> before, _, after = g.read(v), g.assign(v, g.constant([5.0])), g.read(v)
>>> g.run({}, before).tolist()
[1.0])");
});

}  // namespace mpsgraph::ops
