// Calls of other graphs' executables, whose operations become part of the caller.
//
// Since macOS 15, MPSGraph can call an MPSGraphExecutable by symbol. Copying the operations into the caller's MPSGraph
// has the same result on every system.
#include "backends/metal/program.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_call(Lowering& l) {
  const std::string& symbol = l.attributes().string("symbol");
  const auto callable = l.program.program.callables.find(symbol)->second;
  const auto executable = std::dynamic_pointer_cast<runtime::Executable>(callable);
  if (!executable)
    l.unsupported(cat("'", symbol, "' is host code, which cannot run inside a command buffer; use device=\"cpu\""));
  const auto compiled = std::dynamic_pointer_cast<MetalProgram>(executable->compiled());
  if (!compiled)
    l.unsupported(cat("'", symbol, "' has shapes that depend on values, so it cannot be part of another graph; ",
                      "run it separately, or use device=\"cpu\" for both graphs"));
  if (!compiled->program().variables.empty())
    l.unsupported(
        cat("'", symbol,
            "' has variables, which cannot be accessed from another graph on the Metal device; pass their values as "
            "operands, run it separately, or use device=\"cpu\" for both graphs"));
  ProgramLowering called(l.graph(), compiled->program(), {});
  called.intact = l.program.intact;
  GraphTensors results = called.lower_within(l.inputs);
  for (MPSGraphTensor* __strong& result : results)  // a result can be an operand that the callee returns unchanged
    if (result) result = [l.graph() identityWithTensor:result name:l.name()];
  if (!called.reports.empty() && l.operation.parent->owner)
    l.unsupported(cat("'", symbol,
                      "' prints or checks indices, which is not possible in a call inside a control-flow block; "
                      "call it outside the block, or use device=\"cpu\""));
  l.program.reports.insert(l.program.reports.end(), called.reports.begin(), called.reports.end());
  l.program.intact = called.intact;
  l.program.names.insert(l.program.names.end(), called.names.begin(), called.names.end());
  return results;
}

}  // namespace

const Lowerings call_lowerings("call", [] { define_lowering("call", lower_call); });

}  // namespace mpsgraph::metal
