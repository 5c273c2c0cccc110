// Family call: an executable of another graph as one operation, found by its symbol when the graph is compiled.
//
// What stands behind the symbol is stated by the compilation's callables, so the graph only knows the types of the
// results. The executable may change variables of its own graph: a call is never merged with another, and one that is a
// target operation runs. Nothing here can be differentiated, since the executable is no part of the graph.
#include "core/definition.h"

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

}  // namespace

const Family call_family("call", [] {
  define({.name = "call",
          .max_inputs = -1,
          .attributes = {required("symbol", AttributeKind::string), required("types", AttributeKind::types)},
          .infer = infer_call,
          .has_effect = true});
});

}  // namespace mpsgraph::ops
