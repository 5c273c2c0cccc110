// Conversion of sparse matrices to dense matrices, and gathering of a dense matrix's elements at the stored positions.
//
// MPSGraph's sparse tensors can only be operands of its matmul, and out-of-range or duplicate entries are not
// documented. Entries are therefore added by scatterAlongAxis, which skips out-of-range indices.
#include "backends/metal/indexing.h"
#include "backends/metal/steps.h"

namespace mpsgraph::metal {
namespace {

// Return the row (or column) of each entry, computed from the start offsets of the rows (or columns): the number of
// starts after the first one that are at or before the entry.
MPSGraphTensor* lines(const Lowering& l, MPSGraphTensor* starts, int64_t count, int64_t entries) {
  const Steps s(l);
  const DType dtype = starts.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64;
  MPSGraphTensor* later = s.maximum(s.slice(starts, 0, 1, count), l.ints({0}, dtype));
  MPSGraphTensor* begun = [l.graph() scatterAlongAxis:0
                                       withDataTensor:l.filled(0, {DType::float32, Shape(Dims{entries})})
                                        updatesTensor:l.filled(1, {DType::float32, Shape(Dims{count})})
                                        indicesTensor:along_indices(l, later, dtype)
                                                 mode:MPSGraphScatterModeAdd
                                                 name:nil];
  return [l.graph() cumulativeSumWithTensor:s.cast(begun, DType::int32) axis:0 exclusive:NO reverse:NO name:nil];
}

// Return the position of each entry in the flattened matrix, or -1 if it is out of range.
MPSGraphTensor* places(const Lowering& l, int64_t entries) {
  const Steps s(l);
  const Ints& shape = l.attributes().integers("shape");
  const std::string& storage = l.attributes().string("storage");
  MPSGraphTensor* first = signed_indices(l, l.input(1), l.dtype(1));
  MPSGraphTensor* second = signed_indices(l, l.input(2), l.dtype(2));
  if (storage == "CSR") second = lines(l, second, shape[0], entries);
  if (storage == "CSC") second = lines(l, second, shape[1], entries);
  const bool columns_first = storage != "CSC";
  const auto inside_of = [&](MPSGraphTensor* index, int64_t size) {
    return picks(l, index, index.dataType == MPSDataTypeInt32 ? DType::int32 : DType::int64, size);
  };
  const Picks column = inside_of(columns_first ? first : second, shape[1]);
  const Picks row = inside_of(columns_first ? second : first, shape[0]);
  MPSGraphTensor* place = s.add(s.multiply(row.index, l.ints({shape[1]})), column.index);
  return s.select(s.both(row.inside, column.inside), place, l.ints({-1}));
}

GraphTensors lower_sparse_tensor(Lowering& l) {
  const int64_t entries = l.dims()[0], elements = l.result_type().shape.elements();
  if (entries == 0) return {l.filled(0, l.result_type())};
  MPSGraphTensor* place = places(l, entries);
  return {added(l, l.dtype(), l.input(), entries, [&](MPSGraphTensor* values) {
    return [l.graph() scatterAlongAxis:0
                        withDataTensor:l.filled(0, {summing_type(l.dtype()), Shape(Dims{elements})})
                         updatesTensor:values
                         indicesTensor:place
                                  mode:MPSGraphScatterModeAdd
                                  name:l.name()];
  })};
}

GraphTensors lower_sparse_tensor_gradient(Lowering& l) {
  const Steps s(l);
  MPSGraphTensor* place = places(l, l.result_dims()[0]);
  return {moved_along(l, l.dtype(), s.reshape(l.input(), {l.type().shape.elements()}), place, 0)};
}

}  // namespace

const Lowerings sparse_lowerings("sparse", [] {
  define_lowering("sparse_tensor", lower_sparse_tensor);
  define_lowering("sparse_tensor_gradient", lower_sparse_tensor_gradient);
});

}  // namespace mpsgraph::metal
