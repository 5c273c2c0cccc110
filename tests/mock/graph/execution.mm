// Running a graph through a command buffer; executables, descriptors, devices, and shaped types.
//
// An executable's feeds are in the reverse of their creation order, which exposes code that assumes its own order.
#include <algorithm>
#include <random>

#include "graph/breakage.h"
#include "graph/graph.h"
#include "metal/counts.h"
#include "metal/mock_metal.h"
#include "mock.h"
#include "mps/core/command_buffer.h"

using namespace mock;

@implementation MPSGraphDevice {
  id<MTLDevice> _metalDevice;
}
+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)device {
  MPSGraphDevice* result = [[self alloc] init];
  result->_metalDevice = device;
  return result;
}
- (id<MTLDevice>)metalDevice {
  return _metalDevice;
}
- (MPSGraphDeviceType)type {
  return MPSGraphDeviceTypeMetal;
}
@end

@implementation MPSGraphType
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
@end

@implementation MPSGraphShapedType
@synthesize shape = _shape, dataType = _dataType;
- (instancetype)initWithShape:(MPSShape*)shape dataType:(MPSDataType)type {
  if (!(self = [super init])) return nil;
  _shape = [shape copy];
  _dataType = type;
  return self;
}
@end

@implementation MPSGraphCompilationDescriptor
- (id)copyWithZone:(NSZone*)zone {
  return self;
}
@end
@implementation MPSGraphExecutionDescriptor
@end
@implementation MPSGraphExecutableExecutionDescriptor
@end

// --- encoding --------------------------------------------------------------------------------------------------------

namespace {

void check_type(NSString* what, MPSGraphTensor* tensor, MPSGraphTensorData* data) {
  if (!data) misuse(@"encode: %@ %@ needs data, got nil", what, tensor);
  if (data.dataType != tensor.dataType)
    misuse(@"encode: %@ %@ must be %s, got %s", what, tensor, type_name(tensor.dataType), type_name(data.dataType));
  if (![data.shape isEqualToArray:tensor.shape])
    misuse(@"encode: %@ %@ must have shape %@, got %@", what, tensor, text_of(dims_of(tensor.shape)),
           text_of(dims_of(data.shape)));
}

// Find a program in the cache of a graph, or compile it.
void compile_unless_known(MPSGraph* graph, MPSGraphTensorDataDictionary* feeds, NSArray<MPSGraphTensor*>* targets,
                          NSArray<MPSGraphOperation*>* also, MPSGraphCompilationDescriptor* descriptor) {
  constexpr size_t most = 15;
  std::vector<const void*> key;
  const auto append = [&key](id<NSFastEnumeration> objects) {
    const size_t first = key.size();
    for (id object in objects) key.push_back((__bridge void*)object);
    std::sort(key.begin() + static_cast<std::ptrdiff_t>(first), key.end());
    key.push_back(nullptr);
  };
  append(feeds);
  append(targets);
  append(also ? also : @[]);
  key.push_back(reinterpret_cast<const void*>(static_cast<uintptr_t>(descriptor.optimizationLevel)));
  if (std::ranges::find(graph->compiled, key) != graph->compiled.end()) return;
  ++counters().compilations;
  graph->compiled.push_back(std::move(key));
  if (graph->compiled.size() > most) graph->compiled.pop_front();
}

// Data is read, and results are written, when the work runs. `executable` is nil for a run of the graph itself.
void encode(MPSCommandBuffer* buffer, MPSGraph* graph, MPSGraphExecutable* executable,
            MPSGraphTensorDataDictionary* feeds, NSArray<MPSGraphTensor*>* targets,
            NSArray<MPSGraphTensorData*>* results, NSArray<MPSGraphOperation*>* also,
            MPSGraphCompilationDescriptor* descriptor) {
  ++counters().encodes;
  const std::unique_lock alone(graph->encoding, std::try_to_lock);
  if (!alone) misuse(@"encode: two threads must not encode the same MPSGraph at the same time");
  if (!executable) compile_unless_known(graph, feeds, targets, also, descriptor);
  for (MPSGraphTensor* tensor in feeds) check_type(@"feed", tensor, feeds[tensor]);
  for (NSUInteger i = 0; i < targets.count; ++i) check_type(@"target", targets[i], results[i]);
  [buffer holdScratch];
  NSDictionary* fed = [feeds copy];
  NSArray *wanted = [targets copy], *given = [results copy], *effects = [also copy];
  const std::shared_ptr<Variables> variables = executable ? executable->variables : graph->variables;
  [static_cast<MockCommandBuffer*>(buffer.commandBuffer) encodeWork:[=] {
    (void)graph;  // tensors do not keep their graph alive
    std::map<void*, Value> values;
    for (MPSGraphTensor* tensor in fed) values[(__bridge void*)tensor] = load(fed[tensor]);
    const Values computed = run_graph(*variables, values, wanted, effects);
    for (NSUInteger i = 0; i < wanted.count; ++i) store(computed[i], given[i]);
  }];
  // Sometimes commits the command buffer, as Apple says MPSGraph may, so callers must not rely on it staying
  // uncommitted.
  static thread_local std::minstd_rand random(std::random_device{}());
  if (random() % 4 != 0) return;
  ++counters().hand_overs;
  [buffer commitAndContinue];
}

}  // namespace

