// Copies between buffers and textures with MPSMatrixCopyToImage and MPSImageCopyToMatrix; each image is a row of the
// matrix.
#include "backends/metal/nngraph/images.h"

#include "backends/metal/types.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

MPSImageFeatureChannelFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::uint8: return MPSImageFeatureChannelFormatUnorm8;
    case DType::uint16: return MPSImageFeatureChannelFormatUnorm16;
    case DType::float16: return MPSImageFeatureChannelFormatFloat16;
    default: return MPSImageFeatureChannelFormatFloat32;
  }
}

}  // namespace

MPSImageFeatureChannelFormat channel_format(nngraph::ChannelFormat format) {
  switch (format) {
    case nngraph::ChannelFormat::float16: return MPSImageFeatureChannelFormatFloat16;
    case nngraph::ChannelFormat::float32: return MPSImageFeatureChannelFormatFloat32;
    default: return MPSImageFeatureChannelFormatNone;
  }
}

DType dtype_of(MPSImage* image) {
  return image.featureChannelFormat == MPSImageFeatureChannelFormatFloat16 ? DType::float16 : DType::float32;
}

void require_texture(const Dims& dims, const std::string& what) {
  constexpr int64_t side = 16384, channels = 2048 * 4;
  if (dims[1] > side || dims[2] > side || dims[3] > channels)
    throw UnsupportedError(cat(what, " is ", dims[1], "x", dims[2], " with ", dims[3],
                               " channels, but images on the Metal device have at most ", side, "x", side,
                               " pixels and ", channels, " channels; use smaller images or device=\"cpu\""));
}

MPSMatrix* matrix_of(const BufferView& view, const Dims& dims, DType dtype) {
  const auto rows = static_cast<NSUInteger>(dims[0]);
  const auto columns = static_cast<NSUInteger>(element_count(dims)) / rows;
  MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:rows
                                                                          columns:columns
                                                                         rowBytes:columns * size_of(dtype)
                                                                         dataType:data_type(dtype)];
  return [[MPSMatrix alloc] initWithBuffer:view.buffer offset:view.offset descriptor:descriptor];
}

MPSVector* vector_of(const BufferView& view, int64_t length) {
  MPSVectorDescriptor* descriptor = [MPSVectorDescriptor vectorDescriptorWithLength:static_cast<NSUInteger>(length)
                                                                           dataType:MPSDataTypeFloat32];
  return [[MPSVector alloc] initWithBuffer:view.buffer offset:view.offset descriptor:descriptor];
}

MPSImageBatch* upload(const BatchEncoding& batch, const NDArray& array) {
  const Dims& dims = array.dims();
  MPSImageDescriptor* descriptor =
      [MPSImageDescriptor imageDescriptorWithChannelFormat:format_of(array.dtype())
                                                     width:static_cast<NSUInteger>(dims[2])
                                                    height:static_cast<NSUInteger>(dims[1])
                                           featureChannels:static_cast<NSUInteger>(dims[3])];
  const MPSDataLayout layout = MPSDataLayoutHeightxWidthxFeatureChannels;
  MPSMatrixCopyToImage* copy = [[MPSMatrixCopyToImage alloc] initWithDevice:batch.device.device dataLayout:layout];
  // According to Apple's documentation, allocating all images of a batch at once is faster.
  MPSImageBatch* images = [[MPSImage defaultAllocator] imageBatchForCommandBuffer:batch.commands
                                                                  imageDescriptor:descriptor
                                                                           kernel:copy
                                                                            count:static_cast<NSUInteger>(dims[0])];
  // MPSMatrix does not support unorm8 and unorm16 images
  if (array.dtype() == DType::uint8 || array.dtype() == DType::uint16) {
    const size_t bytes = array.bytes() / static_cast<size_t>(dims[0]);
    for (NSUInteger i = 0; i < images.count; ++i)
      [images[i] writeBytes:array.data() + i * bytes dataLayout:layout imageIndex:0];
    return images;
  }
  [copy encodeBatchToCommandBuffer:batch.commands
                      sourceMatrix:matrix_of(batch.uses.view(array, Access::reads), dims, array.dtype())
                 destinationImages:images];
  return images;
}

NDArray download(const BatchEncoding& batch, MPSImageBatch* images) {
  MPSImage* first = images[0];
  const Dims dims{static_cast<int64_t>(images.count), static_cast<int64_t>(first.height),
                  static_cast<int64_t>(first.width), static_cast<int64_t>(first.featureChannels)};
  NDArray array = batch.device.allocate(dtype_of(first), dims);
  MPSImageCopyToMatrix* copy = [[MPSImageCopyToMatrix alloc] initWithDevice:batch.device.device
                                                                 dataLayout:MPSDataLayoutHeightxWidthxFeatureChannels];
  [copy encodeBatchToCommandBuffer:batch.commands
                      sourceImages:images
                 destinationMatrix:matrix_of(batch.uses.view(array, Access::writes), dims, array.dtype())];
  return array;
}

}  // namespace mpsgraph::metal
