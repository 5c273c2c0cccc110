// What must run before what, in one block: for passes that reorder operations.
//
// A program's meaning is its order (docs/decisions/0003-execution-order-is-creation-order.md). Of that order these
// dependencies keep what a result can show: values before their users, control dependencies, the reads and assigns of
// each variable and the uses of what was read, checks before assigns, calls, which may have effects on one another, and
// what is printed.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

// Same bytes, another shape.
bool is_alias(const Operation& operation);

// The tensors that an operation needs: its operands and what its blocks use, their own values included.
void for_each_operand(const Operation& operation, const std::function<void(Tensor*)>& visit);

// By position in the block. Operations only ever depend on earlier ones.
class Dependencies {
 public:
  explicit Dependencies(const Block& block);

  // Of an operation in the block itself; -1 for others.
  int position(const Operation* operation) const;
  // Sorted, each once.
  const std::vector<int>& before(int i) const { return before_[static_cast<size_t>(i)]; }
  std::vector<std::vector<int>> users() const;  // the same the other way round

 private:
  using Positions = std::vector<int>;
  struct State {
    std::unordered_map<const Tensor*, int> last_assign;  // variable -> position
    std::unordered_map<const Tensor*, Positions> using_value;  // variable -> who uses its present value
    Positions checks;
    int last_call = -1, last_print = -1;
  };
  void add_state(const Operation& operation, int i, State& state);

  std::unordered_map<const Operation*, int> position_;
  std::vector<Positions> before_;
};

}  // namespace mpsgraph::compiler
