// Optimizer formulas, and the encoding of an update step as a separate program.
#include "nngraph/optimizer.h"

#include <cmath>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::nngraph {

using runtime::NDArray;

namespace {

void require(bool holds, std::string_view who, std::string_view what, double came) {
  if (!holds) throw GraphError(cat(std::string(who), ": ", std::string(what), ", got ", came));
}

}  // namespace

// Clip, rescale, and regularize the gradient, in the order of MPSNNOptimizer.h. L1 adds the sign of the value times the
// regularization scale; Apple's header says "1 * scale", which would push negative values away from zero.
Tensor* Optimizer::prepared(Builder& b, Tensor* values, Tensor* gradient) const {
  const OptimizerDescriptor& d = descriptor;
  if (d.apply_gradient_clipping)
    gradient = b.graph().add("clamp", {gradient, b.scalar_like(gradient, d.gradient_clip_min),
                                       b.scalar_like(gradient, d.gradient_clip_max)});
  if (d.gradient_rescale != 1) gradient = b.mul(gradient, d.gradient_rescale);
  switch (d.regularization_type) {
    case OptimizerDescriptor::Regularization::none: return gradient;
    case OptimizerDescriptor::Regularization::l1:
      return b.add(gradient, b.mul(b.unary("sign", values), d.regularization_scale));
    case OptimizerDescriptor::Regularization::l2: return b.add(gradient, b.mul(values, d.regularization_scale));
  }
  return gradient;
}

Tensor* Optimizer::lower(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
                         Tensor* rate) const {
  return step(b, values, prepared(b, values, gradient), moments, rate);
}

// The compiled update for one shape. Its feeds are values, gradient, moments, and rate; its targets are the new values
// and moments. The descriptor's settings are compiled in, so changing the descriptor requires recompilation.
struct Optimizer::Compiled {
  OptimizerDescriptor descriptor;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::unique_ptr<runtime::DeviceGraph> on_device;
  std::shared_ptr<runtime::Executable> executable;
};

namespace {

// compares everything but the rate, which is fed
bool same_update(const OptimizerDescriptor& a, const OptimizerDescriptor& b) {
  return a.gradient_rescale == b.gradient_rescale && a.apply_gradient_clipping == b.apply_gradient_clipping &&
         a.gradient_clip_min == b.gradient_clip_min && a.gradient_clip_max == b.gradient_clip_max &&
         a.regularization_type == b.regularization_type && a.regularization_scale == b.regularization_scale;
}

}  // namespace

std::vector<NDArray> Optimizer::encode(runtime::CommandBuffer& buffer, runtime::Device& device, const NDArray& values,
                                       const NDArray& gradient, const std::vector<NDArray>& given) const {
  if (gradient.dims() != values.dims())
    throw ShapeError(cat(name(), ": the gradient must have the shape of the values ", to_string(values.dims()),
                         ", got ", to_string(gradient.dims())));
  const size_t count = moments().size();
  if (!given.empty() && given.size() != count)
    throw GraphError(cat(name(), ": the number of moments must be ", count, ", got ", given.size()));
  std::shared_ptr<Compiled> compiled;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Compiled>& entry = compiled_[{&device, values.dims()}];
    if (!entry || !same_update(entry->descriptor, descriptor)) {
      entry = std::make_shared<Compiled>();
      entry->descriptor = descriptor;
      Builder b(*entry->graph);
      const TensorType type{DType::float32, Shape(values.dims())}, scalar{DType::float32, Shape(Dims{})};
      const auto placeholder = [&](const TensorType& t) { return b.graph().add("placeholder", {}, {{"type", t}}); };
      std::vector<runtime::Feed> feeds;
      for (size_t i = 0; i < 2 + count; ++i) feeds.emplace_back(placeholder(type), type);
      feeds.emplace_back(placeholder(scalar), scalar);
      std::vector<Tensor*> targets;
      for (size_t i = 0; i < count; ++i) targets.push_back(feeds[2 + i].first);
      Tensor* result = lower(b, feeds[0].first, feeds[1].first, targets, feeds.back().first);
      targets.insert(targets.begin(), result);
      entry->on_device = std::make_unique<runtime::DeviceGraph>(entry->graph, device);
      entry->executable = entry->on_device->compile(feeds, targets);
    }
    compiled = entry;
  }
  std::vector<NDArray> inputs{values, gradient};
  for (size_t i = 0; i < count; ++i) {
    if (!given.empty()) {
      inputs.push_back(given[i]);
      continue;
    }
    NDArray zeros = NDArray::allocate(DType::float32, values.dims());
    std::fill_n(zeros.data(), zeros.bytes(), std::byte{0});
    inputs.push_back(std::move(zeros));
  }
  NDArray rate = NDArray::allocate(DType::float32, {});
  *reinterpret_cast<float*>(rate.data()) = static_cast<float>(step_rate());
  inputs.push_back(std::move(rate));
  return compiled->executable->encode(buffer, std::move(inputs));
}

