// MPSImage, its descriptor, temporary images, and allocators.
#include "mps/core/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mock.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

namespace {

NSUInteger slices_for(NSUInteger channels) { return (channels + 3) / 4; }

size_t channel_bytes(MPSImageFeatureChannelFormat format) {
  return format == MPSImageFeatureChannelFormatUnorm8 ? 1 : format == MPSImageFeatureChannelFormatFloat32 ? 4 : 2;
}

// Return the pixel format with the fewest components (one, two, or four) that hold the channels of a slice.
MTLPixelFormat pixel_format(MPSImageFeatureChannelFormat format, NSUInteger channels) {
  const size_t kind = channels == 1 ? 0 : channels == 2 ? 1 : 2;
  constexpr MTLPixelFormat unorm8[] = {MTLPixelFormatR8Unorm, MTLPixelFormatRG8Unorm, MTLPixelFormatRGBA8Unorm};
  constexpr MTLPixelFormat unorm16[] = {MTLPixelFormatR16Unorm, MTLPixelFormatRG16Unorm, MTLPixelFormatRGBA16Unorm};
  constexpr MTLPixelFormat float16[] = {MTLPixelFormatR16Float, MTLPixelFormatRG16Float, MTLPixelFormatRGBA16Float};
  constexpr MTLPixelFormat float32[] = {MTLPixelFormatR32Float, MTLPixelFormatRG32Float, MTLPixelFormatRGBA32Float};
  switch (format) {
    case MPSImageFeatureChannelFormatUnorm8: return unorm8[kind];
    case MPSImageFeatureChannelFormatUnorm16: return unorm16[kind];
    case MPSImageFeatureChannelFormatFloat16: return float16[kind];
    case MPSImageFeatureChannelFormatFloat32: return float32[kind];
    default: misuse(@"image channel format %lu is not supported by the mock", static_cast<NSUInteger>(format));
  }
}

MPSImageFeatureChannelFormat channel_format(MTLPixelFormat format) {
  switch (format) {
    case MTLPixelFormatR8Unorm:
    case MTLPixelFormatRG8Unorm:
    case MTLPixelFormatRGBA8Unorm: return MPSImageFeatureChannelFormatUnorm8;
    case MTLPixelFormatR16Unorm:
    case MTLPixelFormatRG16Unorm:
    case MTLPixelFormatRGBA16Unorm: return MPSImageFeatureChannelFormatUnorm16;
    case MTLPixelFormatR16Float:
    case MTLPixelFormatRG16Float:
    case MTLPixelFormatRGBA16Float: return MPSImageFeatureChannelFormatFloat16;
    default: return MPSImageFeatureChannelFormatFloat32;
  }
}

MTLTextureDescriptor* texture_descriptor(MPSImageDescriptor* image) {
  MTLTextureDescriptor* result = [MTLTextureDescriptor texture2DDescriptorWithPixelFormat:image.pixelFormat
                                                                                    width:image.width
                                                                                   height:image.height
                                                                                mipmapped:NO];
  const NSUInteger slices = slices_for(image.featureChannels) * image.numberOfImages;
  result.textureType = slices > 1 ? MTLTextureType2DArray : MTLTextureType2D;
  result.arrayLength = slices;
  result.storageMode = image.storageMode;
  result.usage = image.usage;
  return result;
}

}  // namespace

// --- descriptor ------------------------------------------------------------------------------------------------------

@implementation MPSImageDescriptor
@synthesize channelFormat = _channelFormat, width = _width, height = _height, featureChannels = _featureChannels;
@synthesize numberOfImages = _numberOfImages, usage = _usage, storageMode = _storageMode, cpuCacheMode = _cpuCacheMode;

