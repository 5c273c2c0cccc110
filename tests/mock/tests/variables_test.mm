// Tests of the mock's MPSGraph variables: its cache of compiled programs, executables, and initial data.
#include "metal/counts.h"
#include "mps_check.h"

using namespace check;

namespace {

struct Variable {
  explicit Variable(float start = 1) {
    NSData* data = [NSData dataWithBytes:&start length:sizeof start];
    variable = [graph variableWithData:data shape:@[ @1 ] dataType:MPSDataTypeFloat32 name:nil];
    value = [graph readVariable:variable name:nil];
  }
  MPSGraph* const graph = [MPSGraph new];
  MPSGraphTensor *variable, *value;

  float read() const { return of(value); }
  float of(MPSGraphTensor* target, NSArray<MPSGraphOperation*>* operations = nil) const {
    id<MTLBuffer> memory = [device() newBufferWithLength:4 options:MTLResourceStorageModeShared];
    MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
    [graph encodeToCommandBuffer:buffer
                           feeds:@{}
                targetOperations:operations
               resultsDictionary:@{target : data(memory)}
             executionDescriptor:nil];
    return finish(buffer, memory);
  }
  float of(MPSGraphExecutable* executable) const {
    id<MTLBuffer> memory = [device() newBufferWithLength:4 options:MTLResourceStorageModeShared];
    MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
    [executable encodeToCommandBuffer:buffer inputsArray:@[] resultsArray:@[ data(memory) ] executionDescriptor:nil];
    return finish(buffer, memory);
  }
  MPSGraphExecutable* compiled(MPSGraphTensor* target, NSArray<MPSGraphOperation*>* operations) const {
    return [graph compileWithDevice:[MPSGraphDevice deviceWithMTLDevice:device()]
                              feeds:@{}
                      targetTensors:@[ target ]
                   targetOperations:operations
              compilationDescriptor:nil];
  }

 private:
  static MPSGraphTensorData* data(id<MTLBuffer> memory) {
    return [[MPSGraphTensorData alloc] initWithMTLBuffer:memory shape:@[ @1 ] dataType:MPSDataTypeFloat32];
  }
  static float finish(MPSCommandBuffer* buffer, id<MTLBuffer> memory) {
    id<MTLCommandBuffer> last = buffer.rootCommandBuffer;
    [buffer commit];
    [last waitUntilCompleted];
    return *static_cast<const float*>(memory.contents);
  }
};

int compilations(NS_NOESCAPE void (^work)(void)) {
  mock_take_counts();
  work();
  return static_cast<int>(mock_take_counts().compilations);
}

TEST(a_graph_keeps_the_last_15_programs_that_it_compiled) {
  const Variable v;
  std::vector<MPSGraphTensor*> targets;
  for (int i = 0; i < 16; ++i) targets.push_back([v.graph identityWithTensor:v.value name:nil]);
  CHECK_EQUAL(compilations(^{
                for (int i = 0; i < 15; ++i) v.of(targets[i]);
              }),
              15);
  CHECK_EQUAL(compilations(^{
                for (int i = 0; i < 15; ++i) v.of(targets[i]);
              }),
              0);
  CHECK_EQUAL(compilations(^{ v.of(targets[0]), v.of(targets[15]); }), 1);
  // The first program was compiled first, so it is dropped first, although it was used last.
  CHECK_EQUAL(compilations(^{ v.of(targets[15]), v.of(targets[2]), v.of(targets[14]); }), 0);
  CHECK_EQUAL(compilations(^{ v.of(targets[0]); }), 1);
}

TEST(target_operations_distinguish_programs) {
  const Variable v;
  MPSGraphOperation* assign = [v.graph assignVariable:v.variable withValueOfTensor:v.value name:nil];
  CHECK_EQUAL(compilations(^{ v.of(v.value), v.of(v.value, @[ assign ]), v.of(v.value), v.of(v.value, @[ assign ]); }),
              2);
}

TEST(an_executable_is_compiled_once) {
  const Variable v;
  CHECK_EQUAL(compilations(^{
                MPSGraphExecutable* executable = v.compiled(v.value, nil);
                for (int i = 0; i < 20; ++i) v.of(executable);
              }),
              1);
}

TEST(executables_have_the_variables_of_the_graph_or_a_copy) {
  const Variable v(3);
  MPSGraphTensor* doubled = [v.graph additionWithPrimaryTensor:v.value secondaryTensor:v.value name:nil];
  MPSGraphOperation* assign = [v.graph assignVariable:v.variable withValueOfTensor:doubled name:nil];
  MPSGraphExecutable *doubling = v.compiled(doubled, @[ assign ]), *reading = v.compiled(v.value, nil);
  const bool shared = mock_executables_share_variables();
  CHECK_EQUAL(v.of(doubling), 6);
  CHECK_EQUAL(v.of(doubling), 12);
  CHECK_EQUAL(v.of(reading), shared ? 12 : 3);
  CHECK_EQUAL(v.read(), shared ? 12 : 3);
}

TEST(initial_data_counts_once_for_each_memory) {
  const uint64_t before = mock_initial_variable_bytes();
  @autoreleasepool {
    MPSGraph* graph = [MPSGraph new];
    NSMutableData* memory = [NSMutableData dataWithLength:40];
    for (NSUInteger count : {NSUInteger{10}, NSUInteger{6}}) {
      NSData* part = [[NSData alloc] initWithBytesNoCopy:memory.mutableBytes
                                                  length:4 * count
                                             deallocator:^(void*, NSUInteger){}];
      [graph variableWithData:part shape:@[ @(count) ] dataType:MPSDataTypeFloat32 name:nil];
    }
    CHECK_EQUAL(mock_initial_variable_bytes() - before, 40ul);
    [graph variableWithData:[NSData dataWithBytes:memory.bytes length:8]
                      shape:@[ @2 ]
                   dataType:MPSDataTypeFloat32
                       name:nil];
    CHECK_EQUAL(mock_initial_variable_bytes() - before, 48ul);
  }
  CHECK_EQUAL(mock_initial_variable_bytes(), before);
}

}  // namespace

int main() { return check::run_all(); }
