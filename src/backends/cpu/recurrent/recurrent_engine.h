// The computation of one step of a recurrent layer for a range of rows and hidden units, for any instruction set.
//
// A step has one or two phases. Within a phase, all ranges are independent. Threads may divide the rows, which never
// depend on each other, or the hidden units, with a barrier after each phase. A phase multiplies a few rows of states
// by the weights of W hidden units, for all gates at once, and then computes the gates of these units while the
// products are in cache. The weights are packed into panels for this purpose, or used in place if there are few rows in
// total.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/recurrent/recurrent_job.h"
#include "backends/cpu/recurrent/recurrent_panels.h"
#include "backends/cpu/recurrent/recurrent_products.h"

namespace mpsgraph::cpu {

MPSGRAPH_VECTOR_TABLE(RecurrentEngine<float>, recurrent_engine);

// The template parameter P provides everything that RecurrentProducts and RecurrentPanels require, and also tanh,
// sigmoid, least, greatest, and where_positive(x, y), which returns y where x > 0 and 0 elsewhere.
template <class P>
class RecurrentSteps : RecurrentProducts<P>, RecurrentPanels<P> {
  using Products = RecurrentProducts<P>;
  using Panels = RecurrentPanels<P>;
  using S = typename P::S;
  using V = typename P::V;
  using Panels::backward_panel, Panels::columns, Panels::forward_panel, Panels::gates_at_once, Panels::input_row,
      Panels::vectors_of, Panels::weight_row;
  using Products::load, Products::max_rows, Products::rows_for, Products::store;
  using typename Products::Factors, typename Products::Summand;
  using Job = RecurrentJob<S>;
  using Activation = ops::RecurrentActivation;
  static constexpr int W = P::W;
  static constexpr int64_t summed_rows = 12;  // maximum number of rows whose gradients are accumulated in registers

 public:
  static constexpr RecurrentEngine<S> engine() {
    return {W, columns, max_rows, Panels::pack_forward, forward, Panels::pack_backward, backward};
  }

 protected:  // also used by recurrent_quantized.h
  static V one() { return P::splat(1); }

  static V activate(Activation activation, V x) {
    switch (activation) {
      // P::greatest returns its second operand if either is NaN, so NaN is preserved
      case Activation::relu: return P::greatest(V{}, x);
      case Activation::tanh: return P::tanh(x);
      case Activation::sigmoid: return P::sigmoid(x);
      case Activation::hard_sigmoid: return P::least(one(), P::greatest(V{}, x * S(0.2) + S(0.5)));
      default: return x;
    }
  }
  // Return the gradient multiplied by the slope of the activation, computed from the activation's result y.
  static V through(Activation activation, V gradient, V y) {
    switch (activation) {
      case Activation::relu: return P::where_positive(y, gradient);
      case Activation::tanh: return gradient * (one() - y * y);
      case Activation::sigmoid: return gradient * (y * (one() - y));
      case Activation::hard_sigmoid: return P::where_positive(y, P::where_positive(one() - y, gradient * S(0.2)));
      default: return gradient;
    }
  }
  // Return whether an LSTM uses its default activations, for which there is specialized code.
  static bool usual(const Job& j) {
    for (int role = 0; role < 5; ++role)
      if (j.activations[role] != (role == 2 || role == 4 ? Activation::tanh : Activation::sigmoid)) return false;
    return true;
  }

  static V mask(const Job& j, int64_t t, int64_t n, int64_t d, int64_t unit, int64_t lanes) {
    const S* place = j.mask + t * j.mask_step + n * j.mask_row + (d * j.hidden + unit) * j.mask_unit;
    return j.mask_unit ? load(place, lanes) : P::splat(*place);
  }
  static V masked(const Job& j, V x, int64_t t, int64_t n, int64_t d, int64_t unit, int64_t lanes) {
    return j.mask ? x * mask(j, t, n, d, unit, lanes) : x;
  }

  // ---- forward

