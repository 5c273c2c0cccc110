// Part of pass normalize: fuses layer normalization into one operation, and its gradients into another.
//
//   %m = mean(%x)                               ->  %y, %m, %v = fused_layer_normalization(%x, %gamma, %beta)
//   %v = variance(%x, %m)
//   %y = normalization(%x, %m, %v, %gamma, %beta)
//   %dgamma, %dbeta = the sums over %g          ->  %dx, %dgamma, %dbeta = fused_layer_normalization_gradient(%g, ...)
//   %h = normalization_gradient(%g, %x, ...)
//   %dx = addition(%h, %r)
// The normalized axes are the trailing axes, with at least one axis before them. Each row is read from memory once by
// the normalization and once by its gradients. If the mean or variance has users before the normalization, it is also
// computed separately for these users. As for batch normalization, casts to and from half precision are absorbed.
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/moments.h"
#include "compiler/passes.h"
#include "compiler/reduction_shape.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/wide.h"

namespace mpsgraph::compiler {
namespace {

constexpr int64_t longest_row = 1 << 16;  // longer rows would make the kernels' scratch memory large

// The first normalized axis, if the reduction covers exactly that axis and all following axes; axes of size 1 are
// ignored. Otherwise nullopt.
std::optional<int64_t> first_axis(const Operation& reduction, const Tensor* source) {
  const Shape& shape = source->type.shape;
  const std::vector<bool> reduced = reduced_axes(reduction);
  int64_t first = shape.rank(), elements = 1;
  while (first > 0 && (reduced[first - 1] || shape[static_cast<int>(first - 1)] == 1))
    elements *= shape[static_cast<int>(--first)];
  for (int64_t axis = 0; axis < first; ++axis)
    if (reduced[axis] && shape[static_cast<int>(axis)] != 1) return std::nullopt;
  while (first < shape.rank() && !reduced[first]) ++first;  // skips axes of size 1 before the reduced axes
  return first > 0 && first < shape.rank() && elements <= longest_row ? std::optional(first) : std::nullopt;
}

// Whether a sum for gamma or beta reduces exactly the axes before `axis`.
bool sums_in_front(const Operation& sum, const Tensor* source, int64_t axis) {
  const Shape& shape = source->type.shape;
  const std::vector<bool> reduced = reduced_axes(sum);
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && reduced[i] != (i < axis)) return false;
  return true;
}

// Whether the parameter holds one number per element of a row, in that order.
bool is_by_element(const Tensor* parameter, const Tensor* source, int64_t axis) {
  const Shape &shape = parameter->type.shape, &full = source->type.shape;
  const int lead = full.rank() - shape.rank();
  for (int i = 0; i < full.rank(); ++i) {
    const int64_t own = i < lead ? 1 : shape[i - lead];
    if (own != (i < axis ? 1 : full[i])) return false;
  }
  return true;
}

bool has_float_rows(const TensorType& type) {
  const bool computed = type.dtype == DType::float32 || type.dtype == DType::float64;
  return computed && type.shape.known() && type.shape.rank() >= 2 && type.shape.elements() > 0;
}

// The tensor that is stored in memory for a float32 value: the half-precision tensor if the value was cast from it,
// otherwise the value itself.
const Tensor* kept_as(const Tensor* value) {
  const Operation& cast = *value->operation;
  return cast.is("cast") && value->dtype() == DType::float32 && is_half(cast.input(0)->dtype()) ? cast.input(0) : value;
}

struct LayerForward {
  const Operation* root;
  const Tensor* source;
  int64_t axis;
  const Operation* tail;  // `root`, or the cast of its result if that cast is absorbed
};

struct LayerBackward {
  const Operation *root, *for_gamma, *for_beta;  // for_gamma and for_beta are null if not needed
  const Tensor *gradient, *source;
  int64_t axis;
  const Operation* tail;  // `root`, the cast of its result, or the addition of the residual
  const Tensor* residual = nullptr;
};

class LayerNormalizer {
 public:
  explicit LayerNormalizer(const Program& program) : users_(program) { find(program.graph->root()); }
  bool found() const { return !forward_.empty() || !backward_.empty(); }

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) {
    if (const auto found = forward_.find(&operation); found != forward_.end()) return forward(r, found->second);
    if (const auto found = backward_.find(&operation); found != backward_.end())
      return backward(r, operation, *found->second);
    return std::nullopt;
  }

 private:
  using Tensors = std::vector<Tensor*>;

