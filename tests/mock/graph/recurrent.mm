// Single-gate RNN and LSTM without input weights, as the comments on MPSGraph's methods define them:
//
//   single gate  z[t] = x[t] + h[t-1] R^T;  h[t] = activation(z[t])
//   LSTM         [i, f, z, o][t] = f(h[t-1] R^T + x[t]);  c[t] = f c[t-1] + i z;  h[t] = o g(c[t])
//
// Source [T, N, gates H], weights [gates H, H], states [N, H]. With two directions, the last axis of source and states
// is twice as large, weights are [2, gates H, H], and the results are concatenated in the last axis. Gates are in the
// order i, f, z, o, or i, z, f, o with forgetGateLast. Undocumented features raise: the order of results with
// `reverse`, and the contents of a training state.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "graph/graph.h"
#include "metal/mock_metal.h"
#include "mock.h"

using namespace mock;

@implementation MPSGraphSingleGateRNNDescriptor
@synthesize activation = _activation, bidirectional = _bidirectional, reverse = _reverse, training = _training;
+ (instancetype)descriptor {
  MPSGraphSingleGateRNNDescriptor* descriptor = [[self alloc] init];
  descriptor->_activation = MPSGraphRNNActivationRelu;
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSGraphSingleGateRNNDescriptor* copy = [MPSGraphSingleGateRNNDescriptor descriptor];
  copy->_activation = _activation;
  copy->_bidirectional = _bidirectional;
  copy->_reverse = _reverse;
  copy->_training = _training;
  return copy;
}
@end

@implementation MPSGraphLSTMDescriptor
@synthesize activation = _activation, bidirectional = _bidirectional, reverse = _reverse, training = _training;
@synthesize cellGateActivation = _cell, forgetGateActivation = _forget, inputGateActivation = _input,
            outputGateActivation = _output, forgetGateLast = _forgetGateLast, produceCell = _produceCell;
+ (instancetype)descriptor {
  MPSGraphLSTMDescriptor* descriptor = [[self alloc] init];
  descriptor->_activation = descriptor->_cell = MPSGraphRNNActivationTanh;
  descriptor->_forget = descriptor->_input = descriptor->_output = MPSGraphRNNActivationSigmoid;
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSGraphLSTMDescriptor* copy = [MPSGraphLSTMDescriptor descriptor];
  copy->_activation = _activation;
  copy->_cell = _cell;
  copy->_forget = _forget;
  copy->_input = _input;
  copy->_output = _output;
  copy->_forgetGateLast = _forgetGateLast;
  copy->_produceCell = _produceCell;
  copy->_bidirectional = _bidirectional;
  copy->_reverse = _reverse;
  copy->_training = _training;
  return copy;
}
@end

namespace {

double activated(MPSGraphRNNActivation activation, double x) {
  switch (activation) {
    case MPSGraphRNNActivationNone: return x;
    case MPSGraphRNNActivationRelu: return x < 0 ? 0 : x;
    case MPSGraphRNNActivationTanh: return std::tanh(x);
    case MPSGraphRNNActivationSigmoid: return 1 / (1 + std::exp(-x));
    case MPSGraphRNNActivationHardSigmoid: return std::clamp(0.2 * x + 0.5, 0.0, 1.0);
  }
  misuse(@"recurrent: unknown activation");
}

struct Layer {
  int64_t gates;
  bool both_directions, has_cell;
  // Compute the new state from the gates' sums before their activations, in order, and the cell, which is updated.
  std::function<double(const std::vector<double>& sums, double& cell)> step;
};

void require(const char* what, const Value& value, const Dims& dims) {
  if (value.dims != dims) misuse(@"%s: expected shape %@, got %@", what, text_of(dims), text_of(value.dims));
}

// Inputs: source, weights, initial state[, initial cell]. Results: states[, cells].
Values run_layer(const Layer& layer, const Values& in) {
  const Value &source = in[0], &weights = in[1];
  if (source.rank() != 3)
    misuse(@"recurrent: the source must have shape (T, N, gates H), got %@", text_of(source.dims));
  const int64_t steps = source.dims[0], batch = source.dims[1], directions = layer.both_directions ? 2 : 1;
  const int64_t hidden = weights.dims.back(), gated = layer.gates * hidden, wide = directions * hidden;
  require("recurrent weights", weights, layer.both_directions ? Dims{2, gated, hidden} : Dims{gated, hidden});
  require("recurrent source", source, {steps, batch, directions * gated});
  for (size_t i = 2; i < in.size(); ++i) require("recurrent initial values", in[i], {batch, wide});
  for (const Value& value : in)
    if (value.type != source.type || !is_real(value.type))
      misuse(@"recurrent: operands must be real and of the same type, got %s and %s", type_name(source.type),
             type_name(value.type));
  Values results(layer.has_cell ? 2 : 1, Value(source.type, {steps, batch, wide}));
  std::vector<double> before(static_cast<size_t>(hidden)), sums(static_cast<size_t>(layer.gates));
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<double> state(before.size()), cell(before.size());
      for (int64_t h = 0; h < hidden; ++h) {
        state[static_cast<size_t>(h)] = in[2].real(n * wide + d * hidden + h);
        if (layer.has_cell) cell[static_cast<size_t>(h)] = in[3].real(n * wide + d * hidden + h);
      }
      for (int64_t s = 0; s < steps; ++s) {
        const int64_t t = d == 1 ? steps - 1 - s : s;
        before = state;
        for (int64_t h = 0; h < hidden; ++h) {
          for (int64_t g = 0; g < layer.gates; ++g) {
            const int64_t row = g * hidden + h;
            double sum = source.real((t * batch + n) * directions * gated + d * gated + row);
            for (int64_t k = 0; k < hidden; ++k)
              sum += before[static_cast<size_t>(k)] * weights.real((d * gated + row) * hidden + k);
            sums[static_cast<size_t>(g)] = sum;
          }
          const auto unit = static_cast<size_t>(h);
          state[unit] = layer.step(sums, cell[unit]);
          const int64_t at = (t * batch + n) * wide + d * hidden + h;
          results[0].set(at, state[unit]);
          if (layer.has_cell) results[1].set(at, cell[unit]);
        }
      }
    }
  }
  return results;
}

