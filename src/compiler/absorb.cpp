// Compiler pass absorb: folds scales and shifts along the channels into the constant weights of the preceding
// operation.
//
//   %c = convolution2d(%x, %w)
//   %s = multiplication(%c, %gamma)   ->   %c = convolution2d(%x, %w·gamma)
//   %y = addition(%s, %beta)               %y = addition(%c, %beta)
// Batch normalization with constant statistics therefore costs nothing, however it is written, because normalization
// has already been expanded into scales and shifts. The pass handles all convolutions, transposed convolutions, and
// matmuls. Weights, scales, and shifts must be constants with one value per channel, and intermediate values must have
// no other use. Scales are multiplied in double precision, so results can differ in the last digits from those of the
// original operations. The pass does not change operations with a scale or shift that is not finite.
//
// Under autocast, the linear operation returns half precision, which is cast to float32, scaled and shifted, and cast
// back. Both casts are removed together with the operations between them:
//   %c = convolution2d(%x, %w) : bfloat16
//   %f = cast(%c)
//   %s = multiplication(%f, %gamma)   ->   %c = convolution2d(%x, %w·gamma) : bfloat16
//   %t = addition(%s, %beta)               %y = addition(%c, %beta) : bfloat16
//   %y = cast(%t) : bfloat16
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/convolution.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

using Values = std::vector<double>;  // one value per channel

// An operation that is linear in its source and has constant weights. Describes the channels of its result and how they
// map to axes of the result and of the weights.
struct Linear {
  const Operation* root;
  int from_end;  // the result's channel axis, counted from the end; 1 is the last
  int64_t channels;
  Dims along;  // shape that broadcasts one number per channel over the weights
  // Index of each channel's value in an array of shape `along`. An empty list means that the index is the channel
  // number.
  std::vector<int64_t> place;

  static std::optional<Linear> of(const Operation& operation) {
    const bool product = operation.is("matrix_multiplication");
    const bool back =
        operation.is({"convolution2d_data_gradient", "convolution3d_data_gradient", "convolution_transpose2d"});
    if (!back && !product &&
        !operation.is({"convolution2d", "convolution3d", "depthwise_convolution2d", "depthwise_convolution3d"}))
      return {};
    const TensorType& type = operation.output()->type;
    if (!constant_of(operation.input(1)) || !is_float(type.dtype) || !type.shape.ranked()) return {};
    const Dims& weights = operation.input(1)->type.shape.dims();
    if (product) return of_product(operation, weights);
    return of_convolution(operation, weights, back);
  }

 private:
  static std::optional<Linear> of_product(const Operation& operation, const Dims& weights) {
    if (weights.size() < 2 || operation.output()->type.shape.rank() < 2) return {};
    return Linear{&operation, 1, weights.back(), {weights.back()}, {}};
  }

  static std::optional<Linear> of_convolution(const Operation& operation, const Dims& weights, bool back) {
    const ops::Convolution c(operation.attributes);
    if (c.channel == 0 || (back && c.groups != 1)) return {};
    Linear result{&operation, -c.channel, 0, Dims(weights.size(), 1), {}};
    const auto out = static_cast<size_t>(back ? c.weights_in : c.weights_out), in = static_cast<size_t>(c.weights_in);
    result.along[out] = result.channels = weights[out];
    if (!c.depthwise || in == out) return result;
    // Depthwise: each input channel has separate output channels, which are adjacent in the result.
    result.along[in] = weights[in];
    result.channels *= weights[in];
    for (int64_t channel = 0; channel < result.channels; ++channel) {
      const int64_t i = channel / weights[out], m = channel % weights[out];
      result.place.push_back(in < out ? channel : m * weights[in] + i);
    }
    return result;
  }
};

// Returns a constant's value for each channel; nullopt if the constant varies along an axis other than the channel
// axis.
std::optional<Values> along_channels(const Tensor* tensor, const Linear& linear) {
  const ConstantPtr* data = constant_of(tensor);
  if (!data) return {};
  const Dims& dims = (*data)->dims();
  const int rank = static_cast<int>(dims.size());
  for (int axis = 0; axis < rank; ++axis) {
    if (dims[axis] != 1 && !(rank - axis == linear.from_end && dims[axis] == linear.channels)) return {};
  }
  Values values(linear.channels, (*data)->elements() > 0 ? (*data)->scalar() : 0);
  if ((*data)->elements() != 1 && !(*data)->is_splat()) {
    for (int64_t i = 0; i < linear.channels; ++i) values[i] = (*data)->scalar(i);
  }
  return values;
}

// The combined effect scale · x + shift of the operations that follow a linear operation with result x.
struct Chain {
  Linear linear;
  Values scale, shift;
  bool scales = false;
  std::vector<const Operation*> members;
  ConstantPtr weights;  // scaled weights, if there is a scale

  explicit Chain(Linear l) : linear(std::move(l)), scale(linear.channels, 1), shift(linear.channels, 0) {}

  // Absorbs one more operation into the chain. Returns false if the operation cannot be absorbed.
  bool take(const Operation& user, const Tensor* value) {
    if (user.is("negative")) {
      multiply(Values(linear.channels, -1));
    } else if (user.inputs.size() == 2 && user.input(0) != user.input(1)) {
      const bool first = user.input(0) == value;
      const auto other = along_channels(user.input(first ? 1 : 0), linear);
      if (!other || !binary(user.kind(), first, *other)) return false;
    } else {
      return false;
    }
    members.push_back(&user);
    return true;
  }

  bool finite() const {
    const auto all = [](const Values& values) {
      return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
    };
    return all(scale) && all(shift);
  }
  bool worth_it() const { return (scales || members.size() > 1) && finite(); }
  bool shifts() const {
    return std::ranges::any_of(shift, [](double v) { return v != 0; });
  }

