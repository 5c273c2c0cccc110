// The internal step-by-step operations of recurrent layers over projected inputs.
//
// These operations are primitives, implemented by kernels. Only second derivatives are decomposed in this file. The
// decomposition unrolls the time steps, so the number of time steps must be known when the operation is decomposed.
#include <algorithm>

#include "core/ops/recurrent.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {

const OperandNames sequence_operands = {{"source"},
                                        {"recurrent_weight"},
                                        {"initial_state"},
                                        {"initial_cell", "has_initial_cell"},
                                        {"mask", "has_mask"},
                                        {"extra", "has_extra"},
                                        {"input_weight", "has_input_weight"},
                                        {"bias", "has_bias"}};
const OperandNames sequence_gradient_operands = {{"recurrent_weight"},
                                                 {"training_state"},
                                                 {"initial_state", "has_initial_state"},
                                                 {"state", "has_state"},
                                                 // For gru: the candidate's recurrent term (h m) Rᵀ + b2, before the
                                                 // reset gate is applied to it.
                                                 {"candidate", "has_candidate"},
                                                 {"initial_cell", "has_initial_cell"},  // only an lstm has this operand
                                                 {"cell", "has_cell"},
                                                 {"mask", "has_mask"},
                                                 {"peephole", "has_peephole"},
                                                 {"state_gradient"},
                                                 {"cell_gradient", "has_cell_gradient"},
                                                 {"training_state_gradient", "has_training_state_gradient"},
                                                 {"last_state_gradient", "has_last_state_gradient"},
                                                 {"last_cell_gradient", "has_last_cell_gradient"}};

namespace {

using Tensors = std::vector<Tensor*>;

constexpr std::string_view cell_names[] = {"single_gate", "lstm", "gru"};

// ---- inference: decompositions always pass valid operands, but a graph read from a file might not ----

// The sizes of a sequence, inferred from the operands. Throws GraphError or ShapeError if the operands are
// inconsistent.
class SequenceSizes {
 public:
  SequenceSizes(const InferContext& c, const OperandNames& names) : c_(c), in_(names, c.attributes, c.inputs) {
    if (in_.count() != c.count())
      c.graph_error(cat("the has_... attributes require ", in_.count(), " operands, got ", c.count()));
    for (size_t i = 0; i < c.count(); ++i) c.require_float(i);
    c.require_same_dtype();
    gates_ = checked_gates();
    const Shape& weight = in_["recurrent_weight"]->shape();
    if (weight.ranked() && weight.rank() == 3) {
      directions_ = weight[0];
      hidden_ = weight[2];
    }
    if (directions_ == 0 || directions_ > 2)
      c.shape_error(cat("the number of directions must be 1 or 2, got ", directions_));
    check("recurrent_weight", {directions_, gated(), hidden_});
  }

  void sequence(const Shape& shape) {
    if (!shape.ranked()) return;
    if (shape.rank() != 3) c_.shape_error(cat("a sequence must have three axes (time, batch, values), got ", shape));
    steps_ = shape[0];
    batch_ = shape[1];
  }
  // Checks the shape of an operand if it is given.
  void check(std::string_view name, const Shape& expected) const {
    const Tensor* tensor = in_[name];
    if (tensor && !compatible(tensor->shape(), expected))
      c_.shape_error(cat(name, " must have shape ", expected, ", got ", tensor->shape()));
  }
  // Checks the source of a sequence: without an input weight, it must already be projected to the gates' inputs.
  void check_source() const {
    const Shape& source = in_["source"]->shape();
    if (!in_["input_weight"]) {
      check("source", all_gates());
      if (in_["bias"]) c_.graph_error("bias requires the operand input_weight");
      return;
    }
    if (c_.attributes.string("cell") == "gru") c_.graph_error("the source of a gru must already be projected");
    check("input_weight", {bias()[0], source.ranked() ? source[2] : -1});
    check("bias", bias());
  }
  void check_mask() const {
    const Tensor* mask = in_["mask"];
    if (!mask || !mask->shape().ranked()) return;
    const auto merged = broadcast(states(), mask->shape());
    if (mask->shape().rank() != 3 || !merged || !compatible(*merged, states()))
      c_.shape_error(cat("mask must have rank 3 and broadcast to the states ", states(), ", got ", mask->shape()));
  }
  void require(bool given, std::string_view what) const {
    if (!given) c_.graph_error(cat("cell \"", c_.attributes.string("cell"), "\" requires the operand ", what));
  }

