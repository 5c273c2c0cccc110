// call: another executable's program run within this one, on the same thread, over the memory of this one's values.
//
// Types were compared when the program was compiled. What the other needs for its run, arrays and a frame, is its own.
#include "backends/cpu/lowering.h"
#include "backends/cpu/parallel.h"
#include "mpsgraph/compiler/threaded_callable.h"

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
        if (const auto threaded = std::dynamic_pointer_cast<compiler::ThreadedCallable>(callable))
          threaded->call_with(places(operands), places(results),
                              [](int64_t items, const auto& f) { parallel_parts(items, f); });
        else
          callable->call(places(operands), places(results));
      },
      cat("'", operation.attributes.string("symbol"), "'"));
}

}  // namespace mpsgraph::cpu
