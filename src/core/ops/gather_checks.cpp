// Operations that check indices during a run. The compiler's pass `indices` creates them for gathers, one_hot, and
// scatters whose indices must be in range (core/ops/out_of_range.h), and for the operation `check`, where each false
// element of the condition is treated as an out-of-range index 1.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"

namespace mpsgraph::ops {

// find_outside and report_outside are for devices that cannot end a run by themselves. find_outside returns int64[3]:
// the number assigned to the check, counted from 1 (0 if all indices are in range), the position of the out-of-range
// index, and its value. report_outside turns these three numbers into the error that ends the run.
const Family gather_checks_family("gather", [] {
  const std::vector<AttributeSpec> attributes{required("of", AttributeKind::string),
                                              required("axes", AttributeKind::integers),
                                              required("lengths", AttributeKind::integers),
                                              optional("ignored", Ints{}),
                                              optional("number", int64_t{0}),
                                              optional("message", std::string())};
  const auto internal = [&](Kind kind, Infer infer, std::vector<AttributeSpec> taken, bool has_effect) {
    OperationDefinition definition = primitive(kind, 1, std::move(taken), std::move(infer), nullptr);
    definition.has_effect = has_effect;
    definition.internal = true;
    define(std::move(definition));
  };
  const auto nothing = [](const InferContext& context) {
    require_indices(context, 0);
    return std::vector<TensorType>{};
  };
  const auto found = [](const InferContext& context) {
    require_indices(context, 0);
    return std::vector<TensorType>{{DType::int64, Shape(Dims{3})}};
  };
  internal("check_indices", nothing, attributes, true);
  internal("find_outside", found, attributes, false);
  internal("report_outside", nothing, {}, true);
});

}  // namespace mpsgraph::ops
