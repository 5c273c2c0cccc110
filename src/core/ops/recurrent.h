// Declarations shared by the files of the family recurrent: access to operands by name, gates by role, and the internal
// sequence operations.
//
// The public operations are in recurrent.cpp. Each is composed of a matmul over all time steps
// (recurrent_compositions.cpp) and one of these internal step-by-step operations (recurrent_sequence.cpp), which have
// kernels:
//
//   recurrent_sequence(source, recurrent_weight, initial_state
//                      [, initial_cell][, mask][, extra][, input_weight][, bias])
//       -> state[, cell][, training_state]
//   recurrent_sequence_gradient(recurrent_weight, training_state, ...)
//       -> gradients of source, initial_state[, initial_cell][, the states before each step, except for gru]
//          [, the gradient of the source's bias, which is the source's gradient summed over steps and batch]
//
// In the internal operations, the recurrent weights always are [directions, gates * hidden, hidden], and the input is
// already projected ([T, N, directions * gates * hidden]) unless an input weight is given. `extra` is the lstm's
// peephole [directions, 4 * hidden] or the gru's secondary bias [directions, hidden].
#pragma once

#include <string_view>
#include <vector>

#include "core/definition.h"
#include "core/ops/recurrent_cell.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

// Name of an operand that is present only if the attribute `flag` is true; if `flag` is empty, the operand is always
// present.
struct OperandName {
  std::string_view name, flag = {};
};
using OperandNames = std::vector<OperandName>;

class NamedOperands {
 public:
  NamedOperands(const OperandNames& names, const Attributes& attributes, const std::vector<Tensor*>& inputs)
      : names_(names), attributes_(attributes), inputs_(inputs) {}
  int index(std::string_view name) const;  // index of the operand with this name; -1 if the operand is not given
  Tensor* operator[](std::string_view name) const;  // null if the operand is not given
  size_t count() const;  // number of operands that the attributes declare present

 private:
  const OperandNames& names_;
  const Attributes& attributes_;
  const std::vector<Tensor*>& inputs_;
};

Tensor* activate(Builder& b, RecurrentActivation activation, Tensor* x);
// The derivative of the activation at the point where its result is y.
Tensor* activation_slope(Builder& b, RecurrentActivation activation, Tensor* y);

// The cell of a recurrent operation, read from its attributes. Gates are identified by role: input, forget, cell,
// output for lstm; update, reset, output for gru. places[role] is the index of that gate in the weights. The fifth
// activation of an lstm applies to the cell state.
struct CellDescription {
  Cell cell;
  std::vector<RecurrentActivation> activations;
  Ints places;
  bool reverse, reset_after, flip_z;

  explicit CellDescription(const Attributes& attributes);  // from the attributes of an internal operation
  int64_t gates() const { return static_cast<int64_t>(places.size()); }
};

extern const OperandNames sequence_operands, sequence_gradient_operands;

// Decompositions of the public recurrent operations.
std::vector<Tensor*> recurrent_parts(Cell cell, Builder& b, const std::vector<Tensor*>& in, const Attributes& a);
std::vector<Tensor*> recurrent_gradient_parts(Cell cell, Builder& b, const std::vector<Tensor*>& in,
                                              const Attributes& a);
const OperandNames& operands_of(Cell cell);
const OperandNames& gradient_operands_of(Cell cell);

}  // namespace mpsgraph::ops
