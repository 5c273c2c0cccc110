// MPSRNNMatrixTrainingLayer. This library owns the weight matrices, with the sizes and layout that Apple's layer
// requires.
#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/recurrent.h"
#include "backends/metal/types.h"
#include "mpsgraph/runtime/command_queue.h"

namespace mpsgraph::metal {
namespace {

using nngraph::Matrix;
using nngraph::MatrixDescriptor;
using nngraph::RecurrentDescriptor;
using nngraph::Steps;
using runtime::NDArray;

using Matrices = NSMutableArray<MPSMatrix*>;

// Apple's states of a forward sequence. They are set when the sequence has been encoded for the device.
struct Training final : nngraph::DeviceTraining {
  ~Training() override { clear(); }
  void clear() {
    @autoreleasepool {
      states = nil;
    }
  }
  NSMutableArray<MPSRNNMatrixTrainingState*>* states = nil;
};

MatrixDescriptor descriptor_of(MPSMatrix* matrix) {
  const DeviceRows rows = rows_of(matrix);
  return {.rows = rows.rows,
          .columns = rows.columns,
          .row_bytes = static_cast<int64_t>(rows.row_bytes),
          .matrix_bytes = rows.rows * static_cast<int64_t>(rows.row_bytes),
          .dtype = rows.dtype};
}

std::vector<size_t> add_weights(MatrixWork& work, const std::vector<Matrix>& weights, Access access) {
  std::vector<size_t> numbers;
  for (const Matrix& matrix : weights) numbers.push_back(work.add(matrix.array(), access));
  return numbers;
}

struct NativeTraining {
  ~NativeTraining() {
    @autoreleasepool {
      layer = nil;
      initial = nil;
    }
  }
  MPSRNNMatrixTrainingLayer* layer = nil;
  Matrices* initial = [[Matrices alloc] init];
  std::mutex encoding;  // protects the layer's properties, which are set for each encode
  const std::shared_ptr<BeginStates> states = std::make_shared<BeginStates>();

  MPSRNNRecurrentMatrixState* make_state(MetalDevice& device, int64_t rows);
};

// The caller must hold `encoding`.
MPSRNNRecurrentMatrixState* NativeTraining::make_state(MetalDevice& device, int64_t rows) {
  NSMutableArray<MPSRNNRecurrentMatrixState*>* made = [NSMutableArray array];
  [layer encodeForwardSequenceToCommandBuffer:[device.queue commandBuffer]
                               sourceMatrices:@[ empty_matrix(device, rows, layer.inputFeatureChannels) ]
                                sourceOffsets:nullptr
                          destinationMatrices:@[ empty_matrix(device, rows, layer.outputFeatureChannels) ]
                           destinationOffsets:nullptr
                               trainingStates:[NSMutableArray array]
                          recurrentInputState:nil
                        recurrentOutputStates:made
                                      weights:initial];
  return made.lastObject;
}

class MetalTrainingLayer final : public nngraph::DeviceTrainingLayer {
 public:
  MetalTrainingLayer(MetalDevice& device, const RecurrentDescriptor& descriptor) : device_(device) {
    if (nngraph::WeightLayout(descriptor).matrices().empty())
      throw UnsupportedError(
          "[RNNMatrixTrainingLayer] a layer without weights is not supported on the Metal device, because "
          "Apple does not document it; add data sources, or use device=\"cpu\"");
    guarded([&] {
      native_->layer = [[MPSRNNMatrixTrainingLayer alloc] initWithDevice:device.device
                                                           rnnDescriptor:rnn_descriptor(descriptor, false)
                                                        trainableWeights:native_->initial];
      if (!native_->layer)
        throw DeviceError(
            "[metal] expected an MPSRNNMatrixTrainingLayer, but Apple's initializer returned nil for this "
            "descriptor; use device=\"cpu\"");
      for (MPSMatrix* matrix in native_->initial) weights_.push_back(descriptor_of(matrix));
    });
  }