  const NamedOperands& operands() const { return in_; }
  Shape states() const { return {steps_, batch_, times(directions_, hidden_)}; }
  Shape all_gates() const { return {steps_, batch_, times(directions_, gated())}; }
  Shape bias() const { return {times(directions_, gated())}; }
  Shape last() const { return {batch_, times(directions_, hidden_)}; }
  Shape extra() const { return {directions_, c_.attributes.string("cell") == "lstm" ? gated() : hidden_}; }

 private:
  static int64_t times(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a * b; }
  int64_t gated() const { return times(gates_, hidden_); }

  // Returns the number of gates of the cell, after checking that `places` is a permutation of these gates and that
  // `activations` has as many valid entries as the cell needs.
  int64_t checked_gates() const {
    const auto known = std::find(std::begin(cell_names), std::end(cell_names), c_.attributes.string("cell"));
    if (known == std::end(cell_names)) c_.graph_error("attribute 'cell' must be single_gate, lstm or gru");
    constexpr size_t gate_counts[] = {1, 4, 3}, activation_counts[] = {1, 5, 3};
    const auto cell = static_cast<size_t>(known - cell_names);
    Ints places = c_.attributes.integers("places"), activations = c_.attributes.integers("activations");
    std::sort(places.begin(), places.end());
    bool fits = places.size() == gate_counts[cell] && activations.size() == activation_counts[cell];
    for (size_t i = 0; fits && i < places.size(); ++i) fits = places[i] == static_cast<int64_t>(i);
    for (int64_t a : activations) fits &= a >= 0 && a <= static_cast<int64_t>(RecurrentActivation::hard_sigmoid);
    if (!fits)
      c_.graph_error(cat("places must be a permutation of ", gate_counts[cell],
                         " gate(s), and the number of valid entries of activations must be ", activation_counts[cell],
                         ", got places ", to_string(places), " and activations ", to_string(activations)));
    return static_cast<int64_t>(gate_counts[cell]);
  }

