// Inference of a stack of recurrent layers over a sequence, in one or both directions. The weights are loaded once.
#pragma once

#include "nngraph/recurrent_sequence.h"

namespace mpsgraph::nngraph {

class DeviceInferenceLayer;
enum class BidirectionalCombineMode : uint8_t { none, add, concatenate };

class MPSGRAPH_API RecurrentInferenceLayer {
 public:
  // Error messages start with `name`. `images` states whether the steps are images; the pixels are then the rows of a
  // step.
  RecurrentInferenceLayer(std::string name, runtime::Device& device, std::vector<RecurrentDescriptor> descriptors,
                          bool images);
  ~RecurrentInferenceLayer();

  size_t layer_count() const { return descriptors_.size(); }
  const RecurrentDescriptor& descriptor(size_t layer) const { return descriptors_.at(layer); }
  size_t form_count() const { return forms_.count(); }
  uint64_t compiled() const { return forms_.compiled(); }

  bool store_all_intermediate_states = false;
  BidirectionalCombineMode combine_mode = BidirectionalCombineMode::none;

  // Run the layers one after the other, each from the first step to the last. If `gives_states` is set, return the
  // layers' states after the last step, or after every step.
  std::vector<RecurrentState> encode_sequence(runtime::CommandBuffer& buffer, Steps sources, Steps destinations,
                                              const std::optional<RecurrentState>& input_state, bool gives_states);
  // Run the forward layers from the first step to the last, and the backward layers from the last to the first. The two
  // stacks are independent. With combine mode 'none', their results are written to `forward` and `backward`. With 'add'
  // and 'concatenate', the combined result is written to `forward`, and `backward` must be empty.
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
  std::unique_ptr<DeviceInferenceLayer> on_device_;  // null if the layer runs as a core graph
  SequenceForms forms_;
};

}  // namespace mpsgraph::nngraph
