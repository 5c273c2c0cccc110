// The operations that check indices in a run: made by the compiler's pass `indices` for gathers, one_hot and scatters
// whose indices must lie inside (core/ops/out_of_range.h), and for conditions, where 1 is the index of what is false.
#include "core/ops/indices.h"
#include "core/ops/primitive.h"

namespace mpsgraph::ops {

// find_outside and report_outside are of devices that cannot end a run where they are: int64[3] of a number that the
// check was given, from 1 on (0: all inside), the place and the index; and what makes that the run's outcome.
const Family gather_checks_family("gather", [] {
  const std::vector<AttributeSpec> attributes{required("of", AttributeKind::string),
                                              required("axes", AttributeKind::integers),
                                              required("lengths", AttributeKind::integers),
                                              optional("ignored", Ints{}),
                                              optional("number", int64_t{0}),
                                              optional("message", std::string())};
  const auto internal = [&](std::string_view kind, Infer infer, std::vector<AttributeSpec> taken, bool has_effect) {
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
