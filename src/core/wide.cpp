// The kinds of operations that compute half precision in float32, and the casts that these computations need.
#include "core/wide.h"

#include <algorithm>

#include "core/kind_table.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph {
namespace {

enum class Wide : uint8_t {
  value,
  derivative,
  both,
  parts
};  // `parts`: only the decomposition casts to float32; kernels already use float32 internally

const KindTable<Wide>& kinds() {
  using enum Wide;
  static const KindTable<Wide> table{
      // sums, whose derivatives are broadcasts
      {"reduction_sum", value},
      {"broadcast_gradient", value},
      // products of many factors
      {"reduction_product", both},
      {"cumulative_product", derivative},
      {"cumulative_recurrence", derivative},
      // counts of tied elements
      {"reduction_maximum", derivative},
      {"reduction_minimum", derivative},
      {"reduction_maximum_propagate_nan", derivative},
      {"reduction_minimum_propagate_nan", derivative},
      // moments and normalizations
      {"mean", both},
      {"variance", both},
      {"normalization", value},  // the derivative rule of normalization casts by itself
      {"normalization_gradient", both},
      {"normalization_gamma_gradient", both},
      {"normalization_beta_gradient", both},
      // softmax and losses
      {"softmax", value},
      {"log_softmax", value},
      {"softmax_gradient", both},
      {"log_softmax_gradient", both},
      {"softmax_cross_entropy", both},
      {"softmax_cross_entropy_gradient", both},
      // optimizer steps
      {"stochastic_gradient_descent", both},
      {"adam", both},
      {"adam_with_current_learning_rate", both},
      // interpolation weights, computed in several steps
      {"sample_grid", parts},
      {"sample_grid_source_gradient", parts},
      {"sample_grid_coordinate_gradient", parts},
  };
  return table;
}

// Whether the operation's operands are half precision, and the entry for its kind in the table returned by kinds() is
// `one` (`value` or `derivative`) or `both`.
bool is(const Operation& operation, Wide one) {
  const Wide* wide = kinds().find(operation.kind());
  return wide && (*wide == one || *wide == Wide::both) && is_of_halves(operation);
}

}  // namespace

bool is_of_halves(const Operation& operation) {
  const Tensor* first = nullptr;
  for (const Tensor* input : operation.inputs) {
    if (!is_inexact(input->dtype())) continue;
    if (input->type.history || !is_half(input->dtype()) || (first && first->dtype() != input->dtype())) return false;
    first = input;
  }
  return first;
}

bool computes_wide(const Operation& operation) { return is(operation, Wide::value); }
bool differentiates_wide(const Operation& operation) { return is(operation, Wide::derivative); }

std::vector<Tensor*> widened(Builder& b, const std::vector<Tensor*>& inputs) {
  std::vector<Tensor*> wide;
  for (Tensor* input : inputs) wide.push_back(is_half(input->dtype()) ? b.cast(input, DType::float32) : input);
  return wide;
}

std::vector<Tensor*> narrowed(Builder& b, const std::vector<Tensor*>& results, const Operation& operation) {
  std::vector<Tensor*> narrow;
  for (size_t i = 0; i < results.size(); ++i) narrow.push_back(b.cast(results[i], operation.output(i)->dtype()));
  return narrow;
}

std::vector<Tensor*> decomposed(Builder& b, const Operation& operation, const std::vector<Tensor*>& inputs) {
  const Decompose& parts = operation.definition->decompose;
  if (!kinds().contains(operation.kind()) || !is_of_halves(operation)) return parts(b, inputs, operation.attributes);
  return narrowed(b, parts(b, widened(b, inputs), operation.attributes), operation);
}

}  // namespace mpsgraph
