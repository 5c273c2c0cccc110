// Recurrent layers over sequences [T, N, I]: single-gate RNN, LSTM, GRU, and their gradient operations. With the input
// weights W, recurrent weights R, bias b, mask m, and peephole weights p, each time step computes
//
//   single gate  h = act(x Wᵀ + b + (h m) Rᵀ)
//   lstm         i, f, z, o = act(x Wᵀ + b + (h m) Rᵀ + p c);  c = f c + i z;  h = o act(c)
//   gru          z, r = act(x Wᵀ + b + (h m) Rᵀ);  o = act(x Wᵀ + b + (h r m) Rᵀ);  h = z h + (1 - z) o
//
// where h and c on the right-hand side are the values of the previous step. The two directions of a bidirectional layer
// are concatenated along the last axis of the results and the first axis of the weights. The training state holds the
// gate values after their activations, or before the activation for the single-gate cell. Differentiating a layer makes
// it return its training state.
#include "core/ops/recurrent.h"

#include <algorithm>

namespace mpsgraph::ops {
namespace {

constexpr std::string_view activation_names[] = {"none", "relu", "tanh", "sigmoid", "hard_sigmoid"};

const OperandNames single_gate_operands = {{"source"},
                                           {"recurrent_weight"},
                                           {"input_weight", "has_input_weight"},
                                           {"bias", "has_bias"},
                                           {"initial_state", "has_initial_state"},
                                           {"mask", "has_mask"}};
const OperandNames lstm_operands = {{"source"},
                                    {"recurrent_weight"},
                                    {"input_weight", "has_input_weight"},
                                    {"bias", "has_bias"},
                                    {"initial_state", "has_initial_state"},
                                    {"initial_cell", "has_initial_cell"},
                                    {"mask", "has_mask"},
                                    {"peephole", "has_peephole"}};
const OperandNames gru_operands = {{"source"},
                                   {"recurrent_weight"},
                                   {"input_weight", "has_input_weight"},
                                   {"bias", "has_bias"},
                                   {"initial_state", "has_initial_state"},
                                   {"mask", "has_mask"},
                                   {"secondary_bias", "has_secondary_bias"}};

// Operand names of the gradient of a recurrent layer: the names of the layer's operands, with the results of the layer
// that the gradient needs inserted after the first two, and with the incoming gradients at the end.
OperandNames with_gradients(OperandNames names, const OperandNames& forward, const OperandNames& gradients) {
  names.insert(names.begin() + 2, forward.begin(), forward.end());
  names.insert(names.end(), gradients.begin(), gradients.end());
  return names;
}

const OperandName state_gradient{"state_gradient", "has_state_gradient"},
    cell_gradient{"cell_gradient", "has_cell_gradient"},
    training_state_gradient{"training_state_gradient", "has_training_state_gradient"};
const OperandNames single_gate_gradient_operands = with_gradients(
    single_gate_operands, {{"source_gradient"}, {"training_state"}}, {state_gradient, training_state_gradient});
const OperandNames lstm_gradient_operands =
    with_gradients(lstm_operands, {{"source_gradient"}, {"training_state"}, {"cell"}},
                   {state_gradient, cell_gradient, training_state_gradient});
const OperandNames gru_gradient_operands = with_gradients(
    gru_operands, {{"source_gradient"}, {"training_state"}, {"state"}}, {state_gradient, training_state_gradient});

int64_t gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

// ---- inference ----

int64_t times(int64_t factor, int64_t size) { return size < 0 ? -1 : factor * size; }

// ---- inference ----
class RecurrentSizes {
 public:
  RecurrentSizes(const InferContext& c, Cell cell, const OperandNames& names)
      : c_(c), names_(names), in_(names, c.attributes, c.inputs), gates_(gate_count(cell)) {
    directions_ = c.attributes.boolean("bidirectional") ? 2 : 1;
    if (in_.count() != c.count())
      c.graph_error(cat("the has_... attributes require ", in_.count(), " operands, got ", c.count(),
                        ": set them to match the operands"));
    for (size_t i = 0; i < c.count(); ++i) c.require_float(i);
    c.require_same_dtype();
    const Shape& weight = in_["recurrent_weight"]->shape();
    if (weight.ranked() && weight.rank() > 0) hidden_ = weight[weight.rank() - 1];
    const Shape& source = in_["source"]->shape();
    if (source.ranked()) c.require_rank(0, 3);
    if (source.ranked() && hidden_ < 0 && !in_["input_weight"] && source[2] >= 0 &&
        source[2] % (directions_ * gates_) == 0)
      hidden_ = source[2] / (directions_ * gates_);
    steps_ = source.ranked() ? source[0] : -1;
    batch_ = source.ranked() ? source[1] : -1;
    for (std::string_view name : {"initial_state", "initial_cell"}) {  // these operands also have the batch axis
      const Tensor* state = given(name);
      if (batch_ < 0 && state && state->shape().ranked() && state->shape().rank() == 2) batch_ = state->shape()[0];
    }
    const int64_t inputs = source.ranked() ? source[2] : -1;
    const int64_t gated = times(gates_, hidden_), all = times(directions_, gated);
    check("recurrent_weight", directions_ == 2 ? Dims{2, gated, hidden_} : Dims{gated, hidden_});
    if (in_["input_weight"])
      check("input_weight", {all, inputs});
    else
      check("source", {steps_, batch_, all});
    check("bias", {all});
    for (std::string_view name : {"initial_state", "initial_cell"}) check(name, {batch_, wide()});
    check("peephole", directions_ == 2 ? Dims{2, gated} : Dims{gated});
    check("secondary_bias", {wide()});
    if (Tensor* mask = given("mask")) {
      const auto merged = broadcast(sequence(), mask->shape());
      if (!merged || !compatible(*merged, sequence()) || (mask->shape().ranked() && mask->shape().rank() > 3))
        c.shape_error(cat("mask must broadcast to the states ", sequence(), ", got ", mask->shape()));
    }
  }

