// The equations of recurrent cells, from the comments of Apple's descriptors, and their derivatives by the chain rule.
//
//   single gate  h1 = g(W x + U h0 + b)
//   LSTM         I, F, C = g(W x + U h0 + V c0 + b);  c1 = F c0 + I C
//                O = g(W x + U h0 + V c1 + b);        h1 = O gh(c1)
//   GRU          z, r = g(W x + U h0 + b);            h = gh(W x + U (r h0) + V (z h0) + b)
//                h1 = (1 - z^p)^(1/p) h + z h0, or with flipped gates (1 - z^p)^(1/p) h0 + z h
#include <cmath>

#include "metal/mock_metal.h"
#include "mps/neural_network/rnn.h"

namespace mock {
namespace {

// The terms of the equations that contain one matrix. A missing matrix counts as zero.
struct Term {
  const Cell& cell;
  const Weights& weights;

  bool is_identity(MPSRNNMatrixId id) const {
    for (const Gate& gate : cell.gates)
      if (gate.input == id) return cell.input_is_identity;
    return false;
  }
  bool is_diagonal(MPSRNNMatrixId id) const {
    for (const Gate& gate : cell.gates)
      if (cell.kind == Cell::Kind::lstm && gate.memory == id) return cell.memory_is_diagonal;
    return false;
  }

  void add(MPSRNNMatrixId id, const Vector& in, Vector& out) const {
    const auto found = weights.find(id);
    for (size_t row = 0; row < out.size(); ++row) {
      if (is_identity(id)) {
        out[row] += in[row];
      } else if (found != weights.end() && is_diagonal(id)) {
        out[row] += found->second[row] * in[row];
      } else if (found != weights.end()) {
        for (size_t i = 0; i < in.size(); ++i) out[row] += found->second[row * in.size() + i] * in[i];
      }
    }
  }
  void add_bias(MPSRNNMatrixId id, Vector& out) const {
    const auto found = weights.find(id);
    for (size_t row = 0; found != weights.end() && row < out.size(); ++row) out[row] += found->second[row];
  }

  void back(MPSRNNMatrixId id, const Vector& in, const Vector& dout, Vector& din, Weights& gradients) const {
    const auto found = weights.find(id);
    for (size_t row = 0; row < dout.size(); ++row) {
      if (is_identity(id)) {
        din[row] += dout[row];
      } else if (found != weights.end() && is_diagonal(id)) {
        din[row] += found->second[row] * dout[row];
        gradients.at(id)[row] += dout[row] * in[row];
      } else if (found != weights.end()) {
        for (size_t i = 0; i < in.size(); ++i) {
          din[i] += found->second[row * in.size() + i] * dout[row];
          gradients.at(id)[row * in.size() + i] += dout[row] * in[i];
        }
      }
    }
  }
  void back_bias(MPSRNNMatrixId id, const Vector& dout, Weights& gradients) const {
    const auto found = gradients.find(id);
    for (size_t row = 0; found != gradients.end() && row < dout.size(); ++row) found->second[row] += dout[row];
  }
};

Vector activated(const Neuron& neuron, const Vector& sums) {
  Vector result;
  for (size_t i = 0; i < sums.size(); ++i) result.push_back(neuron.value(sums[i], i));
  return result;
}
Vector times_slope(const Neuron& neuron, const Vector& sums, const Vector& gradient) {
  Vector result;
  for (size_t i = 0; i < sums.size(); ++i) result.push_back(gradient[i] * neuron.slope(sums[i], i));
  return result;
}
Vector product(const Vector& a, const Vector& b) {
  Vector result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i] * b[i]);
  return result;
}

enum LstmGate { input_gate, forget_gate, memory_gate, output_gate };
enum GruGate { update_gate, reset_gate, candidate };

void forward_lstm(const Cell& cell, const Term& term, Step& step) {
  for (const int gate : {input_gate, forget_gate, memory_gate}) {
    term.add(cell.gates[gate].memory, step.c0, step.sums[gate]);
    step.gates.push_back(activated(cell.neurons[gate], step.sums[gate]));
  }
  for (size_t i = 0; i < step.c1.size(); ++i)
    step.c1[i] = step.gates[forget_gate][i] * step.c0[i] + step.gates[input_gate][i] * step.gates[memory_gate][i];
  term.add(cell.gates[output_gate].memory, step.c1, step.sums[output_gate]);
  step.gates.push_back(activated(cell.neurons[output_gate], step.sums[output_gate]));
  step.memory_out = activated(cell.output_neuron, step.c1);
  step.h1 = product(step.gates[output_gate], step.memory_out);
}

double complement(double z, double p) { return std::pow(1 - std::pow(z, p), 1 / p); }

void forward_gru(const Cell& cell, const Term& term, Step& step) {
  for (const int gate : {update_gate, reset_gate}) step.gates.push_back(activated(cell.neurons[gate], step.sums[gate]));
  step.scaled = product(step.gates[reset_gate], step.h0);
  term.add(cell.gates[candidate].recurrent, step.scaled, step.sums[candidate]);
  term.add(cell.gates[candidate].memory, product(step.gates[update_gate], step.h0), step.sums[candidate]);
  step.gates.push_back(activated(cell.neurons[candidate], step.sums[candidate]));
  for (size_t i = 0; i < step.h0.size(); ++i) {
    const double z = step.gates[update_gate][i], h = step.gates[candidate][i];
    const double kept = complement(z, cell.p_norm);
    step.h1.push_back(cell.outputs_are_flipped ? kept * step.h0[i] + z * h : kept * h + z * step.h0[i]);
  }
}

