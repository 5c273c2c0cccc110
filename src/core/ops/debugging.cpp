// Operation family debugging: operations that observe or abort a run. MPSGraph has no such operations
// (docs/decisions/0037).
//
// `print` returns its operand unchanged and passes the operand's text to the print handler
// (mpsgraph/runtime/printing.h). `check` ends the run if an element of its condition is false, if possible before the
// run has had any effect. The compiler's pass `indices` replaces `check` with check_indices, which every device
// supports.
#include "core/ops/primitive.h"

namespace mpsgraph::ops {
namespace {

std::vector<TensorType> infer_print(const InferContext& c) {
  if (const int64_t shown = c.attributes.integer("summarize"); shown < -1 || shown == 0)
    c.graph_error(
        cat("summarize must be at least 1 (elements shown at each end of an axis) or -1 (show all), got ", shown));
  return {c.type(0)};
}

void d_print(GradientContext& g) { g.set(0, g.incoming()); }

std::vector<TensorType> infer_check(const InferContext& c) {
  if (c.dtype(0) != DType::boolean)
    c.dtype_error(
        cat("the condition '", c.inputs[0]->name(), "' must be bool, got ", c.dtype(0), "; compare it first"));
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
  // The internal operation report_prints is for devices that cannot print during a run. Its operands are the values
  // that `print` operations in blocks have received; the host prints them.
  OperationDefinition report = primitive("report_prints", {1, any_number}, {}, infer_report, nullptr);
  report.has_effect = true;
  report.internal = true;
  define(std::move(report));
});

}  // namespace mpsgraph::ops