void refuse(bool reverse, bool training) {
  if (reverse) misuse(@"recurrent: the order of results with reverse is not documented");
  if (training) misuse(@"recurrent: the contents of a training state are not documented");
}

// Since macOS 26, a recurrent layer aborts the process when it runs a second time on M5.
Evaluate runs_once(Evaluate evaluate) {
  const auto calls = std::make_shared<std::atomic<int>>(0);  // The first call finds the types of the results.
  return [=](const Values& in) {
    if (++*calls > 2 && mock_macos_version() >= 26 && mock_gpu_generation() >= 10)
      misuse(@"GPURNNOps: failed assertion `JIT not supported'");
    return evaluate(in);
  };
}

}  // namespace

@implementation MPSGraph (MockRecurrent)

- (NSArray<MPSGraphTensor*>*)singleGateRNNWithSourceTensor:(MPSGraphTensor*)source
                                           recurrentWeight:(MPSGraphTensor*)weights
                                                 initState:(MPSGraphTensor*)state
                                                descriptor:(MPSGraphSingleGateRNNDescriptor*)descriptor
                                                      name:(NSString*)name {
  refuse(descriptor.reverse, descriptor.training);
  const MPSGraphRNNActivation activation = descriptor.activation;
  const Layer layer{1, static_cast<bool>(descriptor.bidirectional), false,
                    [=](const std::vector<double>& sums, double&) { return activated(activation, sums[0]); }};
  return add(self, @"singleGateRNN", name, {source, weights, state},
             runs_once([=](const Values& in) { return run_layer(layer, in); }));
}

- (NSArray<MPSGraphTensor*>*)LSTMWithSourceTensor:(MPSGraphTensor*)source
                                  recurrentWeight:(MPSGraphTensor*)weights
                                        initState:(MPSGraphTensor*)state
                                         initCell:(MPSGraphTensor*)cell
                                       descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                             name:(NSString*)name {
  refuse(descriptor.reverse, descriptor.training);
  MPSGraphLSTMDescriptor* how = [descriptor copy];
  const size_t f = how.forgetGateLast ? 2 : 1, z = how.forgetGateLast ? 1 : 2;
  const Layer layer{4, static_cast<bool>(how.bidirectional), true, [=](const std::vector<double>& sums, double& c) {
                      c = activated(how.forgetGateActivation, sums[f]) * c +
                          activated(how.inputGateActivation, sums[0]) * activated(how.cellGateActivation, sums[z]);
                      return activated(how.outputGateActivation, sums[3]) * activated(how.activation, c);
                    }};
  const bool gives_cell = how.produceCell;
  return add(self, @"LSTM", name, {source, weights, state, cell}, runs_once([=](const Values& in) {
               Values results = run_layer(layer, in);
               if (!gives_cell) results.pop_back();
               return results;
             }));
}
@end
