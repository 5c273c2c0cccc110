// Splits a program into parts, and determines which values are passed between them.
#include "compiler/parts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/rewrite.h"

namespace mpsgraph::compiler {
namespace {

bool is_given(const Operation& operation) { return operation.is({"constant", "placeholder", "variable"}); }

class Cutter {
 public:
  Cutter(Program program, bool (*alone)(const Operation&)) : whole_(std::move(program)), alone_(alone) {}

  Parts run() {
    for (const Tensor* feed : whole_.feeds) number(feed);
    divide();
    for (size_t i = 0; i < runs_.size(); ++i)
      for (const Operation* operation : runs_[i]) home_[operation] = i;
    choose_targets();
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].size() == 1 && alone_(*runs_[i][0]))
        add_alone(*runs_[i][0]);
      else
        add_program(i);
    }
    parts_.graph = std::move(whole_.graph);
    return std::move(parts_);
  }

 private:
  // Divides the operations of the root block into consecutive groups, the entries of runs_, each of which becomes a
  // part. An operation that must run by itself forms its own group. The last group always becomes a program, even if it
  // is empty, and also returns the targets that no other part computes.
  void divide() {
    runs_.emplace_back();
    for (const auto& operation : whole_.graph->root().operations) {
      if (is_given(*operation)) continue;
      if (!alone_(*operation)) {
        runs_.back().push_back(operation.get());
        continue;
      }
      if (!runs_.back().empty()) runs_.emplace_back();
      runs_.back().push_back(operation.get());
      runs_.emplace_back();
    }
  }

  // Assigns a value number to each target. If a part computes the target, this is the number of the part's result.
  // Targets that are feeds, constants, or variables, and repeated targets, get the number of a copy that the last part
  // makes.
  void choose_targets() {
    std::unordered_set<const Tensor*> taken;
    for (const Tensor* target : whole_.targets) {
      if (!is_given(*target->operation) && taken.insert(target).second) {
        parts_.targets.push_back(number(target));
        continue;
      }
      parts_.targets.push_back(parts_.values.size());
      parts_.values.push_back(target->type);
      copied_.emplace_back(target, parts_.targets.back());
    }
  }

  size_t number(const Tensor* tensor) {
    const auto [found, is_new] = numbers_.emplace(tensor, parts_.values.size());
    if (is_new) {
      parts_.values.push_back(tensor->type);
      if (tensor->operation->is("constant"))
        parts_.constants[found->second] = tensor->operation->attributes.data("value");
    }
    return found->second;
  }

  void add_alone(const Operation& operation) {
    Part part;
    part.alone = &operation;
    for (const Tensor* input : operation.inputs) part.operands.push_back(number(input));
    for (const auto& output : operation.outputs) part.results.push_back(number(output.get()));
    parts_.parts.push_back(std::move(part));
  }

  // The results of the operations in runs_[run] that are targets or that operations of later groups use.
  std::vector<const Tensor*> passed_on(size_t run) const {
    std::unordered_set<const Tensor*> used;
    for (size_t later = run + 1; later < runs_.size(); ++later)
      for (const Operation* operation : runs_[later]) {
        used.insert(operation->inputs.begin(), operation->inputs.end());
        for (const Tensor* capture : operation->captures()) used.insert(capture);
      }
    used.insert(whole_.targets.begin(), whole_.targets.end());
    std::vector<const Tensor*> passed;
    for (const Operation* operation : runs_[run])
      for (const auto& output : operation->outputs)
        if (used.contains(output.get())) passed.push_back(output.get());
    return passed;
  }

  void add_program(size_t run) {
    const bool is_last = run + 1 == runs_.size();
    Part part;
    Program program;
    std::vector<bool> live(static_cast<size_t>(whole_.graph->operation_count()));
    for (const Operation* operation : runs_[run]) mark(*operation, live);
    Rewriter rewriter(*whole_.graph, live, [](Rewriter&, const Operation&) { return std::nullopt; });
    const auto import = [&](const Tensor* tensor) {
      const Operation& operation = *tensor->operation;
      const auto home = home_.find(&operation);
      if (home != home_.end() && home->second == run) return;
      // A tensor that is defined inside a block is used only inside that block. Only results of operations of the root
      // block are passed between parts.
      if (operation.parent != &whole_.graph->root()) return;
      if (operation.is({"constant", "variable"})) {
        if (rewriter.has(operation)) return;
        Operation* copy = rewriter.clone(operation);
        if (operation.is("constant")) return;
        program.variables.push_back(copy->output());
        const auto own = std::ranges::find(whole_.variables, tensor);
        program.source_variables.push_back(
            whole_.source_variables[static_cast<size_t>(own - whole_.variables.begin())]);
        return;
      }
      if (!imported_[run].insert(tensor).second) return;
      Tensor* feed = rewriter.graph().add("placeholder", {}, {{"type", tensor->type}}, operation.name);
      rewriter.stand_for(*tensor, feed);
      program.feeds.push_back(feed);
      const auto fed = std::ranges::find(whole_.feeds, tensor);
      const auto place = static_cast<size_t>(fed - whole_.feeds.begin());
      program.computed.push_back(fed == whole_.feeds.end() || (!whole_.computed.empty() && whole_.computed[place]));
      part.operands.push_back(number(tensor));
    };
    for (const Operation* operation : runs_[run]) {
      for (const Tensor* input : operation->inputs) import(input);
      for (const Tensor* capture : operation->captures()) import(capture);
    }
    if (is_last)
      for (const auto& [target, value] : copied_) import(target);
    rewriter.copy_operations(whole_.graph->root());
    for (const Tensor* tensor : passed_on(run)) {
      program.targets.push_back(rewriter.now(tensor));
      part.results.push_back(number(tensor));
    }
    if (is_last)
      for (const auto& [target, value] : copied_) {
        program.targets.push_back(rewriter.now(target));
        part.results.push_back(value);
      }
    for (const Operation* operation : whole_.target_operations)
      if (const auto home = home_.find(operation); home != home_.end() && home->second == run)
        program.target_operations.push_back(rewriter.now(operation));
    if (runs_[run].empty() && program.targets.empty()) return;
    program.graph = rewriter.take_graph();
    program.callables = whole_.callables;
    program.target = whole_.target;
    part.program = std::move(program);
    parts_.parts.push_back(std::move(part));
  }

  static void mark(const Operation& operation, std::vector<bool>& live) {
    live[static_cast<size_t>(operation.id)] = true;
    for (const auto& block : operation.blocks)
      for (const auto& inner : block->operations) mark(*inner, live);
  }

  Program whole_;
  bool (*const alone_)(const Operation&);
  Parts parts_;
  std::vector<std::vector<const Operation*>> runs_;
  std::unordered_map<const Operation*, size_t> home_;  // the index of the run that computes each operation
  std::unordered_map<const Tensor*, size_t> numbers_;
  std::unordered_map<size_t, std::unordered_set<const Tensor*>> imported_;
  std::vector<std::pair<const Tensor*, size_t>> copied_;  // targets that the last part copies
};

}  // namespace

Parts cut_into_parts(Program program, bool (*alone)(const Operation&)) {
  return Cutter(std::move(program), alone).run();
}

}  // namespace mpsgraph::compiler
