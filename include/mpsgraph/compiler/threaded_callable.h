// ThreadedCallable: a Callable that can use its caller's threads, and that may lend its own memory to avoid copies of
// operands and results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mpsgraph/compiler/options.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// A function that calls f(item) for each item in [0, items), on several threads if available.
using ForEach = std::function<void(int64_t items, const std::function<void(int64_t item)>& f)>;

// A callable whose work its caller's threads can share.
class MPSGRAPH_API ThreadedCallable : public Callable {
 public:
  // Does the same work as call(), but distributes it with `threads`.
  virtual void call_with(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results,
                         const ForEach& threads) = 0;
  void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) override {
    call_with(operands, results, [](int64_t items, const auto& f) {
      for (int64_t item = 0; item < items; ++item) f(item);
    });
  }

  // Identifies the callable's own memory: callables that return the same address share memory. Null if it has no memory
  // to lend.
  virtual const void* memory() const { return nullptr; }
  // Returns memory into which the caller may compute an operand during this run, so that call_with() need not copy it.
  // Returns null if the caller can compute the operand anywhere.
  virtual std::byte* operand_place(size_t operand) {
    static_cast<void>(operand);
    return nullptr;
  }
  // Whether results stay in the callable's memory. If so, the result pointers passed to call_with() are null, and
  // result_place() returns where the results are. They are valid until the next call that uses this memory.
  virtual bool lends_results() const { return false; }
  virtual std::byte* result_place(size_t result) {
    static_cast<void>(result);
    return nullptr;
  }
};

}  // namespace mpsgraph::compiler
