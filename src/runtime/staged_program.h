// A program whose rest is compiled while it runs, when the values that decide about shapes or branches are there.
//
// Compiled rests are kept by these values, the most recently used first and not many: values that come again cost one
// look-up. Runs that compile must exclude all others of the graph, because compiling may move variables: where
// something comes before the rest all runs must, else those of which `compiles` says so.
#pragma once

#include <functional>
#include <list>
#include <mutex>

#include "runtime/backend.h"

namespace mpsgraph::runtime {

// From a program, whether or not it has a rest, to something that runs.
using CompileProgram = std::function<std::unique_ptr<CompiledProgram>(compiler::Program)>;

class StagedProgram final : public CompiledProgram {
 public:
  // `first`: null when nothing comes before the rest.
  StagedProgram(std::unique_ptr<CompiledProgram> first, size_t first_targets,
                std::shared_ptr<const compiler::Rest> rest, CompileProgram compile);

  void run(std::span<const NDArray> feeds, std::span<NDArray> results) override;
  bool stale() const override { return first_ && first_->stale(); }  // stale rests are compiled anew when needed
  bool compiles(std::span<const NDArray> feeds) const override;
  size_t arena_bytes() const override { return own_arena_bytes() + shared_bytes(); }
  size_t own_arena_bytes() const override;
  size_t shared_bytes() const override;
  size_t constant_bytes() const override;
  std::vector<std::string> kernel_names() const override;
  std::string plan() const override;

 private:
  using Values = std::vector<ConstantPtr>;
  struct Known {
    Values values;
    std::vector<TensorType> types;  // of the rest's targets
    std::shared_ptr<CompiledProgram> program;
  };
  Known rest_for(std::span<const NDArray> feeds);
  std::list<Known>::const_iterator find(std::span<const NDArray> feeds) const;  // with mutex_ held
  std::vector<Known> known() const;

  const std::unique_ptr<CompiledProgram> first_;
  const size_t first_targets_;
  const std::shared_ptr<const compiler::Rest> rest_;
  const CompileProgram compile_;
  mutable std::mutex mutex_;  // guards the list
  std::list<Known> known_;  // most recently used first
};

}  // namespace mpsgraph::runtime
