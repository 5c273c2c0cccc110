// Choice of branches by fed flags. If the predicates of some `if`s of a program depend only on fed scalar bools
// (flags), the program is replaced with an empty program whose continuation (Rest) is the original one. The
// continuation is specialized once for each combination of flag values, as soon as these values are known.
//
//   %flag = placeholder; %y = if(%flag) {a} {b}     ->     flag true: %y = a;  flag false: %y = b
// An `if` on a flag such as `is_training` therefore costs nothing, and fusion and memory planning see straight-line
// code. Each flag doubles the number of possible programs, so a program with many flags is left unchanged.
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "compiler/passes.h"
#include "core/definition.h"

namespace mpsgraph::compiler {
namespace {

constexpr size_t max_flags = 3;

using Flags = std::set<size_t>;  // indices into the program's feeds

// Finds the fed flags on which the predicates of `if`s depend.
class FlagFinder {
 public:
  explicit FlagFinder(const std::vector<Tensor*>& feeds) {
    for (size_t i = 0; i < feeds.size(); ++i) feeds_[feeds[i]] = i;
  }

  Flags of_predicates(const Block& block) {
    Flags flags;
    for (const auto& operation : block.operations) {
      if (operation->is("if")) {
        if (const auto& found = of(*operation->input(0))) flags.insert(found->begin(), found->end());
      }
      for (const auto& inner : operation->blocks) flags.merge(of_predicates(*inner));
    }
    return flags;
  }

 private:
  // The fed flags (scalar bools) on which the tensor depends; nullopt if it also depends on anything else.
  const std::optional<Flags>& of(const Tensor& tensor) {
    if (const auto found = known_.find(&tensor); found != known_.end()) return found->second;
    std::optional<Flags> flags = find(tensor);
    return known_[&tensor] = std::move(flags);
  }

  std::optional<Flags> find(const Tensor& tensor) {
    const Operation& operation = *tensor.operation;
    if (operation.is("constant")) return Flags{};
    if (tensor.dtype() != DType::boolean || tensor.shape().elements() != 1) return std::nullopt;
    if (const auto fed = feeds_.find(&tensor); fed != feeds_.end()) return Flags{fed->second};
    if (operation.inputs.empty() || !operation.blocks.empty() || is_effect(operation)) return std::nullopt;
    Flags flags;
    for (const Tensor* input : operation.inputs) {
      const auto& found = of(*input);
      if (!found) return std::nullopt;
      flags.insert(found->begin(), found->end());
    }
    return flags;
  }

  std::unordered_map<const Tensor*, size_t> feeds_;
  std::unordered_map<const Tensor*, std::optional<Flags>> known_;
};

}  // namespace

std::shared_ptr<const Rest> rest_of_flags(Program& program) {
  if (program.rest) return nullptr;
  const Flags flags = FlagFinder(program.feeds).of_predicates(program.graph->root());
  if (flags.empty() || flags.size() > max_flags) return nullptr;
  auto rest = std::make_shared<Rest>();
  rest->graph = std::move(program.graph);
  rest->feeds = std::move(program.feeds);
  for (size_t i = 0; i < rest->feeds.size(); ++i) rest->sources.push_back({true, i});
  rest->deciding.assign(flags.begin(), flags.end());
  rest->targets = std::move(program.targets);
  rest->late.resize(rest->targets.size());
  std::iota(rest->late.begin(), rest->late.end(), 0);
  rest->target_operations = std::move(program.target_operations);
  rest->variables = std::move(program.variables);
  rest->source_variables = std::move(program.source_variables);
  return rest;
}

}  // namespace mpsgraph::compiler
