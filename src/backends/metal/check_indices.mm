// check_indices ends a run if an index is out of range.
//
// The host checks indices that are fed, before anything is encoded (program.mm). Computed indices are checked on the
// device: the first out-of-range position and the index at that position become an additional result, which the host
// reads after completion. Assignments after a failed check keep the variable's old value. A check inside a control-flow
// block cannot end the run; the out-of-range index that it finds becomes a result of the block and is reported after
// the block (block_checks.mm).
#include <algorithm>
#include <cstring>
#include <map>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::metal {
namespace {

// If the indices are a feed, possibly reshaped, return the position of that feed; return -1 if the indices are
// computed.
int feed_of(const Lowering& l) {
  const Tensor* tensor = l.operation.input(0);
  while (tensor->operation->is({"reshape", "identity"})) tensor = tensor->operation->input(0);
  const auto& feeds = l.program.program.feeds;
  const auto found = std::ranges::find(feeds, tensor);
  return found == feeds.end() ? -1 : static_cast<int>(found - feeds.begin());
}

// Return int64[3]: the check's number (0 if all indices are valid), the first out-of-range position, and the index at
// that position.
MPSGraphTensor* found_outside(const Lowering& l, int64_t number) {
  const Steps s(l);
  const Ints& lengths = l.attributes().integers("lengths");
  const auto depth = static_cast<int64_t>(lengths.size());
  const int64_t count = element_count(l.dims());
  MPSGraphTensor* index = s.reshape(signed_indices(l, l.input(), l.dtype()), {count / depth, depth});
  const DType wide = index.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
  Ints last;  // last valid indices; int32 indices are at most INT32_MAX, even for longer axes
  for (const int64_t length : lengths)
    last.push_back(wide == DType::int32 ? std::min<int64_t>(length - 1, INT32_MAX) : length - 1);
  MPSGraphTensor* outside = s.either(s.less(index, l.ints({0}, wide)), s.less(l.ints(last, wide), index));
  for (const int64_t ignored : l.attributes().integers("ignored"))
    outside = s.both(outside, s.differ(index, l.ints({ignored}, wide)));
  MPSGraphTensor* place = s.select(s.reshape(outside, {count}), s.coordinate(0, {count}), l.ints({count}));
  MPSGraphTensor* lowest = [l.graph() reductionMinimumWithTensor:place axes:@[ @0 ] name:nil];
  MPSGraphTensor* first = s.reshape(lowest, {1});
  MPSGraphTensor* value = moved(l, wide, s.reshape(index, {count}), [&](MPSGraphTensor* x) {
    return [l.graph() gatherWithUpdatesTensor:x
                                indicesTensor:s.minimum(first, l.ints({count - 1}))
                                         axis:0
                              batchDimensions:0
                                         name:nil];
  });
  MPSGraphTensor* found = s.select(s.less(first, l.ints({count})), l.ints({number}), l.ints({0}));
  return s.concat(
      {s.cast(found, DType::int64), s.cast(first, DType::int64), s.cast(s.reshape(value, {1}), DType::int64)}, 0);
}

// An out-of-range index found in the root block ends the run.
void report(Lowering& l, std::map<int64_t, const Operation*> checks, MPSGraphTensor* found) {
  const Steps s(l);
  const Operation* first = checks.begin()->second;
  l.program.reports.push_back({first,
                               -1,
                               {found},
                               {{DType::int64, Shape(Dims{3})}},
                               [checks = std::move(checks)](const std::vector<runtime::NDArray>& arrays) {
                                 int64_t outside[3];
                                 std::memcpy(outside, arrays[0].data(), sizeof outside);
                                 if (outside[0]) ops::refuse(*checks.at(outside[0]), outside[1], outside[2]);
                               }});
  MPSGraphTensor* none = s.equal(s.slice(found, 0, 0, 1), l.ints({0}, DType::int64));
  l.program.intact = l.program.intact ? s.both(l.program.intact, none) : none;
}

GraphTensors lower_check_indices(Lowering& l) {
  const int feed = l.program.is_within ? -1 : feed_of(l);
  if (feed >= 0)
    l.program.reports.push_back({&l.operation, feed, {}, {}, {}});
  else
    report(l, {{1, &l.operation}}, found_outside(l, 1));
  return {};
}

GraphTensors lower_find_outside(Lowering& l) { return {found_outside(l, l.attributes().integer("number"))}; }

void collect(const Operation& operation, std::map<int64_t, const Operation*>& checks) {
  if (operation.is("find_outside")) checks[operation.attributes.integer("number")] = &operation;
  for (const auto& block : operation.blocks)
    for (const auto& inner : block->operations) collect(*inner, checks);
}

GraphTensors lower_report_outside(Lowering& l) {
  std::map<int64_t, const Operation*> checks;
  collect(*l.operation.input(0)->operation, checks);
  report(l, std::move(checks), l.input());
  return {};
}

}  // namespace

const Lowerings check_indices_lowerings("check_indices", [] {
  define_lowering("check_indices", lower_check_indices);
  define_lowering("find_outside", lower_find_outside);
  define_lowering("report_outside", lower_report_outside);
});

}  // namespace mpsgraph::metal