  static void forward(const Job& j, int phase, const RecurrentRange& range, S* own) {
    switch (j.cell) {
      case ops::Cell::single_gate: return forward_rows<1>(j, phase, range, own, each<1, single_gate>);
      case ops::Cell::lstm:
        if (usual(j) && !j.extra) return forward_rows<4>(j, phase, range, own, usual_lstm);
        return forward_rows<4>(j, phase, range, own, each<4, lstm>);
      case ops::Cell::gru:
        if (j.reset_after) return forward_rows<3>(j, phase, range, own, each<3, gru_at_once>);
        if (phase == 0) return forward_rows<2>(j, phase, range, own, each<2, gru_gates>);
        return forward_rows<1>(j, phase, range, own, each<1, gru_candidate>);
    }
  }

  struct Place {
    int64_t d, step, t, n, unit, lanes;
    S* sums = nullptr;  // gradient sums of this piece of rows; may be null
  };
  // Call the gate function `one` for each row.
  template <int vectors, void (*one)(const Job&, const Place&, const S*)>
  static void each(const Job& j, Place p, int count, S* products) {
    for (int r = 0; r < count; ++r, ++p.n) one(j, p, products + r * vectors * W);
  }

  // Compute the pre-activations of `vectors` gates, that is, the projected input plus the previous states times the
  // weights of these gates. Then compute the gates of each row.
  template <int vectors, class Gates>
  static void forward_rows(const Job& j, int phase, const RecurrentRange& range, S* own, const Gates& gates) {
    const int64_t d = range.direction, t = j.time(d, range.step), wide = j.directions * j.hidden;
    constexpr int at_once = gates_at_once(vectors);
    const int most = j.panels ? rows_for(at_once) : 4;
    const auto one = [&](int64_t n, int count, const S* states, int64_t row_stride, int64_t block) {
      S out[max_rows * vectors * W];
      Place place{d, range.step, t, n, block * W, std::min<int64_t>(W, j.hidden - block * W)};
      const Summand begin = projected<vectors>(j, place, phase);
      if (j.panels) {
        ask_for_gates<vectors>(j, place, count, phase);
        const S* panel = forward_panel(j, d, block) + (phase == 0 ? 0 : 2 * j.depth() * W);
        Factors factors{{}, {states, row_stride, j.hidden}};
        if (j.input_weight) factors.first = {j.source + (t * j.batch + n) * j.inputs, j.inputs, j.inputs};
        // multiply_row() rounds differently, because it uses several partial sums. The result of a row must not depend
        // on how the rows of a batch are partitioned, so only a batch of one uses multiply_row().
        const auto multiply = [&](const Summand& summand, S* to) {
          if (j.batch == 1) return Products::template multiply_row<at_once>(factors, panel, summand, to);
          Products::template multiply_some<at_once>(count, factors, panel, summand, to, vectors * W);
        };
        if (vectors == 4 && Panels::in_halves(j, block)) {
          multiply({}, out);
          for (int r = 0; r < count; ++r) spread_halves(begin, r, out + r * 4 * W);
        } else {
          for (int v = 0; v < vectors; v += at_once, panel += at_once * j.depth() * W)
            multiply(begin.from(v), out + v * W);
        }
      } else {
        const S* rows[vectors];
        for (int v = 0; v < vectors; ++v) rows[v] = weight_row(j, d, j.places[phase == 0 ? v : 2], place.unit);
        Products::template dot_some<vectors>(count, states, row_stride, rows, j.hidden, j.hidden, place.lanes, out);
        if (j.input_weight) add_inputs<vectors>(j, place, count, out);
        for (int i = 0; i < count * vectors; ++i)
          P::store(out + i * W, P::load(out + i * W) + begin.at(i / vectors, i % vectors));
      }
      gates(j, place, count, out);
    };
    if (!j.mask || phase != 0) {
      const bool last_first = j.last_first != (range.step % 2 != 0);
      for (int64_t i = range.first_unit; i < range.last_unit; ++i) {
        const int64_t block = last_first ? range.last_unit - 1 - (i - range.first_unit) : i;
        in_groups(range, most, [&](int64_t n, int count) {
          one(n, count, phase == 0 ? j.before(j.state, j.initial_state, d, range.step, n) : j.at(j.reset_state, n, d),
              wide, block);
        });
      }
      return;
    }
    in_groups(range, most, [&](int64_t n, int count) {
      const S* states = j.before(j.state, j.initial_state, d, range.step, n);
      for (int r = 0; r < count; ++r)
        for (int64_t unit = 0; unit < j.hidden; unit += W) {
          const int64_t lanes = j.hidden - unit;
          const V value = load(states + r * wide + unit, lanes);
          store(own + r * j.hidden + unit, value * mask(j, t, n + r, d, unit, lanes), lanes);
        }
      for (int64_t block = range.first_unit; block < range.last_unit; ++block) one(n, count, own, j.hidden, block);
    });
  }