  void find(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) find(*inner);
      if (operation->is("normalization")) match_forward(*operation);
      if (operation->is("normalization_gradient")) match_backward(*operation);
    }
  }

  // The cast to the source's half-precision dtype that is the only use of a result; null if there is no such cast.
  const Operation* cast_back(const Tensor* source, const Operation& made) const {
    const Operation* user = kept_as(source) == source ? nullptr : users_.only(made.output());
    const bool is_cast =
        user && user->parent == made.parent && user->is("cast") && user->output()->dtype() == kept_as(source)->dtype();
    return is_cast ? user : nullptr;
  }

  void match_forward(const Operation& root) {
    const Tensor* x = root.input(0);
    const auto moments = own_moments(root);
    if (!has_float_rows(x->type) || !moments || moments->mean->parent != root.parent) return;
    const Operation &mean = *moments->mean, &variance = *moments->variance;
    const auto axis = first_axis(mean, x);
    if (!axis || axis != first_axis(variance, x)) return;
    for (size_t i = 3; i < root.inputs.size(); ++i)
      if (!is_by_element(root.input(i), x, *axis)) return;
    LayerForward fusion{&root, x, *axis, &root};
    if (const Operation* cast = cast_back(x, root)) fusion.source = kept_as(x), fusion.tail = cast;
    forward_.emplace(fusion.tail, fusion);
  }

  void match_backward(const Operation& root) {
    const bool gamma = root.attributes.boolean("has_gamma");
    const Tensor *g = root.input(0), *x = root.input(1);
    if (!has_float_rows(x->type) || g->type != x->type) return;
    const auto axis = first_axis(root, x);
    if (!axis || (gamma && !is_by_element(root.input(4), x, *axis))) return;
    LayerBackward fusion{&root, nullptr, nullptr, g, x, *axis, &root};
    if (gamma) {
      fusion.for_gamma = sum_of("normalization_gamma_gradient", root, 4, *axis);
      fusion.for_beta = sum_of("normalization_beta_gradient", root, 2, *axis);
    }
    if (const Operation* cast = kept_as(g)->dtype() == kept_as(x)->dtype() ? cast_back(x, root) : nullptr)
      fusion.gradient = kept_as(g), fusion.source = kept_as(x), fusion.tail = cast;
    take_residual(fusion);
    parts_.push_back(std::make_unique<LayerBackward>(fusion));
    for (const Operation* part : {fusion.for_gamma, fusion.for_beta, fusion.tail})
      if (part) backward_[part] = parts_.back().get();
  }

  // The sum of the given kind, for gamma or beta, that has the same first `shared` operands as `root`, the source's
  // gradient, and comes after the operations that compute the operands of `root`; null if there is none.
  const Operation* sum_of(Kind kind, const Operation& root, size_t shared, int64_t axis) const {
    for (const Operation* user : users_.of(root.input(0))) {
      if (!user || !user->is(kind) || user->parent != root.parent || backward_.contains(user)) continue;
      bool same = sums_in_front(*user, root.input(1), axis);
      for (size_t i = 0; i < shared; ++i) same = same && user->input(i) == root.input(i);
      for (const Tensor* in : root.inputs) same = same && in->operation->id < user->id;
      if (shared == 4) same = same && user->attributes.real("epsilon") == root.attributes.real("epsilon");
      if (same) return user;
    }
    return nullptr;
  }

  // Absorbs an addition of another tensor to the source's gradient, if that tensor is available before the sums for
  // gamma and beta.
  void take_residual(LayerBackward& fusion) const {
    const Operation* sum = users_.only(fusion.tail->output());
    if (!sum || !sum->is("addition") || sum->parent != fusion.root->parent || backward_.contains(sum)) return;
    const Tensor* other = sum->input(sum->input(0) == fusion.tail->output());
    if (other == fusion.tail->output() || other->type != fusion.source->type) return;
    for (const Operation* part : {fusion.for_gamma, fusion.for_beta})
      if (part && other->operation->id > part->id) return;
    fusion.residual = other;
    fusion.tail = sum;
  }

  Rewriter::Replacement forward(Rewriter& r, const LayerForward& fusion) const {
    const Operation& root = *fusion.root;
    Tensors inputs{r.now(fusion.source)};
    for (size_t i = 3; i < root.inputs.size(); ++i) inputs.push_back(r.now(root.input(i)));
    Attributes attributes = root.attributes;
    attributes.set("axis", fusion.axis);
    Operation* made = r.create(*fusion.tail, "fused_layer_normalization", inputs, attributes);
    // Let operations after the normalization read the mean and variance from the fused operation.
    for (size_t i : {1, 2}) r.stand_for(*root.input(i), made->output(i));
    return Tensors{made->output(0)};
  }

  Rewriter::Replacement backward(Rewriter& r, const Operation& part, const LayerBackward& fusion) {
    Operation*& made = made_[&fusion];
    if (!made) {
      const Operation& root = *fusion.root;
      const bool gamma = root.attributes.boolean("has_gamma");
      Tensors inputs{r.now(fusion.gradient), r.now(fusion.source), r.now(root.input(2)), r.now(root.input(3))};
      if (gamma) inputs.push_back(r.now(root.input(4)));
      if (fusion.residual) inputs.push_back(r.now(fusion.residual));
      made = r.create(*fusion.tail, "fused_layer_normalization_gradient", inputs,
                      {{"axis", fusion.axis},
                       {"epsilon", root.attributes.real("epsilon")},
                       {"has_gamma", gamma},
                       {"has_residual", fusion.residual != nullptr},
                       {"has_sums", fusion.for_gamma || fusion.for_beta}});
    }
    if (&part == fusion.for_gamma) return Tensors{made->output(1)};
    if (&part == fusion.for_beta) return Tensors{made->output(2)};
    return Tensors{made->output(0)};
  }

  Users users_;
  std::unordered_map<const Operation*, LayerForward> forward_;  // keyed by the last absorbed operation
  // keyed by the last absorbed operation and by the sums
  std::unordered_map<const Operation*, const LayerBackward*> backward_;
  std::vector<std::unique_ptr<LayerBackward>> parts_;
  std::unordered_map<const LayerBackward*, Operation*> made_;
};

}  // namespace

void normalize_layers(Program& program) {
  LayerNormalizer normalizer(program);
  if (!normalizer.found()) return;
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return normalizer.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
