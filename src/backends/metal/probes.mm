// Probes of graphs, executables, NaN, out-of-range indices, and memory. The other probes are in separate files.
#include "backends/metal/probes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "backends/metal/availability.h"
#include "backends/metal/direct.h"
#include "backends/metal/guarded.h"
#include "backends/metal/shared_variables.h"

namespace mpsgraph::metal {

using runtime::NDArray;
using runtime::Probe;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// --- graphs and executables ------------------------------------------------------------------------------------------

MPSGraphExecutable* compiled(MetalDevice& device, MPSGraph* graph, NSArray<MPSGraphTensor*>* targets,
                             NSArray<MPSGraphOperation*>* operations) {
  return [graph compileWithDevice:device.graph_device
                            feeds:@{}
                    targetTensors:targets
                 targetOperations:operations
            compilationDescriptor:compilation_descriptor()];
}

float run_executable(MetalDevice& device, MPSGraphExecutable* executable) {
  const NDArray result = device.allocate(DType::float32, {1});
  run_now(device.queue, [&](MPSCommandBuffer* buffer) {
    [executable encodeToCommandBuffer:buffer
                          inputsArray:@[]
                         resultsArray:@[ device.data_of(result).data ]
                  executionDescriptor:nil];
  });
  return *reinterpret_cast<const float*>(result.data());
}

std::string variables_of_executables(MetalDevice& device) {
  MPSGraph* graph = [MPSGraph new];
  const float one = 1;
  MPSGraphTensor* variable = [graph variableWithData:[NSData dataWithBytes:&one length:sizeof one]
                                               shape:@[ @1 ]
                                            dataType:MPSDataTypeFloat32
                                                name:nil];
  MPSGraphTensor* value = [graph readVariable:variable name:nil];
  MPSGraphTensor* raised = [graph additionWithPrimaryTensor:value secondaryTensor:value name:nil];
  MPSGraphOperation* assign = [graph assignVariable:variable withValueOfTensor:raised name:nil];
  MPSGraphExecutable* raises = compiled(device, graph, @[ raised ], @[ assign ]);
  MPSGraphExecutable* reads = compiled(device, graph, @[ value ], nil);
  std::vector<float> seen;
  for (int i = 0; i < 2; ++i) {
    seen.push_back(run_executable(device, raises));
    seen.push_back(run_executable(device, reads));
  }
  Asked asked{{value, {DType::float32, Shape(Dims{1})}}};
  const auto by_graph = run_once(device, graph, [NSMutableDictionary dictionary], asked);
  seen.push_back(*reinterpret_cast<const float*>(by_graph[0].data()));
  return cat("values after two rounds of doubling and reading by executables, and one read by the graph: ", list(seen),
             "; programs with variables ",
             executables_share_variables(device) ? "are executables" : "run through the MPSGraph");
}

std::string rank_of_nothing(MetalDevice& device) {
  MPSGraph* graph = [MPSGraph new];
  MPSGraphTensor* x = [graph placeholderWithShape:@[] dataType:MPSDataTypeFloat32 name:nil];
  MPSGraphTensor* y = [graph additionWithPrimaryTensor:x secondaryTensor:x name:nil];
  const float three = 3;
  const NDArray array = on_device(device, &three, {DType::float32, Shape(Dims{1})});
  const auto* memory = dynamic_cast<const PooledMemory*>(array.buffer()->device_memory());
  MPSGraphTensorData* fed = [[MPSGraphTensorData alloc] initWithMTLBuffer:memory->buffer
                                                                    shape:@[]
                                                                 dataType:MPSDataTypeFloat32];
  const NDArray result = device.allocate(DType::float32, {1});
  const auto* target = dynamic_cast<const PooledMemory*>(result.buffer()->device_memory());
  MPSGraphTensorData* written = [[MPSGraphTensorData alloc] initWithMTLBuffer:target->buffer
                                                                        shape:@[]
                                                                     dataType:MPSDataTypeFloat32];
  run_now(device.queue, [&](MPSCommandBuffer* buffer) {
    [graph encodeToCommandBuffer:buffer
                           feeds:@{x : fed}
                targetOperations:nil
               resultsDictionary:@{y : written}
             executionDescriptor:nil];
  });
  return cat("3 + 3 = ", *reinterpret_cast<const float*>(result.data()), ", with a result of ",
             y.shape ? cat(y.shape.count, " dimensions") : "unknown rank");
}

// Add arrays of one number: one in a buffer of four bytes, one at the end of a larger buffer.
std::string small_buffers(MetalDevice& device) {
  const auto doubled = [&](NSUInteger length, MPSGraphTensorData* (^array_in)(id<MTLBuffer>)) {
    MPSGraph* graph = [MPSGraph new];
    MPSGraphTensor* x = [graph placeholderWithShape:@[ @1 ] dataType:MPSDataTypeFloat32 name:nil];
    MPSGraphTensor* y = [graph additionWithPrimaryTensor:x secondaryTensor:x name:nil];
    id<MTLBuffer> buffer = [device.device newBufferWithLength:length options:MTLResourceStorageModeShared];
    static_cast<float*>(buffer.contents)[length / sizeof(float) - 1] = 3;
    Asked asked{{y, {DType::float32, Shape(Dims{1})}}};
    const auto found =
        run_once(device, graph, [NSMutableDictionary dictionaryWithObject:array_in(buffer) forKey:x], asked);
    return *reinterpret_cast<const float*>(found[0].data());
  };
  const float small = doubled(4, ^(id<MTLBuffer> buffer) {
    return [[MPSGraphTensorData alloc] initWithMTLBuffer:buffer shape:@[ @1 ] dataType:MPSDataTypeFloat32];
  });
  if (METAL_AVAILABLE(15.0, 18.0)) {
    const float last = doubled(128, ^(id<MTLBuffer> buffer) {
      MPSNDArrayDescriptor* how = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32 shape:@[ @1 ]];
      how.preferPackedRows = YES;
      MPSNDArray* array = [[MPSNDArray alloc] initWithBuffer:buffer offset:124 descriptor:how];
      return [[MPSGraphTensorData alloc] initWithMPSNDArray:array];
    });
    return cat("3 + 3 = ", small, " in 4 bytes, ", last, " at the end of 128 bytes");
  }
  return cat("3 + 3 = ", small, " in 4 bytes; offsets require macOS 15");
}

