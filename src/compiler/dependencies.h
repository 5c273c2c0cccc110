// Dependencies between the operations of one block, for passes that reorder operations.
//
// A program's semantics are defined by the order of its operations
// (docs/decisions/0003-execution-order-is-creation-order.md). These dependencies retain the part of this order on which
// results can depend: values before their users, control dependencies, the reads and assigns of each variable and the
// uses of read values, checks before assigns, calls (which may affect each other), and prints.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

// Whether the result has the same bytes as the operand and differs only in shape.
bool is_alias(const Operation& operation);

// Visits the tensors that an operation needs: its operands, and all tensors used in its blocks, including tensors
// defined in these blocks.
void for_each_operand(const Operation& operation, const std::function<void(Tensor*)>& visit);

// The dependencies between a block's operations, which are identified by their positions in the block. An operation
// depends only on operations before it.
class Dependencies {
 public:
  explicit Dependencies(const Block& block);

  // The position of an operation of this block; -1 for other operations.
  int position(const Operation* operation) const;
  // Positions that operation i depends on, sorted and without duplicates.
  const std::vector<int>& before(int i) const { return before_[static_cast<size_t>(i)]; }
  std::vector<std::vector<int>> users() const;  // the operations that depend on each operation

 private:
  using Positions = std::vector<int>;
  struct State {
    std::unordered_map<const Tensor*, int> last_assign;  // maps a variable to the position of its last assign
    // maps a variable to the positions that use its current value
    std::unordered_map<const Tensor*, Positions> using_value;
    int last_call = -1, last_check = -1, last_print = -1;
  };
  void add_state(const Operation& operation, int i, State& state);

  std::unordered_map<const Operation*, int> position_;
  std::vector<Positions> before_;
};

}  // namespace mpsgraph::compiler
