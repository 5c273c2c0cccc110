// Assigns layouts to values: determines which values can share a layout, and selects this layout.
#include "backends/cpu/variable_layouts.h"

#include <algorithm>

#include "backends/cpu/convolution/convolution_taps.h"
#include "compiler/program.h"

namespace mpsgraph::cpu {
namespace {

using Users =
    // each user of a tensor, as (operation, operand index)
    std::unordered_map<const Tensor*, std::vector<std::pair<const Operation*, size_t>>>;

void collect_users(const mpsgraph::Block& block, Users& users) {
  for (const auto& operation : block.operations) {
    for (size_t i = 0; i < operation->inputs.size(); i++) users[operation->inputs[i]].push_back({operation.get(), i});
    // the body of a fused operation refers only to the operation's arguments
    if (operation->is("fused_elementwise")) continue;
    for (const auto& inner : operation->blocks) collect_users(*inner, users);
  }
  for (const Tensor* result : block.results) users[result].push_back({nullptr, 0});
}

bool reads_weights(const Operation& operation, size_t operand) {
  const auto reads = [&](const ConvolutionKinds& k) {
    return operation.is(k.forward) || operation.is(k.data_gradient);
  };
  return operand == 1 && (operation.is("fused_convolution2d") ||
                          std::any_of(std::begin(convolution_kinds), std::end(convolution_kinds), reads));
}

bool makes_weights(const Operation& operation) {
  const auto makes = [&](const ConvolutionKinds& k) { return operation.is(k.weights_gradient); };
  return std::any_of(std::begin(convolution_kinds), std::end(convolution_kinds), makes);
}

// The values connected to a variable through operations that work in any layout. `valid` is false if some other
// operation reads or computes one of these values.
class Neighbourhood {
 public:
  Neighbourhood(const compiler::Program& program, const Users& users, const Tensor* start)
      : program_(program), users_(users) {
    add(start);
    while (valid && !todo_.empty()) {
      const Tensor* tensor = todo_.back();
      todo_.pop_back();
      look_at_maker(*tensor);
      look_at_users(*tensor);
    }
  }

  bool valid = true;
  std::vector<const Tensor*> values;
  const Operation* convolution = nullptr;  // an operation that reads these values as weights

 private:
  void add(const Tensor* tensor) {
    if (!values.empty() && tensor->type != values.front()->type) {
      valid = false;
      return;
    }
    if (std::find(values.begin(), values.end(), tensor) != values.end()) return;
    values.push_back(tensor);
    todo_.push_back(tensor);
    for (const Tensor* target : program_.targets) valid = valid && target != tensor;
  }

  // All operands and results of a fused element-wise kernel must share the layout, except single-element operands.
  void add_region(const Operation& operation) {
    for (const auto& block : operation.blocks)
      for (const auto& inner : block->operations)
        if (!inner->is("argument") && inner->output()->type.shape != values.front()->type.shape) valid = false;
    for (const Tensor* in : operation.inputs)
      if (in->type.shape.elements() != 1) add(in);
    for (const auto& output : operation.outputs) add(output.get());
  }
  static bool is_region(const Operation& operation) {
    return operation.is("fused_elementwise") || operation.definition->elementwise;
  }

  void look_at_maker(const Tensor& tensor) {
    const Operation& operation = *tensor.operation;
    if (operation.parent->owner)
      valid = false;
    else if (is_region(operation))
      add_region(operation);
    else if (operation.is("read"))
      add(operation.input(0));
    else if (operation.is("constant"))
      valid = valid && operation.attributes.data("value")->is_splat();
    else if (!operation.is("variable") && !makes_weights(operation))
      valid = false;
  }

  void look_at_users(const Tensor& tensor) {
    const auto found = users_.find(&tensor);
    if (found == users_.end()) return;
    for (const auto& [user, operand] : found->second) {
      if (!user || user->parent->owner)
        valid = false;
      else if (is_region(*user))
        add_region(*user);
      else if (user->is("read"))
        add(user->output());
      else if (user->is("assign"))
        add(user->input(0)), add(user->input(1));
      else if (reads_weights(*user, operand))
        convolution = convolution && !convolution->kind().ends_with("_data_gradient") ? convolution : user;
      else
        valid = false;
      if (!valid) return;
    }
  }

  const compiler::Program& program_;
  const Users& users_;
  std::vector<const Tensor*> todo_;
};

// Return the plan of a convolution, fused or not, or of its gradient with respect to the input.
ConvolutionPlan plan_of(const Operation& convolution) {
  const bool forward = !convolution.kind().ends_with("_data_gradient");
  const Dims& first = convolution.input(0)->type.shape.dims();
  const Dims& result = convolution.output()->type.shape.dims();
  return {ops::Convolution(convolution.attributes), forward ? first : result, convolution.input(1)->type.shape.dims(),
          forward ? result : first};
}

}  // namespace

Layouts choose_home_layouts(const compiler::Program& program, const std::vector<LayoutPtr>& present, bool allow_new) {
  const auto may_be_packed = [](const Tensor* variable) {
    return variable->type.shape.rank() >= 4 && variable->type.dtype == DType::float32;
  };
  if (std::ranges::none_of(program.variables, may_be_packed)) return {};
  Users users;
  collect_users(program.graph->root(), users);
  Layouts layouts;
  std::unordered_map<const Tensor*, size_t> variable_index;
  for (size_t i = 0; i < program.variables.size(); i++) variable_index[program.variables[i]] = i;
  for (size_t i = 0; i < program.variables.size(); i++) {
    const Tensor* variable = program.variables[i];
    if (layouts.count(variable) || !may_be_packed(variable)) continue;
    const Neighbourhood around(program, users, variable);
    if (!around.valid) continue;
    // Some of the variables may already have a packed layout. Variables with different packed layouts cannot be
    // connected.
    LayoutPtr home;
    bool agree = true, fresh = false;
    for (const Tensor* value : around.values) {
      const auto found = variable_index.find(value);
      if (found == variable_index.end()) continue;
      const LayoutPtr& has = present[found->second];
      if (!has)
        fresh = true;
      else if (!home)
        home = has;
      else
        agree = agree && same_layout(home, has);
    }
    if (!home && allow_new && around.convolution && !runs_by_taps(plan_of(*around.convolution), variable->type.dtype))
      home = wanted_weights_layout(*around.convolution);
    if (!home || !agree || (fresh && !allow_new)) continue;
    for (const Tensor* value : around.values) layouts[value] = home;
  }
  return layouts;
}

}  // namespace mpsgraph::cpu
