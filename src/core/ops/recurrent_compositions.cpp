// Decompositions of recurrent layers and their gradients: matmuls over all time steps before and after the internal
// step-by-step operations.
//
// Each weight gradient is a single matmul, regardless of the length of the sequence. The projection of the input is
// also a single matmul, unless the step-by-step operation computes it faster. The gradients of the weights, biases,
// peepholes, and mask are computed from the results of the step-by-step gradient.
#include "core/ops/recurrent.h"

namespace mpsgraph::ops {
namespace {

using Tensors = std::vector<Tensor*>;

RecurrentActivation activation_named(const std::string& name) {
  constexpr std::string_view names[] = {"none", "relu", "tanh", "sigmoid", "hard_sigmoid"};
  int i = 0;
  while (names[i] != name) ++i;
  return static_cast<RecurrentActivation>(i);
}

// Attributes of the internal operations that describe the cell.
Attributes cell_attributes(Cell cell, const Attributes& a) {
  Ints activations, places;
  const auto use = [&](std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) activations.push_back(static_cast<int64_t>(activation_named(a.string(name))));
  };
  Attributes result{{"reverse", a.boolean("reverse") && !a.boolean("bidirectional")}};
  if (cell == Cell::single_gate) {
    use({"activation"});
    places = {0};
    result.set("cell", std::string("single_gate"));
  } else if (cell == Cell::lstm) {
    use({"input_gate_activation", "forget_gate_activation", "cell_gate_activation", "output_gate_activation",
         "activation"});
    places = a.boolean("forget_gate_last") ? Ints{0, 2, 1, 3} : Ints{0, 1, 2, 3};
    result.set("cell", std::string("lstm"));
  } else {
    use({"update_gate_activation", "reset_gate_activation", "output_gate_activation"});
    places = a.boolean("reset_gate_first") ? Ints{1, 0, 2} : Ints{0, 1, 2};
    result.set("cell", std::string("gru"));
    result.set("reset_after", a.boolean("reset_after"));
    result.set("flip_z", a.boolean("flip_z"));
  }
  result.set("activations", activations);
  result.set("places", places);
  return result;
}

// Tensors and sizes that the decompositions of a layer and of its gradient both need.
class Parts {
 public:
  Parts(Cell cell, const OperandNames& names, Builder& b, const Tensors& in, const Attributes& a)
      : b(b), given(names, a, in), kind(cell), attributes(cell_attributes(cell, a)), cell(with_defaults(attributes)) {
    directions = a.boolean("bidirectional") ? 2 : 1;
    Tensor* weight = given["recurrent_weight"];
    const Shape& shape = weight->shape();
    if (!shape.known()) {
      throw UnsupportedError(cat(
          "the recurrent weights of a recurrent layer must have a static shape to be compiled, got ", weight->type));
    }
    hidden = shape[shape.rank() - 1];
    weights = b.reshape(weight, {directions, gates() * hidden, hidden});
  }

  int64_t gates() const { return cell.gates(); }
  int64_t wide() const { return directions * hidden; }
  bool backward(int64_t direction) const { return cell.reverse != (direction == 1); }

  // The initial state or cell with this name; zeros if that operand is not given. The batch size of the zeros is taken
  // from `steps`, any tensor of shape [T, N, ...].
  Tensor* initial(std::string_view name, Tensor* steps) {
    if (Tensor* tensor = given[name]) return tensor;
    if (const Shape& shape = steps->shape(); shape.ranked() && shape[1] >= 0)
      return b.filled({steps->dtype(), Shape{shape[1], wide()}}, 0);
    Tensor* batch = slice(b.shape_of(steps), 0, 1, 1);
    Tensor* shape = b.graph().add("concat", {b.cast(batch, DType::int64), b.ints({wide()})}, {{"axis", int64_t{0}}});
    return b.broadcast_to(b.scalar_like(steps, 0), shape);
  }

  // Whether the step-by-step operation also multiplies the input by the input weights. This is faster in two cases. For
  // one time step of a few rows, reading the weights dominates, and one fused pass suffices. For many rows with weights
  // that fit in cache, a separate projection would have to be written to memory and read again.
  bool takes_source() const {
    constexpr int64_t few = 4, rows_at_once = 8, many = 256, in_cache = 1 << 18;
    const Shape& steps = given["source"]->shape();
    if (kind == Cell::gru || !given["input_weight"] || !steps.known()) return false;
    if (steps[0] == 1 && steps[1] <= few) return true;
    const int64_t inputs = steps[2];
    return steps[1] >= rows_at_once && steps[0] * steps[1] >= many && inputs <= hidden &&
           directions * gates() * hidden * (hidden + inputs) <= in_cache;
  }

