// Data sources: where the filters' parameters come from, and who updates them.
//
// Layouts are Apple's: weights (output channels, height, width, input channels of a group), all else one number a
// channel. A graph loads a source, reads it and purges it when it needs the parameters; what they point to need not
// live longer. A source trains in one of three ways: not at all; by an optimizer of ours, whose update is a part of the
// graph's own program (optimizer()); or by code of its own, which encodes the update beside it (updates()).
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

// MPSCNNNeuronDescriptor.
struct Neuron {
  std::string type = "none";
  double a = 0, b = 0, c = 0;
};

// MPSCNNConvolutionDescriptor.
struct ConvolutionDescriptor {
  int64_t kernel_width = 1, kernel_height = 1, input_feature_channels = 1, output_feature_channels = 1;
  int64_t stride_in_pixels_x = 1, stride_in_pixels_y = 1, dilation_rate_x = 1, dilation_rate_y = 1, groups = 1;
  bool depthwise = false;
  Neuron neuron;
  DType kernel_weights = DType::float32;  // what the kernel rounds weights to: Apple's kernelWeightsDataType
  Dims weights_dims() const;  // (out, height, width, in of a group); depthwise (out, height, width, 1)
};

// What an array of parameters is called in its layer: "weights", "biases", "gamma", "beta", "mean", "variance".
struct NamedArray {
  std::string name;
  runtime::NDArray array;
};

// Gradients, parameters or statistics of one layer and batch: MPSCNNConvolutionGradientState,
// MPSCNNConvolutionWeightsAndBiasesState, the states of normalizations. Arrays are written when the command buffer that
// makes them has run.
class MPSGRAPH_API ParameterState {
 public:
  explicit ParameterState(std::vector<NamedArray> arrays) : arrays(std::move(arrays)) {}
  std::vector<NamedArray> arrays;
  std::weak_ptr<runtime::CommandBuffer> written_by;  // none: there already
  bool ever_written() const {  // also when that command buffer is gone
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
  virtual bool load() = 0;  // false: GraphError where it was asked for
  virtual void purge() = 0;

  // Between load() and purge(): float32, float16 or uint8 with `weights`, float32 all others; optional ones are absent.
  virtual std::vector<NamedArray> arrays() = 0;

  // A graph that does not train loads it for each batch, when its filter's turn has come, and purges it behind that.
  virtual bool on_demand() const { return false; }

  virtual std::shared_ptr<Optimizer> optimizer() const { return nullptr; }
  // A graph that trains it by optimizer() holds its values from now on; `give` makes it call store() with them. The
  // last graph holds them; none when that one is gone.
  void held_by(const void* holder, std::function<void()> give) { holder_ = holder, give_ = std::move(give); }
  bool is_held_by(const void* holder) const { return holder_ == holder; }
  virtual void store(std::vector<NamedArray> arrays) { (void)arrays; }

  virtual bool updates() const { return false; }
  // While a batch is encoded. `gradients`: of the parameters; of batch normalization the batch's mean and variance,
  // too. Gives the parameters to go on with; null: those that there are.
  virtual StatePtr update(runtime::CommandBuffer& buffer, const StatePtr& gradients, const StatePtr& source) {
    (void)buffer, (void)gradients, (void)source;
    return nullptr;
  }

  // Filters whose sources say the same here share their parameters.
  virtual const void* identity() const { return this; }

 protected:
  void take_trained() {  // calls store() when a graph holds the values
    if (give_) give_();
  }

 private:
  const void* holder_ = nullptr;
  std::function<void()> give_;
};

class MPSGRAPH_API ConvolutionSource : public DataSource {
 public:
  Kind kind() const override { return Kind::convolution; }
  virtual ConvolutionDescriptor descriptor() = 0;  // after load()
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
  // Of batch normalization: what of the old moving statistics an update keeps; 0 to 1.
  virtual double momentum() const { return 0.99; }

 private:
  const Kind kind_;
};

// Loads a source for as long as it lives.
class MPSGRAPH_API Loaded {
 public:
  Loaded(DataSource& source, const std::string& who);  // GraphError when load() says no
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  void purge();  // what it throws reaches the caller, unlike from the destructor

 private:
  DataSource* source_;
};

// The parameters of a loaded source, checked against what its descriptor says. Errors name `who`.
MPSGRAPH_API std::vector<NamedArray> viewed_arrays(DataSource& source, const std::string& who);
// The same as float32 copies, which stay when the source is purged.
MPSGRAPH_API std::vector<NamedArray> checked_arrays(DataSource& source, const std::string& who);

// --- ready-made sources: they never leave C++ in a step --------------------------------------------------------------

// Holds its parameters; trains by `optimizer`, or not at all when that is null.
class MPSGRAPH_API TrainableConvolution : public ConvolutionSource {
 public:
  // ShapeError when arrays do not fit the descriptor. `biases` may be invalid: none.
  TrainableConvolution(ConvolutionDescriptor descriptor, runtime::NDArray weights, runtime::NDArray biases,
                       std::shared_ptr<Optimizer> optimizer, std::string label);
  ConvolutionDescriptor descriptor() override { return descriptor_; }
  std::string label() const override { return label_; }
  bool load() override;  // takes what training has left
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
  // gamma 1, beta 0, mean 0 and variance 1 where an array is invalid.
  TrainableNormalization(Kind kind, NormalizationDescriptor descriptor, std::vector<NamedArray> arrays, double momentum,
                         std::shared_ptr<Optimizer> optimizer, std::string label);
  NormalizationDescriptor descriptor() override { return descriptor_; }
  double momentum() const override { return momentum_; }
  std::string label() const override { return label_; }
  bool load() override;  // takes what training has left
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
