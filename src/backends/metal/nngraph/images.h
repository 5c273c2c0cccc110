// Batches of images: conversion of arrays [N, height, width, channels] to MPSImages and back.
#pragma once

#include "backends/metal/nngraph/batch.h"
#include "nngraph/nodes.h"

namespace mpsgraph::metal {

MPSImageFeatureChannelFormat channel_format(nngraph::ChannelFormat format);
// Return the dtype of a filter's result: float32 or float16.
DType dtype_of(MPSImage* image);

// Throw UnsupportedError for images that exceed the limits of a texture.
void require_texture(const Dims& dims, const std::string& what);

// Create one MPSImage per image of the array. The device copies floats when the work runs; the host copies bytes
// immediately.
MPSImageBatch* upload(const BatchEncoding& batch, const runtime::NDArray& array);
// Return an array into which the work copies the images.
runtime::NDArray download(const BatchEncoding& batch, MPSImageBatch* images);

// Return a matrix whose number of rows is the first dimension of `dims`; the other dimensions form the columns.
MPSMatrix* matrix_of(const BufferView& view, const Dims& dims, DType dtype);
MPSVector* vector_of(const BufferView& view, int64_t length);

}  // namespace mpsgraph::metal
