// Family debugging: looking into a run and ending it. MPSGraph has neither (docs/decisions/0037).
//
// `print` gives its operand as it is, and the text of it to whoever listens (mpsgraph/runtime/printing.h). `check` ends
// the run where an element of its condition is false, before the run's effects where that can be: pass `indices` makes
// a check_indices of it, which every device has.
#include "core/ops/primitive.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_print(const InferContext& c) {
  if (const int64_t shown = c.attributes.integer("summarize"); shown < -1 || shown == 0)
    c.graph_error(
        cat("summarize is how many elements are shown at each end of an axis, 1 or more, or -1 for all; got ", shown));
  return {c.type(0)};
}

void d_print(GradientContext& g) { g.set(0, g.incoming()); }

std::vector<TensorType> infer_check(const InferContext& c) {
  if (c.dtype(0) != DType::boolean)
    c.dtype_error(
        cat("a condition is bool, '", c.inputs[0]->name(), "' is ", c.dtype(0), "; compare it with something first"));
  return {};
}

std::vector<TensorType> infer_report(const InferContext&) { return {}; }

}  // namespace

const Family debugging_family("debugging", [] {
  OperationDefinition print = primitive(
      "print", 1, {optional("message", std::string()), optional("summarize", int64_t{3})}, infer_print, d_print);
  print.has_effect = true;
  define(std::move(print));
  OperationDefinition check = primitive("check", 1, {required("message", AttributeKind::string)}, infer_check, nullptr);
  check.has_effect = true;
  define(std::move(check));
  // Of devices that cannot print where they are: what the blocks of an operation have printed, for the host to read.
  OperationDefinition report = primitive("report_prints", {1, any_number}, {}, infer_report, nullptr);
  report.has_effect = true;
  report.internal = true;
  define(std::move(report));
});

}  // namespace mpsgraph::ops
