// Probes of random numbers: the layout of states, how far states advance, and the conversion from bits to numbers.
#include "backends/metal/direct.h"
#include "backends/metal/probes.h"

namespace mpsgraph::metal {

using runtime::Probe;

namespace {

MPSGraphRandomOpDescriptor* drawing(MPSGraphRandomDistribution distribution) {
  return [MPSGraphRandomOpDescriptor descriptorWithDistribution:distribution dataType:MPSDataTypeFloat32];
}

std::string state_of_a_seed(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* state = [trial.graph randomPhiloxStateTensorWithSeed:7 name:nil];
  return cat("seed 7: ", list(trial.values<int32_t>(state, {7})));
}

std::string state_of_counters(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* state = [trial.graph randomPhiloxStateTensorWithCounterLow:1 counterHigh:2 key:3 name:nil];
  return list(trial.values<int32_t>(state, {7}));
}

std::string numbers_of_a_seed(MetalDevice& device) {
  Trial trial(device);
  MPSGraphRandomOpDescriptor* uniform = drawing(MPSGraphRandomDistributionUniform);
  MPSGraphTensor* seeded = [trial.graph randomTensorWithShape:@[ @4 ] descriptor:uniform seed:7 name:nil];
  MPSGraphTensor* state = [trial.graph randomPhiloxStateTensorWithSeed:7 name:nil];
  MPSGraphTensor* stated = [trial.graph randomTensorWithShape:@[ @4 ] descriptor:uniform stateTensor:state name:nil][0];
  return cat("by the seed ", list(trial.values(seeded, {4})), ", by the seed's state ",
             list(trial.values(stated, {4})));
}

template <MPSGraphRandomDistribution distribution>
std::string numbers_of_a_state(MetalDevice& device) {
  Trial trial(device);
  MPSGraphRandomOpDescriptor* how = drawing(distribution);
  how.samplingMethod = MPSGraphRandomNormalSamplingBoxMuller;
  MPSGraphTensor* state = trial.fed({1, 1, 0, 2, 0, 3, 0});
  MPSGraphTensor* drawn = [trial.graph randomTensorWithShape:@[ @4 ] descriptor:how stateTensor:state name:nil][0];
  return list(trial.values(drawn, {4}));
}

template <MPSGraphRandomDistribution distribution>
std::string advance_of_the_counter(MetalDevice& device) {
  std::string answer;
  for (const int64_t count : {1, 4, 5, 1000}) {
    Trial trial(device);
    MPSGraphTensor* state = trial.fed({1, 1, 0, 2, 0, 3, 0});
    NSArray<MPSGraphTensor*>* drawn = [trial.graph randomTensorWithShape:@[ @(count) ]
                                                              descriptor:drawing(distribution)
                                                             stateTensor:state
                                                                    name:nil];
    answer += cat(answer.empty() ? "" : ", ", "after ", count, " ", list(trial.values<int32_t>(drawn[1], {7})));
  }
  return answer;
}

std::string default_sampling(MetalDevice&) {
  const auto method = drawing(MPSGraphRandomDistributionNormal).samplingMethod;
  return method == MPSGraphRandomNormalSamplingBoxMuller ? "Box and Muller"
                                                         : "the inverse of the distribution function";
}

}  // namespace

std::vector<Probe> random_probes(MetalDevice& device) {
  return {
      probe(device, "philox_state_of_a_seed", "Which state does a seed give?", "randomPhiloxStateTensorWithSeed: of 7",
            "[1, 0, 0, 0, 0, 7, 0] equals mg.random.philox_state(7). Other values: python/mpsgraph/random.py needs a "
            "function philox_state_from_mpsgraph to continue MPSGraph's own seeds.",
            state_of_a_seed),
      probe(device, "philox_state_of_counters", "What is the order of counter and key in a state?",
            "randomPhiloxStateTensorWithCounterLow:1 counterHigh:2 key:3",
            "[1, 1, 0, 2, 0, 3, 0] is the order of this library. Other values: src/backends/metal/random.mm must "
            "reorder states before and after MPSGraph.",
            state_of_counters),
      probe(
          device, "philox_numbers_of_a_seed", "Do a seed and the state of that seed give the same numbers?",
          "four uniform numbers by randomTensorWithShape:descriptor:seed: and by the state of the same seed",
          "Equal: seeds may be passed to MPSGraph. Different: python/mpsgraph/random.py must not promise its numbers.",
          numbers_of_a_seed),
      probe(device, "philox_uniform_numbers", "Are MPSGraph's uniform numbers TensorFlow's for the same state?",
            "four uniform float32 numbers of the state [1, 1, 0, 2, 0, 3, 0]",
            "[0.45901167, 0.53342485, 0.9627732, 0.71216857] are the numbers on which src/backends/metal/random.mm "
            "relies. Other values: random.mm must compose uniform numbers, too, from Philox rounds.",
            numbers_of_a_state<MPSGraphRandomDistributionUniform>),
      probe(device, "philox_normal_numbers", "Are MPSGraph's normal numbers TensorFlow's for the same state?",
            "four normal float32 numbers by Box and Muller of the state [1, 1, 0, 2, 0, 3, 0]",
            "[-0.26016375, -1.220522, -0.26770854, -0.064861052] as on the CPU: src/backends/metal/random.mm could use "
            "MPSGraph's normal numbers. Other values, or NaN: random.mm must keep composing them.",
            numbers_of_a_state<MPSGraphRandomDistributionNormal>),
      probe(device, "philox_advance", "How far does the counter advance after n uniform numbers?",
            "the state after 1, 4, 5 and 1000 numbers from [1, 1, 0, 2, 0, 3, 0]",
            "A second word of 1 + 256 n (advance \"tensorflow\") or 1 + ceil(n / 4) (advance \"blocks\"): "
            "src/backends/metal/random.mm could use MPSGraph's state. Other values: the state must stay composed, and "
            "to continue MPSGraph's own streams, `advance` in src/core/ops/random.cpp needs a third value.",
            advance_of_the_counter<MPSGraphRandomDistributionUniform>),
      probe(device, "philox_advance_of_normals", "How far does the counter advance after n normal numbers?",
            "the state after 1, 4, 5 and 1000 numbers from [1, 1, 0, 2, 0, 3, 0]", "As for uniform numbers.",
            advance_of_the_counter<MPSGraphRandomDistributionNormal>),
      probe(device, "normal_sampling_default", "Which method generates normal numbers by default?",
            "MPSGraphRandomOpDescriptor.samplingMethod of a new descriptor",
            "Box and Muller is the default of `sampling_method` in src/core/ops/random.cpp, too; the other method "
            "would be a reason to change that.",
            default_sampling),
  };
}

}  // namespace mpsgraph::metal