  const std::vector<MatrixDescriptor>& weight_matrices() const override { return weights_; }

  const std::vector<MatrixDescriptor>& gradient_matrices(DType dtype) override {
    const std::lock_guard lock(native_->encoding);
    std::vector<MatrixDescriptor>& found = gradients_[dtype];
    if (!found.empty()) return found;
    guarded([&] {
      Matrices* matrices = [NSMutableArray array];
      [native_->layer createWeightGradientMatrices:matrices dataType:data_type(dtype)];
      for (MPSMatrix* matrix in matrices) found.push_back(descriptor_of(matrix));
    });
    return found;
  }

  std::vector<Matrix> zeros(const std::vector<MatrixDescriptor>& descriptors) override {
    std::vector<Matrix> result;
    for (const MatrixDescriptor& d : descriptors) {
      const NDArray bytes = guarded([&] { return device_.allocate(DType::uint8, {d.matrix_bytes}); });
      std::fill_n(bytes.data(), bytes.bytes(), std::byte{0});
      result.emplace_back(bytes.buffer(), d);
    }
    return result;
  }

  // The device copies the initial weights, because the memory that Apple allocates might not be visible to the CPU.
  std::vector<Matrix> initial_weights() override {
    std::vector<Matrix> result = zeros(weights_);
    guarded([&] {
      run_now(device_.queue, [&](MPSCommandBuffer* commands) {
        id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
        for (size_t i = 0; i < result.size(); ++i) {
          DeviceRows to = rows_of(native_->initial[i]);
          const BufferView view = device_.view_of(result[i].array());
          to.buffer = view.buffer;
          to.offset = view.offset;
          copy_rows(blit, rows_of(native_->initial[i]), to);
        }
        [blit endEncoding];
      });
    });
    return result;
  }

  std::shared_ptr<nngraph::DeviceTraining> encode_forward(runtime::CommandBuffer& buffer,
                                                          const nngraph::DeviceForward& s) override {
    const auto training = std::make_shared<Training>();
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_steps(*work, s.sources, Access::reads);
    const auto destinations = add_steps(*work, s.destinations, Access::writes);
    const auto weights = add_weights(*work, s.weights, Access::reads);
    const bool begins = s.start.output.valid() || s.start.cell.valid();
    const StatePlaces start = add_state(*work, s.start, Access::reads);
    std::vector<StatePlaces> ends;
    for (const nngraph::LayerState& end : s.ends) ends.push_back(add_state(*work, end, Access::writes));
    const int64_t rows = s.sources.front().dims()[0];
    MatrixWork::encode(
        work, buffer, "encode_forward_sequence",
        [=, native = native_](id<MTLCommandBuffer> commands, MatrixWork& work) {
          const std::lock_guard lock(native->encoding);
          MPSRNNRecurrentMatrixState* begin = nil;
          if (begins) {
            begin = leased_state(native->states, work, rows, [&] { return native->make_state(work.device, rows); });
            fill_state(commands, begin, work, {start});
          }
          MovedMatrices from = moved_matrices(work, sources), to = moved_matrices(work, destinations);
          NSMutableArray<MPSRNNRecurrentMatrixState*>* states = [NSMutableArray array];
          NSMutableArray<MPSRNNMatrixTrainingState*>* steps = [NSMutableArray array];
          native->layer.storeAllIntermediateStates = ends.size() > 1;
          [native->layer encodeForwardSequenceToCommandBuffer:commands
                                               sourceMatrices:from.matrices
                                                sourceOffsets:from.offsets.data()
                                          destinationMatrices:to.matrices
                                           destinationOffsets:to.offsets.data()
                                               trainingStates:steps
                                          recurrentInputState:begin
                                        recurrentOutputStates:states  // Apple requires an array of output states
                                                      weights:matrices_of(work, weights)];
          if (states.count < ends.size())
            throw DeviceError(cat("[metal] the number of states from a forward sequence must be ", ends.size(),
                                  ", got ", states.count));
          training->states = steps;
          for (size_t i = 0; i < ends.size(); ++i)
            read_state(commands, states[states.count - ends.size() + i], work, {ends[i]});
        });
    return training;
  }

