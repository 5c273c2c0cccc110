// Data sources supply the parameters of filters and can update them.
//
// Arrays use Apple's layouts: weights are (output channels, height, width, input channels per group); all other
// parameters have one value per channel. A graph loads a source when it needs the parameters, reads them, and purges
// the source; the arrays may become invalid after the purge. The parameters of a source are either constant, updated by
// an optimizer of this library as part of the graph's program (optimizer()), or updated by custom code that encodes the
// update next to the graph (updates()).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_buffer.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::nngraph {

class Optimizer;

// Activation function of a convolution. Corresponds to MPSCNNNeuronDescriptor.
struct Neuron {
  std::string type = "none";
  double a = 0, b = 0, c = 0;
};

// Settings of a convolution. Corresponds to MPSCNNConvolutionDescriptor.
struct ConvolutionDescriptor {
  int64_t kernel_width = 1, kernel_height = 1, input_feature_channels = 1, output_feature_channels = 1;
  int64_t stride_in_pixels_x = 1, stride_in_pixels_y = 1, dilation_rate_x = 1, dilation_rate_y = 1, groups = 1;
  bool depthwise = false;
  Neuron neuron;
  DType kernel_weights = DType::float32;  // dtype to which the kernel rounds weights: Apple's kernelWeightsDataType
  Dims weights_dims() const;  // shape (out, height, width, in per group), or (out, height, width, 1) if depthwise
};

// The name of a parameter array within its layer: "weights", "biases", "gamma", "beta", "mean", or "variance".
struct NamedArray {
  std::string name;
  runtime::NDArray array;
};

// Gradients, parameters, or statistics of one layer for one batch. Corresponds to MPSCNNConvolutionGradientState,
// MPSCNNConvolutionWeightsAndBiasesState, and the states of normalizations. The arrays are written when the command
// buffer that computes them has completed.
class MPSGRAPH_API ParameterState {
 public:
  explicit ParameterState(std::vector<NamedArray> arrays) : arrays(std::move(arrays)) {}
  std::vector<NamedArray> arrays;
  // The command buffer that writes the arrays. Empty if they have already been written.
  std::weak_ptr<runtime::CommandBuffer> written_by;
  // Whether a command buffer was set in `written_by` at any time, even if that buffer has since been destroyed.
  bool ever_written() const {
    return written_by.owner_before(std::weak_ptr<runtime::CommandBuffer>()) ||
           std::weak_ptr<runtime::CommandBuffer>().owner_before(written_by);
  }
  runtime::NDArray* find(std::string_view name);
};
using StatePtr = std::shared_ptr<ParameterState>;

class MPSGRAPH_API DataSource {
 public:
  enum class Kind { convolution, batch_normalization, instance_normalization, group_normalization };
  virtual ~DataSource() = default;
  virtual Kind kind() const = 0;
  virtual std::string label() const { return {}; }
  virtual bool load() = 0;  // The graph throws GraphError if load() returns false.
  virtual void purge() = 0;

  // Return the parameters; valid between load() and purge(). Weights are float32, float16, or uint8, all other arrays
  // float32; optional arrays may be absent.
  virtual std::vector<NamedArray> arrays() = 0;

  // Whether a graph that does not train should load the source again for each batch, just before the filter that uses
  // the source runs, and purge the source afterwards.
  virtual bool on_demand() const { return false; }

  virtual std::shared_ptr<Optimizer> optimizer() const { return nullptr; }
  // Record which graph (`holder`) holds the current values of this source, because it trains the source with
  // optimizer(). `give` makes that graph pass the values to store(). If several graphs call this function, the last
  // caller is the holder. After the holder has been destroyed, the source has no holder.
  void held_by(const void* holder, std::function<void()> give) { holder_ = holder, give_ = std::move(give); }
  bool is_held_by(const void* holder) const { return holder_ == holder; }
  virtual void store(std::vector<NamedArray> arrays) { (void)arrays; }

  virtual bool updates() const { return false; }
  // Update the parameters while a batch is encoded. `gradients` holds the gradients of the parameters and, for batch
  // normalization, the batch's mean and variance. Return the parameters to use from now on, or null to keep the current
  // ones.
  virtual StatePtr update(runtime::CommandBuffer& buffer, const StatePtr& gradients, const StatePtr& source) {
    (void)buffer, (void)gradients, (void)source;
    return nullptr;
  }

