// The users of each value, for passes that fuse operations and need to know whether intermediate values have other
// users.
#pragma once

#include <span>
#include <vector>

#include "compiler/program.h"
#include "compiler/tables.h"

namespace mpsgraph::compiler {

class Users {
 public:
  explicit Users(const Program& program) : ranges_(*program.graph) {
    const auto visit = [&](const auto& enter) {
      collect(program.graph->root(), enter);
      for (const Tensor* target : program.targets) enter(target, nullptr);
    };
    visit([&](const Tensor* value, const Operation*) { ranges_[value].count++; });
    size_t end = 0;
    ranges_.for_each([&](Range& range) {
      range.begin = end;
      end += range.count;
      range.count = 0;
    });
    all_.resize(end);
    visit([&](const Tensor* value, const Operation* user) {
      Range& range = ranges_[value];
      all_[range.begin + range.count++] = user;
    });
  }
  // The operations that use a value, in order, with one entry per operand. An entry is null if the value is a target or
  // a block's result.
  std::span<const Operation* const> of(const Tensor* value) const {
    const Range range = ranges_[value];
    return {all_.data() + range.begin, range.count};
  }
  // The operation that is the only user of a value; null if there are several uses or the only use is not an operation.
  const Operation* only(const Tensor* value) const {
    const auto all = of(value);
    return all.size() == 1 ? all[0] : nullptr;
  }

 private:
  struct Range {
    size_t begin = 0, count = 0;  // a value's users in all_
  };

  template <class Enter>
  static void collect(const Block& block, const Enter& enter) {
    for (const auto& operation : block.operations) {
      for (const Tensor* in : operation->inputs) enter(in, operation.get());
      for (const auto& inner : operation->blocks) collect(*inner, enter);
    }
    for (const Tensor* result : block.results) enter(result, nullptr);
  }

  TensorTable<Range> ranges_;
  std::vector<const Operation*> all_;
};

}  // namespace mpsgraph::compiler
