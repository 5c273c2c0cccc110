// The internal operation for an lstm with 8-bit integer recurrent weights over projected inputs. ONNX files contain
// such layers.
//
//   quantized_lstm_sequence(source [directions, T, N, 4 H], recurrent_weight [directions, H, 4 H],
//                           weight_scale, weight_zero_point [directions, 4 H],
//                           initial_state, initial_cell [N, directions H]) -> state, cell [T, N, directions H]
//
// Before each step, the states h of a direction's whole batch are quantized to uint8 using their range:
//
//   low = min(h, 0), s = (max(h, 0) - low) / 255, z = round(-low / s), q = saturate(round(h / s) + z)
//   gates = source + s weight_scale Σ (q - z) (recurrent_weight - weight_zero_point)
//
// The sums are exact in int32. After the gates, the computation is the same as for the lstm in recurrent.cpp. Because
// rounding is a step function, the derivative is zero, as for quantize.
#include <algorithm>

#include "core/ops/recurrent.h"
#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

using Tensors = std::vector<Tensor*>;

constexpr std::string_view quantized_operands[] = {
    "source", "recurrent_weight", "weight_scale", "weight_zero_point", "initial_state", "initial_cell"};

int64_t known_product(int64_t factor, int64_t size) { return size < 0 ? -1 : factor * size; }

std::vector<TensorType> infer_quantized_sequence(const InferContext& c) {
  for (size_t i : {0, 2, 4, 5})
    if (c.dtype(i) != DType::float32) c.dtype_error(cat(quantized_operands[i], " must be float32, got ", c.type(i)));
  if (c.dtype(1) != DType::int8 && c.dtype(1) != DType::uint8)
    c.dtype_error(cat("recurrent_weight must be int8 or uint8, got ", c.type(1)));
  if (c.dtype(3) != c.dtype(1))
    c.dtype_error(cat("weight_zero_point must have the dtype ", c.dtype(1), " of the weights, got ", c.type(3)));
  const Shape &source = c.shape(0), &weight = c.shape(1);
  if (!weight.known() || weight.rank() != 3 || weight[2] != 4 * weight[1] || weight[0] < 1 || weight[0] > 2)
    c.shape_error(cat("recurrent_weight must have shape [directions, H, 4 H] with 1 or 2 directions, got ", weight));
  const int64_t directions = weight[0], hidden = weight[1];
  if (source.ranked() && source.rank() != 4)
    c.shape_error(cat("source must have four axes (directions, time, batch, gates), got ", source));
  const int64_t steps = source.ranked() ? source[1] : -1, batch = source.ranked() ? source[2] : -1;
  const Shape wanted[] = {{directions, steps, batch, 4 * hidden},
                          weight,
                          {directions, 4 * hidden},
                          {directions, 4 * hidden},
                          {batch, directions * hidden},
                          {batch, directions * hidden}};
  for (size_t i = 0; i < c.count(); ++i)
    if (!compatible(c.shape(i), wanted[i]))
      c.shape_error(cat(quantized_operands[i], " must have shape ", wanted[i], ", got ", c.shape(i)));
  Ints places = c.attributes.integers("places");
  const Ints activations = c.attributes.integers("activations");
  std::sort(places.begin(), places.end());
  bool fits = places == Ints{0, 1, 2, 3} && activations.size() == 5;
  for (int64_t a : activations) fits &= a >= 0 && a <= static_cast<int64_t>(RecurrentActivation::hard_sigmoid);
  if (!fits)
    c.graph_error(
        cat("places must be a permutation of an lstm's 4 gates, and activations must have 5 valid entries, got places ",
            to_string(places), " and activations ", to_string(activations)));
  const TensorType states{DType::float32, Shape{steps, batch, known_product(directions, hidden)}};
  return {states, states};
}

// Decomposes one direction of the layer into public operations, a few for each time step.
class QuantizedSteps {
 public:
  QuantizedSteps(Builder& b, const Tensors& in, const Attributes& a, int64_t direction)
      : b_(b),
        places_(a.integers("places")),
        backward_(a.boolean("reverse") != (direction == 1)),
        hidden_(in[1]->shape()[1]),
        steps_(in[0]->shape()[1]) {
    if (steps_ < 0 || steps_ > max_parts)
      throw UnsupportedError(cat("[quantized_lstm_sequence] this device unrolls the time steps, so their number must ",
                                 "be static and at most ", max_parts, ", got source ", in[0]->shape()));
    for (int64_t activation : a.integers("activations"))
      activations_.push_back(static_cast<RecurrentActivation>(activation));
    source_ = squeeze(slice(in[0], 0, direction, 1), 0);
    weight_ = squeeze(slice(in[1], 0, direction, 1), 0);
    scale_ = slice(in[2], 0, direction, 1);
    zero_point_ = slice(in[3], 0, direction, 1);
    state_ = slice(in[4], 1, direction * hidden_, hidden_);
    cell_ = slice(in[5], 1, direction * hidden_, hidden_);
  }

