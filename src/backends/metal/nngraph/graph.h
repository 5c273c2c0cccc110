// MetalNodes runs an NNGraph as an MPSNNGraph.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backends/metal/nngraph/make_node.h"
#include "nngraph/backend.h"

namespace mpsgraph::metal {

class MetalNodes final : public nngraph::DeviceNodes {
 public:
  // Throws UnsupportedError for nodes that Apple's classes cannot implement.
  MetalNodes(MetalDevice& device, const nngraph::NNGraph& graph);
  ~MetalNodes() override;
  nngraph::EncodeResults encode_batch(const nngraph::NodeBatch& batch, std::vector<runtime::NDArray>& losses) override;
  void reload(const std::vector<std::vector<nngraph::NamedArray>>& arrays) override;
  void wait_for_values() override;

 private:
  struct Handed;  // arguments and results of an encode of MPSNNGraph
  void make_nodes();
  void make_node(const nngraph::FilterPtr& filter);
  void require_single_use(const nngraph::Layer& layer, const nngraph::FilterNode& filter) const;
  void make_graph();
  void check(const nngraph::NodeBatch& batch) const;
  void encode(BatchEncoding& encoding, const nngraph::NodeBatch& batch, Handed& handed);
  NSArray<MPSCNNLossLabels*>* labels_of(BatchEncoding& encoding, const nngraph::NodeBatch& batch, size_t loss) const;
  std::shared_ptr<LayerParameters> parameters_of(const nngraph::FilterNode& filter) const;

  MetalDevice& device_;
  const nngraph::NNGraph& graph_;
  Failures failures_;
  std::map<const nngraph::Layer*, std::shared_ptr<LayerParameters>> parameters_;
  std::map<const nngraph::ImageNode*, MPSNNImageNode*> images_;
  std::map<const nngraph::FilterNode*, MadeFilter> made_;
  std::vector<MPSNNFilterNode*> gradient_nodes_;  // kept alive here because an image does not own its producer
  MPSNNGraph* native_ = nil;  // created with the first batch, after its sizes have been checked
};

// Encode one optimizer step. If this thread is encoding a batch, the step becomes part of that batch; otherwise it is
// encoded into `buffer`.
void encode_step(MetalDevice& device, const nngraph::Optimizer& optimizer, runtime::CommandBuffer& buffer,
                 const nngraph::OptimizerStep& step);

}  // namespace mpsgraph::metal