  const InferContext& c_;
  const NamedOperands in_;
  int64_t gates_, directions_ = -1, hidden_ = -1, steps_ = -1, batch_ = -1;
};

std::vector<TensorType> infer_sequence(const InferContext& c) {
  SequenceSizes sizes(c, sequence_operands);
  const NamedOperands& in = sizes.operands();
  const bool lstm = c.attributes.string("cell") == "lstm";
  sizes.sequence(c.shape(0));
  sizes.check_source();
  for (std::string_view name : {"initial_state", "initial_cell"}) sizes.check(name, sizes.last());
  sizes.check("extra", sizes.extra());
  sizes.check_mask();
  sizes.require(!lstm || in["initial_cell"], "initial_cell");
  const bool gives_cell = c.attributes.boolean("gives_cell");
  if (!lstm && (gives_cell || in["initial_cell"]))
    c.graph_error("gives_cell and initial_cell require cell \"lstm\", because other cells have no cell state");
  if (in["extra"] && c.attributes.string("cell") == "single_gate")
    c.graph_error("cell \"single_gate\" does not take the operand extra");
  const TensorType state{c.dtype(0), sizes.states()};
  std::vector<TensorType> types{state};
  if (gives_cell) types.push_back(state);
  if (c.attributes.boolean("gives_training_state")) types.push_back({c.dtype(0), sizes.all_gates()});
  return types;
}

std::vector<TensorType> infer_sequence_gradient(const InferContext& c) {
  SequenceSizes sizes(c, sequence_gradient_operands);
  const NamedOperands& in = sizes.operands();
  const bool lstm = c.attributes.string("cell") == "lstm", gru = c.attributes.string("cell") == "gru";
  sizes.sequence(in["state_gradient"]->shape());
  for (std::string_view name : {"training_state", "training_state_gradient"}) sizes.check(name, sizes.all_gates());
  for (std::string_view name : {"state_gradient", "cell_gradient", "state", "candidate", "cell"})
    sizes.check(name, sizes.states());
  for (std::string_view name : {"initial_state", "initial_cell", "last_state_gradient", "last_cell_gradient"})
    sizes.check(name, sizes.last());
  sizes.check("peephole", sizes.extra());
  sizes.check_mask();
  for (std::string_view name : {"initial_cell", "cell"}) sizes.require(!lstm || in[name], name);
  for (std::string_view name : {"initial_state", "state"}) sizes.require(!gru || in[name], name);
  sizes.require(!gru || !c.attributes.boolean("reset_after") || in["candidate"], "candidate");
  const bool gives_state_before = c.attributes.boolean("gives_state_before");
  sizes.require(!gives_state_before || in["initial_state"], "initial_state");
  if (gives_state_before && gru)
    c.graph_error("gives_state_before is not supported for cell \"gru\", which receives the states as an operand");
  if (!lstm && (in["cell"] || in["peephole"] || in["cell_gradient"] || in["last_cell_gradient"]))
    c.graph_error("cell, peephole, cell_gradient and last_cell_gradient require cell \"lstm\"");
  std::vector<TensorType> types{{c.dtype(0), sizes.all_gates()}, {c.dtype(0), sizes.last()}};
  if (lstm) types.push_back(types[1]);
  if (gives_state_before) types.push_back({c.dtype(0), sizes.states()});
  if (c.attributes.boolean("gives_bias_gradient")) types.push_back({c.dtype(0), sizes.bias()});
  return types;
}

// ---- the gradient, step by step ----

// Decomposes one direction of the gradient of a sequence. Per time step, a tensor of states is [N, H], and a tensor of
// all gates consists of one [N, H] tensor per gate.
class Backwards {
 public:
  Backwards(Builder& b, const Tensors& inputs, const Attributes& a, int64_t direction)
      : b_(b), in_(sequence_gradient_operands, a, inputs), cell_(a), direction_(direction) {
    const Shape &weight = in_["recurrent_weight"]->shape(), &state = in_["state_gradient"]->shape();
    if (!weight.known() || !state.ranked() || state[0] < 0) {
      throw UnsupportedError(cat("[recurrent_sequence_gradient] the second derivative of a recurrent layer requires a ",
                                 "known number of time steps, got ", state, ": give the source a static shape"));
    }
    if (state[0] > max_parts) {
      throw UnsupportedError(
          cat("[recurrent_sequence_gradient] the second derivative of a recurrent layer unrolls the ",
              "time steps and supports at most ", max_parts, ", got ", state));
    }
    directions_ = weight[0];
    hidden_ = weight[2];
    steps_ = state[0];
    backward_ = cell_.reverse != (direction == 1);
    gives_state_before_ = a.boolean("gives_state_before");
    gives_bias_gradient_ = a.boolean("gives_bias_gradient");
  }

  // Returns the gradients of the projected input [T, N, gates * H], of the initial state, and of the initial cell;
  // then, if requested, the states before each step and the gradient of the bias.
  Tensors run() {
    Tensors results = steps();
    if (gives_bias_gradient_) results.push_back(squeeze(squeeze(b_.sum(results[0], {0, 1}), 0), 0));
    return results;
  }

 private:
  Tensors steps() {
    Tensor* weights = squeeze(slice(in_["recurrent_weight"], 0, direction_, 1), 0);  // shape: [gates * H, H]
    gates_ = by_step("training_state", cell_.gates());
    d_training_ = by_step("training_state_gradient", cell_.gates());
    masks_ = mask();
    cells_ = by_step("cell", 1);
    states_ = by_step("state", 1);
    candidates_ = by_step("candidate", 1);
    const Tensors d_states = by_step("state_gradient", 1), d_cells = by_step("cell_gradient", 1);
    Tensor* d_state = last("last_state_gradient");
    Tensor* d_cell = last("last_cell_gradient");
    Tensors d_source(static_cast<size_t>(steps_));
    values_.resize(static_cast<size_t>(steps_));
    for (int64_t s = steps_; s-- > 0;) {
      const auto t = static_cast<size_t>(backward_ ? steps_ - 1 - s : s);
      before_ = s == 0 ? std::nullopt : std::optional<size_t>(backward_ ? t + 1 : t - 1);
      d_state = sum(d_state, d_states[t]);
      if (!d_cells.empty()) d_cell = sum(d_cell, d_cells[t]);
      const Tensors d_gates = step(t, weights, d_state, d_cell);
      d_source[t] = expand(b_.graph().add("concat", d_gates, {{"axis", int64_t{1}}}), 0);
    }
    if (steps_ == 0) {  // If there are no steps, the last state is the initial state.
      Tensor* nothing = slice(in_["training_state"], 2, direction_ * width(), width());
      Tensors result{nothing, or_zeros(d_state, "state_gradient")};
      if (in_["cell"]) result.push_back(or_zeros(d_cell, "state_gradient"));
      if (gives_state_before_) result.push_back(slice(in_["state_gradient"], 2, direction_ * hidden_, hidden_));
      return result;
    }
    Tensors result{b_.graph().add("concat", d_source, {{"axis", int64_t{0}}}), d_state};
    if (in_["cell"]) result.push_back(d_cell);
    if (gives_state_before_) result.push_back(moved());
    return result;
  }