  // Returns states and cells, each [T, N, H].
  Tensors run() {
    Tensors states(static_cast<size_t>(steps_)), cells(states.size());
    for (int64_t s = 0; s < steps_; ++s) {
      const int64_t time = backward_ ? steps_ - 1 - s : s;
      step(squeeze(slice(source_, 0, time, 1), 0));
      states[static_cast<size_t>(time)] = expand(state_);
      cells[static_cast<size_t>(time)] = expand(cell_);
    }
    if (steps_ == 0) return {slice(source_, 2, 0, hidden_), slice(source_, 2, 0, hidden_)};
    return {b_.graph().add("concat", states, {{"axis", int64_t{0}}}),
            b_.graph().add("concat", cells, {{"axis", int64_t{0}}})};
  }

 private:
  void step(Tensor* source) {
    Tensor* zero = b_.scalar(DType::float32, 0);
    const auto whole = [&](Kind kind) { return b_.graph().add(kind, {state_}, {{"axes", Ints{}}}); };
    Tensor* low = b_.binary("minimum_with_nan_propagation", whole("reduction_minimum_propagate_nan"), zero);
    Tensor* high = b_.binary("maximum_with_nan_propagation", whole("reduction_maximum_propagate_nan"), zero);
    Tensor* range = b_.div(b_.sub(high, low), 255);
    Tensor* point = bytes(b_.unary("rint", b_.div(b_.neg(low), range)));  // [1, 1]
    Tensor* shift = b_.cast(point, DType::float32);
    Tensor* q = bytes(b_.add(b_.unary("rint", b_.div(state_, range)), shift));
    Tensor* sums = b_.graph().add("integer_matrix_multiplication", {q, weight_, point, zero_point_});
    Tensor* unit = b_.mul(range, scale_);
    Tensor* gates = b_.add(source, b_.mul(b_.cast(sums, DType::float32), unit));
    Tensor* value[4];
    for (size_t role = 0; role < 4; ++role)
      value[role] = activate(b_, activations_[role], slice(gates, 1, places_[role] * hidden_, hidden_));
    Tensor* added = b_.mul(value[0], value[2]);
    cell_ = b_.add(b_.mul(value[1], cell_), added);
    state_ = b_.mul(value[3], activate(b_, activations_[4], cell_));
  }

  Tensor* bytes(Tensor* x) {
    Tensor* limited = b_.graph().add("clamp", {x, b_.scalar_like(x, 0), b_.scalar_like(x, 255)});
    return b_.cast(limited, DType::uint8);
  }
  Tensor* slice(Tensor* x, int64_t axis, int64_t start, int64_t length) {
    const auto rank = static_cast<size_t>(x->shape().rank());
    Ints starts(rank, 0), ends(rank, 0);
    int64_t open = 0;
    for (size_t i = 0; i < rank; ++i) open |= int64_t{i != static_cast<size_t>(axis)} << i;
    starts[static_cast<size_t>(axis)] = start;
    ends[static_cast<size_t>(axis)] = start + length;
    return b_.graph().add("slice", {x},
                          {{"starts", starts}, {"ends", ends}, {"strides", Ints(rank, 1)}, {"end_mask", open}});
  }
  Tensor* squeeze(Tensor* x, int64_t axis) { return b_.graph().add("squeeze", {x}, {{"axes", Ints{axis}}}); }
  Tensor* expand(Tensor* x) { return b_.graph().add("expand_dims", {x}, {{"axes", Ints{0}}}); }

  Builder& b_;
  const Ints places_;
  const bool backward_;
  const int64_t hidden_, steps_;
  std::vector<RecurrentActivation> activations_;
  Tensor *source_, *weight_, *scale_, *zero_point_, *state_, *cell_;
};

Tensors quantized_sequence_parts(Builder& b, const Tensors& in, const Attributes& a) {
  Tensors result = QuantizedSteps(b, in, a, 0).run();
  if (in[1]->shape()[0] == 1) return result;
  const Tensors other = QuantizedSteps(b, in, a, 1).run();
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = b.graph().add("concat", {result[i], other[i]}, {{"axis", int64_t{2}}});
  return result;
}

}  // namespace

const Family recurrent_integers_family("recurrent", [] {
  OperationDefinition d;
  d.name = "quantized_lstm_sequence";
  d.min_inputs = d.max_inputs = 6;
  d.attributes = {required("places", AttributeKind::integers), required("activations", AttributeKind::integers),
                  optional("reverse", false)};
  d.infer = infer_quantized_sequence;
  d.gradient_is_zero = true;
  d.decompose = quantized_sequence_parts;
  d.internal = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
