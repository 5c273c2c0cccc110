// ThreadedCallable: a Callable that can share its work among the threads of whoever calls it, and has memory of its own
// that the caller may use instead of copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mpsgraph/compiler/options.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// f(item) for each item in [0, items), on several threads where there are some.
using ForEach = std::function<void(int64_t items, const std::function<void(int64_t item)>& f)>;

class MPSGRAPH_API ThreadedCallable : public Callable {
 public:
  virtual void call_with(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results,
                         const ForEach& threads) = 0;
  void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) override {
    call_with(operands, results, [](int64_t items, const auto& f) {
      for (int64_t item = 0; item < items; ++item) f(item);
    });
  }

  // What two callables have in common that use the same memory; null: it has none to lend.
  virtual const void* memory() const { return nullptr; }
  // Where an operand may be computed in this run, which call_with then finds there; null: wherever the caller likes.
  virtual std::byte* operand_place(size_t operand) {
    static_cast<void>(operand);
    return nullptr;
  }
  // Do results stay in its memory? Then call_with is given null for their places, and result_place says where they are,
  // until the memory is called with again.
  virtual bool lends_results() const { return false; }
  virtual std::byte* result_place(size_t result) {
    static_cast<void>(result);
    return nullptr;
  }
};

}  // namespace mpsgraph::compiler
