// Operation family call: an executable of another graph used as one operation. The executable is looked up by its
// symbol when the graph is compiled.
//
// The compilation's callables define what a symbol refers to, so the graph itself only stores the types of the results.
// Because the executable may change variables of its own graph, a call is never merged with another call, and a call
// that is a target operation always runs. Differentiation cannot see inside the executable. Only linear calls are
// therefore differentiable, and each must name the callable that is its transpose. A sum over processes, for example,
// is its own transpose.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_call(const InferContext& c) {
  if (c.attributes.string("symbol").empty()) c.graph_error("symbol must not be empty: pass the name of a callable");
  const Types& types = c.attributes.types("types");
  for (const TensorType& type : types)
    if (!type.shape.known())
      c.shape_error(
          cat("each result type must have a static shape, because executables have static shapes, got ", type));
  return types;
}

// Differentiates a call by calling its transpose, which maps the gradients of the results to the gradients of the
// operands. The transpose of the transpose is the original call.
void d_call(GradientContext& g) {
  const std::string& symbol = g.attributes().string("symbol");
  const std::string& transpose = g.attributes().string("transpose");
  if (transpose.empty())
    throw GraphError(cat("[call] '", g.operation.name, "' has no gradient, but a gradient through it was requested: ",
                         "if the call is linear, set its attribute 'transpose' to the symbol of its transpose",
                         g.operation.where()));
  Builder b(g.graph());
  std::vector<Tensor*> incoming;
  for (size_t i = 0; i < g.incoming_count(); ++i)
    incoming.push_back(g.incoming(i) ? g.incoming(i) : b.zeros_like(g.output(i)));
  Types types;
  for (const Tensor* input : g.operation.inputs) types.push_back(input->type);
  const Operation* transposed =
      g.graph().create("call", incoming, {{"symbol", transpose}, {"types", types}, {"transpose", symbol}});
  for (size_t i = 0; i < types.size(); ++i)
    if (g.needs(i)) g.set(i, transposed->output(i));
}

}  // namespace

const Family call_family("call", [] {
  define({.name = "call",
          .max_inputs = -1,
          .attributes = {required("symbol", AttributeKind::string), required("types", AttributeKind::types),
                         optional("transpose", std::string())},
          .infer = infer_call,
          .gradient = d_call,
          .has_effect = true});
});

}  // namespace mpsgraph::ops