 private:
  void multiply(const Values& by) {
    scales = true;
    for (size_t i = 0; i < by.size(); ++i) scale[i] *= by[i], shift[i] *= by[i];
  }
  bool binary(Kind kind, bool first, const Values& other) {
    if (kind == "multiplication") return multiply(other), true;
    if (kind == "division" && first) {
      Values inverse(other.size());
      for (size_t i = 0; i < other.size(); ++i) inverse[i] = 1 / other[i];
      return multiply(inverse), true;
    }
    const bool adds = kind == "addition", subtracts = kind == "subtraction";
    if (!adds && !subtracts) return false;
    if (subtracts && !first) multiply(Values(other.size(), -1));
    for (size_t i = 0; i < other.size(); ++i) shift[i] += subtracts && first ? -other[i] : other[i];
    return true;
  }
};

// Converts numbers to a constant of the given dtype. For dtypes other than float32 and float64, the numbers are first
// rounded to float32 and then to the dtype.
ConstantPtr rounded(const Values& values, DType dtype, const Dims& dims) {
  if (dtype == DType::float64) return ConstantData::copy(dtype, dims, values.data());
  const std::vector<float> narrow(values.begin(), values.end());
  ConstantPtr single = ConstantData::copy(DType::float32, dims, narrow.data());
  return dtype == DType::float32 ? single : computed("cast", {single}, {{"dtype", dtype}});
}

ConstantPtr scaled_weights(const Chain& chain) {
  const Linear& linear = chain.linear;
  const ConstantPtr& weights = *constant_of(linear.root->input(1));
  const DType dtype = weights->dtype(), wide = dtype == DType::float64 ? dtype : DType::float32;
  Values placed(chain.scale);
  for (size_t i = 0; i < linear.place.size(); ++i) placed[linear.place[i]] = chain.scale[i];
  ConstantPtr value = dtype == wide ? weights : computed("cast", {weights}, {{"dtype", wide}});
  if (value) value = computed("multiplication", {value, rounded(placed, wide, linear.along)});
  return !value || dtype == wide ? value : computed("cast", {value}, {{"dtype", dtype}});
}

class Absorber {
 public:
  explicit Absorber(const Program& program) : users_(program) { find(program.graph->root()); }

  bool any() const { return !chains_.empty(); }

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) const {
    if (const auto member = members_.find(&operation); member != members_.end()) {
      Tensor* result = r.now(member->second);
      // An operation between two absorbed casts has a different dtype from the result, e.g. float32 instead of
      // bfloat16. The result of the chain is therefore cast before it replaces the operation's result. The cast is only
      // used by operations that are also absorbed.
      const DType dtype = operation.output()->dtype();
      return std::vector<Tensor*>{dtype == result->dtype() ? result : Builder(r.graph()).cast(result, dtype)};
    }
    const auto found = chains_.find(&operation);
    if (found == chains_.end()) return {};
    const Chain& chain = found->second;
    std::vector<Tensor*> inputs = r.now(operation.inputs);
    if (chain.weights) inputs[1] = r.constant(*operation.input(1)->operation, chain.weights);
    Tensor* result = r.create(operation, operation.kind(), std::move(inputs), operation.attributes)->output();
    if (!chain.shifts()) return std::vector<Tensor*>{result};
    Dims dims(static_cast<size_t>(chain.linear.from_end), 1);
    dims[0] = chain.linear.channels;
    Tensor* shift = r.graph().add("constant", {}, {{"value", rounded(chain.shift, result->dtype(), dims)}});
    return std::vector<Tensor*>{r.create(*chain.members.back(), "addition", {result, shift})->output()};
  }

 private:
  void find(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) find(*inner);
      auto linear = Linear::of(*operation);
      if (!linear) continue;
      Chain chain(std::move(*linear));
      const bool single = operation->output()->dtype() == DType::float32;
      const Operation* widens = single ? nullptr : only_cast(operation->output());
      const Tensor* value = widens ? widens->output() : operation->output();
      while (const Operation* user = users_.only(value)) {
        if (user->parent != operation->parent || user->outputs.size() != 1) break;
        if (user->output()->type != value->type || !chain.take(*user, value)) break;
        value = user->output();
      }
      if (!chain.worth_it()) continue;
      if (widens) {
        const Operation* narrows = only_cast(value);
        if (!narrows || narrows->output()->type != operation->output()->type) continue;
        chain.members.push_back(widens);
        chain.members.push_back(narrows);
      }
      if (chain.scales && !(chain.weights = scaled_weights(chain))) continue;  // no evaluator is registered
      for (const Operation* member : chain.members) members_[member] = operation->output();
      chains_.emplace(operation.get(), std::move(chain));
    }
  }

  // The cast between half precision and float32 that is the only use of a value; null if there is no such cast.
  const Operation* only_cast(const Tensor* value) const {
    const Operation* user = users_.only(value);
    if (!user || !user->is("cast") || user->parent != value->operation->parent) return nullptr;
    const DType from = value->dtype(), to = user->output()->dtype();
    return (is_half(from) && to == DType::float32) || (from == DType::float32 && is_half(to)) ? user : nullptr;
  }

  Users users_;
  std::unordered_map<const Operation*, Chain> chains_;  // keyed by the linear operation at the start of the chain
  // maps each absorbed operation to the result of its root
  std::unordered_map<const Operation*, const Tensor*> members_;
};

}  // namespace

void absorb(Program& program) {
  if (!any_operation(program, [](const Operation& operation) { return Linear::of(operation).has_value(); })) return;
  const Absorber absorber(program);
  if (!absorber.any()) return;
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return absorber.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
