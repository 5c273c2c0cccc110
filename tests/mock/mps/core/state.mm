// MPSState, and batches of states.
#include "mps/core/state.h"

#include <algorithm>

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

@interface MPSStateResourceList () {
 @package
  NSMutableArray* recipes;
}
@end

@implementation MPSStateResourceList
+ (instancetype)resourceList {
  return [[self alloc] init];
}
- (instancetype)init {
  if ((self = [super init])) recipes = [NSMutableArray array];
  return self;
}
- (void)appendBuffer:(NSUInteger)size {
  [recipes addObject:@(size)];
}
- (void)appendTexture:(MTLTextureDescriptor*)descriptor {
  [recipes addObject:[descriptor copy]];
}
@end

@implementation MPSState
@synthesize label = _label;

- (instancetype)initForDevice:(id<MTLDevice>)device recipes:(NSArray*)given {
  if (!(self = [super init])) return nil;
  owner = device;
  recipes = [given mutableCopy];
  return self;
}
- (instancetype)initForBuffer:(id<MTLCommandBuffer>)buffer recipes:(NSArray*)given {
  if ((self = [self initForDevice:commands_of(buffer).device recipes:given]))
    reads = temporary_in(buffer, [self class]);
  return self;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device bufferSize:(size_t)size {
  return [self initForDevice:device recipes:@[ @(size) ]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device textureDescriptor:(MTLTextureDescriptor*)descriptor {
  return [self initForDevice:device recipes:@[ [descriptor copy] ]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device resourceList:(MPSStateResourceList*)list {
  return [self initForDevice:device recipes:list->recipes];
}
- (instancetype)initWithResource:(id<MTLResource>)resource {
  return [self initWithResources:resource ? @[ resource ] : @[]];
}
- (instancetype)initWithResources:(NSArray<id<MTLResource>>*)resources {
  return [self initForDevice:resources.count ? resources[0].device : nil recipes:resources ? resources : @[]];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer {
  return [[self alloc] initForBuffer:buffer recipes:@[]];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer bufferSize:(size_t)size {
  return [[self alloc] initForBuffer:buffer recipes:@[ @(size) ]];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                              textureDescriptor:(MTLTextureDescriptor*)descriptor {
  return [[self alloc] initForBuffer:buffer recipes:@[ [descriptor copy] ]];
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)buffer resourceList:(MPSStateResourceList*)list {
  return [[self alloc] initForBuffer:buffer recipes:list->recipes];
}

- (BOOL)isTemporary {
  return reads != nullptr;
}
// Only temporary states count reads. The read count of other states is always 1, whatever value is set.
- (NSUInteger)readCount {
  return reads ? reads->reads : 1;
}
- (void)setReadCount:(NSUInteger)count {
  if (reads) set_reads(reads, count);
}

- (NSUInteger)resourceCount {
  return recipes.count;
}
- (id<MTLResource>)resourceAtIndex:(NSUInteger)index allocateMemory:(BOOL)allocate {
  id recipe = recipes[index];
  if ([recipe isKindOfClass:[MockResource class]]) return recipe;
  if (!allocate) return nil;
  const bool is_buffer = [recipe isKindOfClass:[NSNumber class]];
  id made;
  if (is_buffer) {
    made = [owner newBufferWithLength:[(NSNumber*)recipe unsignedIntegerValue]
                              options:reads ? MTLResourceStorageModePrivate : MTLResourceStorageModeManaged];
  } else {
    MTLTextureDescriptor* descriptor = [recipe copy];
    if (reads) descriptor.storageMode = MTLStorageModePrivate;
    made = [owner newTextureWithDescriptor:descriptor];
  }
  if (!made) misuse(@"failed to allocate the resources of a %@", [self class]);
  recipes[index] = made;
  if (reads) {
    const std::function<void()> others = reads->spoil;
    MockResource* resource = made;
    reads->spoil = [others, resource] {
      if (others) others();
      spoil(resource);
    };
  }
  return made;
}
- (MockBuffer*)bufferAtIndex:(NSUInteger)index {
  return static_cast<MockBuffer*>([self resourceAtIndex:index allocateMemory:YES]);
}
- (MPSStateResourceType)resourceTypeAtIndex:(NSUInteger)index {
  id recipe = recipes[index];
  return [recipe isKindOfClass:[NSNumber class]] || [recipe isKindOfClass:[MockBuffer class]]
             ? MPSStateResourceTypeBuffer
             : MPSStateResourceTypeTexture;
}
- (NSUInteger)bufferSizeAtIndex:(NSUInteger)index {
  if ([self resourceTypeAtIndex:index] != MPSStateResourceTypeBuffer)
    misuse(@"bufferSizeAtIndex: the resource must be a buffer, got a texture");
  id recipe = recipes[index];
  return [recipe isKindOfClass:[NSNumber class]] ? [(NSNumber*)recipe unsignedIntegerValue]
                                                 : static_cast<MockBuffer*>(recipe).length;
}
- (NSUInteger)resourceSize {
  NSUInteger bytes = 0;
  for (id recipe in recipes)
    bytes += [recipe isKindOfClass:[NSNumber class]]       ? [(NSNumber*)recipe unsignedIntegerValue]
             : [recipe isKindOfClass:[MockResource class]] ? static_cast<MockResource*>(recipe).allocatedSize
                                                           : texture_bytes(recipe);
  return bytes;
}

- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  for (id recipe in recipes) {
    if (![recipe isKindOfClass:[MockResource class]]) continue;
    MockResource* resource = recipe;
    if (resource.storageMode == MTLStorageModeManaged)
      [commands_of(buffer) encodeWork:[resource] { [resource synchronize]; }];
  }
}
- (MPSImageDescriptor*)destinationImageDescriptorForSourceImages:(NSArray<MPSImage*>*)images
                                                    sourceStates:(NSArray<MPSState*>*)states
                                                       forKernel:(MPSKernel*)kernel
                                             suggestedDescriptor:(MPSImageDescriptor*)descriptor {
  return descriptor;
}
@end

// --- batches ---------------------------------------------------------------------------------------------------------

namespace {

std::vector<MPSState*> distinct(MPSStateBatch* batch) {
  std::vector<MPSState*> result;
  for (MPSState* state in batch)
    if (std::find(result.begin(), result.end(), state) == result.end()) result.push_back(state);
  return result;
}

}  // namespace

NSUInteger MPSStateBatchIncrementReadCount(MPSStateBatch* batch, NSInteger amount) {
  const auto states = distinct(batch);
  for (MPSState* state : states)
    if (state->reads && state->reads->reads != 0)
      set_reads(state->reads, state->reads->reads + static_cast<NSUInteger>(amount));
  return states.size();
}
void MPSStateBatchSynchronize(MPSStateBatch* batch, id<MTLCommandBuffer> buffer) {
  for (MPSState* state : distinct(batch)) [state synchronizeOnCommandBuffer:buffer];
}
NSUInteger MPSStateBatchResourceSize(MPSStateBatch* batch) {
  NSUInteger bytes = 0;
  for (MPSState* state : distinct(batch)) bytes += state.resourceSize;
  return bytes;
}