  // Expand two vectors, each of which holds two of the four gates, into one vector per gate. Then add the values of
  // `begin` for this row.
  static void spread_halves(const Summand& begin, int row, S* products) {
    V gates[4];
    for (int v = 0; v < 4; ++v) gates[v] = P::load_part(products + v * W / 2, W / 2) + begin.at(row, v);
    for (int v = 0; v < 4; ++v) P::store(products + v * W, gates[v]);
  }

  // Divide the rows of a range into groups of nearly equal size, at most `most` rows each, and call f(first row, count)
  // for each group.
  template <class F>
  static void in_groups(const RecurrentRange& range, int most, const F& f) {
    int64_t groups = (range.last_row - range.first_row + most - 1) / most;
    for (int64_t n = range.first_row; groups > 0; --groups) {
      const auto count = static_cast<int>((range.last_row - n + groups - 1) / groups);
      f(n, count);
      n += count;
    }
  }

  // Multiply the inputs of a few rows by the input weights, and add the products to the products of the states.
  template <int vectors>
  static void add_inputs(const Job& j, const Place& p, int count, S* out) {
    S more[max_rows * vectors * W];
    const S* rows[vectors];
    for (int v = 0; v < vectors; ++v) rows[v] = input_row(j, p.d, j.places[v], p.unit);
    Products::template dot_some<vectors>(count, j.source + (p.t * j.batch + p.n) * j.inputs, j.inputs, rows, j.inputs,
                                         j.inputs, p.lanes, more);
    for (int i = 0; i < count * vectors; ++i) P::store(out + i * W, P::load(out + i * W) + P::load(more + i * W));
  }

