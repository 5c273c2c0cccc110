// Probes of faults that other projects work around on Macs, as listed in tests/apple/behaviour.md. Each answer shows
// whether the workaround is needed on this machine.
#include <bit>

#include "backends/metal/direct.h"
#include "backends/metal/probes.h"

namespace mpsgraph::metal {

using runtime::Probe;

namespace {

// Test data: integers above 2^24, which float32 cannot represent exactly, and the bit patterns of a NaN and of
// subnormal floats.
const std::vector<int32_t> integers{16777217, 1832780943, 0x7FC00001, 1, 3};

std::string gathered_integers(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* found = [trial.graph gatherWithUpdatesTensor:trial.fed(integers)
                                                 indicesTensor:trial.fed({0, 1, 2, 3, 4})
                                                          axis:0
                                               batchDimensions:0
                                                          name:nil];
  return cat("of ", list(integers), ": ", list(trial.values<int32_t>(found, {5})));
}

std::string gathered_patterns(MetalDevice& device) {
  Trial trial(device);
  std::vector<float> floats;
  for (const int32_t bits : integers) floats.push_back(std::bit_cast<float>(bits));
  MPSGraphTensor* found = [trial.graph gatherWithUpdatesTensor:trial.fed(floats, {5})
                                                 indicesTensor:trial.fed({0, 1, 2, 3, 4})
                                                          axis:0
                                               batchDimensions:0
                                                          name:nil];
  std::vector<int32_t> bits;
  for (const float value : trial.values(found, {5})) bits.push_back(std::bit_cast<int32_t>(value));
  return cat("as float32, the bits of ", list(integers), ": ", list(bits));
}

std::string scattered_integers(MetalDevice& device) {
  const auto scatter = [&](MPSGraphScatterMode mode) {
    Trial trial(device);
    MPSGraphTensor* found = [trial.graph scatterWithDataTensor:trial.fed({0, 0, 0, 0, 0})
                                                 updatesTensor:trial.fed(integers)
                                                 indicesTensor:trial.fed({0, 1, 2, 3, 4})
                                                          axis:0
                                                          mode:mode
                                                          name:nil];
    return list(trial.values<int32_t>(found, {5}));
  };
  return cat("of ", list(integers), " into zeros: set ", scatter(MPSGraphScatterModeSet), ", add ",
             scatter(MPSGraphScatterModeAdd), ", max ", scatter(MPSGraphScatterModeMax));
}

std::string divided_integers(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* quotient = [trial.graph divisionWithPrimaryTensor:trial.fed({16777217, -7, 7, 2147483647})
                                                    secondaryTensor:trial.fed({1, 2, -2, 3})
                                                               name:nil];
  return cat("16777217 / 1, -7 / 2, 7 / -2, 2147483647 / 3: ", list(trial.values<int32_t>(quotient, {4})));
}

// Sort more than 2^22 descending numbers and count the wrong positions.
std::string order_of_many(MetalDevice& device) {
  Trial trial(device);
  constexpr int64_t count = (int64_t{1} << 22) + 1;
  std::vector<float> falling(static_cast<size_t>(count));
  for (size_t i = 0; i < falling.size(); ++i) falling[i] = static_cast<float>(falling.size() - i);
  MPSGraphTensor* order = [trial.graph argSortWithTensor:trial.fed(falling, {1, count}) axis:1 name:nil];
  const std::vector<int32_t> found = trial.values<int32_t>(order, {1, count});
  int64_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != count - 1 - static_cast<int64_t>(i);
  return cat(wrong, " of ", count, " places are wrong");
}

std::string bounds_with_a_dimension(MetalDevice& device) {
  Trial trial(device);
  MPSGraph* graph = trial.graph;
  const auto number = [&](double value) {
    return [graph constantWithScalar:value shape:@[ @1 ] dataType:MPSDataTypeInt32];
  };
  MPSGraphTensor* start = trial.fed({0});
  NSArray<MPSGraphTensor*>* last = [graph
      forLoopWithLowerBound:number(0)
                 upperBound:number(5)
                       step:number(1)
       initialBodyArguments:@[ start ]
                       body:^NSArray<MPSGraphTensor*>*(MPSGraphTensor*, NSArray<MPSGraphTensor*>* given) {
                         return @[ [graph additionWithPrimaryTensor:given[0] secondaryTensor:number(2) name:nil] ];
                       }
                       name:nil];
  return cat("0 + 5 * 2 = ", list(trial.values<int32_t>(last[0], {1})));
}

}  // namespace

std::vector<Probe> behaviour_probes(MetalDevice& device) {
  return {
      probe(device, "gathered_integers", "Do gathers preserve integers that float32 cannot represent?",
            "five integers are gathered directly",
            "The same five: moved() in src/backends/metal/indexing.mm could gather integers directly. Other values: "
            "integers must be split into parts.",
            gathered_integers),
      probe(device, "gathered_patterns", "Do gathers of float32 preserve all bits?",
            "five bit patterns, including a NaN and subnormal numbers, are gathered as float32",
            "The same bits: integers could be gathered as float32 by reinterpretCast, in one piece. Other bits: "
            "integers must be split into parts.",
            gathered_patterns),
      probe(device, "scattered_integers", "Do scatters preserve integers that float32 cannot represent?",
            "five integers are scattered into zeros in three modes",
            "The same five in a mode: src/backends/metal/scatter_nd.mm could use that mode for integers. Other values: "
            "scatter_nd.mm must keep using float32 parts.",
            scattered_integers),
      probe(device, "divided_integers", "Are quotients of int32 exact?", "four quotients, including large numbers",
            "[16777217, -3, -3, 715827882]: as on the CPU. Other values: src/backends/metal/arithmetic.mm must divide "
            "in parts.",
            divided_integers),
      probe(device, "order_of_many", "Are sorts of more than 2^22 numbers correct?",
            "4194305 descending numbers are sorted",
            "0 wrong positions: as on the CPU. More: src/backends/metal/order.mm must refuse long axes.",
            order_of_many),
      probe(device, "bounds_with_a_dimension", "Do loops accept bounds of shape (1)?", "a loop adds 2 five times",
            "[10]: Lowering::bound could pass such bounds unchanged. Any other answer, or an aborted process: bounds "
            "must be scalars.",
            bounds_with_a_dimension),
  };
}

}  // namespace mpsgraph::metal