StochasticGradientDescent::StochasticGradientDescent(OptimizerDescriptor d, double momentum, bool nesterov)
    : Optimizer(d), momentum_scale(momentum), use_nesterov_momentum(nesterov) {
  require(momentum >= 0, name(), "momentum_scale must not be negative", momentum);
}

std::vector<std::string_view> StochasticGradientDescent::moments() const {
  return momentum_scale == 0 ? std::vector<std::string_view>{} : std::vector<std::string_view>{"momentum"};
}

// With gradient g, values v, momentum m, and momentum scale mu: m = mu m + rate g, v -= m.
// Nesterov: m = mu m + g, v -= rate (g + mu m).
Tensor* StochasticGradientDescent::step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
                                        Tensor* rate) const {
  if (moments.empty()) return b.sub(values, b.mul(rate, gradient));
  Tensor* decayed = b.mul(moments[0], momentum_scale);
  if (!use_nesterov_momentum) {
    moments[0] = b.add(decayed, b.mul(rate, gradient));
    return b.sub(values, moments[0]);
  }
  moments[0] = b.add(decayed, gradient);
  return b.sub(values, b.mul(rate, b.add(gradient, b.mul(moments[0], momentum_scale))));
}

RMSProp::RMSProp(OptimizerDescriptor d, double decay, double epsilon) : Optimizer(d), decay(decay), epsilon(epsilon) {
  require(decay >= 0 && decay < 1, name(), "decay must be in [0, 1)", decay);
}

// With gradient g, values v, running mean of squares s, and decay d:
// s = d s + (1 - d) g^2, v -= rate g / (sqrt(s) + epsilon).
Tensor* RMSProp::step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments, Tensor* rate) const {
  Tensor*& squares = moments[0];
  Tensor* added = b.mul(b.unary("square", gradient), 1 - decay);
  squares = b.add(b.mul(squares, decay), added);
  Tensor* slope = b.div(gradient, b.add(b.unary("square_root", squares), epsilon));
  return b.sub(values, b.mul(rate, slope));
}

Adam::Adam(OptimizerDescriptor d, double beta1, double beta2, double epsilon, int64_t time_step, bool amsgrad)
    : Optimizer(d), beta1(beta1), beta2(beta2), epsilon(epsilon), amsgrad(amsgrad), time_step_(time_step) {
  require(beta1 >= 0 && beta1 < 1, name(), "beta1 must be in [0, 1)", beta1);
  require(beta2 >= 0 && beta2 < 1, name(), "beta2 must be in [0, 1)", beta2);
  require(time_step >= 0, name(), "time_step must not be negative", static_cast<double>(time_step));
}

std::vector<std::string_view> Adam::moments() const {
  if (amsgrad) return {"momentum", "velocity", "maximum_velocity"};
  return {"momentum", "velocity"};
}

double Adam::step_rate() const {
  const auto t = static_cast<double>(time_step_ + 1);
  return descriptor.learning_rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
}

// With gradient g, values v, momentum m, velocity s, and betas b1 and b2:
// m = b1 m + (1 - b1) g, s = b2 s + (1 - b2) g^2, v -= rate m / (sqrt(s) + epsilon).
// With amsgrad, the largest s so far replaces s in the last formula. `rate` includes the bias correction.
Tensor* Adam::step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments, Tensor* rate) const {
  Tensor* added = b.mul(gradient, 1 - beta1);
  moments[0] = b.add(b.mul(moments[0], beta1), added);
  added = b.mul(b.unary("square", gradient), 1 - beta2);
  moments[1] = b.add(b.mul(moments[1], beta2), added);
  Tensor* spread = moments[1];
  if (amsgrad) spread = moments[2] = b.binary("maximum", moments[2], moments[1]);
  Tensor* slope = b.div(moments[0], b.add(b.unary("square_root", spread), epsilon));
  return b.sub(values, b.mul(rate, slope));
}

}  // namespace mpsgraph::nngraph
