// Complex numbers, stored as two adjacent numbers, and their parts.
#include "graph/elementwise.h"

using namespace mock;

namespace {

MPSGraphTensor* add_part(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                         double (*part)(Complex)) {
  return add_one(graph, kind, name, {tensor}, [=](const Values& in) {
    if (!is_complex(in[0].type)) misuse(@"%@: the tensor must be complex, got %s", kind, type_name(in[0].type));
    Value result(part_type(in[0].type), in[0].dims);
    for (int64_t i = 0; i < result.count(); ++i) result.set(i, part(in[0].complex(i)));
    return result;
  });
}

}  // namespace

@implementation MPSGraph (MockComplex)

- (MPSGraphTensor*)realPartOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_part(self, @"realPart", name, tensor, [](Complex z) { return z.real(); });
}
- (MPSGraphTensor*)imaginaryPartOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_part(self, @"imaginaryPart", name, tensor, [](Complex z) { return z.imag(); });
}
- (MPSGraphTensor*)conjugateWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_one(self, @"conjugate", name, {tensor}, [](const Values& in) {
    if (!is_complex(in[0].type)) misuse(@"conjugate: the tensor must be complex, got %s", type_name(in[0].type));
    Value result = in[0];
    for (int64_t i = 0; i < result.count(); ++i) result.set(i, std::conj(in[0].complex(i)));
    return result;
  });
}
- (MPSGraphTensor*)complexTensorWithRealTensor:(MPSGraphTensor*)real
                               imaginaryTensor:(MPSGraphTensor*)imaginary
                                          name:(NSString*)name {
  return add_one(self, @"complexTensor", name, {real, imaginary}, [](const Values& in) {
    require_same_type(@"complexTensor", in);
    if (in[0].type != MPSDataTypeFloat32 && in[0].type != MPSDataTypeFloat16)
      misuse(@"complexTensor: the parts must be float32 or float16, got %s", type_name(in[0].type));
    const Dims dims = broadcast_dims(in[0].dims, in[1].dims);
    const Value x = in[0].broadcast(dims), y = in[1].broadcast(dims);
    Value result(complex_type(in[0].type), dims);
    for (int64_t i = 0; i < result.count(); ++i) result.set(i, Complex(x.real(i), y.real(i)));
    return result;
  });
}
@end
