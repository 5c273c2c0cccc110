// Indices made signed and held inside their dimension, values carried through the element types that MPSGraph moves.
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
    if (METAL_AVAILABLE(14.0)) {
      GraphTensors reals, imaginaries;
      for (MPSGraphTensor* tensor : tensors) {
        reals.push_back([l.graph() realPartOfTensor:tensor name:nil]);
        imaginaries.push_back([l.graph() imaginaryPartOfTensor:tensor name:nil]);
      }
      MPSGraphTensor* const real = f(reals);  // first: what pads with a constant relies on it
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

}  // namespace mpsgraph::metal
