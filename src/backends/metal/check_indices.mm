// check_indices: a run ends when an index lies outside of what it counts.
//
// What is fed is looked at by the host, before anything is encoded (program.mm). What is computed is looked at where it
// is: the first place outside and the index there are one more result of the run, which the host reads when the device is
// done, and assigns behind the check keep the variable as it was.
#include <algorithm>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

// The place of the feed that the indices are, in another shape maybe; -1 when they are computed.
int feed_of(const Lowering& l) {
  const Tensor* tensor = l.operation.input(0);
  while (tensor->operation->is("reshape") || tensor->operation->is("identity")) tensor = tensor->operation->input(0);
  const auto& feeds = l.program.program.feeds;
  const auto found = std::ranges::find(feeds, tensor);
  return found == feeds.end() ? -1 : static_cast<int>(found - feeds.begin());
}

GraphTensors lower_check_indices(Lowering& l) {
  const bool in_root = !l.operation.parent->owner;
  const int feed = l.program.is_within ? -1 : feed_of(l);
  if (in_root && feed >= 0) {
    l.program.checks.push_back({&l.operation, feed, nil});
    return {};
  }
  // Where nobody can be told, starts of slices are held inside by their own lowering.
  if (!in_root && l.attributes().string("of").starts_with("dynamic_")) return {};
  if (!in_root)
    l.unsupported(cat("indices in a block of control flow cannot end the run there: give out_of_range=\"clip\" or ",
                      "\"zeros\", check them before, or use Device(\"cpu\")"));
  const Steps s(l);
  const Ints& lengths = l.attributes().integers("lengths");
  const auto depth = static_cast<int64_t>(lengths.size());
  const int64_t count = element_count(l.dims());
  MPSGraphTensor* index = s.reshape(signed_indices(l, l.input(), l.dtype()), {count / depth, depth});
  const DType wide = index.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
  Ints held;  // in 32 bits: an index of that type that is no larger than the largest is inside
  for (const int64_t length : lengths)
    held.push_back(wide == DType::int32 ? std::min<int64_t>(length - 1, INT32_MAX) : length - 1);
  MPSGraphTensor* outside = s.either(s.less(index, l.ints({0}, wide)), s.less(l.ints(held, wide), index));
  for (const int64_t ignored : l.attributes().integers("ignored"))
    outside = s.both(outside, s.differ(index, l.ints({ignored}, wide)));
  MPSGraphTensor* place = s.select(s.reshape(outside, {count}), s.coordinate(0, {count}), l.ints({count}));
  MPSGraphTensor* first = [l.graph() reductionMinimumWithTensor:place axis:0 name:nil];
  MPSGraphTensor* value = [l.graph() gatherWithUpdatesTensor:s.reshape(index, {count})
                                               indicesTensor:s.minimum(first, l.ints({count - 1}))
                                                        axis:0
                                             batchDimensions:0
                                                        name:nil];
  l.program.checks.push_back({&l.operation, -1, s.concat({s.cast(first, wide), s.reshape(value, {1})}, 0)});
  MPSGraphTensor* none = s.less(l.ints({count - 1}), first);
  l.program.intact = l.program.intact ? s.both(l.program.intact, none) : none;
  return {};
}

}  // namespace

void register_check_indices() { define_lowering("check_indices", lower_check_indices); }

}  // namespace mpsgraph::metal
