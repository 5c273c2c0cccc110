// What the files of the family recurrent share: operands by name, gates by role, the internal sequence operations.
//
// The operations of the face are in recurrent.cpp; each is a product over all time steps (recurrent_compositions.cpp)
// and one of the internal operations that go step by step (recurrent_sequence.cpp), which have kernels:
//
//   recurrent_sequence(source, recurrent_weight, initial_state
//                      [, initial_cell][, mask][, extra][, input_weight][, bias])
//       -> state[, cell][, training_state]
//   recurrent_sequence_gradient(recurrent_weight, training_state, ...)
//       -> gradients of source, initial_state[, initial_cell][, the states before each step, of other cells than gru]
//          [, the gradient of the source's bias: that of the source summed over steps and batch]
//
// There the weights are [directions, gates * hidden, hidden] always, the input is projected already ([T, N, directions
// * gates * hidden]) unless an input weight is given, and `extra` is the peephole [directions, 4 * hidden] of lstm or
// the secondary bias [directions, hidden] of gru.
#pragma once

#include <string_view>
#include <vector>

#include "core/definition.h"
#include "core/ops/recurrent_cell.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

// An operand that is there when the attribute `flag` says so; always when that is empty.
struct OperandName {
  std::string_view name, flag = {};
};
using OperandNames = std::vector<OperandName>;

class NamedOperands {
 public:
  NamedOperands(const OperandNames& names, const Attributes& attributes, const std::vector<Tensor*>& inputs)
      : names_(names), attributes_(attributes), inputs_(inputs) {}
  int index(std::string_view name) const;  // -1 when it is not given
  Tensor* operator[](std::string_view name) const;  // null when it is not given
  size_t count() const;  // of those that the attributes say are given

 private:
  const OperandNames& names_;
  const Attributes& attributes_;
  const std::vector<Tensor*>& inputs_;
};

Tensor* activate(Builder& b, RecurrentActivation activation, Tensor* x);
// Its derivative where it has the value y.
Tensor* activation_slope(Builder& b, RecurrentActivation activation, Tensor* y);

// What an operation says of its cell. Gates are known by role: lstm input, forget, cell, output; gru update, reset,
// output; `places` says which of the gates in the weights each is. lstm's fifth activation is that of the cell's value.
struct CellDescription {
  Cell cell;
  std::vector<RecurrentActivation> activations;
  Ints places;
  bool reverse, reset_after, flip_z;

  explicit CellDescription(const Attributes& attributes);  // of an internal operation
  int64_t gates() const { return static_cast<int64_t>(places.size()); }
};

extern const OperandNames sequence_operands, sequence_gradient_operands;

// Compositions of the operations of the face.
std::vector<Tensor*> recurrent_parts(Cell cell, Builder& b, const std::vector<Tensor*>& in, const Attributes& a);
std::vector<Tensor*> recurrent_gradient_parts(Cell cell, Builder& b, const std::vector<Tensor*>& in,
                                              const Attributes& a);
const OperandNames& operands_of(Cell cell);
const OperandNames& gradient_operands_of(Cell cell);

}  // namespace mpsgraph::ops