  // Filters whose sources return the same identity share their parameters.
  virtual const void* identity() const { return this; }

 protected:
  void take_trained() {  // calls store() if a graph holds the trained values
    if (give_) give_();
  }

 private:
  const void* holder_ = nullptr;
  std::function<void()> give_;
};

class MPSGRAPH_API ConvolutionSource : public DataSource {
 public:
  Kind kind() const override { return Kind::convolution; }
  virtual ConvolutionDescriptor descriptor() = 0;  // valid after load()
};

struct NormalizationDescriptor {
  int64_t number_of_feature_channels = 1, number_of_groups = 1;
  double epsilon = 1e-5;
};

class MPSGRAPH_API NormalizationSource : public DataSource {
 public:
  explicit NormalizationSource(Kind kind) : kind_(kind) {}
  Kind kind() const override { return kind_; }
  virtual NormalizationDescriptor descriptor() = 0;
  // Batch normalization: fraction of the old moving statistics that an update keeps, from 0 to 1.
  virtual double momentum() const { return 0.99; }

 private:
  const Kind kind_;
};

// Loads a data source and purges it when this object is destroyed.
class MPSGRAPH_API Loaded {
 public:
  Loaded(DataSource& source, const std::string& who);  // throws GraphError if load() returns false
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  void purge();  // Purge the source. Unlike the destructor, this lets exceptions reach the caller.

 private:
  DataSource* source_;
};

// Return the parameters of a loaded source, validated against its descriptor. Error messages start with `who`.
MPSGRAPH_API std::vector<NamedArray> viewed_arrays(DataSource& source, const std::string& who);
// Return the same parameters as float32 copies, which remain valid after the source is purged.
MPSGRAPH_API std::vector<NamedArray> checked_arrays(DataSource& source, const std::string& who);

// --- built-in data sources, which never call back into Python during a step ------------------------------------------

// A convolution source that holds its parameters itself. The parameters are trained with `optimizer`, or stay unchanged
// if `optimizer` is null.
class MPSGRAPH_API TrainableConvolution : public ConvolutionSource {
 public:
  // Throws ShapeError if the arrays do not match the descriptor. An invalid `biases` means no biases.
  TrainableConvolution(ConvolutionDescriptor descriptor, runtime::NDArray weights, runtime::NDArray biases,
                       std::shared_ptr<Optimizer> optimizer, std::string label);
  ConvolutionDescriptor descriptor() override { return descriptor_; }
  std::string label() const override { return label_; }
  bool load() override;  // fetches the trained values from the graph that holds them
  void purge() override {}
  std::vector<NamedArray> arrays() override { return arrays_; }
  std::shared_ptr<Optimizer> optimizer() const override { return optimizer_; }
  void store(std::vector<NamedArray> arrays) override { arrays_ = std::move(arrays); }

 private:
  const ConvolutionDescriptor descriptor_;
  std::vector<NamedArray> arrays_;
  const std::shared_ptr<Optimizer> optimizer_;
  const std::string label_;
};

class MPSGRAPH_API TrainableNormalization : public NormalizationSource {
 public:
  // Arrays that are missing get defaults: gamma 1, beta 0, mean 0, variance 1.
  TrainableNormalization(Kind kind, NormalizationDescriptor descriptor, std::vector<NamedArray> arrays, double momentum,
                         std::shared_ptr<Optimizer> optimizer, std::string label);
  NormalizationDescriptor descriptor() override { return descriptor_; }
  double momentum() const override { return momentum_; }
  std::string label() const override { return label_; }
  bool load() override;  // fetches the trained values from the graph that holds them
  void purge() override {}
  std::vector<NamedArray> arrays() override { return arrays_; }
  std::shared_ptr<Optimizer> optimizer() const override { return optimizer_; }
  void store(std::vector<NamedArray> arrays) override { arrays_ = std::move(arrays); }

 private:
  const NormalizationDescriptor descriptor_;
  const double momentum_;
  std::vector<NamedArray> arrays_;
  const std::shared_ptr<Optimizer> optimizer_;
  const std::string label_;
};

}  // namespace mpsgraph::nngraph
