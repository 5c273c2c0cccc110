// Copies images to matrices and back with MPSImageCopyToMatrix and MPSMatrixCopyToImage. Batches of images are arrays
// in this library, so they are converted to and from MPSImages.
#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/images.h"
#include "backends/metal/nngraph/recurrent.h"

namespace mpsgraph::metal {

using nngraph::DataLayout;
using runtime::NDArray;

namespace {

MPSDataLayout layout_of(DataLayout layout) {
  return layout == DataLayout::height_x_width_x_feature_channels ? MPSDataLayoutHeightxWidthxFeatureChannels
                                                                 : MPSDataLayoutFeatureChannelsxHeightxWidth;
}

void require_images(const char* what, const NDArray& images) {
  if (images.dtype() != DType::float32 && images.dtype() != DType::float16)
    throw UnsupportedError(cat("[", what, "] images must be float32 or float16 on the Metal device, got ",
                               images.dtype(), "; convert them first, or use device=\"cpu\""));
  require_texture(images.dims(), cat("[", what, "] an image"));
}

constexpr auto in_memory = DataLayout::height_x_width_x_feature_channels;

void images_to_rows_in(runtime::CommandBuffer& buffer, const NDArray& images, const NDArray& rows, DataLayout layout) {
  require_images("ImageCopyToMatrix", images);
  if (images.elements() == 0) return;
  const auto work = std::make_shared<MatrixWork>(metal_device(buffer.queue().device()));
  const size_t from = work->add_images(images, Access::reads), to = work->add(rows, Access::writes);
  const Dims dims = images.dims();
  MatrixWork::encode(work, buffer, "ImageCopyToMatrix", [=](id<MTLCommandBuffer> commands, MatrixWork& work) {
    MPSImageBatch* batch = make_images(work.device, dims[0], dims, work[from].dtype);
    rows_to_images(commands, work.device, work[from], batch, in_memory);
    images_to_rows(commands, work.device, batch, work[to], layout);
  });
}

void rows_to_images_in(runtime::CommandBuffer& buffer, const NDArray& rows, const NDArray& images, DataLayout layout) {
  require_images("MatrixCopyToImage", images);
  if (images.elements() == 0) return;
  const auto work = std::make_shared<MatrixWork>(metal_device(buffer.queue().device()));
  const size_t from = work->add(rows, Access::reads), to = work->add_images(images, Access::writes);
  const Dims dims = images.dims();
  MatrixWork::encode(work, buffer, "MatrixCopyToImage", [=](id<MTLCommandBuffer> commands, MatrixWork& work) {
    MPSImageBatch* batch = make_images(work.device, dims[0], dims, work[to].dtype);
    rows_to_images(commands, work.device, work[from], batch, layout);
    images_to_rows(commands, work.device, batch, work[to], in_memory);
  });
}

std::unique_ptr<nngraph::DeviceInferenceLayer> make_inference_layer(
    runtime::Device& device, const std::vector<nngraph::RecurrentDescriptor>& descriptors, bool images) {
  return images ? make_image_layer(metal_device(device), descriptors)
                : make_matrix_layer(metal_device(device), descriptors);
}

[[maybe_unused]] const bool registered = [] {
  nngraph::register_recurrent_backend("metal", {.make_training = make_training_layer,
                                                .make_inference = make_inference_layer,
                                                .encode_images_to_rows = images_to_rows_in,
                                                .encode_rows_to_images = rows_to_images_in});
  return true;
}();

}  // namespace

NSMutableArray<MPSImage*>* make_images(MetalDevice& device, int64_t count, const Dims& dims, DType dtype) {
  MPSImageDescriptor* descriptor =
      [MPSImageDescriptor imageDescriptorWithChannelFormat:dtype == DType::float16 ? MPSImageFeatureChannelFormatFloat16
                                                                                   : MPSImageFeatureChannelFormatFloat32
                                                     width:static_cast<NSUInteger>(dims[2])
                                                    height:static_cast<NSUInteger>(dims[1])
                                           featureChannels:static_cast<NSUInteger>(dims[3])];
  NSMutableArray<MPSImage*>* images = [NSMutableArray array];
  for (int64_t i = 0; i < count; ++i)
    [images addObject:[[MPSImage alloc] initWithDevice:device.device imageDescriptor:descriptor]];
  return images;
}

void rows_to_images(id<MTLCommandBuffer> commands, MetalDevice& device, const DeviceRows& rows, MPSImageBatch* images,
                    DataLayout layout) {
  MPSMatrixCopyToImage* copy = [[MPSMatrixCopyToImage alloc] initWithDevice:device.device dataLayout:layout_of(layout)];
  [copy encodeBatchToCommandBuffer:commands sourceMatrix:matrix_of(rows) destinationImages:images];
}

void images_to_rows(id<MTLCommandBuffer> commands, MetalDevice& device, MPSImageBatch* images, const DeviceRows& rows,
                    DataLayout layout) {
  MPSImageCopyToMatrix* copy = [[MPSImageCopyToMatrix alloc] initWithDevice:device.device dataLayout:layout_of(layout)];
  [copy encodeBatchToCommandBuffer:commands sourceImages:images destinationMatrix:matrix_of(rows)];
}

}  // namespace mpsgraph::metal
