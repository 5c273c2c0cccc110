// Control flow: if, while, and for over blocks.
//
//   if(predicate) {then} {else}                 returns the results of the block that runs
//   while(inits...) {before} {after}            before(values...) -> condition, results...;
//                                               after(results...) -> values...
//   for(lower, upper, step, inits...) {body}    body(index, values...) -> values...
// Blocks may use any tensor of the enclosing blocks.
#include "core/ops/control_flow.h"

#include "core/definition.h"

namespace mpsgraph::ops {

std::vector<TensorType> types_of(const std::vector<Tensor*>& tensors, size_t first) {
  std::vector<TensorType> types;
  for (size_t i = first; i < tensors.size(); ++i) types.push_back(tensors[i]->type);
  return types;
}

namespace {

void require_one_bool(const InferContext& c, const TensorType& type, std::string_view what) {
  if (type.dtype != DType::boolean) c.dtype_error(cat(what, " must be bool, got ", type, "; compare or cast it first"));
  if (type.shape.known() && type.shape.elements() != 1)
    c.shape_error(cat(what, " must be a single bool, got ", type, "; reduce it first"));
}

// Checks that `given`, the types of loop-carried values, match the block arguments in `taken` in number, and that each
// argument accepts the type of its value.
void require_same_types(const InferContext& c, const std::vector<TensorType>& given, const std::vector<Tensor*>& taken,
                        std::string_view from, std::string_view to) {
  if (given.size() != taken.size()) {
    c.graph_error(cat(from, " must be equal in number to ", to, ", got ", given.size(), " and ", taken.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string pair = cat("value ", i, " of ", from, " is ", given[i], ", but ", to, " take ", taken[i]->type);
    if (given[i].dtype != taken[i]->dtype()) c.dtype_error(cat(pair, "; cast it to ", taken[i]->dtype(), " first"));
    if (!compatible(given[i].shape, taken[i]->shape()))
      c.shape_error(cat(pair, "; a loop-carried value must keep its shape"));
    if (given[i].history != taken[i]->type.history) c.graph_error(pair);
  }
}

// Types of the loop's initial operands, followed by the types of the carried values that start at zero.
std::vector<TensorType> initial_types(const InferContext& c, size_t first, const std::vector<Tensor*>& arguments) {
  std::vector<TensorType> types = types_of(c.inputs, first);
  const int64_t count = c.attributes.integer(from_zero);
  if (count < 0 || count > static_cast<int64_t>(arguments.size()))
    c.graph_error(
        cat(from_zero, " must be between 0 and the number of arguments (", arguments.size(), "), got ", count));
  for (size_t i = arguments.size() - static_cast<size_t>(count); i < arguments.size(); ++i)
    types.push_back(arguments[i]->type);
  return types;
}

std::vector<TensorType> infer_if(const InferContext& c) {
  require_one_bool(c, c.type(0), "the predicate");
  const auto& then = c.blocks[0]->results;
  const auto& otherwise = c.blocks[1]->results;
  if (!c.blocks[0]->arguments.empty() || !c.blocks[1]->arguments.empty())
    c.graph_error(cat("the then block and the else block of an if must not take arguments, got ",
                      c.blocks[0]->arguments.size(), " and ", c.blocks[1]->arguments.size()));
  if (then.size() != otherwise.size()) {
    c.graph_error(cat("both blocks must return the same number of results, got ", then.size(),
                      " from the then block and ", otherwise.size(), " from the else block"));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < then.size(); ++i) {
    const TensorType &a = then[i]->type, &b = otherwise[i]->type;
    if (then[i]->operation->is("undefined") || otherwise[i]->operation->is("undefined")) {
      types.push_back(then[i]->operation->is("undefined") ? b : a);
      continue;
    }
    const std::string pair = cat("result ", i, " is ", a, " in the then block and ", b, " in the else block");
    if (a.dtype != b.dtype) c.dtype_error(cat(pair, "; cast one of them so that the dtypes match"));
    if (!compatible(a.shape, b.shape)) c.shape_error(cat(pair, "; both must have the same shape"));
    if (a.history != b.history) c.graph_error(pair);
    types.push_back({a.dtype, merge(a.shape, b.shape), a.history});
  }
  return types;
}

std::vector<TensorType> infer_while(const InferContext& c) {
  const Block &before = *c.blocks[0], &after = *c.blocks[1];
  if (before.results.empty()) c.graph_error("the before block must return the condition first, then its results");
  require_one_bool(c, before.results[0]->type, "the condition");
  const std::vector<TensorType> results = types_of(before.results, 1);
  require_same_types(c, initial_types(c, 0, before.arguments), before.arguments, "the initial values",
                     "the arguments of the before block");
  require_same_types(c, results, after.arguments, "the results of the before block",
                     "the arguments of the after block");
  require_same_types(c, types_of(after.results), before.arguments, "the results of the after block",
                     "the arguments of the before block");
  return results;
}

std::vector<TensorType> infer_for(const InferContext& c) {
  constexpr std::string_view bounds[] = {"lower", "upper", "step"};
  const TensorType index{DType::int32, Shape(Dims{})};
  for (size_t i = 0; i < 3; ++i) {
    if (c.dtype(i) != DType::int32)
      c.dtype_error(cat(bounds[i], " must be int32, got ", c.type(i), "; cast it to int32 first"));
    if (!compatible(c.shape(i), index.shape))
      c.shape_error(cat(bounds[i], " must be a scalar (rank 0), got ", c.type(i)));
  }
  if (const auto step = c.constant(2); step && *step == Ints{0})
    c.shape_error("step must not be 0, or the loop would never end");
  const Block& body = *c.blocks[0];
  std::vector<TensorType> initial = initial_types(c, 3, body.arguments);
  initial.insert(initial.begin(), index);
  require_same_types(c, initial, body.arguments, "the index and the initial values", "the arguments of the body");
  std::vector<TensorType> next = types_of(body.results);
  next.insert(next.begin(), index);
  require_same_types(c, next, body.arguments, "the index and the results of the body", "the arguments of the body");
  return types_of(body.arguments, 1);
}

}  // namespace

const Family control_flow_family("control_flow", [] {
  define({.name = "if", .min_inputs = 1, .max_inputs = 1, .infer = infer_if, .gradient = d_if, .block_count = 2});
  define({.name = "while",
          .min_inputs = 0,
          .max_inputs = -1,
          .attributes = {optional(from_zero, int64_t{0})},
          .infer = infer_while,
          .gradient = d_while,
          .block_count = 2});
  define({.name = "for",
          .min_inputs = 3,
          .max_inputs = -1,
          .attributes = {optional(from_zero, int64_t{0})},
          .infer = infer_for,
          .gradient = d_for,
          .block_count = 1});
});

}  // namespace mpsgraph::ops