  void encode_gradient(runtime::CommandBuffer& buffer, const nngraph::DeviceGradient& s,
                       const std::shared_ptr<nngraph::DeviceTraining>& given) override {
    const auto training = std::static_pointer_cast<Training>(given);
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_steps(*work, s.forward_sources, Access::reads);
    const auto incoming = add_steps(*work, s.source_gradients, Access::reads);
    const auto destinations = add_steps(*work, s.destination_gradients, Access::writes);
    const auto weights = add_weights(*work, s.weights, Access::reads);
    const auto gradients = add_weights(*work, s.weight_gradients, Access::both);
    MatrixWork::encode(
        work, buffer, "encode_gradient_sequence",
        [=, native = native_, accumulates = s.accumulates, gives_destinations = !s.destination_gradients.empty()](
            id<MTLCommandBuffer> commands, MatrixWork& work) {
          const std::lock_guard lock(native->encoding);
          if (!training->states)
            throw DeviceError(
                "[encode_gradient_sequence] the forward sequence of these training states has not run: commit "
                "its command buffer before this one, and if they are in different queues, make this one wait for it");
          MovedMatrices inputs = moved_matrices(work, sources), from = moved_matrices(work, incoming),
                        to = moved_matrices(work, destinations);
          native->layer.accumulateWeightGradients = accumulates;
          [native->layer encodeGradientSequenceToCommandBuffer:commands
                                                forwardSources:inputs.matrices
                                          forwardSourceOffsets:inputs.offsets.data()
                                               sourceGradients:from.matrices
                                         sourceGradientOffsets:from.offsets.data()
                                          destinationGradients:gives_destinations ? to.matrices : nil
                                            destinationOffsets:gives_destinations ? to.offsets.data() : nullptr
                                               weightGradients:matrices_of(work, gradients)
                                                trainingStates:training->states
                                           recurrentInputState:nil
                                         recurrentOutputStates:nil
                                                       weights:matrices_of(work, weights)];
          for (MPSRNNMatrixTrainingState* state in training->states) work.keep(state);
          training->states = nil;
        });
  }

  void encode_copy_weights(runtime::CommandBuffer& buffer, const std::vector<Matrix>& weights, nngraph::MatrixId number,
                           const NDArray& window, bool from_weights) override {
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto places = add_weights(*work, weights, from_weights ? Access::reads : Access::both);
    const size_t place = work->add(window, from_weights ? Access::writes : Access::reads);
    MatrixWork::encode(work, buffer, "encode_copy_weights",
                       [=, native = native_](id<MTLCommandBuffer> commands, MatrixWork& work) {
                         const std::lock_guard lock(native->encoding);
                         // Apple does not document the effect of matrixOffset, so the offset is 0 and the matrix is a
                         // view that starts at the right position.
                         [native->layer encodeCopyWeightsToCommandBuffer:commands
                                                                 weights:matrices_of(work, places)
                                                                matrixId:static_cast<MPSRNNMatrixId>(number)
                                                                  matrix:matrix_of(work[place])
                                                 copyFromWeightsToMatrix:from_weights
                                                            matrixOffset:MTLOrigin{0, 0, 0}];
                       });
  }

 private:
  MetalDevice& device_;
  const std::shared_ptr<NativeTraining> native_ = std::make_shared<NativeTraining>();
  std::vector<MatrixDescriptor> weights_;
  std::map<DType, std::vector<MatrixDescriptor>> gradients_;
};

}  // namespace

std::unique_ptr<nngraph::DeviceTrainingLayer> make_training_layer(runtime::Device& device,
                                                                  const RecurrentDescriptor& descriptor) {
  return std::make_unique<MetalTrainingLayer>(metal_device(device), descriptor);
}

}  // namespace mpsgraph::metal
