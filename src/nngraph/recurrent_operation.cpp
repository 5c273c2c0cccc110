// Plain recurrent cells as the core operations single_gate_rnn, lstm, and gru, and the gradients of these operations.
#include <algorithm>

#include "nngraph/recurrent_cell.h"

namespace mpsgraph::nngraph {

using Tensors = std::vector<Tensor*>;

namespace {

// Return the activation's name in the core operations, or an empty string if no core operation matches it. relu and
// hard sigmoid do not match, because the core's derivatives differ from Apple's at the kinks.
std::string_view activation_of(const Neuron& n) {
  if (n.type == "none" || n.type == "sigmoid") return n.type;
  if (n.type == "tanh" && n.a == 1 && n.b == 1) return "tanh";
  return n.type == "linear" && n.a == 1 && n.b == 0 ? "none" : "";
}

Kind kind_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? Kind("lstm") : cell == RecurrentCell::gru ? Kind("gru") : "single_gate_rnn";
}
Kind gradients_kind_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm  ? Kind("lstm_gradients")
         : cell == RecurrentCell::gru ? Kind("gru_gradients")
                                      : "single_gate_rnn_gradients";
}

Attributes activations_of(const RecurrentDescriptor& d) {
  constexpr std::string_view lstm[] = {"input_gate_activation", "forget_gate_activation", "cell_gate_activation",
                                       "output_gate_activation"};
  constexpr std::string_view gru[] = {"update_gate_activation", "reset_gate_activation", "output_gate_activation"};
  Attributes result;
  const auto set = [&](std::string_view name, const Neuron& n) { result.set(name, std::string(activation_of(n))); };
  for (size_t g = 0; g < d.gates.size(); ++g) {
    const Neuron& neuron = d.gates[g].neuron;
    if (d.cell == RecurrentCell::single_gate)
      set("activation", neuron);
    else
      set(d.cell == RecurrentCell::lstm ? lstm[g] : gru[g], neuron);
  }
  if (d.cell == RecurrentCell::lstm) set("activation", d.cell_to_output);
  if (d.cell == RecurrentCell::gru) result.set("flip_z", d.flip_output_gates);
  return result;
}

}  // namespace

bool CellGraph::is_operation(const RecurrentDescriptor& d) {
  if (std::ranges::any_of(d.gates, [](const Gate& gate) { return activation_of(gate.neuron).empty(); })) return false;
  const auto has_memory = [&](size_t g) { return d.gates[g][WeightKind::memory].valid(); };
  switch (d.cell) {
    case RecurrentCell::single_gate: return true;
    case RecurrentCell::lstm: {
      // A peephole of the output gate reads the new memory cell, but the core operation would apply it to the cell of
      // the previous step.
      if (has_memory(3) || activation_of(d.cell_to_output).empty()) return false;
      const bool peephole = has_memory(0) || has_memory(1) || has_memory(2);
      return !peephole || d.diagonal_memory;
    }
    case RecurrentCell::gru: return d.p_norm == 1 && !has_memory(2);
  }
  return false;
}

// Concatenate the weights of all gates.
Tensor* CellGraph::packed(WeightKind kind) {
  if (all_gates(kind)) return matrix(kind);
  const bool row = kind == WeightKind::bias || kind == WeightKind::memory;
  const int64_t columns = kind == WeightKind::input ? d_.inputs : d_.outputs;
  Tensors gates;
  for (size_t g = 0; g < d_.gate_count(); ++g) {
    Tensor* given = part(layout_.find(g, kind));
    gates.push_back(given ? given
                          : b_.filled({DType::float32, row ? Shape{1, columns} : Shape{d_.outputs, columns}}, 0));
  }
  return concat(gates, row ? 1 : 0);
}

Tensor* CellGraph::unpacked(Tensor* gradient, WeightKind kind) {
  if (all_gates(kind)) return gradient;
  const int64_t axis = kind == WeightKind::bias || kind == WeightKind::memory ? 1 : 0;
  Tensors gates;
  for (size_t g = 0; g < d_.gate_count(); ++g)
    if (layout_.find(g, kind)) gates.push_back(slice(gradient, axis, static_cast<int64_t>(g) * d_.outputs, d_.outputs));
  return concat(gates, axis);
}

struct CellGraph::Operands {
  Tensor *source, *recurrent, *input, *bias, *state, *cell, *peephole;