- (instancetype)init {
  if (!(self = [super init])) return nil;
  _width = _height = _featureChannels = _numberOfImages = 1;
  _usage = MTLTextureUsageShaderRead | MTLTextureUsageShaderWrite;
  _storageMode = MTLStorageModeManaged;
  return self;
}
+ (instancetype)imageDescriptorWithChannelFormat:(MPSImageFeatureChannelFormat)format
                                           width:(NSUInteger)width
                                          height:(NSUInteger)height
                                 featureChannels:(NSUInteger)channels {
  MPSImageDescriptor* descriptor = [[self alloc] init];
  descriptor.channelFormat = format;
  descriptor.width = width;
  descriptor.height = height;
  descriptor.featureChannels = channels;
  return descriptor;
}
+ (instancetype)imageDescriptorWithChannelFormat:(MPSImageFeatureChannelFormat)format
                                           width:(NSUInteger)width
                                          height:(NSUInteger)height
                                 featureChannels:(NSUInteger)channels
                                  numberOfImages:(NSUInteger)images
                                           usage:(MTLTextureUsage)usage {
  MPSImageDescriptor* descriptor = [self imageDescriptorWithChannelFormat:format
                                                                    width:width
                                                                   height:height
                                                          featureChannels:channels];
  descriptor.numberOfImages = images;
  descriptor.usage = usage;
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSImageDescriptor* copy = [MPSImageDescriptor imageDescriptorWithChannelFormat:_channelFormat
                                                                            width:_width
                                                                           height:_height
                                                                  featureChannels:_featureChannels
                                                                   numberOfImages:_numberOfImages
                                                                            usage:_usage];
  copy.storageMode = _storageMode;
  copy.cpuCacheMode = _cpuCacheMode;
  return copy;
}
- (MTLPixelFormat)pixelFormat {
  return pixel_format(_channelFormat, _featureChannels);
}
@end

// --- allocators ------------------------------------------------------------------------------------------------------

@interface MockImageAllocator : NSObject <MPSImageAllocator> {
 @package
  BOOL isTemporary;
}
@end

@implementation MockImageAllocator
+ (BOOL)supportsSecureCoding {
  return YES;
}
+ (instancetype)sharedTemporary:(BOOL)temporary {
  MockImageAllocator* made = [[self alloc] init];
  made->isTemporary = temporary;
  mock_make_immortal(made);
  return made;
}
- (MPSImage*)imageForCommandBuffer:(id<MTLCommandBuffer>)buffer
                   imageDescriptor:(MPSImageDescriptor*)descriptor
                            kernel:(MPSKernel*)kernel {
  return isTemporary ? [MPSTemporaryImage temporaryImageWithCommandBuffer:buffer imageDescriptor:descriptor]
                     : [[MPSImage alloc] initWithDevice:commands_of(buffer).device imageDescriptor:descriptor];
}
- (MPSImageBatch*)imageBatchForCommandBuffer:(id<MTLCommandBuffer>)buffer
                             imageDescriptor:(MPSImageDescriptor*)descriptor
                                      kernel:(MPSKernel*)kernel
                                       count:(NSUInteger)count {
  NSMutableArray<MPSImage*>* batch = [NSMutableArray array];
  for (NSUInteger i = 0; i < count; ++i)
    [batch addObject:[self imageForCommandBuffer:buffer imageDescriptor:descriptor kernel:kernel]];
  return batch;
}
@end

// --- images ----------------------------------------------------------------------------------------------------------

@implementation MPSImage
@synthesize label = _label;

