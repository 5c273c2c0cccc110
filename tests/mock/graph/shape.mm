// Reshaping, transposition, broadcasting, concatenation and splitting, tiling, padding, coordinates, and reversal.
//
// Apple's documentation: concatenated tensors must have one dtype and broadcast along all other dimensions; reversal
// and stacking follow TensorFlow; a broadcast aligns trailing dimensions. For padding it lists only the names of the
// modes. Measured by others on Apple's systems: reflect omits the edge and reaches up to the axis size minus one,
// symmetric repeats the edge and reaches up to the axis size; periodic and anti-periodic padding are refused.
#include <algorithm>
#include <numeric>

#include "graph/graph.h"
#include "metal/mock_metal.h"
#include "mock.h"

using namespace mock;

namespace {

// Moving complex numbers is not documented.
void require_movable(const Value& value) {
  if (is_complex(value.type)) misuse(@"moving elements of type %s is not known to work", type_name(value.type));
}

// Return a value whose element at each position is that of the operand at source(position).
template <class Source>
Value moved(const Value& from, const Dims& dims, Source source) {
  require_movable(from);
  Value result(from.type, dims);
  const Dims strides = strides_of(from.dims);
  int64_t next = 0;
  for_each_position(dims,
                    [&](const Dims& position) { result.copy(next++, from, offset_of(source(position), strides)); });
  return result;
}

Value transposed(const Value& x, const Dims& permutation) {
  Dims dims, seen(x.rank(), 0);
  if (permutation.size() != x.rank())
    misuse(@"transpose: permutation %@ must have one entry per axis of shape %@", text_of(permutation),
           text_of(x.dims));
  for (const int64_t axis : permutation) {
    if (axis < 0 || axis >= static_cast<int64_t>(x.rank()) || seen[axis]++)
      misuse(@"transpose: %@ is not a permutation", text_of(permutation));
    dims.push_back(x.dims[axis]);
  }
  return moved(x, dims, [&](const Dims& position) {
    Dims source(position.size());
    for (size_t i = 0; i < position.size(); ++i) source[permutation[i]] = position[i];
    return source;
  });
}

void require_one_type(const Values& in) {
  for (const Value& value : in)
    if (value.type != in[0].type)
      misuse(@"concatenation: operands must have the same type, got %s and %s", type_name(in[0].type),
             type_name(value.type));
}

// Concatenate along the axis, or interleave the operands.
Value concatenated(const Values& in, int64_t dimension, bool interleave) {
  require_movable(in[0]);
  require_one_type(in);
  const size_t axis = axis_of(dimension, in[0].rank());
  Dims dims;
  for (const Value& value : in) {
    Dims others = value.dims;
    if (value.rank() != in[0].rank()) misuse(@"concatenation: operands must have the same rank");
    if (!interleave) others[axis] = 1;
    dims = dims.empty() ? others : broadcast_dims(dims, others);
  }
  const int64_t each = dims[axis], turns = static_cast<int64_t>(in.size());
  dims[axis] = interleave ? each * turns : 0;
  for (const Value& value : in)
    if (!interleave) dims[axis] += value.dims[axis];
  Value result(in[0].type, dims);
  const Dims strides = strides_of(dims);
  int64_t before = 0;
  for (const Value& part : in) {
    Dims whole = dims;
    whole[axis] = interleave ? each : part.dims[axis];
    const Value full = part.broadcast(whole);
    int64_t next = 0;
    for_each_position(whole, [&](const Dims& position) {
      Dims to = position;
      to[axis] = interleave ? position[axis] * turns + before : position[axis] + before;
      result.copy(offset_of(to, strides), full, next++);
    });
    before += interleave ? 1 : part.dims[axis];
  }
  return result;
}

// Return the source of a position before or after the axis; -1 means the constant.
int64_t padding_source(MPSGraphPaddingMode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case MPSGraphPaddingModeConstant:
    case MPSGraphPaddingModeZero: return -1;
    case MPSGraphPaddingModeClampToEdge: return i < 0 ? 0 : size - 1;
    case MPSGraphPaddingModeReflect: return i < 0 ? -i : 2 * (size - 1) - i;
    case MPSGraphPaddingModeSymmetric: return i < 0 ? -i - 1 : 2 * size - 1 - i;
    default: misuse(@"padding: mode %ld is not supported", (long)mode);
  }
}

