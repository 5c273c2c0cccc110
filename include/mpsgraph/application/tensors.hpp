// Operators of tensors, and compositions of several operations.
#pragma once

#include "mpsgraph/application/operations.hpp"

namespace mpsgraph::application {

// Either side may be a number, as in 1 - x, but not both. Comparisons return bool tensors.
#define MPSGRAPH_BINARY(symbol, function)                                                    \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); } \
  template <Number N>                                                                        \
  Tensor operator symbol(const Tensor& a, N b) {                                             \
    return function(a, b);                                                                   \
  }                                                                                          \
  template <Number N>                                                                        \
  Tensor operator symbol(N a, const Tensor& b) {                                             \
    return function(a, b);                                                                   \
  }
MPSGRAPH_BINARY(+, addition)
MPSGRAPH_BINARY(-, subtraction)
MPSGRAPH_BINARY(*, multiplication)
MPSGRAPH_BINARY(/, division)
MPSGRAPH_BINARY(%, floor_modulo)
MPSGRAPH_BINARY(<, less_than)
MPSGRAPH_BINARY(<=, less_than_or_equal_to)
MPSGRAPH_BINARY(>, greater_than)
MPSGRAPH_BINARY(>=, greater_than_or_equal_to)
MPSGRAPH_BINARY(==, equal)
MPSGRAPH_BINARY(!=, not_equal)
MPSGRAPH_BINARY(&&, logical_and)
MPSGRAPH_BINARY(||, logical_or)
#undef MPSGRAPH_BINARY

inline Tensor operator-(const Tensor& x) { return negative(x); }
inline Tensor operator!(const Tensor& x) { return not_(x); }
inline Tensor& operator+=(Tensor& a, const Operand& b) { return a = addition(a, b); }
inline Tensor& operator-=(Tensor& a, const Operand& b) { return a = subtraction(a, b); }
inline Tensor& operator*=(Tensor& a, const Operand& b) { return a = multiplication(a, b); }
inline Tensor& operator/=(Tensor& a, const Operand& b) { return a = division(a, b); }

// Returns the product of two matrices, or of two stacks of matrices.
inline Tensor matmul(const Tensor& a, const Tensor& b, const char* name = nullptr) {
  return matrix_multiplication(a, b, name);
}

// Returns `count` parts of equal size along an axis, whose size must be known and divisible.
inline std::vector<Tensor> split_equally(const Tensor& x, int64_t count, int64_t axis = 0, const char* name = nullptr) {
  const auto shape = x.shape();
  const int64_t rank = static_cast<int64_t>(shape.size()), place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank)
    throw Failure(MPSGRAPH_SHAPE_ERROR, "[split_equally] axis must be between " + std::to_string(-rank) + " and " +
                                            std::to_string(rank - 1) + ", got " + std::to_string(axis));
  const int64_t size = shape[static_cast<size_t>(place)];
  if (count < 1 || size < 0 || size % count)
    throw Failure(MPSGRAPH_SHAPE_ERROR,
                  "[split_equally] the size of the axis must be known and divisible by count, got " +
                      std::to_string(size) + " and " + std::to_string(count));
  return split(x, std::vector<int64_t>(static_cast<size_t>(count), size / count), axis, name);
}

// Returns the elements from `start` up to, but not including, `end` along one axis. Negative numbers count from the end.
inline Tensor slice_axis(const Tensor& x, int64_t axis, int64_t start, int64_t end, const char* name = nullptr) {
  const size_t rank = x.shape().size();
  const size_t place = axis < 0 ? rank + static_cast<size_t>(axis) : static_cast<size_t>(axis);
  if (place >= rank)
    throw Failure(MPSGRAPH_SHAPE_ERROR, "[slice_axis] axis must be less than the rank, which is " +
                                            std::to_string(rank) + ", got " + std::to_string(axis));
  std::vector<int64_t> starts(rank), ends(rank);
  starts[place] = start, ends[place] = end;
  const int64_t others = ((int64_t{1} << rank) - 1) & ~(int64_t{1} << place);
  return slice(x, starts, ends, std::vector<int64_t>(rank, 1),
               {.start_mask = others, .end_mask = others, .name = name});
}