  // Return the projected input of the gates of a phase, to which the product with the states is added. For a GRU that
  // resets after the product, the projected input of the candidate is omitted, because it is added later.
  template <int vectors>
  static Summand projected(const Job& j, const Place& p, int phase) {
    const bool later = j.cell == ops::Cell::gru && j.reset_after;
    Summand result{{}, j.input_weight ? 0 : j.directions * j.gates * j.hidden, p.lanes};
    for (int v = 0; v < vectors; ++v)
      if (!(later && v == 2)) result.of[v] = projected(j, p, phase == 0 ? v : 2);
    return result;
  }
  static const S* projected(const Job& j, const Place& p, int role) {
    const int64_t unit = j.places[role] * j.hidden + p.unit;
    if (!j.input_weight) return j.at(j.source, p.t, p.n, p.d, j.gates * j.hidden) + unit;
    return j.bias ? j.bias + p.d * j.gates * j.hidden + unit : nullptr;
  }
  // Prefetch the memory to which gates, cell states, and states will be written, and the projected input of the next
  // block of units. Each prefetched address is the end of a vector, because the beginning was fetched with the previous
  // block. The hardware prefetcher does not help here, because the rows of a step are far apart.
  template <int vectors>
  static void ask_for_gates(const Job& j, const Place& p, int rows, int phase) {
    const bool more = !j.input_weight && p.unit + W < j.hidden;
    const int64_t wide = j.gates * j.hidden, end = p.unit + W - 1, row = (p.t * j.batch + p.n) * j.directions + p.d;
    for (int v = 0; v < vectors; ++v) {
      int64_t at = row * wide + j.places[phase == 0 ? v : 2] * j.hidden + end;
      for (int r = 0; r < rows; ++r, at += j.directions * wide) {
        if (j.training) __builtin_prefetch(j.training + at, 1);
        if (more) __builtin_prefetch(j.source + at + W);
      }
    }
    for (int r = 0; r < rows; ++r) {
      const int64_t at = (row + r * j.directions) * j.hidden + end;
      __builtin_prefetch(j.state + at, 1);
      if (j.cells) __builtin_prefetch(j.cells + at, 1);
    }
  }
  [[gnu::always_inline]] static void keep(const Job& j, const Place& p, int role, V value) {
    if (!j.training) return;
    store(j.at(j.training, p.t, p.n, p.d, j.gates * j.hidden) + j.places[role] * j.hidden + p.unit, value, p.lanes);
  }
  [[gnu::always_inline]] static V gate(const Job& j, const Place& p, int role, V x) {
    const V value = activate(j.activations[role], x);
    keep(j, p, role, value);
    return value;
  }
  [[gnu::always_inline]] static void finish(const Job& j, const Place& p, V state) {
    store(j.at(j.state, p.t, p.n, p.d, j.hidden) + p.unit, state, p.lanes);
  }

  static void single_gate(const Job& j, const Place& p, const S* product) {
    const V x = P::load(product);
    keep(j, p, 0, x);
    finish(j, p, activate(j.activations[0], x));
  }

  // Return the address where the cell state after this step is stored; cell_before() returns the address of the
  // previous cell state.
  static S* cell_of(const Job& j, const Place& p) {
    return (j.cells ? j.at(j.cells, p.t, p.n, p.d, j.hidden) : j.at(j.running_cell, p.n, p.d)) + p.unit;
  }
  static const S* cell_before(const Job& j, const Place& p) {
    return p.step > 0 && !j.cells ? cell_of(j, p) : j.before(j.cells, j.initial_cell, p.d, p.step, p.n) + p.unit;
  }
  static void lstm(const Job& j, const Place& p, const S* product) {
    const V before = load(cell_before(j, p), p.lanes);
    V gates[4];
    for (int role = 0; role < 4; ++role) {
      V x = P::load(product + role * W);
      if (j.extra) x += before * load(j.extra + (p.d * 4 + j.places[role]) * j.hidden + p.unit, p.lanes);
      gates[role] = gate(j, p, role, x);
    }
    const V value = gates[1] * before + gates[0] * gates[2];
    store(cell_of(j, p), value, p.lanes);
    finish(j, p, gates[3] * activate(j.activations[4], value));
  }

