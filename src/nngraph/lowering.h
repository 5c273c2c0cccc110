// The lowered form of an NNGraph: its nodes as operations of one core graph, for one input size.
#pragma once

#include <memory>
#include <vector>

#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/backend.h"
#include "nngraph/graph.h"
#include "nngraph/layer.h"

namespace mpsgraph::nngraph {

// A parameter that each encode feeds in addition to the images. Feeds are in the order of these entries.
struct FedParameter {
  Layer* layer;
  size_t slot;
};

// A graph that loads parameters on demand is divided into parts, each with its own executable. A new part starts before
// each filter whose parameters are loaded on demand.
struct Part {
  std::shared_ptr<runtime::Executable> executable;
  std::vector<size_t> inputs, outputs;  // indices of the values that enter and leave this part
  // Layers whose parameters are loaded for this part. Their arrays are fed after the part's inputs.
  std::vector<Layer*> layers;
  std::vector<size_t> last_uses;        // indices of the values that no later part reads
};

struct NNGraph::Lowered {
  std::shared_ptr<runtime::Executable> executable;      // null if the graph is divided into parts
  std::vector<Part> parts;
  std::vector<size_t> input_numbers;  // value indices of the batch's inputs; used if there are parts
  size_t value_count = 0;
  size_t image_count = 0;
  // For each label feed: the index of its loss, and whether the feed holds the weights of that loss instead of the
  // labels.
  std::vector<std::pair<size_t, bool>> labels;
  std::vector<FedParameter> parameters;
  std::vector<std::shared_ptr<Optimizer>> rates;  // optimizers whose learning rate is a scalar feed
  std::vector<int64_t> seeds;  // seeds of random filters, each of which has a state feed
  std::map<const ImageNode*, Dims> shapes;  // shape of each image

  // Targets, in this order: needed results, exported images, losses, the gradients of each self-updating layer, and the
  // arrays of each exported state.
  std::vector<size_t> results;  // indices of the needed results in result_images()
  std::vector<std::vector<std::string>> gradients;  // names of the gradients, for each entry of `updating`
  std::vector<Layer*> updating;
  size_t loss_count = 0;
  std::vector<std::vector<std::string>> left;  // names of the arrays, for each entry of state_exports()
};

struct NNGraph::State {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::unique_ptr<runtime::DeviceGraph> on_device;  // null if `nodes` runs the graph natively
  std::vector<std::unique_ptr<Layer>> layers;
  using SourceKey = std::pair<const void*, DataSource::Kind>;
  static SourceKey key_of(const DataSource& source) { return {source.identity(), source.kind()}; }
  std::map<SourceKey, Layer*> by_source;
  std::map<std::vector<int64_t>, std::shared_ptr<Lowered>> lowered;
  std::recursive_mutex mutex;  // recursive because loading a source may read values of this graph
  // Number of batches encoded so far, so that random filters draw different numbers for each batch.
  int64_t batches = 0;
  std::unique_ptr<DeviceNodes> nodes;
  void store(Layer& layer);

  Layer* layer_of(const FilterNode& node) const {
    if (!node.parameters()) return nullptr;
    const auto found = by_source.find(key_of(*node.parameters()));
    return found == by_source.end() ? nullptr : found->second;
  }
};

}  // namespace mpsgraph::nngraph
