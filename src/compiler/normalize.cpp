// Compiler pass normalize: fuses batch normalization and the operations around it, so that there is one operation per
// pass over memory.
//
//   %m = mean(%x)                                  ->  %m, %v = fused_batch_moments(%x)
//   %v = variance(%x, %m)
//   %n = normalization(%x, %m, %v, %gamma, %beta)
//   %a = addition(%n, %r)                          ->  %y = fused_batch_normalization(%x, %m, %v, %gamma, %beta, %r)
//   %y = relu(%a)
//   %h = relu_gradient(%g, %y)                     ->  %dgamma, %dbeta, %h = fused_batch_normalization_sums(%g, ...)
//   %dgamma, %dbeta = the sums over %h
//   %dx = normalization_gradient(%h, %x, ...)      ->  %dx = fused_batch_normalization_gradient(%h, ...)
// The pass matches composites, so it runs before expand. If no residual is added, %h is not materialized: both gradient
// operations recompute relu's mask by normalizing %x again. The statistics must be reduced over all axes except the
// last one or the second one.
//
// Under autocast, %x is cast from bfloat16 to float32, and the result is cast back. These casts are absorbed: data is
// bfloat16 in memory, while statistics, sums, and all arithmetic stay float32:
//   %w = cast(%x); %m = mean(%w); ...; %n = normalization(%w, ...); %b = cast(%n); %y = relu(%b)
//
// Layer normalization is fused in normalize_layers.cpp.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/moments.h"
#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/shape.h"

namespace mpsgraph::compiler {
namespace {

// The channel axis of a batch normalization, whose statistics are reduced over all other axes. nullopt if the axis that
// is not reduced is neither the last nor the second one.
std::optional<int64_t> channel_axis(const Operation& reduction, const Tensor* source) {
  const Shape& shape = source->type.shape;
  const int rank = shape.rank();
  const Ints& axes = reduction.attributes.integers("axes");
  if (axes.empty() || static_cast<int>(axes.size()) != rank - 1) return std::nullopt;
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) reduced[ops::wrap_axis(axis, rank)] = true;
  const int64_t axis = std::ranges::find(reduced, false) - reduced.begin();
  if (axis != rank - 1 && axis != 1) return std::nullopt;
  return axis;
}

// Whether the parameter holds one number per channel, in the order of the channel axis.
bool is_by_channel(const Tensor* parameter, const Tensor* source, int64_t axis) {
  const Shape &shape = parameter->type.shape, &full = source->type.shape;
  const int own = static_cast<int>(axis) - (full.rank() - shape.rank());
  return own >= 0 && shape.elements() == full[static_cast<int>(axis)] && shape[own] == full[static_cast<int>(axis)];
}

bool computed_here(const TensorType& type) {
  return type.dtype == DType::float32 && type.shape.known() && type.shape.rank() >= 2 && type.shape.elements() > 0;
}

bool is_cast(const Operation& operation, DType from, DType to) {
  return operation.is("cast") && operation.input(0)->dtype() == from && operation.output()->dtype() == to;
}

// The tensor that is stored in memory for a value: the bfloat16 tensor if the value was cast from it, otherwise the
// value itself.
const Tensor* stored(const Tensor* value) {
  const Operation& cast = *value->operation;
  return is_cast(cast, DType::bfloat16, DType::float32) ? cast.input(0) : value;
}

// A normalization by its source's own mean and variance, and the operations after it that are fused with it: from
// `root`, the normalization, to `tail`, the last of these operations.
struct Forward {
  const Operation* root;
  const Tensor* source;
  int64_t axis;
  const Tensor* residual = nullptr;
  bool relu = false;
  const Operation* tail = nullptr;
};

// The operations that compute the gradients of a normalization: `root` computes the gradient of the source, `for_gamma`
// and `for_beta` those of gamma and beta. If `relu` is set, the mask of that relu is applied to the incoming gradient
// first.
struct Backward {
  const Operation *root, *for_gamma, *for_beta;
  const Tensor *gradient, *source;  // `gradient` is the incoming gradient after the relu's mask is applied
  int64_t axis;
  const Operation* tail;  // `root`, or the cast of its result if that cast is absorbed
  const Operation* relu = nullptr;  // the relu_gradient; null if none can be absorbed
  // The normalization that is recomputed to find where relu was positive; null if the fused gradient reads relu's
  // result instead.
  const Operation* normalized = nullptr;
  const Operation* sum = nullptr;  // the addition before the relu_gradient, absorbed if the mask is given
};

class Normalizer {
 public:
  explicit Normalizer(const Program& program) : users_(program) { find(program.graph->root()); }

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) {
    if (const auto found = moments_.find(&operation); found != moments_.end())
      return moments(r, operation, found->second);
    if (const auto found = forward_.find(&operation); found != forward_.end()) return forward(r, found->second);
    if (const auto found = sums_.find(&operation); found != sums_.end()) return sums(r, operation, *found->second);
    if (const auto found = backward_.find(&operation); found != backward_.end()) return backward(r, found->second);
    return std::nullopt;
  }

