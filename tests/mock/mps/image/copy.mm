// MPSImageCopyToMatrix and MPSMatrixCopyToImage, which treat each image as one row of a matrix.
//
// Where the documentation is silent, the mock refuses a y of the origin (presumably the first column) other than 0. The
// copy does not decrement the read counts of its images, because programs that ran on Macs do so after the call.
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "mps/core/image.h"
#include "mps/core/matrix.h"

using namespace mock;

namespace {

struct Copy {
  NSString* who;
  MPSDataLayout layout;
  MTLOrigin origin;
  NSUInteger batch_index;
};

// Return the matrix column of each element of an image in height x width x channels order.
std::vector<int64_t> places(const Pixels& p, MPSDataLayout layout) {
  std::vector<int64_t> result;
  for (int64_t texel = 0; texel < p.height * p.width; ++texel)
    for (int64_t c = 0; c < p.channels; ++c)
      result.push_back(layout == MPSDataLayoutHeightxWidthxFeatureChannels ? texel * p.channels + c
                                                                           : c * p.height * p.width + texel);
  return result;
}

// Return each image with its matrix row, and raise if the sizes or types do not match.
std::vector<std::pair<Pixels, Rows>> pairs(const Copy& copy, MPSImageBatch* batch, MPSMatrix* matrix) {
  require_alike(copy.who, batch);
  const Rows rows = rows_of(matrix, copy.batch_index);
  if (copy.origin.y != 0 || copy.origin.z != 0)
    misuse(@"%@: the meaning of a nonzero y or z of the origin is not documented", copy.who);
  if (copy.origin.x + batch.count > matrix.rows)
    misuse(@"%@: %lu images starting at row %lu do not fit into %lu rows", copy.who, batch.count, copy.origin.x,
           matrix.rows);
  std::vector<std::pair<Pixels, Rows>> result;
  for (MPSImage* image in batch) {
    const Pixels pixels = pixels_of(image);
    const bool is_float =
        pixels.format == MPSImageFeatureChannelFormatFloat16 || pixels.format == MPSImageFeatureChannelFormatFloat32;
    if (!is_float || pixels.type() != rows.type)
      misuse(@"%@: the matrix and the images must have the same floating-point type, got a matrix of %s", copy.who,
             type_name(rows.type));
    Rows row = rows;
    row.rows = 1;
    row.columns = pixels.height * pixels.width * pixels.channels;
    row.start += (copy.origin.x + result.size()) * rows.row_bytes;
    if (row.columns > rows.columns)
      misuse(@"%@: an image of %ld elements does not fit into %ld columns", copy.who, row.columns, rows.columns);
    result.emplace_back(pixels, row);
  }
  return result;
}

}  // namespace

@implementation MPSImageCopyToMatrix {
  MPSDataLayout _dataLayout;
}
@synthesize destinationMatrixOrigin = _destinationMatrixOrigin;
@synthesize destinationMatrixBatchIndex = _destinationMatrixBatchIndex;

- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)layout {
  if ((self = [super initWithDevice:device])) _dataLayout = layout;
  return self;
}
- (MPSDataLayout)dataLayout {
  return _dataLayout;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
                  sourceImage:(MPSImage*)image
            destinationMatrix:(MPSMatrix*)matrix {
  if (!image) misuse(@"MPSImageCopyToMatrix: the image must not be nil");
  [self encodeBatchToCommandBuffer:buffer sourceImages:@[ image ] destinationMatrix:matrix];
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)buffer
                      sourceImages:(MPSImageBatch*)images
                 destinationMatrix:(MPSMatrix*)matrix {
  const MPSDataLayout layout = _dataLayout;
  const auto copied =
      pairs({@"MPSImageCopyToMatrix", layout, _destinationMatrixOrigin, _destinationMatrixBatchIndex}, images, matrix);
  NSArray* used = [images arrayByAddingObjectsFromArray:(NSArray*)@[ matrix ]];
  encode(buffer, @"MPSImageCopyToMatrix", @[], used, [copied, layout] {
    for (const auto& [pixels, row] : copied) {
      const Value value = pixels.load();
      const auto to = places(pixels, layout);
      Value line(value.type, {row.columns});
      for (int64_t i = 0; i < value.count(); ++i) line.copy(to[i], value, i);
      row.store(line);
    }
  });
}
@end

@implementation MPSMatrixCopyToImage {
  MPSDataLayout _dataLayout;
}
@synthesize sourceMatrixOrigin = _sourceMatrixOrigin, sourceMatrixBatchIndex = _sourceMatrixBatchIndex;

- (instancetype)initWithDevice:(id<MTLDevice>)device dataLayout:(MPSDataLayout)layout {
  if ((self = [super initWithDevice:device])) _dataLayout = layout;
  return self;
}
- (MPSDataLayout)dataLayout {
  return _dataLayout;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
                 sourceMatrix:(MPSMatrix*)matrix
             destinationImage:(MPSImage*)image {
  if (!image) misuse(@"MPSMatrixCopyToImage: the image must not be nil");
  [self encodeBatchToCommandBuffer:buffer sourceMatrix:matrix destinationImages:@[ image ]];
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)buffer
                      sourceMatrix:(MPSMatrix*)matrix
                 destinationImages:(MPSImageBatch*)images {
  const MPSDataLayout layout = _dataLayout;
  const auto copied =
      pairs({@"MPSMatrixCopyToImage", layout, _sourceMatrixOrigin, _sourceMatrixBatchIndex}, images, matrix);
  encode(buffer, @"MPSMatrixCopyToImage", @[ matrix ], images, [copied, layout] {
    for (const auto& [pixels, row] : copied) {
      const Value line = row.load();
      const auto from = places(pixels, layout);
      Value value = pixels.blank();
      for (int64_t i = 0; i < value.count(); ++i) value.copy(i, line, from[i]);
      pixels.store(value);
    }
  });
}
@end
