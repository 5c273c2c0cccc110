// A library of custom operations, as users build it: two operations defined in C++, without linking to anything.
#include <mpsgraph/custom_operation.h>
#include <cmath>

using namespace mpsgraph::custom;

static void cube_root(Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const double shift = call.real("shift");
  call.parallel_for(x.size(), 1000, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = std::cbrt(x[i] + static_cast<float>(shift));
  });
}

static void cube_root_gradient(Call& call) {
  const auto incoming = call.operand<float>(0);
  const auto x = call.operand<float>(1);
  const auto dx = call.result<float>(0);
  const double shift = call.real("shift");
  for (int64_t i = 0; i < x.size(); ++i) {
    const float root = std::cbrt(x[i] + static_cast<float>(shift));
    dx[i] = incoming[i] / (3 * root * root);
  }
}

static void shape_of_rows(Inference& inference) {
  if (inference.operand_type(0).rank < 1) throw std::invalid_argument("the operand must have at least one axis");
  mpsgraph_type& result = inference.result(0);
  result.rank -= 1;
}

static void row_lengths(Call& call) {
  const auto x = call.operand<float>(0);
  const auto y = call.result<float>(0);
  const int64_t width = x.dim(-1);
  for (int64_t row = 0; row < y.size(); ++row) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(x[row * width + i]) * x[row * width + i];
    y[row] = static_cast<float>(std::sqrt(sum));
  }
}

static const mpsgraph_custom_attribute shift[] = {{"shift", MPSGRAPH_CUSTOM_REAL, 0, 0, 0.5, nullptr, nullptr, 0}};
static const mpsgraph_custom_operation operations[] = {
    {"own.cube_root", "1", shift, 1, 1, 0, nullptr, 0, nullptr, kernel<cube_root>, nullptr, nullptr, nullptr,
     "own.cube_root_gradient", 0},
    {"own.cube_root_gradient", "1", shift, 1, 2, 0, nullptr, 0, nullptr, kernel<cube_root_gradient>, nullptr, nullptr,
     nullptr, nullptr, 0},
    {"own.row_lengths", "1", nullptr, 0, 1, 0, nullptr, 0, infer<shape_of_rows>, kernel<row_lengths>, nullptr, nullptr,
     nullptr, nullptr, 0},
};
MPSGRAPH_CUSTOM_OPERATIONS(operations)
