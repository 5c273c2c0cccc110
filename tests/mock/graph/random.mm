// Random numbers from a state tensor: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011) as TensorFlow uses it.
//
// A state is int32[7]: the algorithm's number 1, the counter's words from the low one, and the key's words. Apple
// documents that equal states give equal streams, and that the Philox numbers are TensorFlow's: for float32, the low 23
// bits of a word are the mantissa of a number in [1, 2), from which 1 is subtracted. How far a draw advances the state
// is not documented, so the state returned here is unusable. Only what the backend requests can be drawn.
#include <cstring>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

@implementation MPSGraphRandomOpDescriptor
@synthesize dataType = _dataType, distribution = _distribution, min = _min, max = _max;
+ (instancetype)descriptorWithDistribution:(MPSGraphRandomDistribution)distribution dataType:(MPSDataType)type {
  MPSGraphRandomOpDescriptor* descriptor = [[self alloc] init];
  descriptor->_distribution = distribution;
  descriptor->_dataType = type;
  descriptor->_max = 1;
  return descriptor;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSGraphRandomOpDescriptor* copy = [MPSGraphRandomOpDescriptor descriptorWithDistribution:_distribution
                                                                                   dataType:_dataType];
  copy->_min = _min;
  copy->_max = _max;
  return copy;
}
@end

namespace {

struct Generator {
  uint32_t counter[4], key[2];

  explicit Generator(const Value& state) {
    if (state.type != MPSDataTypeInt32 || state.dims != Dims{7})
      misuse(@"random: the state must be int32 of shape (7)");
    for (int i = 0; i < 4; ++i) counter[i] = static_cast<uint32_t>(state.whole(1 + i));
    for (int i = 0; i < 2; ++i) key[i] = static_cast<uint32_t>(state.whole(5 + i));
  }

  void next(uint32_t (&out)[4]) {
    std::memcpy(out, counter, sizeof out);
    uint32_t round_key[2] = {key[0], key[1]};
    for (int round = 0; round < 10; ++round) {
      const unsigned long long first = 0xD2511F53ull * out[0], second = 0xCD9E8D57ull * out[2];
      const uint32_t left = static_cast<uint32_t>(second >> 32) ^ out[1] ^ round_key[0];
      const uint32_t right = static_cast<uint32_t>(first >> 32) ^ out[3] ^ round_key[1];
      out[0] = left, out[1] = static_cast<uint32_t>(second), out[2] = right, out[3] = static_cast<uint32_t>(first);
      round_key[0] += 0x9E3779B9u, round_key[1] += 0xBB67AE85u;
    }
    for (uint32_t& word : counter)
      if (++word != 0) break;
  }
};

}  // namespace

@implementation MPSGraph (MockRandom)

- (NSArray<MPSGraphTensor*>*)randomTensorWithShape:(MPSShape*)shape
                                        descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                                       stateTensor:(MPSGraphTensor*)state
                                              name:(NSString*)name {
  if (descriptor.distribution != MPSGraphRandomDistributionUniform || descriptor.dataType != MPSDataTypeFloat32)
    misuse(@"random: the mock only supports uniform float32 numbers");
  const Dims dims = dims_of(shape);
  if (dims.size() > 4) misuse(@"random: numbers are known to be wrong for more than four axes, got %@", text_of(dims));
  const double low = descriptor.min, width = descriptor.max - descriptor.min;
  return add(self, @"random", name, {state}, [=](const Values& in) {
    Generator generator(in[0]);
    Value values(MPSDataTypeFloat32, dims), useless(MPSDataTypeInt32, {7});
    uint32_t block[4];
    for (int64_t i = 0; i < values.count(); ++i) {
      if (i % 4 == 0) generator.next(block);
      values.set(i, low + width * static_cast<double>(block[i % 4] & 0x7FFFFFu) / 8388608.0);
    }
    return Values{values, useless};
  });
}
@end