+ (id<MPSImageAllocator>)defaultAllocator {
  static MockImageAllocator* const allocator = [MockImageAllocator sharedTemporary:NO];
  return allocator;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device imageDescriptor:(const MPSImageDescriptor*)given {
  if (!device || !given) misuse(@"an image requires a device and a descriptor");
  if (!(self = [super init])) return nil;
  owner = device;
  descriptor = [(MPSImageDescriptor*)given copy];
  const MTLTextureDescriptor* texture = texture_descriptor(descriptor);  // raises if the format is not supported
  if (descriptor.width < 1 || descriptor.height < 1 || descriptor.featureChannels < 1 ||
      descriptor.numberOfImages < 1 || texture.arrayLength > 2048)
    misuse(@"image sizes must be at least 1 and fit into 2048 slices, got %lu images of %lu x %lu x %lu",
           descriptor.numberOfImages, descriptor.height, descriptor.width, descriptor.featureChannels);
  return self;
}

- (instancetype)initWithTexture:(id<MTLTexture>)texture featureChannels:(NSUInteger)channels {
  if (!texture || channels < 1) misuse(@"an image requires a texture and at least one channel");
  if (channels > 4 && texture.textureType == MTLTextureType2D)
    misuse(@"an image of %lu channels requires a texture array", channels);
  if (pixel_components(texture.pixelFormat) < std::min<NSUInteger>(channels, 4))
    misuse(@"%lu channels do not fit into pixels of %lu components", channels, pixel_components(texture.pixelFormat));
  if (texture.arrayLength % slices_for(channels) != 0)
    misuse(@"%lu slices do not hold a whole number of images with %lu channels", texture.arrayLength, channels);
  if (!(self = [super init])) return nil;
  owner = texture.device;
  storage = static_cast<MockTexture*>(texture);
  isWrapped = YES;
  descriptor = [MPSImageDescriptor imageDescriptorWithChannelFormat:channel_format(texture.pixelFormat)
                                                              width:texture.width
                                                             height:texture.height
                                                    featureChannels:channels
                                                     numberOfImages:texture.arrayLength / slices_for(channels)
                                                              usage:texture.usage];
  descriptor.storageMode = texture.storageMode;
  return self;
}

- (id<MTLDevice>)device {
  return owner;
}
- (NSUInteger)width {
  return descriptor.width;
}
- (NSUInteger)height {
  return descriptor.height;
}
- (NSUInteger)featureChannels {
  return descriptor.featureChannels;
}
- (NSUInteger)numberOfImages {
  return descriptor.numberOfImages;
}
- (MTLTextureUsage)usage {
  return descriptor.usage;
}
- (MPSImageFeatureChannelFormat)featureChannelFormat {
  return descriptor.channelFormat;
}
- (MTLPixelFormat)pixelFormat {
  return isWrapped ? storage.pixelFormat : descriptor.pixelFormat;
}
- (MTLTextureType)textureType {
  return isWrapped ? storage.textureType : texture_descriptor(descriptor).textureType;
}
- (size_t)pixelSize {
  return pixel_bytes(self.pixelFormat);
}
- (NSUInteger)precision {
  return 8 * channel_bytes(descriptor.channelFormat);
}
- (MPSImage*)parent {
  return nil;
}
- (NSUInteger)resourceSize {
  return isWrapped ? 0 : texture_bytes(texture_descriptor(descriptor));
}

- (id<MTLTexture>)texture {
  if (!storage) {
    storage = static_cast<MockTexture*>([owner newTextureWithDescriptor:texture_descriptor(descriptor)]);
    if (!storage) misuse(@"failed to allocate an image of %lu bytes", self.resourceSize);
    if (reads) {
      MockTexture* texture = storage;
      reads->spoil = [texture] { spoil(texture); };
    }
  }
  return storage;
}

- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  // images that are not managed are ignored, as documented
  if (!storage || storage.storageMode != MTLStorageModeManaged) return;
  MockTexture* texture = storage;
  [commands_of(buffer) encodeWork:[texture] { [texture synchronize]; }];
}
@end

// --- the CPU's reads and writes --------------------------------------------------------------------------------------