 private:
  using Tensors = std::vector<Tensor*>;

  // ---- matching

  void find(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) find(*inner);
      if (operation->is("normalization")) match_forward(*operation);
      if (operation->is("normalization_gradient")) match_backward(*operation);
    }
  }

  void match_forward(const Operation& root) {
    const Tensor* x = root.input(0);
    const auto moments = own_moments(root);
    if (!computed_here(x->type) || !moments) return;
    const Operation &mean = *moments->mean, &variance = *moments->variance;
    const auto axis = channel_axis(mean, x);
    if (!axis || axis != channel_axis(variance, x)) return;
    for (size_t i = 3; i < root.inputs.size(); ++i)
      if (!is_by_channel(root.input(i), x, *axis)) return;
    if (!one_pair(mean, variance)) return;
    Forward fusion{&root, x, *axis};
    fusion.tail = &root;
    if (const Operation* cast = cast_back(x, root)) {
      fusion.source = stored(x);
      fusion.tail = cast;
    }
    while (const Operation* user = users_.only(fusion.tail->output())) {
      if (user->parent != root.parent || taken_.contains(user)) break;
      if (user->is("addition") && !fusion.residual) {
        const Tensor* other = user->input(user->input(0) == fusion.tail->output());
        if (other == fusion.tail->output() || other->type != fusion.source->type) break;
        fusion.residual = other;
      } else if (user->is("relu")) {
        fusion.relu = true;
      } else {
        break;
      }
      taken_.insert(user);
      fusion.tail = user;
      if (fusion.relu) break;
    }
    normalized_[root.output()] = fusion.tail;
    forward_.emplace(fusion.tail, fusion);
  }

  // The cast to bfloat16 that is the only use of a result computed from a bfloat16 source; null if there is no such
  // cast.
  const Operation* cast_back(const Tensor* source, const Operation& made) const {
    const Operation* user = stored(source) == source ? nullptr : users_.only(made.output());
    if (!user || user->parent != made.parent || !is_cast(*user, DType::float32, DType::bfloat16)) return nullptr;
    return user;
  }

  // Mean and variance are computed together, so each mean and each variance can belong to at most one pair. Returns
  // false if either already belongs to another pair.
  bool one_pair(const Operation& mean, const Operation& variance) {
    const auto pair = std::make_pair(&mean, &variance);
    for (const Operation* one : {&mean, &variance})
      if (const auto found = moments_.find(one); found != moments_.end() && found->second != pair) return false;
    moments_[&mean] = moments_[&variance] = pair;
    return true;
  }

  void match_backward(const Operation& root) {
    const bool gamma = root.attributes.boolean("has_gamma");
    const Tensor *g = root.input(0), *x = root.input(1);
    if (root.inputs.size() != 6u + gamma || !computed_here(x->type) || g->type != x->type) return;
    Backward fusion{&root, root.input(4 + gamma)->operation, root.input(5 + gamma)->operation, g, x, 0, &root};
    const auto axis = channel_axis(root, x);
    if (!axis || !is_sum(*fusion.for_gamma, "normalization_gamma_gradient", root, 4) ||
        !is_sum(*fusion.for_beta, "normalization_beta_gradient", root, 2))
      return;
    if (fusion.for_gamma->attributes.real("epsilon") != root.attributes.real("epsilon")) return;
    for (size_t i = 2; i < 4u + gamma; ++i)
      if (!is_by_channel(root.input(i), x, *axis)) return;
    fusion.axis = *axis;
    if (const Operation* cast = stored(g) == g ? nullptr : cast_back(x, root)) {
      fusion.gradient = stored(g);
      fusion.source = stored(x);
      fusion.tail = cast;
    }
    take_relu(fusion);
    const Operation& first = first_part(fusion);
    for (const Tensor* operand : operands_of_sums(fusion))
      if (!can_be_made_before(first, operand)) return;
    const Backward* kept = &backward_.emplace(fusion.tail, fusion).first->second;
    for (const Operation* part : {fusion.for_gamma, fusion.for_beta}) sums_[part] = kept;
    if (fusion.relu && !fusion.normalized) sums_[fusion.relu] = kept;
  }

  // The operation in whose place the fused sums for gamma and beta are created: relu's gradient if the fused sums
  // compute it too, otherwise the earlier one of the two sums. All operands of the fused sums must be available at this
  // operation's position.
  static const Operation& first_part(const Backward& fusion) {
    const Operation* first = fusion.for_gamma->id < fusion.for_beta->id ? fusion.for_gamma : fusion.for_beta;
    return mask_is_given(fusion) ? *fusion.relu : *first;
  }

  // Whether the operand can be created before the fused sums. An operand that is computed later must be a transpose or
  // reshape, which can be repeated earlier.
  static bool is_turned(const Operation& operation) { return operation.is({"transpose", "reshape"}); }
  static bool can_be_made_before(const Operation& place, const Tensor* operand) {
    const Operation& made = *operand->operation;
    if (made.id < place.id) return true;
    if (!is_turned(made) || made.parent != place.parent) return false;
    return std::ranges::all_of(made.inputs, [&](const Tensor* input) { return can_be_made_before(place, input); });
  }
  static Tensor* made_by_now(Rewriter& r, const Tensor* operand) {
    const Operation& made = *operand->operation;
    if (!r.has(made) && is_turned(made)) {
      for (const Tensor* input : made.inputs) made_by_now(r, input);
      r.clone(made);
    }
    return r.now(operand);
  }

  // Whether the operation is of the given kind (one that computes the gradient of gamma or beta) and has the same axes
  // and operands as `root`, the source's gradient.
  bool is_sum(const Operation& operation, Kind kind, const Operation& root, size_t shared) const {
    if (!operation.is(kind) || operation.parent != root.parent || sums_.contains(&operation)) return false;
    for (size_t i = 0; i < shared; ++i)
      if (operation.input(i) != root.input(i)) return false;
    return channel_axis(operation, root.input(1)) == channel_axis(root, root.input(1));
  }

  void take_relu(Backward& fusion) {
    const Operation& root = *fusion.root;
    const Operation& relu = *fusion.gradient->operation;
    if (!relu.is("relu_gradient") || relu.parent != root.parent || sums_.contains(&relu)) return;
    const Tensor *g = relu.input(0), *result = relu.input(1), *x = fusion.source;
    if (g->type != x->type || result->type != x->type) return;
    const Tensor* behind = root.input(0);
    const auto users = users_.of(behind);
    const bool only_here = std::ranges::all_of(users, [&](const Operation* user) {
      return user == fusion.for_gamma || user == fusion.for_beta || user == &root;
    });
    const bool alone = only_here && (behind == fusion.gradient || users_.only(fusion.gradient) == behind->operation);
    if (const Operation* n = alone ? taken_in_by(*result->operation, root) : nullptr) {
      fusion.relu = &relu;
      fusion.normalized = n;
      return;
    }
    // The fused sums take the position of relu's gradient, so their operands must be available at that position.
    for (const Tensor* operand : std::initializer_list<const Tensor*>{x, root.input(2), root.input(3)})
      if (!can_be_made_before(relu, operand)) return;
    fusion.relu = &relu;
    const Operation& sum = *g->operation;
    if (sum.is("addition") && sum.parent == root.parent && users_.only(g) == &relu && sum.input(0)->type == x->type &&
        sum.input(1)->type == x->type)
      fusion.sum = &sum;
  }

  // The normalization whose result is the operand of relu, possibly after a cast, provided that `gradient` is the
  // gradient of this normalization; otherwise null.
  const Operation* taken_in_by(const Operation& relu, const Operation& gradient) const {
    if (!relu.is("relu")) return nullptr;
    const Operation& before = *relu.input(0)->operation;
    const Operation& n = before.is("cast") ? *before.input(0)->operation : before;
    const auto tail = normalized_.find(n.output());
    if (!n.is("normalization") || tail == normalized_.end() || tail->second != &relu) return nullptr;
    const bool gamma = gradient.attributes.boolean("has_gamma");
    for (size_t i = 0; i < 3u + gamma; ++i)
      if (n.input(i) != gradient.input(i + 1)) return nullptr;
    const bool same = n.attributes.boolean("has_gamma") == gamma &&
                      n.attributes.real("epsilon") == gradient.attributes.real("epsilon");
    return same ? &n : nullptr;
  }

  // ---- rewriting

  Rewriter::Replacement moments(Rewriter& r, const Operation& operation,
                                const std::pair<const Operation*, const Operation*>& pair) {
    Operation*& made = made_[pair.first];
    if (!made)
      made = r.create(operation, "fused_batch_moments", {r.now(stored(operation.input(0)))},
                      {{"axis", *channel_axis(operation, operation.input(0))}});
    return Tensors{made->output(&operation == pair.second)};
  }

  Rewriter::Replacement forward(Rewriter& r, const Forward& fusion) {
    Attributes attributes = fusion.root->attributes;
    attributes.set("axis", fusion.axis);
    attributes.set("has_residual", fusion.residual != nullptr);
    attributes.set("activation", std::string(fusion.relu ? "relu" : "none"));
    Tensors inputs = r.now(fusion.root->inputs);
    inputs[0] = r.now(fusion.source);
    if (fusion.residual) inputs.push_back(r.now(fusion.residual));
    return Tensors{r.create(*fusion.tail, "fused_batch_normalization", inputs, attributes)->output()};
  }

  // Attributes of the fused gradient operations: epsilon, and whether gamma and beta are operands. beta is only needed
  // if the normalization is recomputed.
  static Attributes parameters(const Backward& fusion) {
    return {{"axis", fusion.axis},
            {"epsilon", fusion.root->attributes.real("epsilon")},
            {"has_gamma", fusion.root->attributes.boolean("has_gamma")},
            {"has_beta", fusion.normalized && fusion.normalized->attributes.boolean("has_beta")},
            {"mask", std::string(fusion.normalized ? "computed" : "none")}};
  }
  static void append_parameters(const Backward& fusion, std::vector<const Tensor*>& operands) {
    const bool gamma = fusion.root->attributes.boolean("has_gamma");
    if (gamma) operands.push_back(fusion.root->input(4));
    if (fusion.normalized && fusion.normalized->attributes.boolean("has_beta"))
      operands.push_back(fusion.normalized->input(3 + gamma));
  }

  // The incoming gradient. If relu's mask is recomputed, this is the gradient before the mask is applied.
  static const Tensor* incoming(const Backward& fusion) {
    return fusion.normalized ? fusion.relu->input(0) : fusion.gradient;
  }
  static bool mask_is_given(const Backward& fusion) { return fusion.relu && !fusion.normalized; }

  static std::vector<const Tensor*> operands_of_sums(const Backward& fusion) {
    const bool given = mask_is_given(fusion);
    const Tensor* g = !given ? incoming(fusion) : fusion.sum ? fusion.sum->input(0) : fusion.relu->input(0);
    std::vector<const Tensor*> operands{g, fusion.source, fusion.root->input(2), fusion.root->input(3)};
    if (given) operands.push_back(fusion.relu->input(1));
    if (!given) append_parameters(fusion, operands);
    if (fusion.sum) operands.push_back(fusion.sum->input(1));
    return operands;
  }

  Rewriter::Replacement sums(Rewriter& r, const Operation& operation, const Backward& fusion) {
    Operation*& made = made_[fusion.root];
    if (!made) {
      Tensors inputs;
      for (const Tensor* operand : operands_of_sums(fusion)) inputs.push_back(made_by_now(r, operand));
      Attributes attributes = mask_is_given(fusion) ? Attributes{{"axis", fusion.axis},
                                                                 {"epsilon", fusion.root->attributes.real("epsilon")},
                                                                 {"mask", std::string("given")}}
                                                    : parameters(fusion);
      attributes.set("has_second", fusion.sum != nullptr);
      made = r.create(operation, "fused_batch_normalization_sums", inputs, attributes);
    }
    return Tensors{made->output(&operation == fusion.for_gamma ? 0 : &operation == fusion.for_beta ? 1 : 2)};
  }

  Rewriter::Replacement backward(Rewriter& r, const Backward& fusion) {
    const bool gamma = fusion.root->attributes.boolean("has_gamma");
    std::vector<const Tensor*> operands{incoming(fusion), fusion.source};
    for (size_t i : {size_t{2}, size_t{3}, size_t{4} + gamma, size_t{5} + gamma})
      operands.push_back(fusion.root->input(i));
    append_parameters(fusion, operands);
    Tensors inputs;
    for (const Tensor* operand : operands) inputs.push_back(r.now(operand));
    return Tensors{r.create(*fusion.root, "fused_batch_normalization_gradient", inputs, parameters(fusion))->output()};
  }

  Users users_;
  // maps the mean and the variance operation of each pair to that pair
  std::unordered_map<const Operation*, std::pair<const Operation*, const Operation*>> moments_;
  std::unordered_map<const Operation*, Forward> forward_;  // keyed by the last absorbed operation
  std::unordered_set<const Operation*> taken_;  // additions and relus that a fusion has absorbed
  // maps the result of a normalization to its last absorbed operation
  std::unordered_map<const Tensor*, const Operation*> normalized_;
  std::unordered_map<const Operation*, Backward> backward_;  // keyed by the last absorbed operation
  // keyed by the operation that is replaced with the sums
  std::unordered_map<const Operation*, const Backward*> sums_;
  // the fused operations created so far: moments keyed by the operation `mean`, and sums keyed by the operation that
  // computes the source's gradient
  std::unordered_map<const Operation*, Operation*> made_;
};

}  // namespace

void normalize(Program& program) {
  const auto concerned = [](const Operation& o) { return o.is({"normalization", "normalization_gradient"}); };
  if (!any_operation(program, concerned)) return;
  Normalizer normalizer(program);
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return normalizer.visit(r, operation); });
  normalize_layers(program);
}

}  // namespace mpsgraph::compiler