// --- NaN and out-of-range indices ------------------------------------------------------------------------------------

std::string extrema_of_nan(MetalDevice& device) {
  Trial trial(device);
  MPSGraph* graph = trial.graph;
  MPSGraphTensor *a = trial.fed({nan, 1, nan}, {3}), *b = trial.fed({1, nan, nan}, {3});
  MPSGraphTensor* low = [graph minimumWithPrimaryTensor:a secondaryTensor:b name:nil];
  MPSGraphTensor* high = [graph maximumWithPrimaryTensor:a secondaryTensor:b name:nil];
  MPSGraphTensor* most = [graph reductionMaximumWithTensor:a axes:@[ @0 ] name:nil];
  MPSGraphTensor* least = [graph reductionMinimumWithTensor:a axes:@[ @0 ] name:nil];
  return cat("for (NaN, 1), (1, NaN), (NaN, NaN): minimum ", list(trial.values(low, {3})), ", maximum ",
             list(trial.values(high, {3})), "; reductions of [NaN, 1, NaN]: maximum ", list(trial.values(most, {1})),
             ", minimum ", list(trial.values(least, {1})));
}

std::string relu_of_nan(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* y = [trial.graph reLUWithTensor:trial.fed({nan, -1, 1}, {3}) name:nil];
  return cat("of [NaN, -1, 1]: ", list(trial.values(y, {3})));
}

std::string gather_outside(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* table = trial.fed({10, 20, 30}, {3});
  MPSGraphTensor* indices = trial.fed({0, 2, 3, -1, 1000000});
  MPSGraphTensor* found = [trial.graph gatherWithUpdatesTensor:table
                                                 indicesTensor:indices
                                                          axis:0
                                               batchDimensions:0
                                                          name:nil];
  return cat("of [10, 20, 30] at 0, 2, 3, -1, 1000000: ", list(trial.values(found, {5})));
}

// --- memory ----------------------------------------------------------------------------------------------------------

// Two matmuls, whose intermediate result has a megabyte, are encoded many times.
std::string memory_of_continued_buffers(MetalDevice& device) {
  constexpr int64_t size = 512, runs = 100;
  const std::vector<float> ones(static_cast<size_t>(size * size), 1);
  const TensorType type{DType::float32, Shape(Dims{size, size})};
  const NDArray fed = on_device(device, ones.data(), type), result = device.allocate(type.dtype, {size, size});
  MPSGraph* graph = [MPSGraph new];
  MPSGraphTensor* x = [graph placeholderWithShape:@[ @(size), @(size) ] dataType:MPSDataTypeFloat32 name:nil];
  MPSGraphTensor* square = [graph matrixMultiplicationWithPrimaryTensor:x secondaryTensor:x name:nil];
  MPSGraphTensor* cube = [graph matrixMultiplicationWithPrimaryTensor:square secondaryTensor:x name:nil];
  MPSGraphTensorDataDictionary *feeds = @{x : device.data_of(fed).data},
                               *results = @{cube : device.data_of(result).data};
  const auto encode = [&](MPSCommandBuffer* buffer) {
    [graph encodeToCommandBuffer:buffer
                           feeds:feeds
                targetOperations:nil
               resultsDictionary:results
             executionDescriptor:execution_descriptor()];
  };
  run_now(device.queue, encode);  // compiles the program
  const NSUInteger before = device.device.currentAllocatedSize;
  const auto grown = [&] {
    return std::lround((static_cast<double>(device.device.currentAllocatedSize) - static_cast<double>(before)) / 1024);
  };
  long held = 0;
  @autoreleasepool {
    MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:device.queue];
    for (int64_t run = 0; run < runs; ++run) {
      @autoreleasepool {
        encode(buffer);
        id<MTLCommandBuffer> const part = buffer.rootCommandBuffer;
        [buffer commitAndContinue];
        [part waitUntilCompleted];
      }
    }
    held = grown();
    [buffer commit];
    [buffer waitUntilCompleted];
  }
  return cat(held, " KB more after ", runs, " programs in one MPSCommandBuffer, ", grown(), " KB after its release");
}

