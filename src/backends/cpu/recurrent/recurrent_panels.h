// Packed weights of a recurrent layer, for products with a few rows of states or gradients, for any instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/recurrent/recurrent_job.h"

namespace mpsgraph::cpu {

// The template parameter P provides everything that RecurrentProducts requires, and a function that transposes W
// vectors.
template <class P>
class RecurrentPanels {
 protected:
  using S = typename P::S;
  using V = typename P::V;
  using Job = RecurrentJob<S>;
  static constexpr int W = P::W;

  // Return the number of gates that are multiplied together. Four gates are processed in pairs, so that each vector of
  // weights that is loaded serves more rows.
  static constexpr int gates_at_once(int gates) { return gates == 4 ? 2 : gates; }
  static constexpr int columns = 2;  // adjacent vectors of a panel when gradients are multiplied

  static const S* input_row(const Job& j, int64_t d, int64_t gate, int64_t unit) {
    return j.input_weight + ((d * j.gates + gate) * j.hidden + unit) * j.inputs;
  }
  static const S* weight_row(const Job& j, int64_t d, int64_t gate, int64_t unit) {
    return j.weights + ((d * j.gates + gate) * j.hidden + unit) * j.hidden;
  }

  // ---- forward: each block of W hidden units has a panel, which holds first the gates of the first phase and then
  // those of the second. Gates that are multiplied together are stored as [k][gates][W], one such group after another.
  // The index k runs over the inputs, if the kernel multiplies them too, and then over the states.

  static S* forward_panel(const Job& j, int64_t d, int64_t block) {
    const int64_t blocks = (j.hidden + W - 1) / W;
    return j.panels + (d * blocks + block) * j.gates * j.depth() * W;
  }
  // Return whether each vector can hold two of the four gates, which halves the number of multiplications. This
  // requires a block of at most W / 2 units, which only the last block can be.
  static bool in_halves(const Job& j, int64_t block) { return j.gates == 4 && 2 * (j.hidden - block * W) <= W; }
  // Pack one gate of a block by transposing blocks of W x W elements: each row of the weights becomes one vector lane.
  static void pack_forward(const Job& j, int64_t d, int64_t block, int64_t role) {
    const int64_t unit = block * W, lanes = std::min<int64_t>(W, j.hidden - unit), gate = j.places[role];
    const bool two_phases = j.forward_phases() == 2, halves = in_halves(j, block);
    const int64_t count = two_phases ? (role < 2 ? 2 : 1) : gates_at_once(static_cast<int>(j.gates)),
                  first = two_phases ? (role < 2 ? 0 : 2) : role / count * count;
    S* to = forward_panel(j, d, block) + (halves ? role * W / 2 : (first * j.depth() + role - first) * W);
    const auto take = [&](const S* from, int64_t elements) {
      for (int64_t i = 0; i < elements; i += W) {
        const int64_t some = std::min<int64_t>(W, elements - i);
        V square[W] = {};
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const S* row = from + lane * elements + i;
          __builtin_prefetch(row + 3 * W - 1);  // the rows are too far apart for the hardware prefetcher
          square[lane] = some == W ? P::load(row) : P::load_part(row, some);
        }
        P::transpose(square);
        for (int64_t k = 0; k < some; ++k, to += count * W)
          halves ? P::store_part(to, square[k], W / 2) : P::store(to, square[k]);
      }
    };
    if (j.input_weight) take(input_row(j, d, gate, unit), j.inputs);
    take(weight_row(j, d, gate, unit), j.hidden);
  }

  // ---- backward: each block of columns of the weights has a panel, stored as [k][vectors][W]. The index k runs over
  // the units of all gates.

  // Return the number of vectors in a block of columns; the last block may have fewer.
  static int vectors_of(const Job& j, int64_t block) {
    return static_cast<int>(std::min<int64_t>(columns, (j.hidden - block * columns * W + W - 1) / W));
  }
  static S* backward_panel(const Job& j, int64_t d, int64_t block) {
    constexpr int64_t wide = columns * W;
    const int64_t blocks = (j.hidden + wide - 1) / wide;
    return j.panels + (d * blocks + block) * j.gates * j.hidden * wide;
  }
  // Pack rows [first, last) of the weights into all panels, reading each row sequentially.
  static void pack_backward(const Job& j, int64_t d, int64_t first, int64_t last) {
    const int64_t panel = j.gates * j.hidden * columns * W;
    const S* from = weight_row(j, d, 0, 0) + first * j.hidden;
    for (int64_t k = first; k < last; ++k)
      for (int64_t unit = 0, block = 0; unit < j.hidden; ++block) {
        const int vectors = vectors_of(j, block);
        S* to = backward_panel(j, d, 0) + block * panel + k * vectors * W;
        for (int v = 0; v < vectors; ++v, unit += W, to += W) {
          const int64_t count = std::min<int64_t>(W, j.hidden - unit);
          P::store(to, count == W ? P::load(from) : P::load_part(from, count));
          from += count;
        }
      }
  }
};

}  // namespace mpsgraph::cpu
