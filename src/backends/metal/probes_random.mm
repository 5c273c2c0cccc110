// Probes of random numbers: states, their order and advance, and the way from bits to numbers.
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
            "[1, 0, 0, 0, 0, 7, 0] is our mg.random.philox_state(7). Another: a function philox_state_from_mpsgraph in "
            "python/mpsgraph/random.py, so that MPSGraph's own seeds can be continued.",
            state_of_a_seed),
      probe(device, "philox_state_of_counters", "In which order do counter and key stand in a state?",
            "randomPhiloxStateTensorWithCounterLow:1 counterHigh:2 key:3",
            "[1, 1, 0, 2, 0, 3, 0] is ours. Another: states are reordered on the way in and out in "
            "src/backends/metal/random.mm.",
            state_of_counters),
      probe(
          device, "philox_numbers_of_a_seed", "Are the numbers of a seed those of the seed's state?",
          "four uniform numbers by randomTensorWithShape:descriptor:seed: and by the state of the same seed",
          "Equal: seeds may be handed to MPSGraph. Different: python/mpsgraph/random.py must not promise its numbers.",
          numbers_of_a_seed),
      probe(
          device, "philox_uniform_numbers", "Are MPSGraph's uniform numbers TensorFlow's for the same state?",
          "four uniform float32 numbers of the state [1, 1, 0, 2, 0, 3, 0]",
          "[0.45901167, 0.53342485, 0.9627732, 0.71216857] are ours, and src/backends/metal/random.mm counts on them. "
          "Others: it has to compose these, too, from Philox's rounds.",
          numbers_of_a_state<MPSGraphRandomDistributionUniform>),
      probe(device, "philox_normal_numbers", "Are MPSGraph's normal numbers TensorFlow's for the same state?",
            "four normal float32 numbers by Box and Muller of the state [1, 1, 0, 2, 0, 3, 0]",
            "[-0.26016375, -1.220522, -0.26770854, -0.064861052] are ours: then src/backends/metal/random.mm may draw "
            "them by MPSGraph. Others, or NaN: it goes on composing them.",
            numbers_of_a_state<MPSGraphRandomDistributionNormal>),
      probe(device, "philox_advance", "How far does the counter go on after n uniform numbers?",
            "the state after 1, 4, 5 and 1000 numbers from [1, 1, 0, 2, 0, 3, 0]",
            "Second word 1 + 256 n: our advance \"tensorflow\"; 1 + ceil(n / 4): our advance \"blocks\"; then "
            "src/backends/metal/random.mm may take MPSGraph's state. Another: the state stays composed, and MPSGraph's "
            "own "
            "streams need a third value of `advance` in src/core/ops/random.cpp.",
            advance_of_the_counter<MPSGraphRandomDistributionUniform>),
      probe(device, "philox_advance_of_normals", "How far does the counter go on after n normal numbers?",
            "the state after 1, 4, 5 and 1000 numbers from [1, 1, 0, 2, 0, 3, 0]", "As for uniform numbers.",
            advance_of_the_counter<MPSGraphRandomDistributionNormal>),
      probe(
          device, "normal_sampling_default", "How are normal numbers made by default?",
          "MPSGraphRandomOpDescriptor.samplingMethod of a new descriptor",
          "Box and Muller is the default of `sampling_method` in src/core/ops/random.cpp; the other would be a reason "
          "to change that.",
          default_sampling),
  };
}

}  // namespace mpsgraph::metal