  // x Wᵀ + b for all steps. If the sizes are known, this is one 2-D matmul, into which the bias can be fused.
  Tensor* projected() {
    Tensor *source = given["source"], *weight = given["input_weight"], *bias = given["bias"];
    const Shape steps = source->shape();
    const bool flat = weight && steps.known();
    if (flat) source = b.reshape(source, {steps[0] * steps[1], steps[2]});
    if (weight) source = b.matmul(source, b.transpose(weight, {1, 0}));
    if (bias) source = b.add(source, bias);
    return flat ? b.reshape(source, {steps[0], steps[1], gates() * wide()}) : source;
  }

  // The mask reshaped to rank 3, as the internal operations require.
  Tensor* mask() {
    Tensor* tensor = given["mask"];
    if (!tensor) return nullptr;
    if (!tensor->shape().known())
      throw UnsupportedError(
          cat("the mask of a recurrent layer must have a static shape to be compiled, got ", tensor->type));
    Dims dims = tensor->shape().dims();
    dims.insert(dims.begin(), 3 - dims.size(), 1);
    return b.reshape(tensor, dims);
  }

  Tensor* slice(Tensor* x, int64_t axis, int64_t start, int64_t length) {
    return sliced(x, axis, start, start + length);
  }
  Tensor* concat(const Tensors& tensors, int64_t axis) {
    return tensors.size() == 1 ? tensors[0] : b.graph().add("concat", tensors, {{"axis", axis}});
  }

  // Shifts values [T, N, directions * H] by one step in processing order, so that each step holds the value of the
  // previous step and the first step holds the initial value.
  Tensor* before(Tensor* steps, Tensor* initial) {
    Tensors parts;
    for (int64_t d = 0; d < directions; ++d) {
      Tensor* first = b.graph().add("expand_dims", {slice(initial, 1, d * hidden, hidden)}, {{"axes", Ints{0}}});
      Tensor* own = directions == 1 ? steps : slice(steps, 2, d * hidden, hidden);
      parts.push_back(backward(d) ? sliced(concat({own, first}, 0), 0, 1, 0)
                                  : sliced(concat({first, own}, 0), 0, 0, -1));
    }
    return concat(parts, 2);
  }

  // All steps of one direction as rows: [T, N, directions * count * H] -> [T * N, count * H].
  Tensor* rows(Tensor* steps, int64_t direction, int64_t count) {
    Tensor* flat = b.reshape(steps, {-1, directions * count * hidden});
    return directions == 1 ? flat : slice(flat, 1, direction * count * hidden, count * hidden);
  }
  // The values of one gate, selected by role, for all directions: [T, N, directions * gates * H] -> [T, N, directions *
  // H].
  Tensor* gate(Tensor* steps, size_t role, Tensor* like) {
    Tensors parts;
    for (int64_t d = 0; d < directions; ++d)
      parts.push_back(slice(steps, 2, (d * gates() + cell.places[role]) * hidden, hidden));
    return b.reshape_like(concat(parts, 2), like);
  }
  Tensor* weights_of(int64_t direction) {
    return b.reshape(directions == 1 ? weights : slice(weights, 0, direction, 1), {gates() * hidden, hidden});
  }
  Tensor* rows_of_gate(Tensor* matrix, size_t role) { return slice(matrix, 0, cell.places[role] * hidden, hidden); }

  Builder& b;
  const NamedOperands given;
  const Cell kind;
  const Attributes attributes;
  const CellDescription cell;
  int64_t directions, hidden;
  Tensor* weights;  // shape: [directions, gates * H, H]

 private:
  static Attributes with_defaults(Attributes a) {
    for (std::string_view name : {"reset_after", "flip_z"}) {
      if (!a.has(name)) a.set(name, false);
    }
    return a;
  }

