// The functions of MPSCNNNeuronType, as the comments of its values define them.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <vector>

namespace mock {

struct Neuron {
  MPSCNNNeuronType type = MPSCNNNeuronTypeNone;
  double a = 0, b = 0, c = 0;
  std::vector<double> slopes;  // of PReLU, one a channel

  double value(double x, size_t channel = 0) const;
  double slope(double x, size_t channel = 0) const;  // the derivative at x, which is 1 at 0 for ReLU and its kind
};

Neuron neuron_of(MPSNNNeuronDescriptor* descriptor);  // nil: none

}  // namespace mock
