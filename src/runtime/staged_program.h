// A program whose rest is compiled during the run, once the values that determine shapes or branches are available.
//
// The most recently used compiled rests are kept, keyed by these values, so that repeated values cost only a lookup. A
// run that compiles must exclude all other runs of the graph, because compilation may move variables to a different
// memory layout. If there is a first part before the rest, every run must exclude all other runs; otherwise, only a run
// for which `compiles` returns true must do so.
#pragma once

#include <functional>
#include <list>
#include <mutex>

#include "runtime/backend.h"

namespace mpsgraph::runtime {

// Compiles a program, with or without a rest, into a program that can run.
using CompileProgram = std::function<std::unique_ptr<CompiledProgram>(compiler::Program)>;

class StagedProgram final : public CompiledProgram {
 public:
  // `first` is null if nothing precedes the rest.
  StagedProgram(std::unique_ptr<CompiledProgram> first, size_t first_targets,
                std::shared_ptr<const compiler::Rest> rest, CompileProgram compile);

  void run(std::span<const NDArray> feeds, std::span<NDArray> results) override;
  // Stale rests are recompiled only when they are needed.
  bool stale() const override { return first_ && first_->stale(); }
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
    std::vector<TensorType> types;  // types of the targets of the rest
    std::shared_ptr<CompiledProgram> program;
  };
  Known rest_for(std::span<const NDArray> feeds);
  std::list<Known>::const_iterator find(std::span<const NDArray> feeds) const;  // The caller must hold mutex_.
  std::vector<Known> known() const;

  const std::unique_ptr<CompiledProgram> first_;
  const size_t first_targets_;
  const std::shared_ptr<const compiler::Rest> rest_;
  const CompileProgram compile_;
  mutable std::mutex mutex_;  // protects known_
  std::list<Known> known_;  // compiled rests, most recently used first
};

}  // namespace mpsgraph::runtime