// Return the gradients of the sums that enter the gates' neurons.
std::vector<Vector> backward_lstm(const Cell& cell, const Term& term, const Step& step, const Vector& dh1,
                                  const Vector& dc1, Weights& weights, Gradient& gradient) {
  std::vector<Vector> sums(4);
  sums[output_gate] = times_slope(cell.neurons[output_gate], step.sums[output_gate], product(dh1, step.memory_out));
  Vector dc = times_slope(cell.output_neuron, step.c1, product(dh1, step.gates[output_gate]));
  for (size_t i = 0; i < dc.size(); ++i) dc[i] += dc1[i];
  term.back(cell.gates[output_gate].memory, step.c1, sums[output_gate], dc, weights);
  gradient.c0 = product(dc, step.gates[forget_gate]);
  const Vector of_gates[] = {product(dc, step.gates[memory_gate]), product(dc, step.c0),
                             product(dc, step.gates[input_gate])};
  for (const int gate : {input_gate, forget_gate, memory_gate}) {
    sums[gate] = times_slope(cell.neurons[gate], step.sums[gate], of_gates[gate]);
    term.back(cell.gates[gate].memory, step.c0, sums[gate], gradient.c0, weights);
  }
  return sums;
}

std::vector<Vector> backward_gru(const Cell& cell, const Term& term, const Step& step, const Vector& dh1,
                                 Weights& weights, Gradient& gradient) {
  const size_t count = dh1.size();
  const double p = cell.p_norm;
  Vector dz(count), dh(count);
  for (size_t i = 0; i < count; ++i) {
    const double z = step.gates[update_gate][i], h = step.gates[candidate][i], kept = complement(z, p);
    const double slope = p == 1 ? -1 : -std::pow(1 - std::pow(z, p), 1 / p - 1) * std::pow(z, p - 1);
    const double of_kept = cell.outputs_are_flipped ? step.h0[i] : h, of_z = cell.outputs_are_flipped ? h : step.h0[i];
    dz[i] = dh1[i] * (of_z + slope * of_kept);
    dh[i] = dh1[i] * (cell.outputs_are_flipped ? z : kept);
    gradient.h0[i] += dh1[i] * (cell.outputs_are_flipped ? kept : z);
  }
  std::vector<Vector> sums(3);
  sums[candidate] = times_slope(cell.neurons[candidate], step.sums[candidate], dh);
  Vector of_reset(count), of_update(count);  // gradients of r h0 and z h0
  term.back(cell.gates[candidate].recurrent, step.scaled, sums[candidate], of_reset, weights);
  term.back(cell.gates[candidate].memory, product(step.gates[update_gate], step.h0), sums[candidate], of_update,
            weights);
  for (size_t i = 0; i < count; ++i) {
    gradient.h0[i] += of_reset[i] * step.gates[reset_gate][i] + of_update[i] * step.gates[update_gate][i];
    dz[i] += of_update[i] * step.h0[i];
  }
  sums[update_gate] = times_slope(cell.neurons[update_gate], step.sums[update_gate], dz);
  sums[reset_gate] = times_slope(cell.neurons[reset_gate], step.sums[reset_gate], product(of_reset, step.h0));
  return sums;
}

// Return whether a gate's sum contains the term U h0. A GRU's candidate has U (r h0) instead.
bool has_plain_recurrence(const Cell& cell, size_t gate) {
  return cell.kind != Cell::Kind::gru || gate != static_cast<size_t>(candidate);
}

}  // namespace

Step forward(const Cell& cell, const Weights& weights, const Vector& x, const Vector& h0, const Vector& c0) {
  const Term term{cell, weights};
  Step step{x, h0, c0, {}, {}, {}, {}, Vector(cell.has_memory() ? h0.size() : 0), {}};
  for (size_t gate = 0; gate < cell.gates.size(); ++gate) {
    Vector sums(h0.size());
    term.add(cell.gates[gate].input, x, sums);
    if (has_plain_recurrence(cell, gate)) term.add(cell.gates[gate].recurrent, h0, sums);
    term.add_bias(cell.gates[gate].bias, sums);
    step.sums.push_back(sums);
  }
  switch (cell.kind) {
    case Cell::Kind::single_gate:
      step.gates = {activated(cell.neurons[0], step.sums[0])};
      step.h1 = step.gates[0];
      break;
    case Cell::Kind::lstm: forward_lstm(cell, term, step); break;
    case Cell::Kind::gru: forward_gru(cell, term, step); break;
  }
  return step;
}

Gradient backward(const Cell& cell, const Weights& weights, const Step& step, const Vector& dh1, const Vector& dc1,
                  Weights& weight_gradients) {
  const Term term{cell, weights};
  Gradient gradient{Vector(step.x.size()), Vector(step.h0.size()), Vector(step.c0.size())};
  std::vector<Vector> sums;
  switch (cell.kind) {
    case Cell::Kind::single_gate: sums = {times_slope(cell.neurons[0], step.sums[0], dh1)}; break;
    case Cell::Kind::lstm: sums = backward_lstm(cell, term, step, dh1, dc1, weight_gradients, gradient); break;
    case Cell::Kind::gru: sums = backward_gru(cell, term, step, dh1, weight_gradients, gradient); break;
  }
  for (size_t gate = 0; gate < cell.gates.size(); ++gate) {
    term.back(cell.gates[gate].input, step.x, sums[gate], gradient.x, weight_gradients);
    if (has_plain_recurrence(cell, gate))
      term.back(cell.gates[gate].recurrent, step.h0, sums[gate], gradient.h0, weight_gradients);
    term.back_bias(cell.gates[gate].bias, sums[gate], weight_gradients);
  }
  return gradient;
}

}  // namespace mock