  // Shifts the states of all steps by one step, so that each step holds the state before it.
  Tensor* moved() {
    Tensors steps(values_.size());
    for (int64_t t = 0; t < steps_; ++t) {
      const int64_t before = backward_ ? t + 1 : t - 1;
      const bool first = before < 0 || before == steps_;
      steps[static_cast<size_t>(t)] = expand(first ? last("initial_state") : values_[static_cast<size_t>(before)], 0);
    }
    return b_.graph().add("concat", steps, {{"axis", int64_t{0}}});
  }

  // Replaces the gradients of this step's state and cell with the gradients of the previous step's state and cell.
  // Returns the gradients of the gates before their activations, in the order of the weights.
  Tensors step(size_t t, Tensor* weights, Tensor*& d_state, Tensor*& d_cell) {
    Tensors d_gates(cell_.places.size());
    if (cell_.cell == Cell::single_gate) {
      Tensor* value = values_[t] = activate(b_, cell_.activations[0], gates_[t]);
      d_gates[0] = sum(b_.mul(d_state, slope(0, value)), d_training_.empty() ? nullptr : d_training_[t]);
      d_state = masked(t, b_.matmul(d_gates[0], weights));
      return d_gates;
    }
    if (cell_.cell == Cell::lstm) {
      Tensor *i = gate(t, 0), *f = gate(t, 1), *z = gate(t, 2), *o = gate(t, 3), *before = cell_before();
      Tensor* image = activate(b_, cell_.activations[4], cells_[t]);
      values_[t] = b_.mul(o, image);
      Tensor* slope_of_image = slope(4, image);
      d_cell = sum(d_cell, b_.mul(b_.mul(d_state, o), slope_of_image));
      finish(t, 0, b_.mul(d_cell, z), d_gates);
      finish(t, 1, b_.mul(d_cell, before), d_gates);
      finish(t, 2, b_.mul(d_cell, i), d_gates);
      finish(t, 3, b_.mul(d_state, image), d_gates);
      d_cell = b_.mul(d_cell, f);
      for (size_t g = 0; in_["peephole"] && g < 4; ++g) {
        Tensor* peephole =
            slice(slice(in_["peephole"], 0, direction_, 1), 1, static_cast<int64_t>(g) * hidden_, hidden_);
        d_cell = b_.add(d_cell, b_.mul(d_gates[g], peephole));
      }
      d_state = masked(t, b_.matmul(b_.graph().add("concat", d_gates, {{"axis", int64_t{1}}}), weights));
      return d_gates;
    }
    Tensor *z = gate(t, 0), *r = gate(t, 1), *o = gate(t, 2), *before = state_before();
    Tensor *keep = cell_.flip_z ? b_.sub(1.0, z) : z, *renew = cell_.flip_z ? z : b_.sub(1.0, z);
    Tensor* difference = cell_.flip_z ? b_.sub(o, before) : b_.sub(before, o);
    Tensor* d_o = finish(t, 2, b_.mul(d_state, renew), d_gates);
    finish(t, 0, b_.mul(d_state, difference), d_gates);
    const auto rows = [&](size_t role) { return slice(weights, 0, cell_.places[role] * hidden_, hidden_); };
    Tensor* d_masked;
    if (cell_.reset_after) {
      finish(t, 1, b_.mul(d_o, candidates_[t]), d_gates);
      Tensor* recurrent = rows(2);
      d_masked = b_.matmul(b_.mul(d_o, r), recurrent);
    } else {
      Tensor* d_product = b_.matmul(d_o, rows(2));
      finish(t, 1, b_.mul(d_product, masked(t, before)), d_gates);
      d_masked = b_.mul(d_product, r);
    }
    for (size_t role : {0u, 1u})
      d_masked = b_.add(d_masked, b_.matmul(d_gates[static_cast<size_t>(cell_.places[role])], rows(role)));
    d_masked = masked(t, d_masked);
    d_state = b_.add(b_.mul(d_state, keep), d_masked);
    return d_gates;
  }

