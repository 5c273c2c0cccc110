// Tests of matrices, vectors, their temporary forms, and copies between matrices, images, arrays, and tensor data.
#include "mps_check.h"

using namespace check;

namespace {
const std::string misused = "NSInvalidArgumentException";
const MPSDataLayout interleaved = MPSDataLayoutHeightxWidthxFeatureChannels;
const MPSDataLayout planar = MPSDataLayoutFeatureChannelsxHeightxWidth;
}  // namespace

TEST(matrix_rows_may_be_padded_and_offset) {
  CHECK_EQUAL([MPSMatrixDescriptor rowBytesForColumns:3 dataType:MPSDataTypeFloat32], 16ul);
  CHECK_EQUAL([MPSVectorDescriptor vectorBytesForLength:5 dataType:MPSDataTypeFloat16], 16ul);
  id<MTLBuffer> const floats = buffer({0, 1, 2, 3, 4, 5, 6, 7});
  MPSMatrixDescriptor* const descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:2
                                                                                columns:3
                                                                               rowBytes:16
                                                                               dataType:MPSDataTypeFloat32];
  MPSMatrix* padded = [[MPSMatrix alloc] initWithBuffer:floats offset:4 descriptor:descriptor];
  CHECK(padded.offset == 4 && padded.rowBytes == 16 && padded.resourceSize == 32 && padded.matrices == 1);
  CHECK(are(numbers(padded), {1, 2, 3, 5, 6, 7}));  // The padding of the last row lies outside the buffer.
  CHECK_EQUAL(raised_by(^{ (void)[[MPSMatrix alloc] initWithBuffer:floats offset:8 descriptor:descriptor]; }), misused);
  CHECK_EQUAL(raised_by(^{ (void)[[MPSMatrix alloc] initWithBuffer:floats offset:2 descriptor:descriptor]; }), misused);
  CHECK_EQUAL(raised_by(^{
                [MPSMatrixDescriptor matrixDescriptorWithRows:1 columns:3 rowBytes:8 dataType:MPSDataTypeFloat32];
              }),
              misused);
  MPSVectorDescriptor* pair = [MPSVectorDescriptor vectorDescriptorWithLength:3
                                                                      vectors:2
                                                                  vectorBytes:16
                                                                     dataType:MPSDataTypeFloat32];
  CHECK([[MPSVector alloc] initWithBuffer:floats descriptor:pair].resourceSize == 32);
}

TEST(matrix_allocates_managed_memory) {
  MPSMatrixDescriptor* const descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:1
                                                                                columns:1
                                                                               rowBytes:4
                                                                               dataType:MPSDataTypeFloat32];
  MPSMatrix *const to = [[MPSMatrix alloc] initWithDevice:device() descriptor:descriptor],
                   *const blind = [[MPSMatrix alloc] initWithDevice:device() descriptor:descriptor];
  MPSImage* const from = image(1, 1, 1, {3});
  CHECK(to.data.storageMode == MTLStorageModeManaged);
  MPSImageCopyToMatrix* const copy = [[MPSImageCopyToMatrix alloc] initWithDevice:device() dataLayout:interleaved];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [copy encodeToCommandBuffer:buffer sourceImage:from destinationMatrix:to];
                [copy encodeToCommandBuffer:buffer sourceImage:from destinationMatrix:blind];
                [to synchronizeOnCommandBuffer:buffer];
              }),
              std::string());
  CHECK(are(numbers(to), {3}));
  CHECK(numbers(blind)[0] != 3);
}

TEST(images_are_copied_to_and_from_matrix_rows) {
  MPSImage *const first = image(1, 2, 2, {1, 2, 3, 4}), *const second = image(1, 2, 2, {5, 6, 7, 8});
  MPSMatrix *const hwc = matrix(3, 5), *const chw = matrix(2, 4);
  MPSImage* const back = image(1, 2, 2);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                MPSImageCopyToMatrix* copy = [[MPSImageCopyToMatrix alloc] initWithDevice:device()
                                                                               dataLayout:interleaved];
                copy.destinationMatrixOrigin = {1, 0, 0};
                [copy encodeBatchToCommandBuffer:buffer sourceImages:@[ first, second ] destinationMatrix:hwc];
                CHECK_EQUAL(raised_by(^{
                              copy.destinationMatrixOrigin = {2, 0, 0};
                              [copy encodeBatchToCommandBuffer:buffer
                                                  sourceImages:@[ first, second ]
                                             destinationMatrix:hwc];
                            }),
                            misused);
                copy = [[MPSImageCopyToMatrix alloc] initWithDevice:device() dataLayout:planar];
                [copy encodeBatchToCommandBuffer:buffer sourceImages:@[ first, second ] destinationMatrix:chw];
                MPSMatrixCopyToImage* into = [[MPSMatrixCopyToImage alloc] initWithDevice:device() dataLayout:planar];
                into.sourceMatrixOrigin = {1, 0, 0};
                [into encodeToCommandBuffer:buffer sourceMatrix:chw destinationImage:back];
                [back synchronizeOnCommandBuffer:buffer];
                MPSImage* half = image(1, 2, 2, MPSImageFeatureChannelFormatFloat16);
                CHECK_EQUAL(raised_by(^{ [into encodeToCommandBuffer:buffer sourceMatrix:chw destinationImage:half]; }),
                            misused);
              }),
              std::string());
  CHECK(are(numbers(hwc), {0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 5, 6, 7, 8, 0}));
  CHECK(are(numbers(chw), {1, 3, 2, 4, 5, 7, 6, 8}));
  CHECK(are(numbers(back), {5, 6, 7, 8}));
}

