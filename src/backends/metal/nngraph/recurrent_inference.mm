// MPSRNNMatrixInferenceLayer runs stacks of layers over matrices, in one or both directions.
#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/recurrent.h"

namespace mpsgraph::metal {
namespace {

using nngraph::RecurrentDescriptor;
using nngraph::RecurrentState;
using nngraph::Steps;
using runtime::NDArray;

struct NativeInference {
  ~NativeInference() {
    @autoreleasepool {
      layer = nil;
    }
  }
  MPSRNNMatrixInferenceLayer* layer = nil;
  std::mutex encoding;
  const std::shared_ptr<BeginStates> states = std::make_shared<BeginStates>();

  // The caller must hold `encoding`.
  MPSRNNRecurrentMatrixState* make_state(MetalDevice& device, int64_t rows) {
    NSMutableArray<MPSRNNRecurrentMatrixState*>* made = [NSMutableArray array];
    [layer encodeSequenceToCommandBuffer:[device.queue commandBuffer]
                          sourceMatrices:@[ empty_matrix(device, rows, layer.inputFeatureChannels) ]
                     destinationMatrices:@[ empty_matrix(device, rows, layer.outputFeatureChannels) ]
                     recurrentInputState:nil
                   recurrentOutputStates:made];
    return made.lastObject;
  }
};

class MetalMatrixLayer final : public nngraph::DeviceInferenceLayer {
 public:
  MetalMatrixLayer(MetalDevice& device, const std::vector<RecurrentDescriptor>& descriptors) : device_(device) {
    guarded([&] {
      NSMutableArray<const MPSRNNDescriptor*>* all = [NSMutableArray array];
      for (const RecurrentDescriptor& descriptor : descriptors) [all addObject:rnn_descriptor(descriptor, true)];
      native_->layer = [[MPSRNNMatrixInferenceLayer alloc] initWithDevice:device.device rnnDescriptors:all];
      if (!native_->layer)
        throw DeviceError(
            "[metal] expected an MPSRNNMatrixInferenceLayer, but Apple's initializer returned nil for these "
            "descriptors; use device=\"cpu\"");
    });
  }

  void encode_sequence(runtime::CommandBuffer& buffer, const nngraph::DeviceStack& s) override {
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_steps(*work, s.sources, Access::reads);
    const auto destinations = add_steps(*work, s.destinations, Access::writes);
    const auto places = [&](const RecurrentState& state, Access access) {
      std::vector<StatePlaces> layers;
      for (const nngraph::LayerState& layer : state) layers.push_back(add_state(*work, layer, access));
      return layers;
    };
    bool begins = false;
    for (const nngraph::LayerState& layer : s.start) begins |= layer.output.valid() || layer.cell.valid();
    const auto start = places(s.start, Access::reads);
    std::vector<std::vector<StatePlaces>> ends;
    for (const RecurrentState& end : s.ends) ends.push_back(places(end, Access::writes));
    const int64_t rows = s.sources.front().dims()[0];
    MatrixWork::encode(
        work, buffer, "RNNMatrixInferenceLayer",
        [=, native = native_](id<MTLCommandBuffer> commands, MatrixWork& work) {
          const std::lock_guard lock(native->encoding);
          MPSRNNRecurrentMatrixState* begin = nil;
          if (begins) {
            begin = leased_state(native->states, work, rows, [&] { return native->make_state(work.device, rows); });
            fill_state(commands, begin, work, start);
          }
          MovedMatrices from = moved_matrices(work, sources), to = moved_matrices(work, destinations);
          NSMutableArray<MPSRNNRecurrentMatrixState*>* states = ends.empty() ? nil : [NSMutableArray array];
          native->layer.storeAllIntermediateStates = ends.size() > 1;
          [native->layer encodeSequenceToCommandBuffer:commands
                                        sourceMatrices:from.matrices
                                         sourceOffsets:from.offsets.data()
                                   destinationMatrices:to.matrices
                                    destinationOffsets:to.offsets.data()
                                   recurrentInputState:begin
                                 recurrentOutputStates:states];
          if (states.count < ends.size())
            throw DeviceError(
                cat("[metal] the number of states from a sequence must be ", ends.size(), ", got ", states.count));
          for (size_t i = 0; i < ends.size(); ++i)
            read_state(commands, states[states.count - ends.size() + i], work, ends[i]);
        });
  }

  void encode_bidirectional_sequence(runtime::CommandBuffer& buffer, const nngraph::DeviceDirections& s) override {
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_steps(*work, s.sources, Access::reads);
    const auto forward = add_steps(*work, s.forward, Access::writes);
    const auto backward = add_steps(*work, s.backward, Access::writes);
    MatrixWork::encode(work, buffer, "RNNMatrixInferenceLayer",
                       [=, native = native_, mode = s.mode](id<MTLCommandBuffer> commands, MatrixWork& work) {
                         const std::lock_guard lock(native->encoding);
                         native->layer.bidirectionalCombineMode = static_cast<MPSRNNBidirectionalCombineMode>(mode);
                         [native->layer encodeBidirectionalSequenceToCommandBuffer:commands
                                                                    sourceSequence:matrices_of(work, sources)
                                                        destinationForwardMatrices:matrices_of(work, forward)
                                                       destinationBackwardMatrices:matrices_of(work, backward)];
                       });
  }

 private:
  MetalDevice& device_;
  const std::shared_ptr<NativeInference> native_ = std::make_shared<NativeInference>();
};

}  // namespace

std::unique_ptr<nngraph::DeviceInferenceLayer> make_matrix_layer(MetalDevice& device,
                                                                 const std::vector<RecurrentDescriptor>& descriptors) {
  return std::make_unique<MetalMatrixLayer>(device, descriptors);
}

}  // namespace mpsgraph::metal
