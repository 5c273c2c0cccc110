// A data source in one graph: its parameters as the core graph has them, and how they change.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mpsgraph/core/builder.h"
#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/data_source.h"
#include "nngraph/nodes.h"

namespace mpsgraph::nngraph {

// Where a layer's parameters are.
//   variables   of the core graph: weights are HWIO, of depthwise convolutions HWIM, of what only fully connected
//               filters read a matrix (HWI, O), else as the source has them
//   fed         as the source has them, with each batch: the source updates them by itself
//   on_demand   fed likewise, and loaded anew for each batch
//   device      with a device that runs nodes by itself, as the source has them
enum class Home { variables, fed, on_demand, device };

// One array of parameters.
struct Slot {
  std::string name;
  TensorType type;                // as the source has it
  runtime::NDArray value;         // fed: the array that the next batch reads; device: the same, of what trains
  Tensor* variable = nullptr;     // else this, and the optimizer's moments of it
  std::vector<Tensor*> moments;
  bool trained = false;           // has a gradient: not the moving statistics of batch normalization
};

class Layer {
 public:
  struct Use {
    bool trains = false;     // a gradient filter of it is in the graph
    bool on_demand = false;  // the graph does not train: sources may be loaded when their filters' turn has come
    bool by_device = false;  // Home::device
    // All its filters are fully connected. With the weights as a matrix their gradient and its update become one
    // kernel, which a reshape between them would prevent.
    bool matrix = false;
  };
  // Loads the source and reads it. `who` names it in errors.
  Layer(std::shared_ptr<DataSource> source, std::string who, const Use& use, Graph& graph);

  const std::shared_ptr<DataSource> source;
  const std::string who;
  const bool trains;
  const Home home;
  const bool matrix;
  bool updates_itself() const { return trains && source->updates(); }
  bool has_optimizer() const { return trains && !source->updates() && source->optimizer(); }
  // What the source said of itself when it was read; the one of its kind.
  ConvolutionDescriptor convolution;
  NormalizationDescriptor normalization;
  std::vector<Slot> slots;
  Slot* find(std::string_view name);

  // What the source's update gave must be able to take the place of what there is: ShapeError, GraphError.
  void require_fitting(ParameterState& updated) const;

  // Of a source that is loaded on demand, while it is: its arrays, checked, behind `feeds`.
  void feed(std::vector<runtime::NDArray>& feeds) const;
  // The source's parameters, read anew, and their taking: apart, so that no layer takes any when one cannot be read.
  std::vector<NamedArray> reloaded();
  void take(runtime::DeviceGraph& on_device, const std::vector<NamedArray>& arrays);
  // Gives the values that an optimizer has trained to the source. `on_device`: of the variables, null when a device
  // has them.
  void store(runtime::DeviceGraph* on_device);

 private:
  Dims core_dims(const Slot& slot, const Dims& own) const;
  runtime::NDArray to_core(const Slot& slot, const runtime::NDArray& own) const;
  runtime::NDArray from_core(const Slot& slot, const runtime::NDArray& core) const;
  std::vector<Dims> own_dims_;
};

// What a fed parameter, which has the source's layout, is as an operand.
Tensor* as_operand(Builder& b, const Layer& layer, const Slot& slot, Tensor* fed);
// And its gradient, back in the source's layout, from the core graph's of any home.
Tensor* as_own(Builder& b, const Layer& layer, const Slot& slot, Tensor* gradient);

}  // namespace mpsgraph::nngraph
