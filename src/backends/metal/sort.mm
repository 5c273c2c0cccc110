// Sorting, and the largest and smallest elements (top-k), all in the order of integer keys.
//
// MPSGraph's topK is neither stable nor available for every axis and k, and Apple's documentation of sorts does not
// define the order of NaN (order.h).
#include "backends/metal/indexing.h"
#include "backends/metal/order.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

// The operand, reshaped to [rows, n] with the sorted axis last, and for each row the positions of the `count` elements
// that come first in sorted order.
struct Ordered {
  Ordered(const Lowering& l, bool descending, int64_t count) : lanes(l.dims(), l.axis()) {
    const Steps s(l);
    rows = l.reshape(l.input(), lanes.dims());
    if (lanes.inner > 1) rows = s.transpose(rows, {0, 2, 1});
    rows = s.reshape(rows, {lanes.outer * lanes.inner, lanes.n});
    MPSGraphTensor* keys = order_key(l, rows, l.dtype());
    // Inverting the keys sorts in descending order and keeps the sort stable.
    order = ascending_order(l, descending ? s.flip_bits(keys) : keys);
    if (count < lanes.n) order = s.slice(order, 1, 0, count);
    this->count = count;
  }
  MPSGraphTensor* values(const Lowering& l) const { return back(l, moved_along(l, l.dtype(), rows, order, 1)); }
  MPSGraphTensor* indices(const Lowering& l) const { return back(l, order); }

  Lanes lanes;
  MPSGraphTensor *rows, *order;
  int64_t count;

 private:
  MPSGraphTensor* back(const Lowering& l, MPSGraphTensor* result) const {
    const Steps s(l);
    if (lanes.inner == 1) return result;
    return s.transpose(s.reshape(result, {lanes.outer, lanes.inner, count}), {0, 2, 1});
  }
};

int64_t length(const Lowering& l) { return Lanes(l.dims(), l.axis()).n; }

GraphTensors lower_sort(Lowering& l) { return {Ordered(l, l.attributes().boolean("descending"), length(l)).values(l)}; }

GraphTensors lower_arg_sort(Lowering& l) {
  return {Ordered(l, l.attributes().boolean("descending"), length(l)).indices(l)};
}

template <bool largest>
GraphTensors lower_k(Lowering& l) {
  if (l.attributes().integer("k") == 0) return {nil, nil};
  const Ordered ordered(l, largest, l.attributes().integer("k"));
  return {ordered.values(l), ordered.indices(l)};
}

}  // namespace

const Lowerings sort_lowerings("sort", [] {
  define_lowering("sort", lower_sort);
  define_lowering("arg_sort", lower_arg_sort);
  define_lowering("top_k", lower_k<true>);
  define_lowering("bottom_k", lower_k<false>);
});

}  // namespace mpsgraph::metal
