// A device that runs nodes by classes of its own, as Metal does, and not as operations of a core graph.
//
// The nodes are lowered to a core graph all the same: that says how large each image is, and refuses what does not fit
// before the device sees it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nngraph/graph.h"
#include "nngraph/layer.h"

namespace mpsgraph::nngraph {

// What one encode is given, checked.
struct NodeBatch {
  const std::shared_ptr<runtime::CommandBuffer>& buffer;
  const std::vector<ImageBatch>& sources;
  const std::vector<LabelsBatch>& labels;
  const std::map<const ImageNode*, Dims>& shapes;  // of all images
};

// One graph's nodes on a device.
class DeviceNodes {
 public:
  virtual ~DeviceNodes() = default;
  // Encodes now, and appends what it encoded to the command buffer; what it throws leaves both as they were. Losses:
  // one array for each loss.
  virtual EncodeResults encode_batch(const NodeBatch& batch, std::vector<runtime::NDArray>& losses) = 0;
  // Takes the parameters of the layers anew: for each of the graph's layers those that Layer::reloaded() gave.
  virtual void reload(const std::vector<std::vector<NamedArray>>& arrays) = 0;
  // Until the values in the layers' slots are those of the last batch that was submitted.
  virtual void wait_for_values() = 0;
};

// One step of an optimizer on one parameter: arrays of one shape, float32.
struct OptimizerStep {
  runtime::NDArray gradient, values;
  std::vector<runtime::NDArray> moments;  // read and written
  runtime::NDArray result;                // may be the values
};

struct NodeBackend {
  std::unique_ptr<DeviceNodes> (*make_nodes)(const NNGraph& graph);
  // Into the buffer; while a batch of nodes is encoded and a data source updates itself, into that batch.
  void (*encode_step)(const Optimizer& optimizer, runtime::CommandBuffer& buffer, const OptimizerStep& step);
};

// By the device's name. Registered when the backend is loaded.
MPSGRAPH_API void register_node_backend(std::string device, NodeBackend backend);
MPSGRAPH_API const NodeBackend* find_node_backend(std::string_view device);  // null: nodes run as a core graph

}  // namespace mpsgraph::nngraph
