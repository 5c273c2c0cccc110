// Helpers for the tests of Metal Performance Shaders: running a command buffer to completion, and creating and reading
// images, buffers, vectors, and matrices.
#pragma once
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "mock_check.h"

namespace check {

using Numbers = std::vector<float>;

inline id<MTLDevice> device() {
  static id<MTLDevice> const device = MTLCreateSystemDefaultDevice();
  return device;
}

inline id<MTLCommandQueue> queue() {
  static id<MTLCommandQueue> const queue = [device() newCommandQueue];
  return queue;
}

// Encode, commit, and wait, then return the command buffer's error message, or "".
inline std::string run(NS_NOESCAPE void (^encode)(id<MTLCommandBuffer>)) {
  id<MTLCommandBuffer> buffer = [queue() commandBuffer];
  encode(buffer);
  [buffer commit];
  [buffer waitUntilCompleted];
  return buffer.error ? text(buffer.error.localizedDescription) : "";
}

// Return whether two vectors agree within the float32 rounding of a few operations, and print the first if they differ.
inline bool are(const Numbers& got, const Numbers& wanted, double tolerance = 2e-6) {
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < got.size(); ++i)
    same = std::fabs(got[i] - wanted[i]) <= tolerance * (1 + std::fabs(wanted[i]));
  if (same) return true;
  std::cerr << "got";
  for (float number : got) std::cerr << " " << number;
  std::cerr << "\n";
  return false;
}

inline MPSImage* image(NSUInteger height, NSUInteger width, NSUInteger channels,
                       MPSImageFeatureChannelFormat format = MPSImageFeatureChannelFormatFloat32) {
  return [[MPSImage alloc] initWithDevice:device()
                          imageDescriptor:[MPSImageDescriptor imageDescriptorWithChannelFormat:format
                                                                                         width:width
                                                                                        height:height
                                                                               featureChannels:channels]];
}

inline MPSImage* image(NSUInteger height, NSUInteger width, NSUInteger channels, const Numbers& numbers) {
  MPSImage* made = image(height, width, channels);
  [made writeBytes:numbers.data() dataLayout:MPSDataLayoutHeightxWidthxFeatureChannels imageIndex:0];
  return made;
}

// Return the values of a float32 image in height x width x channels order.
inline Numbers numbers(MPSImage* image) {
  Numbers result(image.height * image.width * image.featureChannels);
  [image readBytes:result.data() dataLayout:MPSDataLayoutHeightxWidthxFeatureChannels imageIndex:0];
  return result;
}

inline id<MTLBuffer> buffer(const Numbers& numbers) {
  return [device() newBufferWithBytes:numbers.data()
                               length:numbers.size() * sizeof(float)
                              options:MTLResourceStorageModeShared];
}
inline Numbers numbers(id<MTLBuffer> buffer) {
  const float* first = static_cast<const float*>(buffer.contents);
  return Numbers(first, first + buffer.length / sizeof(float));
}

inline MPSVector* vector(const Numbers& numbers) {
  return [[MPSVector alloc] initWithBuffer:buffer(numbers)
                                descriptor:[MPSVectorDescriptor vectorDescriptorWithLength:numbers.size()
                                                                                  dataType:MPSDataTypeFloat32]];
}
inline Numbers numbers(MPSVector* vector) { return numbers(vector.data); }

// Create a matrix with dense rows in shared memory.
inline MPSMatrix* matrix(NSUInteger rows, NSUInteger columns, const Numbers& numbers) {
  return [[MPSMatrix alloc] initWithBuffer:buffer(numbers)
                                descriptor:[MPSMatrixDescriptor matrixDescriptorWithRows:rows
                                                                                 columns:columns
                                                                                rowBytes:columns * sizeof(float)
                                                                                dataType:MPSDataTypeFloat32]];
}
inline MPSMatrix* matrix(NSUInteger rows, NSUInteger columns) {
  return matrix(rows, columns, Numbers(rows * columns, 0.0f));
}
inline Numbers numbers(MPSMatrix* matrix) {
  Numbers result;
  for (NSUInteger row = 0; row < matrix.rows; ++row) {
    const auto* first = reinterpret_cast<const float*>(static_cast<const char*>(matrix.data.contents) + matrix.offset +
                                                       row * matrix.rowBytes);
    result.insert(result.end(), first, first + matrix.columns);
  }
  return result;
}

}  // namespace check
