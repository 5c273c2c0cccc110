// The optimizers of the legacy MPSNNGraph API: MPSNNOptimizerStochasticGradientDescent, …RMSProp, …Adam.
//
// The formulas match Apple's, including the position of epsilon: it is outside the square root, and Adam's bias
// correction does not apply to it. The gradient is first clipped, then rescaled, then regularized. An update can be
// part of another program (lower) or a separate program for parameters that the caller holds (encode).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "mpsgraph/core/builder.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/device_graph.h"

namespace mpsgraph::nngraph {

// Settings shared by all optimizers. Corresponds to MPSNNOptimizerDescriptor.
struct OptimizerDescriptor {
  enum class Regularization { none, l1, l2 };
  double learning_rate = 1e-3, gradient_rescale = 1;
  bool apply_gradient_clipping = false;
  double gradient_clip_min = 0, gradient_clip_max = 0;
  Regularization regularization_type = Regularization::none;
  double regularization_scale = 0;
};

class MPSGRAPH_API Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string_view name() const = 0;
  // Names of the moments stored per parameter, e.g. {"momentum", "velocity"}. They are initialized to zero.
  virtual std::vector<std::string_view> moments() const = 0;

  // Return the new values of one parameter and replace `moments` with the new moments. `rate` is a scalar that the
  // caller feeds with step_rate().
  Tensor* lower(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments, Tensor* rate) const;

  // Return the rate of the next step: the learning rate, for Adam multiplied by the bias correction.
  virtual double step_rate() const { return descriptor.learning_rate; }
  virtual void advance() {}                   // called after a step has been encoded
  virtual int64_t time_step() const { return 0; }
  virtual void set_time_step(int64_t step) { (void)step; }

  // Encode one step as a separate program on the buffer's device; all arrays have the same shape. Returns new arrays:
  // the values, then the moments. `moments` has one array per name in moments(), or is empty for zeros.
  std::vector<runtime::NDArray> encode(runtime::CommandBuffer& buffer, runtime::Device& device,
                                       const runtime::NDArray& values, const runtime::NDArray& gradient,
                                       const std::vector<runtime::NDArray>& moments) const;

  OptimizerDescriptor descriptor;

 protected:
  explicit Optimizer(OptimizerDescriptor descriptor) : descriptor(descriptor) {}
  virtual Tensor* step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
                       Tensor* rate) const = 0;

 private:
  struct Compiled;
  Tensor* prepared(Builder& b, Tensor* values, Tensor* gradient) const;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<const runtime::Device*, Dims>, std::shared_ptr<Compiled>> compiled_;
};

class MPSGRAPH_API StochasticGradientDescent : public Optimizer {
 public:
  StochasticGradientDescent(OptimizerDescriptor descriptor, double momentum_scale, bool nesterov);
  std::string_view name() const override { return "StochasticGradientDescent"; }
  std::vector<std::string_view> moments() const override;
  const double momentum_scale;
  const bool use_nesterov_momentum;

 protected:
  Tensor* step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
               Tensor* rate) const override;
};

class MPSGRAPH_API RMSProp : public Optimizer {
 public:
  RMSProp(OptimizerDescriptor descriptor, double decay, double epsilon);
  std::string_view name() const override { return "RMSProp"; }
  std::vector<std::string_view> moments() const override { return {"sum_of_squares"}; }
  const double decay, epsilon;

 protected:
  Tensor* step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
               Tensor* rate) const override;
};

class MPSGRAPH_API Adam : public Optimizer {
 public:
  Adam(OptimizerDescriptor descriptor, double beta1, double beta2, double epsilon, int64_t time_step, bool amsgrad);
  std::string_view name() const override { return "Adam"; }
  std::vector<std::string_view> moments() const override;
  double step_rate() const override;
  void advance() override { ++time_step_; }
  int64_t time_step() const override { return time_step_; }
  void set_time_step(int64_t step) override { time_step_ = step; }
  const double beta1, beta2, epsilon;
  const bool amsgrad;

 protected:
  Tensor* step(Builder& b, Tensor* values, Tensor* gradient, std::vector<Tensor*>& moments,
               Tensor* rate) const override;

 private:
  int64_t time_step_;
};

}  // namespace mpsgraph::nngraph
