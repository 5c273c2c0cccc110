// The time steps of recurrent layers. Matmuls over all time steps come before and after these steps; together they form
// a layer.
//
// MPSGraph's single-gate RNN and LSTM return states and cells; one matmul computes the gates from the previous states.
// All forms that Apple does not document unambiguously are composed step by step: GRU, because two of Apple's comments
// on flipZ contradict each other; layers with masks, whose shape is not documented; dtypes other than float32, whose
// precision is not documented; and the gradients, whose training state is internal to MPSGraph. Since macOS 26, all
// layers are composed, see native_layers_run_again. The order of the results of `reverse` is not documented, so
// sequences are reversed here.
#include "core/ops/recurrent.h"

#include <functional>
#include <optional>

#include "backends/metal/availability.h"
#include "backends/metal/formula.h"

namespace mpsgraph::metal {
namespace {

using ops::Cell;
using ops::RecurrentActivation;
using Terms = std::vector<Term>;

constexpr int64_t most_written_out = 128;  // maximum number of time steps to unroll; longer sequences use a loop

// --- pieces ----------------------------------------------------------------------------------------------------------

Term part(const Term& x, NSUInteger axis, int64_t start, int64_t length) {
  return x.with([x.graph() sliceTensor:x.tensor() dimension:axis start:start length:length name:nil]);
}

Term beside(const Terms& terms, NSInteger axis) {
  if (terms.size() == 1) return terms[0];
  NSMutableArray<MPSGraphTensor*>* tensors = [NSMutableArray array];
  for (const Term& term : terms) [tensors addObject:term.tensor()];
  return terms[0].with([terms[0].graph() concatTensors:tensors dimension:axis name:nil]);
}

Term product(const Term& a, const Term& b) {
  return apply(a, b, [](MPSGraph* g, MPSGraphTensor* x, MPSGraphTensor* y) {
    return [g matrixMultiplicationWithPrimaryTensor:x secondaryTensor:y name:nil];
  });
}

Term transposed(const Term& x) {
  return x.with([x.graph() transposeTensor:x.tensor() permutation:@[ @1, @0 ] name:nil]);
}

Term reversed(const Term& x) { return x.with([x.graph() reverseTensor:x.tensor() axes:@[ @0 ] name:nil]); }

Term activate(RecurrentActivation activation, const Term& x) {
  switch (activation) {
    case RecurrentActivation::none: return x;
    case RecurrentActivation::relu: return select(x < 0.0, 0.0, x);
    case RecurrentActivation::tanh:
      return apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g tanhWithTensor:t name:nil]; });
    case RecurrentActivation::sigmoid:
      return apply(x, [](MPSGraph* g, MPSGraphTensor* t) { return [g sigmoidWithTensor:t name:nil]; });
    case RecurrentActivation::hard_sigmoid: break;
  }
  const Term y = x * 0.2 + 0.5;
  return select(y < 0.0, 0.0, select(y > 1.0, 1.0, y));
}

// Return the derivative of the activation at the point where the activation is y.
Term slope(RecurrentActivation activation, const Term& y) {
  switch (activation) {
    case RecurrentActivation::none: return y.constant(1);
    case RecurrentActivation::relu: return select(y > 0.0, y.constant(1), 0.0);
    case RecurrentActivation::tanh: return 1.0 - y * y;
    case RecurrentActivation::sigmoid: return y * (1.0 - y);
    case RecurrentActivation::hard_sigmoid: break;
  }
  return select(both(y > 0.0, y < 1.0), y.constant(0.2), 0.0);
}

MPSGraphRNNActivation apples(RecurrentActivation activation) {
  switch (activation) {
    case RecurrentActivation::none: return MPSGraphRNNActivationNone;
    case RecurrentActivation::relu: return MPSGraphRNNActivationRelu;
    case RecurrentActivation::tanh: return MPSGraphRNNActivationTanh;
    case RecurrentActivation::sigmoid: return MPSGraphRNNActivationSigmoid;
    case RecurrentActivation::hard_sigmoid: break;
  }
  return MPSGraphRNNActivationHardSigmoid;
}