  // Slices along one axis; an end of 0 means to the end.
  Tensor* sliced(Tensor* x, int64_t axis, int64_t start, int64_t end) {
    const auto rank = static_cast<size_t>(x->shape().rank());
    Ints starts(rank, 0), ends(rank, 0), strides(rank, 1);
    int64_t open = 0;
    for (size_t i = 0; i < rank; ++i) open |= int64_t{i != static_cast<size_t>(axis) || end == 0} << i;
    starts[static_cast<size_t>(axis)] = start;
    ends[static_cast<size_t>(axis)] = end;
    return b.graph().add("slice", {x}, {{"starts", starts}, {"ends", ends}, {"strides", strides}, {"end_mask", open}});
  }
};

// Collects the operands of an internal operation and sets the has_... flags of the operands that are present.
class Call {
 public:
  explicit Call(Attributes attributes) : attributes_(std::move(attributes)) {}
  void operand(Tensor* tensor) { inputs_.push_back(tensor); }
  void operand(std::string_view flag, Tensor* tensor) {
    attributes_.set(flag, tensor != nullptr);
    if (tensor) inputs_.push_back(tensor);
  }
  void set(std::string_view name, bool value) { attributes_.set(name, value); }
  Operation* make(Graph& graph, Kind kind) { return graph.create(kind, inputs_, attributes_); }

 private:
  Attributes attributes_;
  Tensors inputs_;
};

Tensors results_of(const Operation* operation) {
  Tensors results;
  for (const auto& output : operation->outputs) results.push_back(output.get());
  return results;
}

}  // namespace

Tensors recurrent_parts(Cell kind, Builder& b, const Tensors& in, const Attributes& a) {
  Parts p(kind, operands_of(kind), b, in, a);
  const bool whole = p.takes_source();
  Tensor* source = whole ? p.given["source"] : p.projected();
  Call call(p.attributes);
  call.operand(source);
  call.operand(p.weights);
  call.operand(p.initial("initial_state", source));
  call.operand("has_initial_cell", kind == Cell::lstm ? p.initial("initial_cell", source) : nullptr);
  call.operand("has_mask", p.mask());
  Tensor* extra = nullptr;
  if (kind == Cell::lstm) extra = p.given["peephole"];
  if (kind == Cell::gru) extra = p.given["secondary_bias"];
  call.operand("has_extra", extra ? b.reshape(extra, {p.directions, -1}) : nullptr);
  call.operand("has_input_weight", whole ? p.given["input_weight"] : nullptr);
  call.operand("has_bias", whole ? p.given["bias"] : nullptr);
  const bool training = a.boolean("training");
  call.set("gives_cell", kind == Cell::lstm && (training || a.boolean("produce_cell")));
  call.set("gives_training_state", training);
  return results_of(call.make(b.graph(), "recurrent_sequence"));
}

