// Cumulative operations (scans).
//
// Apple's documentation: exclusive scans start with 0 for sums, 1 for products, and the end of the dtype's range for
// extrema; reverse inverts the direction. Measured by others on Apple's systems: only the last four axes can be
// scanned, NaN is ignored, and extrema start with the largest finite number. Integers of less than 32 bits and unsigned
// integers are not known to work.
#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

using Combine = std::function<void(Value& running, const Value& x, int64_t i)>;

Value scanned(const Value& x, int64_t axis, bool exclusive, bool reverse, const Value& start, const Combine& combine) {
  const size_t at = axis_of(axis, x.rank());
  if (x.rank() - at > 4)
    misuse(@"scan: only the last four axes are supported, got axis %lu of %@", at, text_of(x.dims));
  if (is_complex(x.type) || (is_whole(x.type) && (is_unsigned(x.type) || element_bytes(x.type) < 4)))
    misuse(@"scan: %s is not known to work", type_name(x.type));
  Value result(x.type, x.dims);
  const Dims strides = strides_of(x.dims);
  Dims lanes = x.dims;
  lanes[at] = 1;
  for_each_position(lanes, [&](const Dims& position) {
    const int64_t first = offset_of(position, strides);
    Value running = start;
    for (int64_t k = 0; k < x.dims[at]; ++k) {
      const int64_t i = first + (reverse ? x.dims[at] - 1 - k : k) * strides[at];
      if (exclusive) result.copy(i, running, 0);
      combine(running, x, i);
      if (!exclusive) result.copy(i, running, 0);
    }
  });
  return result;
}

Value one_of(MPSDataType type, double number) {
  Value value(type, {1});
  value.set(0, number);
  return value;
}

// Return the largest or the smallest number of the type.
Value end_of(MPSDataType type, bool largest) {
  Value value(type, {1});
  if (is_whole(type)) {
    const auto bits = static_cast<int>(8 * element_bytes(type));
    const int64_t lowest = bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
    value.set(0, largest ? -(lowest + 1) : lowest);
  } else {
    const double most = type == MPSDataTypeFloat16    ? 65504.0
                        : type == MPSDataTypeBFloat16 ? 3.3895313892515355e38
                                                      : 3.4028234663852886e38;
    value.set(0, largest ? most : -most);
  }
  return value;
}

MPSGraphTensor* add_extremum(MPSGraph* graph, NSString* name, MPSGraphTensor* tensor, int64_t axis, bool exclusive,
                             bool reverse, bool maximum) {
  return add_one(graph, maximum ? @"cumulative_maximum" : @"cumulative_minimum", name, {tensor}, [=](const Values& in) {
    return scanned(in[0], axis, exclusive, reverse, end_of(in[0].type, !maximum),
                   [maximum](Value& running, const Value& x, int64_t i) {
                     const bool over = is_whole(x.type)
                                           ? (maximum ? x.whole(i) >= running.whole(0) : x.whole(i) <= running.whole(0))
                                       : maximum ? x.real(i) >= running.real(0)
                                                 : x.real(i) <= running.real(0);
                     if (over) running.copy(0, x, i);
                   });
  });
}

}  // namespace

@implementation MPSGraph (MockCumulative)

- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor
                                      axis:(NSInteger)axis
                                 exclusive:(BOOL)exclusive
                                   reverse:(BOOL)reverse
                                      name:(NSString*)name {
  return add_one(self, @"cumulative_sum", name, {tensor}, [=](const Values& in) {
    return scanned(in[0], axis, exclusive, reverse, one_of(in[0].type, 0),
                   [](Value& running, const Value& x, int64_t i) {
                     if (is_whole(x.type))
                       running.set(0, static_cast<int64_t>(running.natural(0) + x.natural(i)));
                     else
                       running.set(0, running.real(0) + x.real(i));
                   });
  });
}

- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString*)name {
  return add_one(self, @"cumulative_product", name, {tensor}, [=](const Values& in) {
    return scanned(in[0], axis, exclusive, reverse, one_of(in[0].type, 1),
                   [](Value& running, const Value& x, int64_t i) {
                     if (is_whole(x.type))
                       running.set(0, static_cast<int64_t>(running.natural(0) * x.natural(i)));
                     else
                       running.set(0, running.real(0) * x.real(i));
                   });
  });
}

- (MPSGraphTensor*)cumulativeMinimumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString*)name {
  return add_extremum(self, name, tensor, axis, exclusive, reverse, false);
}

- (MPSGraphTensor*)cumulativeMaximumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString*)name {
  return add_extremum(self, name, tensor, axis, exclusive, reverse, true);
}
@end
