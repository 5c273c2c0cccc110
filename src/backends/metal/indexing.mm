// Conversion of indices to signed integers within their dimension, and of values to the dtypes that MPSGraph moves
// exactly.
#include "backends/metal/indexing.h"

#include <algorithm>
#include <numeric>

#include "backends/metal/steps.h"

namespace mpsgraph::metal {

Lanes::Lanes(const Dims& dims, int64_t axis) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < axis ? outer : at == axis ? n : inner) *= dims[i];
  }
}

MPSGraphTensor* signed_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype) {
  const bool fits = size_of(dtype) < 4 || dtype == DType::int32;
  return Steps(l).cast(indices, fits ? DType::int32 : DType::int64);
}

MPSGraphTensor* along_indices(const Lowering& l, MPSGraphTensor* indices, DType dtype) {
  const Steps s(l);
  MPSGraphTensor* index = signed_indices(l, indices, dtype);
  if (index.dataType == MPSDataTypeInt32) return index;
  MPSGraphTensor *const none = l.ints({-1}, DType::int64), *const most = l.ints({INT32_MAX}, DType::int64);
  return s.cast(s.select(s.both(s.less(none, index), s.less(index, most)), index, none), DType::int32);
}

namespace {

bool all_inside(const std::optional<Ints>& known, int64_t size) {
  return known && std::ranges::all_of(*known, [size](int64_t index) { return index >= 0 && index < size; });
}

}  // namespace

Picks picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t size, const std::optional<Ints>& known) {
  const Steps s(l);
  MPSGraphTensor* index = signed_indices(l, indices, dtype);
  if (all_inside(known, size)) return {s.cast(index, DType::int32), nil};
  const DType wide = index.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
  MPSGraphTensor* first = l.ints({0}, wide);
  MPSGraphTensor* inside = s.both(s.less(l.ints({-1}, wide), index), s.less(index, l.ints({size}, wide)));
  return {s.cast(s.select(inside, index, first), DType::int32), inside};
}

Picks flat_picks(const Lowering& l, MPSGraphTensor* indices, DType dtype, int64_t batches, int64_t vectors,
                 const Dims& sizes, const std::optional<Ints>& known) {
  const Steps s(l);
  const auto depth = static_cast<int64_t>(sizes.size());
  const int64_t places = element_count(sizes);
  MPSGraphTensor* place = depth == 0 ? l.filled(0, {DType::int32, Shape(Dims{batches, vectors})}) : nil;
  MPSGraphTensor* inside = nil;
  MPSGraphTensor* rows = depth == 0 ? nil : s.reshape(indices, {batches, vectors, depth});
  int64_t stride = places;
  for (int64_t i = 0; i < depth; ++i) {
    std::optional<Ints> own;
    if (known)
      for (own.emplace(); own->size() * depth < known->size();) own->push_back((*known)[own->size() * depth + i]);
    const Picks part = picks(l, s.reshape(s.slice(rows, 2, i, 1), {batches, vectors}), dtype, sizes[i], own);
    stride /= sizes[i];
    MPSGraphTensor* step = s.multiply(part.index, l.ints({stride}));
    place = place ? s.add(place, step) : step;
    if (part.inside) inside = inside ? s.both(inside, part.inside) : part.inside;
  }
  if (batches > 1) place = s.add(place, s.multiply(s.coordinate(0, {batches, vectors}), l.ints({places})));
  return {s.reshape(place, {batches * vectors}), inside ? s.reshape(inside, {batches * vectors}) : nil};
}

MPSGraphTensor* carried(const Lowering& l, DType dtype, DType as, const GraphTensors& tensors, const OfTensors& f) {
  const Steps s(l);
  if (is_complex(dtype)) {
    if (METAL_AVAILABLE(14.0, 17.0)) {
      GraphTensors reals, imaginaries;
      for (MPSGraphTensor* tensor : tensors) {
        reals.push_back([l.graph() realPartOfTensor:tensor name:nil]);
        imaginaries.push_back([l.graph() imaginaryPartOfTensor:tensor name:nil]);
      }
      MPSGraphTensor* const real = f(reals);  // real part first: padding with a constant relies on this order
      return [l.graph() complexTensorWithRealTensor:real imaginaryTensor:f(imaginaries) name:nil];
    }
    l.needs_system("14.0");
  }
  GraphTensors converted;
  for (MPSGraphTensor* tensor : tensors) converted.push_back(s.cast(tensor, as));
  return s.cast(f(converted), dtype);
}

