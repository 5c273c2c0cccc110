// Steps: short names for the parts of composed operations. Each function calls one MPSGraph method without an explicit
// operation name.
#pragma once

#include "backends/metal/lowering.h"
#include "backends/metal/types.h"
#include "core/exact_numbers.h"

namespace mpsgraph::metal {

class Steps {
 public:
  using T = MPSGraphTensor*;
  explicit Steps(const Lowering& lowering) : l(lowering), g(lowering.graph()) {}

  T add(T a, T b) const {
    require_size_of(a, b);
    return [g additionWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T subtract(T a, T b) const {
    require_size_of(a, b);
    return [g subtractionWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T multiply(T a, T b) const {
    require_size_of(a, b);
    return [g multiplicationWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T divide(T a, T b) const {
    require_size_of(a, b);
    return [g divisionWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T minimum(T a, T b) const {
    require_size_of(a, b);
    return [g minimumWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T maximum(T a, T b) const {
    require_size_of(a, b);
    return [g maximumWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T equal(T a, T b) const {
    require_size_of(a, b);
    return [g equalWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T differ(T a, T b) const {
    require_size_of(a, b);
    return [g notEqualWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T less(T a, T b) const {
    require_size_of(a, b);
    return [g lessThanWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T both(T a, T b) const {
    require_size_of(a, b);
    return [g logicalANDWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T either(T a, T b) const {
    require_size_of(a, b);
    return [g logicalORWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T select(T predicate, T when_true, T when_false) const {
    require_size_of(predicate, when_true);
    require_size_of(when_true, when_false);
    return [g selectWithPredicateTensor:predicate
                    truePredicateTensor:when_true
                   falsePredicateTensor:when_false
                                   name:nil];
  }
  T is_nan(T x) const { return [g isNaNWithTensor:x name:nil]; }
  T flip_bits(T x) const { return [g bitwiseNOTWithTensor:x name:nil]; }
  T exclusive_or(T a, T b) const {
    require_size_of(a, b);
    return [g bitwiseXORWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  T reinterpret(T x, DType dtype) const { return [g reinterpretCastTensor:x toType:data_type(dtype) name:nil]; }

  // Return a real attribute as a constant of shape (1) with the given dtype. Integers are exact.
  T element(std::string_view attribute, DType dtype) const {
    if (!is_integer(dtype)) return l.scalar(l.attributes().real(attribute), dtype);
    return [g constantWithData:bytes_of(element_of(l.attributes(), attribute, dtype))
                         shape:@[ @1 ]
                      dataType:data_type(dtype)];
  }

  T reshape(T x, const Dims& dims) const { return l.reshape(x, dims); }
  T cast(T x, DType dtype) const {
    if (x.dataType == data_type(dtype)) return x;
    return dtype == DType::boolean ? differ(x, [g constantWithScalar:0 shape:@[ @1 ] dataType:x.dataType])
                                   : l.cast(x, dtype);
  }
  T broadcast(T x, const Dims& dims) const {
    require_size(x, dims);
    return [g broadcastTensor:x toShape:shape_of(dims) name:nil];
  }
  T transpose(T x, const Ints& permutation) const {
    return [g transposeTensor:x permutation:numbers(permutation) name:nil];
  }
  T reverse(T x, const Ints& axes) const { return [g reverseTensor:x axes:numbers(axes) name:nil]; }
  T concat(const GraphTensors& parts, int64_t axis) const {
    NSMutableArray<MPSGraphTensor*>* tensors = [NSMutableArray array];
    for (T part : parts) [tensors addObject:part];
    return [g concatTensors:tensors dimension:axis name:nil];
  }
  // Return `length` elements of an axis, starting at `start`.
  T slice(T x, int64_t axis, int64_t start, int64_t length) const {
    return [g sliceTensor:x dimension:static_cast<NSUInteger>(axis) start:start length:length name:nil];
  }
  T pad_zeros(T x, const Ints& left, const Ints& right) const {
    return pad(x, MPSGraphPaddingModeConstant, left, right, 0);
  }
  // MPSGraph overwrites the elements of large tensors with more than four dimensions (pytorch/pytorch#194922). These
  // are padded along one axis after the other, with all dimensions before and after the axis combined.
  T pad(T x, MPSGraphPaddingMode mode, const Ints& left, const Ints& right, double value) const {
    const auto pad_all = [&](T tensor, const Ints& before, const Ints& behind) {
      return [g padTensor:tensor
          withPaddingMode:mode
              leftPadding:numbers(before)
             rightPadding:numbers(behind)
            constantValue:value
                     name:nil];
    };
    Dims dims = dims_of(x.shape);
    if (dims.size() <= 4) return pad_all(x, left, right);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (left[axis] == 0 && right[axis] == 0) continue;
      const auto at = dims.begin() + static_cast<int64_t>(axis);
      const T lanes = reshape(x, {element_count({dims.begin(), at}), *at, element_count({at + 1, dims.end()})});
      *at += left[axis] + right[axis];
      x = reshape(pad_all(lanes, {0, left[axis], 0}, {0, right[axis], 0}), dims);
    }
    return x;
  }
  T coordinate(int64_t axis, const Dims& dims) const {  // int32 index of each element along the axis
    require_size(dims, size_of(DType::int32));
    return [g coordinateAlongAxis:axis withShape:shape_of(dims) name:nil];
  }
  // Gather along an axis; the result is zero where the index is out of range.
  T gather_along(T x, T indices, int64_t axis) const {
    return [g gatherAlongAxis:axis withUpdatesTensor:x indicesTensor:indices name:nil];
  }

 private:
  const Lowering& l;
  MPSGraph* const g;
};

}  // namespace mpsgraph::metal
