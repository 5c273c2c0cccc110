// MPSCommandBuffer: a command buffer whose work can be committed in parts.
#include "mps/core/command_buffer.h"

#include "metal/mock_metal.h"
#include "metal/resource.h"

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

@implementation MPSCommandBuffer {
  MockCommandBuffer* _current;
  NSMutableArray* _scratch;
}

+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)queue {
  return [self commandBufferWithCommandBuffer:[queue commandBuffer]];
}
+ (instancetype)commandBufferWithCommandBuffer:(id<MTLCommandBuffer>)buffer {
  return [[self alloc] initWithCommandBuffer:buffer];
}
- (instancetype)initWithCommandBuffer:(id<MTLCommandBuffer>)buffer {
  if ((self = [super init])) _current = static_cast<MockCommandBuffer*>(buffer);
  return self;
}

- (void)holdScratch {
  constexpr NSUInteger bytes = 16384;
  if (!_scratch) _scratch = [NSMutableArray array];
  [_scratch addObject:[[MockBuffer alloc] initWithDevice:static_cast<MockDevice*>(_current.device)
                                                  length:bytes
                                                 storage:MTLStorageModePrivate]];
}

- (id<MTLCommandBuffer>)commandBuffer {
  return _current;
}
- (id<MTLCommandBuffer>)rootCommandBuffer {
  return _current;
}
- (NSString*)label {
  return _current.label;
}
- (void)setLabel:(NSString*)label {
  _current.label = label;
}
- (id<MTLDevice>)device {
  return _current.device;
}
- (id<MTLCommandQueue>)commandQueue {
  return _current.commandQueue;
}
- (MTLCommandBufferStatus)status {
  return _current.status;
}
- (NSError*)error {
  return _current.error;
}

- (void)commitAndContinue {
  MockCommandBuffer* next = static_cast<MockCommandBuffer*>([_current.commandQueue commandBuffer]);
  [_current moveTemporariesTo:next];  // temporary objects outlive the part
  [_current commit];
  _current = next;
}
- (void)commit {
  if (_scratch) {
    NSMutableArray* scratch = _scratch;
    [_current encodeWork:[=] { [scratch removeAllObjects]; }];  // before the completion handlers
    _scratch = nil;
  }
  [_current commit];
}
- (void)waitUntilCompleted {
  [_current waitUntilCompleted];
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)handler {
  [_current addScheduledHandler:handler];
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)handler {
  [_current addCompletedHandler:handler];
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  return [_current blitCommandEncoder];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  return [_current computeCommandEncoder];
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [_current encodeWaitForEvent:event value:value];
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [_current encodeSignalEvent:event value:value];
}
@end

BOOL MPSSupportsMTLDevice(id<MTLDevice> device) { return device != nil; }