namespace {

struct Access {
  MPSDataLayout layout;
  NSUInteger column_bytes, row_bytes, image_bytes;  // 0 means dense
  MTLRegion region;
  MPSImageReadWriteParams channels;
  NSUInteger image;
};

// Call move(pointer into the texture's CPU copy, offset in the caller's bytes) for each element.
template <class Move>
void for_each_element(MPSImage* image, Access a, Move move) {
  MockTexture* texture = static_cast<MockTexture*>(image.texture);
  if (texture.storageMode == MTLStorageModePrivate) misuse(@"the CPU cannot read or write an image in private storage");
  const NSUInteger first = a.channels.featureChannelOffset, count = a.channels.numberOfFeatureChannelsToReadWrite;
  if (first % 4 != 0 || count == 0 || (first != 0 && count % 4 != 0) || first + count > image.featureChannels)
    misuse(@"channels %lu to %lu of %lu cannot be accessed: the first must be a multiple of 4, and so must the number "
            "unless the first is 0",
           first, first + count, image.featureChannels);
  const MTLOrigin origin = a.region.origin;
  const MTLSize size = a.region.size;
  if (size.width == 0 || size.height == 0 || size.depth == 0 || origin.x + size.width > image.width ||
      origin.y + size.height > image.height || origin.z + a.image + size.depth > image.numberOfImages)
    misuse(@"the region must be inside the image and must not be empty");
  const size_t element = channel_bytes(image.featureChannelFormat);
  const bool interleaved = a.layout == MPSDataLayoutHeightxWidthxFeatureChannels;
  if (a.column_bytes == 0) a.column_bytes = interleaved ? count * element : element;
  if (a.row_bytes == 0) a.row_bytes = size.width * a.column_bytes;
  const size_t plane = size.height * a.row_bytes;
  if (a.image_bytes == 0) a.image_bytes = interleaved ? plane : count * plane;
  if (a.column_bytes < (interleaved ? count * element : element) || a.row_bytes < size.width * a.column_bytes ||
      a.image_bytes < (interleaved ? plane : count * plane) || a.row_bytes % element != 0)
    misuse(@"strides of %lu bytes per row and %lu bytes per image are too small for the region or not aligned",
           a.row_bytes, a.image_bytes);
  const NSUInteger components = pixel_components(texture.pixelFormat);
  const NSUInteger slices = slices_for(image.featureChannels);
  std::vector<std::byte> pixel(pixel_bytes(texture.pixelFormat));
  for (NSUInteger z = 0; z < size.depth; ++z)
    for (NSUInteger y = 0; y < size.height; ++y)
      for (NSUInteger x = 0; x < size.width; ++x)
        for (NSUInteger c = 0; c < count; ++c) {
          const NSUInteger slice = (a.image + origin.z + z) * slices + (first + c) / 4;
          const size_t at =
              z * a.image_bytes + y * a.row_bytes + x * a.column_bytes + (interleaved ? c * element : c * plane);
          move(texture, slice, MTLOrigin{origin.x + x, origin.y + y, 0}, (c % 4) % components, at, pixel);
        }
}

void read_elements(MPSImage* image, Access access, char* bytes) {
  const size_t element = channel_bytes(image.featureChannelFormat);
  for_each_element(image, access,
                   [&](MockTexture* texture, NSUInteger slice, MTLOrigin at, NSUInteger component, size_t to,
                       std::vector<std::byte>& pixel) {
                     [texture getBytes:pixel.data()
                           bytesPerRow:pixel.size()
                         bytesPerImage:0
                            fromRegion:{
                              at,
                              {1, 1, 1}
                            }
                           mipmapLevel:0
                                 slice:slice];
                     std::memcpy(bytes + to, pixel.data() + component * element, element);
                   });
}

void write_elements(MPSImage* image, Access access, const char* bytes) {
  const size_t element = channel_bytes(image.featureChannelFormat);
  for_each_element(image, access,
                   [&](MockTexture* texture, NSUInteger slice, MTLOrigin at, NSUInteger component, size_t from,
                       std::vector<std::byte>& pixel) {
                     const MTLRegion region = {at, {1, 1, 1}};
                     [texture getBytes:pixel.data()
                           bytesPerRow:pixel.size()
                         bytesPerImage:0
                            fromRegion:region
                           mipmapLevel:0
                                 slice:slice];
                     std::memcpy(pixel.data() + component * element, bytes + from, element);
                     [texture replaceRegion:region
                                mipmapLevel:0
                                      slice:slice
                                  withBytes:pixel.data()
                                bytesPerRow:pixel.size()
                              bytesPerImage:0];
                   });
}

MTLRegion whole(MPSImage* image) { return {{0, 0, 0}, {image.width, image.height, 1}}; }

}  // namespace

@implementation MPSImage (MockBytes)

