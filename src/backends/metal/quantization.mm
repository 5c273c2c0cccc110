// Dequantization of small integers to floats: (x - zero_point) * scale.
//
// MPSGraph's own operations keep weights small until a matmul reads them. They support 8-bit integers with parameters
// for the whole tensor or along an axis, and, since macOS 15, with groups along the last axis. Other forms are
// composed. The core expands quantization and table lookups, because Apple documents neither how quantization rounds
// and saturates nor the result for a missing table entry.
#include <algorithm>
#include <optional>

#include "backends/metal/formula.h"

namespace mpsgraph::metal {
namespace {

// Return the value of operand i if it is a constant with one element.
std::optional<double> known_number(const Lowering& l, size_t i) {
  const Operation* producer = l.operation.inputs[i]->operation;
  if (!producer->is("constant") || element_count(l.dims(i)) != 1) return std::nullopt;
  const ConstantPtr& value = producer->attributes.data("value");
  return value->is_splat() ? std::optional(value->scalar()) : std::nullopt;
}

struct Dequantization {
  Lowering& l;
  const bool grouped = l.attributes().boolean("grouped"), shifted = l.count() > 2;
  const MPSDataType type = data_type(l.result_type().dtype);

  // Whether the scale is a list or has groups, and the zero point, if there is one, has the same shape.
  bool alike() const { return l.rank(1) > 0 && (!shifted || l.dims(1) == l.dims(2)); }
  // Whether the scale has groups along the last axis only, which is the form that Apple documents.
  bool has_rows_of_groups() const {
    return std::equal(l.dims(1).begin(), l.dims(1).end() - 1, l.dims().begin(), l.dims().end() - 1);
  }
  NSInteger axis() const { return static_cast<NSInteger>(l.axis()); }

  MPSGraphTensor* by_numbers(double scale, double zero_point) const {
    return [l.graph() dequantizeTensor:l.input() scale:scale zeroPoint:zero_point dataType:type name:l.name()];
  }
  MPSGraphTensor* along_axis() const {
    if (!shifted)
      return [l.graph() dequantizeTensor:l.input(0)
                             scaleTensor:l.input(1)
                               zeroPoint:0
                                dataType:type
                                    axis:axis()
                                    name:l.name()];
    return [l.graph() dequantizeTensor:l.input(0)
                           scaleTensor:l.input(1)
                       zeroPointTensor:l.input(2)
                              dataType:type
                                  axis:axis()
                                  name:l.name()];
  }

  // Compute the dequantization by splitting x into groups, as the core does. The scale and zero point have size 1 along
  // the axes on which several elements share them.
  MPSGraphTensor* composed() const {
    const Dims& x = l.dims();
    Dims groups(x.size(), 1), blocks, parameter;
    const Dims& given = l.dims(l.rank(1) > 0 || !shifted ? 1 : 2);
    if (grouped && !given.empty())
      groups = given;
    else if (!given.empty())
      groups[static_cast<size_t>(l.axis())] = given[0];
    for (size_t a = 0; a < x.size(); ++a) {
      const bool cut = groups[a] != 1 && groups[a] != x[a];
      blocks.push_back(cut ? groups[a] : x[a]), parameter.push_back(groups[a]);
      if (cut) blocks.push_back(x[a] / groups[a]), parameter.push_back(1);
    }
    const auto wide = [&](size_t i) { return Term::input(l, i).cast(DType::float32); };
    const auto spread = [&](size_t i) { return l.rank(i) ? wide(i).reshape(parameter) : wide(i); };
    Term steps = wide(0).reshape(blocks);
    if (shifted) steps = steps - spread(2);
    return (steps * spread(1)).reshape(x).cast(l.result_type().dtype).tensor();
  }
};

GraphTensors lower_dequantize(Lowering& l) {
  const Dequantization d{l};
  const bool bytes = l.dtype() == DType::int8 || l.dtype() == DType::uint8;
  const bool native = bytes && (d.type == MPSDataTypeFloat32 || d.type == MPSDataTypeFloat16);
  if (!native) return {d.composed()};
  const std::optional<double> scale = known_number(l, 1), zero_point = d.shifted ? known_number(l, 2) : 0.0;
  if (l.rank(1) == 0 && scale && zero_point) return {d.by_numbers(*scale, *zero_point)};
  if (!d.alike()) return {d.composed()};
  if (!d.grouped) return {d.along_axis()};
  if (!d.has_rows_of_groups()) return {d.composed()};
  if (METAL_AVAILABLE(15.0, 18.0)) {
    if (!d.shifted)
      return {[l.graph() dequantizeTensor:l.input(0) scaleTensor:l.input(1) dataType:d.type name:l.name()]};
    return {[l.graph() dequantizeTensor:l.input(0)
                            scaleTensor:l.input(1)
                        zeroPointTensor:l.input(2)
                               dataType:d.type
                                   name:l.name()]};
  }
  return {d.composed()};
}

}  // namespace

const Lowerings quantization_lowerings("quantization", [] { define_lowering("dequantize", lower_dequantize); });

}  // namespace mpsgraph::metal
