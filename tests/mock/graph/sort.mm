// Sorting.
//
// Apple's documentation does not mention NaN or equal elements. Apple's engineers call the sort stable
// (pytorch/pytorch#86750). Known from PyTorch: only the last four axes can be sorted; int64 is sorted incorrectly, and
// so are more than 2^22 rows, for which the mock returns zeros.
#include <algorithm>
#include <numeric>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

@implementation MPSGraph (MockSort)

- (MPSGraphTensor*)argSortWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  return add_one(self, @"arg_sort", name, {tensor}, [=](const Values& in) {
    const Value& x = in[0];
    const size_t at = axis_of(axis, x.rank());
    if (x.rank() - at > 4)
      misuse(@"sort: only the last four axes can be sorted, got axis %lu of %@", at, text_of(x.dims));
    if (x.type == MPSDataTypeInt64 || x.type == MPSDataTypeUInt64 || x.type == MPSDataTypeBool || is_complex(x.type))
      misuse(@"sort: %s is not known to work", type_name(x.type));
    Value result(MPSDataTypeInt32, x.dims);
    if (x.count() / x.dims[at] > 1 << 22) return result;
    const Dims strides = strides_of(x.dims);
    Dims lanes = x.dims;
    lanes[at] = 1;
    for_each_position(lanes, [&](const Dims& position) {
      const int64_t first = offset_of(position, strides), step = strides[at];
      std::vector<int64_t> order(static_cast<size_t>(x.dims[at]));
      std::iota(order.begin(), order.end(), int64_t{0});
      for (const int64_t i : order)
        if (x.real(first + i * step) != x.real(first + i * step)) misuse(@"sort: NaN is not documented");
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return x.real(first + a * step) < x.real(first + b * step); });
      for (size_t i = 0; i < order.size(); ++i) result.set(first + static_cast<int64_t>(i) * step, order[i]);
    });
    return result;
  });
}
@end
