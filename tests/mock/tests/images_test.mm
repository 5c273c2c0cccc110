// Tests of images, states, their temporary forms, and batches: layouts, formats, and the rules for reading and writing.
#include "mps_check.h"

using namespace check;

namespace {

const MPSDataLayout interleaved = MPSDataLayoutHeightxWidthxFeatureChannels;
const MPSDataLayout planar = MPSDataLayoutFeatureChannelsxHeightxWidth;
const std::string misused = "NSInvalidArgumentException";

MPSImageDescriptor* described(MPSImageFeatureChannelFormat format, NSUInteger height, NSUInteger width,
                              NSUInteger channels) {
  return [MPSImageDescriptor imageDescriptorWithChannelFormat:format
                                                        width:width
                                                       height:height
                                              featureChannels:channels];
}

// Copy an image through a matrix, using the simplest kernels that read and write images.
void copy(id<MTLCommandBuffer> buffer, MPSImage* from, MPSImage* to) {
  MPSMatrix* between = matrix(1, from.width * from.height * from.featureChannels);
  [[[MPSImageCopyToMatrix alloc] initWithDevice:device() dataLayout:interleaved] encodeToCommandBuffer:buffer
                                                                                           sourceImage:from
                                                                                     destinationMatrix:between];
  [[[MPSMatrixCopyToImage alloc] initWithDevice:device() dataLayout:interleaved] encodeToCommandBuffer:buffer
                                                                                          sourceMatrix:between
                                                                                      destinationImage:to];
}

}  // namespace

TEST(image_textures_have_slices_of_four_channels) {
  MPSImage* one = image(2, 3, 1);
  CHECK(one.pixelFormat == MTLPixelFormatR32Float && one.textureType == MTLTextureType2D && one.resourceSize == 24);
  MPSImage* two = image(2, 3, 2, MPSImageFeatureChannelFormatFloat16);
  CHECK(two.pixelFormat == MTLPixelFormatRG16Float && two.pixelSize == 4 && two.precision == 16);
  MPSImage* three = image(2, 3, 3, MPSImageFeatureChannelFormatUnorm8);
  CHECK(three.pixelFormat == MTLPixelFormatRGBA8Unorm && three.textureType == MTLTextureType2D);
  MPSImage* five = image(2, 3, 5);
  CHECK(five.textureType == MTLTextureType2DArray && five.texture.arrayLength == 2 && five.resourceSize == 192);
  MPSImageDescriptor* defaults = [[MPSImageDescriptor alloc] init];
  CHECK(defaults.width == 1 && defaults.numberOfImages == 1 && defaults.storageMode == MTLStorageModeManaged);
  CHECK_EQUAL(raised_by(^{ image(1, 1, 1, MPSImageFeatureChannelFormatNone); }), misused);
  CHECK_EQUAL(raised_by(^{ image(1, 1, 2049 * 4); }), misused);
}