// --- iteration over steps --------------------------------------------------------------------------------------------

// Function that computes one time step. `parts` are the slices of all sequences at this step, each with two axes.
// `carried` holds the values from the previous step, which the function replaces with new ones. Returns the results of
// this step.
using Step = std::function<Terms(const Terms& parts, Terms& carried)>;

// Unroll the steps. Return the results of all steps, with time as the first axis, followed by the final carried values.
Terms written_out(int64_t steps, bool from_end, const Terms& sequences, Terms carried, const Step& step) {
  std::vector<Terms> results(static_cast<size_t>(steps));
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = from_end ? steps - 1 - s : s;
    Terms parts;
    for (const Term& sequence : sequences) {
      const Dims dims = dims_of(sequence.tensor().shape);
      parts.push_back(part(sequence, 0, t, 1).reshape({dims[1], dims[2]}));
    }
    for (const Term& result : step(parts, carried)) {
      const Dims dims = dims_of(result.tensor().shape);
      results[static_cast<size_t>(t)].push_back(result.reshape({1, dims[0], dims[1]}));
    }
  }
  Terms all;
  for (size_t i = 0; i < results[0].size(); ++i) {
    Terms one;
    for (const Terms& at : results) one.push_back(at[i]);
    all.push_back(beside(one, 0));
  }
  all.insert(all.end(), carried.begin(), carried.end());
  return all;
}

// Run the steps in a loop, instead of unrolling them as written_out() does; the results are the same. `widths` holds
// the size of each result's last axis. Each iteration writes its results at the index of its time step, and keeps all
// other positions.
Terms in_a_loop(const Lowering& l, int64_t steps, bool from_end, const Terms& sequences, const Terms& carried,
                const Ints& widths, const Step& step) {
  const Term like = carried[0];
  const int64_t batch = dims_of(like.tensor().shape)[0];
  NSMutableArray<MPSGraphTensor*>* initial = [NSMutableArray array];
  for (const int64_t width : widths) [initial addObject:l.filled(0, {l.dtype(), Shape(Dims{steps, batch, width})})];
  for (const Term& value : carried) [initial addObject:value.tensor()];
  const Term times(l, [l.graph() coordinateAlongAxis:0 withShape:numbers({steps, 1, 1}) name:nil]);
  const Terms* const whole = &sequences;
  const Step* const one = &step;
  const Lowering* const lowering = &l;
  const size_t count = widths.size();
  NSArray<MPSGraphTensor*>* last = [l.graph()
      forLoopWithLowerBound:l.bound_of(0)
                 upperBound:l.bound_of(steps)
                       step:l.bound_of(1)
       initialBodyArguments:initial
                       body:^NSArray<MPSGraphTensor*>*(MPSGraphTensor* index, NSArray<MPSGraphTensor*>* given) {
                         Term time(*lowering, lowering->reshape(lowering->cast(index, DType::int32), {1}));
                         if (from_end) time = static_cast<double>(steps - 1) - time;
                         Terms parts, around;
                         for (const Term& sequence : *whole) {
                           const Dims dims = dims_of(sequence.tensor().shape);
                           MPSGraphTensor* here = [lowering->graph() gatherWithUpdatesTensor:sequence.tensor()
                                                                               indicesTensor:time.tensor()
                                                                                        axis:0
                                                                             batchDimensions:0
                                                                                        name:nil];
                           parts.push_back(sequence.with(here).reshape({dims[1], dims[2]}));
                         }
                         for (NSUInteger i = count; i < given.count; ++i) around.emplace_back(*lowering, given[i]);
                         const Terms results = (*one)(parts, around);
                         NSMutableArray<MPSGraphTensor*>* next = [NSMutableArray array];
                         for (size_t i = 0; i < count; ++i) {
                           const Dims dims = dims_of(results[i].tensor().shape);
                           const Term here = results[i].reshape({1, dims[0], dims[1]});
                           [next addObject:select(times == time, here, Term(*lowering, given[i])).tensor()];
                         }
                         for (const Term& value : around) [next addObject:value.tensor()];
                         return next;
                       }
                       name:l.name()];
  Terms all;
  for (MPSGraphTensor* tensor in last) all.emplace_back(l, tensor);
  return all;
}