  // Compute an LSTM with default activations and without peepholes. The gates and the states have separate loops, so
  // that the processor can overlap the long dependency chains of several rows.
  static void usual_lstm(const Job& j, const Place& p, int count, S* products) {
    if (p.lanes == W) return usual_lstm_of<true>(j, p, count, products);
    usual_lstm_of<false>(j, p, count, products);
  }
  template <bool whole>
  static void usual_lstm_of(const Job& j, const Place& p, int count, S* products) {
    const int64_t lanes = whole ? W : p.lanes, row = j.directions * j.hidden;
    const S* before = cell_before(j, p);
    S *cell = cell_of(j, p), *state = j.at(j.state, p.t, p.n, p.d, j.hidden) + p.unit;
    S* gates[4] = {};
    for (int role = 0; j.training && role < 4; ++role)
      gates[role] = j.at(j.training, p.t, p.n, p.d, 4 * j.hidden) + j.places[role] * j.hidden + p.unit;
    constexpr int64_t soon = 3;  // prefetch distance in rows
    for (int64_t r = 0; r < count; ++r) {
      S* product = products + r * 4 * W;
      __builtin_prefetch(cell + (r + soon) * row + W - 1, 1);
      __builtin_prefetch(state + (r + soon) * row + W - 1, 1);
      if (j.training)
        for (int role = 0; role < 4; ++role) __builtin_prefetch(gates[role] + (r + soon) * 4 * row + W - 1, 1);
      const V in = P::sigmoid(P::load(product)), forget = P::sigmoid(P::load(product + W)),
              image = P::tanh(P::load(product + 2 * W)), out = P::sigmoid(P::load(product + 3 * W));
      const V value = forget * load(before + r * row, lanes) + in * image;
      store(cell + r * row, value, lanes);
      P::store(product, out);
      P::store(product + W, value);
      if (!j.training) continue;
      const V values[4] = {in, forget, image, out};
      for (int role = 0; role < 4; ++role) store(gates[role] + r * 4 * row, values[role], lanes);
    }
    for (int64_t r = 0; r < count; ++r)
      store(state + r * row, P::load(products + r * 4 * W) * P::tanh(P::load(products + r * 4 * W + W)), lanes);
  }

  static V mixed(const Job& j, V update, V before, V output) {
    return j.flip ? before + update * (output - before) : output + update * (before - output);
  }
  static V state_before(const Job& j, const Place& p) {
    return load(j.before(j.state, j.initial_state, p.d, p.step, p.n) + p.unit, p.lanes);
  }

  static void gru_at_once(const Job& j, const Place& p, const S* product) {
    const V z = gate(j, p, 0, P::load(product)), r = gate(j, p, 1, P::load(product + W));
    V candidate = P::load(product + 2 * W);
    if (j.extra) candidate += load(j.extra + p.d * j.hidden + p.unit, p.lanes);
    candidate *= r;
    if (const S* before = projected(j, p, 2)) candidate += load(before, p.lanes);
    finish(j, p, mixed(j, z, state_before(j, p), gate(j, p, 2, candidate)));
  }

  static void gru_gates(const Job& j, const Place& p, const S* product) {
    const V z = gate(j, p, 0, P::load(product)), r = gate(j, p, 1, P::load(product + W));
    const V reset = masked(j, state_before(j, p) * r, p.t, p.n, p.d, p.unit, p.lanes);
    store(j.at(j.update, p.n, p.d) + p.unit, z, p.lanes);
    store(j.at(j.reset_state, p.n, p.d) + p.unit, reset, p.lanes);
  }
  static void gru_candidate(const Job& j, const Place& p, const S* product) {
    const V z = load(j.at(j.update, p.n, p.d) + p.unit, p.lanes);
    finish(j, p, mixed(j, z, state_before(j, p), gate(j, p, 2, P::load(product))));
  }

  // ---- backward

  static void backward(const Job& j, int phase, const RecurrentRange& range) {
    const auto gates = [&](const auto& one) {
      Place p{range.direction, range.step, j.time(range.direction, range.step), 0, 0, 0, sums_of(j, range)};
      for (p.n = range.first_row; p.n < range.last_row; ++p.n)
        for (int64_t block = range.first_unit; block < range.last_unit; ++block) {
          p.unit = block * W;
          p.lanes = std::min<int64_t>(W, j.hidden - p.unit);
          one(j, p);
        }
    };
    const bool is_gru = j.cell == ops::Cell::gru, last = phase + 1 == j.backward_phases();
    if (phase == 0) {
      if (is_gru) return gates(d_gru);
      if (j.cell != ops::Cell::lstm) return gates(d_single_gate);
      if (!usual(j) || j.extra || j.d_cell || j.d_training) return gates(d_lstm);
      return usual_lstm_gates(j, range);
    }
    if (!is_gru) return products(j, range, 0, j.gates, nullptr, carry);
    if (!last) return products(j, range, 2, 3, nullptr, d_reset);
    products(j, range, 0, 2, j.reset_after ? j.inner : nullptr, carry_on);
  }

