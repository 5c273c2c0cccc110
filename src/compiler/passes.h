// The passes over a Program, and the evaluator that fold needs from a backend.
//
// Each pass leaves a valid Program with the same results. Rounding may only change through standard rewrites (x³ as
// x·x², sums in a different order), and a NaN or infinity never becomes a finite number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program.h"
#include "compiler/rewrite.h"

namespace mpsgraph::compiler {

void prune(Program&);     // removes operations that neither results nor effects need
void channels_last(Program&);  // converts channels-first images around convolutions to channels last
void quantize(Program&);  // turns dequantize, convolution or matmul, and quantize into one integer operation
void widen(Program&);     // computes half-precision sums and multi-step operations in float32, rounding once
void finite(Program&);    // with check_finite: adds checks that name the operation producing a NaN or an infinity
void normalize(Program&);  // fuses batch normalization with residual and relu, and its gradients, into a few operations
// Part of normalize: fuses layer normalization into one operation, and its gradients into another.
void normalize_layers(Program&);
void indices(Program&);  // clips out-of-range indices, or checks them before all effects
// replaces composites and convenience operations with operations for which backends have kernels
void expand(Program&);
void fold(Program&);  // replaces operations on constants with constants
void simplify(Program&);  // applies algebra, merges duplicates, forwards variable reads, resolves branches
void absorb(Program&);  // folds constant scales and shifts along channels into constant weights
void fuse(Program&);  // fuses bias, residual, and activation into convolutions and matmuls
void fuse_sparse(Program&);  // part of fuse: matmuls with sparse tensors
void fuse_rows(Program&);  // part of fuse: a row times a matrix that is converted from narrower elements
void fuse_rotary(Program&);  // part of fuse: rotary embeddings and their gradients
void fuse_softmax(Program&);  // part of fuse: softmax and its gradient, and losses whose labels are class indices
void recompute_elementwise(Program&);  // part of fuse_elementwise: computes large values again that are used much later
void fuse_elementwise(Program&);  // merges each region of element-wise operations into one kernel
// Runs operations that free more memory than they allocate, such as variable updates, as early as possible.
void schedule(Program&);

// Adds a check_indices operation for `condition`, a bool tensor. If one of its elements is false, the run ends with a
// CheckError that has this message.
Operation* check_condition(Graph& graph, Tensor* condition, std::string_view of, std::string message);

// Computes an operation whose inputs are constants. Returns no results if the operation cannot be computed. A backend
// registers an evaluator, because the compiler itself has no kernels. Without an evaluator, only shape arithmetic is
// folded.
using Evaluator = std::vector<ConstantPtr> (*)(const Operation&);
void register_evaluator(Evaluator evaluator);
// The result of an operation on constants of any size; null if no backend can compute it.
ConstantPtr computed(Kind kind, const std::vector<ConstantPtr>& operands, const Attributes& attributes = {});

// Folds an operation whose inputs are now constants and returns the constants that replace it; nullopt if the operation
// is kept.
Rewriter::Replacement folded(Rewriter&, const Operation& source);
// a constant with the same elements and other dimensions
ConstantPtr reshaped(const ConstantPtr& value, const Dims& dims);
ConstantPtr integer_constant(const TensorType& type, const Ints& values);
const Tensor* untransposed(const Tensor* x);  // the operand of a transpose of a matrix; null for any other tensor
// The value of a constant; null for any other tensor.
inline const ConstantPtr* constant_of(const Tensor* tensor) {
  return tensor->operation->is("constant") ? &tensor->operation->attributes.data("value") : nullptr;
}

}  // namespace mpsgraph::compiler
