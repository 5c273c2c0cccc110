// Probes of MPSGraph's recurrent layers, which determine the meaning of their flags.
#include "backends/metal/direct.h"
#include "backends/metal/probes.h"

namespace mpsgraph::metal {

using runtime::Probe;

namespace {

// One unit without weights. Its biases set the first gate to 1, the second to 1/2, and the candidate to 0; the initial
// state is 8.
float gru_of_one_unit(MetalDevice& device, bool flips) {
  Trial trial(device);
  MPSGraphGRUDescriptor* how = [MPSGraphGRUDescriptor descriptor];
  how.flipZ = flips;
  MPSGraphTensor* source = trial.fed(std::vector<float>(3), {1, 1, 3});
  MPSGraphTensor* recurrent = trial.fed(std::vector<float>(3), {3, 1});
  MPSGraphTensor* bias = trial.fed({40, 0, 0}, {3});
  MPSGraphTensor* before = trial.fed({8}, {1, 1});
  NSArray<MPSGraphTensor*>* results = [trial.graph GRUWithSourceTensor:source
                                                       recurrentWeight:recurrent
                                                           inputWeight:nil
                                                                  bias:bias
                                                             initState:before
                                                            descriptor:how
                                                                  name:nil];
  return trial.values(results[0], {1, 1, 1})[0];
}

std::string flip_of_z(MetalDevice& device) {
  return cat("flipZ is ", [MPSGraphGRUDescriptor descriptor].flipZ ? "YES" : "NO",
             " by default; with NO the unit gives ", gru_of_one_unit(device, false), ", with YES ",
             gru_of_one_unit(device, true));
}

}  // namespace

std::vector<Probe> recurrent_probes(MetalDevice& device) {
  return {
      probe(device, "gru_flip_z", "What does flipZ mean, what is its default, and is z the first gate?",
            "a GRU of one unit without weights: first gate 1, second 1/2, candidate 0, previous state 8",
            "NO by default, 8 with NO and 0 with YES: src/backends/metal/recurrent.mm could lower GRU to MPSGraph's "
            "GRU with flipZ = flip_z. 0 and 8: with flipZ inverted. 4: the order of the gates is r, z, o, and the "
            "weights must be reordered. Until this is known, GRU stays composed.",
            flip_of_z),
  };
}

}  // namespace mpsgraph::metal