// On a Mac, padding overwrites the elements of tensors with more than four dimensions if the last dimension, or all
// dimensions after the padded one, have 2^16 elements or more.
bool overwrites_elements(const Dims& from, const Dims& to) {
  if (from.size() <= 4) return false;
  const auto first = static_cast<size_t>(std::mismatch(from.begin(), from.end(), to.begin()).first - from.begin());
  if (first == from.size()) return false;
  return std::max(to.back(), count_of(Dims(to.begin() + static_cast<int64_t>(first) + 1, to.end()))) >= 65536;
}

Value padded(const Value& x, MPSGraphPaddingMode mode, const Dims& left, const Dims& right, double constant) {
  if (left.size() != x.rank() || right.size() != x.rank())
    misuse(@"padding: expected one padding per axis on each side");
  if (x.type == MPSDataTypeBool || is_complex(x.type)) misuse(@"padding: %s is not known to work", type_name(x.type));
  Dims dims = x.dims;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t reach = mode == MPSGraphPaddingModeReflect     ? dims[axis] - 1
                          : mode == MPSGraphPaddingModeSymmetric ? dims[axis]
                                                                 : INT64_MAX;
    if (left[axis] < 0 || right[axis] < 0 || std::max(left[axis], right[axis]) > reach)
      misuse(@"padding: %@ and %@ exceed the limits of mode %ld for shape %@", text_of(left), text_of(right),
             (long)mode, text_of(dims));
    dims[axis] += left[axis] + right[axis];
  }
  const bool overwrites = overwrites_elements(x.dims, dims);
  Value result(x.type, dims);
  const Dims strides = strides_of(x.dims);
  int64_t next = 0;
  for_each_position(dims, [&](const Dims& position) {
    Dims source(position.size());
    bool inside = true;
    for (size_t axis = 0; axis < position.size(); ++axis) {
      source[axis] = padding_source(mode, position[axis] - left[axis], x.dims[axis]);
      inside = inside && source[axis] >= 0;
    }
    if (inside && !overwrites)
      result.copy(next, x, offset_of(source, strides));
    else
      result.set(next, mode == MPSGraphPaddingModeConstant ? constant : 0.0);
    ++next;
  });
  return result;
}

}  // namespace

@implementation MPSGraph (MockShape)

- (MPSGraphTensor*)reshapeTensor:(MPSGraphTensor*)tensor withShape:(MPSShape*)shape name:(NSString*)name {
  const Dims dims = dims_of(shape);
  if (MPSGraphOperation* product = made_by(tensor, @"matrixMultiplication"))
    if (mock_macos_version() >= 26 && made_by(product->inputs[0], @"reshape") && dims.size() > 4 &&
        std::count(dims.begin(), dims.end() - 1, 1) > 1)
      misuse(@"reshape: a reshaped matmul of a reshaped operand fails to compile with several dimensions of 1");
  return add_one(self, @"reshape", name, {tensor}, [dims](const Values& in) { return in[0].reshaped(dims); });
}

- (MPSGraphTensor*)transposeTensor:(MPSGraphTensor*)tensor
                       permutation:(NSArray<NSNumber*>*)permutation
                              name:(NSString*)name {
  const Dims axes = dims_of(permutation);
  return add_one(self, @"transpose", name, {tensor}, [axes](const Values& in) { return transposed(in[0], axes); });
}

- (MPSGraphTensor*)broadcastTensor:(MPSGraphTensor*)tensor toShape:(MPSShape*)shape name:(NSString*)name {
  const Dims dims = dims_of(shape);
  return add_one(self, @"broadcast", name, {tensor}, [dims](const Values& in) {
    require_movable(in[0]);
    if (broadcast_dims(in[0].dims, dims) != dims)
      misuse(@"broadcast: %@ does not broadcast to %@", text_of(in[0].dims), text_of(dims));
    return in[0].broadcast(dims);
  });
}

- (MPSGraphTensor*)concatTensors:(NSArray<MPSGraphTensor*>*)tensors
                       dimension:(NSInteger)dimension
                      interleave:(BOOL)interleave
                            name:(NSString*)name {
  std::vector<MPSGraphTensor*> inputs;
  for (MPSGraphTensor* tensor in tensors) inputs.push_back(tensor);
  if (inputs.empty()) misuse(@"concatenation: needs at least one tensor, got none");
  return add_one(self, @"concat", name, inputs,
                 [=](const Values& in) { return concatenated(in, dimension, interleave); });
}

- (MPSGraphTensor*)concatTensors:(NSArray<MPSGraphTensor*>*)tensors
                       dimension:(NSInteger)dimension
                            name:(NSString*)name {
  return [self concatTensors:tensors dimension:dimension interleave:NO name:name];
}

