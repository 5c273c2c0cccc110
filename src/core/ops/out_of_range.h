// Out-of-range indices: how operations handle them, and which indices are checked.
//
// Gathers, one_hot, and scatters have an attribute out_of_range. "zeros" (for scatters "drop") is the behavior that
// Apple documents for MPSGraph's gatherAlongAxis and that we apply everywhere; "clip" uses the nearest valid index;
// "error" ends the run. Kernels implement only "zeros" and "drop". For "clip" and "error", the compiler's pass
// `indices` clips the indices or adds a check_indices operation.
#pragma once

#include <optional>
#include <string>

#include "core/definition.h"

namespace mpsgraph::ops {

// The operand that holds an operation's indices, the axes that are indexed, and their lengths, which bound the indices.
struct Bounds {
  size_t operand;
  Ints axes, lengths;  // one entry, or one per element of the index vectors; a length is -1 if unknown
};

// The bounds of an operation that has the attribute out_of_range; nullopt for other operations, or if the axis is
// unknown.
std::optional<Bounds> bounds_of(const OperationDefinition& definition, const std::vector<Tensor*>& inputs,
                                const Attributes& attributes, const Shape& gradient_of = {});
std::optional<Bounds> bounds_of(const Operation& operation);

inline const std::string& out_of_range(const Attributes& attributes) { return attributes.string("out_of_range"); }
inline bool takes_any(const Attributes& attributes) {
  return out_of_range(attributes) == "zeros" || out_of_range(attributes) == "drop";
}
AttributeSpec out_of_range_of_gather();
AttributeSpec out_of_range_of_scatter();
// Converts the attribute out_of_range when attributes are copied between a gather and the scatter that computes its
// gradient. The mode that ignores out-of-range indices is called "zeros" in a gather and "drop" in a scatter, so it
// gets the name that `kind`, the operation to create, accepts. "clip" and "error" stay unchanged.
void convert_out_of_range(Attributes& attributes, std::string_view kind);

// Check for inference: throws GraphError for an unknown mode, and OutOfRangeError if the mode is "error" and indices
// known at build time are out of range.
void check_out_of_range(const InferContext& context, const Shape& gradient_of = {});

// Returns the position in `indices` of the first out-of-range index, or -1 if there is none. Index i is checked against
// lengths[i % lengths.size()], and the values in `ignored` are skipped.
int64_t first_outside(const Ints& indices, const Ints& lengths, const Ints& ignored = {});
// The message of an OutOfRangeError for the value `index` at position `place` of the tensor `indices`.
std::string outside(std::string_view kind, const Tensor& indices, const Bounds& bounds, int64_t place, int64_t index);
// Throws the error for an out-of-range index that a check_indices operation has found. The operation's attributes hold
// the kind of the checked operation and the bounds. The error is an OutOfRangeError or, if the check was created for
// the operation `check`, a CheckError.
[[noreturn]] void refuse(const Operation& check, int64_t place, int64_t index);
// Throws the error for the first out-of-range index in `indices`, which must contain one.
[[noreturn]] void refuse(const Operation& check, const std::byte* indices);

}  // namespace mpsgraph::ops