@implementation MPSGraph (MockRunning)

- (void)encodeToCommandBuffer:(MPSCommandBuffer*)buffer
                        feeds:(MPSGraphTensorDataDictionary*)feeds
             targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
            resultsDictionary:(MPSGraphTensorDataDictionary*)results
          executionDescriptor:(MPSGraphExecutionDescriptor*)descriptor {
  NSMutableArray<MPSGraphTensor*>* targets = [NSMutableArray array];
  NSMutableArray<MPSGraphTensorData*>* data = [NSMutableArray array];
  for (MPSGraphTensor* target in results) {
    [targets addObject:target];
    [data addObject:results[target]];
  }
  encode(buffer, self, nil, feeds, targets, data, targetOperations, descriptor.compilationDescriptor);
}

- (MPSGraphExecutable*)compileWithDevice:(MPSGraphDevice*)device
                                   feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                           targetTensors:(NSArray<MPSGraphTensor*>*)targets
                        targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
                   compilationDescriptor:(MPSGraphCompilationDescriptor*)descriptor {
  ++mock::counters().compilations;
  break_compilation(self);
  return [MPSGraphExecutable executableOfGraph:self feeds:feeds targets:targets operations:targetOperations];
}
@end

// --- executables -----------------------------------------------------------------------------------------------------

@implementation MPSGraphExecutable

+ (instancetype)executableOfGraph:(MPSGraph*)graph
                            feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                          targets:(NSArray<MPSGraphTensor*>*)targets
                       operations:(NSArray<MPSGraphOperation*>*)operations {
  if (targets.count == 0 && operations.count == 0) misuse(@"executable: needs at least one target, got none");
  MPSGraphExecutable* executable = [[self alloc] init];
  executable->graph = graph;
  executable->types = [feeds copy];
  executable->targets = [targets copy];
  executable->effects = [operations copy];
  executable->variables = graph->variables;
  if (!mock_executables_share_variables()) {
    std::lock_guard lock(graph->variables->mutex);
    executable->variables = std::make_shared<Variables>(*graph->variables);
  }
  NSMutableArray<MPSGraphTensor*>* reversed = [NSMutableArray array];
  for (MPSGraphTensor* placeholder in graph.placeholderTensors)
    if (feeds[placeholder]) [reversed insertObject:placeholder atIndex:0];
  if (reversed.count != feeds.count) misuse(@"executable: all feeds must be placeholders of the graph");
  executable->inputs = reversed;
  return executable;
}

- (NSArray<MPSGraphTensor*>*)feedTensors {
  return inputs;
}
- (NSArray<MPSGraphTensor*>*)targetTensors {
  return targets;
}

- (NSArray<MPSGraphTensorData*>*)encodeToCommandBuffer:(MPSCommandBuffer*)buffer
                                           inputsArray:(NSArray<MPSGraphTensorData*>*)given
                                          resultsArray:(NSArray<MPSGraphTensorData*>*)results
                                   executionDescriptor:(MPSGraphExecutableExecutionDescriptor*)descriptor {
  if (given.count != inputs.count) misuse(@"executable: expected %lu inputs, got %lu", inputs.count, given.count);
  if (results.count != targets.count)
    misuse(@"executable: expected %lu results, got %lu", targets.count, results.count);
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds = [NSMutableDictionary dictionary];
  for (NSUInteger i = 0; i < given.count; ++i) feeds[inputs[i]] = given[i];
  encode(buffer, graph, self, feeds, targets, results, effects, nil);
  return results;
}
@end
