// Family call: an executable of another graph as one operation, found by its symbol when the graph is compiled.
//
// What stands behind the symbol is stated by the compilation's callables, so the graph only knows the types of the
// results. The executable may change variables of its own graph: a call is never merged with another, and one that is a
// target operation runs. The executable is no part of the graph, so only linear ones can be differentiated, whose
// transpose another callable is: a sum over processes, for one, which is its own.
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_call(const InferContext& c) {
  if (c.attributes.string("symbol").empty()) c.graph_error("the symbol is empty: give it the name of a callable");
  const Types& types = c.attributes.types("types");
  for (const TensorType& type : types)
    if (!type.shape.known())
      c.shape_error(cat("the result's type ", type, " must have a known shape, for that is what executables have"));
  return types;
}

// The transpose takes the gradients of the results and gives those of the operands; its own transpose is the call.
void d_call(GradientContext& g) {
  const std::string& symbol = g.attributes().string("symbol");
  const std::string& transpose = g.attributes().string("transpose");
  if (transpose.empty())
    throw GraphError(cat("[call] '", g.operation.name, "' has no gradient, and a requested tensor reaches the ",
                         "differentiated one through it: a linear one has if it names its transpose",
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
