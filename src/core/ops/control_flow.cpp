// Control flow: if, while and for over blocks, and the derivative of if.
//
//   if(predicate) {then} {else}                 the results of the block that is taken
//   while(inits...) {before} {after}            before(values...) -> condition, results...;
//                                               after(results...) -> values...
//   for(lower, upper, step, inits...) {body}    body(index, values...) -> values...
// Blocks may use any tensor from around them. Loops have no derivative.
#include <unordered_map>

#include "core/builder.h"
#include "core/definition.h"
#include "core/gradients.h"
#include "core/known_values.h"

namespace mpsgraph::ops {
namespace {

void require_one_bool(const InferContext& c, const TensorType& type, std::string_view what) {
  if (type.dtype != DType::boolean)
    c.dtype_error(cat(what, " must be bool, came ", type, "; compare or cast it first"));
  if (type.shape.known() && type.shape.elements() != 1) c.shape_error(cat(what, " must be one bool, came ", type));
}

// Values that go around: what is handed over must be able to be what is taken.
void require_same_types(const InferContext& c, const std::vector<TensorType>& given, const std::vector<Tensor*>& taken,
                        std::string_view from, std::string_view to) {
  if (given.size() != taken.size()) {
    c.graph_error(cat(from, " give ", given.size(), " values, ", to, " take ", taken.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string pair = cat("value ", i, " of ", from, " is ", given[i], ", ", to, " take ", taken[i]->type);
    if (given[i].dtype != taken[i]->dtype()) c.dtype_error(cat(pair, "; cast it to ", taken[i]->dtype(), " first"));
    if (!compatible(given[i].shape, taken[i]->shape())) c.shape_error(cat(pair, "; the shapes must stay equal"));
  }
}

std::vector<TensorType> types_of(const std::vector<Tensor*>& tensors, size_t first = 0) {
  std::vector<TensorType> types;
  for (size_t i = first; i < tensors.size(); ++i) types.push_back(tensors[i]->type);
  return types;
}

std::vector<TensorType> infer_if(const InferContext& c) {
  require_one_bool(c, c.type(0), "the predicate");
  const auto& then = c.blocks[0]->results;
  const auto& otherwise = c.blocks[1]->results;
  if (!c.blocks[0]->arguments.empty() || !c.blocks[1]->arguments.empty()) c.graph_error("its blocks take no arguments");
  if (then.size() != otherwise.size()) {
    c.graph_error(cat("the then block gives ", then.size(), " results, the else block ", otherwise.size(),
                      "; they must be as many"));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < then.size(); ++i) {
    const TensorType &a = then[i]->type, &b = otherwise[i]->type;
    if (then[i]->operation->is("undefined") || otherwise[i]->operation->is("undefined")) {
      types.push_back(then[i]->operation->is("undefined") ? b : a);
      continue;
    }
    const std::string pair = cat("result ", i, " is ", a, " in the then block and ", b, " in the else block");
    if (a.dtype != b.dtype) c.dtype_error(cat(pair, "; cast one of them"));
    if (!compatible(a.shape, b.shape)) c.shape_error(cat(pair, "; the shapes must be equal"));
    types.push_back({a.dtype, merge(a.shape, b.shape)});
  }
  return types;
}

std::vector<TensorType> infer_while(const InferContext& c) {
  const Block &before = *c.blocks[0], &after = *c.blocks[1];
  if (before.results.empty()) c.graph_error("the before block must give the condition first, then the results");
  require_one_bool(c, before.results[0]->type, "the condition");
  const std::vector<TensorType> results = types_of(before.results, 1);
  require_same_types(c, types_of(c.inputs), before.arguments, "the initial values",
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
      c.dtype_error(cat(bounds[i], " must be int32, came ", c.type(i), "; cast it to int32 first"));
    if (!compatible(c.shape(i), index.shape)) c.shape_error(cat(bounds[i], " must have rank 0, came ", c.type(i)));
  }
  if (const auto step = c.constant(2); step && *step == Ints{0}) c.shape_error("step must not be 0");
  const Block& body = *c.blocks[0];
  std::vector<TensorType> initial = types_of(c.inputs, 3);
  initial.insert(initial.begin(), index);
  require_same_types(c, initial, body.arguments, "the index and the initial values", "the arguments of the body");
  std::vector<TensorType> next = types_of(body.results);
  next.insert(next.begin(), index);
  require_same_types(c, next, body.arguments, "the index and the results of the body", "the arguments of the body");
  return types_of(body.arguments, 1);
}

// While the derivative of one branch of a forward `if` is built elsewhere, this gives what the rules need of the
// branch's own tensors. They become further results of the `if`, because running the branch twice would draw
// its random numbers and make its assignments twice; the other branch gives `undefined`, which is never looked
// at. Constants and shape computations are repeated instead, so that inference still sees through them.
class SavedTensors {
 public:
  SavedTensors(Operation& operation, size_t branch) : operation_(operation), branch_(branch) {
    const auto& results = block().results;
    for (size_t i = 0; i < results.size(); ++i) saved_.emplace(results[i], operation.output(i));
    operation.graph().begin_substitution(block(), [this](Tensor* inner) { return stand_in(inner); });
  }
  ~SavedTensors() { operation_.graph().end_substitution(); }
  SavedTensors(const SavedTensors&) = delete;
  SavedTensors& operator=(const SavedTensors&) = delete;

 private:
  static constexpr int max_repeated_depth = 64;  // longer chains of shape computations are saved

  Block& block() const { return *operation_.blocks[branch_]; }

  Tensor* stand_in(Tensor* inner) {
    if (const auto found = saved_.find(inner); found != saved_.end()) return found->second;
    Graph& graph = operation_.graph();
    if (const auto found = repeated_.find(inner); found != repeated_.end()) {
      if (found->second->operation->parent->encloses(&graph.current_block())) return found->second;
    }
    const Operation& origin = *inner->operation;
    const bool computes_shape = is_integer(inner->dtype()) && inner->shape().ranked() && inner->shape().rank() <= 1 &&
                                is_shape_arithmetic(origin.kind()) && depth_ < max_repeated_depth;
    if (!origin.is("constant") && !computes_shape) return save(inner);
    ++depth_;
    Operation* copy = graph.create(origin.kind(), origin.inputs, origin.attributes);
    --depth_;
    return repeated_[inner] = copy->output(static_cast<size_t>(inner->index));
  }

  Tensor* save(Tensor* inner) {
    Graph& graph = operation_.graph();
    Block& other = *operation_.blocks[1 - branch_];
    Operation* nothing =
        graph.create_unchecked(other, definition_of("undefined"), {}, {{"type", inner->type}}, {}, {inner->type});
    block().results.push_back(inner);
    other.results.push_back(nothing->output());
    return saved_[inner] = graph.append_output(&operation_, inner->type);
  }

  Operation& operation_;
  const size_t branch_;
  int depth_ = 0;
  std::unordered_map<const Tensor*, Tensor*> saved_;
  std::unordered_map<const Tensor*, Tensor*> repeated_;
};

// One block of the backward `if`: the gradients of all captures when this branch was taken.
std::unique_ptr<Block> d_branch(GradientContext& g, size_t branch) {
  Graph& graph = g.graph();
  const std::vector<Tensor*>& results = g.operation.blocks[branch]->results;
  Seeds seeds;
  for (size_t i = 0; i < g.incoming_count(); ++i) {  // the first branch may have added results that it saves
    if (g.incoming(i)) seeds.emplace_back(results[i], g.incoming(i));
  }
  Block* backward = graph.begin_block();
  try {
    const SavedTensors saved(g.operation, branch);
    std::vector<Tensor*> gradients = block_gradients(*g.operation.blocks[branch], seeds, g.captures);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) gradients[i] = Builder(graph).zeros_like(g.captures[i]);
    }
    return graph.finish_block(backward, gradients);
  } catch (...) {
    graph.abandon_block(backward);
    throw;
  }
}

// The same choice again; each block gives the gradients of everything that either branch used from outside.
void d_if(GradientContext& g) {
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(d_branch(g, 0));
  try {
    blocks.push_back(d_branch(g, 1));
  } catch (...) {
    g.graph().abandon_block(std::move(blocks[0]));
    throw;
  }
  const Operation* backward = g.graph().create("if", {g.input(0)}, {}, {}, std::move(blocks));
  for (size_t i = 0; i < g.captures.size(); ++i) g.capture_result[i] = backward->output(i);
}

}  // namespace

void register_control_flow() {
  define({.name = "if",
          .family = "control_flow",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_if,
          .gradient = d_if,
          .block_count = 2});
  define({.name = "while",
          .family = "control_flow",
          .min_inputs = 0,
          .max_inputs = -1,
          .infer = infer_while,
          .block_count = 2});
  define({.name = "for",
          .family = "control_flow",
          .min_inputs = 3,
          .max_inputs = -1,
          .infer = infer_for,
          .block_count = 1});
}

}  // namespace mpsgraph::ops
