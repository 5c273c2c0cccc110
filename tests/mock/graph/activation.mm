// Activations that the backend uses: sigmoid and softmax.
#include <algorithm>
#include <cmath>

#include "graph/elementwise.h"

using namespace mock;

@implementation MPSGraph (MockActivation)

- (MPSGraphTensor*)sigmoidWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_function(self, @"sigmoid", name, tensor, [](double x) { return 1 / (1 + std::exp(-x)); });
}

- (MPSGraphTensor*)softMaxWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  return add_one(self, @"softMax", name, {tensor}, [=](const Values& in) {
    require(@"softMax", in[0], Takes::floats);
    const Value& x = in[0];
    const size_t along = axis_of(axis, x.rank());
    Dims others = x.dims;
    others[along] = 1;
    Value result(x.type, x.dims);
    const Dims strides = strides_of(x.dims);
    for_each_position(others, [&](const Dims& position) {
      const int64_t first = offset_of(position, strides);
      const auto at = [&](int64_t i) { return first + i * strides[along]; };
      double most = -INFINITY, total = 0;
      for (int64_t i = 0; i < x.dims[along]; ++i) most = std::max(most, x.real(at(i)));
      for (int64_t i = 0; i < x.dims[along]; ++i) {  // for float16 and bfloat16, Apple documents no wider accumulation
        result.set(at(i), total += std::exp(x.real(at(i)) - most));
        if (element_bytes(x.type) == 2) total = result.real(at(i));
      }
      for (int64_t i = 0; i < x.dims[along]; ++i) result.set(at(i), std::exp(x.real(at(i)) - most) / total);
    });
    return result;
  });
}
@end
