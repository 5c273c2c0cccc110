// call: another executable's program run within this one, on the same thread, over the memory of this one's values.
//
// Types were compared when the program was compiled. What the other needs for its run, arrays and a frame, is its own.
#include "backends/cpu/lowering.h"

namespace mpsgraph::cpu {

std::unique_ptr<Kernel> ProgramLowering::lower_call(Operation& operation) {
  const std::shared_ptr<compiler::Callable> callable =
      out_.program.callables.find(operation.attributes.string("symbol"))->second;
  std::vector<Slot> operands, results;
  for (Tensor* input : operation.inputs) operands.push_back(slot_of(input));
  for (const auto& output : operation.outputs) results.push_back(slot_of(output.get()));
  return kernel(
      [=](Frame& f) {
        const auto places = [&](const std::vector<Slot>& slots) {
          std::vector<std::byte*> pointers;
          for (Slot slot : slots) pointers.push_back(f.pointers[slot]);
          return pointers;
        };
        callable->call(places(operands), places(results));
      },
      cat("'", operation.attributes.string("symbol"), "'"));
}

}  // namespace mpsgraph::cpu