Terms scan(const Lowering& l, int64_t steps, bool from_end, const Terms& sequences, const Terms& carried,
           const Ints& widths, const Step& step) {
  return steps <= most_written_out ? written_out(steps, from_end, sequences, carried, step)
                                   : in_a_loop(l, steps, from_end, sequences, carried, widths, step);
}

// --- code shared by the forward pass and the gradient ----------------------------------------------------------------

class Sequence {
  const ops::NamedOperands given_;

 public:
  Sequence(Lowering& l, const ops::OperandNames& names, const Dims& states)
      : given_(names, l.attributes(), l.operation.inputs),
        l(l),
        cell(l.attributes()),
        directions(l.dims(static_cast<size_t>(given_.index("recurrent_weight")))[0]),
        hidden(l.dims(static_cast<size_t>(given_.index("recurrent_weight")))[2]),
        steps(states[0]),
        batch(states[1]) {}

  std::optional<Term> operand(std::string_view name) const {
    const int i = given_.index(name);
    if (i < 0) return {};
    return Term::input(l, static_cast<size_t>(i));
  }
  bool goes_back(int64_t direction) const { return cell.reverse != (direction == 1); }
  int64_t width() const { return cell.gates() * hidden; }
  Term zeros() const { return Term(l, l.filled(0, {l.dtype(), Shape(Dims{batch, hidden})})); }

  // Return the part of x's last axis that belongs to this direction of a bidirectional layer. The part is `count` times
  // as wide as a state.
  Term own(const Term& x, int64_t direction, int64_t count = 1) const {
    const auto axis = static_cast<NSUInteger>(dims_of(x.tensor().shape).size() - 1);
    return directions == 1 ? x : part(x, axis, direction * count * hidden, count * hidden);
  }
  Term weights(int64_t direction) const {
    return part(*operand("recurrent_weight"), 0, direction, 1).reshape({width(), hidden});
  }
  // From the concatenated gates [N, gates * H] of one step or of all steps, select the gate with the given role.
  Term gate(const Term& gates, size_t role) const {
    const auto axis = static_cast<NSUInteger>(dims_of(gates.tensor().shape).size() - 1);
    return part(gates, axis, cell.places[role] * hidden, hidden);
  }
  Term rows(const Term& weights, size_t role) const { return part(weights, 0, cell.places[role] * hidden, hidden); }
  // Concatenate gates in the order in which the weights store them; `by_role` lists the gates by role.
  Term ordered(const Terms& by_role) const {
    std::vector<std::optional<Term>> places(by_role.size());
    for (size_t role = 0; role < by_role.size(); ++role)
      places[static_cast<size_t>(cell.places[role])].emplace(by_role[role]);
    Terms inorder;
    for (const auto& place : places) inorder.push_back(*place);
    return beside(inorder, static_cast<NSInteger>(dims_of(inorder[0].tensor().shape).size() - 1));
  }
  // Return, for each time step, the value at the step processed before it in this direction. The first step gets
  // `initial`.
  Term before(const Term& values, const Term& initial, int64_t direction) const {
    const Term first = initial.reshape({1, batch, hidden});
    if (steps == 1) return first;
    return goes_back(direction) ? beside({part(values, 0, 1, steps - 1), first}, 0)
                                : beside({first, part(values, 0, 0, steps - 1)}, 0);
  }
  // Broadcast the mask to all steps.
  std::optional<Term> mask(int64_t direction) const {
    std::optional<Term> all = operand("mask");
    if (!all) return {};
    const Term whole = all->with([l.graph() broadcastTensor:all->tensor()
                                                    toShape:shape_of(Dims{steps, batch, directions * hidden})
                                                       name:nil]);
    return own(whole, direction);
  }
  // Concatenate the results of both directions.
  GraphTensors joined(const std::vector<Terms>& by_direction) const {
    GraphTensors results;
    for (size_t i = 0; i < by_direction[0].size(); ++i) {
      Terms parts;
      for (const Terms& direction : by_direction) parts.push_back(direction[i]);
      results.push_back(beside(parts, static_cast<NSInteger>(dims_of(parts[0].tensor().shape).size() - 1)).tensor());
    }
    return results;
  }

