// Operations that only the self-test's probes use.
//
// The backend composes them from other operations, because Apple's documentation does not define the behavior that the
// probes measure. The mock implements one possible behavior, which says nothing about Apple's frameworks.
#include <cmath>

#include "graph/elementwise.h"

using namespace mock;

@implementation MPSGraphGRUDescriptor
+ (instancetype)descriptor {
  return [[self alloc] init];
}
- (id)copyWithZone:(NSZone*)zone {
  misuse(@"the mock does not support copies of this descriptor");
  return self;
}
@end

@implementation MPSGraph (MockProbes)

- (MPSGraphTensor*)reLUWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_function(self, @"reLU", name, tensor, [](double x) { return x > 0 ? x : 0.0; });
}

- (MPSGraphTensor*)randomPhiloxStateTensorWithSeed:(NSUInteger)seed name:(NSString*)name {
  return [self randomPhiloxStateTensorWithCounterLow:0 counterHigh:0 key:seed name:name];
}

- (MPSGraphTensor*)randomPhiloxStateTensorWithCounterLow:(NSUInteger)low
                                             counterHigh:(NSUInteger)high
                                                     key:(NSUInteger)key
                                                    name:(NSString*)name {
  const NSUInteger halves[] = {low, high, key};
  int32_t state[7] = {1};
  for (int i = 0; i < 6; ++i) state[1 + i] = static_cast<int32_t>(halves[i / 2] >> (i % 2 ? 32 : 0));
  return [self constantWithData:[NSData dataWithBytes:state length:sizeof state]
                          shape:@[ @7 ]
                       dataType:MPSDataTypeInt32];
}

- (MPSGraphTensor*)randomTensorWithShape:(MPSShape*)shape
                              descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                                    seed:(NSUInteger)seed
                                    name:(NSString*)name {
  MPSGraphTensor* state = [self randomPhiloxStateTensorWithSeed:seed name:nil];
  return [self randomTensorWithShape:shape descriptor:descriptor stateTensor:state name:name][0];
}

// Gates z, r, o; one direction; no input weights: source [T, N, 3 H], recurrent weight [3 H, H], bias [3 H], state [N,
// H].
- (NSArray<MPSGraphTensor*>*)GRUWithSourceTensor:(MPSGraphTensor*)source
                                 recurrentWeight:(MPSGraphTensor*)recurrent
                                     inputWeight:(MPSGraphTensor*)input
                                            bias:(MPSGraphTensor*)bias
                                       initState:(MPSGraphTensor*)initial
                                      descriptor:(MPSGraphGRUDescriptor*)descriptor
                                            name:(NSString*)name {
  if (input || !bias || !initial || descriptor.bidirectional || descriptor.reverse || descriptor.resetAfter)
    misuse(@"GRU: the mock does not support this combination of operands and flags");
  const bool flips = descriptor.flipZ;
  return add(self, @"GRU", name, {source, recurrent, bias, initial}, [flips](const Values& in) {
    const int64_t steps = in[0].dims[0], batch = in[0].dims[1], units = in[3].dims[1];
    if (in[0].dims[2] != 3 * units || in[1].dims != Dims{3 * units, units} || in[2].dims != Dims{3 * units})
      misuse(@"GRU: the shapes of the operands do not match");
    Value result(in[0].type, {steps, batch, units});
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<double> state(units);
      for (int64_t h = 0; h < units; ++h) state[h] = in[3].real(n * units + h);
      for (int64_t t = 0; t < steps; ++t) {
        const auto gate = [&](int64_t row, const std::vector<double>& before) {
          double sum = in[0].real((t * batch + n) * 3 * units + row) + in[2].real(row);
          for (int64_t k = 0; k < units; ++k) sum += before[k] * in[1].real(row * units + k);
          return sum;
        };
        std::vector<double> next(units), reset(units);
        for (int64_t h = 0; h < units; ++h) reset[h] = state[h] * sigmoid(gate(units + h, state));
        for (int64_t h = 0; h < units; ++h) {
          const double z = sigmoid(gate(h, state)), fresh = std::tanh(gate(2 * units + h, reset));
          next[h] = flips ? (1 - z) * state[h] + z * fresh : z * state[h] + (1 - z) * fresh;
          result.set((t * batch + n) * units + h, next[h]);
        }
        state = next;
      }
    }
    return Values{result};
  });
}
@end
