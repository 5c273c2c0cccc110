// The users of each value, for passes that fuse operations and need to know whether intermediate values have other
// users.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

class Users {
 public:
  explicit Users(const Program& program) {
    collect(program.graph->root());
    for (const Tensor* target : program.targets) users_[target].push_back(nullptr);
  }
  // The operations that use a value, in order, with one entry per operand. An entry is null if the value is a target or
  // a block's result.
  const std::vector<const Operation*>& of(const Tensor* value) const {
    static const std::vector<const Operation*> nobody;
    const auto found = users_.find(value);
    return found == users_.end() ? nobody : found->second;
  }
  // The operation that is the only user of a value; null if there are several uses or the only use is not an operation.
  const Operation* only(const Tensor* value) const {
    const auto& all = of(value);
    return all.size() == 1 ? all[0] : nullptr;
  }

 private:
  void collect(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const Tensor* in : operation->inputs) users_[in].push_back(operation.get());
      for (const auto& inner : operation->blocks) collect(*inner);
    }
    for (const Tensor* result : block.results) users_[result].push_back(nullptr);
  }
  std::unordered_map<const Tensor*, std::vector<const Operation*>> users_;
};

}  // namespace mpsgraph::compiler