  // Multiply the gradients of gates [first, end), counted in the order of the weights, by the weights of these gates,
  // to get the gradients of the previous states. If `inner` is not null, it holds the gradients of the last gate, which
  // are also multiplied and added.
  template <class Then>
  static void products(const Job& j, const RecurrentRange& range, int64_t first, int64_t end, const S* inner,
                       const Then& then) {
    for (int64_t block = range.first_unit; block < range.last_unit; ++block)
      products_of_block<columns>(vectors_of(j, block), j, range, block, first, end, inner, then);
  }
  template <int vectors, class Then>
  static void products_of_block(int wanted, const Job& j, const RecurrentRange& range, int64_t block, int64_t first,
                                int64_t end, const S* inner, const Then& then) {
    if constexpr (vectors > 1) {
      if (wanted < vectors) return products_of_block<vectors - 1>(wanted, j, range, block, first, end, inner, then);
    }
    constexpr int most = rows_for(vectors);
    constexpr int64_t wide = vectors * W;
    const int64_t d = range.direction, t = j.time(d, range.step), h = j.hidden;
    const S* panel = backward_panel(j, d, block);
    S out[most * vectors * W];
    in_groups(range, most, [&](int64_t n, int count) {
      const S* gradients = j.at(j.d_source, t, n, d, j.gates * h) + first * h;
      const auto multiply = [&](const S* rows, int64_t stride, int64_t from, int64_t to, const Summand& begin) {
        Products::template multiply_some<vectors>(count, {{}, {rows, stride, (to - from) * h}}, panel + from * h * wide,
                                                  begin, out, wide);
      };
      multiply(gradients, j.directions * j.gates * h, first, end, {});
      if (inner) multiply(j.at(inner, n, d), j.directions * h, 2, 3, {{out, out + W}, wide});
      for (int r = 0; r < count; ++r)
        for (int v = 0; v < vectors; ++v) {
          const int64_t unit = block * columns * W + v * W;
          then(j, Place{d, range.step, t, n + r, unit, std::min<int64_t>(W, h - unit), sums_of(j, range)},
               P::load(out + (r * vectors + v) * W));
        }
    });
  }

  [[gnu::always_inline]] static V value(const Job& j, const Place& p, int role) {
    return load(j.at(j.training, p.t, p.n, p.d, j.gates * j.hidden) + j.places[role] * j.hidden + p.unit, p.lanes);
  }
  // Multiply the gradient with respect to a gate's value by the slope of the gate's activation, and store the product
  // in d_source.
  [[gnu::always_inline]] static V deliver(const Job& j, const Place& p, int role, V gradient, V y) {
    const int64_t offset = j.places[role] * j.hidden + p.unit;
    if (j.d_training && j.cell != ops::Cell::single_gate)
      gradient += load(j.at(j.d_training, p.t, p.n, p.d, j.gates * j.hidden) + offset, p.lanes);
    const V result = through(j.activations[role], gradient, y);
    store(j.at(j.d_source, p.t, p.n, p.d, j.gates * j.hidden) + offset, result, p.lanes);
    add_up(p, offset, result, p.lanes);
    return result;
  }
  [[gnu::always_inline]] static void add_up(const Place& p, int64_t offset, V value, int64_t lanes) {
    if (p.sums) store(p.sums + offset, load(p.sums + offset, lanes) + value, lanes);
  }
  static S* sums_of(const Job& j, const RecurrentRange& range) {
    return j.sums ? j.sums + (range.piece * j.directions + range.direction) * j.gates * j.hidden : nullptr;
  }
  [[gnu::always_inline]] static V incoming(const Job& j, const Place& p) {
    return load(j.at(j.carried_state, p.n, p.d) + p.unit, p.lanes) +
           load(j.at(j.d_state, p.t, p.n, p.d, j.hidden) + p.unit, p.lanes);
  }

