// Memory of the mock's device: buffers, textures, and the encoder that copies between them.
//
// Managed storage has two copies, as on a Mac with a discrete GPU. The CPU's writes to a buffer only reach the device
// through didModifyRange:, and the device's writes are garbage to the CPU until a blit encoder synchronizes the
// resource. Private storage has no CPU copy.
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

// The device's copy of the memory, for commands while they run.
- (char* _Nonnull)deviceBytes;
- (void)deviceChanged:(NSRange)range;  // called by commands that write there
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