Tensors recurrent_gradient_parts(Cell kind, Builder& b, const Tensors& in, const Attributes& a) {
  Parts p(kind, gradient_operands_of(kind), b, in, a);
  Tensor *source = p.given["source"], *gates = p.given["training_state"], *incoming = p.given["source_gradient"];
  Tensor* mask = p.mask();
  const bool is_lstm = kind == Cell::lstm, is_gru = kind == Cell::gru, reset_after = p.cell.reset_after;

  // The states that were multiplied by the recurrent weights. For gru they are computed here; for other cells, the
  // step-by-step gradient operation returns them.
  Tensor *state = is_gru ? p.given["state"] : nullptr, *cell = is_lstm ? p.given["cell"] : nullptr;
  Tensor* initial_state = p.initial("initial_state", incoming);
  Tensor* initial_cell = is_lstm ? p.initial("initial_cell", incoming) : nullptr;
  Tensor* state_before = is_gru ? p.before(state, initial_state) : nullptr;
  const auto with_mask = [&] { return mask ? b.mul(state_before, mask) : state_before; };
  Tensor* masked = is_gru ? with_mask() : nullptr;
  Tensor* reset = is_gru ? p.gate(gates, 1, state) : nullptr;

  Call call(p.attributes);
  call.operand(p.weights);
  call.operand(gates);
  call.operand("has_initial_state", initial_state);
  call.operand("has_state", state);
  call.set("gives_state_before", !is_gru);
  call.set("gives_bias_gradient", p.given["bias"] != nullptr);
  Tensor* candidate = nullptr;
  if (reset_after) {
    Tensors parts;
    for (int64_t d = 0; d < p.directions; ++d) {
      Tensor* weight = p.rows_of_gate(p.weights_of(d), 2);
      Tensor* transposed = b.transpose(weight, {1, 0});
      parts.push_back(b.matmul(p.rows(masked, d, 1), transposed));
    }
    candidate = p.concat(parts, 1);
    if (Tensor* bias = p.given["secondary_bias"]) candidate = b.add(candidate, bias);
    candidate = b.reshape_like(candidate, state);
  }
  call.operand("has_candidate", candidate);
  call.operand("has_initial_cell", initial_cell);
  call.operand("has_cell", cell);
  call.operand("has_mask", mask);
  Tensor* peephole = is_lstm ? p.given["peephole"] : nullptr;
  call.operand("has_peephole", peephole ? b.reshape(peephole, {p.directions, -1}) : nullptr);
  call.operand(incoming);
  Tensor* d_cell = is_lstm ? p.given["cell_gradient"] : nullptr;
  const bool of_last_cell = d_cell && d_cell->shape().rank() == 2;
  call.operand("has_cell_gradient", of_last_cell ? nullptr : d_cell);
  call.operand("has_training_state_gradient", p.given["training_state_gradient"]);
  call.operand("has_last_state_gradient", p.given["state_gradient"]);
  call.operand("has_last_cell_gradient", of_last_cell ? d_cell : nullptr);
  const Tensors backward = results_of(call.make(b.graph(), "recurrent_sequence_gradient"));
  // gradient of the gate values before their activations, [T, N, directions * gates * H]
  Tensor* d_gates = backward[0];
  if (!is_gru) {
    state_before = backward[is_lstm ? 3 : 2];
    masked = with_mask();
  }

  // With reset_after, the gradient of the recurrent term of the candidate gate's input, before the reset gate is
  // applied to that term.
  Tensor* d_candidate = reset_after ? b.mul(p.gate(d_gates, 2, state), reset) : nullptr;
  const bool mask_gradient = a.boolean("mask_gradient");
  Tensors d_weights, d_masked;
  for (int64_t d = 0; d < p.directions; ++d) {
    Tensor *rows = p.rows(d_gates, d, p.gates()), *values = p.rows(masked, d, 1), *weight = p.weights_of(d);
    const auto times = [&](Tensor* gradient, Tensor* value) { return b.matmul(b.transpose(gradient, {1, 0}), value); };
    if (!is_gru) {
      d_weights.push_back(times(rows, values));
      if (mask_gradient) d_masked.push_back(b.matmul(rows, weight));
      continue;
    }
    Tensor *first = p.slice(rows, 1, 0, 2 * p.hidden), *reset_rows = p.rows(reset, d, 1);
    Tensor* last = reset_after ? p.rows(d_candidate, d, 1) : p.slice(rows, 1, 2 * p.hidden, p.hidden);
    d_weights.push_back(
        p.concat({times(first, values), times(last, reset_after ? values : b.mul(values, reset_rows))}, 0));
    if (!mask_gradient) continue;
    Tensor* d_product = b.matmul(last, p.rows_of_gate(weight, 2));
    if (!reset_after) d_product = b.mul(d_product, reset_rows);
    d_masked.push_back(b.add(b.matmul(first, p.slice(weight, 0, 0, 2 * p.hidden)), d_product));
  }

  Tensors results;
  Tensor* flat = b.reshape(d_gates, {-1, p.directions * p.gates() * p.hidden});
  Tensor* input_weight = p.given["input_weight"];
  results.push_back(input_weight ? b.matmul(d_gates, input_weight) : d_gates);
  results.push_back(b.reshape_like(p.concat(d_weights, 0), p.given["recurrent_weight"]));
  if (input_weight) {
    const Shape& shape = input_weight->shape();
    Tensor* inputs = b.reshape(source, {-1, shape[1]});
    results.push_back(b.matmul(b.transpose(flat, {1, 0}), inputs));
  }
  if (Tensor* bias = p.given["bias"]) results.push_back(b.reshape_like(backward.back(), bias));
  if (peephole) {
    Tensor* values = b.reshape(p.before(cell, initial_cell), {-1, p.directions, 1, p.hidden});
    Tensor* product = b.mul(b.reshape(d_gates, {-1, p.directions, 4, p.hidden}), values);
    results.push_back(b.reshape_like(b.sum(product, {0}), peephole));
  }
  if (p.given["initial_state"]) results.push_back(backward[1]);
  if (is_lstm && p.given["initial_cell"]) results.push_back(backward[2]);
  if (Tensor* bias = is_gru ? p.given["secondary_bias"] : nullptr)
    results.push_back(b.reshape_like(b.sum(b.reshape(d_candidate, {-1, p.wide()}), {0}), bias));
  if (mask_gradient) {
    Tensor* d_mask = b.mul(b.reshape_like(p.concat(d_masked, 1), state_before), state_before);
    results.push_back(b.sum_to_like(d_mask, p.given["mask"]));
  }
  return results;
}

}  // namespace mpsgraph::ops
