// Scattering updates by indices.
//
// Apple's documentation: collisions are resolved according to the mode, in no specified order. So in set mode, where
// the order decides, updates are applied in a random order. (Sums are computed in the order of the updates, for tests
// that compare two runs; on a GPU, they may round differently each time.) Only scatterAlongAxis is documented to skip
// updates at out-of-range indices; the others refuse them. Arithmetic is known to work for 32-bit types and float16,
// but integer division is not. Integers are converted to float32 as in gathers; their extrema require macOS 15 and at
// most 32 bits; no known caller uses their products.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "graph/graph.h"
#include "metal/mock_metal.h"
#include "mock.h"

using namespace mock;

namespace {

std::vector<int64_t> order_of(int64_t count, MPSGraphScatterMode mode) {
  static thread_local std::minstd_rand random(std::random_device{}());
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (mode == MPSGraphScatterModeSet) std::shuffle(order.begin(), order.end(), random);
  return order;
}

void update(Value& result, int64_t to, const Value& updates, int64_t from, MPSGraphScatterMode mode) {
  if (mode == MPSGraphScatterModeSet) return result.copy(to, updates, from);
  if (is_whole(result.type)) {
    const uint64_t a = result.natural(to), b = updates.natural(from);
    const bool less = is_unsigned(result.type) ? b < a : static_cast<int64_t>(b) < static_cast<int64_t>(a);
    const uint64_t value = mode == MPSGraphScatterModeAdd   ? a + b
                           : mode == MPSGraphScatterModeSub ? a - b
                           : mode == MPSGraphScatterModeMul ? a * b
                           : mode == MPSGraphScatterModeMin ? (less ? b : a)
                                                            : (less ? a : b);
    return result.set(to, static_cast<int64_t>(value));
  }
  const double a = result.real(to), b = updates.real(from);
  // NaN in minima and maxima is not documented.
  if ((mode == MPSGraphScatterModeMin || mode == MPSGraphScatterModeMax) && (std::isnan(a) || std::isnan(b)))
    misuse(@"scatter: NaN in minimum and maximum modes is not documented");
  result.set(to, mode == MPSGraphScatterModeAdd   ? a + b
                 : mode == MPSGraphScatterModeSub ? a - b
                 : mode == MPSGraphScatterModeMul ? a * b
                 : mode == MPSGraphScatterModeDiv ? a / b
                 : mode == MPSGraphScatterModeMin ? std::min(a, b)
                                                  : std::max(a, b));
}

void require_scattered(const Values& in, MPSGraphScatterMode mode) {
  const Value &data = in[0], &updates = in[1], &indices = in[2];
  if (data.type != updates.type)
    misuse(@"scatter: updates must be %s like the data, got %s", type_name(data.type), type_name(updates.type));
  if (data.type == MPSDataTypeBool || is_complex(data.type) || (is_whole(data.type) && element_bytes(data.type) < 4))
    misuse(@"scatter: %s is not known to work", type_name(data.type));
  if (is_whole(data.type) && (mode == MPSGraphScatterModeDiv || mode == MPSGraphScatterModeMul))
    misuse(@"scatter: a scattered product of integers is not known to work");
  const bool extremum = mode == MPSGraphScatterModeMin || mode == MPSGraphScatterModeMax;
  if (is_whole(data.type) && extremum && (element_bytes(data.type) > 4 || mock_macos_version() < 15.0))
    misuse(@"scatter: a scattered extremum of %s is not supported on macOS %g", type_name(data.type),
           mock_macos_version());
  if (indices.type != MPSDataTypeInt32)
    misuse(@"scatter: indices must be int32, as in all known callers, got %s", type_name(indices.type));
}

}  // namespace

@implementation MPSGraph (MockScatter)

- (MPSGraphTensor*)scatterWithDataTensor:(MPSGraphTensor*)data
                           updatesTensor:(MPSGraphTensor*)updates
                           indicesTensor:(MPSGraphTensor*)indices
                                    axis:(NSInteger)axis
                                    mode:(MPSGraphScatterMode)mode
                                    name:(NSString*)name {
  return add_one(self, @"scatter", name, {data, updates, indices}, [=](const Values& in) {
    require_scattered(in, mode);
    const size_t at = axis_of(axis, in[0].rank());
    Dims expected = in[0].dims;
    expected[at] = in[2].count();
    if (in[2].rank() != 1 || in[1].dims != expected)
      misuse(@"scatter: updates %@ and indices %@ do not match data %@", text_of(in[1].dims), text_of(in[2].dims),
             text_of(in[0].dims));
    Value result = in[0];
    const Dims strides = strides_of(in[0].dims);
    std::vector<int64_t> targets;
    for_each_position(in[1].dims, [&](const Dims& position) {
      Dims to = position;
      to[at] = in[2].whole(position[at]);
      if (to[at] < 0 || to[at] >= in[0].dims[at])
        misuse(@"scatter: index %lld is out of range for an axis of size %lld", (long long)to[at],
               (long long)in[0].dims[at]);
      targets.push_back(offset_of(to, strides));
    });
    for (const int64_t i : order_of(in[1].count(), mode)) update(result, targets[i], in[1], i, mode);
    return through_float32(result);
  });
}

- (MPSGraphTensor*)scatterAlongAxis:(NSInteger)axis
                     withDataTensor:(MPSGraphTensor*)data
                      updatesTensor:(MPSGraphTensor*)updates
                      indicesTensor:(MPSGraphTensor*)indices
                               mode:(MPSGraphScatterMode)mode
                               name:(NSString*)name {
  return add_one(self, @"scatter_along_axis", name, {data, updates, indices}, [=](const Values& in) {
    require_scattered(in, mode);
    const size_t at = axis_of(axis, in[0].rank());
    Dims expected = in[0].dims;
    expected[at] = in[1].rank() == in[0].rank() ? in[1].dims[at] : 0;
    if (at + 1 < expected.size() && expected.back() == 1)
      misuse(@"scatterAlongAxis: a last axis of size 1 aborts on a Mac, got axis %lu of %@", at, text_of(in[0].dims));
    if (in[1].dims != expected || in[2].dims != expected)
      misuse(@"scatterAlongAxis: updates %@ and indices %@ do not match data %@", text_of(in[1].dims),
             text_of(in[2].dims), text_of(in[0].dims));
    Value result = in[0];
    const Dims strides = strides_of(in[0].dims);
    std::vector<int64_t> targets;
    for_each_position(in[1].dims, [&](const Dims& position) {
      Dims to = position;
      to[at] = in[2].whole(static_cast<int64_t>(targets.size()));
      targets.push_back(to[at] < 0 || to[at] >= in[0].dims[at] ? -1 : offset_of(to, strides));
    });
    for (const int64_t i : order_of(in[1].count(), mode))
      if (targets[i] >= 0) update(result, targets[i], in[1], i, mode);
    return through_float32(result);
  });
}
@end
