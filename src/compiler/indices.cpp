// Compiler pass indices: replaces the attribute out_of_range with separate operations.
//
//   %y = gather(%x, %i) {out_of_range="clip"}   ->   %c = clamp(%i, 0, n - 1);  %y = gather(%x, %c)
//   %y = gather(%x, %i) {out_of_range="error"}  ->   check_indices(%i) {lengths=[n]};  %y = gather(%x, %i)
// Kernels then only need the default behavior. Starts of dynamic slices are converted to count from the front, and are
// then checked like indices. If the indices are select(equal(%l, c), k, %l), where c marks missing labels, then the
// check applies to %l and accepts the value c. An index tensor is checked once per axis length. It is not checked if
// its dtype, its value, or a clamp of the starts shows that all indices are in range. A failing check ends the run. In
// a program with effects, checks and the operations they need are therefore moved to the front, so that a run that
// fails leaves variables unchanged. This is impossible for indices computed from values that the run assigns, and in
// loops, where each iteration checks its own indices. Prints before a check move to the front together with the check.
//   check(%c) {message="m"}  ->  check_indices(cast(not(%c))) {lengths=[1], message="[check] m"}
// A condition is checked as an index into an axis of length 1: the index is 0 if the condition holds, and 1, which is
// out of range, if it does not.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/dependencies.h"
#include "compiler/passes.h"
#include "compiler/pattern.h"
#include "compiler/recipes.h"
#include "core/definition.h"
#include "core/known_values.h"
#include "core/ops/out_of_range.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

bool takes_window(const Operation& operation) { return operation.is({"dynamic_slice", "dynamic_slice_update_data"}); }

bool concerned(const Operation& operation) {
  if (operation.is("check")) return true;
  if (takes_window(operation)) return !operation.inputs.back()->operation->is("constant");
  return operation.attributes.has("out_of_range") && !ops::takes_any(operation.attributes);
}

