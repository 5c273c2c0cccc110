// Scatters.
//
// Cases that Apple leaves open but this library defines are composed. The update at an out-of-range index is replaced
// with a neutral update at a valid index; only scatterAlongAxis skips such updates itself. NaN in minimum and maximum
// modes is scattered separately. In set mode, the last update of a position wins: the updates are numbered, their
// numbers are scattered in maximum mode, and each position gathers the update with the resulting number. All values are
// scattered as float32, because MPSGraph converts integers to float32 in any case and has no integer extrema before
// macOS 15 (indexing.h; pytorch/pytorch#141948).
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

// Return the neutral element of the mode, as a constant of shape (1).
MPSGraphTensor* neutral(const Lowering& l, MPSGraphScatterMode mode, DType dtype) {
  if (!is_extremum(mode)) {
    const bool factor = mode == MPSGraphScatterModeMul || mode == MPSGraphScatterModeDiv;
    return l.scalar(factor ? 1 : 0, dtype);
  }
  return l.scalar(mode == MPSGraphScatterModeMin ? HUGE_VAL : -HUGE_VAL, dtype);
}

// Describes a scatter operation of any kind. `scatter` writes updates into data (nil means zeros of shape `places`) at
// the indices. `gather` selects updates by their index, which starts at 0; for index -1, it may return any value.
// `number` holds the index of each update plus 1.
struct Form {
  Dims data, updates, places;  // `places` is the shape of the update numbers, broadcastable to data
  int64_t count;  // maximum number of updates at one position
  MPSGraphTensor* inside;  // validity of each update; null if all are valid or `scatter` skips invalid ones
  MPSGraphTensor* number;
  std::function<MPSGraphTensor*(MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode)> scatter;
  std::function<MPSGraphTensor*(MPSGraphTensor* updates, MPSGraphTensor* numbers)> gather;
  // Function that reads the value of a tensor at the position of each update.
  std::function<MPSGraphTensor*(MPSGraphTensor* data)> look;
};

MPSGraphTensor* combined(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates,
                         MPSGraphScatterMode mode, DType dtype) {
  const Steps s(l);
  MPSGraphTensor* const nothing = neutral(l, mode, dtype);
  if (form.inside) updates = s.select(form.inside, updates, nothing);
  if (!is_extremum(mode)) return form.scatter(data, updates, mode);
  MPSGraphTensor *const in_data = s.is_nan(data), *const in_updates = s.is_nan(updates);
  MPSGraphTensor* numbers =
      form.scatter(s.select(in_data, nothing, data), s.select(in_updates, nothing, updates), mode);
  MPSGraphTensor* nans =
      form.scatter(s.cast(in_data, DType::float32), s.cast(in_updates, DType::float32), MPSGraphScatterModeMax);
  return s.select(s.less(l.scalar(0, DType::float32), nans), l.scalar(std::numeric_limits<double>::quiet_NaN(), dtype),
                  numbers);
}

// Find the extremum of integers that float32 cannot represent. The integers are split into parts, which are compared
// one after the other, highest first. A number takes part in a comparison only if all of its higher parts equal the
// extremum found for them at its position.
MPSGraphTensor* extremum_of_integers(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates,
                                     bool largest, DType dtype) {
  const Steps s(l);
  // Convert the integers to unsigned numbers, inverted for a minimum, so that the largest number is always the result.
  const DType as = size_of(dtype) == 8 ? DType::int64 : DType::int32;
  const auto turned = [&](MPSGraphTensor* x) {
    if (is_signed(dtype)) x = s.exclusive_or(x, l.ints({as == DType::int64 ? INT64_MIN : INT32_MIN}, as));
    return largest ? x : s.flip_bits(x);
  };
  const auto parts = [&](MPSGraphTensor* x) { return parts_of_integers(l, turned(x), dtype, DType::uint16); };
  const GraphTensors own = parts(data), others = parts(updates);
  MPSGraphTensor *const none = l.scalar(-1, DType::float32), *own_lead = nil, *lead = form.inside;
  GraphTensors best(own.size());
  for (size_t i = own.size(); i-- > 0;) {
    const auto led = [&](MPSGraphTensor* by, MPSGraphTensor* x) { return by ? s.select(by, x, none) : x; };
    best[i] = form.scatter(led(own_lead, own[i]), led(lead, others[i]), MPSGraphScatterModeMax);
    const auto and_leads = [&](MPSGraphTensor* by, MPSGraphTensor* is) { return by ? s.both(by, is) : is; };
    own_lead = and_leads(own_lead, s.equal(own[i], best[i]));
    lead = and_leads(lead, s.equal(others[i], form.look(best[i])));
  }
  return turned(joined_parts(l, best, dtype));
}

// Scatter integers. Sums are computed byte by byte, and extrema of small integers in float32.
MPSGraphTensor* combined_integers(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates,
                                  MPSGraphScatterMode mode, DType dtype) {
  const Steps s(l);
  if (mode == MPSGraphScatterModeAdd || mode == MPSGraphScatterModeSub) {
    MPSGraphTensor* sum = added(l, dtype, updates, form.count, [&](MPSGraphTensor* x) {
      if (form.inside) x = s.select(form.inside, x, l.scalar(0, DType::float32));
      return form.scatter(l.filled(0, {DType::float32, Shape(form.data)}), x, MPSGraphScatterModeAdd);
    });
    return mode == MPSGraphScatterModeAdd ? s.add(data, sum) : s.subtract(data, sum);
  }
  if (size_of(dtype) < 4)
    return carried(l, dtype, DType::float32, {data, updates},
                   [&](const GraphTensors& in) { return combined(l, form, in[0], in[1], mode, DType::float32); });
  return extremum_of_integers(l, form, data, updates, mode == MPSGraphScatterModeMax, dtype);
}