std::string memory_of_others(MetalDevice& device) {
  const auto page = static_cast<size_t>(getpagesize());
  const auto takes = [&](void* memory) {
    id<MTLBuffer> buffer = [device.device newBufferWithBytesNoCopy:memory
                                                            length:4 * page
                                                           options:MTLResourceStorageModeShared
                                                       deallocator:nil];
    return buffer && buffer.contents == memory ? "shared" : buffer ? "copied" : "refused";
  };
  void* mapped = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  std::string answer = cat("mapped pages ", takes(mapped));
  mprotect(mapped, 4 * page, PROT_READ);
  answer += cat(", read-only pages ", takes(mapped));
  munmap(mapped, 4 * page);
  void* allocated = nullptr;
  if (posix_memalign(&allocated, page, 4 * page) != 0) return answer;
  answer += cat(", malloc pages ", takes(allocated));
  free(allocated);
  return answer;
}

}  // namespace

Probe probe(MetalDevice& device, const char* name, const char* question, const char* method, const char* meaning,
            std::string (*ask)(MetalDevice&)) {
  return {name, question, method, meaning, [&device, ask] { return guarded([&] { return ask(device); }); }};
}

std::vector<Probe> probes(MetalDevice& device) {
  std::vector<Probe> all = random_probes(device);
  for (const auto& others :
       {recurrent_probes(device), behaviour_probes(device), limit_probes(device), package_probes(device),
        form_probes(device), node_probes(device), recurrent_node_probes(device)})
    all.insert(all.end(), others.begin(), others.end());
  const std::vector<Probe> more{
      probe(device, "variables_of_executables", "Do executables of the same MPSGraph share its variables?",
            "a variable of 1 is doubled by one executable and read by another, twice, then read by the graph",
            "[2, 2, 4, 4, 4]: shared, so the backend makes MPSGraphExecutables of programs with variables. Any other "
            "answer: programs with variables run through the MPSGraph (src/backends/metal/shared_variables.mm).",
            variables_of_executables),
      probe(device, "rank_0", "Does MPSGraph accept tensors of rank 0?",
            "a placeholder of shape [] is fed, added to itself, and read",
            "6 with 0 dimensions: shape_of() in src/backends/metal/types.mm could keep rank 0. Any other answer, or an "
            "error: shape_of() must keep using shape (1).",
            rank_of_nothing),
      probe(device, "nan_of_extrema", "How do minimum, maximum and their reductions treat NaN?",
            "pairs with NaN on either side and on both, and a reduction",
            "The number if one operand is a number: the selections around these operations in "
            "src/backends/metal/arithmetic.mm and reduction.mm could be removed. NaN, or the number for only one side: "
            "the selections are needed.",
            extrema_of_nan),
      probe(device, "nan_of_relu", "How does reLUWithTensor: treat NaN?", "for [NaN, -1, 1]",
            "NaN first: lower_relu in src/backends/metal/activation.mm could use reLUWithTensor:. 0: lower_relu must "
            "stay composed.",
            relu_of_nan),
      probe(device, "gather_out_of_bounds", "What does gather return for out-of-range indices?",
            "five indices into three numbers",
            "0 for -1 and beyond 2, as on the CPU: the masks in src/backends/metal/gather.mm could be removed. Any "
            "other answer, or an error: the masks are needed.",
            gather_outside),
      probe(device, "small_buffers", "Can arrays be in buffers of fewer than 64 bytes?",
            "a number in a buffer of 4 bytes, and at the end of a buffer of 128 bytes",
            "3 + 3 = 6 twice: has_room in src/backends/metal/device.mm could be removed. An error, or an aborted "
            "process: it is needed.",
            small_buffers),
      probe(device, "memory_of_continued_buffers",
            "Does an MPSCommandBuffer keep the intermediate results of its earlier programs?",
            "the device's memory after 100 runs of two matmuls, each followed by commitAndContinue",
            "Less than 1000 KB: next_program in src/backends/metal/queue.mm could continue command buffers. More: each "
            "program needs its own MPSCommandBuffer.",
            memory_of_continued_buffers),
      probe(device, "memory_of_others", "Which memory that Metal did not allocate can it share?",
            "newBufferWithBytesNoCopy: over four writable pages, four read-only pages, and memory of malloc",
            "Shared: numpy arrays are fed without a copy. Refused: MetalDevice::shared in "
            "src/backends/metal/device.mm stages them, and only results and arrays of mg.NDArray avoid copies.",
            memory_of_others),
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace mpsgraph::metal
