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

// One array of parameters. In the core graph weights are HWIO, of depthwise convolutions HWIM, of what only fully
// connected filters read a matrix (HWI, O), else as the source has them. Those that the source updates by itself are
// fed as the source has them; all others are variables.
struct Slot {
  std::string name;
  TensorType type;                // fed: as the source has it
  runtime::NDArray value;         // and the array that the next batch reads; none when it is loaded on demand
  Tensor* variable = nullptr;     // else this, and the optimizer's moments of it
  std::vector<Tensor*> moments;
  bool trained = false;           // has a gradient: not the moving statistics of batch normalization
};

class Layer {
 public:
  // Loads the source and reads it. `who` names it in errors.
  // `on_demand`: the graph does not train, so that sources may be loaded when their filters' turn has come.
  // `matrix`: all its filters are fully connected. With the weights as a matrix their gradient and its update become
  // one kernel, which a reshape between them would prevent.
  Layer(std::shared_ptr<DataSource> source, std::string who, bool trains, bool on_demand, bool matrix, Graph& graph);

  const std::shared_ptr<DataSource> source;
  const std::string who;
  const bool trains;         // a gradient filter of it is in the graph
  const bool on_demand;      // fed, and loaded anew for each batch
  const bool matrix;
  bool fed() const { return trains && source->updates(); }
  // What the source said of itself when it was read; the one of its kind.
  ConvolutionDescriptor convolution;
  NormalizationDescriptor normalization;
  std::vector<Slot> slots;
  Slot* find(std::string_view name);

  // Of a source that is loaded on demand, while it is: its arrays, checked, behind `feeds`.
  void feed(std::vector<runtime::NDArray>& feeds) const;
  // Takes the source's values anew, in `on_device`'s variables.
  // The source's parameters, read anew, and their taking: apart, so that no layer takes any when one cannot be read.
  std::vector<NamedArray> reloaded();
  void take(runtime::DeviceGraph& on_device, const std::vector<NamedArray>& arrays);
  // Gives the variables' values to the source.
  void store(runtime::DeviceGraph& on_device);

 private:
  Dims core_dims(const Slot& slot, const Dims& own) const;
  runtime::NDArray to_core(const Slot& slot, const runtime::NDArray& own) const;
  runtime::NDArray from_core(const Slot& slot, const runtime::NDArray& core) const;
  std::vector<Dims> own_dims_;
};

// What a fed parameter, which has the source's layout, is as an operand.
Tensor* as_operand(Builder& b, const Layer& layer, const Slot& slot, Tensor* fed);
// And its gradient, back in the source's layout.
Tensor* as_own(Builder& b, const Layer& layer, const Slot& slot, Tensor* gradient);

}  // namespace mpsgraph::nngraph
