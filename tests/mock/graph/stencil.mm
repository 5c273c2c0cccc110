// Stencils: weighted reductions over windows of the last four axes, and the descriptor.
//
// From the documentation: y[i] = reduction over j of x[i + j] w[j], over the last four dimensions of a source of rank 4
// or more, with strides and dilations. Boundary modes, padding styles, and argument reductions raise, because they are
// not needed or not documented well enough.
#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

@implementation MPSGraphStencilOpDescriptor
+ (instancetype)descriptorWithReductionMode:(MPSGraphReductionMode)reductionMode
                                    offsets:(MPSShape*)offsets
                                    strides:(MPSShape*)strides
                              dilationRates:(MPSShape*)dilationRates
                            explicitPadding:(MPSShape*)explicitPadding
                               boundaryMode:(MPSGraphPaddingMode)boundaryMode
                               paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                            paddingConstant:(float)paddingConstant {
  MPSGraphStencilOpDescriptor* d = [[self alloc] init];
  d.reductionMode = reductionMode;
  d.offsets = offsets;
  d.strides = strides;
  d.dilationRates = dilationRates;
  d.explicitPadding = explicitPadding;
  d.boundaryMode = boundaryMode;
  d.paddingStyle = paddingStyle;
  d.paddingConstant = paddingConstant;
  return d;
}
@end

@implementation MPSGraph (MockStencil)

- (MPSGraphTensor*)stencilWithSourceTensor:(MPSGraphTensor*)source
                             weightsTensor:(MPSGraphTensor*)weights
                                descriptor:(MPSGraphStencilOpDescriptor*)descriptor
                                      name:(NSString*)name {
  const Dims strides = dims_of(descriptor.strides), dilations = dims_of(descriptor.dilationRates);
  const Dims padding = dims_of(descriptor.explicitPadding);
  const MPSGraphReductionMode mode = descriptor.reductionMode;
  if (strides.size() != 4 || dilations.size() != 4 || padding.size() != 8 || descriptor.offsets.count != 4)
    misuse(@"stencil: expected four strides, dilations, and offsets, and eight paddings");
  if (descriptor.paddingStyle != MPSGraphPaddingStyleExplicit)
    misuse(@"stencil: the mock only supports explicit padding");
  if (std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p != 0; }))
    misuse(@"stencil: the mock does not support padding, and thus no boundary modes");
  if (mode != MPSGraphReductionModeSum && mode != MPSGraphReductionModeMin && mode != MPSGraphReductionModeMax)
    misuse(@"stencil: reduction mode %lu is not supported", (unsigned long)mode);
  return add_one(self, @"stencil", name, {source, weights}, [=](const Values& in) {
    const Value &x = in[0], &w = in[1];
    if (!is_real(x.type) || x.type != w.type || x.rank() < 4 || w.rank() != 4)
      misuse(@"stencil: expected a source of rank 4 or more and weights of rank 4, both of the same floating-point "
              "type, got %s %@ and %s %@",
             type_name(x.type), text_of(x.dims), type_name(w.type), text_of(w.dims));
    const size_t lead = x.rank() - 4;
    Dims dims = x.dims;
    for (size_t i = 0; i < 4; ++i) {
      const int64_t room = x.dims[lead + i] - ((w.dims[i] - 1) * dilations[i] + 1);
      if (room < 0) misuse(@"stencil: weights %@ do not fit into the source %@", text_of(w.dims), text_of(x.dims));
      dims[lead + i] = room / strides[i] + 1;
    }
    Value result(x.type, dims);
    const Dims steps = strides_of(x.dims);
    int64_t next = 0;
    for_each_position(dims, [&](const Dims& place) {
      std::vector<double> products;
      for_each_position(w.dims, [&](const Dims& tap) {
        Dims at = place;
        for (size_t i = 0; i < 4; ++i) at[lead + i] = place[lead + i] * strides[i] + tap[i] * dilations[i];
        products.push_back(x.real(offset_of(at, steps)) * w.real(static_cast<int64_t>(products.size())));
      });
      double reduced = products[0];
      for (size_t t = 1; t < products.size(); ++t) {
        const double now = products[t];
        if (mode == MPSGraphReductionModeSum)
          reduced += now;
        else if (std::isnan(now) || (mode == MPSGraphReductionModeMin ? now < reduced : now > reduced))
          reduced = now;
      }
      result.set(next++, reduced);
    });
    return result;
  });
}
@end
