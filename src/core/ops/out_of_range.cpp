// Out-of-range indices: the bounds for each kind of operation, the checks of indices known at build time, and the error
// messages.
#include "core/ops/out_of_range.h"

#include <algorithm>

#include "core/known_values.h"
#include "core/ops/any_outside.h"
#include "core/ops/indices.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/check_error.h"

namespace mpsgraph::ops {
namespace {

constexpr std::string_view name_of_mode = "out_of_range";

bool is_scatter(std::string_view kind) { return kind.starts_with("scatter"); }

Bounds along(size_t operand, const Shape& shape, int64_t axis) {
  const int at = shape.ranked() ? wrap_axis(axis, shape.rank()) : -1;
  // If the axis is unknown or invalid, its length is unknown. Inference reports an invalid axis.
  if (at < 0 || at >= shape.rank()) return {operand, {axis}, {-1}};
  return {operand, {at}, {shape[at]}};
}

// Bounds of index vectors. Element k of a vector is an index along the k-th axis after the batch dimensions.
std::optional<Bounds> along_several(size_t operand, const Shape& shape, const Shape& indices, int64_t batch) {
  if (!indices.ranked() || indices.dims().back() < 0) return std::nullopt;
  Bounds result{operand, {}, {}};
  for (int64_t axis = batch; axis < batch + indices.dims().back(); ++axis) {
    result.axes.push_back(axis);
    result.lengths.push_back(shape.ranked() ? shape[static_cast<int>(axis)] : -1);
  }
  return result;
}

// Text with the multi-dimensional index of the element at a position in row-major order.
std::string place_of(const Tensor& tensor, int64_t place) {
  Dims at = tensor.shape().dims();
  for (size_t i = at.size(), left = static_cast<size_t>(place); i-- > 0;) {
    const auto size = static_cast<size_t>(at[i]);
    at[i] = static_cast<int64_t>(left % size);
    left /= size;
  }
  return to_string(at);
}

}  // namespace

std::optional<Bounds> bounds_of(const OperationDefinition& definition, const std::vector<Tensor*>& inputs,
                                const Attributes& attributes, const Shape& gradient_of) {
  const Kind kind = definition.name;
  if (!attributes.has(name_of_mode)) return std::nullopt;
  if (kind == "one_hot") return Bounds{0, {attributes.integer("axis")}, {attributes.integer("depth")}};
  const size_t operand = is_scatter(kind) ? 2 : 1;
  const Shape& shape = kind == "gather_gradient" ? gradient_of : inputs[0]->type.shape;
  if (kind == "gather_nd" || kind == "scatter_nd")
    return along_several(operand, shape, inputs[operand]->type.shape, attributes.integer("batch_dimensions"));
  if (!attributes.has("axis")) return std::nullopt;
  return along(operand, shape, attributes.integer("axis"));
}

std::optional<Bounds> bounds_of(const Operation& operation) {
  const Shape result = operation.outputs.empty() ? Shape() : operation.output()->type.shape;
  return bounds_of(*operation.definition, operation.inputs, operation.attributes, result);
}

AttributeSpec out_of_range_of_gather() { return optional(name_of_mode, std::string("zeros")); }
AttributeSpec out_of_range_of_scatter() { return optional(name_of_mode, std::string("drop")); }

void convert_out_of_range(Attributes& attributes, std::string_view kind) {
  if (takes_any(attributes)) attributes.set(name_of_mode, std::string(is_scatter(kind) ? "drop" : "zeros"));
}

void check_out_of_range(const InferContext& context, const Shape& gradient_of) {
  const std::string& mode = out_of_range(context.attributes);
  const std::string_view kind = context.definition.name, none = is_scatter(kind) ? "drop" : "zeros";
  if (mode == none) return;
  if (mode != "clip" && mode != "error")
    context.graph_error(cat("out_of_range must be ", none, ", clip or error, got '", mode, "'"));
  const auto bounds = bounds_of(context.definition, context.inputs, context.attributes, gradient_of);
  if (!bounds || std::ranges::find(bounds->lengths, -1) != bounds->lengths.end()) return;
  const Tensor& indices = *context.inputs[bounds->operand];
  if (!indices.shape().known() || indices.shape().elements() == 0) return;
  if (mode == "clip") {
    const auto empty = std::ranges::find(bounds->lengths, 0);
    if (empty != bounds->lengths.end())
      context.shape_error(cat("out_of_range=\"clip\" needs a non-empty axis to clip into, got axis ",
                              bounds->axes[empty - bounds->lengths.begin()], " of length 0"));
    return;
  }
  const auto known = constant_value(&indices);
  if (!known) return;
  if (const int64_t place = first_outside(*known, bounds->lengths); place >= 0)
    throw OutOfRangeError(cat(outside(kind, indices, *bounds, place, (*known)[place]), context.where));
}

int64_t first_outside(const Ints& indices, const Ints& lengths, const Ints& ignored) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (is_outside(indices[i], lengths[i % lengths.size()]) && std::ranges::find(ignored, indices[i]) == ignored.end())
      return static_cast<int64_t>(i);
  return -1;
}

std::string outside(std::string_view kind, const Tensor& indices, const Bounds& bounds, int64_t place, int64_t index) {
  const size_t which = static_cast<size_t>(place) % bounds.lengths.size();
  const int64_t length = bounds.lengths[which];
  const std::string where =
      cat(indices.shape().rank() == 0 ? "" : place_of(indices, place) + " of ", "'", indices.name(), "'");
  if (kind.starts_with("dynamic_"))
    return cat("[", kind.substr(kind.find('_') + 1), "] the elements from start ", index,
               " extend beyond the ends of axis ", bounds.axes[which], "; pass a start from 0 to ", length - 1,
               ", or a negative one that counts from the end");
  if (kind == "one_hot")
    return cat("[one_hot] class index ", index, " at ", where, " is out of range for ", length,
               " classes; class indices must be from 0 to ", length - 1);
  return cat("[", kind, "] index ", index, " at ", where, " is out of range for axis ", bounds.axes[which],
             " of length ", length, "; pass indices from 0 to ", length - 1, ", or out_of_range=\"clip\" or \"",
             is_scatter(kind) ? "drop" : "zeros", "\"");
}

void refuse(const Operation& check, int64_t place, int64_t index) {
  const Attributes& a = check.attributes;
  const Tensor& indices = *check.input(0);
  if (const std::string& message = a.string("message"); !message.empty()) {
    const bool several = indices.shape().elements() > 1;
    throw CheckError(cat(message, several ? "; false at " + place_of(indices, place) : "", check.where()));
  }
  throw OutOfRangeError(cat(
      outside(a.string("of"), indices, {0, a.integers("axes"), a.integers("lengths")}, place, index), check.where()));
}

void refuse(const Operation& check, const std::byte* indices) {
  const Tensor& tensor = *check.input(0);
  const int64_t count = tensor.shape().elements();
  Ints values;
  with_integers(tensor.dtype(), indices, [&](const auto* index) {
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<int64_t>(index[i]));
  });
  const int64_t place =
      first_outside(values, check.attributes.integers("lengths"), check.attributes.integers("ignored"));
  refuse(check, place, values[static_cast<size_t>(place)]);
}

}  // namespace mpsgraph::ops