TEST(temporary_matrix_can_be_read_once) {
  MPSMatrixDescriptor* const descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:1
                                                                                columns:1
                                                                               rowBytes:4
                                                                               dataType:MPSDataTypeFloat32];
  MPSImage *const from = image(1, 1, 1, {3}), *const to = image(1, 1, 1);
  CHECK_EQUAL(
      run(^(id<MTLCommandBuffer> buffer) {
        MPSTemporaryMatrix* between = [MPSTemporaryMatrix temporaryMatrixWithCommandBuffer:buffer
                                                                          matrixDescriptor:descriptor];
        [[[MPSImageCopyToMatrix alloc] initWithDevice:device() dataLayout:interleaved] encodeToCommandBuffer:buffer
                                                                                                 sourceImage:from
                                                                                           destinationMatrix:between];
        MPSMatrixCopyToImage* copy = [[MPSMatrixCopyToImage alloc] initWithDevice:device() dataLayout:interleaved];
        [copy encodeToCommandBuffer:buffer sourceMatrix:between destinationImage:to];
        CHECK(between.readCount == 0);
        CHECK_EQUAL(raised_by(^{ [copy encodeToCommandBuffer:buffer sourceMatrix:between destinationImage:to]; }),
                    misused);
        [to synchronizeOnCommandBuffer:buffer];
      }),
      std::string());
  CHECK(are(numbers(to), {3}));
}

TEST(ndarrays_import_from_and_export_to_images) {
  MPSImageBatch* const batch = @[ image(1, 2, 2, {1, 2, 3, 4}), image(1, 2, 2, {5, 6, 7, 8}) ];
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32
                                                                            shape:@[ @2, @1, @2, @2 ]];
  MPSNDArray* const array = [[MPSNDArray alloc] initWithDevice:device() descriptor:descriptor];
  MPSNDArrayDescriptor* small = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32
                                                                       shape:@[ @2, @1, @1, @2 ]];
  MPSNDArray* const right = [[MPSNDArray alloc] initWithDevice:device() descriptor:small];
  MPSImageBatch* const back = @[ image(2, 2, 2, Numbers(8, 0.0f)), image(2, 2, 2, Numbers(8, 0.0f)) ];
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [array importDataWithCommandBuffer:buffer fromImages:batch offset:{0, 0, 0}];
                [right importDataWithCommandBuffer:buffer fromImages:batch offset:{1, 0, 0}];
                [array exportDataWithCommandBuffer:buffer toImages:back offset:{0, 1, 0}];
                MPSImageBatchSynchronize(back, buffer);
              }),
              std::string());
  Numbers all(8), column(4);
  [array readBytes:all.data() strideBytes:nullptr];
  [right readBytes:column.data() strideBytes:nullptr];
  CHECK(are(all, {1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(are(column, {3, 4, 7, 8}));
  CHECK(are(numbers(back[1]), {0, 0, 0, 0, 5, 6, 7, 8}));
}

TEST(tensor_data_wraps_matrices_and_vectors) {
  MPSMatrixDescriptor* padded = [MPSMatrixDescriptor matrixDescriptorWithRows:2
                                                                      columns:1
                                                                     rowBytes:8
                                                                     dataType:MPSDataTypeFloat32];
  MPSMatrix* const rows = [[MPSMatrix alloc] initWithBuffer:buffer({1, 9, 2, 9}) descriptor:padded];
  MPSGraphTensorData* data = [[MPSGraphTensorData alloc] initWithMPSMatrix:rows];
  Numbers read(2);
  [data.mpsndarray readBytes:read.data() strideBytes:nullptr];
  CHECK([data.shape isEqualToArray:(@[ @2, @1 ])] && are(read, {1, 2}));
  data = [[MPSGraphTensorData alloc] initWithMPSVector:vector({3, 4}) rank:1];
  [data.mpsndarray readBytes:read.data() strideBytes:nullptr];
  CHECK([data.shape isEqualToArray:@[ @2 ]] && are(read, {3, 4}));
  CHECK_EQUAL(raised_by(^{ (void)[[MPSGraphTensorData alloc] initWithMPSMatrix:rows rank:3]; }), misused);
}

int main() { return check::run_all(); }