- (MPSGraphTensor*)stackTensors:(NSArray<MPSGraphTensor*>*)tensors axis:(NSInteger)axis name:(NSString*)name {
  std::vector<MPSGraphTensor*> inputs;
  for (MPSGraphTensor* tensor in tensors) inputs.push_back(tensor);
  if (inputs.empty()) misuse(@"stack: needs at least one tensor, got none");
  return add_one(self, @"stack", name, inputs, [=](const Values& in) {
    const size_t at = axis_of(axis, in[0].rank() + 1);
    Values rows;
    for (const Value& value : in) {
      if (value.dims != in[0].dims)
        misuse(@"stack: tensors must have the same shape, got %@ and %@", text_of(in[0].dims), text_of(value.dims));
      Dims dims = value.dims;
      dims.insert(dims.begin() + static_cast<int64_t>(at), 1);
      rows.push_back(value.reshaped(dims));
    }
    return concatenated(rows, static_cast<int64_t>(at), false);
  });
}

- (NSArray<MPSGraphTensor*>*)splitTensor:(MPSGraphTensor*)tensor
                              splitSizes:(NSArray<NSNumber*>*)splitSizes
                                    axis:(NSInteger)axis
                                    name:(NSString*)name {
  const Dims sizes = dims_of(splitSizes);
  return add(self, @"split", name, {tensor}, [=](const Values& in) {
    const size_t at = axis_of(axis, in[0].rank());
    if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != in[0].dims[at])
      misuse(@"split: sizes %@ do not add up to the axis size %lld", text_of(sizes), (long long)in[0].dims[at]);
    Values parts;
    int64_t before = 0;
    for (const int64_t size : sizes) {
      Dims dims = in[0].dims;
      dims[at] = size;
      parts.push_back(moved(in[0], dims, [&](Dims position) {
        position[at] += before;
        return position;
      }));
      before += size;
    }
    return parts;
  });
}

- (MPSGraphTensor*)tileTensor:(MPSGraphTensor*)tensor withMultiplier:(MPSShape*)multiplier name:(NSString*)name {
  const Dims times = dims_of(multiplier);
  return add_one(self, @"tile", name, {tensor}, [times](const Values& in) {
    const Value& x = in[0];
    if (times.size() != x.rank())
      misuse(@"tile: multiplier %@ must have one entry per axis of shape %@", text_of(times), text_of(x.dims));
    Dims dims = x.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) dims[axis] *= times[axis];
    return moved(x, dims, [&](Dims position) {
      for (size_t axis = 0; axis < position.size(); ++axis) position[axis] %= x.dims[axis];
      return position;
    });
  });
}

- (MPSGraphTensor*)padTensor:(MPSGraphTensor*)tensor
             withPaddingMode:(MPSGraphPaddingMode)mode
                 leftPadding:(MPSShape*)leftPadding
                rightPadding:(MPSShape*)rightPadding
               constantValue:(double)constant
                        name:(NSString*)name {
  const Dims left = dims_of(leftPadding), right = dims_of(rightPadding);
  return add_one(self, @"pad", name, {tensor},
                 [=](const Values& in) { return padded(in[0], mode, left, right, constant); });
}

- (MPSGraphTensor*)coordinateAlongAxis:(NSInteger)axis withShape:(MPSShape*)shape name:(NSString*)name {
  const Dims dims = dims_of(shape);
  return add_one(self, @"coordinate", name, {}, [=](const Values&) {
    const size_t at = axis_of(axis, dims.size());
    Value result(MPSDataTypeInt32, dims);
    int64_t next = 0;
    for_each_position(dims, [&](const Dims& position) { result.set(next++, position[at]); });
    return result;
  });
}

- (MPSGraphTensor*)reverseTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  const Dims turned = dims_of(axes);
  return add_one(self, @"reverse", name, {tensor}, [turned](const Values& in) {
    std::vector<size_t> unique;
    for (const int64_t axis : turned) {
      const size_t at = axis_of(axis, in[0].rank());
      if (std::find(unique.begin(), unique.end(), at) != unique.end()) misuse(@"reverse: axis %lu is listed twice", at);
      unique.push_back(at);
    }
    return moved(in[0], in[0].dims, [&](Dims position) {
      for (const size_t axis : unique) position[axis] = in[0].dims[axis] - 1 - position[axis];
      return position;
    });
  });
}
@end
