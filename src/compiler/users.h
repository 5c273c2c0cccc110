// The users of each value, for passes that fuse operations and must know that intermediate values have no other use.
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
  // Operations in order, each as often as the value is one of its operands; null for a target or a block's result.
  const std::vector<const Operation*>& of(const Tensor* value) const {
    static const std::vector<const Operation*> nobody;
    const auto found = users_.find(value);
    return found == users_.end() ? nobody : found->second;
  }
  // The operation that is the only use of a value; null if there are several uses or it is not an operation.
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