TEST(host_reads_and_writes_both_layouts) {
  Numbers values(2 * 2 * 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  MPSImage* const five = image(2, 2, 5, values);
  CHECK(are(numbers(five), values));
  Numbers planes(20);
  [five readBytes:planes.data() dataLayout:planar imageIndex:0];
  CHECK(are(planes, {0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17, 3, 8, 13, 18, 4, 9, 14, 19}));
  // Channel 4 is the first component of the second slice.
  float pixel[4];
  [five.texture getBytes:pixel
             bytesPerRow:sizeof pixel
           bytesPerImage:0
              fromRegion:{
                {1, 0, 0},
                {1, 1, 1}
              }
             mipmapLevel:0
                   slice:1];
  CHECK(pixel[0] == 9);
  // Read four channels of the lower right pixel into padded rows.
  Numbers part(4, -1.0f);
  [five readBytes:part.data()
              dataLayout:interleaved
             bytesPerRow:32
                  region:{
                    {1, 1, 0},
                    {1, 1, 1}
                  }
      featureChannelInfo:{0, 4}
              imageIndex:0];
  CHECK(are(part, {15, 16, 17, 18}));
  const Numbers rows = {100, 101, -1, 102, 103, -1};
  MPSImage* const grey = image(2, 2, 1);
  [grey writeBytes:rows.data()
              dataLayout:interleaved
             bytesPerRow:12
                  region:{
                    {0, 0, 0},
                    {2, 2, 1}
                  }
      featureChannelInfo:{0, 1}
              imageIndex:0];
  CHECK(are(numbers(grey), {100, 101, 102, 103}));
  float* const to = part.data();
  CHECK_EQUAL(raised_by(^{
                [five readBytes:to
                            dataLayout:interleaved
                           bytesPerRow:32
                                region:{
                                  {0, 0, 0},
                                  {1, 1, 1}
                                }
                    featureChannelInfo:{1, 4}
                            imageIndex:0];
              }),
              misused);  // Partial reads must start at a multiple of four channels.
  CHECK_EQUAL(raised_by(^{ [five readBytes:to dataLayout:interleaved imageIndex:1]; }), misused);
}

TEST(descriptor_with_two_images_shares_one_texture) {
  MPSImageDescriptor* descriptor = described(MPSImageFeatureChannelFormatFloat32, 1, 1, 5);
  descriptor.numberOfImages = 2;
  MPSImage* pair = [[MPSImage alloc] initWithDevice:device() imageDescriptor:descriptor];
  CHECK(pair.texture.arrayLength == 4);
  const Numbers first = {0, 1, 2, 3, 4}, second = {5, 6, 7, 8, 9};
  [pair writeBytes:first.data() dataLayout:interleaved imageIndex:0];
  [pair writeBytes:second.data() dataLayout:interleaved imageIndex:1];
  Numbers both(10);
  [pair readBytes:both.data()
              dataLayout:interleaved
             bytesPerRow:20
           bytesPerImage:20
                  region:{
                    {0, 0, 0},
                    {1, 1, 2}
                  }
      featureChannelInfo:{0, 5}
              imageIndex:0];
  CHECK(are(both, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  MPSImage* wrapped = [[MPSImage alloc] initWithTexture:pair.texture featureChannels:7];
  CHECK(wrapped.numberOfImages == 2 && wrapped.featureChannels == 7 && wrapped.resourceSize == 0);
}

TEST(unorm8_images_map_bytes_to_zero_to_one) {
  MPSImage* bytes = image(1, 3, 1, MPSImageFeatureChannelFormatUnorm8);
  const uint8_t grey[] = {0, 51, 255};
  [bytes writeBytes:grey dataLayout:interleaved imageIndex:0];
  MPSGraphTensorData* data = [[MPSGraphTensorData alloc] initWithMPSImageBatch:@[ bytes ]];
  CHECK(data.dataType == MPSDataTypeFloat32 && [data.shape isEqualToArray:(@[ @1, @1, @3, @1 ])]);
  Numbers read(3);
  [data.mpsndarray readBytes:read.data() strideBytes:nullptr];
  CHECK(are(read, {0, 0.2f, 1}));
}

TEST(managed_images_need_synchronization_before_reading) {
  MPSImage* const from = image(1, 1, 4, {1, 2, 3, 4});
  MPSImage *const blind = image(1, 1, 4), *const seen = image(1, 1, 4);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                copy(buffer, from, blind);
                copy(buffer, from, seen);
                [seen synchronizeOnCommandBuffer:buffer];
              }),
              std::string());
  CHECK(are(numbers(seen), {1, 2, 3, 4}));
  CHECK(numbers(blind)[0] != 1);
}

