// call: runs another executable's program within this one, on the same thread, directly on the memory of this program's
// values.
//
// Types were checked when the program was compiled. The callee has separate arrays and a separate frame. A callable
// that owns memory lends it to the calling program, which computes the operands of the call in that memory. The results
// of the call also stay in that memory, unless a later call overwrites them.
#include "backends/cpu/lowering.h"
#include "backends/cpu/parallel.h"
#include "mpsgraph/compiler/threaded_callable.h"

namespace mpsgraph::cpu {

namespace {

std::shared_ptr<compiler::ThreadedCallable> threaded_callable(const compiler::Program& program,
                                                              const Operation& operation) {
  return std::dynamic_pointer_cast<compiler::ThreadedCallable>(
      program.callables.find(operation.attributes.string("symbol"))->second);
}

// Count the `call` operations in a block, including nested blocks, whose callable lends `memory` to the caller.
int uses_of_memory(const compiler::Program& program, const Block& block, const void* memory) {
  int uses = 0;
  for (const auto& operation : block.operations) {
    if (operation->is("call"))
      if (const auto callable = threaded_callable(program, *operation)) uses += callable->memory() == memory;
    for (const auto& inner : operation->blocks) uses += uses_of_memory(program, *inner, memory);
  }
  return uses;
}

// Return whether `taking` is the last call in the program whose callable lends `memory` to the caller, and at most one
// such call precedes it. If so, the results may stay in that memory, because no later call overwrites them.
bool uses_memory_last(const compiler::Program& program, const Operation& taking, const void* memory) {
  const Block& root = program.graph->root();
  if (!memory || uses_of_memory(program, root, memory) > 2) return false;
  bool found = false;
  for (const auto& operation : root.operations) {
    if (operation.get() == &taking) {
      found = true;
      continue;
    }
    if (!found) continue;
    if (operation->is("call"))
      if (const auto other = threaded_callable(program, *operation); other && other->memory() == memory) return false;
    for (const auto& inner : operation->blocks)
      if (uses_of_memory(program, *inner, memory) > 0) return false;
  }
  return found;
}

}  // namespace

std::unique_ptr<Kernel> ProgramLowering::lower_call(Operation& operation) {
  const std::shared_ptr<compiler::Callable> callable =
      out_.program.callables.find(operation.attributes.string("symbol"))->second;
  const auto threaded = std::dynamic_pointer_cast<compiler::ThreadedCallable>(callable);
  std::vector<Slot> operands, results;
  for (Tensor* input : operation.inputs) operands.push_back(slot_of(input));
  for (const auto& output : operation.outputs) results.push_back(slot_of(output.get()));
  if (threaded && threaded->memory() && depth_ == 0)
    for (size_t i = 0; i < operands.size(); ++i) offered_.push_back({operands[i], threaded, i});
  if (threaded && threaded->lends_results() && uses_memory_last(out_.program, operation, threaded->memory())) {
    for (Slot slot : results) {
      out_.slots[slot].home = Home::entered;
      out_.slots[slot].index = slot;
    }
    return kernel(
        [=](Frame& f) {
          threaded->call_with({}, std::vector<std::byte*>(results.size()),
                              [](int64_t items, const auto& f) { parallel_parts(items, f); });
          for (size_t i = 0; i < results.size(); ++i) f.pointers[results[i]] = threaded->result_place(i);
        },
        cat("'", operation.attributes.string("symbol"), "'"));
  }
  return kernel(
      [=](Frame& f) {
        const auto places = [&](const std::vector<Slot>& slots) {
          std::vector<std::byte*> pointers;
          for (Slot slot : slots) pointers.push_back(f.pointers[slot]);
          return pointers;
        };
        if (threaded)
          threaded->call_with(places(operands), places(results),
                              [](int64_t items, const auto& f) { parallel_parts(items, f); });
        else
          callable->call(places(operands), places(results));
      },
      cat("'", operation.attributes.string("symbol"), "'"));
}

}  // namespace mpsgraph::cpu