MPSGraphTensor* replaced(const Lowering& l, const Form& form, MPSGraphTensor* data, MPSGraphTensor* updates) {
  const Steps s(l);
  constexpr int64_t most = 1 << 24;  // float32 represents integers up to this limit exactly
  if (form.count > most)
    l.unsupported(cat("a scatter must have at most ", most, " updates, because MPSGraph numbers them in float32, got ",
                      form.count, "; scatter in several steps, or use device=\"cpu\""));
  MPSGraphTensor* number = s.cast(form.number, DType::float32);
  MPSGraphTensor* const zero = l.scalar(0, DType::float32);
  if (form.inside) number = s.select(s.reshape(form.inside, dims_of(number.shape)), number, zero);
  MPSGraphTensor* last = form.scatter(nil, number, MPSGraphScatterModeMax);
  MPSGraphTensor* index = s.subtract(s.cast(last, DType::int32), l.ints({1}));
  const DType dtype = l.dtype();
  MPSGraphTensor* changed = moved(l, dtype, updates, [&](MPSGraphTensor* x) { return form.gather(x, index); });
  return carried(l, dtype, moved_as(dtype), {changed, data}, [&](const GraphTensors& in) {
    return s.select(s.reshape(s.less(zero, last), form.places), in[0], in[1]);
  });
}

GraphTensors scattered(const Lowering& l, const Form& form) {
  const Steps s(l);
  const MPSGraphScatterMode mode = mode_named(l.attributes().string("mode"));
  const DType dtype = l.dtype();
  const bool factors = mode == MPSGraphScatterModeMul || mode == MPSGraphScatterModeDiv;
  if (factors && is_integer(dtype))
    l.unsupported(
        cat("scattered products and quotients must be floating-point, because MPSGraph computes integer products in "
            "float32 at best and Apple does not document quotients, got dtype ",
            dtype, "; cast to float32, or use device=\"cpu\""));
  MPSGraphTensor *const data = s.reshape(l.input(0), form.data), *const updates = s.reshape(l.input(1), form.updates);
  if (mode == MPSGraphScatterModeSet) return {replaced(l, form, data, updates)};
  if (is_integer(dtype)) return {combined_integers(l, form, data, updates, mode, dtype)};
  return {carried(l, dtype, DType::float32, {data, updates},
                  [&](const GraphTensors& in) { return combined(l, form, in[0], in[1], mode, DType::float32); })};
}

// Scatter rows along the middle one of three axes, with indices of rank 1.
GraphTensors scattered_rows(const Lowering& l, const Lanes& lanes, int64_t count, const Picks& p) {
  const Steps s(l);
  const Dims column{count, 1};
  Form form{lanes.dims(), lanes.dims(count), {lanes.n, 1}, count, nil, nil, {}, {}, {}};
  if (p.inside) form.inside = s.reshape(p.inside, column);
  form.number = s.add(s.coordinate(0, {count}), l.ints({1}));
  form.scatter = [&](MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode) {
    const bool numbers = !data;  // without data, the updates are update numbers, which have no other axes
    if (numbers) data = l.filled(0, {DType::float32, Shape(Dims{lanes.n})});
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
  form.look = [&](MPSGraphTensor* data) {
    return [l.graph() gatherWithUpdatesTensor:data indicesTensor:p.index axis:1 batchDimensions:0 name:nil];
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

// Scatter element by element along an axis. A last axis of size 1 is removed, because Apple's kernel rejects it.
GraphTensors lower_scatter_along_axis(Lowering& l) {
  if (changes_nothing(l)) return {l.input(0)};
  const Steps s(l);
  const Lanes to(l.dims(), l.axis()), from(l.dims(2), l.axis());
  const Dims data_dims = to.short_dims(), update_dims = from.short_dims();
  MPSGraphTensor* index = s.reshape(along_indices(l, l.input(2), l.dtype(2)), update_dims);
  MPSGraphTensor* number = s.add(s.coordinate(1, update_dims), l.ints({1}));
  Form form{data_dims, update_dims, data_dims, from.n, nil, number, {}, {}, {}};
  form.scatter = [&](MPSGraphTensor* data, MPSGraphTensor* updates, MPSGraphScatterMode mode) {
    return [l.graph() scatterAlongAxis:1
                        withDataTensor:data ? data : l.filled(0, {DType::float32, Shape(data_dims)})
                         updatesTensor:updates
                         indicesTensor:index
                                  mode:mode
                                  name:l.name()];
  };
  form.gather = [&](MPSGraphTensor* updates, MPSGraphTensor* numbers) { return s.gather_along(updates, numbers, 1); };
  form.look = [&](MPSGraphTensor* data) { return s.gather_along(data, index, 1); };
  return scattered(l, form);
}

}  // namespace

const Lowerings scatter_nd_lowerings("scatter_nd", [] {
  define_lowering("scatter", lower_scatter);
  define_lowering("scatter_nd", lower_scatter_nd);
  define_lowering("scatter_along_axis", lower_scatter_along_axis);
});

}  // namespace mpsgraph::metal
