// The passes over a Program, and what fold needs of a backend.
//
// Each pass leaves a valid Program with the same results: it may round differently only where a
// rewrite is standard (x³ as x·x², sums in another order), never turn a NaN or infinity into a number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program.h"
#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

void prune(Program&);     // drops what neither results nor effects need
void channels_last(Program&);  // images with their channels second have them last around convolutions
void quantize(Program&);  // dequantize, convolution or product, and quantize become one operation on integers
void widen(Program&);     // what sums halves, or takes several steps, computes in float32 and is rounded once
void finite(Program&);    // where it is asked for: checks that name what makes a NaN or an infinity
void normalize(Program&);  // batch normalization with residual and relu, and its gradients: a few operations each
void normalize_layers(Program&);  // part of normalize: layer normalization, and its gradients, one operation each
void indices(Program&);   // those that must lie inside are clipped, or checked before all effects
void expand(Program&);    // composites and conveniences become the operations that backends have kernels for
void fold(Program&);      // operations on constants become constants
void simplify(Program&);  // algebra, merged duplicates, forwarded variable reads, decided branches
void absorb(Program&);    // constant scales and shifts along channels go into constant weights
void fuse(Program&);      // convolution and matrix products with bias, residual and activation
void fuse_sparse(Program&);  // part of fuse: products with sparse tensors
void fuse_rotary(Program&);   // part of fuse: rotary embeddings and their gradients
void fuse_softmax(Program&);  // part of fuse: softmax and its gradient, losses by class numbers
void fuse_elementwise(Program&);    // element-wise regions become one operation each
void schedule(Program&);  // what gives back more memory than it takes runs as soon as it can: updates of variables

// The check_indices of a condition, which ends a run with a CheckError of that message where an element is false.
Operation* check_condition(Graph& graph, Tensor* condition, std::string_view of, std::string message);

// Computes an operation whose inputs are constants; no results when it cannot. A backend registers
// one, because the compiler knows no kernels; without it only shape arithmetic is folded.
using Evaluator = std::vector<ConstantPtr> (*)(const Operation&);
void register_evaluator(Evaluator evaluator);
// The result of an operation on constants, whatever its size; null when no backend can tell.
ConstantPtr computed(std::string_view kind, const std::vector<ConstantPtr>& operands,
                     const Attributes& attributes = {});

// The constants that stand for an operation whose inputs are constants now; nothing when it stays.
Rewriter::Replacement folded(Rewriter&, const Operation& source);
ConstantPtr reshaped(const ConstantPtr& value, const Dims& dims);  // other dimensions for the same elements
ConstantPtr integer_constant(const TensorType& type, const Ints& values);
// What a constant holds; null for any other tensor.
inline const ConstantPtr* constant_of(const Tensor* tensor) {
  return tensor->operation->is("constant") ? &tensor->operation->attributes.data("value") : nullptr;
}

}  // namespace mpsgraph::compiler