  void say_given(Attributes& a, bool lstm) const {
    a.set("has_input_weight", input != nullptr);
    a.set("has_bias", bias != nullptr);
    a.set("has_initial_state", state != nullptr);
    if (!lstm) return;
    a.set("has_initial_cell", cell != nullptr);
    a.set("has_peephole", peephole != nullptr);
  }
  void append_to(Tensors& operands) const {
    for (Tensor* given : {input, bias, state, cell, peephole})
      if (given) operands.push_back(given);
  }
};

CellGraph::Operands CellGraph::operands(Tensor* source, const CellStart& start) {
  const auto gates = static_cast<int64_t>(d_.gate_count());
  const auto flat = [&](WeightKind kind) {
    return any_gate(kind) ? b_.reshape(packed(kind), Ints{gates * d_.outputs}) : nullptr;
  };
  Operands result{source,     packed(WeightKind::recurrent), nullptr, flat(WeightKind::bias), start.state,
                  start.cell, flat(WeightKind::memory)};
  if (d_.identity_input)
    result.source = concat(Tensors(static_cast<size_t>(gates), source), 2);
  else
    result.input = packed(WeightKind::input);
  return result;
}

CellSequence CellGraph::as_operation(Tensor* source, const CellStart& start, bool training, bool reverse) {
  const Operands in = operands(source, start);
  const bool lstm = d_.cell == RecurrentCell::lstm;
  Attributes attributes = activations_of(d_);
  in.say_given(attributes, lstm);
  attributes.set("training", training);
  attributes.set("reverse", reverse);
  if (lstm) attributes.set("produce_cell", true);
  Tensors given{in.source, in.recurrent};
  in.append_to(given);
  const Operation* layer = b_.graph().create(kind_of(d_.cell), std::move(given), std::move(attributes));
  CellSequence result{.states = layer->output(0)};
  if (lstm) result.cells = layer->output(1);
  if (training) result.gates = layer->output(lstm ? 2 : 1);
  return result;
}

CellGradients CellGraph::operation_backward(Tensor* source, const CellStart& start, const CellSequence& known,
                                            Tensor* d_states, const CellStart& last) {
  const Operands in = operands(source, start);
  const bool lstm = d_.cell == RecurrentCell::lstm;
  Attributes attributes = activations_of(d_);
  in.say_given(attributes, lstm);
  attributes.set("has_state_gradient", last.state != nullptr);
  if (lstm) attributes.set("has_cell_gradient", last.cell != nullptr);
  Tensors given{in.source, in.recurrent, d_states, known.gates};
  if (lstm) given.push_back(known.cells);
  if (d_.cell == RecurrentCell::gru) given.push_back(known.states);
  in.append_to(given);
  if (last.state) given.push_back(last.state);
  if (lstm && last.cell) given.push_back(last.cell);
  const Operation* found = b_.graph().create(gradients_kind_of(d_.cell), std::move(given), std::move(attributes));

  size_t next = 0;
  const auto take = [&](bool there) { return there ? found->output(next++) : nullptr; };
  Tensor *d_source = take(true), *d_recurrent = take(true), *d_input = take(in.input), *d_bias = take(in.bias),
         *d_peephole = take(in.peephole);
  CellGradients result;
  result.source = d_source;
  result.state = take(start.state);
  result.cell = take(start.cell);
  if (d_.identity_input) {
    Tensor* sum = nullptr;
    for (size_t g = 0; g < d_.gate_count(); ++g)
      sum = plus(sum, slice(d_source, 2, static_cast<int64_t>(g) * d_.outputs, d_.outputs));
    result.source = sum;
  }
  const auto as_row = [&](Tensor* gradient) {
    return b_.reshape(gradient, Ints{1, static_cast<int64_t>(d_.gate_count()) * d_.outputs});
  };
  for (const WeightLayout::Size& size : layout_.matrices()) {
    switch (size.kind) {
      case WeightKind::input: result.weights.push_back(unpacked(d_input, size.kind)); break;
      case WeightKind::recurrent: result.weights.push_back(unpacked(d_recurrent, size.kind)); break;
      case WeightKind::memory: result.weights.push_back(unpacked(as_row(d_peephole), size.kind)); break;
      case WeightKind::bias: result.weights.push_back(unpacked(as_row(d_bias), size.kind)); break;
    }
  }
  return result;
}

}  // namespace mpsgraph::nngraph
