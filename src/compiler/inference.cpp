// The steps of optimize_for_inference. Each step creates a copy of the graph in which more values and branches are
// resolved. The steps are repeated until nothing changes.
//
//   %w = variable() {value=...}                                     %w = constant() {value=...}
//   %mean = variable() {value=...}                                  %mean = constant() {value=...}
//   %d = multiplication(%x, %division)             (dropout)        %y = matrix_multiplication(%x, %w)
//   %y = matrix_multiplication(%d, read(%w))                        %n = subtraction(%y, %mean)
//   %z = if(%training) {                                      ->
//     %assign_1 = assign(%mean, %reshape)
//     %subtraction_1 = subtraction(%y, %reshape) after [%assign_1]
//     yield %subtraction_1
//   } {
//     %n = subtraction(%y, read(%mean))
//     yield %n
//   }
// (In this example, the output is %z before and %n after the optimization, %training is known to be false, and reads
// are shown inline.) Branches are chosen before the search for assigned variables. The rewrites in lookups.cpp and
// absorb.cpp run last.
#include "compiler/inference.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/rule.h"
#include "core/definition.h"
#include "core/wide.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

bool are_constants_from(size_t first, const Rewriter& r, const Operation& operation) {
  return std::all_of(operation.inputs.begin() + static_cast<ptrdiff_t>(first), operation.inputs.end(),
                     [&](const Tensor* input) { return r.seen(input)->operation->is("constant"); });
}

// Like rewrite(), but also removes operations that only have effects, such as assigns and prints, because inference
// needs only the outputs.
void rewrite_needed(Program& program, const Rewriter::Visit& visit) {
  std::vector<const Operation*> roots;
  for (const auto* tensors : {&program.feeds, &program.targets, &program.variables})
    for (const Tensor* tensor : *tensors) roots.push_back(tensor->operation);
  const std::vector<bool> needed = needed_by(*program.graph, roots);
  Rewriter rewriter(*program.graph, needed, visit);
  rewriter.copy_operations(program.graph->root());
  if (rewriter.is_untouched()) return sweep(*program.graph, needed);
  program.feeds = rewriter.now(program.feeds);
  program.targets = rewriter.now(program.targets);
  program.variables = rewriter.now(program.variables);
  program.graph = rewriter.take_graph();
}

// The part of the user's graph on which the outputs depend, with known placeholders replaced with constants.
Program needed_part(const Graph& graph, const std::vector<Tensor*>& inputs, const std::vector<Tensor*>& outputs,
                    const KnownValues& known) {
  std::vector<const Operation*> roots;
  for (const auto* tensors : {&inputs, &outputs})
    for (const Tensor* tensor : *tensors) roots.push_back(tensor->operation);
  Program program;
  Rewriter rewriter(
      graph, needed_by(graph, roots), [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
        if (!operation.is("placeholder")) return {};
        const auto found = known.find(operation.output());
        if (found != known.end()) return std::vector<Tensor*>{r.constant(operation, found->second)};
        if (std::ranges::find(inputs, operation.output()) != inputs.end()) return {};
        throw GraphError(cat("[optimize_for_inference] the outputs depend on the placeholder '", operation.name,
                             "', which is not an input: add it to the inputs, or pass its value as ", "known={\"",
                             operation.name, "\": ...}", operation.where()));
      });
  rewriter.copy_operations(graph.root());
  for (const Tensor* input : inputs)
    if (!known.count(input)) program.feeds.push_back(rewriter.now(input));
  program.targets = rewriter.now(outputs);
  for (const Tensor* variable : graph.variables()) {
    if (!rewriter.has(*variable->operation)) continue;
    program.variables.push_back(rewriter.now(variable));
    program.source_variables.push_back(const_cast<Tensor*>(variable));
  }
  program.graph = rewriter.take_graph();
  return program;
}

// Matches dropout in the form created by Graph.dropout, x · (cast(u >= rate) / (1 - rate)) with random u, and returns
// x; otherwise null.
const Tensor* source_of_dropout(const Operation& operation) {
  using enum Capture;
  static const Pattern dropout = op(
      "multiplication", x, op("division", op("cast", op("greater_than_or_equal_to", y, z)), op("subtraction", any, z)));
  Captured found{};
  if (!operation.is("multiplication") || !dropout.matches(operation.output(), found)) return nullptr;
  const Tensor* uniform = found[y];
  while (uniform->operation->is("identity")) uniform = uniform->operation->input(0);
  const Operation& random = *uniform->operation;
  const bool fits = random.is("random") && random.attributes.string("distribution") == "uniform" &&
                    found[x]->type == operation.output()->type;
  return fits ? found[x] : nullptr;
}

