// Memory of the mock's device: buffers, textures, and the encoder that copies between them.
//
// Of managed storage there are two copies, as on a Mac with a graphics processor of its own: what the CPU writes in a
// buffer reaches the device by didModifyRange: only, and what the device writes is garbage to the CPU until a blit
// encoder has synchronized it. Private storage has no copy for the CPU.
#pragma once

#include "metal/mock_metal.h"

namespace mock {

size_t pixel_bytes(MTLPixelFormat format);
NSUInteger pixel_components(MTLPixelFormat format);
size_t texture_bytes(MTLTextureDescriptor* _Nonnull descriptor);

}  // namespace mock

@interface MockResource : NSObject <MTLResource>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device
                                 length:(NSUInteger)length
                                storage:(MTLStorageMode)storage;
- (void)fillWithBytes:(const void* _Nonnull)bytes;
- (void)synchronize;

// For commands, while they run.
- (char* _Nonnull)deviceBytes;
- (void)deviceChanged:(NSRange)range;  // said by what wrote there
@end

@interface MockBuffer : MockResource <MTLBuffer>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device
                                  bytes:(void* _Nonnull)bytes
                                 length:(NSUInteger)length
                            deallocator:(void (^_Nullable)(void* _Nonnull, NSUInteger))deallocator;
@end

@interface MockTexture : MockResource <MTLTexture>
- (instancetype _Nonnull)initWithDevice:(MockDevice* _Nonnull)device
                             descriptor:(MTLTextureDescriptor* _Nonnull)descriptor;
@end

@interface MockBlitEncoder : NSObject <MTLBlitCommandEncoder>
- (instancetype _Nonnull)initWithCommandBuffer:(MockCommandBuffer* _Nonnull)buffer
                                      commands:(std::vector<std::function<void()>>* _Nonnull)commands;
@end
