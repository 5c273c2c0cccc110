// NNGraph runs a graph of nodes; it corresponds to MPSNNGraph.
//
// On the CPU, the nodes become one core graph per input size. Forward filters are lowered by their definitions,
// gradient filters become derivatives of the lowered filters, and updates by built-in optimizers become assignments, so
// a batch is one executable. If a data source updates its own parameters, they are feeds of the core graph and their
// gradients are results, and the update is encoded afterwards. On the Metal device, Apple's own classes run the nodes
// (backend.h).
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

// A batch of images as one array [N, height, width, channels]: float32, float16, uint8 (unorm8, where 0 to 255 mean 0
// to 1), or uint16 (unorm16).
struct ImageBatch {
  runtime::NDArray array;
};

// MPSCNNLossLabels of a batch: labels and optional weights as images, each float32 of shape [N, height, width,
// channels]. Encoding sets `losses` to an array that the batch fills, of shape [N, 1, 1, 1], or [N, height, width,
// channels] without reduction. For a filter that reads a state of another graph, such as a mask, `labels` holds that
// state and `losses` is not used.
struct LabelsBatch {
  runtime::NDArray labels, weights;
  runtime::NDArray losses;
};

class Layer;

struct EncodeResults {
  // Results in the order of result_images(). The array of a result that was not requested is invalid.
  std::vector<ImageBatch> images;
  std::vector<ImageBatch> intermediates;  // intermediate images in the order of intermediate_image_handles()
  std::vector<StatePtr> states;  // exported states in the order of result_state_handles()
};

class MPSGRAPH_API NNGraph {
 public:
  // `needed` has one entry per result; empty means all. Loads each data source once. Throws GraphError for a cycle of
  // images, a gradient filter whose forward filter does not lead to a result, and similar mistakes.
  NNGraph(runtime::Device& device, std::vector<ImagePtr> results, std::vector<bool> needed = {});
  ~NNGraph();

  runtime::Device& device() const { return *device_; }
  const std::vector<ImagePtr>& result_images() const { return results_; }
  // source images in the argument order of encode_batch()
  const std::vector<ImagePtr>& source_images() const { return inputs_; }
  std::vector<std::string> source_image_handles() const;
  // Handles of the states that the caller passes with each batch, such as labels, in the order in which encode_batch()
  // expects them.
  std::vector<std::string> source_state_handles() const;
  std::vector<std::string> result_state_handles() const;  // handles of state_exports()
  const std::vector<ImagePtr>& intermediate_images() const { return exports_; }
  std::vector<std::string> intermediate_image_handles() const;
  const std::vector<FilterPtr>& filters() const { return filters_; }  // all filters in execution order
  bool has_gradient(const FilterNode& filter) const { return derived_.contains(&filter); }
  bool results_are_needed(size_t i) const { return needed_[i]; }
  const std::vector<FilterPtr>& losses() const { return losses_; }  // filters that read labels or a state
  const std::vector<FilterPtr>& state_exports() const { return state_exports_; }  // filters whose states are exported
  Layer* layer_of(const FilterNode& filter) const;  // null if the filter has no parameters
  std::vector<Layer*> layers() const;
  // Storage format of intermediate images; float16 rounds the result of each filter. The default is float32, also on
  // Metal.
  ChannelFormat format() const { return format_; }
  void set_format(ChannelFormat format);

  // Encode a batch. This calls the self-updating data sources; if one throws, nothing changes. `labels` has one entry
  // per loss. Encoding sets `losses` of each entry to an array that the batch fills.
  EncodeResults encode_batch(const std::shared_ptr<runtime::CommandBuffer>& buffer, std::vector<ImageBatch> sources,
                             std::vector<LabelsBatch>& labels);
  // Return the forward computation for images of these types as a separate graph with constant parameters, for export
  // to other formats. The number of images may be dynamic. Throws GraphError if the graph trains or takes labels, and
  // UnsupportedError if filters draw random numbers or the device runs nodes natively.
  runtime::PackageContents model(const std::vector<TensorType>& images);
  // Load the parameters from the data sources again. All work of graphs that train these parameters must have
  // completed.
  void reload_from_data_sources();

 private:
  friend class Lowerer;
  struct Lowered;  // the nodes lowered for one input size
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
  std::set<const FilterNode*> derived_;  // forward filters whose gradient filters are in the graph
  ChannelFormat format_ = ChannelFormat::float32;
  const std::unique_ptr<State> state_;
};

}  // namespace mpsgraph::nngraph