// Creates one copy of the graph, and resolves whatever can be determined from an operation and its operands.
class Settle {
 public:
  Rewriter::Replacement operator()(Rewriter& r, const Operation& operation) {
    if (const Tensor* source = source_of_dropout(operation)) return changed({r.now(source)});
    if (operation.is("identity") && operation.control_dependencies.empty()) return changed({r.now(operation.input(0))});
    if (auto taken = taken_branch(r, operation)) return changed(std::move(*taken));
    if (operation.is("normalization") && are_constants_from(1, r, operation)) {
      Builder b(r.graph());
      return changed(decomposed(b, operation, r.now(operation.inputs)));
    }
    if (operation.inputs.empty() || !are_constants_from(0, r, operation)) return {};
    if (operation.is("split") && operation.inputs.size() == 1) return parts(r, operation, r.now(operation.input(0)));
    return is_to_be_folded(operation) ? folded_whole(r, operation, r.now(operation.inputs)) : std::nullopt;
  }
  bool any_change() const { return changed_; }

 private:
  Rewriter::Replacement changed(std::vector<Tensor*> results) {
    changed_ = true;
    return results;
  }

  // Splits a constant, such as the gates of a recurrent layer's weights, into slices, each of which can be folded.
  Rewriter::Replacement parts(Rewriter& r, const Operation& operation, Tensor* whole) {
    const Dims& dims = whole->type.shape.dims();
    const auto rank = static_cast<int64_t>(dims.size()), axis = (operation.attributes.integer("axis") + rank) % rank;
    Ints starts(dims.size(), 0), ends = dims;
    const Ints strides(dims.size(), 1);
    ends[axis] = 0;
    std::vector<Tensor*> slices;
    for (const auto& output : operation.outputs) {
      ends[axis] += output->type.shape.dims()[axis];
      slices.push_back(r.graph().add("slice", {whole}, {{"starts", starts}, {"ends", ends}, {"strides", strides}}));
      starts[axis] = ends[axis];
    }
    return changed(std::move(slices));
  }

  // Whether an operation may be folded at this stage. The dequantization of weights is not folded.
  static bool is_to_be_folded(const Operation& operation) {
    const bool pure = !is_effect(operation) && operation.blocks.empty() && operation.outputs.size() == 1;
    if (!pure || operation.is({"read", "random"})) return false;
    // int32 operands of a dequantize operation are biases, so the operation is folded; weights stay quantized.
    return !operation.kind().name().starts_with("dequantize") || operation.input(0)->dtype() == DType::int32;
  }

  Rewriter::Replacement folded_whole(Rewriter& r, const Operation& operation, const std::vector<Tensor*>& inputs) {
    // Equal operations on the same weight share one constant.
    const auto [first, last] = made_.equal_range(inputs[0]);
    for (auto made = first; made != last; ++made) {
      const Made& one = made->second;
      const bool same = one.kind == operation.kind() && one.inputs == inputs && one.attributes == operation.attributes;
      if (same && one.constant->operation->parent->encloses(&r.graph().current_block())) return changed({one.constant});
    }
    if (auto constants = folded(r, operation)) return changed({remembered(operation, inputs, constants->front())});
    int64_t operands = 0;
    std::vector<ConstantPtr> values;
    for (const Tensor* input : inputs) {
      values.push_back(*constant_of(input));
      operands += values.back()->elements();
    }
    const Shape& shape = operation.output()->type.shape;
    constexpr int64_t small = 4096;
    if (!shape.known() || shape.elements() > std::max(small, operands)) return {};
    if (operation.definition->decompose) {
      Builder b(r.graph());
      return changed(decomposed(b, operation, inputs));
    }
    ConstantPtr value = computed(operation.kind(), values, operation.attributes);
    if (!value) return {};
    return changed({remembered(operation, inputs, r.constant(operation, std::move(value)))});
  }

  Tensor* remembered(const Operation& operation, const std::vector<Tensor*>& inputs, Tensor* constant) {
    made_.emplace(inputs[0], Made{operation.kind(), inputs, operation.attributes, constant});
    return constant;
  }

  struct Made {
    Kind kind;
    std::vector<Tensor*> inputs;
    Attributes attributes;
    Tensor* constant;
  };

  // Constants created in this copy of the graph, keyed by the first operand of the operation that they replace.
  std::unordered_multimap<const Tensor*, Made> made_;
  bool changed_ = false;
};

