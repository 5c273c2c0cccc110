// The nodes of a graph as operations of one core graph, for one size of images.
#pragma once

#include <memory>
#include <vector>

#include "mpsgraph/runtime/device_graph.h"
#include "nngraph/backend.h"
#include "nngraph/graph.h"
#include "nngraph/layer.h"

namespace mpsgraph::nngraph {

// What one encode feeds, in this order, besides images: where each feed comes from.
struct FedParameter {
  Layer* layer;
  size_t slot;
};

// A part of a graph whose parameters are loaded on demand: up to the next filter with such a data source.
struct Part {
  std::shared_ptr<runtime::Executable> executable;
  std::vector<size_t> inputs, outputs;  // by number among all values of a run
  std::vector<Layer*> layers;           // loaded for it; their slots are fed behind the inputs
  std::vector<size_t> last_uses;        // values that no later part reads
};

struct NNGraph::Lowered {
  std::shared_ptr<runtime::Executable> executable;      // null: there are parts
  std::vector<Part> parts;
  std::vector<size_t> input_numbers;                    // of the parts' values: the run's inputs
  size_t value_count = 0;
  size_t image_count = 0;
  std::vector<std::pair<size_t, bool>> labels;          // (loss, is it the weights of it?)
  std::vector<FedParameter> parameters;
  std::vector<std::shared_ptr<Optimizer>> rates;        // one scalar for each
  std::vector<int64_t> seeds;                           // of random filters, one state for each
  std::map<const ImageNode*, Dims> shapes;              // of all images

  // Targets, in this order: results that are needed, exports, losses, then for each self-updating layer its gradients,
  // then for each state that is given out its arrays.
  std::vector<size_t> results;  // their numbers in result_images()
  std::vector<std::vector<std::string>> gradients;  // names, for each of `updating`
  std::vector<Layer*> updating;
  size_t loss_count = 0;
  std::vector<std::vector<std::string>> left;  // names, for each of state_exports()
};

struct NNGraph::State {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::unique_ptr<runtime::DeviceGraph> on_device;  // null: `nodes` run them
  std::vector<std::unique_ptr<Layer>> layers;
  using SourceKey = std::pair<const void*, DataSource::Kind>;
  static SourceKey key_of(const DataSource& source) { return {source.identity(), source.kind()}; }
  std::map<SourceKey, Layer*> by_source;
  std::map<std::vector<int64_t>, std::shared_ptr<Lowered>> lowered;
  std::recursive_mutex mutex;  // loading a source may ask this graph for its values
  int64_t batches = 0;  // encoded so far: random filters draw anew for each
  std::unique_ptr<DeviceNodes> nodes;
  void store(Layer& layer);

  Layer* layer_of(const FilterNode& node) const {
    if (!node.parameters()) return nullptr;
    const auto found = by_source.find(key_of(*node.parameters()));
    return found == by_source.end() ? nullptr : found->second;
  }
};

}  // namespace mpsgraph::nngraph