  Lowering& l;
  const ops::CellDescription cell;
  const int64_t directions, hidden, steps, batch;
};

// --- forward ---------------------------------------------------------------------------------------------------------

// Since macOS 26, the second run of a program with a recurrent layer of MPSGraph aborts the process on M5 ("JIT not
// supported"): https://github.com/FluidInference/FluidAudio/issues/667. Other processors are not known to be safe.
bool native_layers_run_again() {
  if (METAL_AVAILABLE(26.0, 26.0)) return false;
  return true;
}

class Forward : public Sequence {
 public:
  explicit Forward(Lowering& l)
      : Sequence(l, ops::sequence_operands, l.result_dims()),
        gives_cell(l.attributes().boolean("gives_cell")),
        gives_gates(l.attributes().boolean("gives_training_state")) {}

  GraphTensors lower() {
    const bool is_plain = !operand("mask") && !operand("extra") && l.dtype() == DType::float32;
    if (is_plain && cell.cell != Cell::gru && native_layers_run_again()) return native();
    std::vector<Terms> by_direction;
    for (int64_t d = 0; d < directions; ++d) by_direction.push_back(composed(d));
    return joined(by_direction);
  }

 private:
  const bool gives_cell, gives_gates;

  Terms composed(int64_t direction) const {
    const Term turned = transposed(weights(direction));
    const std::optional<Term> extra = operand("extra"), mask = this->mask(direction);
    const std::optional<Term> own_extra =
        // the bias of this direction: [1, gates * H] or [1, H]
        extra ? std::optional(part(*extra, 0, direction, 1)) : std::nullopt;
    Terms sequences{own(projected(), direction, cell.gates())};
    if (mask) sequences.push_back(*mask);
    Terms carried{own(*operand("initial_state"), direction)};
    if (cell.cell == Cell::lstm) carried.push_back(own(*operand("initial_cell"), direction));
    Ints widths{hidden};
    if (gives_cell) widths.push_back(hidden);
    if (gives_gates) widths.push_back(width());
    const Step step = [&](const Terms& parts, Terms& around) {
      const Term masked = mask ? around[0] * parts[1] : around[0];
      const Term gates = cell.cell == Cell::gru ? gru(parts, masked, turned, own_extra, around)
                                                : others(parts[0], masked, turned, own_extra, around);
      Terms results{around[0]};
      if (gives_cell) results.push_back(around[1]);
      if (gives_gates) results.push_back(gates);
      return results;
    };
    Terms results = scan(l, steps, goes_back(direction), sequences, carried, widths, step);
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(widths.size()), results.end());
    return results;
  }

  // Step of a single-gate RNN or an LSTM; returns the training state.
  Term others(const Term& source, const Term& masked, const Term& turned, const std::optional<Term>& peephole,
              Terms& around) const {
    Term sum = source + product(masked, turned);
    if (cell.cell == Cell::single_gate) {
      around[0] = activate(cell.activations[0], sum);
      return sum;
    }
    Term& value = around[1];
    if (peephole) sum = sum + beside(Terms(4, value), 1) * *peephole;
    const Terms gates = activated(sum);
    value = gates[1] * value + gates[0] * gates[2];
    around[0] = gates[3] * activate(cell.activations[4], value);
    return ordered(gates);
  }

  Terms activated(const Term& sum) const {
    Terms gates;
    for (size_t role = 0; role < cell.places.size(); ++role)
      gates.push_back(activate(cell.activations[role], gate(sum, role)));
    return gates;
  }

  Term gru(const Terms& parts, const Term& masked, const Term& turned, const std::optional<Term>& bias,
           Terms& around) const {
    const Term all = product(masked, turned), source = parts[0];
    const Term update = activate(cell.activations[0], gate(source, 0) + gate(all, 0));
    const Term reset = activate(cell.activations[1], gate(source, 1) + gate(all, 1));
    const auto candidate = [&] {
      if (cell.reset_after) return (bias ? gate(all, 2) + *bias : gate(all, 2)) * reset;
      return product(masked * reset, part(turned, 1, cell.places[2] * hidden, hidden));
    };
    const Term output = activate(cell.activations[2], gate(source, 2) + candidate());
    const Term keep = cell.flip_z ? 1.0 - update : update, renew = cell.flip_z ? update : 1.0 - update;
    around[0] = keep * around[0] + renew * output;
    return ordered({update, reset, output});
  }

  // Run both directions in one operation, without input weights, because the source is already the input of the gates.
  GraphTensors native() const {
    const Term source = projected(), state = *operand("initial_state");
    const bool turn = directions == 1 && cell.reverse;
    MPSGraphTensor* given = (turn ? reversed(source) : source).tensor();
    Term weights = *operand("recurrent_weight");
    if (directions == 1) weights = weights.reshape({width(), hidden});
    NSArray<MPSGraphTensor*>* made = cell.cell == Cell::lstm ? lstm(given, weights.tensor(), state.tensor())
                                                             : single_gate(given, weights.tensor(), state.tensor());
    Terms results;
    for (MPSGraphTensor* tensor in made) results.push_back(turn ? reversed({l, tensor}) : Term(l, tensor));
    if (gives_gates) results.push_back(training_state(results[0]));
    if (cell.cell == Cell::lstm && !gives_cell) results.erase(results.begin() + 1);
    GraphTensors tensors;
    for (const Term& result : results) tensors.push_back(result.tensor());
    return tensors;
  }

  NSArray<MPSGraphTensor*>* single_gate(MPSGraphTensor* source, MPSGraphTensor* weights, MPSGraphTensor* state) const {
    MPSGraphSingleGateRNNDescriptor* descriptor = [MPSGraphSingleGateRNNDescriptor descriptor];
    descriptor.bidirectional = directions == 2;
    descriptor.activation = apples(cell.activations[0]);
    return @[ [l.graph() singleGateRNNWithSourceTensor:source
                                       recurrentWeight:weights
                                             initState:state
                                            descriptor:descriptor
                                                  name:l.name()][0] ];
  }

  NSArray<MPSGraphTensor*>* lstm(MPSGraphTensor* source, MPSGraphTensor* weights, MPSGraphTensor* state) const {
    MPSGraphLSTMDescriptor* descriptor = [MPSGraphLSTMDescriptor descriptor];
    descriptor.bidirectional = directions == 2;
    descriptor.produceCell = YES;
    descriptor.forgetGateLast = cell.places[1] == 2;
    descriptor.inputGateActivation = apples(cell.activations[0]);
    descriptor.forgetGateActivation = apples(cell.activations[1]);
    descriptor.cellGateActivation = apples(cell.activations[2]);
    descriptor.outputGateActivation = apples(cell.activations[3]);
    descriptor.activation = apples(cell.activations[4]);
    return [l.graph() LSTMWithSourceTensor:source
                           recurrentWeight:weights
                                 initState:state
                                  initCell:operand("initial_cell")->tensor()
                                descriptor:descriptor
                                      name:l.name()];
  }

  // Return the source times the input weights, if there are any, plus the bias.
  Term projected() const {
    const Term source = *operand("source");
    const auto weight = operand("input_weight");
    if (!weight) return source;
    const int64_t inputs = source.tensor().shape.lastObject.longLongValue;
    Term all = product(source.reshape({steps * batch, inputs}), transposed(*weight));
    if (const auto bias = operand("bias")) all = all + *bias;
    return all.reshape({steps, batch, directions * width()});
  }

  Term training_state(const Term& states) const {
    Terms by_direction;
    for (int64_t d = 0; d < directions; ++d) {
      const Term earlier = before(own(states, d), own(*operand("initial_state"), d), d);
      const Term from_states = product(earlier.reshape({steps * batch, hidden}), transposed(weights(d)));
      const Term sum = own(projected(), d, cell.gates()) + from_states.reshape({steps, batch, width()});
      by_direction.push_back(cell.cell == Cell::lstm ? ordered(activated(sum)) : sum);
    }
    return beside(by_direction, 2);
  }
};