bool is_unsigned(DType dtype) {
  return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

// The largest value of an integer dtype, or the largest int64 if that is smaller.
int64_t largest(DType dtype) {
  const auto bits = static_cast<int>(8 * size_of(dtype)) - !is_unsigned(dtype);
  return bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
}

class Indices {
 public:
  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) {
    if (!concerned(operation)) return std::nullopt;
    if (operation.is("check")) {
      r.stand_for(operation, check_condition(r.graph(), r.now(operation.input(0)), "check",
                                             cat("[check] ", operation.attributes.string("message"))));
      return std::vector<Tensor*>{};
    }
    if (takes_window(operation)) {
      check_window(r, operation);
      return std::nullopt;
    }
    const auto bounds = ops::bounds_of(operation);
    std::vector<Tensor*> inputs = r.now(operation.inputs);
    Attributes attributes = operation.attributes;
    attributes.erase("out_of_range");
    const Tensor* indices = operation.inputs[bounds->operand];
    if (!inside(*indices, bounds->lengths)) {
      if (ops::out_of_range(operation.attributes) == "clip")
        inputs[bounds->operand] = clipped(r, inputs[bounds->operand], bounds->lengths);
      else
        check(r, operation, *bounds);
    }
    return std::vector<Tensor*>{r.create(operation, operation.kind(), inputs, attributes)->output()};
  }

 private:
  static bool inside(const Tensor& indices, const Ints& lengths) {
    if (indices.shape().elements() == 0) return true;
    if (is_unsigned(indices.dtype()) &&
        std::ranges::all_of(lengths, [&](int64_t length) { return largest(indices.dtype()) < length; }))
      return true;
    const auto known = constant_value(&indices);
    if (!known || ops::first_outside(*known, lengths) >= 0) return false;
    Recipes::note_valid(*known, lengths);
    return true;
  }

  static Tensor* clipped(Rewriter& r, Tensor* indices, const Ints& lengths) {
    const DType dtype = indices->dtype();
    Ints last;
    for (const int64_t length : lengths) last.push_back(std::min(length - 1, largest(dtype)));
    const Dims dims = last.size() == 1 ? Dims{} : Dims{static_cast<int64_t>(last.size())};
    const auto constant = [&](const Ints& values) {
      return r.graph().add("constant", {}, {{"value", integer_constant({dtype, Shape(dims)}, values)}});
    };
    return r.graph().add("clamp", {indices, constant(Ints(last.size(), 0)), constant(last)});
  }

  // Matches labels in which one value c marks missing labels and is replaced with a valid index. Returns the original
  // labels and c; for other indices, returns them unchanged.
  static std::pair<const Tensor*, Ints> without_ignored(const Tensor* indices, const Ints& lengths) {
    using enum Capture;
    static const Pattern replaced = op("select", op("equal", x, y), z, x);
    Captured found{};
    if (!replaced.matches(indices, found) || indices->type != found[x]->type) return {indices, {}};
    const auto ignored = constant_value(found[y]), instead = constant_value(found[z]);
    if (!ignored || !instead || ignored->size() != 1 || instead->size() != 1 || lengths.size() != 1 ||
        ops::first_outside(*instead, lengths) >= 0)
      return {indices, {}};
    return {found[x], *ignored};
  }

  using Wanted = std::pair<Ints, Ints>;
  using Checked = std::map<std::pair<const Tensor*, const Block*>, std::vector<Wanted>>;

  // Returns false if the same indices were already checked against the same bounds in this block or an enclosing one.
  static bool first_time(Checked& checked, const Tensor& indices, const Operation& operation, const Wanted& wanted) {
    for (const Block* block = operation.parent; block; block = block->owner ? block->owner->parent : nullptr)
      if (const auto found = checked.find({&indices, block}); found != checked.end())
        if (std::ranges::find(found->second, wanted) != found->second.end()) return false;
    checked[{&indices, operation.parent}].push_back(wanted);
    return true;
  }

  void check(Rewriter& r, const Operation& operation, const ops::Bounds& bounds) {
    const auto [indices, ignored] = without_ignored(operation.inputs[bounds.operand], bounds.lengths);
    if (!first_time(checked_, *indices, operation, {bounds.lengths, ignored})) return;
    r.graph().create("check_indices", {r.now(indices)},
                     {{"of", std::string(operation.kind())},
                      {"axes", bounds.axes},
                      {"lengths", bounds.lengths},
                      {"ignored", ignored}});
  }

  // Whether starts are the result of a clamp by constants that keeps them in range.
  static bool held_inside(const Tensor& starts, const Ints& lengths) {
    const Operation& clamp = *starts.operation;
    if (!clamp.is("clamp")) return false;
    const auto low = constant_value(clamp.input(1)), high = constant_value(clamp.input(2));
    if (!low || !high) return false;
    const auto at = [](const Ints& values, size_t axis) { return values.size() == 1 ? values[0] : values[axis]; };
    for (size_t axis = 0; axis < lengths.size(); ++axis)
      if (at(*low, axis) < 0 || at(*high, axis) >= lengths[axis]) return false;
    return true;
  }

  // Checks the starts of a window. Along an axis of n elements, a window of s elements has n - s + 1 valid starts.
  void check_window(Rewriter& r, const Operation& operation) {
    const Dims& source = operation.input(0)->shape().dims();
    const Dims& sizes = (operation.inputs.size() == 3 ? operation.input(1) : operation.output())->shape().dims();
    const Ints strides = ops::window_strides(operation.attributes, source.size());
    Ints axes, lengths, least(source.size()), taken(source.size());
    for (size_t axis = 0; axis < source.size(); ++axis) {
      const int64_t reach = std::max<int64_t>(sizes[axis] - 1, 0) * strides[axis];
      axes.push_back(static_cast<int64_t>(axis));
      lengths.push_back(sizes[axis] == 0 ? 1 : source[axis] - std::abs(reach));
      least[axis] = std::max<int64_t>(-reach, 0);
      taken[axis] = sizes[axis] > 0;  // any start is valid for an empty window
    }
    const Tensor* starts = operation.inputs.back();
    const bool forward = std::ranges::all_of(strides, [](int64_t stride) { return stride > 0; });
    if (forward && held_inside(*starts, lengths)) return;
    if (source.empty() || !first_time(windows_, *starts, operation, {lengths, least})) return;
    Builder b(r.graph());
    const auto list = [&](const Ints& values, DType dtype) {
      return b.graph().add("constant", {},
                           {{"value", integer_constant({dtype, Shape{static_cast<int64_t>(values.size())}}, values)}});
    };
    const bool narrow = size_of(starts->dtype()) < 4 || starts->dtype() == DType::int32;
    const DType dtype = narrow && *std::ranges::max_element(source) < INT32_MAX ? DType::int32 : DType::int64;
    Tensor *given = b.cast(r.now(starts), dtype), *none = list(Ints(source.size(), 0), dtype);
    Tensor* from_end = b.add(given, list(source, dtype));
    Tensor* front = b.select(b.binary("less_than", given, none), from_end, given);
    if (std::ranges::any_of(least, [](int64_t place) { return place > 0; })) front = b.sub(front, list(least, dtype));
    if (std::ranges::find(taken, 0) != taken.end()) front = b.select(list(taken, DType::boolean), front, none);
    r.graph().create("check_indices", {front},
                     {{"of", std::string(operation.kind())}, {"axes", axes}, {"lengths", lengths}});
  }

  Checked checked_, windows_;
};