  // Converts the gradient of a gate's value into the gradient of the gate's input before the activation, and stores it
  // in `d_gates`.
  Tensor* finish(size_t t, size_t role, Tensor* gradient, Tensors& d_gates) {
    if (!d_training_.empty()) gradient = b_.add(gradient, part(d_training_[t], role));
    return d_gates[static_cast<size_t>(cell_.places[role])] = b_.mul(gradient, slope(role, gate(t, role)));
  }

  Tensor* slope(size_t role, Tensor* value) { return activation_slope(b_, cell_.activations[role], value); }
  Tensor* part(Tensor* gates, size_t role) { return slice(gates, 1, cell_.places[role] * hidden_, hidden_); }
  Tensor* gate(size_t t, size_t role) { return part(gates_[t], role); }
  Tensor* masked(size_t t, Tensor* x) { return masks_.empty() ? x : b_.mul(x, masks_[t]); }
  Tensor* cell_before() { return before_ ? cells_[*before_] : last("initial_cell"); }
  Tensor* state_before() { return before_ ? states_[*before_] : last("initial_state"); }
  Tensor* sum(Tensor* a, Tensor* b) { return a && b ? b_.add(a, b) : a ? a : b; }
  int64_t width() const { return cell_.gates() * hidden_; }

  Tensor* or_zeros(Tensor* x, std::string_view like) {
    if (x) return x;
    Tensor* steps = slice(in_[like], 2, direction_ * hidden_, hidden_);
    return squeeze(b_.sum(steps, {0}), 0);  // The sum is zero if there are no steps.
  }

  // This direction's part of an operand [T, N, directions * count * H], split into time steps; empty if the operand is
  // not given.
  Tensors by_step(std::string_view name, int64_t count) {
    Tensor* all = in_[name];
    return all ? cut(slice(all, 2, direction_ * count * hidden_, count * hidden_)) : Tensors();
  }

  Tensors cut(Tensor* all) {
    if (steps_ == 0) return {};
    const Operation* split =
        b_.graph().create("split", {all}, {{"sizes", Ints(static_cast<size_t>(steps_), 1)}, {"axis", int64_t{0}}});
    Tensors steps;
    for (const auto& output : split->outputs) steps.push_back(squeeze(output.get(), 0));
    return steps;
  }

  // The mask of each time step. The mask tensor has the rank of the states, with size 1 along axes on which it does not
  // depend.
  Tensors mask() {
    Tensor* all = in_["mask"];
    if (!all) return {};
    if (all->shape()[2] != 1) all = slice(all, 2, direction_ * hidden_, hidden_);
    if (all->shape()[0] == 1) return Tensors(static_cast<size_t>(steps_), squeeze(all, 0));
    return cut(all);
  }

  Tensor* last(std::string_view name) {
    Tensor* both = in_[name];
    return both ? slice(both, 1, direction_ * hidden_, hidden_) : nullptr;
  }

  Tensor* slice(Tensor* x, int64_t axis, int64_t start, int64_t length) {
    const auto rank = static_cast<size_t>(x->shape().rank());
    Ints starts(rank, 0), ends(rank, 0), strides(rank, 1);
    int64_t open = 0;
    for (size_t i = 0; i < rank; ++i) open |= int64_t{1} << i;
    open &= ~(int64_t{1} << axis);
    starts[static_cast<size_t>(axis)] = start;
    ends[static_cast<size_t>(axis)] = start + length;
    return b_.graph().add("slice", {x}, {{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}});
  }
  Tensor* squeeze(Tensor* x, int64_t axis) { return b_.graph().add("squeeze", {x}, {{"axes", Ints{axis}}}); }
  Tensor* expand(Tensor* x, int64_t axis) { return b_.graph().add("expand_dims", {x}, {{"axes", Ints{axis}}}); }

