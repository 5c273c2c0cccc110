// Part of pass fuse: replaces a rotary embedding, and its gradient, with a single operation.
//
//   %h = concat(negative(%x[..., n/2:]), %x[..., :n/2])
//   %y = addition(multiplication(%x, %c), multiplication(%h, %s))       ->   %y = rotary_embedding(%x, %c, %s)
//
//   %z = multiplication(%g, %s)                                              %d = rotary_embedding(%g, %c, %s)
//   %a = slice_gradient(negative(%z[..., :n/2])), written to the end    ->        {inverse=true}
//   %b = slice_gradient(%z[..., n/2:]), written to the start
//   %d = %a + %b + multiplication(%g, %c), in any order; %a + %b may be a concat
// A transpose of %x, or of %d if %d has no other use, is also absorbed if it keeps the last axis in place. Such a
// transpose may come after the rows have been split into halves. Only float32 is fused.
#include <algorithm>
#include <numeric>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/shape.h"

namespace mpsgraph::compiler {
namespace {

Ints unchanged(const Tensor* x) {
  Ints permutation(static_cast<size_t>(x->shape().rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  return permutation;
}

// A tensor expressed as another tensor with permuted axes, where the last axis stays in place.
struct View {
  const Tensor* source;
  Ints permutation;
  bool operator==(const View&) const = default;

  static View of(const Tensor* x) {
    const Operation& operation = *x->operation;
    if (!operation.is("transpose")) return {x, unchanged(x)};
    const Ints& permutation = operation.attributes.integers("permutation");
    if (permutation.empty() || permutation.back() != static_cast<int64_t>(permutation.size()) - 1)
      return {x, unchanged(x)};
    return {operation.input(0), permutation};
  }
};

enum class Half { none, first, second };

// Returns which half of the last axis a slice selects. Returns Half::none if the slice selects anything else, or only a
// part of another axis.
Half half_of(const Attributes& slice, const Dims& dims) {
  Half half = Half::none;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto range = ops::slice_range(slice, static_cast<int>(axis), dims[axis]);
    if (!range || range->squeezed || range->stride != 1) return Half::none;
    if (axis + 1 < dims.size()) {
      if (range->count != dims[axis]) return Half::none;
    } else if (range->count > 0 && 2 * range->count == dims[axis] && range->start % range->count == 0) {
      half = range->start == 0 ? Half::first : Half::second;
    }
  }
  return half;
}

// Whether a split or concat operates along the last axis.
bool cuts_rows(const Operation& operation) {
  const int rank = operation.output()->shape().rank();
  return ops::wrap_axis(operation.attributes.integer("axis"), rank) == rank - 1;
}

// If `half` is the first or second half (as `which` states) of a tensor's last axis, returns that tensor; otherwise
// returns nullopt.
std::optional<View> halved(const Tensor* half, Half which) {
  View view = View::of(half);
  const Operation& cut = *view.source->operation;
  if (cut.is("split") && cut.outputs.size() == 2 && cut.output(0)->type == cut.output(1)->type && cuts_rows(cut)) {
    if (view.source != cut.output(which == Half::second)) return std::nullopt;
  } else if (!cut.is("slice") || cut.inputs.size() != 1 || !cut.input(0)->shape().ranked() ||
             half_of(cut.attributes, cut.input(0)->shape().dims()) != which) {
    return std::nullopt;
  }
  return View{cut.input(0), view.permutation};
}

const Tensor* negated(const Tensor* x) { return x->operation->is("negative") ? x->operation->input(0) : nullptr; }

struct Rotation {
  View x;
  const Tensor *cosine, *sine;
  bool inverse;
};

// Whether `numbers` can be the cosines or sines for x: its last axis has the size of x's rows, and it broadcasts to x.
bool are_angles(const Tensor* numbers, const Tensor* x) {
  const Shape &shape = numbers->shape(), &full = x->shape();
  if (!shape.ranked() || shape.rank() == 0 || shape.rank() > full.rank()) return false;
  if (shape[shape.rank() - 1] != full[full.rank() - 1]) return false;
  for (int i = 1; i <= shape.rank(); ++i)
    if (shape[shape.rank() - i] != 1 && shape[shape.rank() - i] != full[full.rank() - i]) return false;
  return true;
}

// Calls try_with(first, second) with the two factors of a product, in both orders, until it returns a result.
template <class F>
std::optional<Rotation> for_factors(const Tensor* product, const F& try_with) {
  const Operation& operation = *product->operation;
  if (!operation.is("multiplication")) return std::nullopt;
  for (const size_t i : {0, 1})
    if (auto found = try_with(operation.input(i), operation.input(1 - i))) return found;
  return std::nullopt;
}

// Matches x cosine + turned, where `turned` is the product of the sine and the rotated x (-b, a).
std::optional<Rotation> forward(const Tensor* straight, const Tensor* turned) {
  return for_factors(turned, [&](const Tensor* joined, const Tensor* sine) -> std::optional<Rotation> {
    const Operation& concat = *joined->operation;
    if (!concat.is("concat") || concat.inputs.size() != 2 || !cuts_rows(concat)) return std::nullopt;
    const Tensor* second = negated(concat.input(0));
    const auto upper = second ? halved(second, Half::second) : std::nullopt,
               lower = halved(concat.input(1), Half::first);
    if (!upper || upper != lower) return std::nullopt;
    return for_factors(straight, [&](const Tensor* x, const Tensor* cosine) -> std::optional<Rotation> {
      if (View{x, unchanged(x)} != *upper && View::of(x) != *upper) return std::nullopt;
      if (!are_angles(cosine, x) || !are_angles(sine, x)) return std::nullopt;
      return Rotation{*upper, cosine, sine, false};
    });
  });
}

// Matches a half of a tensor z that is written to the other half of a zero tensor; returns z. A half that is written to
// the second half is negated.
std::optional<View> moved(const Tensor* x, Half to) {
  const Operation& operation = *x->operation;
  if (!operation.is("slice_gradient") || !x->shape().ranked()) return std::nullopt;
  if (half_of(operation.attributes, x->shape().dims()) != to) return std::nullopt;
  const Tensor* half = to == Half::second ? negated(operation.input(0)) : operation.input(0);
  return half ? halved(half, to == Half::second ? Half::first : Half::second) : std::nullopt;
}

// Matches g cosine plus the inverse rotation of z, where z = g sine.
std::optional<Rotation> inverse(const Tensor* straight, const std::optional<View>& z) {
  if (!z || z->permutation != unchanged(z->source)) return std::nullopt;
  return for_factors(z->source, [&](const Tensor* g, const Tensor* sine) {
    return for_factors(straight, [&](const Tensor* same, const Tensor* cosine) -> std::optional<Rotation> {
      if (same != g || !are_angles(cosine, g) || !are_angles(sine, g)) return std::nullopt;
      return Rotation{{g, unchanged(g)}, cosine, sine, true};
    });
  });
}

// The tensor z whose halves were exchanged, either by slices or by a split and a concat.
std::optional<View> turned_back(const Tensor* behind, const Tensor* in_front) {
  const auto z = moved(behind, Half::second);
  return z && z == moved(in_front, Half::first) ? z : std::nullopt;
}
std::optional<View> turned_back(const Tensor* joined) {
  const Operation& concat = *joined->operation;
  if (!concat.is("concat") || concat.inputs.size() != 2 || !cuts_rows(concat)) return std::nullopt;
  const Tensor* lower = negated(concat.input(1));
  const auto z = lower ? halved(lower, Half::first) : std::nullopt;
  return z && z == halved(concat.input(0), Half::second) ? z : std::nullopt;
}

class RotaryFuser {
 public:
  explicit RotaryFuser(const Program& program) : users_(program) {}

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) const {
    if (operation.is("transpose")) {
      const View view = View::of(operation.output());
      if (view.source == operation.output() || !users_.only(view.source)) return std::nullopt;
      auto found = rotation(*view.source->operation);
      if (!found || found->x.permutation != unchanged(found->x.source)) return std::nullopt;
      found->x.permutation = view.permutation;
      return emit(r, operation, *found, view.permutation);
    }
    const auto found = rotation(operation);
    return found ? emit(r, operation, *found, unchanged(operation.output())) : std::nullopt;
  }

 private:
  std::optional<Rotation> rotation(const Operation& sum) const {
    if (!sum.is("addition") || sum.output()->dtype() != DType::float32) return std::nullopt;
    std::vector<const Tensor*> terms;
    collect(sum, terms);
    std::ranges::sort(terms);
    do {
      auto found = terms.size() == 3   ? inverse(terms[0], turned_back(terms[1], terms[2]))
                   : terms.size() == 2 ? forward(terms[0], terms[1])
                                       : std::nullopt;
      if (!found && terms.size() == 2) found = inverse(terms[0], turned_back(terms[1]));
      if (found) return found;
    } while (terms.size() <= 3 && std::ranges::next_permutation(terms).found);
    return std::nullopt;
  }

  // Collects up to four terms of a nested sum.
  void collect(const Operation& sum, std::vector<const Tensor*>& terms) const {
    for (const Tensor* term : sum.inputs) {
      const bool inner = term->operation->is("addition") && users_.only(term) && terms.size() < 3;
      if (inner)
        collect(*term->operation, terms);
      else
        terms.push_back(term);
    }
  }

  static Rewriter::Replacement emit(Rewriter& r, const Operation& operation, const Rotation& rotation,
                                    const Ints& angle_permutation) {
    const View before = View::of(rotation.x.source);  // The halves were split after the transpose.
    Ints permutation;
    for (const int64_t axis : rotation.x.permutation) permutation.push_back(before.permutation[axis]);
    return std::vector<Tensor*>{
        r.create(
             operation, "rotary_embedding", {r.now(before.source), r.now(rotation.cosine), r.now(rotation.sine)},
             {{"permutation", permutation}, {"angle_permutation", angle_permutation}, {"inverse", rotation.inverse}})
            ->output()};
  }

  const Users users_;
};

}  // namespace

void fuse_rotary(Program& program) {
  const auto concerned = [](const Operation& operation) {
    if (operation.is("slice_gradient"))
      return operation.output()->shape().ranked() &&
             half_of(operation.attributes, operation.output()->shape().dims()) != Half::none;
    return operation.is("concat") && operation.inputs.size() == 2 &&
           (negated(operation.input(0)) || negated(operation.input(1)));
  };
  if (!any_operation(program, concerned)) return;
  const RotaryFuser fuser(program);
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return fuser.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