TEST(temporary_image_read_count_limits_reads) {
  MPSImageDescriptor* const descriptor = described(MPSImageFeatureChannelFormatFloat32, 1, 1, 1);
  MPSImage *const from = image(1, 1, 1, {7}), *const to = image(1, 1, 1);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                MPSTemporaryImage* temporary = [MPSTemporaryImage temporaryImageWithCommandBuffer:buffer
                                                                                  imageDescriptor:descriptor];
                CHECK(temporary.readCount == 1);
                copy(buffer, from, temporary);
                CHECK(temporary.readCount == 1);
                copy(buffer, temporary, to);
                MPSImageBatchIncrementReadCount(@[ temporary ], -1);
                CHECK(temporary.readCount == 0);
                CHECK_EQUAL(raised_by(^{ copy(buffer, temporary, to); }), misused);
                CHECK_EQUAL(raised_by(^{ copy(buffer, from, temporary); }), misused);
                CHECK_EQUAL(raised_by(^{ temporary.readCount = 2; }), misused);
                float number = 0;
                float* const at = &number;
                CHECK_EQUAL(raised_by(^{ [temporary readBytes:at dataLayout:interleaved imageIndex:0]; }), misused);
                [to synchronizeOnCommandBuffer:buffer];
              }),
              std::string());
  CHECK(are(numbers(to), {7}));
}

TEST(positive_read_count_at_commit_fails_the_command_buffer) {
  MPSImageDescriptor* const descriptor = described(MPSImageFeatureChannelFormatFloat16, 1, 1, 1);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                [MPSTemporaryImage temporaryImageWithCommandBuffer:buffer imageDescriptor:descriptor];
              }),
              std::string("commit: the readCount of MPSTemporaryImage must be 0, got 1"));
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) { [MPSState temporaryStateWithCommandBuffer:buffer bufferSize:4]; }),
              std::string("commit: the readCount of MPSState must be 0, got 1"));
}

TEST(temporary_image_survives_commit_and_continue) {
  MPSImageDescriptor* const descriptor = described(MPSImageFeatureChannelFormatFloat32, 1, 1, 1);
  MPSImage *const from = image(1, 1, 1, {7}), *const to = image(1, 1, 1);
  MPSCommandBuffer* const buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  MPSTemporaryImage* const temporary = [MPSTemporaryImage temporaryImageWithCommandBuffer:buffer
                                                                          imageDescriptor:descriptor];
  copy(buffer, from, temporary);
  [buffer commitAndContinue];
  copy(buffer, temporary, to);
  [to synchronizeOnCommandBuffer:buffer];
  id<MTLCommandBuffer> const other = [queue() commandBuffer];
  MPSTemporaryImage* const foreign = [MPSTemporaryImage temporaryImageWithCommandBuffer:other
                                                                        imageDescriptor:descriptor];
  CHECK_EQUAL(raised_by(^{ copy(buffer, foreign, to); }), misused);
  temporary.readCount -= 1;
  [buffer commit];
  [buffer waitUntilCompleted];
  CHECK(buffer.error == nil && are(numbers(to), {7}));
}

TEST(batch_read_counts_change_each_image_once) {
  MPSKernel* const kernel = [[MPSKernel alloc] initWithDevice:device()];
  MPSImageDescriptor* const descriptor = described(MPSImageFeatureChannelFormatFloat32, 1, 1, 1);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                MPSImageBatch* batch = [[MPSTemporaryImage defaultAllocator] imageBatchForCommandBuffer:buffer
                                                                                        imageDescriptor:descriptor
                                                                                                 kernel:kernel
                                                                                                  count:2];
                MPSImageBatch* repeated = @[ batch[0], batch[1], batch[0] ];
                CHECK_EQUAL(MPSImageBatchIncrementReadCount(repeated, 2), 2ul);
                CHECK(((MPSTemporaryImage*)batch[0]).readCount == 3 && ((MPSTemporaryImage*)batch[1]).readCount == 3);
                CHECK_EQUAL(MPSImageBatchResourceSize(repeated), 8ul);
                MPSImageBatchIncrementReadCount(batch, -3);
                // Images whose read count is 0 are left unchanged.
                CHECK_EQUAL(MPSImageBatchIncrementReadCount(batch, 1), 2ul);
                CHECK(((MPSTemporaryImage*)batch[0]).readCount == 0);
                MPSImage* lasting = [[MPSImage defaultAllocator] imageForCommandBuffer:buffer
                                                                       imageDescriptor:descriptor
                                                                                kernel:kernel];
                CHECK(![lasting isKindOfClass:[MPSTemporaryImage class]]);
              }),
              std::string());
}

