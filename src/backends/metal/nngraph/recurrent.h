// Recurrent layers of ours as Apple's: MPSRNNMatrixTrainingLayer, MPSRNNMatrixInferenceLayer,
// MPSRNNImageInferenceLayer.
#pragma once

#include <map>
#include <mutex>

#include "backends/metal/nngraph/matrices.h"
#include "nngraph/recurrent_backend.h"

namespace mpsgraph::metal {

// Its data sources hold the weights. `directed`: for a layer that may run backward.
MPSRNNDescriptor* rnn_descriptor(const nngraph::RecurrentDescriptor& descriptor, bool directed);

// Steps, or weights, of a work, by their numbers in it.
std::vector<size_t> add_steps(MatrixWork& work, const nngraph::Steps& steps, Access access);
MovedMatrices moved_matrices(const MatrixWork& work, const std::vector<size_t>& numbers);
NSMutableArray<MPSMatrix*>* matrices_of(const MatrixWork& work, const std::vector<size_t>& numbers);  // nil for none
// For an encode that is never committed: it has no memory.
MPSMatrix* empty_matrix(MetalDevice& device, int64_t rows, NSUInteger columns);

// Only Apple's layers make states, by an encode. Those that a sequence begins with come from an encode that is never
// committed; numbers are copied into their matrices or images. One that is no longer used serves again.
class BeginStates {
 public:
  ~BeginStates();
  // Keyed by the rows, which are of no matter to images.
  id take(int64_t rows, const std::function<id()>& make);
  void give_back(int64_t rows, id state);

 private:
  std::mutex mutex_;
  std::multimap<int64_t, id> free_;
};
// Gives it back when the work is done.
id leased_state(const std::shared_ptr<BeginStates>& states, MatrixWork& work, int64_t rows,
                const std::function<id()>& make);

// The matrices of a state: where they are in the work; npos for zeros, or where there is none.
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

// Images by rows of matrices and back: MPSMatrixCopyToImage, MPSImageCopyToMatrix.
NSMutableArray<MPSImage*>* make_images(MetalDevice& device, int64_t count, const Dims& dims, DType dtype);
void rows_to_images(id<MTLCommandBuffer> commands, MetalDevice& device, const DeviceRows& rows, MPSImageBatch* images,
                    nngraph::DataLayout layout);
void images_to_rows(id<MTLCommandBuffer> commands, MetalDevice& device, MPSImageBatch* images, const DeviceRows& rows,
                    nngraph::DataLayout layout);

}  // namespace mpsgraph::metal