  Builder& b_;
  const NamedOperands in_;
  const CellDescription cell_;
  const int64_t direction_;
  int64_t directions_, hidden_, steps_;
  bool backward_;  // whether this direction goes from the last time step to the first
  bool gives_state_before_, gives_bias_gradient_;
  Tensors values_;  // the state after each time step
  std::optional<size_t> before_;  // index of the previous step in this direction; nullopt at the first step
  Tensors gates_, d_training_, masks_, cells_, states_, candidates_;
};

Tensors sequence_gradient_parts(Builder& b, const Tensors& in, const Attributes& a) {
  const int64_t directions = in[0]->shape().ranked() ? in[0]->shape()[0] : 1;
  Tensors result = Backwards(b, in, a, 0).run();
  if (directions == 2) {
    const Tensors other = Backwards(b, in, a, 1).run();
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = b.graph().add("concat", {result[i], other[i]}, {{"axis", int64_t{-1}}});
  }
  return result;
}

AttributeSpec flag(std::string_view name) { return optional(name, false); }

}  // namespace

CellDescription::CellDescription(const Attributes& a)
    : cell(static_cast<Cell>(std::find(std::begin(cell_names), std::end(cell_names), a.string("cell")) - cell_names)),
      places(a.integers("places")),
      reverse(a.boolean("reverse")),
      reset_after(a.boolean("reset_after")),
      flip_z(a.boolean("flip_z")) {
  for (int64_t activation : a.integers("activations"))
    activations.push_back(static_cast<RecurrentActivation>(activation));
}

Tensor* activate(Builder& b, RecurrentActivation activation, Tensor* x) {
  switch (activation) {
    case RecurrentActivation::none: return x;
    case RecurrentActivation::relu: return b.unary("relu", x);
    case RecurrentActivation::tanh: return b.unary("tanh", x);
    case RecurrentActivation::sigmoid: return b.unary("sigmoid", x);
    case RecurrentActivation::hard_sigmoid:
      return b.graph().add("clamp", {b.add(b.mul(x, 0.2), 0.5), b.scalar_like(x, 0), b.scalar_like(x, 1)});
  }
  throw GraphError("unknown activation of a recurrent layer");
}

Tensor* activation_slope(Builder& b, RecurrentActivation activation, Tensor* y) {
  const auto positive = [&](Tensor* x) { return b.binary("greater_than", x, b.scalar_like(x, 0)); };
  switch (activation) {
    case RecurrentActivation::none: return b.scalar_like(y, 1);
    case RecurrentActivation::relu: return b.cast(positive(y), y->dtype());
    case RecurrentActivation::tanh: return b.sub(1.0, b.mul(y, y));
    case RecurrentActivation::sigmoid: return b.mul(y, b.sub(1.0, y));
    case RecurrentActivation::hard_sigmoid: {
      Tensor* below_one = positive(b.sub(1.0, y));
      return b.mul(b.cast(b.binary("logical_and", positive(y), below_one), y->dtype()), 0.2);
    }
  }
  throw GraphError("unknown activation of a recurrent layer");
}

const Family recurrent_sequence_family("recurrent", [] {
  const auto define_internal = [](Kind name, const OperandNames& names, Infer infer, Decompose decompose) {
    OperationDefinition d;
    d.name = name;
    d.max_inputs = static_cast<int>(names.size());
    d.attributes = {required("cell", AttributeKind::string),
                    required("activations", AttributeKind::integers),
                    required("places", AttributeKind::integers),
                    flag("reverse"),
                    flag("reset_after"),
                    flag("flip_z")};
    for (const OperandName& operand : names) {
      if (operand.flag.empty())
        ++d.min_inputs;
      else
        d.attributes.push_back(flag(operand.flag));
    }
    const char* own_flags[] = {decompose ? "gives_state_before" : "gives_cell",
                               decompose ? "gives_bias_gradient" : "gives_training_state"};
    for (std::string_view name : own_flags) d.attributes.push_back(flag(name));
    d.infer = std::move(infer);
    d.decompose = std::move(decompose);
    d.internal = true;
    define(std::move(d));
  };
  define_internal("recurrent_sequence", sequence_operands, infer_sequence, {});
  define_internal("recurrent_sequence_gradient", sequence_gradient_operands, infer_sequence_gradient,
                  sequence_gradient_parts);
});

}  // namespace mpsgraph::ops
