// Inference of a stack of recurrent layers over a sequence, in one direction or both. Weights are loaded once and stay.
#pragma once

#include "nngraph/recurrent_sequence.h"

namespace mpsgraph::nngraph {

class DeviceInferenceLayer;
enum class BidirectionalCombineMode : uint8_t { none, add, concatenate };

class MPSGRAPH_API RecurrentInferenceLayer {
 public:
  // `name` stands in errors. `images`: the rows of a step are pixels of images.
  RecurrentInferenceLayer(std::string name, runtime::Device& device, std::vector<RecurrentDescriptor> descriptors,
                          bool images);
  ~RecurrentInferenceLayer();

  size_t layer_count() const { return descriptors_.size(); }
  const RecurrentDescriptor& descriptor(size_t layer) const { return descriptors_.at(layer); }
  size_t form_count() const { return forms_.count(); }
  uint64_t compiled() const { return forms_.compiled(); }

  bool store_all_intermediate_states = false;
  BidirectionalCombineMode combine_mode = BidirectionalCombineMode::none;

  // Through all layers in their order, each from the first step to the last. Gives the last states or those of all
  // steps, of all layers, when asked for.
  std::vector<RecurrentState> encode_sequence(runtime::CommandBuffer& buffer, Steps sources, Steps destinations,
                                              const std::optional<RecurrentState>& input_state, bool gives_states);
  // Layers of the forward direction from the first step to the last, those of the backward direction from the last to
  // the first, each upon the one before of its direction; then both results are combined. `backward` is empty unless
  // nothing is combined.
  void encode_bidirectional_sequence(runtime::CommandBuffer& buffer, Steps sources, Steps forward, Steps backward);

 private:
  std::vector<size_t> layers_of(bool backward) const;
  void check_chain(const std::vector<size_t>& layers) const;
  Tensor* through(SequenceGraph& graph, const std::vector<size_t>& layers, Tensor* source, bool reverse);
  std::vector<Tensor*> weights_of(SequenceGraph& graph, size_t layer) const;

  const std::string name_;
  runtime::Device& device_;
  std::vector<RecurrentDescriptor> descriptors_;
  std::vector<WeightLayout> layouts_;
  std::vector<std::vector<Matrix>> weights_;
  std::unique_ptr<DeviceInferenceLayer> on_device_;  // null: it runs as a core graph
  SequenceForms forms_;
};

}  // namespace mpsgraph::nngraph
