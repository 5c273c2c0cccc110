// Indices outside of their axis: which operations say what becomes of them, and what is checked.
//
// Gathers, one_hot and scatters have an attribute out_of_range: "zeros" or, of a scatter, "drop", which MPSGraph states
// of gatherAlongAxis and we of all; "clip", the nearest index inside; "error", which ends the run. Only the first has
// kernels: the compiler's pass `indices` clips the operand of the others, or puts a check_indices beside them.
#pragma once

#include <optional>
#include <string>

#include "core/definition.h"

namespace mpsgraph::ops {

// Where an operation's indices are, and what they count.
struct Bounds {
  size_t operand;
  Ints axes, lengths;  // one, or those that vectors of indices pick along; a length is -1 where it is not known
};

// The bounds of an operation with the attribute; nothing for others, and while its axis is not known.
std::optional<Bounds> bounds_of(const OperationDefinition& definition, const std::vector<Tensor*>& inputs,
                                const Attributes& attributes, const Shape& gradient_of = {});
std::optional<Bounds> bounds_of(const Operation& operation);

inline const std::string& out_of_range(const Attributes& attributes) { return attributes.string("out_of_range"); }
inline bool takes_any(const Attributes& attributes) {
  return out_of_range(attributes) == "zeros" || out_of_range(attributes) == "drop";
}
AttributeSpec out_of_range_of_gather();
AttributeSpec out_of_range_of_scatter();
// The attributes of a scatter for a gather's gradient, and the other way round.
void convert_out_of_range(Attributes& attributes, std::string_view kind);

// For inference: GraphError for another mode, OutOfRangeError where indices that are known lie outside and may not.
void check_out_of_range(const InferContext& context, const Shape& gradient_of = {});

// The first index that lies outside and is none of those ignored, counted row-major; -1 when there is none.
int64_t first_outside(const Ints& indices, const Ints& lengths, const Ints& ignored = {});
// What an OutOfRangeError says of it.
std::string outside(std::string_view kind, const Tensor& indices, const Bounds& bounds, int64_t place, int64_t index);
// Throws what a check_indices, which holds the kind and the bounds as attributes, says of an index outside: an
// OutOfRangeError, or the CheckError of a condition.
[[noreturn]] void refuse(const Operation& check, int64_t place, int64_t index);
// The same for the first of its indices, of which one lies outside.
[[noreturn]] void refuse(const Operation& check, const std::byte* indices);

}  // namespace mpsgraph::ops
