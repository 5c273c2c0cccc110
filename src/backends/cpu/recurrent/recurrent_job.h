// The data of a recurrent layer's time steps, and the interface that each instruction set implements.
#pragma once

#include <cstdint>

#include "core/ops/recurrent_cell.h"

namespace mpsgraph::cpu {

// All operands of the steps of a layer, or of its gradient. Tensors with a time axis have the shape
// [steps, batch, directions, ...].
template <class S>
struct RecurrentJob {
  ops::Cell cell;
  int64_t steps, batch, directions, hidden, gates;
  bool reverse, reset_after, flip;
  ops::RecurrentActivation activations[5];  // indexed by role
  int64_t places[4];  // index of each role's gate in the weights

  const S* weights = nullptr;  // [directions, gates * hidden, hidden]
  S* panels = nullptr;  // packed weights; null if not packed
  const S* mask = nullptr;
  int64_t mask_step = 0, mask_row = 0, mask_unit = 0;  // strides of the mask in elements; 0 where the mask is broadcast
  const S* extra = nullptr;  // peephole weights or secondary bias
  const S *initial_state = nullptr, *initial_cell = nullptr;
  // Results of the forward pass: states, cell states, and `training`, the gate values that the gradient needs. `cells`
  // and `training` may be null.
  S *state = nullptr, *cells = nullptr, *training = nullptr;

  // operands of the forward pass
  const S* source = nullptr;  // already projected, or [steps, batch, inputs] if there is an input weight
  const S* input_weight = nullptr;  // [directions, gates * hidden, inputs]
  const S* bias = nullptr;  // [directions, gates * hidden]; used only with an input weight, may be null
  int64_t inputs = 0;
  // whether the first step processes hidden units in descending order; the order alternates with each step
  bool last_first = false;
  S* running_cell = nullptr;  // [batch, directions * hidden]: the current cell states, if `cells` is null
  // [batch, directions * hidden] each: results of the first phase of a GRU that the second phase needs
  S *reset_state = nullptr, *update = nullptr;

  // operands of the backward pass
  const S *candidate = nullptr, *d_state = nullptr, *d_cell = nullptr, *d_training = nullptr;
  S* d_source = nullptr;
  // gradients that each step of the backward pass hands to the next; after its last step, the gradients of the initial
  // values
  S *carried_state = nullptr, *carried_cell = nullptr;
  // [batch, directions * hidden]: gradient of the product of states and candidate weights, if a GRU resets this product
  S* inner = nullptr;
  // Receives the state before each step, which the weight gradient needs. Null if the weight gradient is not computed;
  // not used for GRU layers.
  S* state_before = nullptr;
  S* sums = nullptr;  // [pieces, directions, gates * hidden]: sum of d_source over the rows of each piece; may be null

  int64_t time(int64_t direction, int64_t step) const { return backward(direction) ? steps - 1 - step : step; }
  bool backward(int64_t direction) const { return reverse != (direction == 1); }
  template <class T>
  T* at(T* tensor, int64_t t, int64_t n, int64_t d, int64_t width) const {
    return tensor + ((t * batch + n) * directions + d) * width;
  }
  template <class T>
  T* at(T* tensor, int64_t n, int64_t d) const {
    return tensor + (n * directions + d) * hidden;
  }
  // Return the address of the row of `values` at the step before `step` in this direction, or of `initial` for the
  // first step.
  const S* before(const S* values, const S* initial, int64_t d, int64_t step, int64_t n) const {
    return step == 0 ? at(initial, n, d) : at(values, time(d, step - 1), n, d, hidden);
  }
  int64_t depth() const { return hidden + (input_weight ? inputs : 0); }  // number of k indices of a packed panel
  int forward_phases() const { return cell == ops::Cell::gru && !reset_after ? 2 : 1; }
  int backward_phases() const { return cell == ops::Cell::gru && !reset_after ? 3 : 2; }
};

struct RecurrentRange {
  int64_t direction, step;
  int64_t first_row, last_row;  // range of batch rows
  // Range of hidden units, counted in blocks of `lanes` units. Phases that multiply gradients count in blocks of
  // `columns` * `lanes` units.
  int64_t first_unit, last_unit;
  // index of the piece of rows that is processed through all steps; 0 if hidden units are partitioned instead
  int64_t piece;
};

// The implementation of recurrent steps for one instruction set. `own` is private scratch memory of the calling thread,
// with own_rows * hidden elements.
template <class S>
struct RecurrentEngine {
  int64_t lanes, columns, own_rows;
  void (*pack_forward)(const RecurrentJob<S>&, int64_t direction, int64_t block, int64_t role);
  void (*forward)(const RecurrentJob<S>&, int phase, const RecurrentRange&, S* own);
  void (*pack_backward)(const RecurrentJob<S>&, int64_t direction, int64_t first_row, int64_t last_row);
  void (*backward)(const RecurrentJob<S>&, int phase, const RecurrentRange&);
};

}  // namespace mpsgraph::cpu