  // If the weight gradient needs the state before each step, store this state as that of the next step. At the first
  // step, also store the initial state.
  [[gnu::always_inline]] static void hand_on(const Job& j, const Place& p, V state) {
    if (!j.state_before) return;
    if (p.step == 0)
      store(j.at(j.state_before, p.t, p.n, p.d, j.hidden) + p.unit,
            load(j.at(j.initial_state, p.n, p.d) + p.unit, p.lanes), p.lanes);
    if (p.step + 1 < j.steps)
      store(j.at(j.state_before, j.time(p.d, p.step + 1), p.n, p.d, j.hidden) + p.unit, state, p.lanes);
  }

  static void d_single_gate(const Job& j, const Place& p) {
    const V state = activate(j.activations[0], value(j, p, 0));
    hand_on(j, p, state);
    V d = through(j.activations[0], incoming(j, p), state);
    if (j.d_training) d += load(j.at(j.d_training, p.t, p.n, p.d, j.hidden) + p.unit, p.lanes);
    store(j.at(j.d_source, p.t, p.n, p.d, j.hidden) + p.unit, d, p.lanes);
    add_up(p, p.unit, d, p.lanes);
  }

  static void d_lstm(const Job& j, const Place& p) {
    const V i = value(j, p, 0), f = value(j, p, 1), z = value(j, p, 2), o = value(j, p, 3);
    const V before = load(j.before(j.cells, j.initial_cell, p.d, p.step, p.n) + p.unit, p.lanes);
    const V image = activate(j.activations[4], load(j.at(j.cells, p.t, p.n, p.d, j.hidden) + p.unit, p.lanes));
    hand_on(j, p, o * image);
    const V d_state = incoming(j, p);
    S* carried = j.at(j.carried_cell, p.n, p.d) + p.unit;
    V d_cell = load(carried, p.lanes) + through(j.activations[4], d_state * o, image);
    if (j.d_cell) d_cell += load(j.at(j.d_cell, p.t, p.n, p.d, j.hidden) + p.unit, p.lanes);
    const V gradients[4] = {deliver(j, p, 0, d_cell * z, i), deliver(j, p, 1, d_cell * before, f),
                            deliver(j, p, 2, d_cell * i, z), deliver(j, p, 3, d_state * image, o)};
    V next = d_cell * f;
    for (int role = 0; j.extra && role < 4; ++role)
      next += gradients[role] * load(j.extra + (p.d * 4 + j.places[role]) * j.hidden + p.unit, p.lanes);
    store(carried, next, p.lanes);
  }

  // Prefetch the data of the next block of units in this row. The address is the end of each vector; the beginning may
  // share a cache line with the preceding vector, which is in cache already.
  [[gnu::always_inline]] static void ask_for_next(const Job& j, const Place& p, int64_t now, int64_t gates) {
    constexpr int64_t next = 2 * W - 1;
    for (int role = 0; role < 4; ++role) __builtin_prefetch(j.training + gates + j.places[role] * j.hidden + next);
    __builtin_prefetch(j.d_state + now + next);
    __builtin_prefetch(j.before(j.cells, j.initial_cell, p.d, p.step, p.n) + p.unit + next);
    if (j.state_before && p.step + 1 < j.steps)
      __builtin_prefetch(j.at(j.state_before, j.time(p.d, p.step + 1), p.n, p.d, j.hidden) + p.unit + next, 1);
  }

