// Random numbers from Philox 4x32-10: from a shape and a state, computes random values and the advanced state.
//
// The state is int32[7]: the number 1, four counter words, and two key words. The operation is pure: the same state
// always gives the same values, and later draws use the returned state. Random operations have no gradient.
#include <cmath>
#include <limits>

#include "core/ops/shape.h"

namespace mpsgraph::ops {
namespace {

void require_one_of(const InferContext& c, std::string_view attribute,
                    std::initializer_list<std::string_view> allowed) {
  const std::string& value = c.attributes.string(attribute);
  std::string list;
  for (std::string_view a : allowed) {
    if (a == value) return;
    list += cat(list.empty() ? "\"" : ", \"", a, "\"");
  }
  c.graph_error(cat(attribute, " must be one of ", list, ", got \"", value, "\""));
}

// Checks the bounds of a truncated normal distribution, in standard deviations from the mean. The method box_muller
// redraws each sample that lies outside the bounds, which is practical only if enough samples lie within them.
void require_bounds(const InferContext& c) {
  const double lower = c.attributes.real("lower"), upper = c.attributes.real("upper");
  const std::string bounds = cat("[", lower, ", ", upper, "] standard deviations");
  if (lower >= upper) c.graph_error(cat("lower must be less than upper, got ", bounds, " (relative to the mean)"));
  const double near = std::min(std::abs(lower), std::abs(upper)), far = std::max(std::abs(lower), std::abs(upper));
  const auto beyond = [](double z) { return 0.5 * std::erfc(z * std::sqrt(0.5)); };
  const double within = lower < 0 && upper > 0 ? 1 - beyond(near) - beyond(far) : beyond(near) - beyond(far);
  if (within < 0.01 && c.attributes.string("sampling_method") == "box_muller")
    c.graph_error(cat("only ", within * 100, "% of normal samples lie within ", bounds,
                      " of the mean, too few for rejection sampling: use sampling_method \"inverse_cdf\""));
}

void require_distribution(const InferContext& c) {
  const Attributes& a = c.attributes;
  require_one_of(c, "distribution", {"uniform", "normal", "truncated_normal"});
  require_one_of(c, "sampling_method", {"box_muller", "inverse_cdf"});
  require_one_of(c, "advance", {"tensorflow", "blocks"});
  DType dtype = a.dtype("dtype");
  bool uniform = a.string("distribution") == "uniform";
  if (uniform && (dtype == DType::int32 || dtype == DType::int64)) {
    int64_t low = a.integer("min_integer"), high = a.integer("max_integer");
    if (low >= high)
      c.graph_error(cat("max_integer must be greater than min_integer, because values lie in [min, max), got ", high,
                        " and ", low));
    if (dtype == DType::int32 &&
        (low < std::numeric_limits<int32_t>::min() || high - 1 > std::numeric_limits<int32_t>::max())) {
      c.graph_error(cat("min_integer and max_integer must fit in int32, got [", low, ", ", high, "): use dtype int64"));
    }
    return;
  }
  if (!is_float(dtype)) {
    c.dtype_error(cat("dtype of ", a.string("distribution"), " values must be floating-point",
                      uniform ? ", int32 or int64" : "", ", got ", dtype));
  }
  for (std::string_view key : {"min", "max", "mean", "standard_deviation", "lower", "upper"}) {
    if (!std::isfinite(a.real(key))) c.graph_error(cat(key, " must be finite, got ", a.real(key)));
  }
  if (uniform && a.real("min") > a.real("max")) {
    c.graph_error(cat("min must not be greater than max, got ", a.real("min"), " and ", a.real("max")));
  }
  if (a.real("standard_deviation") < 0) {
    c.graph_error(cat("standard_deviation must not be negative, got ", a.real("standard_deviation")));
  }
  if (a.string("distribution") == "truncated_normal") require_bounds(c);
}

std::vector<TensorType> infer_random(const InferContext& c) {
  require_distribution(c);
  if (c.dtype(1) != DType::int32) c.dtype_error(cat("the random state must be int32[7], got ", c.type(1)));
  if (!compatible(c.shape(1), Shape{7})) c.shape_error(cat("the random state must be int32[7], got ", c.type(1)));
  return {{c.attributes.dtype("dtype"), shape_operand(c, 0)}, {DType::int32, Shape{7}}};
}

}  // namespace

const Family random_family("random", [] {
  OperationDefinition d;
  d.name = "random";
  d.min_inputs = d.max_inputs = 2;
  d.attributes = {
      optional("distribution", std::string("uniform")),
      optional("dtype", DType::float32),
      optional("min", 0.0),
      optional("max", 1.0),
      optional("min_integer", int64_t{0}),
      optional("max_integer", int64_t{std::numeric_limits<int32_t>::max()}),
      optional("mean", 0.0),
      optional("standard_deviation", 1.0),
      optional("lower", -2.0),
      optional("upper", 2.0),
      optional("sampling_method", std::string("box_muller")),
      optional("advance", std::string("tensorflow")),
  };
  d.infer = infer_random;
  d.gradient_is_zero = true;
  define(std::move(d));
});

}  // namespace mpsgraph::ops
