// Batches of images: arrays [N, height, width, channels] as MPSImages, and back.
#pragma once

#include "backends/metal/nngraph/batch.h"
#include "nngraph/nodes.h"

namespace mpsgraph::metal {

MPSImageFeatureChannelFormat channel_format(nngraph::ChannelFormat format);
// float32 or float16 of what a filter makes.
DType dtype_of(MPSImage* image);

// UnsupportedError for images that a texture cannot hold.
void require_texture(const Dims& dims, const std::string& what);

// An image for each of the array's. Floats are copied by the device, when the work runs; bytes now, by the host.
MPSImageBatch* upload(const BatchEncoding& batch, const runtime::NDArray& array);
// An array that the work writes.
runtime::NDArray download(const BatchEncoding& batch, MPSImageBatch* images);

// The rows of a matrix are what the first axis of an array counts.
MPSMatrix* matrix_of(const BufferView& view, const Dims& dims, DType dtype);
MPSVector* vector_of(const BufferView& view, int64_t length);

}  // namespace mpsgraph::metal