MPSGraphTensor* by_parts(const Lowering& l, const GraphTensors& tensors, const OfTensors& f) {
  return carried(l, l.dtype(), l.dtype(), tensors, f);
}

DType moved_as(DType dtype) {
  return dtype == DType::boolean ? DType::int8 : dtype == DType::uint8 ? DType::int16 : dtype;
}

DType summed_as(DType dtype) {
  if (dtype == DType::float16 || dtype == DType::bfloat16) return DType::float32;
  return size_of(dtype) < 4 ? DType::int32 : dtype;
}

// --- gathers and scatters --------------------------------------------------------------------------------------------

GraphTensors parts_of_integers(const Lowering& l, MPSGraphTensor* x, DType dtype, DType as) {
  const Steps s(l);
  const auto count = static_cast<int64_t>(size_of(dtype) / size_of(as));
  const Dims dims = dims_of(x.shape);
  Dims split = dims;
  split.push_back(count);
  MPSGraphTensor* parts = s.reshape(s.reinterpret(x, as), split);
  GraphTensors result;
  for (int64_t i = 0; i < count; ++i) {
    MPSGraphTensor* part = s.slice(parts, static_cast<int64_t>(dims.size()), i, 1);
    result.push_back(s.cast(s.reshape(part, dims), DType::float32));
  }
  return result;
}

MPSGraphTensor* joined_parts(const Lowering& l, const GraphTensors& parts, DType dtype) {
  const Steps s(l);
  Dims dims = dims_of(parts[0].shape), column = dims;
  column.push_back(1);
  GraphTensors columns;
  for (MPSGraphTensor* part : parts)
    columns.push_back(s.reshape(s.cast(s.cast(part, DType::int32), DType::uint16), column));
  dims.back() *= static_cast<int64_t>(parts.size());
  return s.reinterpret(s.reshape(s.concat(columns, static_cast<int64_t>(column.size()) - 1), dims), dtype);
}

namespace {

bool is_wide_integer(DType dtype) { return is_integer(dtype) && size_of(dtype) >= 4; }

}  // namespace

DType moving_type(DType dtype) { return is_float(dtype) ? dtype : DType::float32; }

MPSGraphTensor* moved(const Lowering& l, DType dtype, MPSGraphTensor* x, const OfTensor& f) {
  if (is_wide_integer(dtype)) {
    GraphTensors parts;
    for (MPSGraphTensor* part : parts_of_integers(l, x, dtype, DType::uint16)) parts.push_back(f(part));
    return joined_parts(l, parts, dtype);
  }
  return carried(l, dtype, moving_type(dtype), {x}, [&](const GraphTensors& in) { return f(in[0]); });
}

MPSGraphTensor* moved_along(const Lowering& l, DType dtype, MPSGraphTensor* x, MPSGraphTensor* indices, int64_t axis) {
  return moved(l, dtype, x, [&](MPSGraphTensor* part) { return Steps(l).gather_along(part, indices, axis); });
}

DType summing_type(DType) { return DType::float32; }

// To add integers exactly, their bytes are added separately: the sum of each byte is exact in float32. Shifting these
// sums into position and adding them wraps around like integer addition.
MPSGraphTensor* added(const Lowering& l, DType dtype, MPSGraphTensor* x, int64_t count, const OfTensor& f) {
  const Steps s(l);
  if (!is_integer(dtype))
    return carried(l, dtype, DType::float32, {x}, [&](const GraphTensors& in) { return f(in[0]); });
  constexpr int64_t most = 65536;
  if (count > most)
    l.unsupported(cat("MPSGraph adds integers as float32, which is only exact for up to ", most,
                      " values at one index, got ", count, " of ", dtype,
                      "; cast to float32 if sums below 2^24 are enough, or use device=\"cpu\""));
  const DType wide = size_of(dtype) == 8 ? DType::int64 : DType::int32;
  MPSGraphTensor* sum = nil;
  int64_t weight = 1;
  for (MPSGraphTensor* part : parts_of_integers(l, x, dtype, DType::uint8)) {
    MPSGraphTensor* bytes = s.cast(s.cast(f(part), DType::int32), wide);
    if (weight > 1) bytes = s.multiply(bytes, l.ints({weight}, wide));
    sum = sum ? s.add(sum, bytes) : bytes;
    weight *= 256;
  }
  if (dtype == wide) return sum;
  return size_of(dtype) == size_of(wide) ? s.reinterpret(sum, dtype) : s.cast(sum, dtype);
}

}  // namespace mpsgraph::metal
