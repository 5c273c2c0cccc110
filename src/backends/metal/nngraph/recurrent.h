// Conversion of recurrent layers to Apple's: MPSRNNMatrixTrainingLayer, MPSRNNMatrixInferenceLayer, and
// MPSRNNImageInferenceLayer.
#pragma once

#include <map>
#include <mutex>

#include "backends/metal/nngraph/matrices.h"
#include "nngraph/recurrent_backend.h"

namespace mpsgraph::metal {

// Create Apple's descriptor of a recurrent layer, whose data sources hold the weights. `directed` is set for a layer
// that may process a sequence backward.
MPSRNNDescriptor* rnn_descriptor(const nngraph::RecurrentDescriptor& descriptor, bool directed);

// Add a sequence's time steps to the work and return their indices in it.
std::vector<size_t> add_steps(MatrixWork& work, const nngraph::Steps& steps, Access access);
MovedMatrices moved_matrices(const MatrixWork& work, const std::vector<size_t>& numbers);
// Returns nil if `numbers` is empty.
NSMutableArray<MPSMatrix*>* matrices_of(const MatrixWork& work, const std::vector<size_t>& numbers);
// A matrix without memory, for work that is encoded but never committed.
MPSMatrix* empty_matrix(MetalDevice& device, int64_t rows, NSUInteger columns);

// Pool of initial states. Only an encode of Apple's layers can create state objects. The state from which a sequence
// starts is therefore created by an encode that is never committed, and the initial values are copied into its matrices
// or images. States that are no longer used are reused.
class BeginStates {
 public:
  ~BeginStates();
  // Return a free state with this number of rows, or a new one from make(). For states of images, `rows` is always 0.
  id take(int64_t rows, const std::function<id()>& make);
  void give_back(int64_t rows, id state);

 private:
  std::mutex mutex_;
  std::multimap<int64_t, id> free_;
};
// Take a state and give it back when the work completes.
id leased_state(const std::shared_ptr<BeginStates>& states, MatrixWork& work, int64_t rows,
                const std::function<id()>& make);

// The matrices of a state, as indices in the work; npos if a matrix is zero or does not exist.
struct StatePlaces {
  static constexpr size_t npos = static_cast<size_t>(-1);
  size_t output = npos, cell = npos;
};
StatePlaces add_state(MatrixWork& work, const nngraph::LayerState& state, Access access, DType as = DType::float32);
void fill_state(id<MTLCommandBuffer> commands, MPSRNNRecurrentMatrixState* state, MatrixWork& work,
                const std::vector<StatePlaces>& layers);
void read_state(id<MTLCommandBuffer> commands, MPSRNNRecurrentMatrixState* state, MatrixWork& work,
                const std::vector<StatePlaces>& layers);

std::unique_ptr<nngraph::DeviceTrainingLayer> make_training_layer(runtime::Device& device,
                                                                  const nngraph::RecurrentDescriptor& descriptor);
std::unique_ptr<nngraph::DeviceInferenceLayer> make_matrix_layer(
    MetalDevice& device, const std::vector<nngraph::RecurrentDescriptor>& descriptors);
std::unique_ptr<nngraph::DeviceInferenceLayer> make_image_layer(
    MetalDevice& device, const std::vector<nngraph::RecurrentDescriptor>& descriptors);

// Conversion of matrix rows to images and back with MPSMatrixCopyToImage and MPSImageCopyToMatrix.
NSMutableArray<MPSImage*>* make_images(MetalDevice& device, int64_t count, const Dims& dims, DType dtype);
void rows_to_images(id<MTLCommandBuffer> commands, MetalDevice& device, const DeviceRows& rows, MPSImageBatch* images,
                    nngraph::DataLayout layout);
void images_to_rows(id<MTLCommandBuffer> commands, MetalDevice& device, MPSImageBatch* images, const DeviceRows& rows,
                    nngraph::DataLayout layout);

}  // namespace mpsgraph::metal