// --- gradient --------------------------------------------------------------------------------------------------------

class Backward : public Sequence {
 public:
  explicit Backward(Lowering& l)
      : Sequence(l, ops::sequence_gradient_operands, dims_of_states(l)), is_lstm(cell.cell == Cell::lstm) {}

  GraphTensors lower() {
    std::vector<Terms> by_direction;
    for (int64_t d = 0; d < directions; ++d) by_direction.push_back(one(d));
    GraphTensors results = joined(by_direction);
    if (steps == 0) results.insert(results.begin(), nil);
    if (l.attributes().boolean("gives_state_before")) results.push_back(steps == 0 ? nil : states_before());
    if (l.attributes().boolean("gives_bias_gradient")) results.push_back(bias_gradient(results[0]));
    return results;
  }

 private:
  const bool is_lstm;
  // Recompute the previous states from the gates and, for an LSTM, the cells, because the states are not operands.
  MPSGraphTensor* states_before() const {
    Terms by_direction;
    for (int64_t d = 0; d < directions; ++d) {
      const Term gates = own(*operand("training_state"), d, cell.gates());
      const Term states = is_lstm ? gate(gates, 3) * activate(cell.activations[4], own(*operand("cell"), d))
                                  : activate(cell.activations[0], gates);
      by_direction.push_back(before(states, own(*operand("initial_state"), d), d));
    }
    return beside(by_direction, 2).tensor();
  }
  MPSGraphTensor* bias_gradient(MPSGraphTensor* source_gradient) const {
    const int64_t all = directions * width();
    if (steps == 0) return l.filled(0, {l.dtype(), Shape(Dims{all})});
    const Term gradient(l, source_gradient);
    const Term sums = sum(is_half(l.dtype()) ? gradient.cast(DType::float32) : gradient, {0, 1}).cast(l.dtype());
    return sums.reshape({all}).tensor();
  }
  // Names of the sequences whose slices a time step receives, for the direction being processed, in the order of these
  // slices.
  std::vector<std::string_view> names_;

