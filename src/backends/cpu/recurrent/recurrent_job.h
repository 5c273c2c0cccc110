// The data of a recurrent layer's steps, and the interface that each instruction set implements.
#pragma once

#include <cstdint>

#include "core/ops/recurrent_cell.h"

namespace mpsgraph::cpu {

// All operands of the steps of a layer, or of its gradient. Tensors with a time axis are [steps, batch, directions,
// ...].
template <class S>
struct RecurrentJob {
  ops::Cell cell;
  int64_t steps, batch, directions, hidden, gates;
  bool reverse, reset_after, flip;
  ops::RecurrentActivation activations[5];  // by role
  int64_t places[4];  // by role: index of the gate in the weights

  const S* weights = nullptr;  // [directions, gates * hidden, hidden]
  S* panels = nullptr;  // packed weights; null if not packed
  const S* mask = nullptr;
  int64_t mask_step = 0, mask_row = 0, mask_unit = 0;  // strides of the mask, 0 where broadcast
  const S* extra = nullptr;  // peephole weights or secondary bias
  const S *initial_state = nullptr, *initial_cell = nullptr;
  S *state = nullptr, *cells = nullptr, *training = nullptr;  // forward results; cells and training may be null

  // forward
  const S* source = nullptr;  // projected, or [steps, batch, inputs] with an input weight
  const S* input_weight = nullptr;  // [directions, gates * hidden, inputs]
  const S* bias = nullptr;  // [directions, gates * hidden]; used only with an input weight, may be null
  int64_t inputs = 0;
  bool last_first = false;  // order of hidden units in the first step; alternates with each step
  S* running_cell = nullptr;  // [batch, directions * hidden], if `cells` is null
  S *reset_state = nullptr, *update = nullptr;  // same shape: what the second phase of a GRU needs from the first

  // backward
  const S *candidate = nullptr, *d_state = nullptr, *d_cell = nullptr, *d_training = nullptr;
  S* d_source = nullptr;
  S *carried_state = nullptr, *carried_cell = nullptr;  // gradients between steps; finally those of the initial values
  S* inner = nullptr;  // [batch, directions * hidden]: a GRU's candidate before its reset
  S* state_before = nullptr;  // factors of the weights, for other cells; may be null
  S* sums = nullptr;  // [pieces, directions, gates * hidden]: d_source summed by piece; may be null

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
  // Return a value of the step before `step` in this direction.
  const S* before(const S* values, const S* initial, int64_t d, int64_t step, int64_t n) const {
    return step == 0 ? at(initial, n, d) : at(values, time(d, step - 1), n, d, hidden);
  }
  int64_t depth() const { return hidden + (input_weight ? inputs : 0); }  // steps of a panel
  int forward_phases() const { return cell == ops::Cell::gru && !reset_after ? 2 : 1; }
  int backward_phases() const { return cell == ops::Cell::gru && !reset_after ? 3 : 2; }
};

struct RecurrentRange {
  int64_t direction, step;
  int64_t first_row, last_row;  // of the batch
  // range of hidden units, in blocks of `lanes`, or of `columns` times as many in phases that multiply gradients
  int64_t first_unit, last_unit;
  int64_t piece;  // index of a piece of rows that goes through all steps; 0 if units are partitioned
};

// The implementation for one instruction set. `own` is memory private to a thread, of own_rows * hidden elements.
template <class S>
struct RecurrentEngine {
  int64_t lanes, columns, own_rows;
  void (*pack_forward)(const RecurrentJob<S>&, int64_t direction, int64_t block, int64_t role);
  void (*forward)(const RecurrentJob<S>&, int phase, const RecurrentRange&, S* own);
  void (*pack_backward)(const RecurrentJob<S>&, int64_t direction, int64_t first_row, int64_t last_row);
  void (*backward)(const RecurrentJob<S>&, int phase, const RecurrentRange&);
};

}  // namespace mpsgraph::cpu