bool any_inside(const Operation& operation, bool (*wanted)(const Operation&)) {
  return wanted(operation) || std::ranges::any_of(operation.blocks, [&](const auto& block) {
           return std::ranges::any_of(block->operations, [&](const auto& inner) { return any_inside(*inner, wanted); });
         });
}

bool checks(const Operation& operation) { return operation.is("check_indices"); }
bool prints(const Operation& operation) { return operation.is("print"); }
bool changes(const Operation& operation) {
  return (is_effect(operation) && !checks(operation) && !prints(operation)) || operation.is("call");
}

// Moves checks and the operations they need to the front. The checks also move before the computation of values that
// are assigned to variables, because a backend may write such values directly to the variable.
void move_up(Block& root) {
  auto& all = root.operations;
  const auto is_effect = [](const auto& operation) { return any_inside(*operation, changes); };
  const auto is_check = [](const auto& operation) { return any_inside(*operation, checks); };
  const auto last_check = std::ranges::find_if(all.rbegin(), all.rend(), is_check).base();
  if (std::ranges::none_of(all, is_effect) || std::ranges::none_of(all, is_check)) return;
  const Dependencies dependencies(root);
  std::vector<bool> possible(all.size()), moves(all.size());  // possible: no effect is needed for the operation
  for (size_t i = 0; i < all.size(); ++i) {
    const auto before = dependencies.before(static_cast<int>(i));
    possible[i] = !is_effect(all[i]) && std::ranges::all_of(before, [&](int at) { return possible[at]; });
    const bool shown_before = static_cast<std::ptrdiff_t>(i) < last_check - all.begin() && any_inside(*all[i], prints);
    moves[i] = possible[i] && (is_check(all[i]) || shown_before);
  }
  for (size_t i = all.size(); i-- > 0;)
    if (moves[i])
      for (const int before : dependencies.before(static_cast<int>(i))) moves[before] = true;
  std::vector<std::unique_ptr<Operation>> early, late;
  for (size_t i = 0; i < all.size(); ++i) (moves[i] ? early : late).push_back(std::move(all[i]));
  std::ranges::move(late, std::back_inserter(early));
  all = std::move(early);
}

}  // namespace

Operation* check_condition(Graph& graph, Tensor* condition, std::string_view of, std::string message) {
  Builder b(graph);
  if (condition->shape().elements() == 0) condition = b.scalar(DType::boolean, 1);
  return graph.create("check_indices", {b.cast(b.unary("not", condition), DType::int32)},
                      {{"of", std::string(of)}, {"axes", Ints{0}}, {"lengths", Ints{1}}, {"message", message}});
}

void indices(Program& program) {
  if (any_operation(program, concerned)) {
    Indices pass;
    rewrite(program, [&](Rewriter& r, const Operation& operation) { return pass.visit(r, operation); });
  }
  move_up(program.graph->root());
}

}  // namespace mpsgraph::compiler
