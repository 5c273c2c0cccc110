// Reductions; reduced axes remain with size 1. A list of axes is required, each axis at most once.
//
// Sums support integers of at least 32 bits, float16, and float32. Plain extrema treat NaN differently depending on its
// position.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

namespace {

// Call visit(at, i, first) for each element i of x, where `at` is the position of its result and `first` whether it is
// the first element reduced to it.
using Visit = std::function<void(int64_t at, int64_t i, bool first)>;
using Reduce = std::function<void(Value& result, const Value& x, const std::function<void(const Visit&)>& each)>;

MPSGraphTensor* add_reduction(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                              NSArray<NSNumber*>* axes, Takes takes, Reduce reduce) {
  if (axes.count == 0) misuse(@"%@: needs at least one axis, got none", kind);
  std::vector<int64_t> along;
  for (NSNumber* axis in axes) along.push_back(axis.longLongValue);
  return add_one(graph, kind, name, {tensor}, [=](const Values& in) {
    require(kind, in[0], takes);
    const Value& x = in[0];
    // The types that PyTorch's backend uses. For others, kernels may be missing, which aborts the process.
    const bool known = x.type == MPSDataTypeInt32 || x.type == MPSDataTypeInt64 || x.type == MPSDataTypeFloat16 ||
                       x.type == MPSDataTypeFloat32;
    if (!known) misuse(@"%@: no kernel is known for type %s", kind, type_name(x.type));
    std::set<size_t> reduced;
    for (const int64_t axis : along)
      if (!reduced.insert(axis_of(axis, x.rank())).second)
        misuse(@"%@: axis %lld is listed twice", kind, (long long)axis);
    Dims dims = x.dims;
    for (const size_t axis : reduced) dims[axis] = 1;
    Dims strides = strides_of(dims);
    for (const size_t axis : reduced) strides[axis] = 0;
    Value result(x.type, dims);
    reduce(result, x, [&](const Visit& visit) {
      std::vector<bool> started(static_cast<size_t>(result.count()));
      int64_t i = 0;
      for_each_position(x.dims, [&](const Dims& position) {
        const int64_t at = offset_of(position, strides);
        visit(at, i++, !started[static_cast<size_t>(at)]);
        started[static_cast<size_t>(at)] = true;
      });
    });
    return result;
  });
}

}  // namespace

double mock::long_sum_error(int64_t terms) {
  static std::atomic<int> runs{0};
  const bool wrong = terms >= int64_t{1} << 20 && mock_macos_version() >= 26;
  return wrong ? 1.125 + ++runs % 3 : 1;
}

namespace {

// Float32 totals are computed in double precision. Float16 totals are computed in float16, because no wider type is
// documented.
MPSGraphTensor* add_total(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                          NSArray<NSNumber*>* axes, int64_t start, double (*real)(double, double),
                          uint64_t (*whole)(uint64_t, uint64_t)) {
  return add_reduction(
      graph, kind, name, tensor, axes, Takes::numbers, [=](Value& result, const Value& x, const auto& each) {
        if (is_whole(x.type) && element_bytes(x.type) < 4)
          misuse(@"%@: integers must have at least 32 bits, got %s", kind, type_name(x.type));
        std::vector<double> totals(static_cast<size_t>(result.count()), static_cast<double>(start));
        for (int64_t at = 0; at < result.count(); ++at) result.set(at, start);
        each([&](int64_t at, int64_t i, bool) {
          double& total = totals[static_cast<size_t>(at)];
          if (is_whole(x.type)) {
            result.set(at, static_cast<int64_t>(whole(result.natural(at), x.natural(i))));
            return;
          }
          result.set(at, total = real(total, x.real(i)));
          if (element_bytes(x.type) == 2) total = result.real(at);
        });
        const int64_t terms = x.count() / std::max<int64_t>(1, result.count());
        const double error = start == 0 ? long_sum_error(terms) : 1;  // only sums
        for (int64_t at = 0; error != 1 && at < result.count(); ++at)
          is_whole(x.type) ? result.set(at, result.whole(at) + 1) : result.set(at, result.real(at) * error);
      });
}

bool less(const Value& x, int64_t i, const Value& y, int64_t j) {
  if (!is_whole(x.type)) return x.real(i) < y.real(j);
  return is_unsigned(x.type) ? x.natural(i) < y.natural(j) : x.whole(i) < y.whole(j);
}

MPSGraphTensor* add_extremum(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                             NSArray<NSNumber*>* axes, bool largest) {
  return add_reduction(graph, kind, name, tensor, axes, Takes::numbers,
                       [=](Value& result, const Value& x, const auto& each) {
                         each([&](int64_t at, int64_t i, bool first) {
                           if (first || (largest ? less(result, at, x, i) : less(x, i, result, at)))
                             result.copy(at, x, i);
                         });
                       });
}

MPSGraphTensor* add_extremum_or_nan(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                                    NSArray<NSNumber*>* axes, bool largest) {
  return add_reduction(graph, kind, name, tensor, axes, Takes::floats,
                       [=](Value& result, const Value& x, const auto& each) {
                         each([&](int64_t at, int64_t i, bool first) {
                           const double value = x.real(i), best = result.real(at);
                           if (first || std::isnan(value) || (largest ? value > best : value < best))
                             result.copy(at, x, i);
                         });
                       });
}

}  // namespace

@implementation MPSGraph (MockReduction)

- (MPSGraphTensor*)reductionSumWithTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  return add_total(
      self, @"reductionSum", name, tensor, axes, 0, [](double a, double b) { return a + b; },
      [](uint64_t a, uint64_t b) { return a + b; });
}
- (MPSGraphTensor*)reductionProductWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString*)name {
  return add_total(
      self, @"reductionProduct", name, tensor, axes, 1, [](double a, double b) { return a * b; },
      [](uint64_t a, uint64_t b) { return a * b; });
}
- (MPSGraphTensor*)reductionMaximumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString*)name {
  return add_extremum(self, @"reductionMaximum", name, tensor, axes, true);
}
- (MPSGraphTensor*)reductionMinimumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString*)name {
  return add_extremum(self, @"reductionMinimum", name, tensor, axes, false);
}
- (MPSGraphTensor*)reductionMaximumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString*)name {
  return add_extremum_or_nan(self, @"reductionMaximumPropagateNaN", name, tensor, axes, true);
}
- (MPSGraphTensor*)reductionMinimumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString*)name {
  return add_extremum_or_nan(self, @"reductionMinimumPropagateNaN", name, tensor, axes, false);
}
- (MPSGraphTensor*)reductionAndWithTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  return add_reduction(
      self, @"reductionAnd", name, tensor, axes, Takes::booleans, [](Value& result, const Value& x, const auto& each) {
        each([&](int64_t at, int64_t i, bool first) { result.set(at, (first || result.truth(at)) && x.truth(i)); });
      });
}
- (MPSGraphTensor*)reductionOrWithTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  return add_reduction(
      self, @"reductionOr", name, tensor, axes, Takes::booleans, [](Value& result, const Value& x, const auto& each) {
        each([&](int64_t at, int64_t i, bool first) { result.set(at, (!first && result.truth(at)) || x.truth(i)); });
      });
}
@end
