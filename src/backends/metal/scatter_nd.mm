// Scatters.
//
// Where Apple leaves open what ours promise, it is composed: an index outside is replaced and its update made neutral
// (scatterAlongAxis alone skips it by itself); NaN in minima and maxima is scattered for itself; and for mode set,
// where the last update of a place counts, the numbers of the updates are scattered by their maximum, and each place
// gathers the update of its number.
#include <cmath>
#include <limits>

#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"
#include "core/known_values.h"

namespace mpsgraph::metal {
namespace {

MPSGraphScatterMode mode_named(const std::string& name) {
  return name == "add"   ? MPSGraphScatterModeAdd
         : name == "sub" ? MPSGraphScatterModeSub
         : name == "mul" ? MPSGraphScatterModeMul
         : name == "div" ? MPSGraphScatterModeDiv
         : name == "min" ? MPSGraphScatterModeMin
         : name == "max" ? MPSGraphScatterModeMax
                         : MPSGraphScatterModeSet;
}

bool is_extremum(MPSGraphScatterMode mode) { return mode == MPSGraphScatterModeMin || mode == MPSGraphScatterModeMax; }

// What changes nothing in this mode, as a constant of shape (1).
MPSGraphTensor* neutral(const Lowering& l, MPSGraphScatterMode mode, DType dtype) {
  if (!is_extremum(mode)) {
    const bool factor = mode == MPSGraphScatterModeMul || mode == MPSGraphScatterModeDiv;
    return l.scalar(factor ? 1 : 0, dtype);
  }
  const bool minimum = mode == MPSGraphScatterModeMin;
  if (is_float(dtype)) return l.scalar(minimum ? HUGE_VAL : -HUGE_VAL, dtype);
  // The ends of int32 and int64 are exact in no double: all bits but the sign, or the sign.
  const int64_t least = dtype == DType::int32   ? std::numeric_limits<int32_t>::min()
                        : dtype == DType::int64 ? std::numeric_limits<int64_t>::min()
                                                : 0;
  const int64_t most = dtype == DType::uint32   ? std::numeric_limits<uint32_t>::max()
                       : dtype == DType::uint64 ? int64_t{-1}
                                                : -(least + 1);
  return Steps(l).cast(l.ints({minimum ? most : least}, DType::int64), dtype);
}

// A scatter in any shape of ours. `scatter` puts updates into data (nil: into zeros, int32) by the indices, `gather`
// picks updates by their numbers from 0 on, anything for -1; `number` counts the updates of a place from 1 on.
struct Form {
  Dims data, updates, places;  // places: that have an update's number, beside data
  MPSGraphTensor* inside;  // of updates; null: all, or skipped by the scatter itself
  MPSGraphTensor* number;
  std::function<MPSGraphTensor*(MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode)> scatter;
  std::function<MPSGraphTensor*(MPSGraphTensor* updates, MPSGraphTensor* numbers)> gather;
};

MPSGraphTensor* combined(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates,
                         MPSGraphScatterMode mode, DType dtype) {
  const Steps s(l);
  MPSGraphTensor* const nothing = neutral(l, mode, dtype);
  if (form.inside) updates = s.select(form.inside, updates, nothing);
  if (!is_extremum(mode) || !is_float(dtype)) return form.scatter(data, updates, mode);
  MPSGraphTensor *const in_data = s.is_nan(data), *const in_updates = s.is_nan(updates);
  MPSGraphTensor* numbers =
      form.scatter(s.select(in_data, nothing, data), s.select(in_updates, nothing, updates), mode);
  MPSGraphTensor* nans =
      form.scatter(s.cast(in_data, DType::int32), s.cast(in_updates, DType::int32), MPSGraphScatterModeMax);
  return s.select(s.less(l.ints({0}), nans), l.scalar(std::numeric_limits<double>::quiet_NaN(), dtype), numbers);
}

MPSGraphTensor* replaced(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates) {
  const Steps s(l);
  MPSGraphTensor* number = form.number;
  if (form.inside) number = s.select(s.reshape(form.inside, dims_of(number.shape)), number, l.ints({0}));
  MPSGraphTensor* last = form.scatter(nil, number, MPSGraphScatterModeMax);
  MPSGraphTensor* changed = form.gather(updates, s.subtract(last, l.ints({1})));
  return s.select(s.reshape(s.less(l.ints({0}), last), form.places), changed, data);
}

GraphTensors scattered(const Lowering& l, const Form& form) {
  const Steps s(l);
  const MPSGraphScatterMode mode = mode_named(l.attributes().string("mode"));
  const DType dtype = l.dtype();
  if (mode == MPSGraphScatterModeDiv && is_integer(dtype))
    l.unsupported(cat("MPSGraph states nothing of dividing ", dtype,
                      " by updates of one place; cast to float32, or use ", "Device(\"cpu\")"));
  const bool sets = mode == MPSGraphScatterModeSet;
  const DType as = is_complex(dtype) ? DType::float32 : sets ? moved_as(dtype) : summed_as(dtype);
  return {carried(l, dtype, as, {l.input(0), l.input(1)}, [&](const GraphTensors& in) {
    MPSGraphTensor *const data = s.reshape(in[0], form.data), *const updates = s.reshape(in[1], form.updates);
    return sets ? replaced(l, form, data, updates) : combined(l, form, data, updates, mode, as);
  })};
}

// Rows of a middle axis, at indices of rank 1.
GraphTensors scattered_rows(const Lowering& l, const Lanes& lanes, int64_t count, const Picks& p) {
  const Steps s(l);
  const Dims column{count, 1};
  Form form{lanes.dims(), lanes.dims(count), {lanes.n, 1}, p.inside ? s.reshape(p.inside, column) : nil, nil, {}, {}};
  form.number = s.add(s.coordinate(0, {count}), l.ints({1}));
  form.scatter = [&](MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode) {
    const bool numbers = !data;  // they have no other axes
    if (numbers) data = l.filled(0, {DType::int32, Shape(Dims{lanes.n})});
    return [l.graph() scatterWithDataTensor:data
                              updatesTensor:updates
                              indicesTensor:p.index
                                       axis:numbers ? 0 : 1
                                       mode:mode
                                       name:l.name()];
  };
  form.gather = [&](MPSGraphTensor* updates, MPSGraphTensor* numbers) {
    return [l.graph() gatherWithUpdatesTensor:updates
                                indicesTensor:s.maximum(numbers, l.ints({0}))
                                         axis:1
                              batchDimensions:0
                                         name:nil];
  };
  return scattered(l, form);
}

bool changes_nothing(const Lowering& l) { return l.type(1).shape.elements() == 0; }

GraphTensors lower_scatter(Lowering& l) {
  if (changes_nothing(l)) return {l.input(0)};
  const Lanes lanes(l.dims(), l.axis());
  const int64_t count = l.dims(2)[0];
  return scattered_rows(l, lanes, count,
                        picks(l, l.input(2), l.dtype(2), lanes.n, constant_value(l.operation.inputs[2])));
}

GraphTensors lower_scatter_nd(Lowering& l) {
  if (changes_nothing(l)) return {l.input(0)};
  const Dims &dims = l.dims(), &indices = l.dims(2);
  const int64_t batch = l.attributes().integer("batch_dimensions"), depth = indices.back();
  const Dims axes(dims.begin() + batch, dims.begin() + batch + depth);
  const int64_t batches = element_count(Dims(dims.begin(), dims.begin() + batch));
  const int64_t vectors = element_count(Dims(indices.begin() + batch, indices.end() - 1));
  const Lanes lanes({1, batches * element_count(axes), element_count(Dims(dims.begin() + batch + depth, dims.end()))},
                    1);
  return scattered_rows(l, lanes, batches * vectors,
                        flat_picks(l, depth == 0 ? nil : l.input(2), l.dtype(2), batches, vectors, axes,
                                   constant_value(l.operation.inputs[2])));
}

// Element by element. A last axis of one is left out: Apple's kernel refuses it.
GraphTensors lower_scatter_along_axis(Lowering& l) {
  if (changes_nothing(l)) return {l.input(0)};
  const Steps s(l);
  const Lanes to(l.dims(), l.axis()), from(l.dims(2), l.axis());
  const auto short_dims = [](const Lanes& lanes) {
    return lanes.inner == 1 ? Dims{lanes.outer, lanes.n} : lanes.dims();
  };
  const Dims data_dims = short_dims(to), update_dims = short_dims(from);
  MPSGraphTensor* index = s.reshape(signed_indices(l, l.input(2), l.dtype(2)), update_dims);
  Form form{data_dims, update_dims, data_dims, nil, s.add(s.coordinate(1, update_dims), l.ints({1})), {}, {}};
  form.scatter = [&](MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode) {
    return [l.graph() scatterAlongAxis:1
                        withDataTensor:data ? data : l.filled(0, {DType::int32, Shape(data_dims)})
                         updatesTensor:updates
                         indicesTensor:index
                                  mode:mode
                                  name:l.name()];
  };
  form.gather = [&](MPSGraphTensor* updates, MPSGraphTensor* numbers) { return s.gather_along(updates, numbers, 1); };
  return scattered(l, form);
}

}  // namespace

const Lowerings scatter_nd_lowerings("scatter_nd", [] {
  define_lowering("scatter", lower_scatter);
  define_lowering("scatter_nd", lower_scatter_nd);
  define_lowering("scatter_along_axis", lower_scatter_along_axis);
});

}  // namespace mpsgraph::metal
