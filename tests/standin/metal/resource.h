// Memory of the stand-in's device: buffers, textures, and the encoder that copies between them.
//
// Of managed storage there are two copies, as on a Mac with a graphics processor of its own: what the CPU writes in a
// buffer reaches the device by didModifyRange: only, and what the device writes is garbage to the CPU until a blit
// encoder has synchronized it. Private storage has no copy for the CPU.
#pragma once

#include "metal/standin_metal.h"

namespace standin {

size_t pixel_bytes(MTLPixelFormat format);
NSUInteger pixel_components(MTLPixelFormat format);
size_t texture_bytes(MTLTextureDescriptor* _Nonnull descriptor);

}  // namespace standin

@interface StandinResource : NSObject <MTLResource>
- (instancetype _Nonnull)initWithDevice:(StandinDevice* _Nonnull)device
                                 length:(NSUInteger)length
                                storage:(MTLStorageMode)storage;
- (void)fillWithBytes:(const void* _Nonnull)bytes;
- (void)synchronize;

// For commands, while they run.
- (char* _Nonnull)deviceBytes;
- (void)deviceChanged:(NSRange)range;  // said by what wrote there
@end

@interface StandinBuffer : StandinResource <MTLBuffer>
- (instancetype _Nonnull)initWithDevice:(StandinDevice* _Nonnull)device
                                  bytes:(void* _Nonnull)bytes
                                 length:(NSUInteger)length
                            deallocator:(void (^_Nullable)(void* _Nonnull, NSUInteger))deallocator;
@end

@interface StandinTexture : StandinResource <MTLTexture>
- (instancetype _Nonnull)initWithDevice:(StandinDevice* _Nonnull)device
                             descriptor:(MTLTextureDescriptor* _Nonnull)descriptor;
@end

@interface StandinBlitEncoder : NSObject <MTLBlitCommandEncoder>
- (instancetype _Nonnull)initWithCommandBuffer:(StandinCommandBuffer* _Nonnull)buffer
                                      commands:(std::vector<std::function<void()>>* _Nonnull)commands;
@end
