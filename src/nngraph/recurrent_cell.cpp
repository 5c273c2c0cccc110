// Cells unrolled step by step. Cells that the core supports become a single operation instead
// (recurrent_operation.cpp).
#include "nngraph/recurrent_cell.h"

#include "mpsgraph/core/gradients.h"

namespace mpsgraph::nngraph {

using Tensors = std::vector<Tensor*>;

CellGraph::CellGraph(Builder& b, const RecurrentDescriptor& descriptor, const WeightLayout& layout, Tensors weights)
    : b_(b), d_(descriptor), layout_(layout), weights_(std::move(weights)) {}

// --- weights ---------------------------------------------------------------------------------------------------------

Tensor* CellGraph::slice(Tensor* x, int64_t axis, int64_t start, int64_t length) {
  const Dims& dims = x->shape().dims();
  if (start == 0 && length == dims[static_cast<size_t>(axis)]) return x;
  Ints starts(dims.size(), 0), ends(dims), strides(dims.size(), 1);
  starts[static_cast<size_t>(axis)] = start;
  ends[static_cast<size_t>(axis)] = start + length;
  return b_.graph().add("slice", {x}, {{"starts", starts}, {"ends", ends}, {"strides", strides}});
}

Tensor* CellGraph::concat(const Tensors& tensors, int64_t axis) {
  return tensors.size() == 1 ? tensors[0] : b_.graph().add("concat", tensors, {{"axis", axis}});
}

Tensor* CellGraph::part(const WeightPart* part) {
  if (!part) return nullptr;
  return slice(slice(weights_[part->matrix], 0, part->row, part->rows), 1, part->column, part->columns);
}

bool CellGraph::all_gates(WeightKind kind) const {
  for (size_t g = 0; g < d_.gate_count(); ++g)
    if (!layout_.find(g, kind)) return false;
  return true;
}

bool CellGraph::any_gate(WeightKind kind) const { return matrix(kind) != nullptr; }

Tensor* CellGraph::matrix(WeightKind kind) const {
  for (size_t i = 0; i < weights_.size(); ++i)
    if (layout_.matrices()[i].kind == kind) return weights_[i];
  return nullptr;
}

// --- forward ---------------------------------------------------------------------------------------------------------

CellSequence CellGraph::forward(Tensor* source, const CellStart& start, bool training, bool reverse) {
  return is_operation(d_) ? as_operation(source, start, training, reverse) : written_out(source, start, reverse);
}

// For each time step, return the part of a gate that depends on the input: the matmul with the input plus the bias, of
// shape [N, H]. Empty if the gate has neither input weights nor bias.
Tensors CellGraph::inputs_by_step(Tensor* source, size_t gate) {
  const int64_t steps = source->shape()[0], rows = source->shape()[1];
  Tensor* all = nullptr;
  if (d_.identity_input) {
    all = source;
  } else if (Tensor* weight = part(layout_.find(gate, WeightKind::input))) {
    Tensor* flat = b_.reshape(source, Ints{steps * rows, d_.inputs});
    all = b_.reshape(b_.matmul(flat, b_.transpose(weight, {1, 0})), Ints{steps, rows, d_.outputs});
  }
  Tensor* bias = part(layout_.find(gate, WeightKind::bias));
  if (!all && !bias) return {};
  if (!all) return Tensors(static_cast<size_t>(steps), bias);
  if (bias) all = b_.add(all, bias);
  const Operation* split =
      b_.graph().create("split", {all}, {{"sizes", Ints(static_cast<size_t>(steps), 1)}, {"axis", int64_t{0}}});
  Tensors result;
  for (const auto& output : split->outputs)
    result.push_back(b_.graph().add("squeeze", {output.get()}, {{"axes", Ints{0}}}));
  return result;
}

CellSequence CellGraph::written_out(Tensor* source, const CellStart& start, bool reverse) {
  const auto steps = static_cast<size_t>(source->shape()[0]);
  const int64_t rows = source->shape()[1], hidden = d_.outputs;
  const size_t gates = d_.gate_count();
  const auto zeros = [&] { return b_.filled({source->dtype(), Shape{rows, hidden}}, 0); };
  std::vector<Tensors> inputs;
  Tensors recurrent, memory;
  for (size_t g = 0; g < gates; ++g) {
    inputs.push_back(inputs_by_step(source, g));
    Tensor* own = part(layout_.find(g, WeightKind::recurrent));
    recurrent.push_back(own ? b_.transpose(own, {1, 0}) : nullptr);
    Tensor* peephole = part(layout_.find(g, WeightKind::memory));
    memory.push_back(peephole && !d_.diagonal_memory ? b_.transpose(peephole, {1, 0}) : peephole);
  }
  Tensor *h = start.state ? start.state : zeros(), *c = start.cell ? start.cell : zeros();
  const auto times = [&](Tensor* x, Tensor* weight) { return weight ? b_.matmul(x, weight) : nullptr; };
  const auto seen = [&](Tensor* cell, size_t g) {
    if (!memory[g]) return static_cast<Tensor*>(nullptr);
    return d_.diagonal_memory ? b_.mul(cell, memory[g]) : b_.matmul(cell, memory[g]);
  };
  Tensors states(steps), cells;
  if (d_.cell == RecurrentCell::lstm) cells.resize(steps);
  for (size_t s = 0; s < steps; ++s) {
    const size_t t = reverse ? steps - 1 - s : s;
    const auto gate = [&](size_t g, Tensor* recurrent_part, Tensor* memory_part) {
      Tensor* sum = plus(plus(inputs[g].empty() ? nullptr : inputs[g][t], recurrent_part), memory_part);
      if (!sum || sum->shape()[0] != rows) sum = plus(sum, zeros());  // no contribution, or only a bias
      return apply_neuron(b_, d_.gates[g].neuron, sum);
    };
    if (d_.cell == RecurrentCell::single_gate) {
      h = gate(0, times(h, recurrent[0]), nullptr);
    } else if (d_.cell == RecurrentCell::lstm) {
      const auto peephole_gate = [&](size_t g) {
        Tensor* memory_part = seen(c, g);
        return gate(g, times(h, recurrent[g]), memory_part);
      };
      Tensor *i = peephole_gate(0), *f = peephole_gate(1), *z = peephole_gate(2);
      Tensor* added = b_.mul(i, z);
      c = b_.add(b_.mul(f, c), added);
      Tensor* o = peephole_gate(3);
      h = b_.mul(o, apply_neuron(b_, d_.cell_to_output, c));
      cells[t] = b_.graph().add("expand_dims", {c}, {{"axes", Ints{0}}});
    } else {
      Tensor* z = gate(0, times(h, recurrent[0]), nullptr);
      Tensor* r = gate(1, times(h, recurrent[1]), nullptr);
      Tensor* memory_part = seen(b_.mul(z, h), 2);
      Tensor* o = gate(2, times(b_.mul(r, h), recurrent[2]), memory_part);
      Tensor* rest = b_.sub(1.0, d_.p_norm == 1 ? z : b_.binary("power", z, b_.scalar_like(z, d_.p_norm)));
      if (d_.p_norm != 1) rest = b_.binary("power", rest, b_.scalar_like(rest, 1 / d_.p_norm));
      Tensor* added = b_.mul(z, d_.flip_output_gates ? o : h);
      h = b_.add(b_.mul(rest, d_.flip_output_gates ? h : o), added);
    }
    states[t] = b_.graph().add("expand_dims", {h}, {{"axes", Ints{0}}});
  }
  return {concat(states, 0), cells.empty() ? nullptr : concat(cells, 0), nullptr};
}

// --- backward --------------------------------------------------------------------------------------------------------

CellGradients CellGraph::backward(Tensor* source, const CellStart& start, const CellSequence& known, Tensor* d_states,
                                  const CellStart& last) {
  if (is_operation(d_)) return operation_backward(source, start, known, d_states, last);
  const CellSequence again = written_out(source, start, false);
  const int64_t steps = source->shape()[0];
  const auto at_the_end = [&](Tensor* gradient) {
    return b_.graph().add("expand_dims", {gradient}, {{"axes", Ints{0}}});
  };
  const auto last_of = [&](Tensor* all) { return slice(all, 0, steps - 1, 1); };
  // Concatenate all results, and all their gradients, so that a single call of gradients() differentiates them.
  Tensors of{again.states}, gradients_of{d_states};
  const auto use = [&](Tensor* all, Tensor* gradient) {
    if (!gradient) return;
    of.push_back(last_of(all));
    gradients_of.push_back(at_the_end(gradient));
  };
  use(again.states, last.state);
  if (again.cells) use(again.cells, last.cell);
  Tensors wanted{source};
  for (Tensor* given : {start.state, start.cell})
    if (given) wanted.push_back(given);
  wanted.insert(wanted.end(), weights_.begin(), weights_.end());
  Tensor* start_of = concat(gradients_of, 0);
  const Tensors found = gradients(concat(of, 0), wanted, start_of);
  CellGradients result;
  result.source = found[0];
  size_t next = 1;
  if (start.state) result.state = found[next++];
  if (start.cell) result.cell = found[next++];
  result.weights.assign(found.begin() + static_cast<ptrdiff_t>(next), found.end());
  return result;
}

}  // namespace mpsgraph::nngraph