TEST(states_allocate_memory_on_demand) {
  MPSStateResourceList* list = [MPSStateResourceList resourceList];
  [list appendBuffer:8];
  [list appendTexture:[MTLTextureDescriptor texture2DDescriptorWithPixelFormat:MTLPixelFormatR32Float
                                                                         width:2
                                                                        height:1
                                                                     mipmapped:NO]];
  MPSState* state = [[MPSState alloc] initWithDevice:device() resourceList:list];
  CHECK(state.resourceCount == 2 && state.resourceSize == 16 && [state bufferSizeAtIndex:0] == 8);
  CHECK([state resourceTypeAtIndex:1] == MPSStateResourceTypeTexture);
  CHECK([state resourceAtIndex:0 allocateMemory:NO] == nil);
  CHECK([state resourceAtIndex:0 allocateMemory:YES] == [state resourceAtIndex:0 allocateMemory:NO]);
  CHECK(!state.isTemporary);
  state.readCount = 0;  // The read count has no effect on a state that is not temporary.
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> buffer) {
                MPSState* temporary = [MPSState temporaryStateWithCommandBuffer:buffer bufferSize:8];
                CHECK(temporary.isTemporary && temporary.readCount == 1);
                MPSStateBatchIncrementReadCount(@[ temporary, temporary, state ], -1);
                CHECK_EQUAL(raised_by(^{ temporary.readCount = 1; }), misused);
              }),
              std::string());
}

TEST(blits_copy_and_synchronize_managed_buffers) {
  id<MTLBuffer> const managed = [device() newBufferWithLength:8 options:MTLResourceStorageModeManaged];
  float* const host = static_cast<float*>(managed.contents);
  host[0] = 1, host[1] = 2;
  id<MTLBuffer> const first = buffer({0, 0}), second = buffer({0, 0});
  const auto encode = ^(id<MTLCommandBuffer> commands) {
    id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
    [blit copyFromBuffer:managed sourceOffset:0 toBuffer:first destinationOffset:0 size:8];
    CHECK_EQUAL(raised_by(^{ [commands commit]; }), misused);
    [blit endEncoding];
  };
  CHECK_EQUAL(run(encode), std::string());
  CHECK(numbers(first)[0] != 1);  // The device does not see the write before didModifyRange.
  [managed didModifyRange:NSMakeRange(0, 8)];
  CHECK_EQUAL(run(encode), std::string());
  CHECK(are(numbers(first), {1, 2}));
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> commands) {
                id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
                [blit fillBuffer:managed range:NSMakeRange(0, 4) value:0];
                [blit endEncoding];
              }),
              std::string());
  CHECK(host[0] != 0 && host[1] == 2);
  CHECK_EQUAL(run(^(id<MTLCommandBuffer> commands) {
                id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
                [blit synchronizeResource:managed];
                CHECK_EQUAL(raised_by(^{ [blit synchronizeResource:second]; }), misused);
                [blit endEncoding];
              }),
              std::string());
  CHECK(host[0] == 0 && host[1] == 2);
}

TEST(unread_temporary_images_do_not_leak) {
  MPSImageDescriptor* const descriptor = described(MPSImageFeatureChannelFormatFloat16, 4, 4, 8);
  [MPSImage defaultAllocator];
  CHECK_EQUAL(leaves([&] {
                run(^(id<MTLCommandBuffer> buffer) {
                  MPSTemporaryImage* temporary = [MPSTemporaryImage temporaryImageWithCommandBuffer:buffer
                                                                                    imageDescriptor:descriptor];
                  temporary.readCount = 0;
                });
              }),
              0l);
}

int main() { return check::run_all(); }
