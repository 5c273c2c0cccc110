// ThreadedCallable: a Callable that can share its work among the threads of whoever calls it.
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
};

}  // namespace mpsgraph::compiler
