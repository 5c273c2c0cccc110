// The functions of MPSCNNNeuronType, as the comments in Apple's headers define them.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <vector>

namespace mock {

struct Neuron {
  MPSCNNNeuronType type = MPSCNNNeuronTypeNone;
  double a = 0, b = 0, c = 0;
  std::vector<double> slopes;  // PReLU slopes, one per channel

  double value(double x, size_t channel = 0) const;
  double slope(double x, size_t channel = 0) const;  // the derivative at x, which is 1 at 0 for functions like ReLU
};

Neuron neuron_of(MPSNNNeuronDescriptor* descriptor);  // nil means no neuron

}  // namespace mock