- (void)readBytes:(void*)bytes dataLayout:(MPSDataLayout)layout imageIndex:(NSUInteger)index {
  read_elements(self, {layout, 0, 0, 0, whole(self), {0, self.featureChannels}, index}, static_cast<char*>(bytes));
}
- (void)writeBytes:(const void*)bytes dataLayout:(MPSDataLayout)layout imageIndex:(NSUInteger)index {
  write_elements(self, {layout, 0, 0, 0, whole(self), {0, self.featureChannels}, index},
                 static_cast<const char*>(bytes));
}
- (void)readBytes:(void*)bytes
            dataLayout:(MPSDataLayout)layout
           bytesPerRow:(NSUInteger)rowBytes
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)channels
            imageIndex:(NSUInteger)index {
  read_elements(self, {layout, 0, rowBytes, 0, region, channels, index}, static_cast<char*>(bytes));
}
- (void)writeBytes:(const void*)bytes
            dataLayout:(MPSDataLayout)layout
           bytesPerRow:(NSUInteger)rowBytes
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)channels
            imageIndex:(NSUInteger)index {
  write_elements(self, {layout, 0, rowBytes, 0, region, channels, index}, static_cast<const char*>(bytes));
}
- (void)readBytes:(void*)bytes
            dataLayout:(MPSDataLayout)layout
           bytesPerRow:(NSUInteger)rowBytes
         bytesPerImage:(NSUInteger)imageBytes
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)channels
            imageIndex:(NSUInteger)index {
  read_elements(self, {layout, 0, rowBytes, imageBytes, region, channels, index}, static_cast<char*>(bytes));
}
- (void)writeBytes:(const void*)bytes
            dataLayout:(MPSDataLayout)layout
           bytesPerRow:(NSUInteger)rowBytes
         bytesPerImage:(NSUInteger)imageBytes
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)channels
            imageIndex:(NSUInteger)index {
  write_elements(self, {layout, 0, rowBytes, imageBytes, region, channels, index}, static_cast<const char*>(bytes));
}
- (void)writeBytes:(const void*)bytes
            dataLayout:(MPSDataLayout)layout
        bytesPerColumn:(NSUInteger)columnBytes
           bytesPerRow:(NSUInteger)rowBytes
         bytesPerImage:(NSUInteger)imageBytes
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)channels
            imageIndex:(NSUInteger)index {
  write_elements(self, {layout, columnBytes, rowBytes, imageBytes, region, channels, index},
                 static_cast<const char*>(bytes));
}
@end

// --- temporary images ------------------------------------------------------------------------------------------------

@implementation MPSTemporaryImage

+ (id<MPSImageAllocator>)defaultAllocator {
  static MockImageAllocator* const allocator = [MockImageAllocator sharedTemporary:YES];
  return allocator;
}
+ (instancetype)temporaryImageWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                                imageDescriptor:(const MPSImageDescriptor*)given {
  MPSImageDescriptor* private_storage = [(MPSImageDescriptor*)given copy];
  private_storage.storageMode = MTLStorageModePrivate;
  MPSTemporaryImage* image = [[self alloc] initForBuffer:buffer descriptor:private_storage];
  image->reads = temporary_in(buffer, self);
  return image;
}
- (instancetype)initForBuffer:(id<MTLCommandBuffer>)buffer descriptor:(MPSImageDescriptor*)given {
  return [super initWithDevice:commands_of(buffer).device imageDescriptor:given];
}
// Prefetching has no effect, because the mock allocates temporary images on demand.
+ (void)prefetchStorageWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                     imageDescriptorList:(NSArray<MPSImageDescriptor*>*)descriptors {
}
- (instancetype)initWithDevice:(id<MTLDevice>)device imageDescriptor:(const MPSImageDescriptor*)given {
  misuse(@"initWithDevice:imageDescriptor: is not available for temporary images");
}
- (instancetype)initWithTexture:(id<MTLTexture>)texture featureChannels:(NSUInteger)channels {
  misuse(@"initWithTexture:featureChannels: is not available for temporary images");
}
- (NSUInteger)readCount {
  return reads->reads;
}
- (void)setReadCount:(NSUInteger)count {
  set_reads(reads, count);
}
@end

// --- for commands ----------------------------------------------------------------------------------------------------

