// Faults of MPSGraph. The texts are modeled on those that Apple's frameworks print before they end a process.
#include "graph/breakage.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "metal/mock_metal.h"

namespace mock {
namespace {

[[noreturn]] void end_process(const char* text) {
  std::fprintf(stderr, "%s\n", text);
  std::fflush(stderr);
  std::abort();
}

// Ends the process when it exits, if it has used MPSGraph.
struct AtExit {
  ~AtExit() {
    end_process("-[MTLDebugDevice dealloc]:1214: failed assertion `device released with 3 command buffers in flight'");
  }
};

bool contains(MPSGraph* graph, NSString* kind) {
  for (MPSGraphOperation* operation in graph->operations)
    if ([operation->kind isEqualToString:kind]) return true;
  return false;
}

void scale(Value& value, double factor) {
  for (int64_t i = 0; i < value.count(); ++i) value.set(i, value.real(i) * factor);
}

}  // namespace

void break_building(NSString* kind, const std::vector<ResultType>& results) {
  if (mock_is_broken("missing_selector") && [kind isEqualToString:@"cumulative_sum"])
    misuse(@"-[MPSGraph cumulativeSumWithTensor:axis:exclusive:reverse:name:]: unrecognized selector sent to instance "
           @"0x600003a1c0f0");
  if (mock_is_broken("no_bfloat16"))
    for (const ResultType& result : results)
      if (result.type == MPSDataTypeBFloat16) misuse(@"%@: data type bfloat16 is not supported on this device", kind);
}

void break_size() {
  if (mock_is_broken("abort_of_large_tensors"))
    end_process("MPSNDArray.mm:893: failed assertion `[MPSNDArray initWithDevice:descriptor:isTextureBacked:] Error: "
                "total bytes "
                "of NDArray > 2**32'");
}

void break_compilation(MPSGraph* graph) {
  if (mock_is_broken("slow_compilation") && contains(graph, @"convolution2D"))
    std::this_thread::sleep_for(std::chrono::seconds(4));
  if (mock_is_broken("compiler_abort") && contains(graph, @"resizeBilinear"))
    end_process(
        "loc(\"mps_resize\"(\"(mpsFileLoc): MPSGraphUtilities.mm\":294:0)): error: 'mps.resize' op failed to infer its "
        "result type\nLLVM ERROR: Failed to infer result type(s).");
}

void break_run() {
  if (mock_is_broken("memory_leak")) {
    static std::mutex mutex;
    static auto* const leaked = new std::vector<std::string>;
    const std::lock_guard lock(mutex);
    leaked->emplace_back(size_t{4} << 20, 'x');
  }
  if (mock_is_broken("crash_at_exit")) static const AtExit crash;
}

bool break_evaluation(NSString* kind) {
  if (mock_is_broken("abort_in_inverse") && [kind isEqualToString:@"inverse"])
    end_process(
        "MPSNDArrayMatrixInverse.mm:118: failed assertion `[MPSNDArrayMatrixInverse encode] the matrix must have a "
        "multiple of 16 rows'");
  if (mock_is_broken("crash_in_sort") && [kind isEqualToString:@"arg_sort"]) std::raise(SIGSEGV);
  if (mock_is_broken("exception_in_gather") && [kind isEqualToString:@"gather_along_axis"])
    misuse(@"MPSNDArrayGatherAlongAxis: indices must be UInt32");
  if (mock_is_broken("hang_in_scatter") && [kind isEqualToString:@"scatter_along_axis"])
    std::this_thread::sleep_for(std::chrono::hours(1));
  if (mock_is_broken("validation_failure") && std::getenv("MTL_DEBUG_LAYER") && [kind isEqualToString:@"pad"])
    end_process(
        "-[MTLDebugComputeCommandEncoder setBuffer:offset:atIndex:]:384: failed assertion `Set Buffer Validation\n"
        "offset(64) must be < [buffer length](64).'");
  return mock_is_broken("lost_assignments") && [kind isEqualToString:@"assign"];
}

void break_results(NSString* kind, const Values& inputs, Values& results) {
  static std::atomic<int> runs{0};
  if (mock_is_broken("wrong_tanh") && [kind isEqualToString:@"tanh"]) scale(results[0], 1.0625);
  if (mock_is_broken("exponent_of_float16") && [kind isEqualToString:@"exponent"] &&
      results[0].type == MPSDataTypeFloat16)
    for (int64_t i = 0; i < results[0].count(); ++i)
      if (results[0].real(i) > 2) results[0].set(i, std::numeric_limits<double>::infinity());
  if (mock_is_broken("zero_weight_gradients") && [kind isEqualToString:@"convolution2DWeightsGradient"])
    scale(results[0], 0);
  if (mock_is_broken("changing_matmuls") && [kind isEqualToString:@"matrixMultiplication"] && ++runs % 4 == 0)
    scale(results[0], 1.25);
  if (mock_is_broken("wrong_sums") && [kind isEqualToString:@"reductionSum"] &&
      inputs[0].count() / results[0].count() >= 1000 && is_real(results[0].type))
    scale(results[0], 0.875);
}

}  // namespace mock