void settle(Program& program) {
  for (bool again = true; again;) {  // each change removes or expands an operation, so the loop ends
    Settle round;
    rewrite_needed(program, std::ref(round));
    again = round.any_change();
  }
}

// If no remaining operation assigns a variable, replaces the variable with a constant. All other variables start with
// their current values.
void freeze(Program& program, const KnownValues& known) {
  std::unordered_set<const Tensor*> assigned;
  any_operation(program, [&](const Operation& operation) {
    if (operation.is("assign")) assigned.insert(operation.input(0));
    return false;
  });
  std::unordered_map<const Tensor*, ConstantPtr> frozen, kept;
  std::vector<Tensor*> variables, sources;
  for (size_t i = 0; i < program.variables.size(); ++i) {
    Tensor *variable = program.variables[i], *source = program.source_variables[i];
    const auto value = known.find(source);
    if (value != known.end()) (assigned.count(variable) ? kept : frozen)[variable] = value->second;
    if (!frozen.count(variable)) variables.push_back(variable), sources.push_back(source);
  }
  program.variables = std::move(variables);
  program.source_variables = std::move(sources);
  std::unordered_map<const Tensor*, Tensor*> made;  // the constant for each variable, shared by all its reads
  rewrite_needed(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (operation.is("variable") && kept.count(operation.output())) {
      Tensor* copy = r.clone(operation)->output();
      copy->operation->attributes.set("value", kept.at(operation.output()));
      return std::vector<Tensor*>{copy};
    }
    if (operation.is("variable") && frozen.count(operation.output())) {
      Tensor*& constant = made[operation.output()] = r.constant(operation, frozen.at(operation.output()));
      return std::vector<Tensor*>{constant};
    }
    if (!operation.is("read") || !frozen.count(operation.input(0))) return {};
    return std::vector<Tensor*>{made.at(operation.input(0))};
  });
}

// Removes variables that are no longer read.
void drop_unused_variables(Program& program) {
  std::vector<const Operation*> roots;
  for (const Tensor* target : program.targets) roots.push_back(target->operation);
  const std::vector<bool> needed = needed_by(*program.graph, roots);
  std::vector<Tensor*> variables, sources;
  for (size_t i = 0; i < program.variables.size(); ++i) {
    if (!needed[static_cast<size_t>(program.variables[i]->operation->id)]) continue;
    variables.push_back(program.variables[i]), sources.push_back(program.source_variables[i]);
  }
  program.variables = std::move(variables);
  program.source_variables = std::move(sources);
  rewrite_needed(program, [](Rewriter&, const Operation&) { return std::nullopt; });
}

// Converts convolution weights from channels first to channels last, the order in which devices read them. A package
// then stores the weights in this order, so the constants that a device prepares ahead of time are those of the
// package, and not reordered copies of them.
void turn_weights(Program& program) {
  const Block* root = &program.graph->root();
  const auto has_channels_first = [&](const Operation& operation) {
    return operation.parent == root && operation.is("convolution2d") && operation.control_dependencies.empty() &&
           operation.attributes.string("weights_layout") == "OIHW" && constant_of(operation.input(1));
  };
  if (!any_operation(program, has_channels_first)) return;
  std::unordered_map<const Tensor*, Tensor*> turned;
  rewrite_needed(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (!has_channels_first(operation)) return {};
    const std::vector<Tensor*> inputs = r.now(operation.inputs);
    const ConstantPtr* value = constant_of(inputs[1]);
    Tensor*& weights = turned[inputs[1]];
    if (!weights) {
      const ConstantPtr hwio = computed("transpose", {*value}, {{"permutation", Ints{2, 3, 1, 0}}});
      if (!hwio) return {};
      weights = r.constant(*inputs[1]->operation, hwio);
    }
    Attributes attributes = operation.attributes;
    attributes.set("weights_layout", std::string("HWIO"));
    return std::vector<Tensor*>{r.create(operation, operation.kind(), {inputs[0], weights}, attributes)->output()};
  });
}

}  // namespace

Program optimize_for_inference(const Graph& graph, const std::vector<Tensor*>& inputs,
                               const std::vector<Tensor*>& outputs, const KnownValues& known) {
  Program program = needed_part(graph, inputs, outputs, known);
  settle(program);  // Branches are chosen before the search for assigns.
  drop_unused_variables(program);
  freeze(program, known);
  settle(program);
  sweep(program);
  project_lookups(program);
  absorb(program);
  drop_unused_variables(program);
  turn_weights(program);
  return program;
}

}  // namespace mpsgraph::compiler