namespace mock {

Pixels pixels_of(MPSImage* image) {
  if (!image) misuse(@"an image must not be nil");
  return {static_cast<MockTexture*>(image.texture),   image.featureChannelFormat,
          static_cast<int64_t>(image.numberOfImages), static_cast<int64_t>(image.height),
          static_cast<int64_t>(image.width),          static_cast<int64_t>(image.featureChannels)};
}

void require_alike(NSString* who, MPSImageBatch* batch) {
  if (batch.count == 0) misuse(@"%@: the batch must not be empty", who);
  const Pixels first = pixels_of(batch[0]);
  for (MPSImage* image in batch) {
    if (image.numberOfImages != 1) misuse(@"%@: each MPSImage of a batch must hold one image", who);
    const Pixels other = pixels_of(image);
    if (other.format != first.format || other.height != first.height || other.width != first.width ||
        other.channels != first.channels)
      misuse(@"%@: the images of a batch must have the same format and size", who);
  }
}

MPSDataType Pixels::type() const {
  return format == MPSImageFeatureChannelFormatFloat16 ? MPSDataTypeFloat16 : MPSDataTypeFloat32;
}

namespace {

// Return the integer that represents 1 in a normalized format, or 0 for other formats.
double largest(MPSImageFeatureChannelFormat format) {
  return format == MPSImageFeatureChannelFormatUnorm8 ? 255 : format == MPSImageFeatureChannelFormatUnorm16 ? 65535 : 0;
}

// Call visit(element of the image, offset of its component in the texture) for each channel of each pixel.
template <class Visit>
void for_each_channel(const Pixels& p, int64_t image, Visit visit) {
  if (image < 0 || image >= p.images) misuse(@"image index %ld is out of range for %ld images", image, p.images);
  const size_t pixel = pixel_bytes(p.texture.pixelFormat), element = channel_bytes(p.format);
  const int64_t slices = (p.channels + 3) / 4, texels = p.height * p.width;
  for (int64_t texel = 0; texel < texels; ++texel)
    for (int64_t c = 0; c < p.channels; ++c) {
      const int64_t slice = image * slices + c / 4;
      visit(texel * p.channels + c, static_cast<size_t>(slice * texels + texel) * pixel + (c % 4) * element);
    }
}

}  // namespace

Value Pixels::load(int64_t image) const {
  const size_t element = channel_bytes(format);
  std::vector<char> packed(static_cast<size_t>(height * width * channels) * element);
  const char* bytes = [texture deviceBytes];
  for_each_channel(*this, image, [&](int64_t i, size_t at) { std::memcpy(&packed[i * element], bytes + at, element); });
  const Dims dims = {height, width, channels};
  const double most = largest(format);
  if (most == 0) return Value::of(type(), dims, packed.data());
  const Value numbers = Value::of(element == 1 ? MPSDataTypeUInt8 : MPSDataTypeUInt16, dims, packed.data());
  Value result = blank();
  for (int64_t i = 0; i < result.count(); ++i) result.set(i, numbers.real(i) / most);
  return result;
}

// Components beyond the image's channels keep their values, because kernels do not guarantee what they leave there.
void Pixels::store(const Value& value, int64_t image) const {
  if (value.count() != height * width * channels || value.type != type())
    misuse(@"values of shape %@ and type %s do not match an image of %ld x %ld x %ld", text_of(value.dims),
           type_name(value.type), height, width, channels);
  const size_t element = channel_bytes(format);
  std::vector<char> packed(static_cast<size_t>(value.count()) * element);
  if (const double most = largest(format); most == 0) {
    value.store(packed.data());
  } else {
    Value numbers(element == 1 ? MPSDataTypeUInt8 : MPSDataTypeUInt16, value.dims);
    for (int64_t i = 0; i < value.count(); ++i)
      numbers.set(i, std::isnan(value.real(i)) ? 0.0 : std::nearbyint(std::clamp(value.real(i), 0.0, 1.0) * most));
    numbers.store(packed.data());
  }
  char* bytes = [texture deviceBytes];
  for_each_channel(*this, image, [&](int64_t i, size_t at) { std::memcpy(bytes + at, &packed[i * element], element); });
  [texture deviceChanged:NSMakeRange(0, texture.allocatedSize)];
}

}  // namespace mock

// --- batches ---------------------------------------------------------------------------------------------------------

namespace {

// Return the distinct images of a batch.
std::vector<MPSImage*> distinct(MPSImageBatch* batch) {
  std::vector<MPSImage*> result;
  for (MPSImage* image in batch)
    if (std::find(result.begin(), result.end(), image) == result.end()) result.push_back(image);
  return result;
}

}  // namespace

NSUInteger MPSImageBatchIncrementReadCount(MPSImageBatch* batch, NSInteger amount) {
  const auto images = distinct(batch);
  for (MPSImage* image : images)
    if (image->reads && image->reads->reads != 0)
      set_reads(image->reads, image->reads->reads + static_cast<NSUInteger>(amount));
  return images.size();
}
void MPSImageBatchSynchronize(MPSImageBatch* batch, id<MTLCommandBuffer> buffer) {
  for (MPSImage* image : distinct(batch)) [image synchronizeOnCommandBuffer:buffer];
}
NSUInteger MPSImageBatchResourceSize(MPSImageBatch* batch) {
  NSUInteger bytes = 0;
  for (MPSImage* image : distinct(batch)) bytes += image.resourceSize;
  return bytes;
}
