// A program in parts: cut where an operation runs by itself, for devices whose programs cannot hold it.
//
// Parts run one after the other, in the order of the program, so that what reads and assigns variables sees what it did
// before. Values go from one part to the next by numbers; the first of them are the program's feeds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

struct Part {
  std::optional<Program> program;  // none: `alone` runs
  const Operation* alone = nullptr;  // of the whole program's graph
  std::vector<size_t> operands;  // values that it is fed with
  std::vector<size_t> results;  // values that its targets are
};

struct Parts {
  std::unique_ptr<Graph> graph;  // of the whole program
  std::vector<TensorType> values;
  std::map<size_t, ConstantPtr> constants;  // values that are known
  std::vector<Part> parts;
  std::vector<size_t> targets;  // the value of each of the program's, no two the same
};

// Cuts before and behind every operation of the root block for which `alone` says true.
Parts cut_into_parts(Program program, bool (*alone)(const Operation&));

}  // namespace mpsgraph::compiler
