// Dependencies between the operations of one block, for passes that reorder operations.
//
// A program's semantics are defined by the order of its operations
// (docs/decisions/0003-execution-order-is-creation-order.md). These dependencies retain the part of this order on which
// results can depend: values before their users, control dependencies, the reads and assigns of each variable and the
// uses of read values, checks before assigns, calls (which may affect each other), and prints.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "compiler/tables.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

// Whether the result has the same bytes as the operand and differs only in shape.
bool is_alias(const Operation& operation);

// Visits the tensors that an operation needs: its operands, and all tensors used in its blocks, including tensors
// defined in these blocks.
template <class Visit>
void for_each_operand(const Operation& operation, const Visit& visit) {
  for (Tensor* in : operation.inputs) visit(in);
  for (const auto& block : operation.blocks) {
    for (const auto& inner : block->operations) for_each_operand(*inner, visit);
    for (Tensor* result : block->results) visit(result);
  }
}

// The dependencies between a block's operations, which are identified by their positions in the block. An operation
// depends only on operations before it.
class Dependencies {
 public:
  explicit Dependencies(const Block& block);

  // The position of an operation of this block; -1 for other operations.
  int position(const Operation* operation) const { return positions_(operation); }
  // Positions that operation i depends on, sorted and without duplicates.
  std::span<const int> before(int i) const {
    const size_t begin = ends_[static_cast<size_t>(i)];
    return {before_.data() + begin, ends_[static_cast<size_t>(i) + 1] - begin};
  }
  Lists<int> users() const;  // the operations that depend on each operation

 private:
  struct State {
    std::unordered_map<const Tensor*, int> last_assign;  // maps a variable to the position of its last assign
    // maps a variable to the positions that use its current value
    std::unordered_map<const Tensor*, std::vector<int>> using_value;
    int last_call = -1, last_check = -1, last_print = -1;
  };
  void add_state(const Operation& operation, int i, State& state);

  Positions positions_;
  std::vector<int> before_;  // the lists of all operations, one after the other
  std::vector<size_t> ends_{0};  // the end of each operation's list, after a 0
};

}  // namespace mpsgraph::compiler
