// Templates of the programs of one graph, from which programs for new sizes are made without running compiler passes.
//
// Two complete compilations of the same targets for different sizes give a template (compiler/size_template.h). All
// functions may be called from any thread.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compiler/retyping.h"
#include "compiler/size_template.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::runtime {

class CompiledProgram;

// What an executable stores about its program before the passes run.
struct ProgramTraits {
  bool excludes = false;  // whether a run excludes all other runs of the graph
  bool open_ended = false;  // whether the duration of a run depends on values
};

class SizeTemplates {
 public:
  using Found = std::pair<compiler::Program, ProgramTraits>;

  // The optimized program for these feeds; nullopt if no template applies.
  std::optional<Found> find(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                            const std::vector<Operation*>& target_operations);
  // Records a complete compilation for these feeds.
  void add(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
           const std::vector<Operation*>& target_operations, std::shared_ptr<CompiledProgram> compiled,
           ProgramTraits traits);
  void clear();

 private:
  using Key = std::vector<const void*>;
  struct Sample {
    std::vector<Feed> feeds;
    std::shared_ptr<CompiledProgram> compiled;
  };
  struct Entry {
    std::vector<Feed> first, second;  // the feeds of both compilations
    std::shared_ptr<CompiledProgram> compiled;  // of the first; owns the program that the template copies
    std::unique_ptr<compiler::SizeTemplate> size_template;
  };
  struct Group {
    std::optional<Sample> last;
    std::list<Entry> entries;  // most recently used first
    std::unique_ptr<compiler::Retyping> retyping;
    ProgramTraits traits;
    int failures = 0;  // pairs of compilations without a template since the last template
  };
  static Key key(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                 const std::vector<Operation*>& target_operations);

  std::mutex mutex_;
  std::map<Key, Group> groups_;
};

}  // namespace mpsgraph::runtime
