// Calls of other graphs' executables: their operations become a part of the caller's.
//
// MPSGraph has calls by symbol since macOS 15, of MPSGraphExecutables, which only programs without variables are here.
// For these a copy in the caller's MPSGraph computes the same on every system.
#include "backends/metal/program.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::metal {
namespace {

GraphTensors lower_call(Lowering& l) {
  const std::string& symbol = l.attributes().string("symbol");
  const auto callable = l.program.program.callables.find(symbol)->second;
  const auto executable = std::dynamic_pointer_cast<runtime::Executable>(callable);
  if (!executable)
    l.unsupported(cat("'", symbol, "' is code of the host, which cannot run in the middle of a command buffer; use ",
                      "Device(\"cpu\")"));
  const auto compiled = std::dynamic_pointer_cast<MetalProgram>(executable->compiled());
  if (!compiled)
    l.unsupported(cat("the shapes in '", symbol, "' depend on values, which only a program of its own can wait for; ",
                      "run it by itself, or use Device(\"cpu\") for both graphs"));
  if (!compiled->program().variables.empty())
    l.unsupported(cat("'", symbol,
                      "' has variables, which only the MPSGraph of their own graph can use; give it their ",
                      "values as operands, run it by itself, or use Device(\"cpu\") for both graphs"));
  ProgramLowering called(l.graph(), compiled->program(), {});
  called.intact = l.program.intact;
  GraphTensors results = called.lower_within(l.inputs);
  for (MPSGraphTensor* __strong& result : results)  // which may be operands as they are
    if (result) result = [l.graph() identityWithTensor:result name:l.name()];
  if (!called.reports.empty() && l.operation.parent->owner)
    l.unsupported(cat("'", symbol, "' prints or checks, which a call within a block of control flow cannot; use ",
                      "Device(\"cpu\"), or call it outside"));
  l.program.reports.insert(l.program.reports.end(), called.reports.begin(), called.reports.end());
  l.program.intact = called.intact;
  l.program.names.insert(l.program.names.end(), called.names.begin(), called.names.end());
  return results;
}

}  // namespace

const Lowerings call_lowerings("call", [] { define_lowering("call", lower_call); });

}  // namespace mpsgraph::metal