  // Checks the shape of an operand if it is given.
  void check(std::string_view name, const Shape& expected) const {
    const Tensor* tensor = given(name);
    if (tensor && !compatible(tensor->shape(), expected)) {
      c_.shape_error(cat(name, " must have shape ", expected, " for ", directions_,
                         directions_ == 1 ? " direction, " : " directions, ", gates_, gates_ == 1 ? " gate" : " gates",
                         " and ", hidden_ < 0 ? "?" : cat(hidden_), " hidden units, got '", tensor->name(),
                         "' of shape ", tensor->shape()));
    }
  }

  Tensor* given(std::string_view name) const {
    for (const OperandName& known : names_) {
      if (known.name == name) return in_[name];
    }
    return nullptr;
  }

  int64_t wide() const { return times(directions_, hidden_); }
  Shape sequence() const { return {steps_, batch_, wide()}; }
  Shape gated_sequence() const { return {steps_, batch_, times(gates_, wide())}; }
  Shape last() const { return {batch_, wide()}; }

 private:
  const InferContext& c_;
  const OperandNames& names_;
  const NamedOperands in_;
  int64_t gates_, directions_ = 1, hidden_ = -1, steps_ = -1, batch_ = -1;
};

void require_activations(const InferContext& c) {
  for (const AttributeSpec& spec : c.definition.attributes) {
    if (spec.name.find("activation") == spec.name.npos) continue;
    const std::string& value = c.attributes.string(spec.name);
    if (std::find(std::begin(activation_names), std::end(activation_names), value) == std::end(activation_names))
      c.graph_error(cat(spec.name, " must be none, relu, tanh, sigmoid or hard_sigmoid, got \"", value, "\""));
  }
}

Infer infer_layer(Cell cell) {
  return [cell](const InferContext& c) {
    require_activations(c);
    const RecurrentSizes sizes(c, cell, operands_of(cell));
    if (sizes.given("secondary_bias") && !c.attributes.boolean("reset_after"))
      c.graph_error("secondary_bias requires reset_after (the reset gate applied after the matmul): set reset_after");
    std::vector<TensorType> types{{c.dtype(0), sizes.sequence()}};
    const bool training = c.attributes.boolean("training");
    if (cell == Cell::lstm && (training || c.attributes.boolean("produce_cell"))) types.push_back(types[0]);
    if (training) types.push_back({c.dtype(0), sizes.gated_sequence()});
    return types;
  };
}

Infer infer_gradients(Cell cell) {
  return [cell](const InferContext& c) {
    require_activations(c);
    const OperandNames& names = gradient_operands_of(cell);
    const RecurrentSizes sizes(c, cell, names);
    for (std::string_view name : {"source_gradient", "state", "cell"}) sizes.check(name, sizes.sequence());
    for (std::string_view name : {"training_state", "training_state_gradient"})
      sizes.check(name, sizes.gated_sequence());
    sizes.check("state_gradient", sizes.last());
    if (const Tensor* given = sizes.given("cell_gradient"); given && given->shape().ranked())
      sizes.check("cell_gradient", given->shape().rank() == 3 ? sizes.sequence() : sizes.last());
    std::vector<TensorType> types{c.type(0), sizes.given("recurrent_weight")->type};
    for (std::string_view name :
         {"input_weight", "bias", "peephole", "initial_state", "initial_cell", "secondary_bias"}) {
      if (const Tensor* given = sizes.given(name)) types.push_back(given->type);
    }
    if (c.attributes.boolean("mask_gradient")) {
      if (!sizes.given("mask"))
        c.graph_error("mask_gradient requires a mask operand: pass a mask or set mask_gradient to false");
      types.push_back(sizes.given("mask")->type);
    }
    return types;
  };
}

// ---- derivatives ----

// Makes an existing recurrent layer also return the results that its gradient needs.
void train(Operation& layer) {
  if (layer.attributes.boolean("training")) return;
  layer.attributes.set("training", true);
  const auto types = layer.definition->infer(
      InferContext(*layer.definition, layer.inputs, layer.attributes, layer.blocks, layer.where()));
  for (size_t i = layer.outputs.size(); i < types.size(); ++i) layer.graph().append_output(&layer, types[i]);
}

Gradient d_layer(Cell cell, Kind gradient_kind) {
  return [cell, gradient_kind](GradientContext& g) {
    Builder b(g.graph());
    Operation& layer = g.operation;
    const size_t given = g.incoming_count();
    train(layer);
    const size_t last = layer.outputs.size() - 1;
    const auto incoming = [&](size_t i) { return i < given ? g.incoming(i) : nullptr; };
    const NamedOperands in(operands_of(cell), g.attributes(), layer.inputs);
    // The training state, which is now requested, is the last result, so the indices of the other results stay valid.
    Tensor* d_state = incoming(0) ? incoming(0) : b.zeros_like(g.output(0));
    Tensor* d_cell = cell == Cell::lstm ? incoming(1) : nullptr;
    Attributes attributes;
    for (const auto& [key, value] : g.attributes().items()) {
      if (key != "training" && key != "produce_cell") attributes.set(key, value);
    }
    if (d_cell) attributes.set("has_cell_gradient", true);
    attributes.set("has_training_state_gradient", incoming(last) != nullptr);
    const int mask = in.index("mask");
    attributes.set("mask_gradient", mask >= 0 && g.needs(static_cast<size_t>(mask)));
    std::vector<Tensor*> operands = layer.inputs;
    std::vector<Tensor*> forward = {d_state, g.output(last)};
    if (cell == Cell::lstm) forward.push_back(g.output(1));
    if (cell == Cell::gru) forward.push_back(g.output(0));
    operands.insert(operands.begin() + 2, forward.begin(), forward.end());
    if (d_cell) operands.push_back(d_cell);
    if (incoming(last)) operands.push_back(incoming(last));
    const Operation* gradients = g.graph().create(gradient_kind, std::move(operands), std::move(attributes));
    size_t next = 0;
    for (std::string_view name : {"source", "recurrent_weight", "input_weight", "bias", "peephole", "initial_state",
                                  "initial_cell", "secondary_bias", "mask"}) {
      const auto known = [&](const OperandName& n) { return n.name == name; };
      const OperandNames& names = operands_of(cell);
      if (std::none_of(names.begin(), names.end(), known)) continue;
      const int i = in.index(name);
      if (i >= 0 && next < gradients->outputs.size()) g.set(static_cast<size_t>(i), gradients->output(next++));
    }
  };
}

// ---- definitions ----

AttributeSpec activation(std::string_view name, std::string_view standard) {
  return optional(name, std::string(standard));
}

// Defines a recurrent layer and its gradient operation. Both have the attributes in `shared`; only the layer has those
// in `own`.
void layer(Kind name, Kind gradient_kind, Cell cell, std::vector<AttributeSpec> shared,
           std::vector<AttributeSpec> own) {
  shared.push_back(optional("reverse", false));
  shared.push_back(optional("bidirectional", false));
  own.push_back(optional("training", false));
  const auto with_flags = [](std::vector<AttributeSpec> attributes, const OperandNames& names) {
    for (const OperandName& operand : names) {
      if (!operand.flag.empty()) attributes.push_back(optional(operand.flag, false));
    }
    return attributes;
  };
  OperationDefinition forward;
  forward.name = name;
  forward.min_inputs = 2;
  forward.max_inputs = static_cast<int>(operands_of(cell).size());
  own.insert(own.end(), shared.begin(), shared.end());
  forward.attributes = with_flags(std::move(own), operands_of(cell));
  forward.infer = infer_layer(cell);
  forward.gradient = d_layer(cell, gradient_kind);
  forward.decompose = [cell](Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
    return recurrent_parts(cell, b, in, a);
  };
  define(std::move(forward));

  OperationDefinition backward;
  backward.name = gradient_kind;
  backward.min_inputs = cell == Cell::single_gate ? 4 : 5;
  backward.max_inputs = static_cast<int>(gradient_operands_of(cell).size());
  shared.push_back(optional("mask_gradient", false));
  backward.attributes = with_flags(std::move(shared), gradient_operands_of(cell));
  backward.infer = infer_gradients(cell);
  backward.decompose = [cell](Builder& b, const std::vector<Tensor*>& in, const Attributes& a) {
    return recurrent_gradient_parts(cell, b, in, a);
  };
  define(std::move(backward));
}

}  // namespace

int NamedOperands::index(std::string_view name) const {
  int position = 0;
  for (const OperandName& operand : names_) {
    const bool given = operand.flag.empty() || attributes_.boolean(operand.flag);
    if (operand.name == name) return given ? position : -1;
    position += given;
  }
  throw GraphError(cat("a recurrent layer has no operand '", name, "'"));
}

Tensor* NamedOperands::operator[](std::string_view name) const {
  const int i = index(name);
  return i < 0 ? nullptr : inputs_[static_cast<size_t>(i)];
}

size_t NamedOperands::count() const {
  size_t count = 0;
  for (const OperandName& operand : names_) count += operand.flag.empty() || attributes_.boolean(operand.flag);
  return count;
}

const OperandNames& operands_of(Cell cell) {
  return cell == Cell::lstm ? lstm_operands : cell == Cell::gru ? gru_operands : single_gate_operands;
}

const OperandNames& gradient_operands_of(Cell cell) {
  return cell == Cell::lstm  ? lstm_gradient_operands
         : cell == Cell::gru ? gru_gradient_operands
                             : single_gate_gradient_operands;
}

const Family recurrent_family("recurrent", [] {
  layer("single_gate_rnn", "single_gate_rnn_gradients", Cell::single_gate, {activation("activation", "relu")}, {});
  layer("lstm", "lstm_gradients", Cell::lstm,
        {activation("input_gate_activation", "sigmoid"), activation("forget_gate_activation", "sigmoid"),
         activation("cell_gate_activation", "tanh"), activation("output_gate_activation", "sigmoid"),
         activation("activation", "tanh"), optional("forget_gate_last", false)},
        {optional("produce_cell", false)});
  layer("gru", "gru_gradients", Cell::gru,
        {activation("update_gate_activation", "sigmoid"), activation("reset_gate_activation", "sigmoid"),
         activation("output_gate_activation", "tanh"), optional("reset_gate_first", false),
         optional("reset_after", false), optional("flip_z", false)},
        {});
});

}  // namespace mpsgraph::ops
