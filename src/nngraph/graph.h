// NNGraph: nodes as something that runs. MPSNNGraph.
//
// On the CPU device the nodes become one core graph, for each size of images that comes: forward filters by what they
// mean, gradient filters as gradients of that, updates by optimizers of ours as assignments, so that a batch is one
// executable. A data source that updates its parameters by itself cuts it: its parameters are fed, its gradients are
// results, and its update is encoded behind. Device metal runs nodes by Apple's own classes (backend.h).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/device_graph.h"
#include "mpsgraph/runtime/package.h"
#include "nngraph/nodes.h"
#include "nngraph/optimizer.h"

namespace mpsgraph::nngraph {

// A batch of images as one array [N, height, width, channels]: float32, float16, or uint8 for unorm8 (0 to 255 stand
// for 0 to 1) and uint16 for unorm16.
struct ImageBatch {
  runtime::NDArray array;
};

// MPSCNNLossLabels of a batch: labels and perhaps weights as images, each [N, height, width, channels] float32. The
// losses are written by the run: [N, 1, 1, 1], or [N, height, width, channels] when nothing is reduced. For a filter
// that reads another graph's state `labels` is that, a mask, and there are no losses.
struct LabelsBatch {
  runtime::NDArray labels, weights;
  runtime::NDArray losses;
};

class Layer;

struct EncodeResults {
  std::vector<ImageBatch> images;         // of result_images(); an invalid array where none was asked for
  std::vector<ImageBatch> intermediates;  // of intermediate_image_handles()
  std::vector<StatePtr> states;           // of result_state_handles()
};

class MPSGRAPH_API NNGraph {
 public:
  // `needed`: one for each result, or empty for all. Loads each data source once. GraphError for a cycle of images, a
  // gradient filter whose forward filter does not lead to a result, ….
  NNGraph(runtime::Device& device, std::vector<ImagePtr> results, std::vector<bool> needed = {});
  ~NNGraph();

  runtime::Device& device() const { return *device_; }
  const std::vector<ImagePtr>& result_images() const { return results_; }
  const std::vector<ImagePtr>& source_images() const { return inputs_; }            // in the order of encode
  std::vector<std::string> source_image_handles() const;
  std::vector<std::string> source_state_handles() const;  // losses(), in the order of encode
  std::vector<std::string> result_state_handles() const;  // of state_exports()
  const std::vector<ImagePtr>& intermediate_images() const { return exports_; }
  std::vector<std::string> intermediate_image_handles() const;
  const std::vector<FilterPtr>& filters() const { return filters_; }  // in an order of execution
  bool has_gradient(const FilterNode& filter) const { return derived_.contains(&filter); }
  bool results_are_needed(size_t i) const { return needed_[i]; }
  const std::vector<FilterPtr>& losses() const { return losses_; }  // that take labels, or a state
  const std::vector<FilterPtr>& state_exports() const { return state_exports_; }  // whose states are given out
  Layer* layer_of(const FilterNode& filter) const;  // null: it has no parameters
  std::vector<Layer*> layers() const;
  // How intermediate images are stored; float16 rounds each filter's result. Default float32, also on Metal.
  ChannelFormat format() const { return format_; }
  void set_format(ChannelFormat format);

  // Encodes a batch. Data sources that update by themselves are called here; what they throw leaves everything as it
  // was. `labels`: one for each loss; their `losses` are set to arrays that the run writes.
  EncodeResults encode_batch(const std::shared_ptr<runtime::CommandBuffer>& buffer, std::vector<ImageBatch> sources,
                             std::vector<LabelsBatch>& labels);
  // What the graph computes of images of these types, in a graph of its own with the parameters as constants, for other
  // formats; the number of images may be unknown. GraphError for a graph that trains or takes labels, UnsupportedError
  // for one whose filters draw random numbers, and on a device that runs nodes by itself.
  runtime::PackageContents model(const std::vector<TensorType>& images);
  // Takes the parameters from the data sources anew. The work of all graphs that train them must have been finished.
  void reload_from_data_sources();

 private:
  friend class Lowerer;
  struct Lowered;  // the nodes for one size of images
  struct State;
  EncodeResults encode_on_device(const Lowered& lowered, const std::shared_ptr<runtime::CommandBuffer>& buffer,
                                 const std::vector<ImageBatch>& sources, std::vector<LabelsBatch>& labels);
  std::shared_ptr<Lowered> lower(const std::vector<ImageBatch>& sources, const std::vector<LabelsBatch>& labels);
  std::vector<runtime::NDArray> encode_parts(const std::shared_ptr<Lowered>& lowered, runtime::CommandBuffer& buffer,
                                             std::vector<runtime::NDArray> inputs) const;
  void find_filters();
  void require_states(bool by_device) const;
  void read_data_sources(bool by_device);
  void require_purpose() const;
  void check_inputs(const std::vector<ImageBatch>& sources, const std::vector<LabelsBatch>& labels) const;
  void update_outside(const Lowered& lowered, const std::shared_ptr<runtime::CommandBuffer>& buffer,
                      std::vector<runtime::NDArray>::const_iterator gradients);

  runtime::Device* const device_;
  const std::vector<ImagePtr> results_;
  std::vector<bool> needed_;
  std::vector<FilterPtr> filters_;
  std::vector<ImagePtr> inputs_, exports_;
  std::vector<FilterPtr> losses_, state_exports_;
  std::set<const FilterNode*> derived_;  // forward filters whose gradient filters are here
  ChannelFormat format_ = ChannelFormat::float32;
  const std::unique_ptr<State> state_;
};

}  // namespace mpsgraph::nngraph
