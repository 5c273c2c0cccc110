// Layer: the parameters of a data source within one graph, in the core graph's layout, and how they are updated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mpsgraph/core/builder.h"
#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/data_source.h"
#include "nngraph/nodes.h"

namespace mpsgraph::nngraph {

// Where the parameters of a layer are stored.
//   variables   in variables of the core graph. Weights are HWIO, HWIM for depthwise convolutions, or a matrix of shape
//               (H*W*I, O) if only fully connected filters read them. Other parameters have the source's layout.
//   fed         fed with each batch, in the source's layout, because the source updates them itself
//   on_demand   fed like `fed`, but reloaded for each batch
//   device      on a device that runs nodes natively, in the source's layout
enum class Home { variables, fed, on_demand, device };

// One parameter array.
struct Slot {
  std::string name;
  TensorType type;                // dtype and shape in the source's layout
  // The array that the next batch reads. Used with Home::fed, and with Home::device if the layer trains.
  runtime::NDArray value;
  Tensor* variable = nullptr;  // with Home::variables, the variable of the parameter; its optimizer moments follow
  std::vector<Tensor*> moments;
  bool trained = false;  // has a gradient, unlike the moving statistics of batch normalization
};

class Layer {
 public:
  struct Use {
    bool trains = false;  // whether one of its gradient filters is in the graph
    bool on_demand = false;  // the graph does not train, so sources may be loaded just before their filters run
    bool by_device = false;  // whether the parameters are stored on the device (Home::device)
    // Whether all filters that use the layer are fully connected. The weights are then stored as a matrix, so that the
    // gradient and the update are fused into one kernel; a reshape between them would prevent that.
    bool matrix = false;
  };
  // Load the data source and read its parameters. Error messages start with `who`.
  Layer(std::shared_ptr<DataSource> source, std::string who, const Use& use, Graph& graph);

  const std::shared_ptr<DataSource> source;
  const std::string who;
  const bool trains;
  const Home home;
  const bool matrix;
  bool updates_itself() const { return trains && source->updates(); }
  bool has_optimizer() const { return trains && !source->updates() && source->optimizer(); }
  // Descriptor read from the source: `convolution` or `normalization`, depending on the source's kind.
  ConvolutionDescriptor convolution;
  NormalizationDescriptor normalization;
  std::vector<Slot> slots;
  Slot* find(std::string_view name);

  // Check that the parameters that a data source's update has returned can replace the current ones. Throws ShapeError
  // or GraphError.
  void require_fitting(ParameterState& updated) const;

  // Append the validated arrays of an on-demand source to `feeds`. The source must be loaded.
  void feed(std::vector<runtime::NDArray>& feeds) const;
  // Reloading has two steps: reloaded() reads the parameters from the source, and take() adopts them. If one layer's
  // source cannot be read, no layer has changed.
  std::vector<NamedArray> reloaded();
  void take(runtime::DeviceGraph& on_device, const std::vector<NamedArray>& arrays);
  // Pass to the source the parameter values that an optimizer has trained. `on_device` holds the values as variables of
  // the core graph; `on_device` is null if a native device holds them.
  void store(runtime::DeviceGraph* on_device);

 private:
  Dims core_dims(const Slot& slot, const Dims& own) const;
  runtime::NDArray to_core(const Slot& slot, const runtime::NDArray& own) const;
  runtime::NDArray from_core(const Slot& slot, const runtime::NDArray& core) const;
  std::vector<Dims> own_dims_;
};

// Convert a fed parameter from the source's layout to the layout that operations expect.
Tensor* as_operand(Builder& b, const Layer& layer, const Slot& slot, Tensor* fed);
// Convert the gradient of a parameter from the core graph's layout to that of the data source, wherever the parameter
// is stored.
Tensor* as_own(Builder& b, const Layer& layer, const Slot& slot, Tensor* gradient);

}  // namespace mpsgraph::nngraph