// Returns a state for random() from a seed: int32[7], with the counter at 0 and the seed as the key, as in MPSGraph.
inline Tensor random_philox_state(const Graph& graph, uint64_t seed, const char* name = nullptr) {
  const int32_t state[] = {1, 0, 0, 0, 0, static_cast<int32_t>(seed & 0xffffffffu), static_cast<int32_t>(seed >> 32)};
  return graph.constant(Array::of<int32_t>({7}, std::span<const int32_t>(state)), name);
}

// Sets random elements of x to zero with probability `rate` and divides the others by 1 - rate. Returns the result and
// the next state.
inline std::array<Tensor, 2> dropout(const Tensor& x, double rate, const Tensor& state, const char* name = nullptr) {
  if (!(rate >= 0 && rate < 1))
    throw Failure(MPSGRAPH_GRAPH_ERROR,
                  "[dropout] rate must be at least 0 and less than 1, got " + std::to_string(rate));
  const auto [uniform, next] = random(shape_of(x), state);
  const Tensor keep = cast(uniform >= rate, MPSGRAPH_FLOAT32);
  return {multiplication(x, cast(keep / (1 - rate), x.dtype()), name), next};
}

// Returns the index of each element that is not zero, in row-major order: int32 of shape (count, rank of x). The count
// depends on the data.
inline Tensor non_zero_indices(const Tensor& x, const char* name = nullptr) {
  const Tensor found = x.dtype() == MPSGRAPH_BOOL ? x : x != 0;
  const Tensor count = reshape(reduction_sum(cast(found, MPSGRAPH_INT32)), {1});
  return detail::Call("non_zero_indices").operand(x).operand(concat({count, shape_of(shape_of(x))}, 0)).tensor(name);
}

struct NonMaximumSuppressionOptions {
  bool per_class_suppression = false;  // Whether only boxes of the same class suppress each other.
  // "corners_height_first" (y, x, y, x of opposite corners), "corners_width_first", "centers_height_first" (center y,
  // center x, height, width), or "centers_width_first".
  const char* coordinate_mode = "corners_height_first";
  Tensor class_indices = {};  // The class of each box, if the scores are not those of several classes.
  const char* name = nullptr;
};
// Selects boxes by descending score, leaving out those that overlap a selected box by more than iou_threshold, or whose
// score is not above score_threshold. `boxes` has shape (N, B, 4), and `scores` (N, B, number of classes). Returns int32
// of shape (number of selected boxes, 3), with the image, the class, and the box.
inline Tensor non_maximum_suppression(const Tensor& boxes, const Tensor& scores, double iou_threshold,
                                      double score_threshold, const NonMaximumSuppressionOptions& options = {}) {
  const Tensor order = detail::Call("non_maximum_suppression")
                           .operand(boxes)
                           .operand(scores)
                           .optional(options.class_indices)
                           .set("iou_threshold", iou_threshold)
                           .set("score_threshold", score_threshold)
                           .set("per_class_suppression", options.per_class_suppression)
                           .set("coordinate_mode", options.coordinate_mode)
                           .tensor(nullptr);
  const Tensor taken = non_zero_indices(order >= 0);
  const auto parts = split(taken, {1, 1, 1}, 1);
  Tensor kind = parts[2];
  if (options.class_indices) {
    kind = gather_nd(options.class_indices, concat({parts[0], parts[1]}, 1));
    kind = cast(expand_dims(kind, {1}), order.dtype());
  }
  const Tensor rows = concat({parts[0], kind, parts[1]}, 1), places = expand_dims(gather_nd(order, taken), {1});
  return scatter_nd(rows, rows, places, 0, {.mode = ScatterMode::set, .name = options.name});
}

}  // namespace mpsgraph::application