  // Compute the gate gradients of an LSTM with default activations and without peepholes, if only the states have
  // incoming gradients. A few rows are processed at a time, and their sums are kept in registers.
  static void usual_lstm_gates(const Job& j, const RecurrentRange& range) {
    Place p{range.direction, range.step, j.time(range.direction, range.step), 0, 0, 0, sums_of(j, range)};
    for (int64_t n = range.first_row; n < range.last_row; n += summed_rows)
      for (int64_t block = range.first_unit; block < range.last_unit; ++block) {
        p.n = n;
        p.unit = block * W;
        p.lanes = std::min<int64_t>(W, j.hidden - p.unit);
        const int64_t end = std::min(n + summed_rows, range.last_row);
        p.lanes == W ? usual_lstm_rows<true>(j, p, end) : usual_lstm_rows<false>(j, p, end);
      }
  }
  template <bool whole>
  [[gnu::always_inline]] static void usual_lstm_rows(const Job& j, Place p, int64_t end) {
    V sums[4] = {};
    for (; p.n < end; ++p.n) usual_d_lstm<whole>(j, p, sums);
    for (int role = 0; role < 4; ++role) add_up(p, j.places[role] * j.hidden + p.unit, sums[role], whole ? W : p.lanes);
  }
  template <bool whole>
  [[gnu::always_inline]] static void usual_d_lstm(const Job& j, const Place& p, V (&sums)[4]) {
    const int64_t lanes = whole ? W : p.lanes, own = (p.n * j.directions + p.d) * j.hidden + p.unit,
                  now = ((p.t * j.batch + p.n) * j.directions + p.d) * j.hidden + p.unit, gates = now * 4 - 3 * p.unit;
    const auto value = [&](int role) { return load(j.training + gates + j.places[role] * j.hidden, lanes); };
    ask_for_next(j, p, now, gates);
    const auto deliver = [&](int role, V gradient) {
      store(j.d_source + gates + j.places[role] * j.hidden, gradient, lanes);
      sums[role] += gradient;
    };
    const V i = value(0), f = value(1), z = value(2), o = value(3);
    const V before = load(j.before(j.cells, j.initial_cell, p.d, p.step, p.n) + p.unit, lanes);
    const V image = P::tanh(load(j.cells + now, lanes)), d_state = incoming(j, p);
    const V d_cell = load(j.carried_cell + own, lanes) + through(Activation::tanh, d_state * o, image);
    hand_on(j, p, o * image);
    deliver(0, through(Activation::sigmoid, d_cell * z, i));
    deliver(1, through(Activation::sigmoid, d_cell * before, f));
    deliver(2, through(Activation::tanh, d_cell * i, z));
    deliver(3, through(Activation::sigmoid, d_state * image, o));
    store(j.carried_cell + own, d_cell * f, lanes);
  }

  static void d_gru(const Job& j, const Place& p) {
    const V z = value(j, p, 0), r = value(j, p, 1), o = value(j, p, 2), before = state_before(j, p);
    const V d_state = incoming(j, p), rest = one() - z;
    const V d_o = deliver(j, p, 2, d_state * (j.flip ? z : rest), o);
    deliver(j, p, 0, d_state * (j.flip ? o - before : before - o), z);
    store(j.at(j.carried_state, p.n, p.d) + p.unit, d_state * (j.flip ? rest : z), p.lanes);
    if (!j.reset_after) return;
    deliver(j, p, 1, d_o * load(j.at(j.candidate, p.t, p.n, p.d, j.hidden) + p.unit, p.lanes), r);
    store(j.at(j.inner, p.n, p.d) + p.unit, d_o * r, p.lanes);
  }
  static void d_reset(const Job& j, const Place& p, V gradient) {
    const V r = value(j, p, 1);
    deliver(j, p, 1, gradient * masked(j, state_before(j, p), p.t, p.n, p.d, p.unit, p.lanes), r);
    carry_on(j, p, gradient * r);
  }

  static void carry(const Job& j, const Place& p, V gradient) {
    store(j.at(j.carried_state, p.n, p.d) + p.unit, masked(j, gradient, p.t, p.n, p.d, p.unit, p.lanes), p.lanes);
  }
  static void carry_on(const Job& j, const Place& p, V gradient) {
    S* carried = j.at(j.carried_state, p.n, p.d) + p.unit;
    store(carried, load(carried, p.lanes) + masked(j, gradient, p.t, p.n, p.d, p.unit, p.lanes), p.lanes);
  }
};

}  // namespace mpsgraph::cpu