  static Dims dims_of_states(const Lowering& l) {
    const ops::NamedOperands given(ops::sequence_gradient_operands, l.attributes(), l.operation.inputs);
    return l.dims(static_cast<size_t>(given.index("state_gradient")));
  }

  Term last(std::string_view name, int64_t direction) const {
    const auto given = operand(name);
    return given ? own(*given, direction) : zeros();
  }

  // Return the gradients of the projected input, the initial state, and the initial cell for one direction.
  Terms one(int64_t direction) {
    Terms carried{last("last_state_gradient", direction)};
    if (is_lstm) carried.push_back(last("last_cell_gradient", direction));
    if (steps == 0) return carried;
    Terms sequences;
    names_.clear();
    const auto take = [&](std::string_view name, const std::optional<Term>& sequence) {
      if (!sequence) return;
      names_.push_back(name);
      sequences.push_back(*sequence);
    };
    const auto take_own = [&](std::string_view name, int64_t count) {
      if (const auto all = operand(name)) take(name, own(*all, direction, count));
    };
    take_own("training_state", cell.gates());
    take_own("training_state_gradient", cell.gates());
    for (std::string_view name : {"state_gradient", "cell_gradient", "candidate", "cell"}) take_own(name, 1);
    take("mask", mask(direction));
    if (is_lstm) take("cell_before", earlier("cell", "initial_cell", direction));
    if (cell.cell == Cell::gru) take("state_before", earlier("state", "initial_state", direction));
    const Term weights = this->weights(direction);
    const auto peephole = operand("peephole");
    const std::optional<Term> own_peephole = peephole ? std::optional(part(*peephole, 0, direction, 1)) : std::nullopt;
    const Step step = [&](const Terms& parts, Terms& around) -> Terms {
      around[0] = around[0] + *at("state_gradient", parts);
      if (const auto d_cell = at("cell_gradient", parts)) around[1] = around[1] + *d_cell;
      if (is_lstm) return {lstm(parts, weights, own_peephole, around)};
      return {cell.cell == Cell::gru ? gru(parts, weights, around) : single_gate(parts, weights, around)};
    };
    return scan(l, steps, !goes_back(direction), sequences, carried, {width()}, step);
  }

