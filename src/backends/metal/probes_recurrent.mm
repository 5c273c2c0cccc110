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

// Run a layer with one unit and no weights twice: FluidInference/FluidAudio#667.
std::string recurrent_layers_again(MetalDevice& device) {
  const auto twice = [](Trial& trial, MPSGraphTensor* states) {
    const float first = trial.values(states, {1, 1, 1})[0];
    return cat(first, " and ", trial.values(states, {1, 1, 1})[0]);
  };
  Trial rnn(device), lstm(device);
  MPSGraphSingleGateRNNDescriptor* single_gate = [MPSGraphSingleGateRNNDescriptor descriptor];
  single_gate.activation = MPSGraphRNNActivationNone;
  NSArray<MPSGraphTensor*>* of_rnn = [rnn.graph singleGateRNNWithSourceTensor:rnn.fed(std::vector<float>{3}, {1, 1, 1})
                                                              recurrentWeight:rnn.fed(std::vector<float>{0}, {1, 1})
                                                                    initState:rnn.fed(std::vector<float>{0}, {1, 1})
                                                                   descriptor:single_gate
                                                                         name:nil];
  MPSGraphLSTMDescriptor* four_gates = [MPSGraphLSTMDescriptor descriptor];
  four_gates.produceCell = YES;
  NSArray<MPSGraphTensor*>* of_lstm = [lstm.graph LSTMWithSourceTensor:lstm.fed({40, 40, 40, 40}, {1, 1, 4})
                                                       recurrentWeight:lstm.fed(std::vector<float>(4), {4, 1})
                                                             initState:lstm.fed(std::vector<float>{0}, {1, 1})
                                                              initCell:lstm.fed(std::vector<float>{2}, {1, 1})
                                                            descriptor:four_gates
                                                                  name:nil];
  return cat("RNN ", twice(rnn, of_rnn[0]), ", cell of the LSTM ", twice(lstm, of_lstm[1]));
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
      probe(device, "recurrent_layers_again", "Can a program with a recurrent layer of MPSGraph run twice?",
            "an RNN and an LSTM of one unit",
            "RNN 3 and 3, cell of the LSTM 3 and 3: native_layers_run_again in src/backends/metal/recurrent.mm could "
            "return true on this system. An error, or an aborted process: layers must stay composed.",
            recurrent_layers_again),
  };
}

}  // namespace mpsgraph::metal