  Term earlier(std::string_view values, std::string_view initial, int64_t direction) const {
    return before(own(*operand(values), direction), own(*operand(initial), direction), direction);
  }

  std::optional<Term> at(std::string_view name, const Terms& parts) const {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return parts[i];
    return {};
  }
  Term masked(const Terms& parts, const Term& x) const {
    const auto mask = at("mask", parts);
    return mask ? x * *mask : x;
  }
  // Return the gradient of a gate before its activation, computed from the gradient after the activation.
  Term through(const Terms& parts, size_t role, Term gradient) const {
    if (const auto more = at("training_state_gradient", parts)) gradient = gradient + gate(*more, role);
    return gradient * slope(cell.activations[role], gate(*at("training_state", parts), role));
  }

  Term single_gate(const Terms& parts, const Term& weights, Terms& around) const {
    const Term value = activate(cell.activations[0], *at("training_state", parts));
    Term d_gate = around[0] * slope(cell.activations[0], value);
    if (const auto more = at("training_state_gradient", parts)) d_gate = d_gate + *more;
    around[0] = masked(parts, product(d_gate, weights));
    return d_gate;
  }

  Term lstm(const Terms& parts, const Term& weights, const std::optional<Term>& peephole, Terms& around) const {
    const Term gates = *at("training_state", parts);
    const Term i = gate(gates, 0), f = gate(gates, 1), z = gate(gates, 2), o = gate(gates, 3);
    const Term image = activate(cell.activations[4], *at("cell", parts));
    Term d_cell = around[1] + around[0] * o * slope(cell.activations[4], image);
    const Term d_gates = ordered({through(parts, 0, d_cell * z), through(parts, 1, d_cell * *at("cell_before", parts)),
                                  through(parts, 2, d_cell * i), through(parts, 3, around[0] * image)});
    d_cell = d_cell * f;
    if (peephole) {
      const Term d_peeped = d_gates * *peephole;
      for (size_t role = 0; role < 4; ++role) d_cell = d_cell + gate(d_peeped, role);
    }
    around = {masked(parts, product(d_gates, weights)), d_cell};
    return d_gates;
  }

  Term gru(const Terms& parts, const Term& weights, Terms& around) const {
    const Term gates = *at("training_state", parts), d_state = around[0], earlier = *at("state_before", parts);
    const Term z = gate(gates, 0), r = gate(gates, 1), o = gate(gates, 2);
    const Term keep = cell.flip_z ? 1.0 - z : z, renew = cell.flip_z ? z : 1.0 - z;
    const Term d_o = through(parts, 2, d_state * renew);
    const Term d_z = through(parts, 0, d_state * (cell.flip_z ? o - earlier : earlier - o));
    const Term d_product = cell.reset_after ? d_o : product(d_o, rows(weights, 2));
    const Term d_r =
        through(parts, 1, d_product * (cell.reset_after ? *at("candidate", parts) : masked(parts, earlier)));
    const Term through_output = cell.reset_after ? product(d_o * r, rows(weights, 2)) : d_product * r;
    const Term d_masked = through_output + product(d_z, rows(weights, 0)) + product(d_r, rows(weights, 1));
    around[0] = d_state * keep + masked(parts, d_masked);
    return ordered({d_z, d_r, d_o});
  }
};

GraphTensors lower_sequence(Lowering& l) { return Forward(l).lower(); }
GraphTensors lower_sequence_gradient(Lowering& l) { return Backward(l).lower(); }

}  // namespace

const Lowerings recurrent_lowerings("recurrent", [] {
  define_lowering("recurrent_sequence", lower_sequence);
  define_lowering("recurrent_sequence_gradient", lower_sequence_gradient);
});

}  // namespace mpsgraph::metal
